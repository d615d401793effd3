"""Run time against width, depth and batch: training steps of a perceptron and of a GPT, beside what is predicted.

    python bench/scaling.py                  both models, each size by itself while the others stay; a minute or two
    python bench/scaling.py --only mlp       one of them
    python bench/scaling.py --quick          fewer sizes and rounds

A prediction is the sum over kernels of the time of their operations, or of their bytes, whichever is longer, with what
`routine.cost()` counts and the speeds that compiled code reaches here: of operations on all cores, if threads share the
kernel, else on one; functions such as exponentials are so many more. The bytes of a buffer come from the nearest cache
that holds all that was touched since it was touched last. A call of a kernel is added, and what it takes until the
other cores have joined each loop that is shared. Steps take turns, and the best round of each counts.
`took / predicted` is about 1 where nothing else matters. Where it is above 2, or below a half, the kernels that are
farthest off are named, timed alone: what each took, and what was predicted for it, and by what.

Figures go to a file of JSON and, if matplotlib is installed, a plot.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Collection, Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from importlib.util import find_spec
from itertools import groupby, takewhile
from math import prod
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
from weft.loops import Buffer
from weft.loops.legality import is_shared
from weft.loops.walk import scoped
from weft.runtime.speeds import with_measured_speeds
from weft.schedule import Kernel
from weft.schedule.cost import Cost, assignments, computing_seconds, cost, memory_costs

ROUNDS, QUICK_ROUNDS = 100, 10
ROUND_S = 2e-3
#: A prediction that is so many times off is explained: by so many kernels, each the best of some runs.
OFF, SHOWN, PROFILED = 2.0, 3, 50


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
    why: Sequence[str] = ()

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


@dataclass(frozen=True, slots=True)
class Prediction:
    """The seconds of a kernel: of its operations, of its bytes, and of its call and of sharing it."""

    computing: float
    moving: float
    calling: float

    @property
    def seconds(self) -> float:
        return max(self.computing, self.moving) + self.calling

    def __str__(self) -> str:
        parts = [f"{1e6 * each:.1f} {what}" for what, each in (("operations", self.computing), ("bytes", self.moving))]
        return f"{1e6 * self.seconds:.1f} ({', '.join(parts)})"


def predicted(kernels: Sequence[Kernel], machine: wf.Machine) -> list[Prediction]:
    """Each kernel, as it runs in a step after others."""
    touched, costs = list(map(memory_costs, kernels)), list(map(cost, kernels))
    recent: dict[Buffer, None] = {}  # the latest last
    for buffers in touched:
        _touch(recent, buffers)
    found = []
    for kernel, one, buffers in zip(kernels, costs, touched, strict=True):
        shared = [prod(size for _, size in scope.loops) for stmt, scope in scoped(kernel.body) if is_shared(stmt)]
        cores = machine.cores if shared else 1
        own = sum(buffer.bytes for buffer in buffers)
        moving = sum(
            moved.footprint / _speed(own + _since(recent, buffer, buffers), machine, cores)
            for buffer, moved in buffers.items()
        )
        calling = 1e-9 * (machine.call_ns + sum(shared) * machine.round_ns)
        found.append(Prediction(computing_seconds(one, machine) / cores, moving, calling))
        _touch(recent, buffers)
    return found


def _touch(recent: dict[Buffer, None], buffers: Iterable[Buffer]) -> None:
    for one in buffers:
        recent.pop(one, None)
        recent[one] = None


def _since(recent: Iterable[Buffer], buffer: Buffer, beside: Collection[Buffer]) -> int:
    """The bytes of other buffers that were touched since one was."""
    later = takewhile(lambda one: one != buffer, reversed([*recent]))
    return sum(one.bytes for one in later if one not in beside)


def _speed(held: int, machine: wf.Machine, cores: int) -> float:
    """How many bytes some cores move in a second, of so many that are held."""
    if held > machine.caches[-1]:
        return machine.bytes_per_s  # memory is that of all of them
    return cores * machine.bytes_per_s_of(held // cores)


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
    """What a step takes, of so many in a row, after one that finds in the caches what another step left there."""
    step()
    start = perf_counter()
    for _ in range(count):
        step()
    return (perf_counter() - start) / count


def figure(along: str, sizes: Sizes, step: Any, took: float, machine: wf.Machine) -> Figure:
    costs = list(map(cost, step.kernels))
    each, total = predicted(step.kernels, machine), sum(costs, Cost())
    seconds = sum(one.seconds for one in each)
    found = Figure(along, sizes, total.flops, total.footprint, len(costs), took, seconds)
    return replace(found, why=explained(step, each, machine)) if found.is_off else found


def explained(step: Any, each: Sequence[Prediction], machine: wf.Machine) -> list[str]:
    """The kernels that take most beyond what was predicted, timed alone."""
    profile = step.profile(times=PROFILED, machine=machine)
    seconds = [one.seconds for one in profile.kernels]
    beyond = [abs(took - one.seconds) for took, one in zip(seconds, each, strict=True)]
    worst = sorted(range(len(each)), key=beyond.__getitem__, reverse=True)[:SHOWN]
    kernels = [
        f"kernel {at}: {1e6 * seconds[at]:.1f} µs, not {each[at]}: {assignments(step.kernels[at])}" for at in worst
    ]
    return [f"alone, its {len(each)} kernels take {1e6 * sum(seconds):.1f} µs", *kernels]


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
            lines = f"* {one.sizes.model}, {one.along} {one.at}: ", *one.why
            console.print("\n    ".join(lines), highlight=False, markup=False, soft_wrap=True)
    write(arguments.output, figures, machine)
    picture = arguments.output.with_suffix(".svg")
    drawn = plot(picture, figures)
    console.print(f"{arguments.output}{f', {picture}' if drawn else '; no plot without matplotlib'}", highlight=False)
    return 0


if __name__ == "__main__":
    sys.exit(main())
