"""A definition as a list of steps: calls written out, names of values put in, every tensor written by steps of its own.

A tensor that is written again after it was read becomes a second tensor, which starts as a copy: so the steps that
write a tensor can run together, before any that reads it, and whatever was read can still be read by a gradient.
Sizes and tensors of a definition called are told apart by the names of the calls.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING

from weft.affine import Affine
from weft.comprehension.check import CheckedProgram
from weft.comprehension.nodes import UNWANTED, Comprehension, Expr, Int, Invoke, Read, own_reads
from weft.comprehension.piecewise import Range
from weft.comprehension.ranges import Called, Loops, Ranges
from weft.comprehension.scalars import AS_THEY_ARE, Known, Translation, cell, reads, written
from weft.comprehension.scope import Checked
from weft.comprehension.show import SIGNS, show_expr
from weft.loops import Cast
from weft.naming import FreshNames
from weft.ops import Scalar

if TYPE_CHECKING:
    from weft.comprehension.gather_checks import Indirect


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """`target(at) = value`, or accumulated by `reduction`, over the loops of a statement or over a tensor's cells.

    `loops` is the number of the statement, or the tensor; then `i0`, `i1`, … are its axes. Unless it `keeps` what the
    target holds, the target starts from the reduction's neutral element, or is written as a whole. It may be there to
    note how far a subscript that it `watches` strays.
    """

    target: str
    at: tuple[Scalar, ...]
    reduction: str | None
    keeps: bool
    value: Scalar
    loops: int | str
    watches: Indirect | None = None

    @property
    def reads(self) -> tuple[str, ...]:
        """The tensors it reads, each once."""
        return tuple(dict.fromkeys(one.buffer.name for one in reads(self.value, *self.at)))


@dataclass(frozen=True, slots=True)
class Flat:
    """The steps of a definition; `types` are those of all its tensors, `homes` say which statement's tensor each is.

    Of what is collected for a part of a tensor, `slices` has those of the tensor, and which of its axes the part has.
    What gradients add is `like` tensors of the definition.
    """

    params: tuple[str, ...]
    results: tuple[str, ...]
    steps: tuple[Step, ...]
    types: Mapping[str, str]
    homes: Mapping[str, tuple[str, str]]
    slices: Mapping[str, tuple[str, str, tuple[int, ...]]]
    ranks: Mapping[str, int]
    like: Mapping[str, str] = field(default_factory=dict)

    @property
    def computed(self) -> list[str]:
        """The tensors that steps write, each after those that it is computed from."""
        last = {step.target: number for number, step in enumerate(self.steps)}
        return sorted(last, key=last.__getitem__)

    def base(self, tensor: str) -> str:
        """The tensor of the definition that a tensor is like."""
        return self.like.get(tensor, tensor)

    def only(self, tensor: str, steps: Sequence[Step]) -> Flat:
        """What computes one tensor from all that it reads."""
        read = dict.fromkeys(name for step in steps for name in step.reads if name != tensor)
        return replace(self, params=tuple(read), results=(tensor,), steps=tuple(steps))

    def extended(self, like: Mapping[str, str]) -> Flat:
        """The same with more tensors, each like one that there is."""
        return replace(
            self,
            types={**self.types, **{one: self.types[other] for one, other in like.items()}},
            ranks={**self.ranks, **{one: self.ranks[other] for one, other in like.items()}},
            like={**self.like, **{one: self.base(other) for one, other in like.items()}},
        )

    def writing(self, tensor: str) -> tuple[Step, ...]:
        """The steps that write a tensor, in order."""
        return tuple(step for step in self.steps if step.target == tensor)


def flatten(program: CheckedProgram, name: str) -> Flat:
    """The steps of a definition. Results it accumulates into come in as parameters do, after them."""
    checked = program[name]
    flattening = _Flattening(program)
    params = [*(one.name.name for one in checked.definition.params), *checked.accumulates]
    names = {one: flattening.add(one, "", one, checked) for one in params}
    flattening.run(checked, "", names)
    results = tuple(names[one.name.name] for one in checked.definition.results)
    made = flattening
    return Flat(tuple(params), results, tuple(made.steps), made.types, made.homes, made.slices, made.ranks)


def cells(rank: int) -> tuple[Scalar, ...]:
    """The subscripts of every cell of a tensor."""
    return tuple(Affine.of(f"i{axis}") for axis in range(rank))


def show_step(step: Step, names: Mapping[str, str] = AS_THEY_ARE) -> str:
    """A step as the language writes it, or as near as that comes; tensors called as `names` says."""
    shown = show_expr(Read(names.get(step.target, step.target), tuple(written(one, names) for one in step.at)))
    sign = SIGNS[step.reduction] + "!" * (not step.keeps and step.reduction is not None)
    return f"{shown} {sign} {show_expr(written(step.value, names))}"


@dataclass(slots=True)
class _Flattening:
    program: CheckedProgram
    steps: list[Step] = field(default_factory=list)
    types: dict[str, str] = field(default_factory=dict)
    homes: dict[str, tuple[str, str]] = field(default_factory=dict)
    slices: dict[str, tuple[str, str, tuple[int, ...]]] = field(default_factory=dict)
    ranks: dict[str, int] = field(default_factory=dict)
    names: FreshNames = field(default_factory=FreshNames)
    statements: int = 0
    calls: int = 0
    #: The tensors that were read since they were last written: they are not written again.
    settled: set[str] = field(default_factory=set)

    def add(self, wanted: str, path: str, local: str, checked: Checked) -> str:
        """A tensor of its own, of the type and shape of one of a definition."""
        name = self.names.fresh(wanted)
        self.types[name], self.ranks[name], self.homes[name] = checked.types[local], checked.ranks[local], (path, local)
        return name

    def run(self, checked: Checked, path: str, names: dict[str, str]) -> None:
        """Write out a definition; `names` says which tensor each of its names is by now."""
        self.settled |= set(names.values())
        for statement in checked.definition.body:
            if isinstance(statement, Invoke):
                self._call(statement, path, names)
            else:
                self._statement(statement, checked, path, names)

    def _call(self, call: Invoke, path: str, names: dict[str, str]) -> None:
        callee = self.program[call.function.name]
        self.calls += 1
        inside = call_path(path, call, self.calls)
        params = zip(callee.definition.params, call.args, strict=True)
        inner = {one.name.name: self._given(arg, one.name.name, inside, callee, path, names) for one, arg in params}
        results = list(zip(callee.definition.results, call.targets, strict=True))
        inner |= {one.name.name: names[to.name] for one, to in results if one.name.name in callee.accumulates}
        self.run(callee, inside, inner)
        names |= {to.name: inner[one.name.name] for one, to in results if to.name != UNWANTED}

    def _given(self, arg: Expr, param: str, inside: str, callee: Checked, path: str, names: Mapping[str, str]) -> str:
        """The tensor that is passed for a parameter; a number is written to one first."""
        if isinstance(arg, Read) and not arg.subscripts:
            return names[arg.tensor]
        name = self.add(f"{inside}{param}".replace(".", "_"), inside, param, callee)
        value = Translation(self.types, names, path)(arg)
        self._step(Step(name, (), None, False, Cast(self.types[name], value), name))
        return name

    def _step(self, step: Step) -> None:
        """One more step: what it reads is not written again."""
        self.steps.append(step)
        self.settled |= set(step.reads)

    def _statement(self, statement: Comprehension, checked: Checked, path: str, names: dict[str, str]) -> None:
        local = statement.target.name
        if local not in names and own_reads(statement):
            self._recurrence(statement, checked, path, names)
            return
        scalar = Translation(self.types, names, path).within(statement)
        value, at = scalar(statement.value), tuple(map(scalar, statement.at))
        loops: int | str = self.statements
        resets, reduction = statement.resets, statement.reduction
        if resets and any(isinstance(one, Int) for one in statement.at):
            loops = self._collected(statement, at, value, path, checked)
            at, value = _of_part(statement, at), self._cell(loops)
            resets, reduction = False, None
        self.statements += 1
        before = None if resets else names.get(local)
        read = {one.buffer.name for one in reads(value, *at)}
        settled = before in self.settled or before in read or reduction not in (None, "add")
        wanted = f"{path}{local}".replace(".", "_")
        target = before if before and not settled else self.add(wanted, path, local, checked)
        if before and settled:
            every = cells(self.ranks[target])
            self._step(Step(target, every, None, False, self._cell(before), target))
        self._step(Step(target, at, reduction, before is not None, value, loops))
        self.settled.discard(target)
        if reduction in ("min", "max"):
            self.settled.add(target)  # its gradient asks what attained the value
        names[local] = target

    def _recurrence(self, statement: Comprehension, checked: Checked, path: str, names: dict[str, str]) -> None:
        """A statement that reads cells which it has written."""
        local = statement.target.name
        names[local] = target = self.add(f"{path}{local}".replace(".", "_"), path, local, checked)
        scalar = Translation(self.types, names, path).within(statement)
        at, value = tuple(map(scalar, statement.at)), scalar(statement.value)
        self._step(Step(target, at, statement.reduction, False, value, self.statements))
        self.statements += 1

    def _collected(
        self, statement: Comprehension, at: Sequence[Scalar], value: Scalar, path: str, checked: Checked
    ) -> str:
        """What a part of a tensor is to hold, in a tensor of its own: only that part starts afresh."""
        local = statement.target.name
        kept = [axis for axis, one in enumerate(statement.at) if not isinstance(one, Int)]
        name = self.names.fresh(f"{path}{local}_part".replace(".", "_"))
        self.types[name], self.ranks[name] = checked.types[local], len(kept)
        self.slices[name] = path, local, tuple(kept)
        self._step(Step(name, tuple(at[axis] for axis in kept), statement.reduction, False, value, self.statements))
        return name

    def _cell(self, name: str) -> Scalar:
        """The cell of a tensor that the loops over its cells have come to."""
        return cell(name, self.types[name], cells(self.ranks[name]))


def _of_part(statement: Comprehension, at: Sequence[Scalar]) -> tuple[Scalar, ...]:
    """The left side of a part of a tensor, in terms of the cells of a tensor of its own."""
    every = iter(cells(len(at)))
    return tuple(
        one if isinstance(written, Int) else next(every) for written, one in zip(statement.at, at, strict=True)
    )


def call_path(path: str, call: Invoke, number: int) -> str:
    """What sizes of a definition called begin with: no name that is written has a dot."""
    return f"{path}{call.function}{number}."


# For given shapes


@dataclass(frozen=True, slots=True)
class Extents(Known):
    """A flat definition for given shapes: the shapes of all tensors, the values of all sizes, the statements' loops."""

    loops: tuple[Mapping[str, Range], ...]

    def ranges(self, step: Step) -> Mapping[str, Range]:
        """The loops of a step, outermost first."""
        if isinstance(step.loops, int):
            return self.loops[step.loops]
        return {f"i{axis}": Range(0, size) for axis, size in enumerate(self.shapes[step.loops])}


