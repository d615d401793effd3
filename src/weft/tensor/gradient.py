"""Reverse-mode differentiation: code for the forward pass, for clearing gradients, for backpropagation."""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.assign import (
    Accum,
    Adjoint,
    Cells,
    Code,
    Comment,
    Fetch,
    Keep,
    Node,
    complete,
    operands_of,
    seq,
    statements,
)
from weft.assign.record import assign_pointwise
from weft.errors import WeftError, said_at, user_origin
from weft.ops import Call, Num
from weft.shape.reach import parts_first
from weft.tensor.einsum import einsum
from weft.tensor.tensor import Joint, Tensor


def topological(*roots: Tensor, leaves: Collection[Tensor] = ()) -> list[Tensor]:
    """Everything that `roots` are computed from, and they too, operands before users; nothing that `leaves` are."""
    return parts_first(roots, lambda tensor: () if tensor in leaves else tensor.children)


def forward(tensor: Tensor) -> Code:
    """Compute `tensor` from leaves, each thing once."""
    return complete(Keep((tensor.node,)))


def zero_grads(root: Tensor) -> Code:
    """Clear the gradients that backpropagation from `root` adds to: those of parameters and other leaves."""
    return _zeroed(_differentiable(root))


def _zeroed(tensors: Sequence[Tensor]) -> Code:
    return seq(*(_clear(tensor) for tensor in tensors if not tensor.children))


def backprop(root: Tensor) -> Code:
    """Propagate a gradient of 1 from `root` to everything it is computed from; leaves add it to what they have."""
    return _propagated(root, _differentiable(root))


def _propagated(root: Tensor, tensors: list[Tensor]) -> Code:
    """The same, given everything that it is computed from and that has a gradient, in order."""
    cleared = (_clear(tensor) for tensor in tensors if tensor.children and tensor is not root)
    start = Fetch(root.grad.node, Cells(Num(1.0)), user_origin())
    chosen, waiting = chosen_between(tensors), computed_together(tensors)
    codes = (
        _pulled_back_jointly(waiting[tensor]) if tensor in waiting else _pulled_back(tensor, tensor in chosen)
        for tensor in reversed(tensors)
    )
    return seq(*cleared, start, *codes)


def computed_together(tensors: Sequence[Tensor]) -> dict[Tensor, list[Tensor]]:
    """The tensors, of some in order, that are computed at once: all of them by the first, which is passed last."""
    found: dict[Joint, list[Tensor]] = {}
    for tensor in tensors:
        if tensor.joint is not None:
            found.setdefault(tensor.joint, []).append(tensor)
    return {group[0]: group for group in found.values()}


def _pulled_back_jointly(tensors: Sequence[Tensor]) -> Code:
    """The code that adds to the gradients of children what those of tensors imply that are computed at once."""
    joint = tensors[0].joint
    assert joint is not None
    wanted = [child for tensor in tensors for child in tensor.children if child.differentiable]
    found = joint.pull_back({tensor: tensor.grad for tensor in tensors}, wanted)
    return seq(*(assign_pointwise(child.grad.node, gradient.operand, "add") for child, gradient in found.items()))


def _pulled_back(tensor: Tensor, masked: bool) -> Code:
    """The code that adds to the gradients of a tensor's children what its own implies."""
    if tensor.pullback is None:
        return seq()
    into = [child.grad.node if child.differentiable else None for child in tensor.children]
    read = [child.operand for child in tensor.children]
    return tensor.pullback(tensor, Adjoint(tensor.node, tensor.grad.node, read, into, masked))


def _clear(tensor: Tensor) -> Code:
    return Fetch(tensor.grad.node, Cells(Num(0.0)))


def grad_update(loss: Tensor, *, sum: bool = False) -> Code:  # noqa: A002 it is public
    """Zero the gradients, compute `loss`, propagate its gradient.

    A loss is one number; with `sum`, the gradient of one of several is that of their sum.
    """
    if not isinstance(loss, Tensor) or not loss.differentiable:
        label = loss.label if isinstance(loss, Tensor) else repr(loss)
        raise WeftError(
            f"`{label}` does not depend on any parameter, so there is nothing to update",
            fix="build the loss from parameters: wf.param, or strings inside @wf.op",
        )
    computed = forward(loss)
    _check_reads(loss, computed)
    root = einsum("...|...->... => 0", loss, label=f"{loss.label}.sum") if sum else loss
    tensors = _differentiable(root)
    back = Comment("backpropagation", _propagated(root, tensors))
    return Comment(f"gradient update of {loss.label}", seq(_zeroed(tensors), computed, back))


def _check_reads(loss: Tensor, computed: Code) -> None:
    """Refuse a loss that is computed from a gradient which its update clears."""
    read = [
        (node, statement.origin)
        for statement in statements(computed)
        for node in operands_of(statement)
        if isinstance(node, Node) and node.is_grad
    ]
    cleared = {tensor.grad.node: tensor for tensor in _differentiable(loss)} if read else {}
    for node, origin in read:
        if node in cleared:
            raise WeftError(
                f"`{loss.label}` is computed from `{node.label}`, which its own gradient update clears",
                notes=said_at("it is read", origin),
                fix="a gradient is read after the update: in an optimiser, or in a loss that does not depend on "
                f"`{cleared[node].label}`; wf.grad(y, x) is a gradient that can be differentiated again",
            )


def chosen_between(tensors: list[Tensor]) -> set[Tensor]:
    """What a `where` chooses between, with what that is computed from: there a gradient may be none."""
    found: set[Tensor] = set()
    for tensor in reversed(tensors):
        if tensor in found or _chooses(tensor):
            found.update(tensor.children)
    return found


def _chooses(tensor: Tensor) -> bool:
    definition = tensor.node.definition
    return isinstance(definition, Accum) and isinstance(definition.value, Call) and definition.value.op == "where"


def _differentiable(root: Tensor) -> list[Tensor]:
    return [tensor for tensor in topological(root) if tensor.differentiable]
