"""One training step on several devices: each has a shard of the batch, gradients are merged, device 0 optimises."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

import numpy as np
import numpy.typing as npt

from weft.assign import Code, complete, seq, symbols
from weft.backends import Array
from weft.errors import WeftError
from weft.naming import FreshNames
from weft.nn.mode import training
from weft.public import public_methods
from weft.runtime import Context, Routine
from weft.tensor.assignments import cd, node
from weft.tensor.gradient import grad_update
from weft.tensor.leaves import data
from weft.tensor.slices import StaticIndex, index
from weft.tensor.tensor import Tensor
from weft.train.kinds import checked_call, checked_context, checked_tensor, other_parameters
from weft.train.shards import checked_batch, drawn_apart, merges, shard_slices

#: Steps are told apart by so many numbers, then by the first ones again.
_STEPS = 1 << 31


@dataclass(frozen=True, slots=True)
class _Shard:
    """What a device does with shards of one length: data to set, and a routine that leaves gradients and loss.

    What the routine draws it draws by the `numbers` of the shard and of the step.
    """

    inputs: tuple[Tensor, ...]
    gradients: Routine
    numbers: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Model:
    """What does not depend on the length of a shard."""

    params: tuple[Tensor, ...]
    total: Tensor
    merge: Routine
    optimise: Routine


def data_parallel(
    context: Context,
    loss_of: Callable[..., Tensor],
    optimise: Callable[[Tensor], Code],
    reduction: Literal["mean", "sum"] = "mean",
    *,
    bindings: Sequence[StaticIndex] = (),
) -> DataParallel:
    """A training step over all devices of a context: `step(x, y)` takes arrays and returns the loss.

    `loss_of` builds the loss from a data tensor for each array, whose first axis is a batch axis. It is called once for
    each length of a shard, so parameters are made outside it. With `reduction="mean"` the loss is a mean over examples,
    and each device counts by its share of them; with "sum" it is a sum. `optimise` builds an optimiser's code from it.
    Layers are applied to be trained: what they drop is drawn anew in each step. What is random differs from shard to
    shard: shard i draws under the seed plus i. Statistics of layers run on each device by its shards; those that count
    are device 0's.
    """
    checked_context(context, "wf.train.data_parallel(wf.Context(devices=2), …)")
    checked_call(
        loss_of, "loss_of", "give what makes the loss of a batch: lambda x, y: wf.nn.cross_entropy(model(x), y)"
    )
    checked_call(optimise, "optimise", "write optimise=lambda loss: wf.optim.adam(loss, lr=0.001)")
    given = [bindings] if isinstance(bindings, StaticIndex) else bindings
    if not isinstance(given, list | tuple) or not all(isinstance(one, StaticIndex) for one in given):
        what = f"bindings= takes static indices, not {bindings!r}"
        raise WeftError(what, fix='write bindings=[wf.index("n", 100)]')
    if not isinstance(reduction, str) or reduction not in ("mean", "sum"):
        what = f"there is no reduction {reduction!r}"
        raise WeftError(what, fix='use "mean" or "sum", whichever the loss is over its examples')
    return DataParallel(context, loss_of, optimise, reduction == "mean", tuple(given))


@public_methods
class DataParallel:
    """A training step over all devices of a context. State of the optimiser lives on device 0."""

    def __init__(
        self,
        context: Context,
        loss_of: Callable[..., Tensor],
        optimise: Callable[[Tensor], Code],
        weighted: bool,
        bindings: tuple[StaticIndex, ...],
    ) -> None:
        self._context = context
        self._loss_of = loss_of
        self._optimise = optimise
        self._weighted = weighted
        self._bindings = bindings
        names = FreshNames(one.name for one in bindings)
        self._number = index(names.fresh("shard"), len(context.devices))
        self._step = index(names.fresh("step"), _STEPS)
        self._steps = 0
        self._share = data(np.ones(1), label="share")  # of the examples, on each device
        self._shards: dict[tuple[tuple[tuple[int, ...], str], ...], _Shard] = {}
        self._model: _Model | None = None
        self._sent: dict[tuple[int, Tensor], tuple[object, object]] = {}

    def __call__(self, *arrays: npt.ArrayLike, **indices: int) -> float:
        """Take one step on a batch and return its loss, as it was before the step."""
        batch = checked_batch(arrays)
        devices, count = self._context.devices, len(batch[0])
        pieces = [[array[part] for array in batch] for part in shard_slices(count, len(devices))]
        shards = [self._shard(piece) for piece in pieces]
        assert self._model is not None
        self._spread(self._model.params)
        for number, (device, piece, shard) in enumerate(zip(devices, pieces, shards, strict=False)):
            for tensor, values in zip(shard.inputs, piece, strict=True):
                device[tensor] = values
            if self._weighted:
                device[self._share] = len(piece[0]) / count
            own = {self._number.name: number, self._step.name: self._steps}
            device.run(shard.gradients, **indices, **{name: own[name] for name in shard.numbers})
        self._merge(self._model, len(pieces), indices)
        devices[0].run(self._model.optimise, **indices)
        self._spread(self._model.params)
        self._steps = (self._steps + 1) % _STEPS
        return float(devices[0][self._model.total].item())

    def _merge(self, model: _Model, count: int, indices: dict[str, int]) -> None:
        for into, source in merges(count):
            target = self._context.devices[into]
            for tensor in (*(p.grad for p in model.params), model.total):
                target.receive(tensor, self._context.devices[source], merge=True)
            target.run(model.merge, **indices)

    def _spread(self, params: tuple[Tensor, ...]) -> None:
        """Send the parameters of device 0 to the others, where either side was written since they were last sent."""
        first, *others = self._context.devices
        for p in params if others else ():
            if first.last_write(p) is None:
                first[p]
        for device in others:
            for p in params:
                known = self._sent.get((device.index, p), (None, None))
                if known[0] is None or known[0] is not first.last_write(p) or known[1] is not device.last_write(p):
                    device.receive(p, first)
                    self._sent[device.index, p] = (first.last_write(p), device.last_write(p))

    # Building

    def _shard(self, piece: list[Array]) -> _Shard:
        kind = tuple((array.shape, array.dtype.name) for array in piece)
        if kind not in self._shards:
            inputs = tuple(data(np.zeros_like(one, order="C"), batch=1, label=f"x{at}") for at, one in enumerate(piece))
            with training(step=self._step) as mode:
                loss = checked_tensor(
                    self._loss_of(*inputs), "the loss", "return the loss alone: one number, wf.mean(…)"
                )
            update = seq(grad_update(loss), mode.updates)
            if loss.dims.count != 1:
                what = f"the loss `{loss.label}` is not one number: its shape is {loss.dims}"
                raise WeftError(what, fix=f'reduce it: wf.{"mean" if self._weighted else "sum"}(loss, "...|... => 0")')
            if self._model is not None and loss.params != self._model.params:
                raise other_parameters(loss.params, self._model.params, f"shards of {len(piece[0])} examples")
            total = self._model.total if self._model is not None else node("total_loss", dtype=loss.dtype)
            weighed = _weigh(loss.params, loss, total, self._share if self._weighted else None)
            code = drawn_apart(complete(seq(update, weighed)), self._number)
            _check_counters(code, self._bindings)
            used = {one.name for one, _ in symbols(code)}
            own = [one for one in (self._number, self._step) if one.name in used]
            gradients = self._context.compile(
                code, bindings=[*self._bindings, *own], keep=[p.grad for p in loss.params]
            )
            self._model = self._model or self._build(loss, total)
            self._shards[kind] = _Shard(inputs, gradients, tuple(one.name for one in own))
        return self._shards[kind]

    def _build(self, loss: Tensor, total: Tensor) -> _Model:
        code = self._optimise(loss)
        if not isinstance(code, Code):
            fix = "return what an optimiser gives: lambda loss: wf.optim.sgd(loss, lr=0.1)"
            raise WeftError(f"`optimise` gave {type(code).__name__}, not code", fix=fix)
        keep = [p.grad for p in loss.params]
        merge = self._context.compile(_add_merged((*keep, total)), bindings=self._bindings, keep=keep)
        return _Model(loss.params, total, merge, self._context.compile(code, bindings=self._bindings))


@cd
def _weigh(params: tuple[Tensor, ...], loss: Tensor, total: Tensor, share: Tensor | None) -> None:
    """Count gradients and loss by the device's share of the examples."""
    if share is None:
        total[:] = loss
    else:
        total[:] = share * loss
        for p in params:
            p.grad *= share


@cd
def _add_merged(tensors: tuple[Tensor, ...]) -> None:
    """Add what another device sent."""
    for tensor in tensors:
        tensor += tensor.merge


def _check_counters(code: Code, bindings: Sequence[StaticIndex]) -> None:
    for one, origin in symbols(code):
        if one.counts and one.name not in (bound.name for bound in bindings):
            what = f"a step of several devices is several runs, and counter `{one.name}` would count each"
            raise WeftError(
                what, origin=origin, fix=f"give it to each step: bindings=[{one.name}], step(…, {one.name}=…)"
            )