def is_lost(step: Step, flat: Flat, extents: Extents) -> bool:
    """Is a step a copy of which the next step that writes the tensor leaves nothing?"""
    if isinstance(step.loops, int) or step.keeps:
        return False
    later = flat.writing(step.target)[1:]
    if not later or later[0].reduction is not None:
        return False
    ranges = extents.ranges(later[0])
    covered = [ranges[name] for one in later[0].at if isinstance(one, Affine) for name in one.names]
    return tuple(extent.size for extent in covered) == extents.shapes[step.target]


def measure(flat: Flat, ranges: Ranges) -> Extents:
    """The extents of a flat definition, from the ranges of the definition it was made of."""
    frames = dict(_frames(ranges, "", [0]))
    shapes = {name: frames[path].shapes[local] for name, (path, local) in flat.homes.items()}
    sizes = {f"{path}{name}": size for path, frame in frames.items() for name, size in frame.sizes.items()}
    loops = tuple(dict(one.indices) for one in _loops(ranges))
    shapes |= {
        name: tuple(frames[path].shapes[local][axis] for axis in axes)
        for name, (path, local, axes) in flat.slices.items()
    }
    return Extents(shapes, sizes, loops)


def _frames(ranges: Ranges, path: str, calls: list[int]) -> Iterator[tuple[str, Ranges]]:
    """The ranges of a definition and of those it calls, by path."""
    yield path, ranges
    for one in ranges.body:
        if isinstance(one, Called):
            calls[0] += 1
            yield from _frames(one.ranges, call_path(path, one.statement, calls[0]), calls)


def _loops(ranges: Ranges) -> Iterator[Loops]:
    """The statements of a definition and of those it calls, in the order they run."""
    for one in ranges.body:
        yield from _loops(one.ranges) if isinstance(one, Called) else (one,)
