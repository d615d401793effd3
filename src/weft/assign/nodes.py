"""Assignments: what runs, before it is known how it loops.

    code    = Noop | Seq(codes) | Comment(text, body)
            | Accum(lhs, accum, reset, value, operands, record)     lhs = accum(lhs, value), over the record's loops;
                                                                    operands beyond the record's must be there before
            | Fetch(node, source)                                   every cell of node from source
            | Direct(lhs, accum, keeps, at, value, operands, names, domain)
                                                                    lhs[at] = accum(lhs[at], value), over a domain;
                                                                    `keeps`: it goes on from what lhs holds
            | Repeat(index, reverse, body)                          body in every iteration, the last first if `reverse`
            | Keep(nodes)                                           these values are wanted afterwards
    operand = Node | Merge(node) | Stored(node)                     computed; sent by another device; as stored
    value   = scalar over Arg(n), the n-th operand, and the leaves below
    source  = Cells(scalar) | Data(array) | File(path)
    initial = source | Copied(operand, record)                      what a node holds before anything is stored in it
            | Awaited()                                             nothing: each call hands it in
    leaf    = Symbol(name, size)    the position of a static index, given to a run or, if it counts, how many there were
            | Extent(label, value)  a number computed from sizes, once shapes are closed (extents.py)
            | Offset()              how far the cell lies from the first, in memory order

`accum` is "arg2" for a plain write. With `reset` the left side starts at what `accum` begins with:
its neutral element, or 0 for `-`, 1 for `/`, `**` and the gate of relu.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, NoReturn, Protocol, TypeAlias

import numpy.typing as npt

from weft.assign.dtype_inference import Precision
from weft.assign.iterations import Iterations, LoopIndex
from weft.einsum.nodes import Label
from weft.errors import Origin, WeftError
from weft.ops import Num, Number, Scalar, leaves
from weft.public import public
from weft.shape.cells import ShapeVar
from weft.shape.infer import Operation
from weft.shape.logic import Input, Slice, position_slots, read_by
from weft.shape.nodes import Dim, OpenSize

_ids = itertools.count()


def next_id() -> int:
    """A number larger than that of every node made before."""
    return next(_ids)


@dataclass(slots=True, eq=False)
class NodeName:
    """What a node is called, which may be said after it is made: a cell, as those of its shape and its type.

    While it is `inline` nobody gave it a name, and printed code writes its definition instead. `after`: what a declared
    node is computed from first, if that has a name.
    """

    text: str
    inline: bool = False
    after: str | None = None


@dataclass(frozen=True, slots=True)
class Declared:
    """What a node was declared with, by row: printed code says it where the node is first written."""

    sizes: tuple[tuple[str, tuple[Dim, ...]], ...] = ()
    scalar: bool = False


class Check(Protocol):
    """What is to hold of a node's value in every run that computes it: it may say something `of` another node."""

    @property
    def of(self) -> Node | None: ...

    def verify(self, value: npt.NDArray[Any], of: Callable[[], npt.NDArray[Any]] | None) -> None:
        """Raise what is wrong with the run; `of` gives what the other node holds, if that is still to be had."""
        ...


@dataclass(frozen=True, slots=True, eq=False, weakref_slot=True)
class Node:
    """A tensor of values: which one it is, and the cells of what is found out later: its name, its shape, its type.

    `definition` computes it whenever a routine needs it and has not; `init` fills it once, before its first use.
    What is `declared` was made for code to assign to, or says its sizes as such a node does. What a loop computes has
    that shape in each of its `iterations`. A parameter is `learned`, whatever gives it its first values.
    """

    name: NodeName
    shape: ShapeVar
    precision: Precision
    init: Initial | None = None
    origin: Origin | None = None
    gradient_of: Node | None = None
    declared: Declared | None = None
    check: Check | None = None
    iterations: Iterations | None = None
    learned: bool = False
    id: int = field(default_factory=next_id)
    definition: Code | None = field(default=None, init=False)

    def defined(self, code: Code) -> Node:
        """The node, computed by code. That mentions it, hence this knot: nothing else writes to a node, and once."""
        assert self.definition is None, f"{self} is defined already"
        object.__setattr__(self, "definition", code)
        return self

    def __str__(self) -> str:
        return self.name.text

    @property
    def label(self) -> str:
        return self.name.text

    @property
    def dtype(self) -> str:
        """The element type; asking for it settles what was still open."""
        return self.precision.dtype

    @property
    def is_grad(self) -> bool:
        """Is it what backpropagation adds to, `t.grad`, rather than a gradient that is computed when it is needed?"""
        return self.gradient_of is not None and self.definition is None


@dataclass(frozen=True, slots=True)
class Merge:
    node: Node

    def __str__(self) -> str:
        return f"{self.node}.merge"


