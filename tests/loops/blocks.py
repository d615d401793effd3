"""Random programs with numbers: declared, set again, copied, grown in loops and under tests."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from loops.programs import GIVEN, VALUES, Sample, Scope, _Maker
from weft.affine import Affine
from weft.loops import Buffer, Let, Local, Program, Read, Set, Stmt, Store, Update, typed, walk
from weft.ops import Num, Scalar, call
from weft.ops.dtypes import is_float, numpy_type

MIXED = ("float16", "float32", "float64", "int8", "int64", "bool")
#: Numbers of which something can be made.
ODD = (0, 1, 0.0, 1.0, 2.0, 0.5, -1, -0.0, 3.0)
NAMES = ("t", "u", "v", "w")
#: Operations whose results rounding cannot throw far off; quotients are by what is not near zero.
SMOOTH = ("add", "sub", "mul", "max", "min", "arg1", "arg2", "relu_gate")
UNARY = ("neg", "abs", "relu", "sat01", "identity", "tanh", "exp", "sqrt", "recip", "floor")


@dataclass(frozen=True)
class Inner(Scope):
    """A scope that knows the numbers declared so far."""

    locals: tuple[Local, ...] = ()


@dataclass(frozen=True)
class Numbers(Sample):
    """A program whose memory holds fractions, infinities and what is not a number."""

    wild: bool = False

    def memory(self) -> dict[Buffer, np.ndarray]:
        numbers = np.random.default_rng(self.seed)
        return {one: self._array(one, numbers) for one in self.buffers}

    def _array(self, buffer: Buffer, numbers: np.random.Generator) -> np.ndarray:
        values = numbers.integers(-3, 4, buffer.shape).astype(np.float64)
        if is_float(buffer.dtype):
            values *= numbers.choice([0.5, 1.0, 1.25], buffer.shape)
            if self.wild:
                odd = numbers.choice([np.nan, np.inf, -np.inf, -0.0], buffer.shape)
                values = np.where(numbers.random(buffer.shape) < 0.15, odd, values)
        return (abs(values) if buffer.dtype == "uint64" else values).astype(numpy_type(buffer.dtype))


@st.composite
def blocks(draw: st.DrawFn, dtypes: tuple[str, ...] = ("int64",), values: tuple[str, ...] = VALUES) -> Numbers:
    """A typed program of blocks with numbers that `check` accepts."""
    shapes = draw(st.lists(st.lists(st.integers(1, 3), min_size=1, max_size=2), min_size=1, max_size=2))
    buffers = tuple(
        Buffer(number, "XYZ"[number], tuple(shape), draw(st.sampled_from(dtypes)))
        for number, shape in enumerate(shapes)
    )
    maker = _Blocks(draw, buffers, tuple(one for one in values if one != "lt"), values, ODD)
    body = maker.body(Inner(dict(GIVEN)), 1)
    return Numbers(typed(Program(body)), buffers, draw(st.integers(0, 99)), draw(st.booleans()))


class _Blocks(_Maker):
    """Programs as `programs.samples` makes them, with numbers, and with the same scalars again and again."""

    pool: list[Scalar]

    def body(self, scope: Scope, depth: int) -> tuple[Stmt, ...]:
        if depth == 1:
            self.pool = []
        done: list[Stmt] = []
        for _ in range(self.draw(st.integers(2, 5 if depth < 3 else 3))):
            stmt = self.numbered(scope, depth)
            done.append(stmt)
            if isinstance(stmt, Let):
                scope = replace(scope, locals=(*self.locals(scope), stmt.local))  # type: ignore[call-arg]
        return (*done, *(self.kept(scope, stmt.local) for stmt in done if isinstance(stmt, Let)))

    def kept(self, scope: Scope, local: Local) -> Stmt:
        """A statement by which a number matters."""
        target = self.buffer()
        at = self.at(target, scope)
        (value,) = (one for one in self.locals(scope) if one.name == local.name)
        how = self.pick("store", *(("add", "max", "sub") if self.meets(local) else ()))
        return Store(target, at, value) if how == "store" else Update(target, at, how, value)

    def meets(self, local: Local) -> bool:
        """Can a number be computed with? What holds a place does not meet unsigned numbers of 64 bits."""
        return local.name in NAMES or all(one.dtype != "uint64" for one in self.buffers)

    def locals(self, scope: Scope) -> tuple[Local, ...]:
        """The numbers that can be named here: of each name the one declared last."""
        assert isinstance(scope, Inner)
        return tuple({one.name: one for one in scope.locals}.values())

    def numbered(self, scope: Scope, depth: int) -> Stmt:
        known = [one for one in self.locals(scope) if one.name in NAMES]
        kind = self.pick("stmt", "stmt", "stmt", "let", "let", "index", *(("set", "set") if known else ()))
        target = self.buffer()
        if kind == "index":
            size = self.draw(st.integers(1, 3))
            return Let(Local(f"at{size}", "int64"), self.place(size, scope))
        if kind == "let":
            local = Local(self.pick(*NAMES), self.pick(*{one.dtype: None for one in self.buffers}))
            return Let(local, self.value(scope, target))
        if kind == "set":
            local = self.draw(st.sampled_from(known))
            value = self.value(scope, target)
            grows = self.pick("grow", "grow", "replace") == "grow"
            return Set(local, call(self.pick("add", "mul", "max"), local, value) if grows else value)
        return self.stmt(scope, depth)

    def subscript(self, size: int, scope: Scope) -> Scalar:
        """A place, a number that holds one, or anything that comes to one."""
        known = [one for one in self.locals(scope) if one.name in [f"at{smaller}" for smaller in range(1, size + 1)]]
        if known and self.pick("number", "other") == "number":
            return self.draw(st.sampled_from(known))
        return super().subscript(size, scope)

    def value(self, scope: Scope, target: Buffer, depth: int = 0) -> Scalar:
        known = [one for one in self.locals(scope) if self.meets(one)]
        again = [one for one in self.pool if self.fits(one, scope)]
        kinds = ["old", "old", "odd", *(("again",) * 4 if again else ()), *(("local",) * 3 if known else ())]
        match self.pick(*kinds, *(("call",) * 3 if depth < 2 else ())):
            case "again":
                return self.draw(st.sampled_from(again))
            case "local":
                found: Scalar = self.draw(st.sampled_from(known))
            case "odd":
                found = Num(self.draw(st.sampled_from(ODD)))
            case "call":
                found = self.call(scope, target, depth + 1)
            case _:
                found = super().value(scope, target, depth)
        self.pool.append(found)
        return found

    def fits(self, scalar: Scalar, scope: Scope) -> bool:
        """Does a scalar mean something here, and stay inside the buffers it reads?"""
        known = self.locals(scope)
        for one in walk(scalar):
            if isinstance(one, Local) and one not in known:
                return False
            if isinstance(one, Affine) and any(name not in scope.ranges for _, name in one.terms):
                return False
            for place, size in zip(one.at, one.buffer.shape, strict=True) if isinstance(one, Read) else ():
                tested = any(test.index == place and test.size <= size for test in scope.tests)
                if isinstance(place, Affine) and not tested and not place.stays_inside(size, scope.ranges):
                    return False
        return not isinstance(scalar, Num | Affine | Local)

    def call(self, scope: Scope, target: Buffer, depth: int) -> Scalar:
        one = self.value(scope, target, depth)
        match self.pick("twice", "power", "inverse", "choice", "unary", "unary"):
            case "twice":
                return call(self.pick(*self.values), one, one)
            case "power":
                return call("pow", one, self.draw(st.sampled_from([0, 1, 2, 3, 2.0])))
            case "inverse":
                return call("div", one, self.draw(st.sampled_from([2.0, 4, -0.5, 3.0, 1])))
            case "choice":
                condition = call(self.pick("lt", "eq", "ne"), one, self.value(scope, target, depth))
                return call("where", condition, one, self.value(scope, target, depth))
        return call(self.pick(*(("neg", "abs", "relu", "identity", "floor") if depth > 1 else UNARY)), one)
