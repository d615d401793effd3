"""One training step on one device, for batches of any length."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Literal

import numpy.typing as npt

from weft.assign import Code, seq
from weft.backends import Array
from weft.errors import WeftError
from weft.nn.mode import training
from weft.public import public_methods
from weft.runtime import Context, Function
from weft.runtime.state import Restored
from weft.tensor.gradient import grad_update
from weft.tensor.slices import StaticIndex, counter
from weft.tensor.tensor import Tensor
from weft.train.kinds import (
    BatchPlan,
    ByKind,
    checked_call,
    checked_context,
    checked_tensor,
    other_parameters,
    taken_names,
)
from weft.train.shards import checked_batch

_LOSS = "loss"


def step(
    context: Context,
    loss_of: Callable[..., Any],
    optimise: Callable[[Tensor], Code],
    reduction: Literal["mean", "sum"] = "mean",
    *,
    count: StaticIndex | None = None,
    batch_axes: int = 1,
) -> TrainStep:
    """A training step: `step(x, y)` takes arrays, whose first axes count examples, and returns the loss before it.

    `loss_of` builds the loss from a tensor for each array, applied to be trained: what layers drop is drawn anew in
    each step, and their statistics run. It may return measures too, `(loss, {"accuracy": …})`; the step then returns
    `(loss, measures)`. `optimise` builds an optimiser's code from the loss. Parameters are made outside. Any number of
    examples will do; of sequences, whose second axis is a batch axis too, say `batch_axes=2`. `count` is the counter
    that tells steps apart, `wf.counter("steps")` if not given.
    `reduction` says what the loss is over its examples; one device does the same with either, several do not
    (`wf.train.data_parallel`).

    >>> ctx, w = wf.Context("interp"), wf.param("w", o=1, init=0.0)
    >>> step = wf.train.step(ctx, lambda x: wf.mean((w - x) ** 2, "...|... => 0"), lambda l: wf.optim.sgd(l, lr=0.5))
    >>> step(np.array([1.0, 3.0])), ctx[w].tolist()
    (5.0, [2.0])
    """
    checked_context(context, "wf.train.step(wf.Context(), …)")
    checked_call(
        loss_of, "loss_of", "give what makes the loss of a batch: lambda x, y: wf.nn.cross_entropy(model(x), y)"
    )
    checked_call(optimise, "optimise", "write optimise=lambda loss: wf.optim.adam(loss, lr=0.001)")
    if not isinstance(reduction, str) or reduction not in ("mean", "sum"):
        what = f"there is no reduction {reduction!r}"
        raise WeftError(what, fix='use "mean" or "sum", whichever the loss is over its examples')
    if count is not None and not (isinstance(count, StaticIndex) and count.counts):
        raise WeftError(f"count= takes a counter, not {count!r}", fix='write count=wf.counter("n")')
    return TrainStep(context, loss_of, optimise, count or counter("steps"), batch_axes)


@public_methods
class TrainStep:
    """A training step on device 0 of a context."""

    def __init__(
        self,
        context: Context,
        loss_of: Callable[..., Any],
        optimise: Callable[[Tensor], Code],
        count: StaticIndex,
        batch_axes: int,
    ) -> None:
        self.context, self.count = context, count
        self._loss_of, self._optimise = loss_of, optimise
        self._optimiser: Code | None = None
        self._params: tuple[Tensor, ...] = ()
        self._by_kind = ByKind(context, self._plan, batch_axes, taken_names(loss_of))

    def __call__(self, *arrays: npt.ArrayLike, **indices: int) -> Any:
        """Take one step on a batch and return its loss, as it was before the step, and measures if there are any."""
        found = {name: float(value.item()) for name, value in self._by_kind(checked_batch(arrays), indices).items()}
        loss = found.pop(_LOSS)
        return (loss, found) if found else loss

    def prepare(self, *arrays: npt.ArrayLike) -> Function:
        """What runs for batches like this one, compiled; nothing is run."""
        return self._by_kind.of(checked_batch(arrays))

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The parameters of the loss, once a batch was seen."""
        return self._params

    def state(self) -> dict[str, Array]:
        """Everything that outlives a step, as `ctx.state` gives it."""
        return self.context.state(self._seen())

    def restore(self, state: Mapping[str, npt.ArrayLike], *, strict: bool = True) -> Restored:
        """Go on from a state, as `ctx.restore` does."""
        return self.context.restore(self._seen(), state, strict=strict)

    def _seen(self) -> list[Function]:
        if not self._by_kind.functions:
            what = "the step has seen no batch yet: it does not know its parameters"
            raise WeftError(what, fix="show it one: step.prepare(x, y)")
        return self._by_kind.functions

    def _plan(self, inputs: tuple[Tensor, ...]) -> BatchPlan:
        with training(step=self.count) as mode:
            loss, measures = loss_and_measures(self._loss_of(*inputs))
        update = grad_update(loss)
        if self._optimiser is None:
            self._optimiser, self._params = self._code(loss), loss.params
        elif loss.params != self._params:
            raise other_parameters(loss.params, self._params, "a batch of another kind")
        return BatchPlan({_LOSS: loss, **measures}, seq(update, mode.updates, self._optimiser))

    def _code(self, loss: Tensor) -> Code:
        code = self._optimise(loss)
        if not isinstance(code, Code):
            fix = "return what an optimiser gives: lambda loss: wf.optim.sgd(loss, lr=0.1)"
            raise WeftError(f"`optimise` gave {type(code).__name__}, not code", fix=fix)
        return code


def loss_and_measures(found: object) -> tuple[Tensor, dict[str, Tensor]]:
    """What a function of a batch gave: a loss, or a loss and measures by name."""
    loss, measures = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
    if not isinstance(measures, Mapping) or not all(isinstance(name, str) for name in measures):
        what = f"measures are tensors by name, not {measures!r}"
        raise WeftError(what, fix='return (loss, {"accuracy": wf.train.accuracy(logits, y)})')
    if _LOSS in measures:
        raise WeftError("a measure cannot be called `loss`: the loss is", fix="call it something else")
    told = "return one number, wf.mean(…), or that and measures by name"
    return (
        checked_tensor(loss, "the loss", told),
        {name: checked_tensor(value, f"measure `{name}`", told) for name, value in measures.items()},
    )
