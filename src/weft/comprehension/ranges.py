"""How far every index runs and how large every tensor is, given the shapes that come in.

Ranges are as large as they can be without reading outside a tensor. They are found in rounds: a subscript with one
index whose range is open bounds it, given the ranges found in the rounds before; all such subscripts count. Thus in
`O(i) +=! I(i + k) * W(k)` the range of `k` is that of `W`, and only then `I(i + k)` bounds `i`. Then every read is
proved to stay inside or refused; one that depends on what tensors hold is left to be checked while running
(gather_checks.py). Before a tensor is read or given out, every cell of it must have been defined
(definite_assignment.py).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.comprehension.accesses import Accesses
from weft.comprehension.boundedness import check_sized, late
from weft.comprehension.bounds_proof import outside
from weft.comprehension.check import CheckedProgram
from weft.comprehension.definite_assignment import Undefined
from weft.comprehension.mistakes import Mistake, counted, fail, listed, meant
from weft.comprehension.nodes import (
    UNWANTED,
    Comprehension,
    Definition,
    Expr,
    Ident,
    Index,
    Int,
    Invoke,
    Read,
    TensorType,
    computed_axes,
    exprs,
    indices,
    walk,
)
from weft.comprehension.piecewise import Piecewise, Range
from weft.comprehension.range_inference import solve
from weft.comprehension.recurrence import check_recurrence
from weft.comprehension.scalars import Known
from weft.comprehension.scope import Checked
from weft.comprehension.show import show_sign
from weft.errors import Span, WeftError


@dataclass(frozen=True, slots=True)
class Loops:
    """A statement and the range of each of its indices: those on the left in order, then the reduced ones."""

    statement: Comprehension
    indices: tuple[tuple[str, Range], ...]

    def __getitem__(self, index: str) -> Range:
        return dict(self.indices)[index]

    def cells(self, shape: Sequence[int]) -> tuple[Range, ...]:
        """The cells it writes of a tensor of this shape, by axes: where a subscript is computed, any of its axis."""
        ranges = dict(self.indices)
        found = []
        for one, size in zip(self.statement.at, shape, strict=True):
            match one:
                case Int(value=value):
                    found.append(Range(value, value + 1))
                case Index(name=name):
                    found.append(ranges[name])
                case _:
                    found.append(Range(0, size))
        return tuple(found)


@dataclass(frozen=True, slots=True)
class Called:
    """A call and the ranges inside the definition it calls."""

    statement: Invoke
    ranges: Ranges


@dataclass(frozen=True, slots=True)
class Ranges:
    """A definition for given shapes: the values of its sizes, the shapes of all its tensors, its statements' ranges."""

    definition: Definition
    sizes: Mapping[str, int]
    shapes: Mapping[str, tuple[int, ...]]
    body: tuple[Loops | Called, ...]

    @property
    def results(self) -> tuple[tuple[int, ...], ...]:
        """The shapes of the results, in order."""
        return tuple(self.shapes[one.name.name] for one in self.definition.results)


#: What has been inferred of the definitions called, by name and shapes.
_Done: TypeAlias = dict[tuple[str, tuple[tuple[str, tuple[int, ...]], ...]], Ranges]


def infer(checked: CheckedProgram, name: str, shapes: Mapping[str, Sequence[int]]) -> Ranges:
    """The ranges of a definition for the shapes of its parameters.

    The results it accumulates into without `!` may be given too; then they bound indices as parameters do.
    """
    if name not in checked.definitions:
        fix = meant(name, checked.definitions, f"the definitions are {listed(checked.definitions)}")
        raise WeftError(f"there is no definition `{name}`", fix=fix)
    return _infer(checked, checked[name], {one: tuple(shape) for one, shape in shapes.items()}, {})


