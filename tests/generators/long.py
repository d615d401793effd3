"""Long programs, in few frames.

    h = tanh(W h + x) … twenty times;  total = 0.3 h + 0.1 p + … of a hundred terms;  parts = concat(h, p, x, …)

Tensors: chains of pointwise operations, sums of terms, concatenations, recurrences and operators of many steps, of 50
to 400 operations in all, and the gradient of their end. Code: as many updates of a matrix in place, from itself and its
transpose. They are compiled with few frames to recurse in, optimised or not, and compute what NumPy does; gradients are
compared with differences of values. What they print as reads back, prints the same and is about as long as they are.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft as wf
from shallow import shallow

#: A function of the parameter's values, and the same as a tensor.
Value = tuple[Callable[[np.ndarray], np.ndarray], wf.Tensor]


def check(rng: np.random.Generator) -> None:
    length = int(50 * 8 ** rng.random())
    backend = "cc" if length < 100 else "interp"
    with wf.config.using(optimise=bool(rng.random() < 0.7)):
        (_check_updates if rng.random() < 0.3 else _check_tensors)(rng, length, backend)


def _check_tensors(rng: np.random.Generator, length: int, backend: str) -> None:
    program = _Program(rng)
    while program.length < length:
        kinds = [program.chain, program.terms, program.concat, program.recurrence, program.steps]
        kinds[rng.integers(len(kinds))]()
    value, tensor = program.values[-1]
    loss = wf.einsum("i => 0", tensor * tensor)
    ctx, code = wf.Context(backend), wf.grad_update(loss)
    with shallow():
        again = _read_back(code, program.given, program.length)
        ctx.compile(again if rng.random() < 0.5 else code, keep=[loss, program.p.grad])()
        found, gradient = ctx[loss], ctx[program.p.grad]
    shown = f"{program.length} operations on {backend}: {' '.join(program.shown)}"
    np.testing.assert_allclose(found[0], np.sum(value(program.at) ** 2), rtol=1e-9, err_msg=shown)
    way, step = rng.uniform(-1, 1, program.at.shape), 1e-5
    ends = [np.sum(value(program.at + sign * step * way) ** 2) for sign in (1, -1)]
    slope = (ends[0] - ends[1]) / (2 * step)
    np.testing.assert_allclose(np.sum(gradient * way), slope, rtol=1e-4, atol=1e-6 * (1 + found[0]), err_msg=shown)


def _read_back(code: wf.Code, names: dict[str, wf.Tensor], length: int) -> wf.Code:
    shown = str(code)
    again = wf.parse_cd(shown, names, declare=True)
    assert str(again) == shown
    assert len(shown) < 400 * (length + 20), f"{len(shown)} characters for {length} operations"
    return again


class _Program:
    """Vectors of one size, each computed from those before; all stay below about 1."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng, self.size = rng, int(rng.integers(2, 6))
        self.at = rng.uniform(-1, 1, self.size)
        self.p = wf.param("p", init=self.at, dtype="float64")
        self.given = {"p": self.p}
        self.weights, self.matrix = self._given(self.size, self.size)
        self.values: list[Value] = [(lambda p: p, self.p)]
        self.length, self.shown = 0, list[str]()

    def _given(self, *shape: int) -> tuple[np.ndarray, wf.Tensor]:
        array, name = self.rng.uniform(-1, 1, shape) / shape[-1], f"given{len(self.given)}"
        self.given[name] = wf.data(array, label=name)
        return array, self.given[name]

    def _some(self, most: int) -> list[Value]:
        """Earlier values, the last of all among them."""
        count = int(self.rng.integers(2, most))
        return [self.values[at] for at in self.rng.integers(0, len(self.values), count)] + self.values[-1:]

    def _add(self, shown: str, length: int, value: Callable[[np.ndarray], np.ndarray], tensor: wf.Tensor) -> None:
        # A function of the parameter is remembered for the last point it was asked for: values share what they read.
        known: dict[bytes, np.ndarray] = {}

        def once(p: np.ndarray) -> np.ndarray:
            if p.tobytes() not in known:
                known[p.tobytes()] = value(p)
            return known[p.tobytes()]

        self.shown.append(f"{shown} of {length}")
        self.length += length
        self.values.append((once, tensor))

    def chain(self) -> None:
        (before, tensor), count = self.values[-1], int(self.rng.integers(5, 60))
        numbers = self.rng.uniform(-0.5, 0.5, count)

        def value(p: np.ndarray) -> np.ndarray:
            y = before(p)
            for number in numbers:
                y = np.tanh(y) + number if number > 0 else y * (1 + number) - number
            return y

        for number in map(float, numbers):
            tensor = wf.tanh(tensor) + number if number > 0 else tensor * (1 + number) - number
        self._add("chain", 2 * count, value, tensor)

    def terms(self) -> None:
        some = self._some(60)
        factors = self.rng.uniform(-1, 1, len(some)) / len(some)
        tensor = some[0][1] * float(factors[0])
        for (_, one), factor in zip(some[1:], factors[1:], strict=True):
            tensor = tensor + one * float(factor)

        def value(p: np.ndarray) -> np.ndarray:
            return sum((one(p) * factor for (one, _), factor in zip(some, factors, strict=True)), np.zeros(self.size))

        self._add("terms", 2 * len(some), value, tensor)

    def concat(self) -> None:
        some = self._some(40)
        weights, matrix = self._given(self.size, self.size * len(some))
        tensor = wf.einsum("ij; j => i", matrix, wf.concat(*(one for _, one in some)))
        self._add("parts", len(some), lambda p: weights @ np.concatenate([one(p) for one, _ in some]), tensor)

    def recurrence(self) -> None:
        (before, tensor), count = self.values[-1], int(self.rng.integers(3, 20))
        read, driving = self.values[int(self.rng.integers(len(self.values)))]

        def value(p: np.ndarray) -> np.ndarray:
            h, driven = before(p), read(p)
            for _ in range(count):
                h = np.tanh(self.weights @ h + driven)
            return h

        for _ in range(count):
            tensor = wf.tanh(wf.einsum("ij; j => i", self.matrix, tensor) + driving)
        self._add("recurrence", 3 * count, value, tensor)

    def steps(self) -> None:
        """One statement of many operations: each step uses the last one's value several times, or is deep inside."""
        (before, tensor), count = self.values[-1], int(self.rng.integers(2, 40))
        square = float(self.rng.choice([0, 0.25]))

        @wf.operator
        def steps(v: wf.Slot, v1: wf.Slot) -> None:
            value = v1 * 0.9
            for _ in range(count):
                value = value * value * square - value * 0.5 + v1 * 0.2
            v[:] = value

        def value(p: np.ndarray) -> np.ndarray:
            first = before(p)
            y = first * 0.9
            for _ in range(count):
                y = y * y * square - y * 0.5 + first * 0.2
            return y

        self._add("steps", 5 * count, value, steps(tensor))


