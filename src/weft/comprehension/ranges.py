"""How far every index runs and how large every tensor is, given the shapes that come in.

Ranges are as large as they can be without reading outside a tensor. They are found in rounds: a subscript with one
index whose range is open bounds it, given the ranges found in the rounds before; all such subscripts count. Thus in
`O(i) +=! I(i + k) * W(k)` the range of `k` is that of `W`, and only then `I(i + k)` bounds `i`. Then every read is
proved to stay inside, refused, or, where it depends on what tensors hold, listed to be checked while running.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.comprehension.affine import Known, Range
from weft.comprehension.check import Checked, CheckedProgram
from weft.comprehension.mistakes import Mistake, counted, fail, listed, meant
from weft.comprehension.nodes import Comprehension, Definition, Expr, Ident, Invoke, Param, Read, TensorType
from weft.comprehension.rounds import Access, accesses, solve
from weft.comprehension.safety import outside
from weft.comprehension.show import show_sign
from weft.errors import WeftError, user_origin

_PASS = "pass another tensor"


@dataclass(frozen=True, slots=True)
class RuntimeCheck:
    """A subscript that depends on what tensors hold: it must be in `0:size` when it is read."""

    read: Read
    axis: int
    subscript: Expr
    size: int


@dataclass(frozen=True, slots=True)
class Loops:
    """A statement and the range of each of its indices: those on the left in order, then the reduced ones.

    `guarded` are the reads that stay inside only where the choices around them (`c ? … : …`, `c && …`) let them happen;
    `checks` the subscripts to be checked while running. All other reads stay inside over the whole of the ranges.
    """

    statement: Comprehension
    indices: tuple[tuple[str, Range], ...]
    guarded: tuple[Read, ...]
    checks: tuple[RuntimeCheck, ...]

    def __getitem__(self, index: str) -> Range:
        return dict(self.indices)[index]


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
_Done: TypeAlias = dict[tuple[str, tuple[tuple[int, ...], ...]], Ranges]


def infer(checked: CheckedProgram, name: str, shapes: Mapping[str, Sequence[int]]) -> Ranges:
    """The ranges of a definition for the shapes of its parameters.

    The results it accumulates into without `!` may be given too; then they bound indices as parameters do.
    """
    if name not in checked.definitions:
        fix = meant(name, checked.definitions, f"the definitions are {listed(checked.definitions)}")
        raise WeftError(f"there is no definition `{name}`", origin=user_origin(), fix=fix)
    return _infer(checked, checked[name], {one: tuple(shape) for one, shape in shapes.items()}, {})


def _infer(program: CheckedProgram, checked: Checked, given: Mapping[str, tuple[int, ...]], done: _Done) -> Ranges:
    text, definition = program.program.text, checked.definition
    sizes, mistakes = _sizes(definition, given)
    fail(text, [*mistakes, *_check_given(checked, given)])
    shapes = {one.name.name: given[one.name.name] for one in definition.params}
    shapes |= {one: given[one] for one in checked.accumulates if one in given}
    body: list[Loops | Called] = []
    for statement in definition.body:
        known = Known(sizes, shapes, checked.types)
        if isinstance(statement, Invoke):
            called = _call(statement, program, shapes, done)
            body.append(called)
            shapes |= zip((one.name for one in statement.targets), called.ranges.results, strict=True)
        else:
            loops, mistakes = _loops(statement, known)
            fail(text, mistakes)
            body.append(loops)
            shapes.setdefault(statement.target.name, tuple(loops[one.name].high for one in statement.indices))
    fail(text, _check_declared(definition, sizes, shapes))
    return Ranges(definition, sizes, shapes, tuple(body))


def _call(call: Invoke, program: CheckedProgram, shapes: Mapping[str, tuple[int, ...]], done: _Done) -> Called:
    callee = program[call.function.name]
    given = {param.name.name: shapes[arg.name] for param, arg in zip(callee.definition.params, call.args, strict=True)}
    key = call.function.name, tuple(given.values())
    if key not in done:
        done[key] = _infer(program, callee, given, done)
    return Called(call, done[key])


# Sizes


def _sizes(definition: Definition, given: Mapping[str, tuple[int, ...]]) -> tuple[dict[str, int], list[Mistake]]:
    """The values of the size variables; two values for one are a mistake that names who asked for each."""
    found: dict[str, tuple[int, str]] = {}
    mistakes: list[Mistake] = []
    for param in definition.params:
        shape = given.get(param.name.name)
        if shape is None:
            mistakes.append(Mistake(f"no shape is given for `{param.name}`", param.name.span, "pass every parameter"))
        elif len(shape) != len(param.type.dims):
            mistakes.append(_wrong_rank(param, shape))
        else:
            _match(param.type, param.name, shape, found, mistakes)
    return {name: size for name, (size, _) in found.items()}, mistakes


def _match(
    type: TensorType,
    tensor: Ident,
    shape: tuple[int, ...],
    found: dict[str, tuple[int, str]],
    mistakes: list[Mistake],
) -> None:
    for axis, (dim, size) in enumerate(zip(type.dims, shape, strict=True)):
        place = f"axis {axis} of `{tensor}`"
        if not isinstance(dim, Ident):
            if dim.value != size:
                what = f"{place} is {size}, and its type says {dim.value}"
                mistakes.append(Mistake(what, dim.span, f"pass a tensor of that size, or write a name for {dim.value}"))
            continue
        before, where = found.setdefault(dim.name, (size, place))
        if before != size:
            what = f"`{dim}` is {before} as {where} and {size} as {place}"
            mistakes.append(Mistake(what, dim.span, "make them equal, or give the axes different names"))


def _check_given(checked: Checked, given: Mapping[str, tuple[int, ...]]) -> list[Mistake]:
    """Have the results to accumulate into as many axes as they are written with?"""
    wrong = [one for one in checked.accumulates if one in given and len(given[one]) != checked.ranks[one]]
    places = {one.name.name: one.name.span for one in checked.definition.results}
    axes = {one: counted(checked.ranks[one], "axis", "axes") for one in wrong}
    return [
        Mistake(f"`{one}` has {axes[one]}, and what is given is {_shape(given[one])}", places[one], _PASS)
        for one in wrong
    ]


def _wrong_rank(param: Param, shape: tuple[int, ...]) -> Mistake:
    axes = counted(len(param.type.dims), "axis", "axes")
    return Mistake(f"`{param.name}` has {axes}, and what is given is {_shape(shape)}", param.type.span, _PASS)


def _shape(shape: tuple[int, ...]) -> str:
    return "×".join(map(str, shape)) if len(shape) > 1 else f"one axis of {shape[0]}" if shape else "a single number"


def _check_declared(
    definition: Definition, sizes: Mapping[str, int], shapes: Mapping[str, tuple[int, ...]]
) -> list[Mistake]:
    """Do results have the shapes their types say? A size that only results mention is what they make of it."""
    found = {name: (size, "a parameter") for name, size in sizes.items()}
    mistakes: list[Mistake] = []
    for result in definition.results:
        if result.type:
            _match(result.type, result.name, shapes[result.name.name], found, mistakes)
    return mistakes


# Statements


def _loops(statement: Comprehension, known: Known) -> tuple[Loops, list[Mistake]]:
    ranges, mistakes = solve(statement, known)
    order = tuple(ranges.items())
    if mistakes:
        return Loops(statement, order, (), ()), mistakes
    mistakes = _check_left(statement, ranges, known.shapes.get(statement.target.name))
    reads = [one for one in accesses(statement) if one.read is not None]
    guarded, unknown, wrong = outside(statement, reads, ranges, known)
    checks = tuple(_runtime(one, known) for one in unknown)
    return Loops(statement, order, tuple(dict.fromkeys(guarded)), checks), mistakes + wrong


def _runtime(access: Access, known: Known) -> RuntimeCheck:
    assert access.read is not None
    size = known.shapes[access.tensor][access.axis]
    return RuntimeCheck(access.read, access.axis, access.subscript, size)


def _check_left(statement: Comprehension, ranges: Mapping[str, Range], shape: tuple[int, ...] | None) -> list[Mistake]:
    """The first statement of a tensor defines all of it, from 0 on; later ones stay inside."""
    target, mistakes = statement.target, list[Mistake]()
    for axis, index in enumerate(statement.indices):
        range = ranges[index.name]
        if shape is None and range.low > 0:
            what = f"`{index}` runs over {range}, so nothing defines `{target}` below {range.low}"
            fix = f"let it begin at 0: write `{index} + {range.low}` for `{index}` on the right"
            mistakes.append(Mistake(what, index.span, fix))
        elif shape is None and range.low < 0:
            what = f"`{index}` runs over {range}, and `{target}` begins at 0"
            mistakes.append(Mistake(what, index.span, f"let it begin at 0: `where {index} in 0:{range.high}`"))
        elif shape is not None and range.size and not 0 <= range.low <= range.high <= shape[axis]:
            what = f"`{index}` runs over {range}, and axis {axis} of `{target}` is {shape[axis]}"
            mistakes.append(Mistake(what, index.span, f"stay inside: `where {index} in 0:{shape[axis]}`"))
        elif shape is not None and statement.resets and range != Range(0, shape[axis]):
            sign = show_sign(statement)
            what = f"`{sign}` starts `{target}` afresh, and `{index}` covers {range} of 0:{shape[axis]}"
            mistakes.append(Mistake(what, index.span, f"cover all of it, or write `{sign[:-1]}`"))
    return mistakes
