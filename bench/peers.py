"""weft against NumPy, PyTorch, torch.compile and jax.jit: products, convolutions, normalisation, training steps, …

    python bench/peers.py                                 every row on all processors; an hour, with torch.compile
    python bench/peers.py --quick                         less time for each row, without torch.compile
    python bench/peers.py --only softmax --threads 1      rows whose text contains that, on one thread
    python bench/peers.py --tuned                         comprehensions a second time, tuned for 10 s each
    python bench/peers.py "product 100x20x3000" "chain 1000"    rows of one's own sizes; `--kinds` lists what there is

Each contestant has a process of its own, stopped while others run, and as many processors as threads. All make a work
ready, and their answers are held against NumPy's, or PyTorch's, in double precision. Then they take turns: a round is
some milliseconds of each, and the best round counts. Whoever is not installed, or has no words for a work, is left out.

`best peer / weft` says how many times as fast as the best of them weft is, `wanted` how much it should be; of awkward
products, something is wanted of each and more in the geometric mean. What was tuned at other times is not used.
`of peak` is the least time the machine could take, by its operations or by the bytes of inputs and answers, over
weft's; its peak is measured in the same run, by a loop of multiplications and additions and by one that copies 4M
numbers. It can be 100% and more where data stays in a nearer cache than that of those. Inputs begin at cache lines, for
all alike: a table whose rows straddle two of them takes 1.4 times as long to read. Where the best peer is so near
to the peak that what is wanted cannot be, that is said, and so much of the peak is wanted instead (`max-plus`, and
comprehensions that are tuned).

Figures go to a file of JSON and, if matplotlib is installed, a plot. The status is 1 if weft is slower than wanted.
"""

from __future__ import annotations

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import numpy as np
from _peers import Array, Training
from _peers.contestants import CONTESTANTS
from _peers.peak import Peak
from _peers.process import Failed, Process
from _peers.report import Figure, passed, plot, summary, table, write
from _peers.table import KINDS, SEED, Row, rows, usage, work
from rich.console import Console
from rich.progress import Progress

ROUNDS, QUICK_ROUNDS = 20, 5
ROUND_S, QUICK_ROUND_S = 0.1, 0.03

#: How long a row is tuned where no time is given.
TUNED_S = 10.0

#: How far answers may lie apart, of the largest one. Losses are those of whole training steps.
TOLERANCE, LOSS_TOLERANCE = 1e-4, 1e-3


def measure(row: Row, processes: Sequence[Process], rounds: int, seconds: float) -> Figure:
    """Everybody's best round on one row."""
    given = work(row.text)
    figure = Figure(row, given.flops, given.moved or 0)
    answers = built(row, processes, figure)
    if not isinstance(given, Training) and given.moved is None and answers:
        moved = [*given.inputs.values(), *next(iter(answers.values()))]
        figure.moved = sum(one.nbytes for one in moved)
    tolerance = LOSS_TOLERANCE if isinstance(given, Training) else given.rounded or TOLERANCE
    compare(figure, answers, reference(row, processes), tolerance)
    taking_part = [one for one in processes if one.name in answers and one.name not in figure.failures]
    for turn in range(rounds):
        for one in taking_part if turn % 2 else taking_part[::-1]:
            found = one.round(seconds)
            figure.seconds[one.name] = min(found, figure.seconds.get(one.name, found))
    return figure


def built(row: Row, processes: Sequence[Process], figure: Figure) -> dict[str, list[Array]]:
    """What everybody finds who has words for it; who fails is noted."""
    found = {}
    for one in processes:
        try:
            answers = one.build(row.text, row.tuned)
        except Failed as error:
            figure.failures[one.name] = f"failed: {str(error)[:300]}"
            continue
        if answers is not None:
            found[one.name] = answers
    return found


def reference(row: Row, processes: Sequence[Process]) -> list[Array] | None:
    """The answers in double precision, of the first who can."""
    for name in ("numpy", "torch"):
        for one in processes:
            if one.name == name and (found := one.reference(row.text)) is not None:
                return found
    return None


