"""Adam and its kin: steps along a mean of gradients, divided by the root of a mean of their squares."""

from __future__ import annotations

from typing import NamedTuple

from weft.assign import Code, comment
from weft.optim.own_nodes import Rate, check_fractions, check_from_zero, check_rate, decayed, length, own_node
from weft.optim.selection import OptionGroups, Patterns, chosen_params, update_each
from weft.tensor.assignments import cd
from weft.tensor.functions import logical_and, maximum, sqrt, where
from weft.tensor.tensor import Tensor


def adam(
    loss: Tensor,
    *,
    lr: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of Adam on the parameters of `loss`.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=1e-3))

    Weight decay is added to the gradient; that of wf.optim.adamw is not. With `amsgrad` the mean of squares never
    falls. `only`, `exclude` and `groups` are as in wf.optim.sgd.
    """
    options = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
    return update_each(adam_one, chosen_params(loss, only, exclude), options, groups)


def adamw(
    loss: Tensor,
    *,
    lr: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of AdamW on the parameters of `loss`: Adam, and parameters that decay apart from it.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.adamw(loss, lr=1e-3, groups={"*.b": dict(weight_decay=0.0)}))

    `only`, `exclude` and `groups` are as in wf.optim.sgd.
    """
    options = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay, "amsgrad": amsgrad}
    return update_each(adamw_one, chosen_params(loss, only, exclude), options, groups)


def lamb(
    loss: Tensor,
    *,
    lr: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of LAMB on the parameters of `loss`: that of AdamW, as long as the parameter is, times `lr`.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.lamb(loss, lr=1e-2, weight_decay=0.01))

    A parameter of zeros takes the step of AdamW as it is. `only`, `exclude` and `groups` are as in wf.optim.sgd.
    """
    options = {"lr": lr, "beta1": beta1, "beta2": beta2, "eps": eps, "weight_decay": weight_decay}
    return update_each(lamb_one, chosen_params(loss, only, exclude), options, groups)


@cd
def adam_one(
    p: Tensor,
    *,
    lr: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
    amsgrad: bool = False,
) -> None:
    """Adam on one parameter: `wf.optim.adam_one(w, lr=1e-3)`."""
    _check(lr, beta1, beta2, eps, weight_decay)
    with comment("adam", p.label):
        gradient = decayed(p, weight_decay)
        p -= lr * _step(_moments(p, "adam", gradient, beta1, beta2), eps, amsgrad)


@cd
def adamw_one(
    p: Tensor,
    *,
    lr: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.01,
    amsgrad: bool = False,
) -> None:
    """AdamW on one parameter: `wf.optim.adamw_one(w, lr=1e-3)`."""
    _check(lr, beta1, beta2, eps, weight_decay)
    with comment("adamw", p.label):
        step = _step(_moments(p, "adamw", p.grad, beta1, beta2), eps, amsgrad)
        p -= lr * (step + weight_decay * p if weight_decay else step)


@cd
def lamb_one(
    p: Tensor,
    *,
    lr: Rate = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-6,
    weight_decay: float = 0.0,
) -> None:
    """LAMB on one parameter: `wf.optim.lamb_one(w, lr=1e-2)`."""
    _check(lr, beta1, beta2, eps, weight_decay)
    with comment("lamb", p.label):
        adams = _step(_moments(p, "lamb", p.grad, beta1, beta2), eps, amsgrad=False)
        step, trust = own_node(p, "lamb.step"), own_node(p, "lamb.trust", scalar=True)
        step[:] = adams + weight_decay * p if weight_decay else adams
        of_p, of_step = length(p), length(step)
        trust[:] = where(logical_and(of_p > 0, of_step > 0), of_p / of_step, 1.0)
        p -= lr * (trust * step)


class _Moments(NamedTuple):
    """Means of a parameter's gradients and of their squares, with the weights that make them means."""

    p: Tensor
    method: str
    m: Tensor
    v: Tensor
    weight1: Tensor
    weight2: Tensor


def _moments(p: Tensor, method: str, gradient: Tensor, beta1: float, beta2: float) -> _Moments:
    """Record how the means go on.

    The weights `1 - beta**n` correct the bias of the early steps. They grow as the means do, from 0: taken from a
    power, they would lose the digits that it shares with 1.
    """
    m, v, g = (own_node(p, f"{method}.{name}") for name in ("m", "v", "g"))
    weights = [own_node(p, f"{method}.{name}", least=None, init=0.0, scalar=True) for name in ("weight1", "weight2")]
    for weight, beta in zip(weights, (beta1, beta2), strict=True):
        weight[:] = beta * weight + (1.0 - beta)
    g[:] = gradient
    m[:] = beta1 * m + (1.0 - beta1) * g
    v[:] = beta2 * v + (1.0 - beta2) * (g * g)
    return _Moments(p, method, m, v, *weights)


def _step(found: _Moments, eps: float, amsgrad: bool) -> Tensor:
    """The mean of gradients, divided by the root of that of squares, or of the greatest there was."""
    squares = found.v
    if amsgrad:
        squares = own_node(found.p, f"{found.method}.greatest")
        squares[:] = maximum(squares, found.v)
    root: Tensor = sqrt(squares / found.weight2)
    return (found.m / found.weight1) / (root + eps)


def _check(lr: Rate, beta1: float, beta2: float, eps: float, weight_decay: float) -> None:
    check_rate(lr)
    check_fractions(beta1=beta1, beta2=beta2)
    check_from_zero(eps=eps, weight_decay=weight_decay)
