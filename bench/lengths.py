"""How compile time grows with the length of a program.

    python bench/lengths.py               a table, some minutes
    python bench/lengths.py --quick       the two shortest of each

A chain of pointwise operations, a loss of many terms, a concatenation of many parts, one of parameters, one statement
of many steps, updates, recurrences written out (a plain one and one with gates) and narrow layers; most with gradients.
Each figure is from a process of its own with empty caches: processor seconds of Python and of the C compiler, which do
not depend on what else the machine does, and the best time of a run, optimised and not. `growth` is how many times as
much Python did for each doubling.

The status is 1 if that is more than 2.5 somewhere, or optimised code runs slower than code that is not.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import resource
import subprocess
import sys
import tempfile
from dataclasses import asdict, dataclass
from time import perf_counter, process_time

from _long import PROGRAMS
from rich.console import Console
from rich.table import Table

import weft as wf

LENGTHS = {
    "chain": (2500, 5000, 10000, 20000),
    "terms": (150, 1000, 5000),
    "parts": (150, 800, 3000),
    "joined": (150, 600, 3000),
    "steps": (100, 200, 400),
    "updates": (500, 1000, 4000),
    "recurrence": (24, 48, 64, 400),
    "gates": (24, 48, 96),
    "layers": (100, 400, 1000),
}
MOST_GROWTH, SLACK = 2.5, 1.1
RUNS, RUN_S = 100, 1.0


@dataclass(frozen=True)
class Figure:
    python: float
    compiler: float
    kernels: int
    run: float


def one(kind: str, length: int, optimise: bool) -> Figure:
    """Compile and run a program in this process."""
    start = process_time()
    with wf.config.using(optimise=optimise):
        run = wf.Context("cc").compile(PROGRAMS[kind](length))
    python = process_time() - start
    children = resource.getrusage(resource.RUSAGE_CHILDREN)
    kernels = run.show("kernels").count("\nkernel ") + 1 if optimise else 0
    run()
    best, ends = math.inf, perf_counter() + RUN_S
    for _ in range(RUNS):
        before = perf_counter()
        run()
        best = min(best, perf_counter() - before)
        if perf_counter() > ends:
            break
    return Figure(python, children.ru_utime + children.ru_stime, kernels, best)


def started(kind: str, length: int, optimise: bool) -> Figure:
    """The same in a fresh process with empty caches."""
    command = [sys.executable, __file__, "--one", kind, str(length), *(["--plain"] if not optimise else [])]
    with tempfile.TemporaryDirectory() as cache:
        environment = {**os.environ, "WEFT_CACHE": cache}
        done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        raise SystemExit(f"{kind} of {length} failed:\n{done.stderr[-2000:]}")
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


def measure(kinds: list[str], most: int) -> tuple[Table, bool]:
    grid = Table(title="processor seconds to compile, and milliseconds of a run")
    for heading in ("program", "length", "kernels", "Python", "growth", "C compiler", "run", "not optimised"):
        grid.add_column(heading, justify="left" if heading == "program" else "right", no_wrap=True)
    passed = True
    for kind in kinds:
        before: tuple[int, float] | None = None
        for length in LENGTHS[kind][:most]:
            found, plain = started(kind, length, True), started(kind, length, False)
            doublings = math.log2(length / before[0]) if before else 0
            growth = (found.python / before[1]) ** (1 / doublings) if before else 0
            passed &= growth <= MOST_GROWTH and found.run <= SLACK * plain.run
            times = [f"{found.run * 1e3:.3f}", f"{plain.run * 1e3:.3f}"]
            row = [str(length), str(found.kernels), f"{found.python:.2f}", f"{growth:.2f}" if growth else ""]
            grid.add_row(kind, *row, f"{found.compiler:.2f}", *times)
            before = length, found.python
        grid.add_section()
    return grid, passed


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="the two shortest of each")
    parser.add_argument("--only", choices=list(PROGRAMS), action="append", help="only these programs")
    parser.add_argument("--one", nargs=2, metavar=("PROGRAM", "LENGTH"), help="one figure in this process, as JSON")
    parser.add_argument("--plain", action="store_true", help="with --one, not optimised")
    arguments = parser.parse_args()
    if arguments.one:
        kind, length = arguments.one
        print("\n" + json.dumps(asdict(one(kind, int(length), not arguments.plain))))
        return 0
    grid, passed = measure(arguments.only or list(PROGRAMS), 2 if arguments.quick else 4)
    Console(width=100).print(grid)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
