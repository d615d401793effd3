"""One training step on one device, for batches of any length."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Literal

import numpy.typing as npt

from weft.assign import Code, seq
from weft.public import public_methods
from weft.runtime import Context, Function
from weft.schedule import CompileOptions
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor
from weft.train.any_step import AnyStep, StepSettings, checked_settings, told
from weft.train.batch_functions import BatchPlan, ByKind, taken_names
from weft.train.shards import checked_batch


def step(
    context: Context,
    loss_of: Callable[..., Any],
    optimise: Callable[[Tensor], Code],
    reduction: Literal["mean", "sum"] = "mean",
    *,
    counter: StaticIndex | None = None,
    batch_axes: int = 1,
    options: CompileOptions | None = None,
) -> TrainStep:
    """A training step: `step(x, y)` takes arrays, whose first axes count examples, and returns the loss before it.

    `loss_of` builds the loss from a tensor for each array, applied to be trained: what layers drop is drawn anew in
    each step, and their statistics run. It may return metrics too, `(loss, {"accuracy": …})`; the step then returns
    `(loss, metrics)`. `optimise` builds an optimiser's code from the loss. Parameters are made outside. Any number of
    examples will do; of sequences, whose second axis is a batch axis too, say `batch_axes=2`. `counter` is the one
    that tells steps apart, `wf.counter("steps")` if not given; `options` are those of `wf.config` if not given.
    `reduction` says what the loss is over its examples; one device does the same with either, several do not
    (`wf.train.data_parallel`).

    >>> ctx, w = wf.Context("interp"), wf.param("w", o=1, init=0.0)
    >>> step = wf.train.step(ctx, lambda x: wf.mean((w - x) ** 2, "...|... => 0"), lambda l: wf.optim.sgd(l, lr=0.5))
    >>> step(np.array([1.0, 3.0])), ctx[w].tolist()
    (5.0, [2.0])
    """
    return TrainStep(checked_settings(context, loss_of, optimise, reduction, counter, batch_axes, options))


@public_methods
class TrainStep(AnyStep):
    """A training step on device 0 of a context."""

    def __init__(self, settings: StepSettings) -> None:
        super().__init__(settings)
        names = taken_names(settings.loss_of)
        self._by_kind = ByKind(settings.context, self._plan, settings.batch_axes, names, settings.options)

    def __call__(self, *arrays: npt.ArrayLike, **indices: int) -> Any:
        """Take one step on a batch and return its loss, as it was before the step, and metrics if there are any."""
        return told(self._by_kind(checked_batch(arrays), indices))

    def prepare(self, *arrays: npt.ArrayLike) -> Function:
        """What runs for batches like this one, compiled; nothing is run."""
        return self._by_kind.of(checked_batch(arrays))

    def made_of(self) -> list[Function]:
        """The functions for the kinds of batches there were."""
        if not self._by_kind.functions:
            raise self._unseen()
        return self._by_kind.functions

    def _plan(self, inputs: tuple[Tensor, ...]) -> BatchPlan:
        built = self._build(inputs, "a batch of another kind")
        return BatchPlan(built.values, seq(built.update, self._optimised(built.loss)))