def _infer(program: CheckedProgram, checked: Checked, given: Mapping[str, tuple[int, ...]], done: _Done) -> Ranges:
    text, definition = program.program.text, checked.definition
    sizes, mistakes = _sizes(definition, given)
    fail(text, [*mistakes, *_check_given(checked, given)])
    shapes = {one.name.name: given[one.name.name] for one in definition.params}
    shapes |= {one: given[one] for one in checked.accumulates if one in given}
    declared = definition.declared(sizes)
    undefined = Undefined()
    body: list[Loops | Called] = []
    for statement in definition.body:
        fail(text, [one for read in _read_by(statement, program) for one in undefined.read(*read)])
        if isinstance(statement, Invoke):
            called = _call(statement, program, shapes, done)
            body.append(called)
            results = zip((one.name for one in statement.targets), called.ranges.results, strict=True)
            shapes |= {target: shape for target, shape in results if target != UNWANTED}
            continue
        target = statement.target.name
        loops, mistakes = _loops(statement, Known(shapes, sizes), checked.types, declared.get(target, ()))
        fail(text, mistakes)
        body.append(loops)
        if target not in shapes:
            fail(text, [*check_sized(statement, declared.get(target, ()))])
            shapes[target] = _first_shape(loops, definition, declared.get(target, ()))
            undefined.begin(target, shapes[target])
            fail(text, list(check_recurrence(loops, Known(shapes, sizes), checked.types)))
        fail(text, _check_computed(loops, Known(shapes, sizes), checked.types))
        cells = loops.cells(shapes[target])
        fail(text, [*_check_cells(loops, shapes[target]), *undefined.write(statement, cells, _late(loops))])
    fail(text, [one for result in definition.results for one in undefined.read(result.name.name)])
    fail(text, _check_declared(definition, sizes, shapes))
    return Ranges(definition, sizes, shapes, tuple(body))


def _read_by(statement: Comprehension | Invoke, program: CheckedProgram) -> Iterator[tuple[str, tuple[Expr, ...]]]:
    """The tensors a statement reads, and where."""
    parts = statement.args if isinstance(statement, Invoke) else exprs(statement)
    yield from ((one.tensor, one.subscripts) for part in parts for one in walk(part) if isinstance(one, Read))
    if isinstance(statement, Invoke):
        callee = program[statement.function.name]
        results = zip(callee.definition.results, statement.targets, strict=True)
        yield from ((target.name, ()) for result, target in results if result.name.name in callee.accumulates)


def _call(call: Invoke, program: CheckedProgram, shapes: Mapping[str, tuple[int, ...]], done: _Done) -> Called:
    callee = program[call.function.name]
    given = {
        param.name.name: shapes[arg.tensor] if isinstance(arg, Read) and not arg.subscripts else ()
        for param, arg in zip(callee.definition.params, call.args, strict=True)
    }
    results = [(one.name.name, to.name) for one, to in zip(callee.definition.results, call.targets, strict=True)]
    given |= {one: shapes[to] for one, to in results if one in callee.accumulates and to in shapes}
    key = call.function.name, tuple(given.items())
    if key not in done:
        done[key] = _infer(program, callee, given, done)
    return Called(call, done[key])


# Sizes


#: The sizes that are known, and who said each.
_Sizes: TypeAlias = dict[str, tuple[int, str]]


def _sizes(definition: Definition, given: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, int], list[Mistake]]:
    """The values of the size variables; two values for one are a mistake that names who asked for each."""
    found: _Sizes = {}
    mistakes: list[Mistake] = []
    for param in definition.params:
        shape, name = given.get(param.name.name), param.name
        if shape is None:
            mistakes.append(Mistake(f"no shape is given for `{name}`", name.span, "pass every parameter"))
        elif len(shape) != len(param.type.dims):
            mistakes.append(_wrong_rank(name, len(param.type.dims), shape, param.type.span))
        else:
            mistakes += _match(param.type, name, shape, found)
    return {name: size for name, (size, _) in found.items()}, mistakes


def _match(kind: TensorType, tensor: Ident, shape: tuple[int, ...], found: _Sizes) -> Iterator[Mistake]:
    """Take the sizes of a tensor from its shape; what does not agree with those known is a mistake."""
    for axis, (dim, size) in enumerate(zip(kind.dims, shape, strict=True)):
        place = f"axis {axis} of `{tensor}`"
        if isinstance(dim, Int):
            if dim.value != size:
                what = f"{place} is {size}, and its type says {dim}"
                yield Mistake(what, dim.span, f"pass a tensor of that size, or write a name for {dim}")
            continue
        before, where = found.setdefault(dim.name, (size, place))
        if before != size:
            what = f"`{dim}` is {before} as {where} and {size} as {place}"
            yield Mistake(what, dim.span, "make them equal, or give the axes different names")


def _check_given(checked: Checked, given: Mapping[str, tuple[int, ...]]) -> Iterator[Mistake]:
    """Have the results to accumulate into as many axes as they are written with?"""
    for name in (one.name for one in checked.definition.results):
        shape, rank = given.get(name.name), checked.ranks[name.name]
        if name.name in checked.accumulates and shape is not None and len(shape) != rank:
            yield _wrong_rank(name, rank, shape, name.span)


