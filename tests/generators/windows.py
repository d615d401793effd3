"""Windows, padded and not, against a reading of their meaning point by point.

One to three windows at once, with strides, dilations and offsets, of kernels that are an operand, an axis beside the
window, a diagonal, or only a size; every accumulation; values and gradients on every backend. All numbers are small and
whole, so that sums are exact and results equal to the last bit; now and then one is infinite or not a number, and must
not get into what it is outside of.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from math import prod

import numpy as np

import weft as wf

#: More points than this take too long one by one.
POINTS = 3000
#: A sum counts most: what compilers make of one is the hardest.
ODDS = (0.55, 0.15, 0.15, 0.15)
ACCUMULATIONS: dict[str, tuple[float, Callable[[float, float], float]]] = {
    "+": (0.0, lambda old, new: old + new),
    "max": (-np.inf, max),
    "min": (np.inf, min),
    "*": (1.0, lambda old, new: old * new),
}


@dataclass(frozen=True)
class Window:
    """`stride*over (=+ or <+) dilation*kernel`, as it is written and as it is read."""

    over: str
    kernel: str
    stride: int
    dilation: int
    padded: bool

    def __str__(self) -> str:
        times = [f"{number}*" if number > 1 else "" for number in (self.stride, self.dilation)]
        return f"{times[0]}{self.over}{'=+' if self.padded else '<+'}{times[1]}{self.kernel}"

    def size(self, sizes: Mapping[str, int]) -> int:
        span = self.dilation * (sizes[self.kernel] - 1) + 1
        return self.stride * sizes[self.over] if self.padded else self.stride * (sizes[self.over] - 1) + span

    def place(self, at: Mapping[str, int], sizes: Mapping[str, int]) -> int:
        left = (self.dilation * (sizes[self.kernel] - 1) + 1) // 2 if self.padded else 0
        return self.stride * at[self.over] + self.dilation * at[self.kernel] - left


@dataclass
class Draw:
    """A spec, the sizes of its labels, and the axes of its tensors: labels and windows."""

    rng: np.random.Generator
    sizes: dict[str, int] = field(default_factory=dict)
    axes: list[list[str | Window]] = field(default_factory=list)
    result: list[str] = field(default_factory=list)
    #: Is it what frameworks call a convolution: of images of channels, by a kernel of all of them for each of others?
    plain: bool = False

    @staticmethod
    def of(rng: np.random.Generator) -> Draw:
        while True:
            made = Draw(rng, plain=bool(rng.random() < 0.4))
            made.make()
            if prod(made.sizes.values()) <= POINTS:
                return made

    def make(self) -> None:
        rng = self.rng
        first: list[str | Window] = []
        second: list[str | Window] = []
        for over, kernel in zip("pqr"[: rng.choice([1, 1, 1, 2, 2, 3])], "uvw", strict=False):
            self.sizes |= {over: int(rng.integers(1, 13)), kernel: int(rng.integers(1, 7))}
            window = Window(
                over, kernel, int(rng.choice([1, 1, 2, 3, 5])), int(rng.choice([1, 1, 2, 3])), rng.random() < 0.7
            )
            first.append(window)
            # Where the kernel's label stands besides: nowhere, in the operand, twice there, in another operand.
            where = rng.integers(4) if not self.plain else 3
            first += [kernel] * int(where if where < 3 else 0)
            second += [kernel] if where == 3 else []
        for label in "cd"[: rng.integers(3) if not self.plain else 2]:
            self.sizes[label] = int(rng.integers(1, 5))
            side = rng.integers(3) if not self.plain else {"c": 2, "d": 1}[label]
            first += [label] if side != 1 else []
            second += [label] if side != 0 else []
        rng.shuffle(first)  # type: ignore[arg-type]
        self.axes = [first, second] if second else [first]
        self.result = [label for label in self.sizes if rng.random() < 0.45] if rng.random() < 0.6 else []
        if self.plain:
            self.result = [label for label in self.sizes if label in "pqrd"]
        rng.shuffle(self.result)  # type: ignore[arg-type]

    @property
    def spec(self) -> str:
        operands = "; ".join(", ".join(map(str, axes)) + "," * (len(axes) == 1) for axes in self.axes)
        return f"{operands} => {', '.join(self.result) or '0'}{',' * (len(self.result) == 1)}"

    @property
    def shapes(self) -> list[tuple[int, ...]]:
        return [
            tuple(self.sizes[one] if isinstance(one, str) else one.size(self.sizes) for one in a) for a in self.axes
        ]

    def points(self) -> Iterator[tuple[tuple[int, ...], list[tuple[int, ...]]]]:
        """The cell of the result and of each operand at every point inside of all of them."""
        for numbers in np.ndindex(*self.sizes.values()):
            at = dict(zip(self.sizes, numbers, strict=True))
            places = [tuple(at[x] if isinstance(x, str) else x.place(at, self.sizes) for x in a) for a in self.axes]
            if all(
                0 <= x < size for p, s in zip(places, self.shapes, strict=True) for x, size in zip(p, s, strict=True)
            ):
                yield tuple(at[label] for label in self.result) or (0,), places


def check(rng: np.random.Generator) -> None:
    draw = Draw.of(rng)
    accum = str(rng.choice(list(ACCUMULATIONS), p=ODDS)) if not draw.plain else "+"
    op = str(rng.choice(["*", "+"])) if accum != "*" and not draw.plain else "*"
    dtype = str(rng.choice(["float64", "float32", "int64"][: 2 if draw.plain else 3]))
    whole = rng.integers(1, 9, 1 << 12) if accum != "*" else rng.choice([1, -1], 1 << 12)
    arrays = [np.resize(np.roll(whole, 7 * n), shape).astype(dtype) for n, shape in enumerate(draw.shapes)]
    if draw.plain and rng.random() < 0.5:
        odd = arrays[int(rng.random() < 0.7)]
        odd.flat[int(rng.integers(odd.size))] = rng.choice([np.inf, -np.inf, np.nan])
    with np.errstate(invalid="ignore"):
        expected, slopes = reading(draw, arrays, accum, op)
    free = {name: size for name, size in draw.sizes.items() if name in given(draw)}
    with wf.config.using(contraction_points=int(rng.choice([4, 1 << 10])), verify=True):
        compare(draw, arrays, (accum, op, dtype), free, expected, slopes)


def compare(
    draw: Draw,
    arrays: list[np.ndarray],
    how: tuple[str, str, str],
    free: dict[str, int],
    expected: np.ndarray,
    slopes: list[np.ndarray] | None,
) -> None:
    """Values, and of sums gradients, on every backend: contractions of few points run in tiles, too."""
    accum, op, dtype = how
    for backend in ("interp", "cc"):
        what = f"{draw.spec!r} of {draw.shapes} {free} accum={accum} op={op} {dtype} on {backend}"
        ctx = wf.Context(backend)
        tensors = [wf.require_grad(wf.data(one)) if dtype != "int64" else wf.data(one) for one in arrays]
        found = wf.einsum(draw.spec, *tensors, accum=accum, op=op, **free)
        if slopes is None or dtype == "int64":
            np.testing.assert_array_equal(ctx[found].astype(float), expected, err_msg=what)
            continue
        total = wf.einsum("...|...->... => 0", found)
        ctx.compile(wf.grad_update(total), keep=[found, *(one.grad for one in tensors)])()
        np.testing.assert_array_equal(ctx[found].astype(float), expected, err_msg=what)
        for number, (tensor, slope) in enumerate(zip(tensors, slopes, strict=True)):
            np.testing.assert_array_equal(ctx[tensor.grad], slope, err_msg=f"gradient {number} of {what}")


def given(draw: Draw) -> set[str]:
    """The labels that no operand has as an axis of its own."""
    own = {one for axes in draw.axes for one in axes if isinstance(one, str)}
    return {one.over for axes in draw.axes for one in axes if isinstance(one, Window)} | (set(draw.sizes) - own)


def reading(draw: Draw, arrays: list[np.ndarray], accum: str, op: str) -> tuple[np.ndarray, list[np.ndarray] | None]:
    """The result, and of sums the gradients of its total."""
    start, combine = ACCUMULATIONS[accum]
    if accum in ("max", "min") and arrays[0].dtype.kind == "i":
        start = float(np.iinfo(np.int64).min if accum == "max" else np.iinfo(np.int64).max)
    result = np.full([draw.sizes[label] for label in draw.result] or [1], start)
    slopes = [np.zeros(one.shape) for one in arrays]
    for cell, places in draw.points():
        values = [float(one[place]) for one, place in zip(arrays, places, strict=True)]
        result[cell] = combine(result[cell], prod(values) if op == "*" else sum(values))
        for number, place in enumerate(places):
            others = prod(values[:number] + values[number + 1 :]) if op == "*" else 1.0
            slopes[number][place] += others
    return result, slopes if accum == "+" else None
