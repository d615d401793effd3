"""The demonstration: a classifier of two moons, trained while you watch, its decision boundary as text."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

import weft as wf

STEPS, BATCH, EPOCHS, WIDTH = 20, 50, 25, 16
#: How many points the picture has along each side.
PIXELS = 200
COLUMNS, ROWS = 60, 22
#: The part of the plane that is drawn: left, right, bottom, top.
FRAME = (-1.6, 2.6, -1.1, 1.6)

Array = npt.NDArray[np.float32]

PLANS: tuple[tuple[str, str, tuple[str, ...], dict[str, int]], ...] = (
    ("a matrix product: j is summed because the result forgot it", "ij;jk=>ik", ("3,4", "4,5"), {}),
    ("any axes down to one number", "...|...->... => 0", ("2|3->4",), {}),
    ("a convolution is a contraction read at o + k", "o<+k; k => o", ("9", "3"), {}),
    ("concatenation: two loops in sequence fill one axis", "x, ...; y, ... => x^y, ...", ("2,4", "3,4"), {}),
    ("sliding windows that run over the edge", "2*o=+k => ok", ("6",), {"k": 3}),
)


def plans() -> str:
    """Five einsums taken all the way to their loops."""
    return "\n\n".join(f"# {title}\n{wf.plan(spec, *shapes, **sizes)}" for title, spec, shapes, sizes in PLANS)


def moons(count: int, seed: int) -> tuple[Array, Array]:
    """Noisy points on two interleaved half circles, and the side each is on: -1 or 1."""
    random = np.random.default_rng(seed)
    angle, lower = np.pi * random.random(count), random.random(count) < 0.5
    across = np.where(lower, 1.0 - np.cos(angle), np.cos(angle))
    up = np.where(lower, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([across, up], axis=1) + random.normal(0.0, 0.12, (count, 2))
    return points.astype(np.float32), np.where(lower, 1.0, -1.0).astype(np.float32)


@wf.op
def hidden(x: wf.Tensor, *, width: int) -> wf.Tensor:
    layer: wf.Tensor = wf.relu("w" @ x + wf.param("b", o=width, init=0.0))
    return layer


@wf.op
def classifier(x: wf.Tensor, *, width: int) -> wf.Tensor:
    h = hidden(hidden(x, width=width, label="L1"), width=width, label="L2")
    score: wf.Tensor = wf.param("w", o=1) @ h + wf.param("b", o=1, init=0.0)
    return score


@dataclass(frozen=True)
class TwoMoons:
    """The points, a model of them, and the routine that improves it by one batch."""

    points: Array
    sides: Array
    model: wf.Layer
    loss: wf.Tensor
    context: wf.Context
    step: wf.Routine

    def train(self, epochs: int) -> Iterator[float]:
        """Go through the batches `epochs` times; yields the loss of each batch."""
        for number in range(epochs * STEPS):
            self.step(n=number % STEPS)
            yield float(self.context[self.loss][0])

    def scores(self, points: Array) -> Array:
        """What the model says of each point: positive on the side of the lower moon."""
        values: Array = self.context[self.model(wf.data(points, batch=1, label="query"))][:, 0]
        return values

    def accuracy(self, points: Array, sides: Array) -> float:
        return float(np.mean(np.sign(self.scores(points)) == sides))


def two_moons(seed: int = 7) -> TwoMoons:
    """Data, model, loss and step; only widths are given, every other size is inferred."""
    wf.seed(seed)
    points, sides = moons(STEPS * BATCH, seed)
    n = wf.index("n", STEPS)
    x = wf.data(points.reshape(STEPS, BATCH, 2), batch=2, label="points")[n]
    y = wf.data(sides.reshape(STEPS, BATCH, 1), batch=2, label="sides")[n]
    model = classifier(width=WIDTH, label="mlp")
    hinge = wf.relu(1.0 - y * model(x))
    loss = wf.einsum("...|... => 0", hinge * (1 / BATCH), label="loss")
    context = wf.Context()
    update = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9))
    return TwoMoons(points, sides, model, loss, context, context.compile(update, bindings=[n]))


def run_demo(console: Console, picture: Path) -> str:
    """Train with a progress bar on `console`; returns what is worth reading afterwards."""
    moons_model = two_moons()
    with _progress(console) as progress:
        task = progress.add_task("training", total=EPOCHS * STEPS, loss="")
        recent = 1.0
        for loss in moons_model.train(EPOCHS):
            recent = 0.9 * recent + 0.1 * loss
            progress.update(task, advance=1, loss=f"loss {recent:.3f}")
    fresh = moons(1000, seed=8)
    return "\n".join(
        [
            f"{len(moons_model.points)} points, {EPOCHS} times through {STEPS} batches of {BATCH}",
            "",
            _parameters(moons_model.model),
            "",
            picture_of(moons_model).canvas,
            "",
            f"{moons_model.accuracy(*fresh):.1%} of 1000 fresh points are on the side the model says",
            _draw(moons_model, picture),
        ]
    )


def _progress(console: Console) -> Progress:
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TextColumn("{task.fields[loss]}"))
    return Progress(*columns, TimeElapsedColumn(), console=console)


def _parameters(model: wf.Layer) -> str:
    widest = max(len(param.label) for param in model.params)
    lines = (f"  {param.label:{widest}}   {param.dims}" for param in model.params)
    return "\n".join(["the parameters, in the shapes weft inferred (input->output):", *lines])


def picture_of(trained: TwoMoons) -> wf.plot.Plot:
    """The plane, shaded where the model says the lower moon is, and points of both moons."""
    return wf.plot.function(
        trained.scores,
        FRAME,
        points=trained.points[::4],
        classes=trained.sides[::4],
        levels=[0],
        title="two moons: the side that the model says",
        width=COLUMNS,
        height=ROWS,
        pixels=PIXELS,
    )


def _draw(trained: TwoMoons, picture: Path) -> str:
    try:
        picture.parent.mkdir(parents=True, exist_ok=True)
        picture_of(trained).save(picture)
    except OSError as error:
        return f"no picture: {error}"
    except wf.WeftError as error:
        return f"no picture: {error.what} ({error.fix})"
    return f"picture: {picture}"
