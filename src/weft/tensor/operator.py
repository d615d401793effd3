"""Applying an operator: from its forward function over slots, and perhaps a gradient function, to a tensor.

An operator's functions take the tensors they speak of by name: `v` and `g` are the result's value and gradient,
`v1`, `g1` those of the first operand, and so on. The forward function assigns to `v`; the gradient function accumulates
into `g1`, `g2`, … and may use everything. Without a gradient function it is derived from the forward assignment.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, overload

from weft.assign import Accum, Arg, Code, Node, NodeName, Precision, Slot, in_code, intermediate, recording, statements
from weft.assign.concat_terms import Terms, together
from weft.assign.definitions import needed
from weft.einsum import parse_spec
from weft.errors import WeftError, user_origin
from weft.ops import OPS, Call, Num, Scalar, computed, substitute
from weft.ops.dtypes import element_type, is_float
from weft.project.plan import check_labels
from weft.public import public_methods
from weft.shape.infer import Operation, infer
from weft.shape.logic import Compose, Einsum, Logic, Pointwise, Transpose, arity
from weft.shape.nodes import Dim
from weft.shape.text import as_dim
from weft.tensor.derivative import Of, differentiate, passed_on, share, times
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
    ) -> Tensor:
        """Build the tensor this operator computes from `operands`, stored in `dtype` if one is given."""
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
        with recording(operation) as forward:
            _call(self.run_forward, {"v": Slot(0, node, operation), **_operands(tensors, operation)}, self.name)
        if not list(statements(forward.code)):
            fix = "assign to its first parameter: `v[:] = …` or `v.accumulate(…, reset=True)`"
            raise WeftError(f"the forward function of `{self.name}` assigns nothing", origin=origin, fix=fix)
        if node in needed(forward.code):
            raise WeftError(
                f"the forward function of {self.name} reads its result before computing it",
                origin=origin,
                fix="compute v from v1, v2, … alone",
            )
        reached = any(tensor.differentiable for tensor in tensors) and (dtype is None or is_float(dtype))
        differentiable = reached and not (self.run_gradient is None and _is_truth(forward.code))
        return Tensor(
            node.defined(forward.code),
            operation=operation,
            children=tensors,
            differentiable=differentiable,
            pullback=self._pullback if differentiable else None,
        )

    def _pullback(self, tensor: Tensor, masked: bool) -> Code:
        operation = tensor.operation
        assert operation is not None
        slots = {
            "v": Slot(0, tensor.node, operation),
            "g": Slot(0, tensor.grad.node, operation),
            **_operands(tensor.children, operation),
        }
        for number, child in enumerate(tensor.children, 1):
            slots[f"g{number}"] = Slot(number, child.grad.node if child.differentiable else None, operation)
        with recording(operation) as backward:
            if self.run_gradient is not None:
                _call(self.run_gradient, slots, f"the gradient of {self.name}")
            else:
                _derive(tensor, slots, masked)
        return backward.code


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


def _derive(tensor: Tensor, slots: Mapping[str, Slot], masked: bool) -> None:
    """Accumulate into each operand's gradient what the single forward assignment implies."""
    definition = tensor.node.definition
    assert definition is not None
    forward, *others = statements(definition)
    if others or not isinstance(forward, Accum):
        raise WeftError(
            f"the gradient of `{tensor.label}` cannot be derived: its forward code is not one assignment",
            origin=tensor.node.origin,
            fix="give the operator a gradient function",
        )
    over_slots = _over_slots(forward, slots)
    whole = over_slots(forward.value)

    def collect(name: str, accum: str, of: Of) -> Scalar:
        return intermediate(f"{name}_lhs").accumulate(accum, of(whole, slots["v"]), reset=True)

    part = share(forward.accum, collect)(whole, slots["v"])
    for number, seen in _seen_by_operands(forward):
        target = slots[f"g{number}"]
        value = over_slots(seen)
        partial = differentiate(value, slots[f"v{number}"])
        if forward.accum == "arg2" and isinstance(value, Call):
            partial = _reusing(partial, value, slots["v"])
        if target.operand is not None and partial != Num(0):
            target += passed_on(slots["g"], times(part, partial), masked)


def _reusing(partial: Scalar, value: Call, v: Scalar) -> Scalar:
    """A derivative that reads the value computed before instead of computing it again."""
    return computed(
        partial,
        lambda one: one,
        lambda one, args: v if _alike(one, value) else Call(one.op, tuple(args)),
    )


def _alike(one: Call, value: Call) -> bool:
    """Is it the same operation on the same arguments? Only leaves are compared: calls are as deep as they are."""
    return one.op == value.op and all(
        arg is other or (not isinstance(arg, Call) and arg == other)
        for arg, other in zip(one.args, value.args, strict=True)
    )


def _is_truth(code: Code) -> bool:
    return isinstance(code, Accum) and isinstance(code.value, Call) and OPS[code.value.op].truth


def _seen_by_operands(forward: Accum) -> Iterator[tuple[int, Scalar]]:
    """The slot of each operand, and the value where it is there: other parts of a concatenation are not."""
    operation = forward.record.operation
    groups = together(operation.logic.spec) if isinstance(operation.logic, Einsum) else None
    if groups is None:
        yield from ((slot, forward.value) for slot in range(1, len(operation.slots)))
        return
    terms, numbers = Terms.of(forward.value), {slot: number for number, slot in enumerate(forward.record.operands)}
    for slot, group in enumerate(groups, 1):
        if slot in numbers:
            yield slot, terms.present({numbers[one + 1] for one in group if one + 1 in numbers})


def _over_slots(code: Accum, slots: Mapping[str, Slot]) -> Callable[[Scalar], Scalar]:
    """Writes slots for the operands in a value."""
    numbers = {number: slots[f"v{slot}" if slot else "v"] for number, slot in enumerate(code.record.operands)}
    return lambda value: substitute(value, lambda leaf: numbers[leaf.number] if isinstance(leaf, Arg) else leaf)


def _operands(tensors: Sequence[Tensor], operation: Operation) -> dict[str, Slot]:
    return {f"v{number}": Slot(number, tensor.operand, operation) for number, tensor in enumerate(tensors, 1)}


def _call(function: Callable[..., None], slots: Mapping[str, Slot], what: str) -> None:
    """Call an operator's function with the slots its parameters name."""
    wanted = inspect.signature(function).parameters
    named = {**slots, **{name.replace("v", "t", 1): slot for name, slot in slots.items() if name.startswith("v")}}
    named |= {("rhs" + name[1:] if name[1:] else "lhs"): slot for name, slot in slots.items() if name.startswith("v")}
    if any(parameter.kind is parameter.VAR_POSITIONAL for parameter in wanted.values()):
        function(*slots.values())
        return
    for name in wanted:
        if name not in named:
            raise WeftError(
                f"{what} has a parameter `{name}`, which names no slot",
                fix="its parameters are v, v1, v2, … and in a gradient also g, g1, g2, …",
            )
    function(**{name: named[name] for name in wanted})
