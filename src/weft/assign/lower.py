"""From assignments to loops: product spaces become loops, index maps subscripts, padding tests.

c =:+ a * b ~logic:"@"      becomes      fill c with 0; for i: for k: for j: c[i, k] += a[i, j] * b[j, k]
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache, lru_cache
from math import prod
from typing import TypeAlias

from weft.affine import Affine
from weft.assign.concat_terms import Terms
from weft.assign.nodes import (
    Accum,
    Arg,
    Cells,
    Code,
    Comment,
    Direct,
    Extent,
    Fetch,
    Keep,
    Node,
    Noop,
    Offset,
    Operand,
    Seq,
    Symbol,
)
from weft.assign.scratch import before, copied, every_cell, growing, started, untaken
from weft.assign.show import Printer, show_statement
from weft.errors import ProjectionError, Span
from weft.loops import Buffer, Fill, If, Inside, Program, Read, Remark, Stmt, Store, Update, typed
from weft.loops.nests import around
from weft.ops import OPS, Num, Scalar, substitute
from weft.optimise.split_scalars import bounded
from weft.project.coverage import is_injective, is_surjective
from weft.project.nodes import Choice, Projection
from weft.project.plan import project
from weft.shape.close import close
from weft.shape.infer import Operation

#: Where an operand lives: the context decides.
Buffers = Callable[[Operand], Buffer]


def lower(code: Code, buffers: Buffers, static: Iterable[str] = ()) -> Program:
    """The typed loop program of the code; no loop is called like one of the `static` indices."""
    known = cache(buffers)
    lowering = _Lowering(known, Printer(code, lambda node: known(node).name), frozenset(static))
    return bounded(typed(Program(tuple(lowering.lower(code)))))


@dataclass(frozen=True, slots=True)
class _Lowering:
    buffers: Buffers
    printer: Printer
    static: frozenset[str]
    #: Of operations that were projected already: each of many operands has a gradient that asks again.
    projections: dict[Operation, Projection] = field(default_factory=dict)

    def lower(self, code: Code) -> list[Stmt]:
        match code:
            case Noop() | Keep():
                return []
            case Seq(codes=codes):
                return [stmt for one in codes for stmt in self.lower(one)]
            case Comment(text=text, body=body):
                return [Remark(text, tuple(self.lower(body)))]
            case Fetch():
                return [Remark(self.printer.show(code), (self._fetch(code),))]
            case Accum():
                return [Remark(self.printer.show(code), tuple(self._accumulate(code)))]
            case Direct(lhs=lhs, operands=operands, body=body):
                loops = body.lower(self.buffers(lhs), [self.buffers(one) for one in operands], self.static)
                return [Remark(self.printer.show(code), tuple(loops))]

    def _accumulate(self, code: Accum) -> list[Stmt]:
        target = self.buffers(code.lhs)
        if not prod(target.shape):
            return [Fill(target, 0)]  # no cells, but the program names what it leaves behind
        space = _space(self._projection(code), code.record.lhs, code.record.operands)
        projection, injective, surjective = space.projection, space.injective, space.surjective
        if code.accum == "arg2" and (not injective or any(not loop.size for loop in projection.reduced)):
            raise _overwrites(code, projection)
        operands = [self.buffers(operand) for operand in code.operands]
        values = _present(code.value, space.runs, len(operands))
        cells = target if injective else _growing(code.accum, target, operands, space.runs, values)
        stmts: list[Stmt] = []
        plain = code.accum == "arg2" or (code.reset and injective and _is_kept(code.accum, target))
        if code.reset and OPS[code.accum].begins is not None and not (plain and surjective):
            stmts.append(started(cells, code.accum, target))
        elif cells != target:
            stmts.append(copied(cells, target, self.static))
        if target in operands and not _reads_only_own_cells(projection, operands, target, injective, bool(stmts)):
            old = before(target)
            stmts.insert(0, copied(old, target, self.static))
            operands = [old if operand == target else operand for operand in operands]
        for run, present in zip(space.runs, values, strict=True):
            at, value = run.places[0], _value(present, operands, run.places, target)
            core: Stmt = Store(cells, at, value) if plain else Update(cells, at, code.accum, value)
            inner = If(run.guards, (core,)) if run.guards else core
            stmts.append(around([(loop.name, loop.size) for loop in run.choice], (inner,))[0])
        return stmts if cells == target else [*stmts, copied(target, cells, self.static)]

    def _projection(self, code: Accum) -> Projection:
        operation = code.record.operation
        if operation not in self.projections:
            found = project(operation)
            names = {loop.name: untaken(loop.name, self.static) for loop in found.loops if loop.name in self.static}
            self.projections[operation] = found.renamed(names) if names else found
        return self.projections[operation]

    def _fetch(self, code: Fetch) -> Stmt:
        assert isinstance(code.source, Cells), "data and files are bound, not computed"
        target = self.buffers(code.node)
        if not prod(target.shape):
            return Fill(target, 0)
        at, loops = every_cell(target, self.static)
        value = substitute(code.source.value, lambda one: _leaf(one, target, at))
        return Fill(target, value.value) if isinstance(value, Num) else around(loops, (Store(target, at, value),))[0]


def _present(value: Scalar, runs: Sequence[_Run], operands: int) -> list[Scalar]:
    """The value in each run, with the operands left out that are absent from this part of a concatenation."""
    if all(len(run.places) == 1 + operands for run in runs):
        return [value] * len(runs)
    terms = Terms.of(value)
    return [terms.present({slot - 1 for slot in run.places if slot}) for run in runs]


def _growing(
    accum: str, target: Buffer, operands: list[Buffer], runs: Sequence[_Run], values: Sequence[Scalar]
) -> Buffer:
    """Where an accumulation grows: as its values demand, in whatever run they are computed."""
    computed = (_value(value, operands, run.places, target) for run, value in zip(runs, values, strict=True))
    found = [growing(target, accum, value) for value in computed]
    return next((cells for cells in found if cells != target), target)


def _reads_only_own_cells(
    projection: Projection, operands: list[Buffer], target: Buffer, injective: bool, cleared: bool
) -> bool:
    """Does the target, where it is also an operand, give each cell only its own old value?"""
    own = (one for one, operand in zip(projection.maps[1:], operands, strict=True) if operand == target)
    return injective and not cleared and all(one == projection.maps[0] for one in own)


def _is_kept(accum: str, target: Buffer) -> bool:
    """Is what an accumulation makes of its start and one value that value? Logic makes a truth value of a number."""
    return OPS[accum].neutral is not None and (not OPS[accum].truth or target.dtype == "bool")


#: The subscripts of the tensors in a run, by their slots; those absent from this part of a concatenation have none.
_Places: TypeAlias = Mapping[int, tuple[Affine, ...]]


@dataclass(frozen=True, slots=True)
class _Run:
    """Loops that run together, the tests inside them, and where they write the result and read each operand."""

    choice: Choice
    guards: tuple[Inside, ...]
    places: _Places


@dataclass(frozen=True, slots=True)
class _Space:
    """What the loops of an operation do for one of its assignments: the operation itself or a gradient."""

    projection: Projection
    injective: bool
    surjective: bool
    runs: tuple[_Run, ...]


@lru_cache(maxsize=8192)
def _space(whole: Projection, result: int, operands: tuple[int, ...]) -> _Space:
    """The loops of a projection with some of its slots as result and operands."""
    view = whole.view(result, *operands)
    runs = (choice for choice in view.choices() if all(loop.size for loop in choice))
    # A gradient skips the points its forward pass skipped, whichever of its tensors it reads.
    found = [_Run(choice, _guards(whole, choice), _all_places(view, choice)) for choice in runs]
    return _Space(view, is_injective(view), is_surjective(view), tuple(found))


def _all_places(projection: Projection, choice: Choice) -> _Places:
    return {slot: projection.indices(slot, choice) for slot in projection.slots(choice)}


def _guards(projection: Projection, choice: Choice) -> tuple[Inside, ...]:
    """The tests that keep every access of a padded operation inside its tensor."""
    return tuple(Inside(index, size) for index, size in projection.guards(choice))


def _value(value: Scalar, operands: list[Buffer], places: _Places, target: Buffer) -> Scalar:
    def leaf(one: Scalar) -> Scalar:
        if isinstance(one, Arg):
            return Read(operands[one.number], places[one.number + 1])
        return _leaf(one, target, places[0])

    return substitute(value, leaf)


def _leaf(one: Scalar, target: Buffer, at: tuple[Scalar, ...]) -> Scalar:
    match one:
        case Symbol(name=name):
            return Affine(((1, name),))
        case Extent(measure=measure):
            return Num(measure())
        case Offset():
            return _offset(at, target.shape)
    return one


def _offset(at: tuple[Scalar, ...], shape: tuple[int, ...]) -> Affine:
    """How far a cell lies from the first one, in memory order."""
    found, stride = Affine(), 1
    for place, size in zip(reversed(at), reversed(shape), strict=True):
        assert isinstance(place, Affine)
        found = place * stride + found
        stride *= size
    return found


def _overwrites(code: Accum, projection: Projection) -> ProjectionError:
    loops = ", ".join(f"`{loop.name}`" for loop in projection.reduced) or "different points"
    return ProjectionError(
        f"`{code.lhs.label} =: …` would write some cells more than once: {loops} would overwrite each other",
        origin=code.origin,
        text=show_statement(code),
        spans=[Span(0, len(code.lhs.label))],
        fix='say how the values combine: `+=`, or `.accumulate("max", …)`, or `=:+` in the code notation',
    )


def closed_buffer(node: Node, id: int, name: str) -> Buffer:
    """The buffer of a node, closing its shape."""
    return Buffer(id, name, close(node.shape).array_shape, node.dtype)
