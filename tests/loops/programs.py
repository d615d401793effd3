"""Random programs of the loop language, with memory to run them on."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from weft.affine import Affine
from weft.loops import Buffer, Fill, For, If, Inside, Program, Read, Remark, Stmt, Store, Update, typed
from weft.ops import OPS, Num, Scalar, call
from weft.ops.dtypes import is_float, numpy_type

LARGEST = 4
LOOPS = "abcd"
GIVEN = {"s": 3}
#: What works on bits, and what is a conversion or a choice, accumulates nothing.
_NOT_NUMBERS = {"threefry4x32", "uniform", "type_as", "select"}
ACCUMULATING = [op.name for op in OPS.values() if op.arity == 2 and op.name not in _NOT_NUMBERS]
# On whole numbers these are exact in any order; division and powers are not.
EXACT = [name for name in ACCUMULATING if name not in ("div", "pow")]
VALUES = ("add", "sub", "mul", "max", "min", "mod", "lt", "eq", "and", "arg1")
# Types that meet: signed whole numbers do not meet unsigned ones of 64 bits.
SIGNED = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")
UNSIGNED = ("bool", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64")


@dataclass(frozen=True)
class Scope:
    """The loops around a statement, the tests that hold there, and how deep it lies."""

    ranges: dict[str, int]
    tests: tuple[Inside, ...] = ()


@dataclass(frozen=True)
class Sample:
    """A program with the buffers it uses."""

    program: Program
    buffers: tuple[Buffer, ...]
    seed: int

    def memory(self) -> dict[Buffer, np.ndarray]:
        numbers = np.random.default_rng(self.seed)
        return {
            buffer: numbers.integers(-3, 4, buffer.shape).astype(numpy_type(buffer.dtype)) for buffer in self.buffers
        }

    def wide_memory(self) -> dict[Buffer, np.ndarray]:
        """Memory in which whole numbers come from all of their type."""
        numbers = np.random.default_rng(self.seed)
        found = self.memory()
        for buffer in self.buffers:
            if not is_float(buffer.dtype) and buffer.dtype != "bool":
                ends = np.iinfo(buffer.dtype)
                found[buffer] = numbers.integers(ends.min, ends.max, buffer.shape, buffer.dtype, endpoint=True)
        return found


def samples(
    ops: tuple[str, ...] = tuple(EXACT),
    dtypes: tuple[str, ...] = ("int64",),
    values: tuple[str, ...] = VALUES,
    numbers: tuple[float, ...] = (0, 1, 2, -1, -2),
) -> st.SearchStrategy[Sample]:
    """A program of a few statements that `check` accepts."""
    return written(ops, dtypes, values, numbers).map(lambda one: replace(one, program=typed(one.program)))


@st.composite
def written(
    draw: st.DrawFn,
    ops: tuple[str, ...] = tuple(EXACT),
    dtypes: tuple[str, ...] = ("int64",),
    values: tuple[str, ...] = VALUES,
    numbers: tuple[float, ...] = (0, 1, 2, -1, -2),
) -> Sample:
    """A program before its types are made explicit."""
    shapes = draw(st.lists(st.lists(st.integers(1, LARGEST), min_size=1, max_size=2), min_size=2, max_size=3))
    buffers = tuple(
        Buffer(number, "XYZ"[number], tuple(shape), draw(st.sampled_from(dtypes)))
        for number, shape in enumerate(shapes)
    )
    maker = _Maker(draw, buffers, ops, values, numbers)
    body = tuple(maker.stmt(Scope(dict(GIVEN)), depth=0) for _ in range(draw(st.integers(1, 3))))
    return Sample(Program(body), buffers, draw(st.integers(0, 99)))


class _Maker:
    def __init__(
        self,
        draw: st.DrawFn,
        buffers: tuple[Buffer, ...],
        ops: tuple[str, ...],
        values: tuple[str, ...],
        numbers: tuple[float, ...],
    ) -> None:
        self.draw = draw
        self.buffers = buffers
        self.ops = ops
        self.values = values
        self.numbers = numbers

    def pick(self, *weighted: str) -> str:
        return self.draw(st.sampled_from(weighted))

    def stmt(self, scope: Scope, depth: int) -> Stmt:
        kinds = ["store", "update", "update"] if depth else ["for", "for", "for", "for", "fill"]
        if 0 < depth < 3:
            kinds += ["for"] * 4
        kind = self.pick(*kinds, "if", "remark") if depth < 4 else self.pick(*kinds)
        match kind:
            case "for":
                loop = LOOPS[len(scope.ranges) - len(GIVEN)]
                size = self.draw(st.integers(1, LARGEST))
                inner = replace(scope, ranges={**scope.ranges, loop: size})
                return For(loop, size, self.body(inner, depth + 1))
            case "if":
                tests = tuple(self.test(scope) for _ in range(self.draw(st.integers(1, 2))))
                return If(tests, self.body(replace(scope, tests=scope.tests + tests), depth + 1))
            case "remark":
                return Remark("a remark", self.body(scope, depth + 1))
            case "fill":
                return Fill(self.buffer(), self.draw(st.integers(-2, 2)))
            case "store":
                target = self.buffer()
                return Store(target, self.at(target, scope), self.value(scope, target))
        target = self.buffer()
        return Update(target, self.at(target, scope), self.pick(*self.ops), self.value(scope, target))

    def body(self, scope: Scope, depth: int) -> tuple[Stmt, ...]:
        count = self.draw(st.sampled_from([1, 1, 1, 2]))
        return tuple(self.stmt(scope, depth) for _ in range(count))

    def buffer(self) -> Buffer:
        return self.draw(st.sampled_from(self.buffers))

    def test(self, scope: Scope) -> Inside:
        place = self.gather(scope, 5) if self.pick("affine", "affine", "gather") == "gather" else self.affine(scope)
        return Inside(place, self.draw(st.integers(1, LARGEST)))

    def affine(self, scope: Scope) -> Affine:
        """Any affine place: only a test around it keeps it inside an axis."""
        names = self.draw(st.lists(st.sampled_from(sorted(scope.ranges)), max_size=2, unique=True))
        terms = tuple((self.draw(st.sampled_from([1, 1, 2, -1])), name) for name in names)
        return Affine(terms, self.draw(st.integers(-2, 2)))

    def gather(self, scope: Scope, size: int) -> Scalar:
        source = self.draw(st.sampled_from(self.buffers))
        at = tuple(self.place(one, scope) for one in source.shape)
        whole = Read(source, at) if "int" in source.dtype else call("where", Read(source, at), 2, 1)
        return call("mod", whole, size)

    def at(self, buffer: Buffer, scope: Scope) -> tuple[Scalar, ...]:
        return tuple(self.subscript(size, scope) for size in buffer.shape)

    def subscript(self, size: int, scope: Scope) -> Scalar:
        if self.pick("place", "place", "place", "gather") == "gather":
            return self.gather(scope, size)
        return self.place(size, scope)

    def place(self, size: int, scope: Scope) -> Affine:
        """A place that is provably inside an axis."""
        choices: list[Affine] = [Affine((), self.draw(st.integers(0, size - 1)))]
        for name, count in scope.ranges.items():
            if count <= size:
                choices += [Affine(((1, name),), size - count), Affine(((-1, name),), count - 1)] * 2
            if 2 * count - 1 <= size:
                choices.append(Affine(((2, name),)))
            for other, more in scope.ranges.items():
                if other != name and count + more - 1 <= size:
                    choices.append(Affine(((1, name), (1, other))))
        for test in scope.tests:
            if isinstance(test.index, Affine) and test.size <= size:
                choices += [test.index] * 3
        return self.draw(st.sampled_from(choices))

    def value(self, scope: Scope, target: Buffer, depth: int = 0) -> Scalar:
        kind = self.pick("read", "read", "target", "number", "place", *(("call",) * 3 if depth < 2 else ()))
        match kind:
            case "read":
                source = self.buffer()
                return Read(source, self.at(source, scope))
            case "target":
                return Read(target, self.at(target, scope))
            case "number":
                return Num(self.draw(st.sampled_from(self.numbers)))
            case "place":
                return self.affine(scope)
        op = self.pick(*("where",) * (len(self.values) // 2), *self.values)
        return call(op, *(self.value(scope, target, depth + 1) for _ in range(OPS[op].arity)))
