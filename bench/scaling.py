"""Run time against width, depth and batch: training steps of a perceptron and of a GPT, beside what is predicted.

    python bench/scaling.py                  both models, each size by itself while the others stay; a minute or two
    python bench/scaling.py --only mlp       one of them
    python bench/scaling.py --quick          fewer sizes and rounds

A prediction is the sum over kernels of the time of their operations, or of their bytes, whichever is longer, with the
operations and bytes of `routine.cost()` and the speeds that compiled code reaches here, on all cores: of bytes, that
of the cache that holds what all kernels touch. A call of a kernel is added. Steps take turns, and the best round of
each counts. `took / predicted` is about 1 where nothing else matters. Where it is above 2, or below a half, the kernel
that is farthest off is named, timed alone: what it took, and what was predicted for it.

Figures go to a file of JSON and, if matplotlib is installed, a plot.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import groupby
from pathlib import Path
from time import perf_counter
from typing import Any

from _models import Perceptron, Problem, Transformer, gpt, mlp
from _models.of_weft import ready
from rich.console import Console
from rich.progress import track
from rich.table import Table

import weft as wf
from weft.backends.cc import Cc
from weft.runtime.speeds import with_measured_speeds
from weft.schedule.cost import Cost, assignments, cost, roofline

ROUNDS, QUICK_ROUNDS = 100, 10
ROUND_S = 2e-3
#: A prediction that is so many times off is explained.
OFF = 2.0


@dataclass(frozen=True, slots=True)
class Sizes:
    """A model: how wide its layers are, how many there are, how many examples it takes at once."""

    model: str
    width: int
    depth: int
    batch: int

    def problem(self) -> Problem:
        if self.model == "mlp":
            return mlp(Perceptron((*[self.width] * (self.depth + 1), 10), self.batch))
        heads = max(4, self.width // 64)
        return gpt(Transformer(self.depth, self.width, heads, self.batch, length=64, vocabulary=256), adam=True)


#: What each model has while another size changes, and the sizes it is tried with.
BASE = {"mlp": Sizes("mlp", 256, 3, 64), "gpt": Sizes("gpt", 128, 2, 4)}
TRIED = {
    "mlp": {"width": (16, 64, 256, 1024), "depth": (1, 3, 6, 12), "batch": (1, 8, 64, 512)},
    "gpt": {"width": (32, 64, 128, 256), "depth": (1, 2, 4), "batch": (1, 4, 16)},
}


@dataclass(frozen=True, slots=True)
class Figure:
    """A step as one size changes: what it takes, what is predicted of that, and why they differ, if they do much."""

    along: str
    sizes: Sizes
    flops: int
    moved: int
    kernels: int
    took: float
    predicted: float
    why: str = ""

    @property
    def ratio(self) -> float:
        return self.took / self.predicted

    @property
    def is_off(self) -> bool:
        return not 1 / OFF <= self.ratio <= OFF

    @property
    def at(self) -> int:
        return int(getattr(self.sizes, self.along))


def points(models: Sequence[str], quick: bool) -> Iterator[tuple[str, Sizes]]:
    for model in models:
        for along, tried in TRIED[model].items():
            for size in tried[:2] if quick else tried:
                yield along, replace(BASE[model], **{along: size})


def predicted(costs: Sequence[Cost], machine: wf.Machine) -> list[float]:
    """The seconds of each kernel, by its operations or its bytes, and of its call.

    What a kernel touches lies where all that the others touch meanwhile leaves it.
    """
    held = sum(one.footprint for one in costs)
    return [roofline(one, machine, held) + 1e-9 * machine.call_ns for one in costs]


def measure(tried: Sequence[tuple[str, Sizes]], rounds: int, machine: wf.Machine) -> list[Figure]:
    """All steps: they take turns, so that whatever else the machine does at some time is no matter of one size."""
    shown = Console(stderr=True)
    compiling = track(tried, "compiling", console=shown, transient=True)
    steps: list[Any] = [ready(sizes.model, sizes.problem()).step for _, sizes in compiling]
    counts = [max(1, int(ROUND_S / seconds(step, 1))) for step in steps]
    took = [float("inf")] * len(steps)
    for _ in track(range(rounds), "measuring", console=shown, transient=True):
        for at, (step, count) in enumerate(zip(steps, counts, strict=True)):
            took[at] = min(took[at], seconds(step, count))
    return [
        figure(along, sizes, step, best, machine) for (along, sizes), step, best in zip(tried, steps, took, strict=True)
    ]


def seconds(step: Any, count: int) -> float:
    """What a step takes, of so many in a row."""
    start = perf_counter()
    for _ in range(count):
        step()
    return (perf_counter() - start) / count


def figure(along: str, sizes: Sizes, step: Any, took: float, machine: wf.Machine) -> Figure:
    costs = list(map(cost, step.kernels))
    each, total = predicted(costs, machine), sum(costs, Cost())
    found = Figure(along, sizes, total.flops, total.footprint, len(costs), took, sum(each))
    return replace(found, why=explained(step, each, machine)) if found.is_off else found


def explained(step: Any, each: Sequence[float], machine: wf.Machine) -> str:
    """The kernel that takes most beyond what was predicted, timed alone."""
    profile = step.profile(times=5, machine=machine)
    seconds = [one.seconds for one in profile.kernels]
    worst = max(range(len(each)), key=lambda at: abs(seconds[at] - each[at]))
    what = assignments(step.kernels[worst])
    return f"kernel {worst} took {1e6 * seconds[worst]:.1f} µs, not {1e6 * each[worst]:.1f}: {what}"


def table(figures: Sequence[Figure], machine: wf.Machine) -> Table:
    speeds = f"{machine.cores * machine.flops_per_s * 1e-9:.0f} GF/s, {machine.bytes_per_s * 1e-9:.0f} GB/s"
    grid = Table(title=f"µs a training step; {machine.cores} cores, {speeds}, caches {_cached(machine)} GB/s")
    for heading in ("", "width", "depth", "batch", "kernels", "MFlop", "MB", "took", "predicted", "took / predicted"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for _, run in groupby(figures, lambda one: (one.sizes.model, one.along)):
        for one in run:
            sizes = [str(size) for size in (one.sizes.width, one.sizes.depth, one.sizes.batch)]
            work = [str(one.kernels), f"{one.flops * 1e-6:,.2f}", f"{one.moved * 1e-6:,.2f}"]
            times = [f"{1e6 * one.took:,.1f}", f"{1e6 * one.predicted:,.1f}", f"{one.ratio:.2f}{' *' * one.is_off}"]
            grid.add_row(f"{one.sizes.model}, {one.along} {one.at}", *sizes, *work, *times)
        grid.add_section()
    return grid


def _cached(machine: wf.Machine) -> str:
    speeds = machine.cached_bytes_per_s, machine.last_cached_bytes_per_s
    return " and ".join(f"{machine.cores * one * 1e-9:.0f}" for one in speeds)


def write(path: Path, figures: Sequence[Figure], machine: wf.Machine) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    rows = [{**asdict(one), "ratio": one.ratio} for one in figures]
    path.write_text(json.dumps({"machine": asdict(machine), "rows": rows}, indent=1, ensure_ascii=False) + "\n")


def plot(path: Path, figures: Sequence[Figure]) -> bool:
    """What a step takes and what is predicted, against each size. False if there is nothing to draw with."""
    if find_spec("matplotlib") is None:
        return False
    from matplotlib.figure import Figure as Canvas

    runs = [list(run) for _, run in groupby(figures, lambda one: (one.sizes.model, one.along))]
    canvas = Canvas(figsize=(4 * len(runs), 4), layout="constrained")
    for axes, run in zip(canvas.subplots(1, len(runs), squeeze=False)[0], runs, strict=True):
        at = [one.at for one in run]
        axes.plot(at, [1e6 * one.took for one in run], "o-", label="took")
        axes.plot(at, [1e6 * one.predicted for one in run], "s--", label="predicted")
        axes.set(xscale="log", yscale="log", xlabel=run[0].along, ylabel="µs a step", title=run[0].sizes.model)
        axes.legend()
    canvas.savefig(path)
    return True


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", choices=[*BASE], help="one of the models")
    parser.add_argument("--quick", action="store_true", help="fewer sizes and rounds")
    parser.add_argument("--output", type=Path, default=Path("out/scaling.json"), help="(default: %(default)s)")
    arguments = parser.parse_args()
    console = Console(width=140 if not sys.stdout.isatty() else None)
    machine, rounds = with_measured_speeds(wf.Machine.here(), Cc()), QUICK_ROUNDS if arguments.quick else ROUNDS
    tried = list(points([arguments.only] if arguments.only else [*BASE], arguments.quick))
    figures = measure(tried, rounds, machine)
    console.print(table(figures, machine))
    for one in figures:
        if one.is_off:
            console.print(f"* {one.sizes.model}, {one.along} {one.at}: {one.why}", highlight=False, markup=False)
    write(arguments.output, figures, machine)
    picture = arguments.output.with_suffix(".svg")
    drawn = plot(picture, figures)
    console.print(f"{arguments.output}{f', {picture}' if drawn else '; no plot without matplotlib'}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
