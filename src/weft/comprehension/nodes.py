"""The comprehension language as a value.

    program    = definition+
    definition = "def" name "(" param,* ")" "->" "(" result,* ")" "{" statement* "}"
    param      = type name
    result     = [type] name                              without a type it is inferred
    type       = element ["(" dim,* ")"]                  dim = size name | number;   no dims: a single number
    statement  = name ["(" at,* ")"] assign expr ["<=>" call] ["where" where,+]   Comprehension
               | name,+ "=" name "(" expr,* ")"                                   Invoke: another definition
    at         = index | number | expr                                            expr: a computed subscript
    assign     = "=" | ("+=" | "*=" | "min=" | "max=") ["!"]                      "!" starts from the neutral element
    where      = index "in" expr ":" expr                                         Between: low <= index < high
               | "exists" expr                                                    Exists: only its reads matter
               | name "=" expr                                                    Let: a name for a value
    expr       = expr "?" expr ":" expr                                           Choose
               | expr ("||" | "&&" | "==" | "<" | "+" | "*" | "/" | "%" | …) expr Binary, by rising precedence
               | ("-" | "!") expr                                                 Unary
               | number | "true" | "false"                                        Int, Real, Truth
               | index | size | local                                             Index, Size, Local
               | tensor ["(" expr,* ")"]                                          Read; a single number has no brackets
               | tensor "." number                                                Dim: the size of an axis, from 0
               | element "(" expr ")" | builtin "(" expr,* ")"                    Cast, Apply

What a name stands for is settled by the definition it is in, while the text is read: sizes and tensors are those its
parameters and left sides name, locals are those of the statement's `where`, and every other name is an index of its
statement. So no later stage looks a name up to learn its kind. Spans take no part in equality.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeAlias, TypeVar

from weft.errors import Span
from weft.ops import fold_tree

T = TypeVar("T")

NOWHERE = Span(0, 0)
#: What is written for a result of a call that is not wanted.
UNWANTED = "_"

#: How accumulations are written, and the row of the table of operations each names.
REDUCTIONS = {"+=": "add", "*=": "mul", "min=": "min", "max=": "max"}

BinaryOp: TypeAlias = Literal["||", "&&", "==", "!=", "<", "<=", ">", ">=", "+", "-", "*", "/", "%"]
UnaryOp: TypeAlias = Literal["-", "!"]


@dataclass(frozen=True, slots=True)
class Spanned:
    """Something with its place in the text."""

    span: Span = field(default=NOWHERE, compare=False, kw_only=True)


# Expressions


@dataclass(frozen=True, slots=True)
class Int(Spanned):
    """A whole number, not negative: a sign before it is a Unary."""

    value: int

    def __str__(self) -> str:
        return str(self.value)


@dataclass(frozen=True, slots=True)
class Real(Spanned):
    value: float


@dataclass(frozen=True, slots=True)
class Truth(Spanned):
    value: bool


@dataclass(frozen=True, slots=True)
class Index(Spanned):
    """The value of an index of the statement."""

    name: str


@dataclass(frozen=True, slots=True)
class Size(Spanned):
    """The value of a size variable of the parameters."""

    name: str


@dataclass(frozen=True, slots=True)
class Local(Spanned):
    """A name that a `where name = …` of the statement gives to a value."""

    name: str


@dataclass(frozen=True, slots=True)
class Dim(Spanned):
    """The size of an axis of a tensor: `T.0` is that of its first."""

    tensor: str
    axis: int


@dataclass(frozen=True, slots=True)
class Read(Spanned):
    tensor: str
    subscripts: tuple[Expr, ...] = ()


@dataclass(frozen=True, slots=True)
class Apply(Spanned):
    """A builtin function, by the name it is written with."""

    function: str
    args: tuple[Expr, ...]


@dataclass(frozen=True, slots=True)
class Cast(Spanned):
    """A value converted to an element type, by weft's name for it: `float(x)` has dtype float32."""

    dtype: str
    value: Expr


