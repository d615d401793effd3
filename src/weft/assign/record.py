"""Recording: assignments written in ordinary Python become code."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field

from weft.assign.dtype_inference import Precision
from weft.assign.nodes import (
    Accum,
    Arg,
    Code,
    Comment,
    Direct,
    Fetch,
    Merge,
    Node,
    NodeName,
    Operand,
    Record,
    next_id,
    node_of,
    seq,
)
from weft.assign.precision_rules import infer_precision
from weft.assign.stale import Writes
from weft.dynamic_scope import temporarily
from weft.errors import WeftError, user_origin
from weft.ops import Monoid, Number, Scalar, accumulating_op, leaves, scalar, substitute
from weft.ops.dtypes import element_type
from weft.shape.infer import Operation, infer
from weft.shape.logic import Pointwise


@dataclass(frozen=True, slots=True)
class Lookups:
    """What every assignment over an operation's loops reads besides values: the operands with positions, by slot, and
    what is watched of those."""

    positions: Mapping[int, Operand] = field(default_factory=dict)
    watched: tuple[Operand, ...] = ()


NONE = Lookups()


@dataclass(slots=True)
class Recording:
    """What has been recorded so far, and whose loops it uses inside an operator.

    `parts` are the tensors made in it that are parts of others, `t[2:5]`: what is assigned to them is written there.
    `between` are slices in which the same brackets then look positions up, `t[2:5, ids]`.
    """

    codes: list[Code] = field(default_factory=list)
    operation: Operation | None = None
    lookups: Lookups = field(default_factory=lambda: NONE)
    writes: Writes = field(default_factory=Writes)
    started: int = field(default_factory=next_id)
    parts: set[Node] = field(default_factory=set)
    between: set[Node] = field(default_factory=set)

    @property
    def code(self) -> Code:
        return seq(*self.codes)


_current: ContextVar[Recording | None] = ContextVar("weft_recording", default=None)


def recording(operation: Operation | None = None, lookups: Lookups = NONE) -> AbstractContextManager[Recording]:
    """Collect the assignments made inside; `operation` supplies their loops when they fill its slots.

    `lookups` are read by all of these.
    """
    before, new = _current.get(), Recording(operation=operation, lookups=lookups)
    if before is not None and operation is None:
        new.writes = before.writes
    return temporarily(_current, new)


def current() -> Recording | None:
    return _current.get()


def in_code(operands: Iterable[Operand]) -> bool:
    """Is what is computed from `operands` here part of code that updates, not of the model?"""
    where = _current.get()
    if where is not None and where.operation is None:
        return True
    return any(isinstance(one, Merge) or node_of(one).is_grad for one in operands)


def record(code: Code) -> None:
    """Add to what is being recorded."""
    where = _current.get()
    if where is None:
        raise WeftError(
            "an assignment is only recorded inside a function under @wf.cd",
            fix="put the assignment into a function decorated with @wf.cd and compile what it returns",
        )
    where.codes.append(code)
    if isinstance(code, Accum | Fetch | Direct):
        where.writes.write(code)


@contextmanager
def comment(*parts: object) -> Iterator[None]:
    """Name the block of code recorded inside."""
    where = _current.get()
    with recording(where.operation, where.lookups) if where else recording() as inner:
        yield
    record(Comment(" ".join(str(getattr(part, "label", part)) for part in parts), inner.code))


@dataclass(frozen=True, slots=True, eq=False)
class Slot(Scalar):
    """A tensor of an operator's definition, standing in one of the operation's slots.

    Arithmetic on it builds the scalar that is computed at each point; assigning to it records an assignment over the
    operation's loops. Without an operand (a gradient nobody needs) assignments to it vanish.
    """

    number: int
    operand: Operand | None
    operation: Operation

    def __setitem__(self, key: slice, value: Number | Slot) -> None:
        _check_slice(key)
        if value is not self:
            self._assign("arg2", value, reset=True)

    def __getitem__(self, key: slice) -> Slot:
        _check_slice(key)
        return self

    def __iadd__(self, value: Number) -> Slot:
        return self._assign("add", value)

    def __isub__(self, value: Number) -> Slot:
        return self._assign("sub", value)

    def __imul__(self, value: Number) -> Slot:
        return self._assign("mul", value)

    def __itruediv__(self, value: Number) -> Slot:
        return self._assign("div", value)

    def accumulate(self, op: str | Monoid, value: Number, *, reset: bool = False) -> Slot:
        """`self = op(self, value)` over the operation's loops, from what `op` begins with if `reset`."""
        return self._assign(accumulating_op(op, reset).name, value, reset=reset)

    def _assign(self, accum: str, value: Number, reset: bool = False) -> Slot:
        if self.operand is not None:
            assert isinstance(self.operand, Node)
            code = assignment(self.operand, self.number, accum, reset, scalar(value), self.operation)
            infer_precision(code)
            record(code)
        return self


_SUFFIX = re.compile(r".+_(?:lhs|rhs([0-9]+))")


def intermediate(name: str, *, dtype: str | None = None) -> Slot:
    """A tensor an operator's function keeps a value in: the end of its name says whose shape and loops it has.

    `won_rhs1` lies like the first operand, `scale_lhs` like the result. Its type comes from its operands unless given.
    """
    where = _current.get()
    found = _SUFFIX.fullmatch(name) if isinstance(name, str) else None
    if where is None or where.operation is None or found is None:
        raise WeftError(
            f"{name!r} cannot be an intermediate here",
            fix="use it inside an operator's function, with a name that ends in _lhs, _rhs1, _rhs2, …",
        )
    number = int(found[1] or 0)
    if number >= len(where.operation.slots):
        raise WeftError(f"the operator has no operand {number} for {name!r}")
    shape = where.operation.slots[number]
    precision = Precision.given(element_type(dtype)) if dtype else Precision.from_operands()
    return Slot(number, Node(NodeName(name), shape, precision, origin=user_origin()), where.operation)


def assignment(lhs: Node, slot: int, accum: str, reset: bool, value: Scalar, operation: Operation) -> Accum:
    """An assignment whose value is written over slots: each distinct slot becomes an operand, as do positions."""
    where = _current.get()
    lookups = where.lookups if where else NONE
    slots = list(dict.fromkeys(leaf for leaf in leaves(value) if isinstance(leaf, Slot)))
    numbers: dict[Scalar, Scalar] = {leaf: Arg(number) for number, leaf in enumerate(slots)}
    operands = tuple(leaf.operand for leaf in slots if leaf.operand is not None)
    assert len(operands) == len(slots), "a slot without an operand is only written"
    held = {number: one for number, one in lookups.positions.items() if all(leaf.number != number for leaf in slots)}
    return Accum(
        lhs,
        accum,
        reset,
        substitute(value, lambda leaf: numbers.get(leaf, leaf)),
        (*operands, *held.values(), *lookups.watched),
        Record(operation, slot, (*(leaf.number for leaf in slots), *held)),
        user_origin(),
    )


def assign_pointwise(lhs: Node, operand: Operand, accum: str = "arg2", *, title: str = "") -> Accum:
    """The assignment of one tensor to another, or its accumulation, point by point."""
    origin = user_origin()
    operation = infer(Pointwise(1), [node_of(operand).shape], title=title, origin=origin, result=lhs.shape)
    return Accum(lhs, accum, accum == "arg2", Arg(0), (operand,), Record(operation, 0, (1,)), origin)


def _check_slice(key: slice) -> None:
    if key != slice(None):
        raise WeftError("assign to the whole tensor: write `t[:] = …`")
