"""A step as loops on buffers.

Subscripts that are sums of indices times constants are places; others are computed. A read that the ranges alone do not
keep inside its tensor is held there: it is made only where a choice says so and its value is thrown away elsewhere, or
it is checked while running, and then nothing that comes of it is kept.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from math import prod

from weft.affine import Affine
from weft.assign import copied, growing, started
from weft.comprehension.affine import Range
from weft.comprehension.builtins import BUILTINS
from weft.comprehension.linear import linear
from weft.comprehension.nodes import (
    Apply,
    Binary,
    Cast,
    Choose,
    Dim,
    Expr,
    Index,
    Int,
    Read,
    Real,
    Size,
    Truth,
    Unary,
    children,
    fold,
    walk,
)
from weft.comprehension.steps import Extents, Step
from weft.comprehension.types import operation
from weft.loops import Buffer, Fill, Stmt, Store, Update
from weft.loops import Cast as LoopCast
from weft.loops import Read as LoopRead
from weft.loops.nests import around
from weft.ops import OPS, Num, Scalar, call, where


def lower(
    step: Step, extents: Extents, types: Mapping[str, str], buffers: Mapping[str, Buffer], taken: Collection[str]
) -> list[Stmt]:
    """The loops of a step on buffers for its tensors; none is called like one of `taken`."""
    target = buffers[step.target]
    if not prod(target.shape):
        return [Fill(target, 0)]  # no cells, but the program names what it leaves behind
    lowering = _Lowering(extents, types, buffers, _loop_names(extents.ranges(step), taken), taken)
    return lowering.step(step, target)


def _loop_names(ranges: Mapping[str, Range], taken: Collection[str]) -> dict[str, tuple[str, Range]]:
    found = {}
    for index, range in ranges.items():
        name = index
        while name in taken or (name != index and name in ranges):
            name += "_"
        found[index] = name, range
    return found


@dataclass(frozen=True, slots=True)
class _Lowering:
    extents: Extents
    types: Mapping[str, str]
    buffers: Mapping[str, Buffer]
    loops: Mapping[str, tuple[str, Range]]
    taken: Collection[str]

    def step(self, step: Step, target: Buffer) -> list[Stmt]:
        reduction = step.reduction
        cells = growing(target, reduction, self.value(step.value)) if reduction else target
        stmts: list[Stmt] = []
        if reduction and not step.keeps:
            stmts.append(started(cells, reduction, target))
        elif cells != target:
            stmts.append(copied(cells, target, self.taken))
        if all(range.size for _, range in self.loops.values()):
            at, value = self.at(target, step.at), self.value(step.value)
            core: Stmt = Update(cells, at, reduction, value) if reduction else Store(cells, at, value)
            loops = [(name, range.size) for name, range in map(self.loops.__getitem__, self._needed(step))]
            stmts += around(loops, (core,))
        return stmts if cells == target else [*stmts, copied(target, cells, self.taken)]

    def _needed(self, step: Step) -> list[str]:
        """The loops that run: where taking a value again changes nothing, only those it depends on."""
        if step.reduction is not None and not OPS[step.reduction].idempotent:
            return list(self.loops)
        parts = [part for expr in (*step.at, step.value) for part in walk(expr)]
        used = {part.name for part in parts if isinstance(part, Index)}
        return [index for index in self.loops if index in used]

    def at(self, buffer: Buffer, subscripts: tuple[Expr, ...]) -> tuple[Scalar, ...]:
        """Subscripts that stay inside a buffer, which may have an axis of 1 that the text does not know."""
        places = tuple(self._inside(one, size) for one, size in zip(subscripts, buffer.shape, strict=False))
        return places if len(places) == len(buffer.shape) else (*places, Affine(()))

    def read(self, buffer: Buffer, subscripts: tuple[Expr, ...]) -> Scalar:
        """What a buffer holds there; of an empty one nothing is ever used."""
        return LoopRead(buffer, self.at(buffer, subscripts)) if prod(buffer.shape) else LoopCast(buffer.dtype, Num(0))

    def _inside(self, subscript: Expr, size: int) -> Scalar:
        place = self.place(subscript)
        ranges = {name: range.size for name, range in self.loops.values()}
        if place is None:
            return call("max", call("min", self.value(subscript), size - 1), 0)
        return place if place.stays_inside(size, ranges) else call("max", call("min", place, size - 1), 0)

    def place(self, expr: Expr) -> Affine | None:
        """A whole number as a sum of loops times constants; None if it is none."""
        found = linear(expr, self.number)
        if found is None:
            return None
        loops = (self.loops[index] for index in found.names)
        values = (Affine.of(loop) + range.low for loop, range in loops)
        return found.substitute(dict(zip(found.names, values, strict=True)))

    def number(self, expr: Int | Size | Dim) -> int:
        match expr:
            case Int(value=value):
                return value
            case Size(name=name):
                return self.extents.sizes[name]
        return self.extents.shapes[expr.tensor][expr.axis]

    def value(self, expr: Expr) -> Scalar:
        """An expression as a scalar."""
        return fold(expr, self._value, lambda one: () if isinstance(one, Read) else children(one))

    def _value(self, expr: Expr, parts: list[Scalar]) -> Scalar:
        match expr:
            case Int() | Size() | Dim():
                return Num(self.number(expr))
            case Real(value=value) | Truth(value=value):
                return Num(value)
            case Index():
                place = self.place(expr)
                assert place is not None
                return place
            case Read(tensor=tensor, subscripts=subscripts):
                return self.read(self.buffers[tensor], subscripts)
            case Apply(function=function):
                return BUILTINS[function].build(*parts)
            case Cast(dtype=dtype):
                return LoopCast(dtype, parts[0])
            case Unary(op=op):
                return call("not" if op == "!" else "neg", parts[0])
            case Binary(op=op):
                return call(operation(expr, self.types), *(reversed(parts) if op in (">", ">=") else parts))
            case Choose():
                return where(*parts)
        raise AssertionError(f"{expr} is put in before steps are lowered")
