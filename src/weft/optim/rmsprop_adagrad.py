"""RMSprop and Adagrad: gradients divided by the root of their squares, as a mean or summed up."""

from __future__ import annotations

from weft.assign import Code, comment
from weft.optim.own_nodes import Rate, check_fractions, check_from_zero, check_rate, decayed, own_node
from weft.optim.selection import OptionGroups, Patterns, chosen_params, update_each
from weft.tensor.assignments import cd
from weft.tensor.functions import maximum, sqrt
from weft.tensor.tensor import Tensor


def rmsprop(
    loss: Tensor,
    *,
    lr: Rate = 1e-2,
    beta: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
    weight_decay: float = 0.0,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of RMSprop on the parameters of `loss`; `centered` divides by the deviation from the mean gradient.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.rmsprop(loss, lr=1e-2, momentum=0.9))

    Weight decay is added to the gradient. `only`, `exclude` and `groups` are as in wf.optim.sgd.
    """
    options = {"lr": lr, "beta": beta, "eps": eps, "momentum": momentum, "centered": centered}
    options["weight_decay"] = weight_decay
    return update_each(rmsprop_one, chosen_params(loss, only, exclude), options, groups)


@cd
def rmsprop_one(
    p: Tensor,
    *,
    lr: Rate = 1e-2,
    beta: float = 0.99,
    eps: float = 1e-8,
    momentum: float = 0.0,
    centered: bool = False,
    weight_decay: float = 0.0,
) -> None:
    """RMSprop on one parameter: `wf.optim.rmsprop_one(w, lr=1e-2)`."""
    check_rate(lr)
    check_fractions(beta=beta)
    check_from_zero(eps=eps, momentum=momentum, weight_decay=weight_decay)
    with comment("rmsprop", p.label):
        v, g = own_node(p, "rmsprop.v"), own_node(p, "rmsprop.g")
        g[:] = decayed(p, weight_decay)
        v[:] = beta * v + (1.0 - beta) * (g * g)
        spread = v
        if centered:
            mean = own_node(p, "rmsprop.mean")
            mean[:] = beta * mean + (1.0 - beta) * g
            spread = maximum(v - mean * mean, 0.0)  # rounding takes it below 0 where gradients stay the same
        step = g / (sqrt(spread) + eps)
        if momentum:
            m = own_node(p, "rmsprop.momentum")
            m[:] = momentum * m + step
            step = m
        p -= lr * step


def adagrad(
    loss: Tensor,
    *,
    lr: Rate = 1e-2,
    init: float = 0.0,
    eps: float = 1e-10,
    weight_decay: float = 0.0,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of Adagrad on the parameters of `loss`; `init` is what the sums of squares start at.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.adagrad(loss, lr=1e-2))

    Weight decay is added to the gradient. `only`, `exclude` and `groups` are as in wf.optim.sgd.
    """
    options = {"lr": lr, "init": init, "eps": eps, "weight_decay": weight_decay}
    return update_each(adagrad_one, chosen_params(loss, only, exclude), options, groups)


@cd
def adagrad_one(
    p: Tensor, *, lr: Rate = 1e-2, init: float = 0.0, eps: float = 1e-10, weight_decay: float = 0.0
) -> None:
    """Adagrad on one parameter: `wf.optim.adagrad_one(w, lr=1e-2)`."""
    check_rate(lr)
    check_from_zero(init=init, eps=eps, weight_decay=weight_decay)
    with comment("adagrad", p.label):
        total, g = own_node(p, "adagrad.sum", init=init), own_node(p, "adagrad.g")
        g[:] = decayed(p, weight_decay)
        total += g * g
        p -= lr * g / (sqrt(total) + eps)
