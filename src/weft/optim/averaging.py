"""Moving averages of parameters, which often do better than the parameters themselves.

average = wf.optim.ema(loss, decay=0.999)
code = wf.seq(wf.grad_update(loss), wf.optim.adamw(loss), average.update)
with average.used(ctx):
    print(evaluate(x, y))
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass

from weft.assign import Code, comment
from weft.errors import WeftError
from weft.optim.own_nodes import check_fractions, own_node
from weft.optim.selection import Patterns, chosen_params
from weft.public import public_methods
from weft.runtime import Context
from weft.tensor.assignments import cd, node
from weft.tensor.tensor import Tensor


@public_methods
@dataclass(frozen=True, slots=True)
class Average:
    """Moving averages of parameters: `params` and their `means`, tensors like any others.

    `update` is code that lets the means follow, and belongs after the optimiser in a step. `swap` is code that
    exchanges parameters and means: run twice, it changes nothing.
    """

    params: tuple[Tensor, ...]
    means: tuple[Tensor, ...]
    update: Code
    swap: Code

    def __repr__(self) -> str:
        return f"<average of {', '.join(p.label for p in self.params)}>"

    @contextmanager
    def used(self, context: Context) -> Iterator[None]:
        """Let parameters hold their means inside a `with` block: `with average.used(ctx): …`."""
        if not isinstance(context, Context):
            what = f"means are those of a context, not of {type(context).__name__}"
            raise WeftError(what, fix="write with average.used(ctx):")
        swap = context.compile(self.swap)
        swap()
        try:
            yield
        finally:
            swap()


def ema(loss: Tensor, *, decay: float = 0.999, only: Patterns = (), exclude: Patterns = ()) -> Average:
    """Moving averages of the parameters of `loss`: each update keeps `decay` of a mean and adds the rest.

    >>> average = wf.optim.ema(loss, decay=0.999)
    >>> code = wf.seq(wf.grad_update(loss), wf.optim.adamw(loss), average.update)

    The first update takes the parameters as they are. `only` and `exclude` are patterns of labels of parameters.
    """
    check_fractions(decay=decay)
    params = chosen_params(loss, only, exclude)
    means = tuple(own_node(p, "ema.mean") for p in params)
    return Average(params, means, _follow(params, means, decay), _exchange(params, means))


@cd
def _follow(params: Sequence[Tensor], means: Sequence[Tensor], decay: float) -> None:
    """A mean starts at 0, and how far it goes at 1: so the first update is a copy."""
    for p, mean in zip(params, means, strict=True):
        with comment("ema", p.label):
            share = own_node(p, "ema.share", least=None, init=1.0, scalar=True)
            mean += share * (p - mean)
            share[:] = 1.0 - decay


@cd
def _exchange(params: Sequence[Tensor], means: Sequence[Tensor]) -> None:
    for p, mean in zip(params, means, strict=True):
        kept = node("kept")
        kept[:] = p
        p[:] = mean
        mean[:] = kept
