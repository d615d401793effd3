"""One training step on several devices: each has a shard of the batch, gradients are merged, device 0 optimises."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np
import numpy.typing as npt

from weft.assign import Code, complete, seq, symbols
from weft.backends import Array
from weft.errors import WeftError
from weft.naming import FreshNames
from weft.public import public_methods
from weft.runtime import Context, Routine
from weft.runtime.variables import StepCode, variables_of
from weft.schedule import CompileOptions
from weft.tensor.assignments import cd, node
from weft.tensor.leaves import data
from weft.tensor.slices import StaticIndex, index
from weft.tensor.tensor import Tensor
from weft.train.any_step import LOSS, AnyStep, BuiltLoss, StepSettings, checked_settings, told
from weft.train.batch_functions import taken_names
from weft.train.shards import checked_batch, drawn_apart, merges, shard_slices


@dataclass(frozen=True, slots=True)
class _StepPart:
    """A routine of a step, and what it is given besides what the step is: counters, the number of the shard."""

    routine: Routine
    given: tuple[StaticIndex, ...]

    def values(self, indices: Mapping[str, int], numbers: Mapping[str, int]) -> dict[str, int]:
        """What a run of it is given."""
        return {**indices, **{one.name: numbers[one.name] for one in self.given}}


@dataclass(frozen=True, slots=True)
class _Shard:
    """What a device does with shards of one length: data to set, and a routine that leaves gradients and totals.

    What the routine finds in memory, `lasting`, is device 0's. `code` is what it runs.
    """

    inputs: tuple[Tensor, ...]
    gradients: _StepPart
    lasting: tuple[Tensor, ...]
    code: Code


@dataclass(frozen=True, slots=True)
class _Model:
    """What does not depend on the length of a shard."""

    params: tuple[Tensor, ...]
    totals: Mapping[str, Tensor]
    merge: Routine
    optimise: _StepPart


def data_parallel(
    context: Context,
    loss_of: Callable[..., Any],
    optimise: Callable[[Tensor], Code],
    reduction: Literal["mean", "sum"] = "mean",
    *,
    bindings: Sequence[StaticIndex] = (),
    counter: StaticIndex | None = None,
    batch_axes: int = 1,
    options: CompileOptions | None = None,
) -> DataParallel:
    """A training step over all devices of a context: `step(x, y)` takes arrays and returns the loss.

    `loss_of` builds the loss from a data tensor for each array, whose first axis is a batch axis. It is called once for
    each length of a shard, so parameters are made outside it. With `reduction="mean"` the loss is a mean over examples,
    and each device counts by its share of them; with "sum" it is a sum. It may return metrics too, as for
    `wf.train.step`, which are means over examples. `optimise` builds an optimiser's code from the loss.
    `counter`, `batch_axes` and `options` are those of `wf.train.step`, and so is what `ctx.state(step)` has.
    Layers are applied to be trained: what they drop is drawn anew in each step. What is random differs from shard to
    shard: shard i draws under the seed plus i. What lasts is device 0's, the running statistics of layers too: those of
    its shards.
    """
    example = "wf.train.data_parallel(wf.Context(devices=2), …)"
    settings = checked_settings(context, loss_of, optimise, reduction, counter, batch_axes, options, example=example)
    given = [bindings] if isinstance(bindings, StaticIndex) else bindings
    if not isinstance(given, list | tuple) or not all(isinstance(one, StaticIndex) for one in given):
        what = f"bindings= takes static indices, not {bindings!r}"
        raise WeftError(what, fix='write bindings=[wf.index("n", 100)]')
    return DataParallel(settings, tuple(given))


@public_methods
class DataParallel(AnyStep):
    """A training step over all devices of a context. Everything that outlives it lives on device 0."""

    def __init__(self, settings: StepSettings, bindings: tuple[StaticIndex, ...] = ()) -> None:
        super().__init__(settings)
        self._bindings = bindings
        names = FreshNames([*(one.name for one in bindings), settings.count.name])
        self._number = index(names.fresh("shard"), len(settings.context.devices))
        self._names = taken_names(settings.loss_of)
        self._share = data(np.ones(1), label="share")  # of the examples, on each device
        self._shards: dict[tuple[tuple[tuple[int, ...], str], ...], _Shard] = {}
        self._model: _Model | None = None
        self._sent: dict[tuple[int, Tensor], tuple[object, object]] = {}

    def __call__(self, *arrays: npt.ArrayLike, **indices: int) -> Any:
        """Take one step on a batch and return its loss, as it was before the step, and metrics if there are any."""
        batch = checked_batch(arrays)
        devices, count = self.context.devices, len(batch[0])
        pieces, shards = self._divided(batch)
        assert self._model is not None
        counters = {one: None for part in (*(s.gradients for s in shards), self._model.optimise) for one in part.given}
        numbers = {one.name: self.context[one] for one in counters if one.counts}
        self._spread(dict.fromkeys([*self._model.params, *(t for shard in shards for t in shard.lasting)]))
        for number, (device, piece, shard) in enumerate(zip(devices, pieces, shards, strict=False)):
            for tensor, values in zip(shard.inputs, piece, strict=True):
                device[tensor] = values
            device[self._share] = len(piece[0]) / count
            own = {**numbers, self._number.name: number}
            device.run(shard.gradients.routine, **shard.gradients.values(indices, own))
        self._merge(self._model, len(pieces), indices)
        devices[0].run(self._model.optimise.routine, **self._model.optimise.values(indices, numbers))
        self._spread(self._model.params)
        for one in counters:
            if one.counts:
                self.context[one] = (numbers[one.name] + 1) % one.size
        return told({name: devices[0][total] for name, total in self._model.totals.items()})

    def prepare(self, *arrays: npt.ArrayLike) -> None:
        """Compile what runs for batches like this one; nothing is run."""
        self._divided(checked_batch(arrays))

    def made_of(self) -> list[StepCode]:
        """What one device would run."""
        if self._model is None or self._optimiser is None:
            raise self._unseen()
        engine, optimiser = self._model.merge.engine, complete(self._optimiser)
        bound = tuple([one.name for one in (*self._bindings, self._number)])
        return [StepCode(engine, seq(shard.code, optimiser), bound) for shard in self._shards.values()]

    def _divided(self, batch: list[Array]) -> tuple[list[list[Array]], list[_Shard]]:
        """The shards of a batch, and what runs for each."""
        parts = shard_slices(len(batch[0]), len(self.context.devices))
        pieces = [[array[part] for array in batch] for part in parts]
        return pieces, [self._shard(piece) for piece in pieces]

    def _merge(self, model: _Model, count: int, indices: dict[str, int]) -> None:
        for into, source in merges(count):
            target = self.context.devices[into]
            for tensor in (*(p.grad for p in model.params), *model.totals.values()):
                target.receive(tensor, self.context.devices[source], merge=True)
            target.run(model.merge, **indices)

    def _spread(self, tensors: Iterable[Tensor]) -> None:
        """Send what device 0 has to the others, where either side was written since it was last sent."""
        first, *others = self.context.devices
        begun = [one for one in tensors if one in first] if others else []
        for one in begun:
            if first.last_write(one) is None:
                first[one]
        for device in others:
            for one in begun:
                known = self._sent.get((device.index, one), (None, None))
                if known[0] is None or known[0] is not first.last_write(one) or known[1] is not device.last_write(one):
                    device.receive(one, first)
                    self._sent[device.index, one] = (first.last_write(one), device.last_write(one))

    # Building

    def _shard(self, piece: list[Array]) -> _Shard:
        kind = tuple([(array.shape, array.dtype.name) for array in piece])
        if kind not in self._shards:
            inputs = tuple([self._input(at, one) for at, one in enumerate(piece)])
            built = self._build(inputs, f"shards of {len(piece[0])} examples")
            self._check_numbers(built)
            totals = self._model.totals if self._model else _totals(built)
            share = self._share if self._settings.weighted else None
            params = built.loss.params
            code = complete(seq(built.update, _weigh(params, built.values, totals, self._share, share)))
            keep = [p.grad for p in params]
            gradients = self._part(drawn_apart(code, self._number), keep)
            engine = gradients.routine.engine
            lasting = variables_of(StepCode(engine, code), engine).nodes.values()
            self._model = self._model or self._rest(built.loss, totals, keep)
            self._shards[kind] = _Shard(inputs, gradients, tuple(map(Tensor, lasting)), code)
        return self._shards[kind]

    def _input(self, at: int, array: Array) -> Tensor:
        name = self._names[at] if at < len(self._names) else f"x{at}"
        axes = min(self._settings.batch_axes, array.ndim)
        return data(np.zeros_like(array, order="C"), batch=axes, label=name)

    def _check_numbers(self, built: BuiltLoss) -> None:
        """Refuse what is not one number, before anything has run."""
        for name, value in built.values.items():
            if value.dims.count != 1:
                told = "the loss" if name == LOSS else f"metric `{name}`,"
                what = f"{told} `{value.label}` is not one number: its shape is {value.dims}"
                mean = name != LOSS or self._settings.weighted
                raise WeftError(what, fix=f'reduce it: wf.{"mean" if mean else "sum"}({name}, "...|... => 0")')

    def _rest(self, loss: Tensor, totals: Mapping[str, Tensor], keep: list[Tensor]) -> _Model:
        optimise = self._part(self._optimised(loss))
        merge = self.context.compile(
            _add_merged((*keep, *totals.values())), bindings=self._bindings, keep=keep, options=self._settings.options
        )
        return _Model(self.params, totals, merge, optimise)

    def _part(self, code: Code, keep: Sequence[Tensor] = ()) -> _StepPart:
        """Code as part of a step: what counts is the step, not its runs, which are given the numbers of counters."""
        named = {one.name: StaticIndex(one.name, one.size, one.counts) for one, _ in symbols(code)}
        bound = {one.name for one in self._bindings}
        given = tuple([one for one in named.values() if one.name not in bound and (one.counts or one == self._number)])
        routine = self.context.compile(
            code, bindings=[*self._bindings, *given], keep=keep, options=self._settings.options
        )
        return _StepPart(routine, given)


def _totals(built: BuiltLoss) -> dict[str, Tensor]:
    """What adds up the loss and metrics of shards."""
    return {name: node(f"total_{name}", dtype=value.dtype) for name, value in built.values.items()}


@cd
def _weigh(
    params: tuple[Tensor, ...],
    values: Mapping[str, Tensor],
    totals: Mapping[str, Tensor],
    share: Tensor,
    weighted: Tensor | None,
) -> None:
    """Count metrics by the device's share of the examples, and the loss and gradients if it is a mean."""
    for name, value in values.items():
        weight = weighted if name == LOSS else share
        totals[name][:] = value if weight is None else weight * value
    if weighted is not None:
        for p in params:
            p.grad *= weighted


@cd
def _add_merged(tensors: tuple[Tensor, ...]) -> None:
    """Add what another device sent."""
    for tensor in tensors:
        tensor += tensor.merge
