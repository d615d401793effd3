"""Training from beginning to end."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from math import isfinite
from time import monotonic
from typing import Any

import numpy as np

from weft.assign import Code
from weft.data.validation import checked_seed, checked_whole
from weft.errors import WeftError
from weft.optim import adam
from weft.runtime import Context
from weft.schedule import CompileOptions
from weft.tensor.tensor import Tensor
from weft.train.any_step import AnyStep, checked_settings
from weft.train.batch_functions import ByKind, checked_call, checked_context, checked_tensor, context_of
from weft.train.batch_sources import Feed, feed_of
from weft.train.evaluation import Metrics, checked_metrics, means_over, measured_by, outcome
from weft.train.history import EpochRecord, History, Stopped
from weft.train.interrupt import asked_to_stop
from weft.train.parallel import DataParallel
from weft.train.progress import Line, line
from weft.train.run_files import Checkpoints
from weft.train.run_state import Account
from weft.train.stepping import TrainStep

#: What is told of an epoch; the run ends if it gives True.
Callback = Callable[[EpochRecord], object]


def fit(
    model: Callable[..., Any] | None,
    loss: Callable[..., Tensor],
    data: Any,
    *,
    optimise: Callable[[Tensor], Code] = adam,
    epochs: int = 1,
    batch_size: int | None = None,
    batch_axes: int = 1,
    shuffle: bool = True,
    seed: int = 0,
    validation: Any = None,
    metrics: Metrics | None = None,
    early_stopping: int | None = None,
    keep_best: bool = False,
    callbacks: Iterable[Callback] = (),
    checkpoint: str | os.PathLike[str] | None = None,
    every: int | None = None,
    keep: int = 3,
    resume: bool = False,
    progress: bool = True,
    context: Context | None = None,
    options: CompileOptions | None = None,
) -> History:
    """Train a model on data, epoch by epoch, and return how that went.

    The loss is `loss(model(x), y)` of batches `(x, y)`, a mean over examples; without `model` it is `loss(*batch)`.
    `data` and `validation` are arrays `(x, y)`, which are cut into batches and shuffled by `seed` and epoch, batches of
    `wf.data`, or a function that gives the batches of an epoch. `metrics` are functions like the loss, by name. The
    first axis of arrays is a batch axis, and so are as many as `batch_axes` says: 2 for sequences `batch,time|…`.

    After `early_stopping` epochs without a better validation loss (or loss) the run ends; `keep_best` leaves what the
    best epoch had learned. Each of `callbacks` is given the record of each epoch, and ends the run by returning True.
    Ctrl-C ends it after the step it is in, and all of this holds.

    `checkpoint` is a folder: after each epoch, or `every` so many steps, everything that the run goes on from is kept
    there, the newest `keep` files of it. With `resume` a run goes on from the newest, if there is one, and ends with
    the same numbers, bit by bit, as one that never stopped.

    On a `context` of several devices each step is one of `wf.train.data_parallel`. `options` are those of `wf.config`
    if not given.

    >>> w, x = wf.param("w", o=1, init=0.0), np.linspace(-1, 1, 64)
    >>> mse = lambda y, t: wf.mean((y - t) ** 2, "...|... => 0")
    >>> history = wf.train.fit(lambda x: w * x, mse, (x, 3 * x), epochs=20, optimise=lambda l: wf.optim.sgd(l, lr=0.5))
    >>> history.context[w].round(2).tolist()
    [3.0]
    """
    seed, wanted = checked_seed(seed), {} if metrics in (None, {}) else checked_metrics(metrics)
    if model is not None:
        checked_call(model, "a model", "write wf.train.fit(model, loss, (x, y)), or None for a loss of the batch")
    checked_call(loss, "loss", "write wf.train.fit(model, loss, (x, y)), with loss(model(x), y) one number")
    if "loss" in wanted:
        raise WeftError("a metric cannot be called `loss`: the loss is", fix="call it something else")
    where = context_of() if context is None else checked_context(context, "context=wf.Context()")

    def loss_of(*batch: Tensor) -> Any:
        given = outcome(model, batch)
        value = checked_tensor(loss(*given), "the loss", "return one number, wf.mean(…)")
        return value, {name: one(*given) for name, one in wanted.items()}

    checks = None
    if validation is not None:
        plan = measured_by(model, {"loss": loss, **wanted})
        checks = ByKind(where, plan, batch_axes, options=options), feed_of(validation, None, shuffle=False, seed=0)
    settings = checked_settings(where, loss_of, optimise, batch_axes=batch_axes, options=options)
    run = _TrainingRun(
        step=DataParallel(settings) if len(where.devices) > 1 else TrainStep(settings),
        feed=feed_of(data, batch_size, shuffle=shuffle, seed=seed),
        epochs=checked_whole("epochs", epochs),
        checks=checks,
        patience=None if early_stopping is None else checked_whole("early_stopping", early_stopping, 1),
        keep_best=keep_best,
        callbacks=_callbacks(callbacks),
        checkpoints=None if checkpoint is None else Checkpoints(checkpoint, checked_whole("keep", keep, 1)),
        every=None if every is None else checked_whole("every", every, 1),
        account=Account(),
    )
    run.begin(resume)
    return run.train(progress)


@dataclass(slots=True)
class _TrainingRun:
    """A run, from where it stands to its end."""

    step: AnyStep
    feed: Feed
    epochs: int
    checks: tuple[ByKind, Feed] | None
    patience: int | None
    keep_best: bool
    callbacks: list[Callback]
    checkpoints: Checkpoints | None
    every: int | None
    account: Account
    written: tuple[int, int] | None = None

    def begin(self, resume: bool) -> None:
        """Find what to go on from."""
        if self.checkpoints is None:
            if resume or self.every is not None:
                what = "there is no folder of checkpoints to go on from, or to write to"
                raise WeftError(what, fix='write checkpoint="runs/first"')
        elif not resume:
            self.checkpoints.refuse_others()
        elif (found := self.checkpoints.newest()) is not None:
            self.account, state = Account.read(*found, self.feed.settings)
            self.step.prepare(*self.feed.first())
            self.step.restore(state)
            self.written = len(self.account.losses), self.account.epoch

    def train(self, progress: bool) -> History:
        """Take all steps there are to take, and tell how that went."""
        total = None if self.feed.length is None else self.epochs * self.feed.length
        with line(progress, self.epochs, total) as shown, asked_to_stop() as asked:
            try:
                stopped = self._epochs(asked, shown)
            except KeyboardInterrupt:
                if asked():  # pressed for the second time
                    raise
                stopped = "interrupt"
            self._save()
        if self.keep_best and self.account.best_state is not None:
            self.step.restore(self.account.best_state)
        return History(tuple(self.account.records), np.array(self.account.losses), stopped, self.step)

    def _epochs(self, asked: Callable[[], bool], shown: Line) -> Stopped:
        if self.account.stopped:
            return "early"
        while self.account.epoch < self.epochs:
            if (stopped := self._batches(asked, shown)) is not None:
                return stopped
            record = self._close()
            ends = [_ends(one, record) for one in self.callbacks]
            if any(ends):
                return "callback"
            if self.account.stopped:
                return "early"
            if asked():
                return "interrupt"
        return "epochs"

    def _batches(self, asked: Callable[[], bool], shown: Line) -> Stopped | None:
        """The rest of an epoch; why it was cut short, if it was."""
        account, before = self.account, self.account.seconds
        begun = monotonic()
        for batch in self.feed.epoch(account.epoch, account.batch):
            values = self._step(batch)
            account.count(values, len(batch[0]))
            account.seconds = before + monotonic() - begun
            shown.step(account.epoch, len(account.losses), values["loss"], len(batch[0]))
            if self.every is not None and len(account.losses) % self.every == 0:
                self._save()
            if not isfinite(values["loss"]):
                return "not finite"
            if asked():
                return "interrupt"
        if not account.batch:
            raise WeftError(f"epoch {account.epoch} has no batches", fix="give data that has some in every epoch")
        return None

    def _step(self, batch: list[Any]) -> dict[str, float]:
        found = self.step(*batch)
        loss, metrics = found if isinstance(found, tuple) else (found, {})
        return {"loss": loss, **metrics}

    def _close(self) -> EpochRecord:
        """What there is to do after an epoch."""
        account = self.account
        record = account.close_epoch(means_over(self.checks[0], self.checks[1].epoch(0, 0)) if self.checks else {})
        if account.improved(record) and self.keep_best:
            account.best_state = self.step.state()
        account.stopped = self.patience is not None and account.waited >= self.patience
        if self.every is None:
            self._save()
        return record

    def _save(self) -> None:
        """Keep where the run stands, unless that is kept already."""
        steps = len(self.account.losses)
        if self.checkpoints is not None and steps and (steps, self.account.epoch) != self.written:
            self.checkpoints.write(steps, *self.account.saved(self.step.state(), self.feed.settings))
            self.written = steps, self.account.epoch


def _ends(callback: Callback, record: EpochRecord) -> bool:
    """Does a callback end the run?"""
    found = callback(record)
    if found is not None and not isinstance(found, bool):
        name = getattr(callback, "__name__", type(callback).__name__)
        what = f"callback `{name}` gave {found!r}: True ends the run, and None or False lets it go on"
        raise WeftError(what, fix="return nothing")
    return bool(found)


def _callbacks(given: Any) -> list[Callback]:
    listed = [given] if callable(given) else list(given) if isinstance(given, Iterable) else None
    if listed is None or not all(map(callable, listed)):
        what = f"callbacks are functions of the record of an epoch, not {given!r}"
        raise WeftError(what, fix="write callbacks=[print]")
    return listed
