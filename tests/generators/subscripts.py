"""Random subscripts: a tensor has the elements that the same brackets pick from its array, its gradient is written back
through them, and code that writes through them does to the tensor what NumPy does to the array.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np

import weft as wf

Array = np.ndarray[Any, Any]


@dataclass
class Brackets:
    """Subscripts for a tensor and for its array, which static indices are at these values."""

    rng: np.random.Generator
    bound: dict[wf.StaticIndex, int] = field(default_factory=dict)

    def draw(self, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        rng = self.rng
        first = int(rng.integers(len(shape) + 1))
        last = int(rng.integers(len(shape) + 1 - first)) if rng.random() < 0.5 else 0
        chosen = [*shape[:first], *shape[len(shape) - last :]]
        pairs = [self._subscript(size) for size in chosen]
        if last or rng.random() < 0.2:
            pairs.insert(first, (..., ...))
        if not pairs:
            pairs = [(slice(None), slice(None))]
        ours, theirs = zip(*pairs, strict=True)
        return ours, theirs

    def draw_positions(self, shape: tuple[int, ...]) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        """Subscripts with a tensor of positions among them, or two, or with one that begins a slice."""
        ours, theirs = map(list, self.draw(shape))
        count, many = int(self.rng.integers(1, 4)), int(self.rng.integers(1, 3))
        shapes = [(count,), (count,), (1,), (2, count), (2, 1), (1, count)]
        for at in self.rng.permutation(len(ours))[:many]:
            if ours[at] is not ...:
                size = shape[at] if ... not in ours[:at] else shape[at - len(ours)]
                if many == 2 or self.rng.random() < 0.7:
                    theirs[at] = self.rng.integers(0, size, shapes[self.rng.integers(len(shapes))])
                    ours[at] = wf.data(theirs[at], label=f"at{at}")
                else:
                    start = int(self.rng.integers(0, size))
                    t = wf.data(np.array([start]), label=f"t{at}")
                    ours[at], theirs[at] = slice(t, t + 1), slice(start, start + 1)
        return tuple(ours), tuple(theirs)

    def _subscript(self, size: int) -> tuple[Any, Any]:
        rng = self.rng
        match rng.integers(6):
            case 0:
                at = int(rng.integers(-size, size))
                return at, at
            case 1:
                index = self._index(size)
                return index, self.bound[index]
            case 2:
                count = int(rng.integers(1, size + 1))
                index = self._index(size - count + 1)
                start = self.bound[index]
                return slice(index, index + count), slice(start, start + count)
            case 3 if size > 1:
                index = self._index(size - 1)
                return index + 1, self.bound[index] + 1
        ends = [int(rng.integers(-size - 1, size + 2)) if rng.random() < 0.7 else None for _ in range(2)]
        step = [None, 1, 2, 3, -1, -2][rng.integers(6)]
        return slice(*ends, step), slice(*ends, step)

    def _index(self, size: int) -> wf.StaticIndex:
        index = wf.index(f"n{len(self.bound)}", size)
        self.bound[index] = int(self.rng.integers(size))
        return index

    @property
    def values(self) -> dict[str, int]:
        return {index.name: at for index, at in self.bound.items()}


def check(rng: np.random.Generator) -> None:
    _check_reads(rng)
    _check_writes(rng)
    _check_scatters(rng)


def _shape(rng: np.random.Generator) -> tuple[int, int, tuple[int, ...]]:
    batch, input, output = (int(rng.integers(low, 3)) for low in (0, 0, 1))
    return batch, input, tuple(int(size) for size in rng.integers(1, 5, batch + output + input))


def _check_reads(rng: np.random.Generator) -> None:
    batch, input, shape = _shape(rng)
    array = rng.normal(size=shape)
    x = wf.require_grad(wf.data(array, batch=batch, input=input, label="x"))
    brackets = Brackets(rng)
    made = []
    for _ in range(4):
        draw = brackets.draw if rng.random() < 0.6 else brackets.draw_positions
        ours, theirs = draw(shape)
        y, expected = x[ours] * 1.0, array[theirs]
        weights = rng.normal(size=y.dims.array_shape)
        d = wf.data(weights, batch=len(y.dims.batch), input=len(y.dims.input))
        gradient = np.zeros(shape)
        if expected.size:
            np.add.at(gradient, theirs, weights.reshape(expected.shape))
        made.append((theirs, y, expected, wf.grad(y, x, d=d) * 1.0 if expected.size else None, gradient))
    tensors = [one for _, y, _, g, _ in made for one in (y, g) if one is not None]
    ctx = wf.Context("cc" if rng.random() < 0.1 else "interp")
    ctx.compile(wf.seq(*(one.forward for one in tensors)), bindings=[*brackets.bound])(**brackets.values)
    for theirs, y, expected, g, gradient in made:
        shown = f"{x.dims}[{theirs}] with {brackets.values}"
        assert ctx[y].size == expected.size, shown
        assert np.array_equal(ctx[y].reshape(expected.shape), expected), shown
        assert g is None or np.array_equal(ctx[g], gradient), f"gradient of {shown}"


def _check_writes(rng: np.random.Generator) -> None:
    batch, input, shape = _shape(rng)
    array = rng.normal(size=shape)
    x = wf.data(array.copy(), batch=batch, input=input, label="x")
    brackets, expected = Brackets(rng), array.copy()
    names: dict[str, Any] = {"x": x}

    def value(part: wf.Tensor, number: int) -> tuple[Any, Array]:
        """A number, or a tensor that may be smaller than the part it is written to."""
        dims = part.dims
        if rng.random() < 0.3 or not dims.count:
            return 2.5, np.array(2.5)
        sizes = [size if rng.random() < 0.7 else 1 for size in dims.array_shape]
        given = rng.normal(size=sizes)
        label = f"v{number}"
        names[label] = wf.data(given, batch=len(dims.batch), input=len(dims.input), label=label)
        return names[label], np.broadcast_to(given, dims.array_shape)

    @wf.cd
    def step() -> None:
        for number in range(4):
            ours, theirs = brackets.draw(shape)
            part = x[ours]
            given, array = value(part, number)
            old = expected[theirs]
            array = array.reshape(old.shape) if array.ndim else array
            match rng.integers(4):
                case 0:
                    x[ours] += given
                    expected[theirs] = old + array
                case 1:
                    x[ours].accumulate("max", given)
                    expected[theirs] = np.maximum(old, array)
                case 2:
                    x[ours] *= given
                    expected[theirs] = old * array
                case _:
                    x[ours] = given
                    expected[theirs] = array

    code = step()
    bindings = [*brackets.bound]
    again = wf.parse_cd(str(code), names, **{index.name: index for index in bindings})
    assert str(again) == str(code), f"{again}\nis read from\n{code}"
    ctx = wf.Context("cc" if rng.random() < 0.1 else "interp")
    ctx.compile(code if rng.random() < 0.5 else again, bindings=bindings)(**brackets.values)
    assert np.array_equal(ctx[x], expected), (
        f"{code}\nwith {brackets.values} makes of\n{array}\n{ctx[x]}\nnot\n{expected}"
    )


def _check_scatters(rng: np.random.Generator) -> None:
    """Rows of a table, or columns of them, written where positions say, some of them several times, and slices from a
    position on."""
    batch, width = int(rng.integers(2)), int(rng.integers(1, 4))
    array = rng.normal(size=(int(rng.integers(1, 6)), width))
    table, expected = wf.data(array.copy(), batch=batch, label="table"), array.copy()
    size = len(array)
    names: dict[str, Any] = {"table": table}

    def data(label: str, value: Array, batch: int = 0) -> wf.Tensor:
        names[label] = wf.data(value, batch=batch, label=label)
        return names[label]

    @wf.cd
    def step() -> None:
        for number in range(3):
            at = rng.integers(0, size, int(rng.integers(1, 6)))
            count = int(rng.integers(1, size + 1))
            start = rng.integers(0, size - count + 1, 1)
            if rng.random() < 0.5:
                where, picked = data(f"at{number}", at, batch=batch), at  # type: Any, Any
            else:
                t = data(f"t{number}", start)
                where, picked = slice(t, t + count), np.arange(start[0], start[0] + count)
            columns = slice(*sorted(int(end) for end in rng.choice(width + 1, 2, replace=False)))
            if rng.random() < 0.4:
                where, picked = (where, columns), (picked, columns)
            shape = expected[picked].shape
            given = rng.normal(size=shape if rng.random() < 0.6 else (1, shape[1]))
            value = data(f"v{number}", given, batch=batch)
            begins = isinstance(where[0] if isinstance(where, tuple) else where, slice)
            match rng.integers(3 if begins else 2):
                case 0:
                    table[where] += value
                    np.add.at(expected, picked, given)
                case 1:
                    table[where].accumulate("min", value)
                    np.minimum.at(expected, picked, given)
                case _:
                    table[where] = value
                    expected[picked] = given

    code = step()
    again = wf.parse_cd(str(code), names, declare=True)
    assert str(again) == str(code), f"{again}\nis read from\n{code}"
    ctx = wf.Context("cc" if rng.random() < 0.1 else "interp")
    ctx.compile(code if rng.random() < 0.5 else again)()
    assert np.array_equal(ctx[table], expected), f"{code}\nmakes of\n{array}\n{ctx[table]}\nnot\n{expected}"
