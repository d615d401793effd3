"""Random compositions of every kind of operator, with sizes known."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from itertools import permutations

import numpy as np
from hypothesis import strategies as st

import weft as wf
from weft.ops.dtypes import numpy_type

KINDS = ("batch", "input", "output")
UNARY = {
    "tanh": wf.tanh,
    "sin": wf.sin,
    "exp": lambda x: wf.exp(x * 0.3),
    "root": lambda x: wf.sqrt(x * x + 1.0),
    "recip": lambda x: wf.recip(x * x + 2.0),
    "log": lambda x: wf.log(x * x + 0.5),
    "sigmoid": wf.sigmoid,
    "gelu": wf.gelu,
    "softplus": wf.softplus,
    "softmax": wf.softmax,
    "centred": lambda x: x - wf.mean(x),
    "cube": lambda x: x**3 * 0.1,
    "relu": wf.relu,
    "abs": wf.abs,
    "neg": lambda x: -x,
    "sat01": wf.sat01,
    "reflected": lambda x: 1.0 / (2.5 - wf.sin(x)) - (3 - x) * 0.5,
}
BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / (y * y + 1.0),
    "max": wf.maximum,
    "min": wf.minimum,
    "where": lambda x, y: wf.where(x < y, x * y, y - x),
    "fma": lambda x, y: wf.fma(x, y, x),
}
#: What has kinks: where one number overtakes another, a slope jumps.
KINKS = {"relu", "abs", "sat01", "max", "min", "where"}


@dataclass(frozen=True)
class Known:
    """A tensor with the sizes of its rows as the test knows them."""

    tensor: wf.Tensor
    batch: tuple[int, ...] = ()
    input: tuple[int, ...] = ()
    output: tuple[int, ...] = (1,)

    @property
    def sizes(self) -> tuple[int, ...]:
        return self.batch + self.input + self.output

    def row(self, kind: str) -> tuple[int, ...]:
        return getattr(self, kind)

    def with_row(self, tensor: wf.Tensor, kind: str, row: tuple[int, ...]) -> Known:
        rows = {one: row if one == kind else self.row(one) for one in KINDS}
        return Known(tensor, **rows)


@dataclass
class Model:
    """A graph grown at random, with its parameters and the static indices it uses."""

    draw: st.DrawFn
    dtype: str | None = "float64"
    kinks: bool = True
    params: list[wf.Tensor] = field(default_factory=list)
    bound: dict[wf.StaticIndex, int] = field(default_factory=dict)
    steps: list[str] = field(default_factory=list)

    def pick(self, items: object) -> object:
        return self.draw(st.sampled_from(list(items)))  # type: ignore[call-overload]

    def among(self, names: Iterable[str]) -> str:
        """One of some operations: of those without kinks where none are wanted."""
        return str(self.pick([name for name in names if self.kinks or name not in KINKS]))

    def size(self) -> int:
        return self.draw(st.integers(2, 3))

    def fresh(self, batch: tuple[int, ...], input: tuple[int, ...], output: tuple[int, ...]) -> Known:
        param = wf.param(f"p{len(self.params)}", b=batch, i=input, o=output, dtype=self.dtype)
        self.params.append(param)
        return Known(param, batch, input, output)

    def data(self, batch: tuple[int, ...], input: tuple[int, ...], output: tuple[int, ...], dtype: str) -> Known:
        """Given numbers: what meets them takes their type."""
        numbers = np.random.default_rng(self.draw(st.integers(0, 9)))
        values = numbers.normal(0, 0.8, batch + output + input).astype(numpy_type(dtype))
        tensor = wf.data(values, batch=len(batch), input=len(input), label="x")
        return Known(tensor, batch, input, output)

    def like(self, one: Known, pool: list[Known]) -> Known:
        """A tensor of the same sizes: one there is, or a new parameter."""
        same = [
            other for other in pool if (other.batch, other.input, other.output) == (one.batch, one.input, one.output)
        ]
        found = self.pick([*same, None])
        return found if isinstance(found, Known) else self.fresh(one.batch, one.input, one.output)

    def grow(self, pool: list[Known]) -> Known:
        one = self.pick(pool)
        assert isinstance(one, Known)
        steps = ["unary", "unary", "binary", "smaller", "einsum", "contract", "compose", "T", "stack", "layer"]
        steps += ["concat"] if any(one.row(kind)[:1] > (1,) for kind in KINDS) else []
        steps += ["slice", "slice", "static"] if one.batch else []
        steps += ["convolve", "convolve", "pool"] if one.sizes == one.output[:1] and one.output[0] > 1 else []
        step = str(self.pick(steps))
        self.steps.append(step)
        return getattr(self, f"_{step}")(one, pool)

    def _unary(self, one: Known, pool: list[Known]) -> Known:
        return self._as(one, UNARY[self.among(UNARY)](one.tensor))

    def _binary(self, one: Known, pool: list[Known]) -> Known:
        other = self.like(one, pool)
        return self._as(one, BINARY[self.among(BINARY)](one.tensor, other.tensor))

    def _smaller(self, one: Known, pool: list[Known]) -> Known:
        """An operand with fewer or shorter axes."""
        output = tuple(self.pick([1, size]) for size in one.output[self.draw(st.integers(0, len(one.output) - 1)) :])
        other = self.fresh((), (), output)  # type: ignore[arg-type]
        left, right = self.pick([(one.tensor, other.tensor), (other.tensor, one.tensor)])  # type: ignore[misc]
        return self._as(one, BINARY[self.among(BINARY)](left, right))

    def _einsum(self, one: Known, pool: list[Known]) -> Known:
        """Axes permuted, reduced, moved to other rows."""
        letters = "abcdefg"[: len(one.sizes)]
        order = self.pick(list(permutations(letters))[:24])
        kept = list(order)[: self.draw(st.integers(0, len(letters)))]  # type: ignore[call-overload]
        size = dict(zip(letters, one.sizes, strict=True))
        cut = sorted(self.draw(st.integers(0, len(kept))) for _ in range(2))
        rows = (kept[: cut[0]], kept[cut[0] : cut[1]], kept[cut[1] :])
        spec = f"{self._spec(one, letters)} => {''.join(rows[0])}|{''.join(rows[1])}->{''.join(rows[2]) or '0'}"
        accum = self.among(["+", "+", "max", "min", "*"])
        sizes = [tuple(size[letter] for letter in row) for row in rows]
        return Known(wf.einsum(spec, one.tensor, accum=accum), sizes[0], sizes[1], sizes[2] or (1,))

    def _contract(self, one: Known, pool: list[Known]) -> Known:
        """Contracted with a new parameter that shares some axes."""
        letters = "abcdefg"[: len(one.sizes)]
        size = dict(zip(letters, one.sizes, strict=True))
        shared = [letter for letter in letters if self.draw(st.booleans())]
        new = self.size()
        other = self.fresh((), (), (*(size[letter] for letter in shared), new))
        rest = [letter for letter in letters if letter not in shared]
        spec = f"{self._spec(one, letters)}; {''.join(shared)}z => {''.join(rest)}z"
        pairs = [("+", "*"), ("+", "*"), ("max", "+"), ("min", "*"), ("*", "+"), ("+", "max")]
        accum, op = self.pick([pair for pair in pairs if self.kinks or not KINKS & set(pair)])  # type: ignore[misc]
        output = (*(size[letter] for letter in rest), new)
        return Known(wf.einsum(spec, one.tensor, other.tensor, accum=accum, op=op), (), (), output)

    def _spec(self, one: Known, letters: str) -> str:
        first, second = len(one.batch), len(one.batch) + len(one.input)
        return f"{letters[:first]}|{letters[first:second]}->{letters[second:]}"

    def _compose(self, one: Known, pool: list[Known]) -> Known:
        left = self.fresh((), one.output, (self.size(),))
        return Known(left.tensor @ one.tensor, one.batch, one.input, left.output)

    def _T(self, one: Known, pool: list[Known]) -> Known:
        if not one.input:
            return self._compose(self._as(one, one.tensor), pool)
        return Known(one.tensor.T, one.batch, one.output, one.input)

    def _concat(self, one: Known, pool: list[Known]) -> Known:
        kind = str(self.pick([kind for kind in KINDS if one.row(kind)[:1] > (1,)]))
        more = self.size()
        rows = {row: (more, *one.row(row)[1:]) if row == kind else one.row(row) for row in KINDS}
        other = self.fresh(**rows)
        parts = self.pick([[one, other], [other, one], [one, other, self._as(one, one.tensor * 0.7)]])
        row = (sum(part.row(kind)[0] for part in parts), *one.row(kind)[1:])  # type: ignore[attr-defined]
        return one.with_row(wf.concat(*(part.tensor for part in parts), kind=kind), kind, row)  # type: ignore[attr-defined]

    def _stack(self, one: Known, pool: list[Known]) -> Known:
        kind = str(self.pick(KINDS))
        other = self.like(one, pool)
        return one.with_row(wf.stack(one.tensor, other.tensor * 1.3, kind=kind), kind, (2, *one.row(kind)))  # type: ignore[arg-type]

    def _slice(self, one: Known, pool: list[Known]) -> Known:
        at = self.draw(st.integers(0, one.batch[0] - 1))
        return one.with_row(one.tensor[at], "batch", one.batch[1:])

    def _static(self, one: Known, pool: list[Known]) -> Known:
        index = wf.index(f"s{len(self.bound)}", one.batch[0])
        self.bound[index] = self.draw(st.integers(0, one.batch[0] - 1))
        return one.with_row(one.tensor[index], "batch", one.batch[1:])

    def _convolve(self, one: Known, pool: list[Known]) -> Known:
        size = one.output[0]
        spec, kernel, output = self.pick(  # type: ignore[misc]
            [
                ("o<+k;k=>o", 2, size - 1),
                ("o=+k;k=>o", 3, size),
                ("o=+k;k=>o", 2, size),
                *([("2*o<+k;k=>o", 1, (size + 1) // 2)] if size % 2 else [("2*o<+k;k=>o", 2, size // 2)]),
                *([("2*o=+k;k=>o", 3, size // 2)] if size % 2 == 0 else []),
            ]
        )
        other = self.fresh((), (), (kernel,))
        pairs = [("+", "*"), ("+", "*"), ("max", "+"), ("+", "-")]
        accum, op = self.pick([pair for pair in pairs if self.kinks or not KINKS & set(pair)])  # type: ignore[misc]
        return Known(wf.einsum(spec, one.tensor, other.tensor, accum=accum, op=op), (), (), (output,))

    def _pool(self, one: Known, pool: list[Known]) -> Known:
        accum = self.among(["max", "min", "+", "*"])
        tensor = wf.einsum("o<+k=>o", one.tensor, accum=accum, k=2)
        return Known(tensor, (), (), (one.output[0] - 1,))

    def _layer(self, one: Known, pool: list[Known]) -> Known:
        """A layer used twice."""

        @wf.op
        def dense(x: wf.Tensor) -> wf.Tensor:
            w = wf.param("w", i=one.output, o=one.output, dtype=self.dtype)
            return wf.tanh(w @ x + wf.param("b", i=(), o=one.output, dtype=self.dtype))

        layer = dense(label=f"layer{len(self.params)}")
        result = layer(layer(one.tensor))
        self.params += layer.params
        return self._as(one, result)

    def _as(self, one: Known, tensor: wf.Tensor) -> Known:
        return Known(tensor, one.batch, one.input, one.output)


@st.composite
def models(
    draw: st.DrawFn, dtype: str | None = "float64", *, data: str | None = None, kinks: bool = True
) -> tuple[Model, wf.Tensor]:
    """A model whose parameters are of a type, or take theirs from use; it may start from data of a type."""
    model = Model(draw, dtype, kinks)
    rank = st.lists(st.integers(2, 3), max_size=2).map(tuple)
    outputs = st.lists(st.integers(2, 4), min_size=1, max_size=2).map(tuple)
    sizes = (draw(rank), draw(rank), draw(outputs))
    pool = [model.fresh(*sizes) if data is None else model.data(*sizes, data)]
    for _ in range(draw(st.integers(1, 5))):
        new = model.grow(pool)
        if np.prod(new.sizes) <= 60 and len(new.sizes) <= 6:
            pool.append(new)
    return model, pool[-1].tensor
