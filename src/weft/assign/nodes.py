"""Assignments: what runs, before it is known how it loops.

    code    = Noop | Seq(codes) | Comment(text, body)
            | Accum(lhs, accum, reset, value, operands, record)     lhs = accum(lhs, value), over the record's loops
            | Fetch(node, source)                                   every cell of node from source
            | Keep(nodes)                                           these values are wanted afterwards
    operand = Node | Merge(node) | Stored(node)                     computed; sent by another device; as stored
    value   = scalar over Arg(n), the n-th operand, and the leaves below
    source  = Cells(scalar) | Data(array) | File(path, offset)
    leaf    = Symbol(name)      the position of a static index
            | Extent(axis)      an inferred size, as a number
            | Offset()          how far the cell lies from the first, in memory order

`accum` is "arg2" for a plain write. With `reset` the left side starts at the neutral element of `accum`.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any, TypeAlias

import numpy.typing as npt

from weft.errors import Origin
from weft.ops import Scalar
from weft.shape.cells import AxisCell, ShapeVar
from weft.shape.infer import Operation

_ids = itertools.count()


@dataclass(slots=True, eq=False)
class Node:
    """A tensor of values: which one it is, what it is called, its shape as far as known.

    `definition` computes it whenever a routine needs it and has not; `init` fills it once, before its first use.
    `inline` says that printed code writes its definition instead of its name.
    """

    label: str
    shape: ShapeVar
    dtype: str
    definition: Code | None = None
    init: Code | None = None
    origin: Origin | None = None
    inline: bool = False
    recurrent: bool = False
    id: int = field(default_factory=lambda: next(_ids))

    def __str__(self) -> str:
        return self.label


@dataclass(frozen=True, slots=True)
class Merge:
    node: Node

    def __str__(self) -> str:
        return f"{self.node.label}.merge"


@dataclass(frozen=True, slots=True)
class Stored:
    node: Node

    def __str__(self) -> str:
        return self.node.label


Operand: TypeAlias = Node | Merge | Stored


@dataclass(frozen=True, slots=True)
class Arg(Scalar):
    number: int


@dataclass(frozen=True, slots=True)
class Symbol(Scalar):
    name: str


@dataclass(frozen=True, slots=True, eq=False)
class Extent(Scalar):
    axis: AxisCell
    label: str


@dataclass(frozen=True, slots=True)
class Offset(Scalar):
    pass


@dataclass(frozen=True, slots=True)
class Record:
    """Whose loops an assignment runs: an applied operation, and which of its slots the assignment's tensors fill."""

    operation: Operation
    lhs: int
    operands: tuple[int, ...]

    @property
    def direct(self) -> bool:
        """Do the assignment's tensors fill the slots in the operation's own order?"""
        return (self.lhs, *self.operands) == tuple(range(len(self.operation.slots)))


@dataclass(frozen=True, slots=True)
class Noop:
    pass


@dataclass(frozen=True, slots=True)
class Seq:
    codes: tuple[Code, ...]


@dataclass(frozen=True, slots=True)
class Comment:
    text: str
    body: Code


@dataclass(frozen=True, slots=True)
class Accum:
    lhs: Node
    accum: str
    reset: bool
    value: Scalar
    operands: tuple[Operand, ...]
    record: Record
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Cells:
    value: Scalar


@dataclass(frozen=True, slots=True, eq=False)
class Data:
    array: npt.NDArray[Any]


@dataclass(frozen=True, slots=True)
class File:
    path: str
    offset: int = 0


Source: TypeAlias = Cells | Data | File


@dataclass(frozen=True, slots=True)
class Fetch:
    node: Node
    source: Source
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Keep:
    nodes: tuple[Node, ...]


Code: TypeAlias = Noop | Seq | Comment | Accum | Fetch | Keep


def seq(*codes: Code) -> Code:
    """The codes one after another, flat."""
    flat: list[Code] = []
    for code in codes:
        flat += code.codes if isinstance(code, Seq) else () if isinstance(code, Noop) else (code,)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat)) if flat else Noop()


def statements(code: Code) -> Iterator[Accum | Fetch]:
    """Every statement, in the order it runs."""
    match code:
        case Accum() | Fetch():
            yield code
        case Seq(codes=codes):
            for one in codes:
                yield from statements(one)
        case Comment(body=body):
            yield from statements(body)
