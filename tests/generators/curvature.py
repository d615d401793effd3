"""Gradients of gradients of concatenations and windows: how a gradient changes along a line, by differences of it.

    loss = sum of (result * result) / 2        of a result that is linear in each of at most two operands

Along a line that is a polynomial of the fourth degree at most, so differences over four points lack nothing but
rounding: of the loss against its gradient, of that against the gradient's gradient.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

import weft as wf
from backends.interpreted import Fusing
from generators.windows import Draw, given

#: Concatenations, with the sizes of operands by label: what is joined, parts of what is, and what is skipped.
CONCATENATIONS = (
    "a; b => a^b",
    "a, i; b, i => a^b, i",
    "a, i; b, j => a^b, i^j",
    "a^b, i => a, i",
    "a^b, i => b, i",
    "1^a, i => a, i",
    "a, i => a^1, i",
    "a, i => 1^a^1, i",
    "a^b; a => a",
    "a^b; a^b => 0",
    "a^b, i; a, i => a",
    "a; a => a^1",
    "a, i; i, b => a^b",
)

Making = Callable[[Sequence[wf.Tensor]], wf.Tensor]


def check(rng: np.random.Generator) -> None:
    what, shapes, make = (_window if rng.random() < 0.5 else _concatenation)(rng)
    arrays, ways = ([rng.integers(-3, 4, shape).astype(np.float64) for shape in shapes] for _ in range(2))

    def found(step: float, order: int) -> wf.Tensor:
        """The loss on a line, or how it changes there, or how that does."""
        moved = [one + step * way for one, way in zip(arrays, ways, strict=True)]
        at = [wf.require_grad(wf.data(one, label=f"x{number}")) for number, one in enumerate(moved)]
        result = make(at)
        value = wf.einsum("...|...->... => 0", result * result * 0.5)
        for _ in range(order):
            value = _along(wf.grad(value, at), ways)
        return value

    ctx = wf.Context(Fusing() if rng.random() < 0.7 else "interp")
    for order in (0, 1):
        near = {step: float(ctx[found(step, order)].item()) for step in (-2.0, -1.0, 1.0, 2.0)}
        meant = (8 * (near[1.0] - near[-1.0]) - (near[2.0] - near[-2.0])) / 12
        slope = float(ctx[found(0.0, order + 1)].item())
        allowed = 1e-12 * max(1.0, *map(abs, near.values()))
        assert abs(slope - meant) <= allowed, f"{what} of {shapes}, derivative {order + 1}: {slope}, not {meant}"


def _along(slopes: Sequence[wf.Tensor], ways: Sequence[np.ndarray]) -> wf.Tensor:
    parts = [wf.einsum("...|...->... => 0", one * wf.data(way)) for one, way in zip(slopes, ways, strict=True)]
    return sum(parts[1:], parts[0])


def _window(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]], Making]:
    draw = Draw.of(rng)
    free = {name: size for name, size in draw.sizes.items() if name in given(draw)}
    return draw.spec, list(draw.shapes), lambda at: wf.einsum(draw.spec, *at, **free)


def _concatenation(rng: np.random.Generator) -> tuple[str, list[tuple[int, ...]], Making]:
    spec = str(rng.choice(CONCATENATIONS))
    sizes = {label: int(rng.integers(1, 5)) for label in "abij"}

    def size(axis: str) -> int:
        return sum(int(part) if part.isdigit() else sizes[part] for part in axis.split("^"))

    shapes = [tuple(size(axis) for axis in operand.split(", ")) for operand in spec.split(" => ")[0].split("; ")]
    known = {label: sizes[label] for label in sizes if label in spec}
    return spec, shapes, lambda at: wf.einsum(spec, *at, **known)