@dataclass(frozen=True, slots=True)
class Stored:
    node: Node

    def __str__(self) -> str:
        return str(self.node)


Operand: TypeAlias = Node | Merge | Stored


def node_of(operand: Operand) -> Node:
    """The node an operand reads."""
    return operand if isinstance(operand, Node) else operand.node


@dataclass(frozen=True, slots=True)
class Arg(Scalar):
    number: int


@dataclass(frozen=True, slots=True)
class Symbol(Scalar):
    name: str
    size: int
    counts: bool = False


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
        """Do the assignment's tensors fill the slots in the operation's own order, those with positions last?"""
        held = position_slots(self.operation.logic)
        values = [slot for slot in range(len(self.operation.slots)) if slot not in held]
        return (self.lhs, *self.operands) == (*values, *held)


class Printed:
    """Code prints itself in the assignment notation."""

    __slots__ = ()

    def __str__(self) -> str:
        from weft.assign.show import show

        return show(self)  # type: ignore[arg-type]

    def __repr__(self) -> str:
        return f"<code {str(self)!r}>"

    @public
    def __call__(self, *args: object, **kwargs: object) -> NoReturn:
        raise WeftError(
            "code does nothing by itself: it is compiled, and then run", fix="step = ctx.compile(code); step()"
        )


@dataclass(frozen=True, slots=True, repr=False)
class Noop(Printed):
    pass


@dataclass(frozen=True, slots=True, repr=False)
class Seq(Printed):
    codes: tuple[Code, ...]


@dataclass(frozen=True, slots=True, repr=False)
class Comment(Printed):
    text: str
    body: Code


@dataclass(frozen=True, slots=True, repr=False)
class Accum(Printed):
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
    """Values given; `exact` if they must have the node's very shape, else only as many elements.

    `given` is the shape they came in, where that is another.
    """

    array: npt.NDArray[Any]
    exact: bool = True
    given: tuple[int, ...] | None = None


@dataclass(frozen=True, slots=True)
class File:
    path: str


ValueSource: TypeAlias = Cells | Data | File


@dataclass(frozen=True, slots=True)
class Copied:
    """The values of another tensor, over the loops of a record."""

    operand: Operand
    record: Record


@dataclass(frozen=True, slots=True)
class Awaited:
    """No values: an input has those that a call hands in, as an array, and only for that call.

    `plain`: nobody said that it has output axes, so an array need not have the one of size 1.
    """

    logic: Input
    plain: bool = False

    @property
    def axes(self) -> tuple[Dim | OpenSize, ...]:
        """Those of an array, in order."""
        return (*self.logic.batch, *self.logic.input) if self.plain else self.logic.axes

    @property
    def names(self) -> tuple[str, ...]:
        """The sizes that a call decides."""
        return tuple([axis.name for axis in self.axes if isinstance(axis, OpenSize)])


Initial: TypeAlias = ValueSource | Copied | Awaited


@dataclass(frozen=True, slots=True, repr=False)
class Fetch(Printed):
    node: Node
    source: ValueSource
    origin: Origin | None = None


@dataclass(frozen=True, slots=True)
class Adjoint:
    """What a pullback works on: a tensor's value and gradient, the values of its children, and where the gradients of
    these are added up, nowhere (None) for those that nobody needs.

    `masked`, below a choice: where there is no gradient there stays none.
    """

    value: Operand
    gradient: Operand
    operands: Sequence[Operand]
    into: Sequence[Node | None]
    masked: bool = False


class Domain(Protocol):
    """The loops a direct assignment runs, known once shapes are closed."""

    @property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        """Of every index the least value and the first it does not reach, outermost first."""
        ...

    def number(self, size: str) -> int:
        """The value of a size, by the name it has in the assignment."""
        ...

    @property
    def idle(self) -> bool:
        """Is all that the assignment would write written over, or never looked at?"""
        ...

    def show(self, names: Sequence[str]) -> str:
        """The assignment as text, its target and what it reads called so."""
        ...

    def pull_back(
        self,
        body: Sequence[Direct],
        values: Mapping[Operand, Operand],
        into: Mapping[Operand, Node | None],
        adjoint: Adjoint,
    ) -> Code:
        """The gradients of a tensor that assignments of this one's definition compute, by the operands they read."""
        ...


@dataclass(frozen=True, slots=True, repr=False)
class Direct(Printed):
    """An assignment that says its subscripts itself: `lhs[at] = accum(lhs[at], value)` over a domain.

    Its scalars are those of the loop language, over indices, sizes (`Local`) and cells of tensors, which go by `names`:
    that of the left side, then those of the first operands. Operands after these must be there before it runs.
    """

    lhs: Node
    accum: str
    keeps: bool
    at: tuple[Scalar, ...]
    value: Scalar
    operands: tuple[Operand, ...]
    names: tuple[str, ...]
    domain: Domain
    origin: Origin | None = None


