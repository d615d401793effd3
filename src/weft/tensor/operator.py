"""Applying an operator: from its forward function over slots, and perhaps a gradient function, to a tensor.

An operator's functions take the tensors they speak of by name: `v` and `g` are the result's value and gradient,
`v1`, `g1` those of the first operand, and so on. The forward function assigns to `v`; the gradient function accumulates
into `g1`, `g2`, … and may use everything. Without a gradient function it is derived from the forward assignment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from types import FunctionType
from typing import Any, overload

from weft.assign import (
    Accum,
    Adjoint,
    Arg,
    Code,
    Lookups,
    Node,
    NodeName,
    Operand,
    Precision,
    Slot,
    in_code,
    recording,
    statements,
)
from weft.assign.definitions import inputs_of
from weft.einsum import parse_spec
from weft.errors import WeftError, user_origin
from weft.ops import OPS, Call, leaves
from weft.ops.dtypes import element_type, is_float
from weft.project.plan import check_labels
from weft.public import public_methods
from weft.shape.infer import Operation, infer
from weft.shape.logic import Compose, Einsum, Logic, Pointwise, Transpose, arity, position_slots
from weft.shape.nodes import Dim
from weft.shape.text import as_dim
from weft.tensor.adjoint import pull_back
from weft.tensor.positions import lookups_of
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike


@public_methods
@dataclass(slots=True, eq=False)
class Operator:
    """A differentiable operation: its logic, its forward function and its gradient."""

    name: str
    logic: Logic | None
    run_forward: Callable[..., None]
    run_gradient: Callable[..., None] | None = None

    def __call__(self, *operands: TensorLike, label: str = "", **sizes: int) -> Tensor:
        origin = user_origin()
        if self.logic is not None and arity(self.logic) != len(operands):
            raise WeftError(
                f"{self.name} takes {arity(self.logic)} operands and was given {len(operands)}", origin=origin
            )
        dims = {name: as_dim(size, f"`{name}`") for name, size in sizes.items()}
        if isinstance(self.logic, Einsum):
            check_labels(self.logic.spec, sizes)
        return self.apply(self.logic or Pointwise(len(operands)), operands, label=label, sizes=dims)

    def gradient(self, function: Callable[..., None]) -> Operator:
        """Give the operator its gradient; use as a decorator."""
        self.run_gradient = function
        return self

    def __repr__(self) -> str:
        return f"<operator {self.name}>"

    def apply(
        self,
        logic: Logic,
        operands: Sequence[TensorLike],
        *,
        label: str = "",
        sizes: Mapping[str, Dim] | None = None,
        dtype: str | None = None,
        watched: Sequence[Node] = (),
    ) -> Tensor:
        """Build the tensor this operator computes from `operands`, stored in `dtype` if one is given.

        What is `watched` is computed before it, and has a check.
        """
        tensors = tuple(as_tensor(operand, self.name) for operand in operands)
        origin = user_origin()
        name = label or self.name
        operation = infer(
            logic,
            [tensor.shape for tensor in tensors],
            name=name,
            title=self.name,
            origin=origin,
            sizes=sizes,
            code=in_code(tensor.operand for tensor in tensors),
        )
        precision = Precision.given(element_type(dtype)) if dtype else Precision.from_operands()
        node = Node(NodeName(name, inline=not label), operation.result, precision, origin=origin)
        lookups = lookups_of(operation, {slot: one.operand for slot, one in enumerate(tensors, 1)}, origin)
        lookups = replace(lookups, watched=(*lookups.watched, *watched))
        code = self._forward(node, operation, lookups, tensors)
        reached = any(tensor.differentiable for tensor in tensors) and (dtype is None or is_float(dtype))
        differentiable = reached and not (self.run_gradient is None and _is_flat(code))
        return Tensor(
            node.defined(code),
            operation=operation,
            children=(*tensors, *map(Tensor, lookups.watched)),
            differentiable=differentiable,
            pullback=self._pullback if differentiable else None,
        )

    def _forward(self, node: Node, operation: Operation, lookups: Lookups, operands: Sequence[Tensor]) -> Code:
        """What the forward function writes, checked."""
        with recording(operation, lookups) as forward:
            values = _numbered("v", [tensor.operand for tensor in operands], operation)
            _call(self.run_forward, {"v": Slot(0, node, operation), **values}, self.name)
        if not list(statements(forward.code)):
            fix = "assign to its first parameter: `v[:] = …` or `v.accumulate(…, reset=True)`"
            raise WeftError(f"the forward function of `{self.name}` assigns nothing", origin=node.origin, fix=fix)
        if node in inputs_of(forward.code):
            what = f"the forward function of {self.name} reads its result before computing it"
            raise WeftError(what, origin=node.origin, fix="compute v from v1, v2, … alone")
        return forward.code

    def _pullback(self, tensor: Tensor, adjoint: Adjoint) -> Code:
        operation = tensor.operation
        assert operation is not None
        count = arity(operation.logic)
        slots = {
            "v": Slot(0, adjoint.value, operation),
            "g": Slot(0, adjoint.gradient, operation),
            **_numbered("v", adjoint.operands[:count], operation),
            **_numbered("g", adjoint.into[:count], operation),
        }
        positions = {slot: adjoint.operands[slot - 1] for slot in position_slots(operation.logic)}
        with recording(operation, Lookups(positions, tuple(adjoint.operands[count:]))) as backward:
            if self.run_gradient is not None:
                _call(self.run_gradient, slots, f"the gradient of {self.name}")
            else:
                forward = self._derivable(tensor)
                read, into = ([slots[f"{name}{slot}"] for slot in forward.record.operands] for name in "vg")
                pull_back(forward, slots["v"], slots["g"], read, into, adjoint.masked)
        return backward.code

    def _derivable(self, tensor: Tensor) -> Accum:
        """The one assignment that computes a tensor of this operator."""
        assert tensor.node.definition is not None
        forward, *others = statements(tensor.node.definition)
        if others or not isinstance(forward, Accum):
            raise WeftError(
                f"the gradient of `{tensor.label}` cannot be derived: its forward code is not one assignment",
                origin=tensor.node.origin,
                fix="give the operator a gradient function",
            )
        return forward


@overload
def operator(logic: Callable[..., None]) -> Operator: ...
@overload
def operator(logic: str = ".", *, name: str = "") -> Callable[[Callable[..., None]], Operator]: ...
def operator(logic: Any = ".", *, name: str = "") -> Any:
    """Define an operator by its forward function; `logic` is ".", "@", "T" or an einsum spec."""
    if callable(logic):
        return Operator(getattr(logic, "__name__", "operator"), None, logic)
    if not isinstance(logic, str):
        what = f"an operator is defined by its forward function or a logic, not {type(logic).__name__}"
        raise WeftError(what, fix='write @wf.operator, or @wf.operator("ij;jk=>ik")')
    parsed = None if logic == "." else read_logic(logic)

    def define(forward: Callable[..., None]) -> Operator:
        return Operator(name or forward.__name__, parsed, forward)

    return define


def read_logic(text: str, operands: int = 2) -> Logic:
    """The logic a short name or an einsum spec stands for."""
    match text:
        case ".":
            return Pointwise(operands)
        case "@":
            return Compose()
        case "T":
            return Transpose()
    return Einsum(parse_spec(text))


def _is_flat(code: Code) -> bool:
    """Does its result not change with its operands, a little at a time: is it a constant, a truth value, a position?"""
    if not isinstance(code, Accum):
        return False
    monoid = OPS[code.accum].monoid
    if (monoid and monoid.dtype) or not any(isinstance(leaf, Arg) for leaf in leaves(code.value)):
        return True
    return isinstance(code.value, Call) and OPS[code.value.op].truth


def _numbered(name: str, operands: Sequence[Operand | None], operation: Operation) -> dict[str, Slot]:
    return {f"{name}{slot}": Slot(slot, operand, operation) for slot, operand in enumerate(operands, 1)}


def _call(function: Callable[..., None], slots: Mapping[str, Slot], what: str) -> None:
    """Call an operator's function with the slots its parameters name."""
    wanted = _parameters(function)
    if wanted is None:
        function(*slots.values())
        return
    named = {**slots, **{name.replace("v", "t", 1): slot for name, slot in slots.items() if name.startswith("v")}}
    named |= {("rhs" + name[1:] if name[1:] else "lhs"): slot for name, slot in slots.items() if name.startswith("v")}
    for name in wanted:
        if name not in named:
            raise WeftError(
                f"{what} has a parameter `{name}`, which names no slot",
                fix="its parameters are v, v1, v2, … and in a gradient also g, g1, g2, …",
            )
    function(**{name: named[name] for name in wanted})


def _parameters(function: Callable[..., None]) -> Collection[str] | None:
    """The parameters of a function by name; None if it takes as many as it is given."""
    if isinstance(function, FunctionType) and not vars(function):  # much quicker than asking for the signature
        code = function.__code__
        if not code.co_flags & inspect.CO_VARKEYWORDS:
            return (
                None
                if code.co_flags & inspect.CO_VARARGS
                else code.co_varnames[: code.co_argcount + code.co_kwonlyargcount]
            )
    found = inspect.signature(function).parameters
    return None if any(one.kind is one.VAR_POSITIONAL for one in found.values()) else found
