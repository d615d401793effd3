"""What a model makes of data, as it is used rather than trained."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.backends import Array
from weft.data.validation import checked_whole, examples
from weft.einsum import parse_spec
from weft.errors import ShapeError, WeftError
from weft.ops import call
from weft.runtime import Context
from weft.schedule import CompileOptions
from weft.tensor import reductions
from weft.tensor.class_ids import named_classes, whole_ids
from weft.tensor.functions import cast, maximum, not_equal
from weft.tensor.groups import OUTPUT_ROW, Groups, group_size, related
from weft.tensor.reductions import argmax, mean
from weft.tensor.tensor import Tensor
from weft.train.batch_functions import BatchPlan, ByKind, checked_call, checked_tensor
from weft.train.batch_sources import feed_of
from weft.train.running_means import Tally

#: A number of a batch, from what the model gives and what it should give.
Metric: TypeAlias = Callable[..., Any]
Metrics: TypeAlias = Mapping[str, Metric]

_ALL = "...|... => 0"
#: A number for each example of both, and no more.
_ONE_EACH = parse_spec("...|one, ; ...|one => ...|one")


def accuracy(logits: Tensor, ids: Tensor, *, ignore_index: int | None = None) -> Tensor:
    """The share of examples whose largest output is that of their label: a measure.

    Examples whose label is `ignore_index` do not count; any other that names no output is refused when it is met.

    >>> logits, labels = (wf.data(np.array(one), batch=1) for one in ([[0.1, 0.9], [0.8, 0.2]], [1, 1]))
    >>> wf.Context("interp")[wf.train.accuracy(logits, labels)].item()
    0.5
    """
    _check_several(logits, ids)
    found, ids = argmax(logits), whole_ids(ids, "accuracy")
    named = named_classes(ids, group_size(found, Groups.plain(OUTPUT_ROW, "accuracy")), ignore_index, "accuracy")
    try:
        reads = list(zip(_ONE_EACH.operands, (found, ids), strict=True))
        right = related("right", partial(call, "eq"), reads, _ONE_EACH.result, sizes={"one": 1}, watched=[named])
    except ShapeError:
        what = f"accuracy compares the class of each example with its id, and `{ids.label}` is {ids.shape}"
        fix = f"give one id for each example, wf.data(ids, batch=1); of one-hot labels it is wf.argmax({ids.label})"
        raise ShapeError(what, notes=[f"{logits.label} is {logits.shape}"], fix=fix) from None
    if ignore_index is None:
        return mean(right, _ALL, label="accuracy")
    counts = cast(not_equal(ids, ignore_index), "int32")
    share: Tensor = reductions.sum(right * counts, _ALL) / maximum(reductions.sum(counts, _ALL), 1)
    return share.named("accuracy")


def _check_several(logits: Tensor, labels: Tensor) -> None:
    """Refuse what has one output for each example: the largest of one says nothing."""
    outputs = logits.shape.output.axes
    if outputs and all(axis.size == 1 for axis in outputs):
        raise ShapeError(
            f"accuracy compares the largest output with the label, and `{logits.label}` has one output",
            notes=[f"{logits.label} is {logits.shape}"],
            fix="give the model an output for each class; of one score for yes and no it is "
            f'wf.mean(wf.equal({logits.label} > 0, {labels.label}), "...|... => 0")',
        )


def evaluate(
    model: Callable[..., Any] | None,
    data: Any,
    metrics: Metrics | Metric | None = None,
    *,
    batch_size: int | None = None,
    batch_axes: int = 1,
    context: Context | None = None,
    options: CompileOptions | None = None,
) -> dict[str, float]:
    """The means of metrics over data, by name: each is a function like a loss, `metric(model(x), y)`.

    Nothing is dropped and nothing learned. Without `model`, metrics are functions of the batch. `context` is the one
    that holds the parameters, if not given; `batch_axes` and `options` as in `wf.train.fit`.

    >>> wf.train.evaluate(lambda x: 2.0 * x, (np.ones(4), np.ones(4)), lambda y, t: wf.mean(y - t, "...|... => 0"))
    {'loss': 1.0}
    """
    wanted = checked_metrics({"accuracy": accuracy} if metrics is None else metrics)
    feed = feed_of(data, batch_size, shuffle=False, seed=0)
    found = ByKind(context, measured_by(model, wanted), batch_axes, options=options)
    return means_over(found, feed.epoch(0, 0))


def predict(
    model: Callable[..., Any],
    *arrays: npt.ArrayLike,
    batch_size: int = 256,
    batch_axes: int = 1,
    context: Context | None = None,
    options: CompileOptions | None = None,
) -> Array:
    """What a model gives for arrays, computed `batch_size` examples at a time, as it is used: nothing is dropped.

    >>> wf.train.predict(lambda x: 2.0 * x, np.arange(3.0))
    array([[0.],
           [2.],
           [4.]])
    """
    checked_call(model, "a model", "write wf.train.predict(model, x)")
    found, size = examples(arrays, "wf.train.predict(model, x)"), checked_whole("batch_size", batch_size, 1)
    starts = range(0, len(found[0]), size)
    batches = [[array[at : at + size] for array in found] for at in starts]

    def plan(inputs: tuple[Tensor, ...]) -> BatchPlan:
        output = checked_tensor(model(*inputs), "the model", "a model returns one tensor")
        return BatchPlan({"output": output}, numbers=False)

    outputs = ByKind(context, plan, batch_axes, options=options)
    return np.concatenate([outputs(batch)["output"] for batch in batches])


def checked_metrics(given: object) -> dict[str, Metric]:
    """Metrics by name."""
    if callable(given):
        return {"loss": given}
    if not isinstance(given, Mapping) or not given:
        what = f"metrics are functions by name, not {given!r}"
        raise WeftError(what, fix='write {"accuracy": wf.train.accuracy}')
    for name, one in given.items():
        if not isinstance(name, str):
            raise WeftError(f"a measure is called by a text, not {name!r}", fix='write {"accuracy": wf.train.accuracy}')
        checked_call(one, f"metric `{name}`", "a metric is a function like a loss: metric(model(x), y)")
    return dict(given)


def outcome(model: Callable[..., Any] | None, inputs: Sequence[Tensor]) -> tuple[Any, ...]:
    """What losses and metrics are given: what the model makes of a batch and what it should, or the batch."""
    if model is None:
        return tuple(inputs)
    *given, target = inputs
    if not given:
        what = "the data is one array, and a loss compares what the model gives with another"
        fix = "give (x, y); or no model and a loss of the batch: fit(None, lambda x: loss(model(x), x), x)"
        raise WeftError(what, fix=fix)
    return model(*given), target


def measured_by(model: Callable[..., Any] | None, metrics: Metrics) -> Callable[[tuple[Tensor, ...]], BatchPlan]:
    """What to compute of a batch for metrics."""

    def plan(inputs: tuple[Tensor, ...]) -> BatchPlan:
        given = outcome(model, inputs)
        told = "a measure returns one number, wf.mean(…)"
        return BatchPlan({name: checked_tensor(one(*given), f"metric `{name}`", told) for name, one in metrics.items()})

    return plan


def means_over(found: ByKind, batches: Any) -> dict[str, float]:
    """The means of what is measured over batches, by their numbers of examples."""
    tally = Tally()
    for batch in batches:
        tally.add({name: float(value.item()) for name, value in found(batch).items()}, len(batch[0]))
    return tally.means()