def _check_updates(rng: np.random.Generator, length: int, backend: str) -> None:
    """Updates of a matrix from itself, its transpose and another matrix, which is updated too."""
    size = int(rng.integers(2, 5))
    a, b = (rng.uniform(-1, 1, (size, size)) for _ in range(2))
    tensors = [wf.param("a", init=a, dtype="float64"), wf.param("b", init=b, dtype="float64")]
    arrays, kinds = [a.copy(), b.copy()], rng.integers(0, 4, length)
    kinds[rng.integers(0, length, 2)] += 4
    deep = int(rng.integers(2, 100))

    @wf.cd
    def code() -> None:
        for kind in kinds:
            target, other = tensors if kind % 2 else tensors[::-1]
            if kind > 3:
                value = target
                for _ in range(deep):
                    value = value * 0.5 + other * 0.5
                target[:] = value
            elif kind < 2:
                target[:] = wf.einsum("ij => ji", target) * 0.5 + other * 0.5
            else:
                target += wf.einsum("ij => ji", target) * 0.25 - target * 0.5

    for kind in kinds:
        at = 0 if kind % 2 else 1
        own, other = arrays[at], arrays[1 - at]
        arrays[at] = own.T * 0.5 + other * 0.5 if kind < 2 else own + own.T * 0.25 - own * 0.5
        for _ in range(deep if kind > 3 else 0):
            own = arrays[at] = own * 0.5 + other * 0.5
    ctx = wf.Context(backend)
    with shallow():
        again = _read_back(code(), dict(zip("ab", tensors, strict=True)), length + 4 * deep)
        ctx.compile(again if rng.random() < 0.5 else code())()
    for tensor, array in zip(tensors, arrays, strict=True):
        np.testing.assert_allclose(ctx[tensor], array, rtol=1e-9, atol=1e-12, err_msg=f"{list(kinds)} on {backend}")
