"""Gradient descent, with momentum; Lion, which goes by the sign of it."""

from __future__ import annotations

from weft.assign import Code, comment
from weft.errors import WeftError
from weft.optim.own_nodes import Rate, check_fractions, check_from_zero, check_rate, decayed, own_node
from weft.optim.selection import OptionGroups, Patterns, chosen_params, update_each
from weft.tensor.assignments import cd
from weft.tensor.elementary import sign
from weft.tensor.tensor import Tensor


def sgd(
    loss: Tensor,
    *,
    lr: Rate,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of gradient descent on the parameters of `loss`.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9))

    Weight decay is added to the gradient. `only` and `exclude` are patterns of the labels of parameters, and `groups`
    gives other options to those that a pattern matches: `groups={"*.bias": dict(weight_decay=0.0)}`.
    """
    options = {"lr": lr, "momentum": momentum, "weight_decay": weight_decay, "nesterov": nesterov}
    return update_each(sgd_one, chosen_params(loss, only, exclude), options, groups)


@cd
def sgd_one(
    p: Tensor,
    *,
    lr: Rate,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> None:
    """Gradient descent on one parameter: `wf.optim.sgd_one(w, lr=0.1)`."""
    check_rate(lr)
    check_from_zero(momentum=momentum, weight_decay=weight_decay)
    if nesterov and not momentum:
        raise WeftError("nesterov looks ahead along the momentum, and there is none", fix="write momentum=0.9 as well")
    with comment("sgd", p.label):
        delta = own_node(p, "sgd.delta", least=None)
        delta[:] = decayed(p, weight_decay)
        if momentum:
            v = own_node(p, "sgd.momentum")
            v[:] = momentum * v + delta
            if nesterov:
                delta += momentum * v
            else:
                delta[:] = v
        p -= lr * delta


def lion(
    loss: Tensor,
    *,
    lr: Rate = 1e-4,
    beta1: float = 0.9,
    beta2: float = 0.99,
    weight_decay: float = 0.0,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of Lion on the parameters of `loss`: each value moves by `lr`, up or down, and decays.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.lion(loss, lr=1e-4, weight_decay=0.1))

    `only`, `exclude` and `groups` are as in wf.optim.sgd.
    """
    options = {"lr": lr, "beta1": beta1, "beta2": beta2, "weight_decay": weight_decay}
    return update_each(lion_one, chosen_params(loss, only, exclude), options, groups)


@cd
def lion_one(p: Tensor, *, lr: Rate = 1e-4, beta1: float = 0.9, beta2: float = 0.99, weight_decay: float = 0.0) -> None:
    """Lion on one parameter: `wf.optim.lion_one(w, lr=1e-4)`."""
    check_rate(lr)
    check_fractions(beta1=beta1, beta2=beta2)
    check_from_zero(weight_decay=weight_decay)
    with comment("lion", p.label):
        m, step = own_node(p, "lion.m"), own_node(p, "lion.step")
        step[:] = sign(beta1 * m + (1.0 - beta1) * p.grad)
        m[:] = beta2 * m + (1.0 - beta2) * p.grad
        p -= lr * (step + weight_decay * p if weight_decay else step)
