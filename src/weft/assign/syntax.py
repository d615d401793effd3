"""What a text in the code notation says: trees with spans, no tensors yet.

program   = statement; statement; …
statement = Assign(target, sign, right)               p =+ …   "d" =: …   { t; o = [3; rgb = 4]; init = 2 } =: …
                                                      ~let part = …; ~let more = part + …; p =+ more *. more
          | RemarkBlock(parts, body)                  ~~("words" p; …)
          | LoopBlock(index, size, reverse, body)     ~for:"t" ~range:3 ~reverse (p =: …; …)
right     = Right(value, logic, slots, sizes, type)   value ~logic:"…" ~slots:"0,2=>1" ~sizes:"k=3" ~type:"int8"
                                                      or ~at_least:"float32" for its type, ~logic:y for that of y;
                                                      ~at:ids is an operand with positions, ~outside:"skip" of those
value     = NumberLiteral | Name | Lift(value)        2.5   w.grad   !.rate
          | Infix(op, left, right)                    a + b
          | FunctionCall(function, args)              relu(x), max a b, and -x
          | EinsumCall(spec, args)                    a +* "spec" b   a ++ "spec"
          | At(value, index)                          x @| i
          | Bracket(sign, right)                      (a * b ~logic:"@"), a tensor without a name
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.errors import Span
from weft.shape.nodes import Dim


@dataclass(frozen=True, slots=True)
class NumberLiteral:
    value: float | int | bool
    span: Span


@dataclass(frozen=True, slots=True)
class Name:
    """A tensor's or number's name with its accessors, `net.w.grad`; `declares` when it is quoted or in braces.

    In braces it may have `sizes`, those of its rows by `b`, `i` and `o`, or be a `scalar`, and start at `init`.
    """

    text: str
    span: Span
    declares: bool = False
    sizes: Mapping[str, tuple[Dim, ...]] = field(default_factory=dict)
    scalar: bool = False
    init: float | None = None

    @property
    def described(self) -> bool:
        """Does it say what kind of node it is?"""
        return bool(self.sizes) or self.scalar or self.init is not None


@dataclass(frozen=True, slots=True)
class Quoted:
    text: str
    span: Span


@dataclass(frozen=True, slots=True)
class Lift:
    value: NumberLiteral | Name
    span: Span


@dataclass(frozen=True, slots=True)
class Infix:
    op: str
    left: Value
    right: Value
    span: Span


@dataclass(frozen=True, slots=True)
class FunctionCall:
    function: str
    args: tuple[Value, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class EinsumCall:
    spec: Quoted
    args: tuple[Value, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class At:
    value: Value
    index: NumberLiteral | Name
    span: Span


@dataclass(frozen=True, slots=True)
class Bracket:
    sign: Sign | None
    right: Right
    span: Span


Value: TypeAlias = NumberLiteral | Name | Lift | Infix | FunctionCall | EinsumCall | At | Bracket


@dataclass(frozen=True, slots=True)
class Sign:
    """`=:+`: start afresh, accumulate with the operation called `op`; no `op` is a plain write."""

    reset: bool
    op: str
    span: Span


@dataclass(frozen=True, slots=True)
class Slots:
    operands: tuple[int, ...]
    lhs: int
    span: Span


@dataclass(frozen=True, slots=True)
class Right:
    value: Value
    logic: Quoted | Name | None
    slots: Slots | None
    sizes: Mapping[str, Dim]
    type: Quoted | None
    span: Span
    at_least: Quoted | None = None
    at: tuple[Name, ...] = ()
    outside: Quoted | None = None


@dataclass(frozen=True, slots=True)
class Assign:
    target: Name
    sign: Sign
    right: Right
    span: Span
    lets: Mapping[str, Value] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class RemarkBlock:
    parts: tuple[Quoted | Name, ...]
    body: tuple[Statement, ...]
    span: Span


@dataclass(frozen=True, slots=True)
class LoopBlock:
    index: Quoted
    size: int
    reverse: bool
    body: tuple[Statement, ...]
    span: Span


Statement: TypeAlias = Assign | RemarkBlock | LoopBlock


def operands_in(value: Value) -> tuple[Value, ...]:
    """The values a value is made of."""
    match value:
        case Infix(left=left, right=right):
            return (left, right)
        case FunctionCall(args=args) | EinsumCall(args=args):
            return args
        case Lift(value=inner) | At(value=inner):
            return (inner,)
        case Bracket(right=right):
            return (right.value, *right.at)
    return ()


def names_in(value: Value) -> Iterator[str]:
    """Every name a value mentions."""
    rest = [value]
    while rest:
        one = rest.pop()
        if isinstance(one, Name):
            yield one.text
        rest += operands_in(one)


def depth_of(value: Value) -> int:
    """How deeply values lie in one another; what is written in a row, `a + b + c`, lies side by side."""
    depth, layer = 0, [value]
    while layer:
        depth, layer = depth + 1, [part for one in layer for part in _beside(one)]
    return depth


def _beside(value: Value) -> Sequence[Value]:
    if not isinstance(value, Infix):
        return operands_in(value)
    first, row = in_a_row(value)
    return (first, *(one.right for one in row))


def in_a_row(value: Value, *apart: str) -> tuple[Value, list[Infix]]:
    """The leftmost value of a row `a + b - c`, and what is done to it, in that order; operators `apart` end a row."""
    row: list[Infix] = []
    while isinstance(value, Infix) and value.op not in apart:
        row.append(value)
        value = value.left
    return value, row[::-1]


def assigns(statements: Sequence[Statement]) -> Iterator[Assign]:
    """Every assignment, in the order it runs."""
    for statement in statements:
        if isinstance(statement, Assign):
            yield statement
        else:
            yield from assigns(statement.body)
