"""Assignments with everything said: loops with sizes, tests, and the subscripts of every tensor.

c =:+ a * b ~logic:"@"      becomes      c[i, k] += a[i, j] * b[j, k]      for i: 2, k: 4, j: 3

An einsum comes to this by projection, a comprehension by the ranges of its indices; from here on they are one.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod
from types import MappingProxyType
from typing import TypeAlias

from weft.affine import Affine
from weft.assign.concat_terms import Terms
from weft.assign.extents import Extent
from weft.assign.iteration_order import iteration_order
from weft.assign.iterations import Standing
from weft.assign.nodes import Accum, Arg, Direct, Node, Offset, Operand, Symbol, node_of
from weft.assign.scratch import untaken
from weft.assign.show import show_statement
from weft.errors import ProjectionError, Span
from weft.loops import Buffer, Cast, Inside, Local, Read
from weft.loops.walk import remade, subexpressions, substituted
from weft.ops import OPS, Call, Num, Scalar, call, fold_tree, substitute
from weft.ops.dtypes import is_float
from weft.project.coverage import is_injective, is_surjective
from weft.project.nodes import Choice, DataIndex, Projection
from weft.project.plan import project
from weft.shape.infer import Operation

#: Where an operand lives: the context decides.
Buffers = Callable[[Operand], Buffer]


@dataclass(frozen=True, slots=True)
class Run:
    """`for loops: if guards: target[at] = accum(target[at], value)`; the value reads buffers."""

    loops: tuple[tuple[str, int], ...]
    guards: tuple[Inside, ...]
    at: tuple[Scalar, ...]
    value: Scalar


@dataclass(frozen=True, slots=True)
class Explicit:
    """An assignment: with `reset` its target starts at what `accum` begins with.

    There are several runs where parts of a concatenation are written one after another. `injective`: no cell is written
    twice; `surjective`: every cell is written; `recurrent`: what it reads of its target it wrote in iterations before.
    """

    target: Buffer
    accum: str
    reset: bool
    runs: tuple[Run, ...]
    operands: tuple[Buffer, ...]
    injective: bool
    surjective: bool
    recurrent: bool = False


@dataclass(frozen=True, slots=True)
class SpellingOut:
    """Says everything of assignments; no loop is called like one of the `static` indices."""

    buffers: Buffers
    static: frozenset[str] = frozenset()
    #: Of operations that were projected already: each of many operands has a gradient that asks again.
    projections: dict[Operation, Projection] = field(default_factory=dict)

    def __call__(self, code: Accum | Direct, standing: Standing = MappingProxyType({})) -> Explicit:
        """The assignment, where loops around it stand so."""
        target, operands = self.buffers(code.lhs), tuple(map(self.buffers, code.operands))
        if isinstance(code, Direct):
            return _by_ranges(code, target, operands, self.static, standing)
        operands = operands[: len(code.record.operands)]
        space = _space(self._projection(code), code.record.lhs, code.record.operands)
        if code.accum == "arg2" and (not space.injective or any(not loop.size for loop in space.projection.reduced)):
            raise _overwrites(code, space.projection)
        _check_positions(code, space.projection, operands)
        if (monoid := OPS[code.accum].monoid) and prod(loop.size for loop in space.projection.reduced) < monoid.fewest:
            raise _too_few(code, monoid.fewest, space.projection)
        values = _present(code.value, space.regions, len(operands))
        present = [(one, value) for one, value in zip(space.regions, values, strict=True) if value is not None]
        firsts = first_subscripts(code, standing)[: 1 + len(operands)]
        tensors = [*zip((target, *operands), firsts, strict=True)]
        around = by_symbol(standing)
        runs = tuple(one.run(value, tensors, space.projection, around) for one, value in present)
        surjective = space.surjective and len(runs) == len(values)
        return Explicit(target, code.accum, code.reset, runs, operands, space.injective, surjective)

    def _projection(self, code: Accum) -> Projection:
        operation = code.record.operation
        if operation not in self.projections:
            found = project(operation)
            names = {loop.name: untaken(loop.name, self.static) for loop in found.loops if loop.name in self.static}
            self.projections[operation] = found.renamed(names) if names else found
        return self.projections[operation]


def first_subscripts(code: Accum | Direct, standing: Standing) -> list[tuple[Affine, ...]]:
    """The subscripts that tensors of loops have before all others, of the left side and of each operand."""
    of_operands = [node_of(one).iterations for one in code.operands]
    return [written_at(code.lhs, standing), *(one.read(standing) if one else () for one in of_operands)]


def written_at(node: Node, standing: Standing) -> tuple[Affine, ...]:
    """The subscripts that a node of loops has before all others where it is written."""
    return node.iterations.written(standing) if node.iterations else ()


def by_symbol(standing: Standing) -> dict[str, Affine]:
    """Where loops stand, by what slices call them."""
    return {index.symbol: at for index, at in standing.items()}


def redirected(value: Scalar, buffer: Buffer, other: Buffer) -> Scalar:
    """A value that reads another buffer instead of one."""

    def change(one: Scalar, parts: tuple[Scalar, ...]) -> Scalar | None:
        return Read(other, parts) if isinstance(one, Read) and one.buffer == buffer else None

    return remade(value, change)


# By projection


def _present(value: Scalar, regions: Sequence[_Region], operands: int) -> Sequence[Scalar | None]:
    """The value in each region, with the operands left out that are absent from this part of a concatenation.

    Where all are, as where a derivative by one of the parts is none, it is None.
    """
    if all(len(one.index_maps) == 1 + operands for one in regions):
        return [value] * len(regions)
    terms = Terms.of(value)
    return [terms.present({slot - 1 for slot in one.index_maps if slot}) for one in regions]


#: A buffer, and the subscripts it has before all others: where loops around stand that it has values for.
_PlacedBuffer: TypeAlias = tuple[Buffer, tuple[Affine, ...]]
#: The subscripts of the tensors in a run, by their slots; those absent from this part of a concatenation have none.
_IndexMaps: TypeAlias = Mapping[int, tuple[Affine, ...]]


@dataclass(frozen=True, slots=True)
class _Region:
    """Loops that run together, the tests inside them, and where they write the result and read each operand."""

    choice: Choice
    guards: tuple[Inside, ...]
    index_maps: _IndexMaps

    def run(
        self, value: Scalar, tensors: Sequence[_PlacedBuffer], projection: Projection, around: Mapping[str, Affine]
    ) -> Run:
        """A value over tensors, the result first, here; `around` says where loops around stand."""
        (target, first), *operands = tensors
        maps = {slot: _standing(one, around) for slot, one in self.index_maps.items()} if around else self.index_maps

        def cell(slot: int, at: tuple[Scalar, ...]) -> Read:
            buffer, before = operands[slot - 1]
            return Read(buffer, (*before, *at))

        found = {
            one.name: _position(cell(one.slot, maps[one.slot]), one, one in projection.tested)
            for one in projection.looked_up
        }
        at = _placed(maps[0], found)

        def leaf(one: Scalar) -> Scalar:
            if isinstance(one, Arg):
                return cell(one.number + 1, _placed(maps[one.number + 1], found))
            return placed_leaf(one, target.shape[len(first) :], at)

        loops = tuple((loop.name, loop.size) for loop in self.choice)
        tests = [Inside(found[one.name], one.size) for one in projection.tested]
        tests += [Inside(_with_data(test.index, found), test.size) for test in self.guards]
        return Run(loops, tuple(tests), (*first, *at), substitute(value, leaf))


def _standing(at: tuple[Affine, ...], around: Mapping[str, Affine]) -> tuple[Affine, ...]:
    return tuple([one.substitute(around) for one in at])


@dataclass(frozen=True, slots=True)
class _Space:
    """What the loops of an operation do for one of its assignments: the operation itself or a gradient."""

    projection: Projection
    injective: bool
    surjective: bool
    regions: tuple[_Region, ...]


@lru_cache(maxsize=8192)
def _space(whole: Projection, result: int, operands: tuple[int, ...]) -> _Space:
    """The loops of a projection with some of its slots as result and operands."""
    view = whole.view(result, *operands)
    regions = []
    for choice in view.choices():
        if all(loop.size for loop in choice):
            # A gradient skips the points its forward pass skipped, whichever of its tensors it reads.
            guards = tuple(Inside(*one) for one in whole.guards(choice))
            regions.append(_Region(choice, guards, {slot: view.indices(slot, choice) for slot in view.slots(choice)}))
    return _Space(view, is_injective(view), is_surjective(view), tuple(regions))


def placed_leaf(one: Scalar, shape: tuple[int, ...], at: tuple[Scalar, ...]) -> Scalar:
    """What a leaf of a value is in a cell of a target of some shape."""
    match one:
        case Symbol(name=name):
            return Affine(((1, name),))
        case Extent():
            return Num(one.number)
        case Offset():
            return _offset(at, shape)
    return one


def _offset(at: tuple[Scalar, ...], shape: tuple[int, ...]) -> Scalar:
    """How far a cell lies from the first one, in memory order."""
    found: Scalar = Affine()
    stride = 1
    for index, size in zip(reversed(at), reversed(shape), strict=True):
        found = index * stride + found
        stride *= size
    return found


# What is looked up


def _position(read: Scalar, one: DataIndex, tested: bool) -> Scalar:
    """What a tensor holds, as an index; held inside its axis unless a test sees to that."""
    assert isinstance(read, Read)
    huge = read.buffer.dtype == "uint64"
    index = Cast("int64", call("min", read, 2**63 - 1) if huge else read)
    return index if tested else call("max", call("min", index, one.size - 1), 0)


def _placed(at: Sequence[Scalar], found: Mapping[str, Scalar]) -> tuple[Scalar, ...]:
    return tuple([_with_data(index, found) for index in at]) if found else tuple(at)


def _with_data(index: Scalar, found: Mapping[str, Scalar]) -> Scalar:
    """An index with what is looked up in place of its name."""
    named = [term for term in index.terms if term[1] in found] if isinstance(index, Affine) else []
    if not isinstance(index, Affine) or not named:
        return index
    rest: Scalar = index.without(found)
    for factor, name in named:
        term = found[name] if factor == 1 else call("mul", found[name], factor)
        rest = term if rest == Affine() else call("add", term, rest)
    return rest


def _check_positions(code: Accum, projection: Projection, operands: Sequence[Buffer]) -> None:
    for one in projection.looked_up:
        buffer = operands[one.slot - 1]
        if is_float(buffer.dtype) or buffer.dtype == "bool":
            raise ProjectionError(
                f"`{buffer.name}` holds positions along `{one.name}`, and they are {buffer.dtype}",
                origin=code.origin,
                text=show_statement(code),
                fix=f'positions are whole numbers: give it dtype="int32", or wf.cast({buffer.name}, "int32")',
            )


def _overwrites(code: Accum, projection: Projection) -> ProjectionError:
    loops = ", ".join(f"`{loop.name}`" for loop in projection.reduced) or "different points"
    why = f"{loops} would overwrite each other"
    if projection.scatters:
        why = f"positions along `{projection.looked_up[0].name}` may repeat"
    return ProjectionError(
        f"`{code.lhs.label} =: …` would write some cells more than once: {why}",
        origin=code.origin,
        text=show_statement(code),
        spans=[Span(0, len(code.lhs.label))],
        fix='say how the values combine: `+=`, or `.accumulate("max", …)`, or `=:+` in the code notation',
    )


def _too_few(code: Accum, fewest: int, projection: Projection) -> ProjectionError:
    loops = ", ".join(f"`{loop.name}`" for loop in projection.reduced)
    count = prod(loop.size for loop in projection.reduced)
    return ProjectionError(
        f"`{code.accum}` of {count or 'no'} values: there are no more along {loops}",
        origin=code.origin,
        text=show_statement(code),
        spans=[Span(0, len(code.lhs.label))],
        fix=f"give it at least {fewest}",
    )


# By ranges


def _by_ranges(
    code: Direct, target: Buffer, operands: tuple[Buffer, ...], taken: frozenset[str], standing: Standing
) -> Explicit:
    """A direct assignment. Tensors have as many subscripts as the text gives them, wherever these lead."""
    ranges = code.domain.ranges
    names = {index: _loop_name(index, ranges, taken) for index in ranges}
    sizes = {names[index]: max(high - low, 0) for index, (low, high) in ranges.items()}
    loops = {index: Affine.of(names[index]) + low for index, (low, _) in ranges.items()}
    own, *firsts = first_subscripts(code, standing)
    buffers = dict(zip(code.names, zip((target, *operands), (own, *firsts), strict=True), strict=False))

    def change(one: Scalar, parts: tuple[Scalar, ...]) -> Scalar | None:
        match one:
            case Affine():
                return one.substitute(loops)
            case Local(name=name):
                return Num(code.domain.number(name))
            case Read(buffer=named):
                buffer, first = buffers[named.name]
                return Read(buffer, (*first, *map(as_affine, parts)))
        return None

    value, *subscripts = (remade(one, change) for one in (code.value, *code.at))
    at, once = (*own, *map(as_affine, subscripts)), code.accum == "arg2"
    parts = list(subexpressions(value, *at))
    read = tuple(dict.fromkeys(one.buffer for one in parts if isinstance(one, Read)))
    named = {name for one in parts if isinstance(one, Affine) for name in one.names}
    used = named if OPS[code.accum].idempotent else sizes
    run = Run(tuple((name, size) for name, size in sizes.items() if name in used), (), at, value)
    fills = _fills(at[len(own) :], sizes, target.shape[len(own) :])
    cells = [one.at for one in parts if isinstance(one, Read) and one.buffer == target and one.at != at]
    recurrent = bool(cells)
    runs = (_in_order(run, cells) if recurrent else run,) if all(sizes.values()) else ()
    return Explicit(target, code.accum, not code.keeps, runs, read, once, fills, recurrent)


def _in_order(run: Run, cells: Sequence[tuple[Scalar, ...]]) -> Run:
    """A run in the order in which it writes every cell before it reads it, loops that go down as loops that go up."""
    sizes = dict(run.loops)
    order = iteration_order(run.at, cells, sizes)
    assert order is not None, "no order was found before"
    down = {name: -Affine.of(name) + (sizes[name] - 1) for name, reverse in order if reverse}
    loops = tuple((name, sizes[name]) for name, _ in order)
    at = tuple(substituted(one, down) for one in run.at)
    return Run(loops, run.guards, at, substituted(run.value, down))


def _fills(at: Sequence[Scalar], loops: Mapping[str, int], shape: tuple[int, ...]) -> bool:
    """Is each axis run through by a loop of its own?"""
    names = [one.only if isinstance(one, Affine) else "" for one in at]
    sizes = [loops.get(name, 1) for name in names]
    apart = len({*filter(None, names)}) == len([*filter(None, names)])
    return apart and (*sizes, *[1] * (len(shape) - len(sizes))) == shape


def _loop_name(index: str, ranges: Mapping[str, object], taken: frozenset[str]) -> str:
    name = index
    while name in taken or (name != index and name in ranges):
        name += "_"
    return name


def held(run: Run, target: Buffer, around: Mapping[str, int]) -> Run:
    """A run, in some loops around, whose subscripts all stay inside their buffers.

    A read that the loops alone do not keep there is held there: it is made only where a choice says so and its value is
    thrown away elsewhere, or it is checked while running, and then nothing that comes of it is kept.
    """
    loops = {**around, **dict(run.loops)}

    def change(one: Scalar, parts: tuple[Scalar, ...]) -> Scalar | None:
        if not isinstance(one, Read):
            return None
        buffer = one.buffer
        return Read(buffer, _inside(parts, buffer, loops)) if prod(buffer.shape) else Cast(buffer.dtype, Num(0))

    value, *subscripts = (remade(one, change) for one in (run.value, *run.at))
    return replace(run, at=_inside(subscripts, target, loops), value=value)


def _inside(subscripts: Sequence[Scalar], buffer: Buffer, loops: Mapping[str, int]) -> tuple[Scalar, ...]:
    """Subscripts that stay inside a buffer, which may have an axis of 1 that a text does not know."""
    found = [_clamped(one, size, loops) for one, size in zip(subscripts, buffer.shape, strict=False)]
    return (*found, *[Affine(())] * (len(buffer.shape) - len(found)))


def _clamped(index: Scalar, size: int, loops: Mapping[str, int]) -> Scalar:
    inside = isinstance(index, Affine) and index.stays_inside(size, loops)
    return index if inside else call("max", call("min", index, size - 1), 0)


def as_affine(index: Scalar) -> Scalar:
    """A whole number as a sum of loops times constants, if it is one."""
    found = fold_tree(index, _affine, lambda one: one.args if isinstance(one, Call) else ())
    return index if found is None else found


def _affine(value: Scalar, parts: Sequence[Affine | None]) -> Affine | None:
    match value, *parts:
        case [Affine() as one, *_]:
            return one
        case [Num(value=int(number)), *_]:
            return Affine((), number)
        case [Call(op="neg"), Affine() as one]:
            return -one
        case [Call(op="add" | "sub" as op), Affine() as one, Affine() as other]:
            return one + other if op == "add" else one - other
        case [Call(op="mul"), Affine() as one, Affine() as other] if one.is_constant or other.is_constant:
            return other * one.offset if one.is_constant else one * other.offset
    return None
