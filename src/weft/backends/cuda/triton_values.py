"""LaneValues of a Triton program: scalars of the loop language, computed for all lanes of a block at once.

A program has a few axes of lanes. A value that moves along some of them is a block of as many dimensions as there are
axes, of size 1 along the others; what moves along none is a scalar. So blocks of any axes meet by broadcasting.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from math import prod
from typing import TypeAlias

from weft.affine import Affine
from weft.backends.cuda.triton_types import full, triton_converted, triton_literal
from weft.loops import Buffer, Cast, Local, Read, Role, Stmt, dtype_of
from weft.loops.legality import follow
from weft.loops.walk import Loop
from weft.ops import OPS, Call, Num, Scalar

LaneAxes: TypeAlias = frozenset[int]
NONE: LaneAxes = frozenset()


@dataclass(frozen=True, slots=True)
class LaneValue:
    """An expression, and the axes it moves along."""

    text: str
    axes: LaneAxes = NONE


@dataclass(frozen=True, slots=True)
class Here:
    """Where code stands: indices of loops, what holds of lanes, and how many lanes there are along each axis.

    `sizes` has a number for every axis of the program, 1 for those that are not there yet.
    """

    indices: Mapping[str, LaneValue]
    masks: tuple[LaneValue, ...] = ()
    sizes: tuple[int, ...] = ()

    @property
    def axes(self) -> LaneAxes:
        return frozenset(at for at, size in enumerate(self.sizes) if size > 1)

    def shape(self, axes: LaneAxes) -> str:
        """The shape of a block that moves along some axes."""
        if not axes:
            return "()"
        return f"[{', '.join(str(size if at in axes else 1) for at, size in enumerate(self.sizes))}]"

    def masked(self, axes: LaneAxes | None = None) -> LaneValue | None:
        """What holds where a lane is one of those that run, as far as it moves along some axes, or any."""
        found = [one for one in self.masks if axes is None or one.axes <= axes]
        if not found:
            return None
        if len(found) == 1:
            return found[0]
        text = " & ".join(dict.fromkeys(one.text for one in found))
        return LaneValue(text if len(found) == 1 else f"({text})", frozenset().union(*(one.axes for one in found)))


@dataclass(slots=True)
class TritonLines:
    """Text under construction."""

    done: list[str] = field(default_factory=list)
    indent: int = 1
    numbers: int = 0

    def add(self, line: str) -> None:
        self.done.append("    " * self.indent + line)

    def take_back(self, number: int) -> None:
        """Leave a line out, by its number; those of others stay what they are."""
        self.done[number] = ""

    @property
    def text(self) -> list[str]:
        return [one for one in self.done if one]

    def fresh(self, base: str) -> str:
        """A name that nothing else has."""
        self.numbers += 1
        return f"{base}{self.numbers}"


#: A cell by its buffer, where it lies, and under which masks it is touched.
_Cell: TypeAlias = tuple[Buffer, str, str]


@dataclass(slots=True)
class LaneValues:
    """Writes scalars as expressions, loads as lines before them, each cell once while nothing stores to its buffer."""

    buffers: Mapping[Buffer, str]
    lines: TritonLines
    wide: bool = False
    locals: dict[Local, LaneValue] = field(default_factory=dict)
    loaded: dict[_Cell, LaneValue] = field(default_factory=dict)
    kept: dict[Buffer, LaneValue] = field(default_factory=dict)
    #: Buffers of lanes that are stored several times.
    again: set[Buffer] = field(default_factory=set)
    #: Where buffers were read and written since all lanes last waited for each other.
    read: dict[Buffer, set[str]] = field(default_factory=dict)
    dirty: dict[Buffer, set[str]] = field(default_factory=dict)
    #: The line that stored a cell last, while nobody but its own lane has seen it.
    unseen: dict[_Cell, int] = field(default_factory=dict)

    # Whole numbers

    def numbers(self, count: int) -> str:
        """The numbers of so many lanes."""
        return f"tl.arange(0, {count}){'.to(tl.int64)' if self.wide else ''}"

    def whole(self, scalar: Scalar, here: Here) -> LaneValue:
        """A whole number, as a subscript or in a test."""
        return self.affine(scalar, here) if isinstance(scalar, Affine) else self.value(scalar, here)

    def affine(self, index: Affine, here: Here, times: int = 1) -> LaneValue:
        terms, axes = list[str](), NONE
        for factor, name in index.terms:
            one = here.indices[name]
            if one.text != "0":
                terms.append(one.text if factor * times == 1 else f"{one.text} * {factor * times}")
                axes |= one.axes
        if index.offset or not terms:
            terms.append(str(index.offset * times))
        text = " + ".join(terms).replace("+ -", "- ")
        return LaneValue(text if len(terms) == 1 and " " not in text else f"({text})", axes)

    def offset(self, buffer: Buffer, at: Sequence[Scalar], here: Here) -> LaneValue:
        """How many cells from the first one a cell lies."""
        total, others, axes, stride = Affine(()), list[str](), NONE, 1
        for index, size in zip(reversed(at), reversed(buffer.shape), strict=True):
            if isinstance(index, Affine):
                total = total + index * stride
            else:
                found = self.value(index, here)
                others.append(found.text if stride == 1 else f"{found.text} * {stride}")
                axes |= found.axes
            stride *= size
        if others and total == Affine(()):
            return LaneValue(f"({' + '.join(others)})", axes)
        found = self.affine(total, here)
        return LaneValue(f"({' + '.join([*others, found.text])})" if others else found.text, axes | found.axes)

    # Scalars

    def value(self, scalar: Scalar, here: Here) -> LaneValue:
        match scalar:
            case Cast(dtype=dtype, value=Num(value=number)):
                return LaneValue(full(number, dtype))
            case Cast(dtype=dtype, value=inner):
                found = self.value(inner, here)
                return LaneValue(triton_converted(found.text, dtype_of(inner), dtype), found.axes)
            case Affine(terms=()):
                return LaneValue(full(scalar.offset, "int64"))
            case Affine():
                found = self.affine(scalar, here)
                return LaneValue(f"tl.cast({found.text}, tl.int64)", found.axes)
            case Local():
                return self.locals[scalar]
            case Read(buffer=buffer, at=at):
                return self._read(buffer, at, here)
            case Call(op=op, args=args):
                return self._call(op, args, here)
        raise AssertionError(f"not a scalar of the typed loop language: {scalar!r}")

    def _call(self, op: str, args: Sequence[Scalar], here: Here) -> LaneValue:
        if op in ("le", "lt") and not self.wide and all(isinstance(one, Affine) for one in args):
            one, other = (self.affine(arg, here) for arg in args if isinstance(arg, Affine))
            return LaneValue(OPS[op].triton.format(one.text, other.text, t="int32"), one.axes | other.axes)
        found = [self.value(one, here) for one in args]
        infix = OPS[op].triton.startswith("(")  # functions of libdevice want values of one type
        bare = {at: _bare(one) if infix else None for at, one in enumerate(args)}
        types = {dtype_of(one) for one in args if _bare(one) is None}
        texts = [
            short if short is not None and dtype_of(args[at]) in types else found[at].text for at, short in bare.items()
        ]
        axes = NONE.union(*(one.axes for one in found))
        return LaneValue(OPS[op].triton.format(*texts, t=dtype_of(args[-1])), axes)

    # Memory

    def _read(self, buffer: Buffer, at: Sequence[Scalar], here: Here) -> LaneValue:
        if buffer in self.kept:
            return self.kept[buffer]
        where = self.offset(buffer, at, here)
        mask = here.masked(where.axes)
        cell = buffer, where.text, mask.text if mask else ""
        if cell not in self.loaded:
            if buffer in self.dirty:
                self.barrier()
            name = self.lines.fresh("v")
            text = self.load(f"{self.buffers[buffer]} + {where.text}", buffer.dtype, mask)
            self.lines.add(f"{name} = {text}")
            self.loaded[cell] = LaneValue(name, where.axes)
            self.read.setdefault(buffer, set()).add(where.text)
        return self.loaded[cell]

    @staticmethod
    def load(pointer: str, dtype: str, mask: LaneValue | None) -> str:
        zero = "False" if dtype == "bool" else "0.0" if "float" in dtype else "0"
        zero = "0" if dtype == "bool" else zero
        guarded = f", mask={mask.text}, other={zero}" if mask else ""
        loaded = f"tl.load({pointer}{guarded})"
        return f"({loaded} != 0)" if dtype == "bool" else loaded

    def store(self, buffer: Buffer, at: Sequence[Scalar], scalar: Scalar, here: Here) -> None:
        value = self.named(self.value(scalar, here))
        if buffer.role is Role.PRIVATE:
            self.kept[buffer] = self._again(buffer, value, here) if buffer in self.again else value
            return
        where = self.offset(buffer, at, here)
        mask = here.masked()
        if not (value.axes | (mask.axes if mask else NONE)) <= where.axes:  # one of the lanes alone has a cell
            where = LaneValue(f"({where.text} + tl.zeros({here.shape(here.axes)}, tl.int32))", here.axes)
        elsewhere = self.read.get(buffer, set()) | self.dirty.get(buffer, set())
        if elsewhere - {where.text}:  # another lane may still read a cell that this one writes
            self.barrier()
        text = value.text if buffer.dtype != "bool" else f"tl.cast({value.text}, tl.int8)"
        guarded = f", mask={mask.text}" if mask else ""
        cell = buffer, where.text, mask.text if mask else ""
        if cell in self.unseen:
            self.lines.take_back(self.unseen[cell])
        self.unseen[cell] = len(self.lines.done)
        self.lines.add(f"tl.store({self.buffers[buffer]} + {where.text}, {text}{guarded})")
        self.forget([buffer])
        self.loaded[cell] = value
        self.dirty.setdefault(buffer, set()).add(where.text)

    def _again(self, buffer: Buffer, value: LaneValue, here: Here) -> LaneValue:
        """A value under the one name of a buffer that is stored several times, in loops perhaps."""
        if buffer not in self.kept:
            name = self.lines.fresh("kept")
        else:
            name = self.kept[buffer].text
        text = value.text if value.axes == here.axes else f"tl.broadcast_to({value.text}, {here.shape(here.axes)})"
        self.lines.add(f"{name} = {text}")
        return LaneValue(name, here.axes)

    def barrier(self) -> None:
        """Let all lanes wait for each other: they have read, and see what others stored."""
        self.lines.add("tl.debug_barrier()")
        self.dirty.clear()
        self.read.clear()
        self.unseen.clear()

    def forget(self, buffers: Sequence[Buffer] | set[Buffer]) -> None:
        """What was loaded from buffers is not what they hold any more."""
        self.loaded = {cell: value for cell, value in self.loaded.items() if cell[0] not in buffers}

    def named(self, value: LaneValue, base: str = "v") -> LaneValue:
        """A value under a name, if it is more than that."""
        if value.text.isidentifier():
            return value
        name = self.lines.fresh(base)
        self.lines.add(f"{name} = {value.text}")
        return LaneValue(name, value.axes)


def divided(
    loops: Sequence[Loop], body: Sequence[Stmt], index: LaneValue, lines: TritonLines, suffix: str = "_"
) -> dict[str, LaneValue]:
    """The indices of loops that run as one: those that follow each other in memory are one, others are divided out."""
    if not loops:
        return {}
    runs = [[loops[0]]]
    for one, other in pairwise(loops):
        if follow(one[0], other, body):
            runs[-1].append(other)
        else:
            runs.append([other])
    found, step = dict[str, LaneValue](), 1
    for at in range(len(runs) - 1, -1, -1):
        size, last = prod(one for _, one in runs[at]), runs[at][-1][0]
        text = index.text if step == 1 else f"{index.text} // {step}"
        text = f"{text} % {size}" if at else text
        if len(runs) > 1:
            lines.add(f"{last}{suffix} = {text}")
            text = f"{last}{suffix}"
        found |= {one: LaneValue("0") for one, _ in runs[at][:-1]}
        found[last] = LaneValue(text, index.axes)
        step *= size
    return found


def _bare(scalar: Scalar) -> str | None:
    """A number as it is written beside values of its type; None if it is none."""
    match scalar:
        case Cast(dtype=dtype, value=Num(value=number)):
            return triton_literal(number, dtype)
        case Affine(terms=(), offset=offset):
            return str(offset)
    return None