@dataclass(frozen=True, slots=True)
class Unary(Spanned):
    op: UnaryOp
    value: Expr


@dataclass(frozen=True, slots=True)
class Binary(Spanned):
    op: BinaryOp
    left: Expr
    right: Expr


@dataclass(frozen=True, slots=True)
class Choose(Spanned):
    """`condition ? yes : no`. What is not chosen is not read."""

    condition: Expr
    yes: Expr
    no: Expr


Expr: TypeAlias = Int | Real | Truth | Index | Size | Local | Dim | Read | Apply | Cast | Unary | Binary | Choose


# Statements


@dataclass(frozen=True, slots=True)
class Ident(Spanned):
    """A name that is given to something."""

    name: str

    def __str__(self) -> str:
        return self.name


@dataclass(frozen=True, slots=True)
class Between(Spanned):
    """`index in low:high`."""

    index: Ident
    low: Expr
    high: Expr


@dataclass(frozen=True, slots=True)
class Exists(Spanned):
    """`exists A(i)`: its reads bound indices; nothing is read."""

    value: Expr


@dataclass(frozen=True, slots=True)
class Let(Spanned):
    """`name = value`: seen by the right side and by the clauses after it."""

    name: Ident
    value: Expr


Where: TypeAlias = Between | Exists | Let


@dataclass(frozen=True, slots=True)
class Comprehension(Spanned):
    """`target(at) reduction= value where …`.

    `reduction` is the name of a row of the table of operations (add, mul, min, max), None for a plain `=`. With
    `resets` the cells written start from that row's neutral element, without it from what they hold. `equivalent` is
    what the text says to compute the same.
    """

    target: Ident
    at: tuple[Expr, ...]
    reduction: str | None
    resets: bool
    value: Expr
    where: tuple[Where, ...] = ()
    equivalent: Apply | None = None

    @property
    def lets(self) -> tuple[Let, ...]:
        return tuple(one for one in self.where if isinstance(one, Let))

    @property
    def given(self) -> dict[str, Between]:
        """The ranges that clauses give, by index."""
        return {one.index.name: one for one in self.where if isinstance(one, Between)}


@dataclass(frozen=True, slots=True)
class Invoke(Spanned):
    """`targets = function(args)`: another definition of the same text. A target `_` is not wanted.

    An argument is a whole tensor, written as a Read without subscripts, or a number made of sizes and numbers.
    """

    targets: tuple[Ident, ...]
    function: Ident
    args: tuple[Expr, ...]

    @property
    def wanted(self) -> tuple[Ident, ...]:
        """The targets that have a name."""
        return tuple(one for one in self.targets if one.name != UNWANTED)


Statement: TypeAlias = Comprehension | Invoke


# Definitions


@dataclass(frozen=True, slots=True)
class TensorType(Spanned):
    """An element type, by weft's name for it, and an Ident (a size variable) or an Int for each axis."""

    dtype: str
    dims: tuple[Ident | Int, ...] = ()

    @property
    def sizes(self) -> tuple[str, ...]:
        """The size variables among its axes."""
        return tuple(dim.name for dim in self.dims if isinstance(dim, Ident))

    def shape(self, sizes: Mapping[str, int]) -> tuple[int, ...]:
        """The shape, for these values of its size variables."""
        return tuple(dim.value if isinstance(dim, Int) else sizes[dim.name] for dim in self.dims)


@dataclass(frozen=True, slots=True)
class Param(Spanned):
    type: TensorType
    name: Ident


@dataclass(frozen=True, slots=True)
class Result(Spanned):
    name: Ident
    type: TensorType | None = None