@dataclass(frozen=True, slots=True, repr=False)
class Repeat(Printed):
    """Code that runs once for each value of an index; all it writes that is no node of the loop is written again."""

    index: LoopIndex
    reverse: bool
    body: Code


@dataclass(frozen=True, slots=True, repr=False)
class Keep(Printed):
    nodes: tuple[Node, ...]


Assignment: TypeAlias = Accum | Fetch | Direct
ASSIGNMENTS = (Accum, Fetch, Direct)
#: Code with other code inside.
BLOCKS = (Comment, Repeat)
#: Code that is not made of other code.
Piece: TypeAlias = Noop | Assignment | Keep
Code: TypeAlias = Piece | Seq | Comment | Repeat


def seq(*codes: Code) -> Code:
    """The codes one after another, flat."""
    flat: list[Code] = []
    for code in codes:
        if not isinstance(code, Seq) and not isinstance(code, Code):  # nearly all are sequences
            raise _no_code(code)
        flat += code.codes if isinstance(code, Seq) else () if isinstance(code, Noop) else (code,)
    return flat[0] if len(flat) == 1 else Seq(tuple(flat)) if flat else Noop()


def _no_code(given: object) -> WeftError:
    if isinstance(given, list | tuple):
        fix = "give what is in it one by one: wf.seq(*codes)"
    else:
        fix = "call the function under @wf.cd: its result is code"
    shown = repr(given) if len(repr(given)) <= 60 else f"a {type(given).__name__}"
    return WeftError(f"{shown} is not code", fix=fix)


def target(statement: Assignment) -> Node:
    """The node a statement writes."""
    return statement.node if isinstance(statement, Fetch) else statement.lhs


def positions_of(code: Accum) -> tuple[Operand, ...]:
    """The operands that are read for positions alone, and not for values: they come after those."""
    held = position_slots(code.record.operation.logic)
    if not held:
        return ()
    read = {leaf.number for leaf in leaves(code.value) if isinstance(leaf, Arg)}
    slots = enumerate(code.record.operands)
    return tuple(code.operands[number] for number, slot in slots if slot in held and number not in read)


def operands_of(statement: Assignment) -> tuple[Operand, ...]:
    """What a statement reads."""
    return () if isinstance(statement, Fetch) else statement.operands


def first_number(node: Node) -> Number | None:
    """The number that every cell of a node starts at, if there is one."""
    match node.init:
        case Cells(value=Num(value=value)):
            return value
    return None


def symbols(code: Code) -> Iterator[tuple[Symbol, Origin | None]]:
    """Every static index the code uses, and where."""
    for statement in statements(code):
        match statement:
            case Accum(record=Record(operation=Operation(logic=logic))) if isinstance(read := read_by(logic), Slice):
                given = (one for part in read.subscripts if not isinstance(part, Label) for one in part.given)
                yield from ((Symbol(*one), statement.origin) for one in given)
        match statement:
            case Accum(value=value) | Fetch(source=Cells(value=value)):
                found = (leaf for leaf in leaves(value) if isinstance(leaf, Symbol))
                yield from ((leaf, statement.origin) for leaf in found)


def statements(code: Code) -> list[Assignment]:
    """Every statement, in the order it runs."""
    return [one for one in pieces(code) if isinstance(one, ASSIGNMENTS)]


def keeps(code: Code) -> list[Keep]:
    """Everything that says what is to be kept."""
    return [one for one in pieces(code) if isinstance(one, Keep)]


def pieces(code: Code) -> list[Piece]:
    """What code is made of, in order: whatever is not made of other code."""
    found: list[Piece] = []
    rest = [code]
    while rest:
        one = rest.pop()
        if isinstance(one, Seq):
            rest += one.codes[::-1]
        elif isinstance(one, BLOCKS):
            rest.append(one.body)
        else:
            found.append(one)
    return found


def loop_indices(code: Code) -> list[LoopIndex]:
    """The loops of code, each once."""
    found: dict[LoopIndex, None] = {}
    rest: list[Code] = [code]
    while rest:
        match rest.pop():
            case Seq(codes=codes):
                rest += reversed(codes)
            case Comment(body=body):
                rest.append(body)
            case Repeat(index=index, body=body):
                found[index] = None
                rest.append(body)
    return list(found)


def rebuilt(code: Code, change: Callable[[Piece], Code]) -> Code:
    """The code with every piece replaced."""
    match code:
        case Seq(codes=codes):
            return seq(*(rebuilt(one, change) for one in codes))
        case Comment(text=text, body=body):
            return Comment(text, rebuilt(body, change))
        case Repeat(index=index, reverse=reverse, body=body):
            return Repeat(index, reverse, rebuilt(body, change))
        case _:
            return change(code)
