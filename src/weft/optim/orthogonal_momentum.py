"""Muon: the momentum of a matrix, made orthogonal before it is a step. Other parameters take a step of AdamW."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from weft.arguments import whole_number
from weft.assign import Code, comment, seq
from weft.errors import WeftError
from weft.optim.adam_family import adamw_one
from weft.optim.own_nodes import Rate, check_fractions, check_from_zero, check_rate, length, own_node
from weft.optim.selection import OptionGroups, Patterns, chosen_params, update_each
from weft.shape.nodes import Shape
from weft.tensor.assignments import cd
from weft.tensor.einsum import einsum
from weft.tensor.functions import maximum
from weft.tensor.tensor import Tensor

#: Of the polynomial a*x + b*x**3 + c*x**5, that takes singular values near 1 in few steps (Jordan et al., 2024).
_A, _B, _C = 3.4445, -4.7750, 2.0315


def muon(
    loss: Tensor,
    *,
    lr: Rate = 0.02,
    momentum: float = 0.95,
    nesterov: bool = True,
    weight_decay: float = 0.0,
    steps: int = 5,
    eps: float = 1e-7,
    others: Mapping[str, Any] | None = None,
    only: Patterns = (),
    exclude: Patterns = (),
    groups: OptionGroups | None = None,
) -> Code:
    """One step of Muon on the matrices among the parameters of `loss`, and one of AdamW on all others.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.muon(loss, lr=0.02, others=dict(lr=1e-3), exclude="embedding.*"))

    A matrix has two axes, none of them a batch axis; parameters with one axis, or with more than two, take the step of
    wf.optim.adamw with the options that `others` gives. Embeddings are matrices as well, and are better excluded and
    left to another optimiser. `groups` is about matrices; `only` and `exclude` are as in wf.optim.sgd.
    """
    params = chosen_params(loss, only, exclude)
    matrices = [p for p in params if is_matrix(p.dims)]
    if not matrices:
        what = f"`{loss.label}` has no parameter with two axes for muon"
        raise WeftError(what, notes=[f"`{p.label}` is {p.dims}" for p in params], fix="write wf.optim.adamw(loss)")
    options = {"lr": lr, "momentum": momentum, "nesterov": nesterov, "weight_decay": weight_decay}
    options |= {"steps": steps, "eps": eps}
    return seq(
        update_each(muon_one, matrices, options, groups),
        *(adamw_one(p, **(others or {})) for p in params if p not in matrices),
    )


@cd
def muon_one(
    p: Tensor,
    *,
    lr: Rate = 0.02,
    momentum: float = 0.95,
    nesterov: bool = True,
    weight_decay: float = 0.0,
    steps: int = 5,
    eps: float = 1e-7,
) -> None:
    """Muon on one matrix: `wf.optim.muon_one(w, lr=0.02)`."""
    _check(p, lr, momentum, weight_decay, steps, eps)
    with comment("muon", p.label):
        m, mixed = own_node(p, "muon.momentum"), own_node(p, "muon.mixed")
        m[:] = momentum * m + (1.0 - momentum) * p.grad
        mixed[:] = momentum * m + (1.0 - momentum) * p.grad if nesterov else m
        matrix = _Matrix.of(p.dims)
        step = _orthogonal(mixed / maximum(length(mixed), eps), matrix, steps)
        stretch = max(1.0, matrix.rows / matrix.columns) ** 0.5
        p -= lr * (step * stretch + weight_decay * p if weight_decay else step * stretch)


class _Matrix(NamedTuple):
    """How specs write a matrix, as it lies in memory: `first` and `second` stand for its axes."""

    spec: str
    rows: int
    columns: int

    @staticmethod
    def of(dims: Shape) -> _Matrix:
        spec = "{second}->{first}" if dims.input else "{first}, {second}"
        rows, columns = (dim.size for dim in (*dims.output, *dims.input))
        return _Matrix(spec, rows, columns)

    def named(self, short: str, long: str) -> str:
        """Its spec, by the names of its shorter and its longer axis."""
        first, second = (short, long) if self.rows <= self.columns else (long, short)
        return self.spec.format(first=first, second=second)


def _orthogonal(x: Tensor, matrix: _Matrix, steps: int) -> Tensor:
    """Newton-Schulz steps toward the nearest orthogonal matrix, by products of the shorter side with itself."""
    own, other = matrix.named("i", "k"), matrix.named("j", "k")
    for _ in range(steps):
        gram = einsum(f"{own}; {other} => i, j", x, x)
        mixing = _B * gram + _C * einsum("i, k; k, j => i, j", gram, gram)
        x = _A * x + einsum(f"i, j; {other} => {own}", mixing, x)
    return x


def is_matrix(dims: Shape) -> bool:
    """Has it two axes, none of them of a batch?"""
    return not dims.batch and bool(dims.output) and len(dims.output) + len(dims.input) == 2


def _check(p: Tensor, lr: Rate, momentum: float, weight_decay: float, steps: int, eps: float) -> None:
    check_rate(lr)
    check_fractions(momentum=momentum)
    check_from_zero(weight_decay=weight_decay, eps=eps)
    if whole_number(steps, 1) is None:
        raise WeftError(f"steps= takes a whole number from 1 on, not {steps!r}", fix="write steps=5")
    if not is_matrix(p.dims):
        what = f"muon updates matrices, and `{p.label}` is {p.dims}"
        raise WeftError(what, fix=f"write wf.optim.adamw_one({p.label}), or wf.optim.muon(loss), which does that")