@dataclass(frozen=True, slots=True)
class Definition(Spanned):
    name: Ident
    params: tuple[Param, ...]
    results: tuple[Result, ...]
    body: tuple[Statement, ...]

    def declared(self, sizes: Mapping[str, int]) -> dict[str, tuple[int | None, ...]]:
        """The sizes that the types of results give their axes, where these sizes tell them."""
        return {
            one.name.name: tuple(dim.value if isinstance(dim, Int) else sizes.get(dim.name) for dim in one.type.dims)
            for one in self.results
            if one.type
        }


@dataclass(frozen=True, slots=True)
class Program:
    definitions: tuple[Definition, ...]
    text: str = field(default="", compare=False)

    def __getitem__(self, name: str) -> Definition:
        """The definition of that name; KeyError when there is none."""
        return {one.name.name: one for one in self.definitions}[name]


# Walks


def children(expr: Expr) -> tuple[Expr, ...]:
    """The expressions an expression is made of, in the order written."""
    match expr:
        case Read(subscripts=parts) | Apply(args=parts):
            return parts
        case Cast(value=value) | Unary(value=value):
            return (value,)
        case Binary(left=left, right=right):
            return (left, right)
        case Choose(condition=condition, yes=yes, no=no):
            return (condition, yes, no)
    return ()


def fold(expr: Expr, combine: Callable[[Expr, list[T]], T]) -> T:
    """What an expression comes to, given what its parts come to; however deep it is, the stack is not."""
    return fold_tree(expr, combine, children)


def walk(expr: Expr) -> Iterator[Expr]:
    """An expression and everything in it, outermost first, in the order written."""
    waiting = [expr]
    while waiting:
        one = waiting.pop()
        yield one
        waiting += reversed(children(one))


def where_exprs(clause: Where) -> tuple[Expr, ...]:
    """The expressions of a clause."""
    return (clause.low, clause.high) if isinstance(clause, Between) else (clause.value,)


def exprs(statement: Comprehension) -> tuple[Expr, ...]:
    """Every expression of a statement: its right side, those of its clauses, then the computed subscripts."""
    return (
        statement.value,
        *(one for clause in statement.where for one in where_exprs(clause)),
        *computed_subscripts(statement),
    )


def computed_axes(statement: Comprehension) -> tuple[int, ...]:
    """The axes whose subscripts on the left side are neither indices nor numbers: what they are may repeat."""
    return tuple(axis for axis, one in enumerate(statement.at) if not isinstance(one, Index | Int))


def computed_subscripts(statement: Comprehension) -> tuple[Expr, ...]:
    """Those subscripts."""
    return tuple(statement.at[axis] for axis in computed_axes(statement))


def left(statement: Comprehension) -> tuple[str, ...]:
    """The indices on the left side of a statement."""
    return tuple(one.name for one in statement.at if isinstance(one, Index))


def indices(statement: Comprehension) -> tuple[str, ...]:
    """The indices of a statement: those on the left, then the reduced ones in the order they appear on the right."""
    values = (clause.value for clause in statement.where if not isinstance(clause, Between))
    parts = (*computed_subscripts(statement), statement.value, *values)
    used = (one.name for expr in parts for one in walk(expr) if isinstance(one, Index))
    bounded = (clause.index.name for clause in statement.where if isinstance(clause, Between))
    return tuple(dict.fromkeys((*left(statement), *used, *bounded)))


def reduced(statement: Comprehension) -> tuple[str, ...]:
    """The indices of a statement that are not on its left side."""
    kept = set(left(statement))
    return tuple(name for name in indices(statement) if name not in kept)


def targets(statement: Statement) -> tuple[Ident, ...]:
    """The tensors a statement writes."""
    return (statement.target,) if isinstance(statement, Comprehension) else statement.wanted


def own_reads(statement: Comprehension) -> list[Read]:
    """What a statement reads of the tensor that it writes, in other cells: it is a recurrence."""
    every = (one for expr in exprs(statement) for one in walk(expr) if isinstance(one, Read))
    return [one for one in every if one.tensor == statement.target.name and one.subscripts != statement.at]
