"""Nodes that optimisers keep for a parameter, and what all optimisers ask of their options.

Their names say whose they are, and what of it: `adam.m.mlp.w1`.
"""

from __future__ import annotations

from typing import TypeAlias

from weft.errors import WeftError
from weft.ops import Number, Scalar
from weft.tensor.assignments import node
from weft.tensor.einsum import einsum
from weft.tensor.functions import sqrt
from weft.tensor.tensor import Tensor, is_number

#: How far a step goes: a number, an expression of a static index, or a tensor such as a schedule.
Rate: TypeAlias = Number | Tensor

#: Sums over every axis that a parameter may have.
_TOTAL = "...|...->... => 0"


def own_node(
    owner: Tensor, name: str, *, least: str | None = "float32", init: float | None = None, scalar: bool = False
) -> Tensor:
    """A node of a tensor's own, called after both: it is as wide as the state of an optimiser must be, unless said."""
    made = node(name, at_least=least, init=init, scalar=scalar)
    called = made.node.name
    called.text, called.after = f"{name}.{owner.label}", owner.label
    return made


def decayed(p: Tensor, weight_decay: float) -> Tensor:
    """The gradient of a parameter, drawn towards zero as well."""
    return p.grad + weight_decay * p if weight_decay else p.grad


def squared_length(tensor: Tensor) -> Tensor:
    """The sum of the squares of all its values."""
    return einsum(_TOTAL, tensor * tensor)


def length(tensor: Tensor) -> Tensor:
    """The Euclidean length of all its values."""
    found: Tensor = sqrt(squared_length(tensor))
    return found


# Options


def check_rate(lr: Rate) -> None:
    """Refuse what is no learning rate."""
    if not isinstance(lr, Tensor | Scalar) and not is_number(lr):
        what = f"lr is a number, an expression of a counter or a tensor, not {lr!r}"
        raise WeftError(what, fix="write lr=1e-3, or a schedule: lr=wf.optim.cosine(n, 1e-3, steps=1000)")
    if isinstance(lr, int | float) and not lr >= 0:
        raise WeftError(f"lr is {lr}, and a step goes down the gradient", fix=f"write lr={abs(lr)}")


def check_fractions(**values: float) -> None:
    """Refuse numbers that are not from 0 up to 1: means would grow without end."""
    for name, value in values.items():
        if not 0 <= value < 1:
            raise WeftError(f"{name} is at least 0 and below 1, not {value}", fix=f"write {name}=0.9, or the like")


def check_from_zero(**values: float) -> None:
    """Refuse numbers below 0."""
    for name, value in values.items():
        if not value >= 0:
            raise WeftError(f"{name} is a number from 0 on, not {value}", fix=f"leave it out, or write {name}=0.0")
