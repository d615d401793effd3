"""Reverse-mode differentiation: code for the forward pass, for clearing gradients, for backpropagation."""

from __future__ import annotations

from weft.assign import Accum, Cells, Code, Comment, Fetch, Keep, complete, seq
from weft.errors import WeftError, user_origin
from weft.ops import Call, Num
from weft.tensor.tensor import Tensor


def topological(root: Tensor) -> list[Tensor]:
    """Everything `root` is computed from, operands before users, `root` last."""
    order: dict[Tensor, None] = {}
    stack = [(root, iter(root.children))]
    entered = {root}
    while stack:
        tensor, children = stack[-1]
        child = next((one for one in children if one not in entered), None)
        if child is None:
            order[tensor] = None
            stack.pop()
        else:
            entered.add(child)
            stack.append((child, iter(child.children)))
    return list(order)


def forward(tensor: Tensor) -> Code:
    """Compute `tensor` from leaves, each thing once."""
    return complete(Keep((tensor.node,)))


def zero_grads(root: Tensor) -> Code:
    """Clear the gradients that backpropagation from `root` adds to: those of parameters and other leaves."""
    return seq(*(_clear(tensor) for tensor in _differentiable(root) if not tensor.children))


def backprop(root: Tensor) -> Code:
    """Propagate a gradient of 1 from `root` to everything it is computed from; leaves add it to what they have."""
    tensors = _differentiable(root)
    cleared = (_clear(tensor) for tensor in tensors if tensor.children and tensor is not root)
    start = Fetch(root.grad.node, Cells(Num(1.0)))
    chosen = _chosen_between(tensors)
    codes = (tensor.backward(tensor, tensor in chosen) for tensor in reversed(tensors) if tensor.backward)
    return seq(*cleared, start, *codes)


def _clear(tensor: Tensor) -> Code:
    return Fetch(tensor.grad.node, Cells(Num(0.0)))


def grad_update(loss: Tensor) -> Code:
    """Zero the gradients, compute `loss`, propagate its gradient."""
    if not isinstance(loss, Tensor) or not loss.differentiable:
        label = loss.label if isinstance(loss, Tensor) else repr(loss)
        raise WeftError(
            f"`{label}` does not depend on any parameter, so there is nothing to update",
            origin=user_origin(),
            fix="build the loss from parameters: wf.param, or strings inside @wf.op",
        )
    return Comment(
        f"gradient update of {loss.label}",
        seq(zero_grads(loss), forward(loss), Comment("backpropagation", backprop(loss))),
    )


def _chosen_between(tensors: list[Tensor]) -> set[Tensor]:
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