def _wrong_rank(name: Ident, rank: int, shape: tuple[int, ...], span: Span) -> Mistake:
    given = "×".join(map(str, shape)) if len(shape) > 1 else f"one axis of {shape[0]}" if shape else "a single number"
    what = f"`{name}` has {counted(rank, 'axis', 'axes')}, and what is given is {given}"
    return Mistake(what, span, "pass another tensor")


def _check_declared(
    definition: Definition, sizes: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> list[Mistake]:
    """Do results have the shapes their types say? A size that only results mention is what they make of it."""
    found = {name: (size, "a parameter") for name, size in sizes.items()}
    typed = [(one.type, one.name) for one in definition.results if one.type]
    return [wrong for kind, name in typed for wrong in _match(kind, name, shapes[name.name], found)]


# Statements


def _loops(
    statement: Comprehension, known: Known, types: Mapping[str, str], declared: Sequence[int | None]
) -> tuple[Loops, list[Mistake]]:
    accesses = Accesses.of(statement, types)
    points = Piecewise(indices(statement), known.number)
    ranges, mistakes = solve(accesses, known, points, declared)
    if not mistakes:
        reads = [one for one in accesses.every if one.read is not None and one.tensor in known.shapes]
        mistakes = outside(reads, ranges, known, points)
    return Loops(statement, tuple(ranges.items())), mistakes


def _check_computed(loops: Loops, known: Known, types: Mapping[str, str]) -> list[Mistake]:
    """Do computed subscripts stay inside, where that does not depend on what tensors hold?"""
    statement = loops.statement
    axes = computed_axes(statement)
    if not axes:
        return []
    every = Accesses.of(statement, types).every
    points = Piecewise(indices(statement), known.number)
    return outside([every[axis] for axis in axes], dict(loops.indices), known, points)


def _first_shape(loops: Loops, definition: Definition, declared: Sequence[int | None]) -> tuple[int, ...]:
    """The shape of a tensor by its first statement; an axis that it has a number in holds all numbers given for it."""
    target = loops.statement.target
    every = [one.at for one in definition.body if isinstance(one, Comprehension) and one.target == target]
    sizes = []
    for axis, one in enumerate(loops.statement.at):
        numbers = [other.value for at in every if isinstance(other := at[axis], Int)]
        own = declared[axis] if axis < len(declared) else None
        least = max(numbers, default=-1) + 1
        sizes.append(loops[one.name].high if isinstance(one, Index) else least if own is None else own)
    return tuple(sizes)


def _check_cells(loops: Loops, shape: tuple[int, ...]) -> Iterator[Mistake]:
    """A statement writes inside its tensor, and what begins afresh does so along whole axes."""
    statement = loops.statement
    target, sign = statement.target, show_sign(statement)
    for axis, (one, extent) in enumerate(zip(statement.at, loops.cells(shape), strict=True)):
        if isinstance(one, Int) and one.value >= shape[axis]:
            what = f"axis {axis} of `{target}` is {shape[axis]}, and {one.value} is not in it"
            yield Mistake(what, one.span, "write the numbers from 0 on, or give the result a type that is long enough")
        elif isinstance(one, Index) and extent.size and extent.low < 0:
            what = f"`{one.name}` runs over {extent}, and `{target}` begins at 0"
            yield Mistake(what, one.span, f"let it begin at 0: `where {one.name} in 0:{extent.high}`")
        elif isinstance(one, Index) and extent.size and extent.high > shape[axis]:
            what = f"`{one.name}` runs over {extent}, and axis {axis} of `{target}` is {shape[axis]}"
            yield Mistake(what, one.span, f"stay inside: `where {one.name} in 0:{shape[axis]}`")
        elif isinstance(one, Index) and statement.resets and extent != Range(0, shape[axis]):
            what = f"`{sign}` starts `{target}` afresh, and `{one.name}` covers {extent} of 0:{shape[axis]}"
            yield Mistake(what, one.span, f"cover all of it, or write `{sign[:-1]}`")


def _late(loops: Loops) -> Mistake | None:
    """That a statement begins late, if it does."""
    statement = loops.statement
    for one in statement.at:
        if isinstance(one, Index) and loops[one.name].low > 0:
            extent = loops[one.name]
            return late(one.name, f"runs over {extent}", statement, extent.low, one)
    return None