def compare(figure: Figure, answers: dict[str, list[Array]], wanted: list[Array] | None, tolerance: float) -> None:
    """Note who finds something else; without a reference, something else than the first."""
    for name, found in answers.items():
        wanted = found if wanted is None else wanted
        for one, other in zip(found, wanted, strict=True):
            apart = np.abs(one.astype("float64").ravel() - other.astype("float64").ravel()).max()
            if not apart <= tolerance * max(np.abs(other).max(), 1e-30):
                figure.failures[name] = f"finds something else: {apart:g} apart, of {np.abs(other).max():g} at most"


def chosen(arguments: argparse.Namespace) -> list[Row]:
    if arguments.rows:
        return [Row(text, "own", 1.0) for text in arguments.rows]
    only, every = arguments.only, rows(arguments.seed, arguments.tuned)
    return [row for row in every if only in row.text or row.group in (only, f"tuned {only}")]


def contestants(console: Console, without: Sequence[str]) -> list[str]:
    """Who is here and wanted; who is missing is told."""
    missing = [name for name, (package, _) in CONTESTANTS.items() if find_spec(package) is None]
    if missing:
        console.print(f'not installed, and left out: {", ".join(missing)} (pip install "weft[bench]")', highlight=False)
    return [name for name in CONTESTANTS if name not in missing and name not in without]


def parsed() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rows", nargs="*", metavar="ROW", help="rows of one's own, instead of the table's")
    parser.add_argument("--only", default="", metavar="TEXT", help="rows whose text contains this, or of this group")
    parser.add_argument(
        "--threads", type=int, default=len(os.sched_getaffinity(0)), help="of each (default: %(default)s)"
    )
    parser.add_argument("--rounds", type=int, help=f"for each row ({ROUNDS}; {QUICK_ROUNDS} with --quick)")
    parser.add_argument("--seconds", type=float, help=f"of a round ({ROUND_S}; {QUICK_ROUND_S} with --quick)")
    parser.add_argument("--quick", action="store_true", help="fewer and shorter rounds, without torch.compile")
    tuned = f"comprehensions once more, tuned for so long (default: {TUNED_S:g})"
    parser.add_argument("--tuned", nargs="?", type=float, const=TUNED_S, default=0.0, metavar="SECONDS", help=tuned)
    parser.add_argument("--without", nargs="+", default=[], metavar="NAME", help=f"of {', '.join(CONTESTANTS)}")
    parser.add_argument("--seed", type=int, default=SEED, help="of the products that are drawn (default: %(default)s)")
    parser.add_argument("--output", type=Path, default=Path("out/peers.json"), help="(default: %(default)s)")
    parser.add_argument("--kinds", action="store_true", help="list the kinds of rows and how they are written")
    return parser.parse_args()


def run(arguments: argparse.Namespace, console: Console) -> list[Figure]:
    rounds = arguments.rounds or (QUICK_ROUNDS if arguments.quick else ROUNDS)
    seconds = arguments.seconds or (QUICK_ROUND_S if arguments.quick else ROUND_S)
    names = contestants(console, [*arguments.without, *(["torch.compile"] if arguments.quick else [])])
    figures: list[Figure] = []
    with ExitStack() as stack:
        bar = stack.enter_context(Progress(console=Console(stderr=True), transient=True))
        machine, *processes = (Process(name, arguments.threads) for name in ("machine", *names))
        for one in (machine, *processes):
            stack.callback(one.end)
        peak = Peak(0, 0)
        for row in bar.track(chosen(arguments)):
            figures.append(measure(row, processes, rounds, seconds))
            peak = peak.better(machine.peak())
            for one in figures:
                one.peak = peak
            write(arguments.output, figures, peak, arguments.threads)
    console.print(table(figures, names, peak, arguments.threads))
    return figures


def main() -> int:
    arguments = parsed()
    if arguments.kinds:
        print(*map(usage, KINDS), sep="\n")
        return 0
    if not chosen(arguments):
        print(f"no row contains {arguments.only!r}, and no group is called so", file=sys.stderr)
        return 2
    console = Console(width=160 if not sys.stdout.isatty() else None)
    figures = run(arguments, console)
    for line in summary(figures):
        console.print(line, highlight=False)
    picture = arguments.output.with_suffix(".svg")
    drawn = plot(picture, figures, arguments.threads)
    console.print(f"{arguments.output}{f', {picture}' if drawn else '; no plot without matplotlib'}", highlight=False)
    return 0 if passed(figures) else 1


if __name__ == "__main__":
    sys.exit(main())
