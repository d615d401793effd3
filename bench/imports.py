"""What `import weft` costs beside `import numpy`: seconds in fresh processes, the best of many, taken in turns.

Exits with 1 if weft takes more than twice as long as NumPy. Rooms are loaded by the first use of one of their names, so
the cost of all of them is shown too.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from pathlib import Path

SRC = Path(__file__).resolve().parent.parent / "src"
LIMIT = 2.0
STATEMENTS = ("import numpy", "import weft", "from weft import *")
_TIMED = "from time import perf_counter as now; start = now(); {}; print(now() - start)"


def seconds(statement: str) -> float:
    """How long a statement takes in a process of its own."""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(SRC), os.environ.get("PYTHONPATH", "")])}
    command = [sys.executable, "-c", _TIMED.format(statement)]
    return float(subprocess.run(command, env=env, capture_output=True, text=True, check=True).stdout)


def verdict(numpy: float, weft: float) -> tuple[bool, str]:
    passed = weft <= LIMIT * numpy
    said = "within" if passed else "OVER"
    shown = f"import numpy {1e3 * numpy:.1f} ms, import weft {1e3 * weft:.1f} ms: {weft / numpy:.2f} times"
    return passed, f"{shown}, {said} the limit of {LIMIT:.0f}"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rounds", type=int, default=15, help="imports of each (default 15)")
    rounds = parser.parse_args().rounds
    for statement in STATEMENTS:
        seconds(statement)  # the files are in memory from here on
    found = [[seconds(statement) for statement in STATEMENTS] for _ in range(rounds)]
    numpy, weft, rooms = map(min, zip(*found, strict=True))
    passed, text = verdict(numpy, weft)
    print(text)
    print(f"all its rooms, NumPy among what they need: {1e3 * rooms:.1f} ms")
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
