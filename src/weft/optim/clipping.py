"""Clipping: gradients that are too long, or too large, are made smaller between their computation and their use.

code = wf.seq(wf.grad_update(loss), wf.optim.clip_by_norm(loss, 1.0), wf.optim.adamw(loss))
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce
from operator import add

from weft.assign import Code, comment
from weft.errors import WeftError
from weft.ops import Scalar
from weft.optim.own_nodes import Rate, own_node, squared_length
from weft.optim.selection import Patterns, chosen_params
from weft.tensor.assignments import cd
from weft.tensor.elementary import clip
from weft.tensor.functions import maximum, sqrt
from weft.tensor.tensor import Tensor, is_number


def clip_by_norm(
    loss: Tensor, limit: Rate, *, norm: Tensor | None = None, only: Patterns = (), exclude: Patterns = ()
) -> Code:
    """Make the gradients of all parameters together no longer than `limit`: each is divided by the same number.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.clip_by_norm(loss, 1.0), wf.optim.sgd(loss, lr=0.1))

    A `norm=wf.node("norm", scalar=True)` is assigned how long they were. `only` and `exclude` are patterns of labels
    of parameters; the others neither count nor change.
    """
    _check_limit(limit)
    if norm is not None and not isinstance(norm, Tensor):
        fix = 'write norm = wf.node("norm", scalar=True); wf.optim.clip_by_norm(loss, 1.0, norm=norm)'
        raise WeftError(f"norm= takes a node, not {norm!r}", fix=fix)
    params = chosen_params(loss, only, exclude)
    found = norm if norm is not None else own_node(loss, "clip.norm", scalar=True)
    return _shorten(params, limit, found, own_node(loss, "clip.share", scalar=True))


@cd
def _shorten(params: Sequence[Tensor], limit: Rate, norm: Tensor, share: Tensor) -> None:
    with comment("clip by norm"):
        norm[:] = sqrt(reduce(add, (squared_length(p.grad) for p in params)))
        share[:] = limit / maximum(norm, limit)
        for p in params:
            p.grad *= share


def clip_by_value(loss: Tensor, limit: float, *, only: Patterns = (), exclude: Patterns = ()) -> Code:
    """Make every value of the gradients at most `limit`, and at least `-limit`.

    >>> code = wf.seq(wf.grad_update(loss), wf.optim.clip_by_value(loss, 0.5), wf.optim.sgd(loss, lr=0.1))
    """
    _check_limit(limit)
    return _bound(chosen_params(loss, only, exclude), limit)


@cd
def _bound(params: Sequence[Tensor], limit: float) -> None:
    with comment("clip by value"):
        for p in params:
            p.grad[:] = clip(p.grad, -limit, limit)


def _check_limit(limit: Rate) -> None:
    fix = "write a number above 0, such as 1.0"
    if not isinstance(limit, Tensor | Scalar) and not is_number(limit):
        raise WeftError(f"gradients are clipped to a number, not {limit!r}", fix=fix)
    if isinstance(limit, int | float) and not limit > 0:
        raise WeftError(f"a gradient cannot be clipped to {limit}", fix=fix)
