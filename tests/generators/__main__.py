"""A campaign of random programs: `python -m generators --help`, from tests/."""

from __future__ import annotations

import argparse
import os
import sys
import time
import traceback

from rich.progress import track

from backends.on_grid import OnGrid
from backends.simt_host import OnHost
from backends.triton_interpreted import InterpretedTriton
from generators import Check, attempt, generators
from weft import backends


def main() -> int:
    parser = argparse.ArgumentParser(prog="python -m generators", description="Check random programs.")
    parser.add_argument("--seed", type=int, default=0, help="draws of different seeds are independent")
    parser.add_argument("--count", type=int, default=1000, help="how many programs each generator draws")
    parser.add_argument("--start", type=int, default=0, help="the number of the first draw")
    parser.add_argument("--only", action="append", choices=sorted(generators()), help="this generator; may be repeated")
    parser.add_argument("--draw", metavar="SEED:NUMBER", help="one draw again, with its traceback")
    parser.add_argument("--simt", action="store_true", help="what is compiled in C runs on SIMT threads, on the host")
    parser.add_argument("--grid", action="store_true", help="what is compiled in C is cut for a GPU, and interpreted")
    parser.add_argument("--triton", action="store_true", help="the same, in Triton's interpreter, which is watched")
    parser.add_argument("--cuda", action="store_true", help="what is compiled in C runs on the GPU of this machine")
    options = parser.parse_args()
    if options.triton:
        os.environ["TRITON_INTERPRET"] = "1"
    instead = {"simt": OnHost, "grid": OnGrid, "triton": InterpretedTriton, "cuda": backends._BACKENDS["cuda"]}
    for name in (one for one in instead if getattr(options, one)):
        backends._BACKENDS["cc"] = instead[name]
        os.environ["WEFT_BACKEND"] = "cc"
    chosen = {name: check for name, check in generators().items() if not options.only or name in options.only}
    if options.draw:
        seed, number = map(int, options.draw.split(":"))
        for check in chosen.values():
            attempt(check, seed, number)
        return 0
    failures = 0
    for name, check in chosen.items():
        began = time.perf_counter()
        numbers = track(range(options.start, options.start + options.count), name, disable=not sys.stdout.isatty())
        failed = [number for number in numbers if _fails(check, options.seed, number)]
        failures += len(failed)
        print(
            f"{name}: {options.count} programs, {len(failed)} failed, {time.perf_counter() - began:.0f} s", flush=True
        )
        for number in failed:
            print(f"    python -m generators --only {name} --draw {options.seed}:{number}")
    return 1 if failures else 0


def _fails(check: Check, seed: int, number: int) -> bool:
    try:
        attempt(check, seed, number)
    except Exception:
        print(f"draw {seed}:{number}\n{traceback.format_exc()}", file=sys.stderr, flush=True)
        return True
    return False


if __name__ == "__main__":
    sys.exit(main())
