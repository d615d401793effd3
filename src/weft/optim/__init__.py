"""Optimisers, written as code."""

from __future__ import annotations

from typing import NoReturn

from weft.assign import Code, comment, seq
from weft.errors import WeftError
from weft.habits import no_optimiser
from weft.ops import Number
from weft.public import open_door, public
from weft.tensor.assignments import cd, node
from weft.tensor.functions import sqrt
from weft.tensor.tensor import Tensor

__all__ = ["adam", "adam_one", "sgd", "sgd_one"]


def sgd(
    loss: Tensor, *, lr: Number | Tensor, momentum: float = 0.0, weight_decay: float = 0.0, nesterov: bool = False
) -> Code:
    """One step of gradient descent on every parameter of `loss`."""
    steps = (sgd_one(p, lr=lr, momentum=momentum, weight_decay=weight_decay, nesterov=nesterov) for p in _params(loss))
    return seq(*steps)


def adam(
    loss: Tensor,
    *,
    lr: Number | Tensor = 1e-3,
    beta1: float = 0.9,
    beta2: float = 0.999,
    eps: float = 1e-8,
    weight_decay: float = 0.0,
) -> Code:
    """One step of Adam on every parameter of `loss`, with decoupled weight decay."""
    return seq(
        *(adam_one(p, lr=lr, beta1=beta1, beta2=beta2, eps=eps, weight_decay=weight_decay) for p in _params(loss))
    )


def _params(loss: Tensor) -> tuple[Tensor, ...]:
    if not isinstance(loss, Tensor):
        raise WeftError(
            f"an optimiser takes a loss, not {type(loss).__name__}, and updates all its parameters",
            fix="wf.optim.sgd(loss, lr=0.1); for some parameters wf.seq(*(wf.optim.sgd_one(p, lr=0.1) for p in some))",
        )
    return loss.params


@cd
def sgd_one(
    p: Tensor,
    *,
    lr: Number | Tensor,
    momentum: float = 0.0,
    weight_decay: float = 0.0,
    nesterov: bool = False,
) -> None:
    """Gradient descent on one parameter."""
    with comment("sgd", p.label):
        delta = node("sgd_delta")
        delta[:] = p.grad + weight_decay * p if weight_decay else p.grad
        if momentum:
            v = node("sgd_momentum", at_least="float32")
            v[:] = momentum * v + delta
            if nesterov:
                delta += momentum * v
            else:
                delta[:] = v
        p -= lr * delta


@cd
def adam_one(
    p: Tensor,
    *,
    lr: Number | Tensor,
    beta1: float,
    beta2: float,
    eps: float,
    weight_decay: float,
) -> None:
    """Adam on one parameter.

    The complements `1 - beta**n` correct the bias of the early steps. They grow as the means do, from 0: taken from a
    power, they would lose the digits that it shares with 1.
    """
    with comment("adam", p.label):
        m, v = (node(name, at_least="float32") for name in ("adam_m", "adam_v"))
        names = (f"adam_weight{number}.{p.label}" for number in (1, 2))
        weight1, weight2 = (node(name, init=0.0, scalar=True) for name in names)
        weight1[:] = beta1 * weight1 + (1.0 - beta1)
        weight2[:] = beta2 * weight2 + (1.0 - beta2)
        g = node("adam_g", at_least="float32")
        g[:] = p.grad
        m[:] = beta1 * m + (1.0 - beta1) * g
        v[:] = beta2 * v + (1.0 - beta2) * (g * g)
        step = (m / weight1) / (sqrt(v / weight2) + eps)
        p -= lr * (step + weight_decay * p if weight_decay else step)


@public
def __getattr__(name: str) -> NoReturn:
    raise no_optimiser(name, ("sgd", "adam"))


open_door(globals(), __all__)
