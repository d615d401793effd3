"""Code as a definition of the language, for given shapes: what an einsum or a gradient computes, as a comprehension."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TypeVar

from weft.affine import Affine
from weft.assign import (
    Accum,
    Assignment,
    Cells,
    Code,
    Direct,
    Fetch,
    Node,
    Operand,
    closed_buffer,
    node_of,
    statements,
    target,
)
from weft.assign.explicit import Explicit, Run, SpellingOut, placed_leaf, redirected
from weft.assign.nodes import Merge
from weft.assign.show import show_statement
from weft.comprehension.builtins import BUILTINS, SCALAR_TYPES
from weft.comprehension.nodes import REDUCTIONS, Cast, Comprehension, Definition, Ident, Int, Param, Result, TensorType
from weft.comprehension.scalars import reads
from weft.comprehension.statement_text import neutral, statement
from weft.comprehension.types import settled, type_of
from weft.errors import WeftError, user_origin
from weft.loops import Buffer, Read, Role
from weft.loops.walk import remade
from weft.naming import FreshNames
from weft.ops import OPS, Num, Scalar, call, substitute
from weft.ops.dtypes import numpy_type, promote

T = TypeVar("T")

_WORDS = ("def", "where", "in", "exists", "true", "false")


def definition(
    name: str, code: Code, params: Sequence[Node], results: Sequence[Node], ranks: Mapping[Node, int] | None = None
) -> Definition:
    """A definition of what complete code computes; `ranks` say how many axes tensors have that come of a text."""
    reading = _Reading(FreshNames([name, *_WORDS, *BUILTINS, *SCALAR_TYPES]))
    given, found = ([reading.buffer(one) for one in some] for some in (params, results))
    every = [one for some in said(code, "as a comprehension", reading.explicit) for one in some]
    known = {reading.buffer(node): rank for node, rank in (ranks or {}).items()}
    text = _StatementWriter(_ranks((one for _, one in every), known))
    lines = _converted([line for code, one in every for line in text.lines(code, one)], text.types)
    typed = tuple(Param(text.type(one), Ident(one.name)) for one in given)
    return Definition(Ident(name), typed, tuple(Result(Ident(one.name)) for one in found), lines)


def identifier(label: str) -> str:
    """A label as a name that languages have."""
    found = re.sub(r"[^A-Za-z0-9_]", "_", label)
    return found if found[:1].isalpha() else f"t{found}"


class Unsayable(WeftError):
    """A statement for which a notation has no words."""

    @staticmethod
    def of(code: Assignment, notation: str, why: str) -> Unsayable:
        what = f"`{show_statement(code)}` cannot be said {notation}: {why}"
        return Unsayable(what, origin=code.origin or user_origin())


# Code with everything said


def is_said(code: Assignment) -> bool:
    """Is a statement about values? Some only check, and the values of some nobody sees."""
    return target(code).check is None and not (isinstance(code, Direct) and code.domain.idle)


def said(code: Code, notation: str, say: Callable[[Assignment], T]) -> Iterator[T]:
    """What is said of the statements of code; Unsayable names the one there are no words for."""
    for one in filter(is_said, statements(code)):
        try:
            yield say(one)
        except WeftError as error:
            raise Unsayable.of(one, notation, error.what) from None


def node_here(operand: Operand) -> Node:
    if isinstance(operand, Merge):
        raise WeftError(f"`{operand}` comes from another device")
    if node_of(operand).iterations is not None:
        raise WeftError(f"`{node_of(operand).label}` is computed one iteration after another, in a loop")
    return node_of(operand)


def filling(code: Fetch, buffer: Buffer) -> Scalar:
    """What is put into every cell of a buffer, in terms of where it lies."""
    assert isinstance(code.source, Cells), "data and files are bound, not computed"
    at = _every(buffer)
    return substitute(code.source.value, lambda one: placed_leaf(one, buffer.shape, at))


@dataclass(slots=True)
class _Reading:
    """Reads code; its tensors are called as the language calls them."""

    names: FreshNames
    buffers: dict[Node, Buffer] = field(default_factory=dict)

    def buffer(self, operand: Operand) -> Buffer:
        node = node_here(operand)
        if node not in self.buffers:
            self.buffers[node] = closed_buffer(node, node.id, self.names.fresh(identifier(node.label)))
        return self.buffers[node]

    def explicit(self, code: Assignment) -> list[tuple[Assignment, Explicit]]:
        """A statement with everything said."""
        if isinstance(code, Fetch):
            buffer = self.buffer(code.node)
            return [(code, _everywhere(buffer, filling(code, buffer)))]
        return [(code, one) for one in self._apart(_by_words(SpellingOut(self.buffer)(code)))]

    def _apart(self, one: Explicit) -> Iterator[Explicit]:
        """An assignment; before it a copy of its target, where it reads other cells of it than the one it writes."""
        own = one.target
        if any(read.at != run.at for run in one.runs for read in reads(run.value) if read.buffer == own):
            old = replace(own.beside(Role.BEFORE), name=self.names.fresh(f"{own.name}_before"))
            yield _everywhere(old, Read(own, _every(own)))
            one = replace(one, runs=tuple(replace(run, value=redirected(run.value, own, old)) for run in one.runs))
        yield one


def _every(buffer: Buffer) -> tuple[Affine, ...]:
    """The subscripts of every cell, of which there may be none."""
    return tuple(Affine.of(f"i{axis}") if size != 1 else Affine() for axis, size in enumerate(buffer.shape))


def _everywhere(buffer: Buffer, value: Scalar) -> Explicit:
    """A value in every cell."""
    at = _every(buffer)
    loops = tuple((one.only, size) for one, size in zip(at, buffer.shape, strict=True) if one.only)
    return Explicit(buffer, "arg2", True, (Run(loops, (), at, value),), (), True, True)


def _by_words(one: Explicit) -> Explicit:
    """An assignment by `=`, `+=`, `*=`, `min=` or `max=`, which the language has words for."""
    if one.accum == "sub":
        return replace(one, accum="add", runs=tuple(replace(run, value=-run.value) for run in one.runs))
    if one.accum in ("arg2", *REDUCTIONS.values()):
        return one
    op = OPS[one.accum]
    start = op.begins(numpy_type(one.target.dtype)) if one.reset and op.begins else None
    if not one.injective or (one.reset and not one.surjective) or isinstance(start, tuple):
        raise WeftError(f"it accumulates with `{op.text}`")

    def combined(run: Run) -> Run:
        old = Read(one.target, run.at) if start is None else Num(start)  # type: ignore[arg-type]
        return replace(run, value=call(op.name, old, run.value))

    return replace(one, accum="arg2", runs=tuple(map(combined, one.runs)))


def _ranks(every: Iterable[Explicit], known: Mapping[Buffer, int]) -> dict[Buffer, int]:
    """How many subscripts each tensor has: an axis of 1 that a text does not know, no statement has."""
    found = dict(known)
    for one in every:
        for run in one.runs:
            for buffer, at in ((one.target, run.at), *((read.buffer, read.at) for read in reads(run.value, *run.at))):
                found[buffer] = min(found.get(buffer, len(at)), len(at))
        found.setdefault(one.target, len(one.target.shape))
    return found


# Statements


@dataclass(frozen=True, slots=True)
class _StatementWriter:
    """Writes assignments as statements; tensors have so many subscripts."""

    ranks: Mapping[Buffer, int]

    @property
    def types(self) -> dict[str, str]:
        return {one.name: one.dtype for one in self.ranks}

    def type(self, buffer: Buffer) -> TensorType:
        return TensorType(buffer.dtype, tuple(map(Int, self._shape(buffer))))

    def _shape(self, buffer: Buffer) -> tuple[int, ...]:
        return buffer.shape[: self.ranks.get(buffer, len(buffer.shape))]

    def lines(self, code: Assignment, one: Explicit) -> list[Comprehension]:
        """The statements of an assignment; first what it starts from, where it misses some cells."""
        try:
            part = isinstance(code, Accum) and one.accum == "arg2" and not one.surjective  # the rest keeps its value
            return list(self._lines(one, keeps=part or not one.reset))
        except WeftError as error:
            raise Unsayable.of(code, "as a comprehension", error.what) from None

    def _lines(self, one: Explicit, keeps: bool) -> Iterator[Comprehension]:
        if not one.runs and one.target.shape and (one.reset or 0 in one.target.shape):
            yield self._start(one)
        for run in one.runs:
            line, covers = self._statement(one.target, run, one.accum, keeps)
            if not keeps and not covers:
                yield self._start(one)
                line = replace(line, resets=False)
            yield line
            keeps = True

    def _start(self, one: Explicit) -> Comprehension:
        number = 0 if one.accum == "arg2" else neutral(one.accum, one.target.dtype).value
        whole = _everywhere(one.target, Num(number if one.accum in ("min", "max") else float(number)))
        return self._statement(one.target, whole.runs[0], "arg2", False)[0]

    def _statement(self, buffer: Buffer, run: Run, accum: str, keeps: bool) -> tuple[Comprehension, bool]:
        def change(part: Scalar, parts: tuple[Scalar, ...]) -> Scalar | None:
            return Read(part.buffer, parts[: self.ranks[part.buffer]]) if isinstance(part, Read) else None

        value, *at = (remade(one, change) for one in (run.value, *run.at))
        plain = replace(run, at=tuple(at), value=value)
        return statement(buffer.name, self._shape(buffer), plain, accum, keeps, self.types)


def _converted(body: Sequence[Comprehension], types: Mapping[str, str]) -> tuple[Comprehension, ...]:
    """The statements with conversions where tensors would otherwise get other types than these."""
    natural: dict[str, str] = {}
    fitting = []
    for line in body:
        target, dtype = line.target.name, type_of(line.value, types, {})
        if promote(dtype, types[target]) != types[target]:
            dtype, line = types[target], _as(types[target], line)
        natural[target] = promote(natural.get(target, dtype), dtype)
        fitting.append(line)
    open_types = {target for target, dtype in natural.items() if settled(dtype) != types[target]}
    found = []
    for line in fitting:
        target = line.target.name
        found.append(_as(types[target], line) if target in open_types else line)
        open_types.discard(target)
    return tuple(found)


def _as(dtype: str, line: Comprehension) -> Comprehension:
    return replace(line, value=Cast(dtype, line.value))
