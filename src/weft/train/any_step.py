"""What a training step is, on one device or on several: a loss, an optimiser made once, and state by name."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy.typing as npt

from weft.assign import Code, seq
from weft.backends import Array
from weft.errors import WeftError
from weft.nn.mode import training
from weft.public import public_methods
from weft.runtime import Context
from weft.runtime.state import Restored
from weft.runtime.variables import Stateful
from weft.schedule import CompileOptions
from weft.schedule.compile_options import checked_options
from weft.tensor.gradient import grad_update
from weft.tensor.params import Draws
from weft.tensor.slices import StaticIndex, counter
from weft.tensor.tensor import Tensor
from weft.train.batch_functions import checked_call, checked_context, checked_tensor, other_parameters

#: What the loss is called among what a step computes.
LOSS = "loss"


@dataclass(frozen=True, slots=True)
class StepSettings:
    """What a step is made of, checked."""

    context: Context
    loss_of: Callable[..., Any]
    optimise: Callable[[Tensor], Code]
    weighted: bool
    count: StaticIndex
    batch_axes: int
    options: CompileOptions | None


def checked_settings(
    context: object,
    loss_of: object,
    optimise: object,
    reduction: object = "mean",
    count: object = None,
    batch_axes: int = 1,
    options: object = None,
    *,
    example: str = "wf.train.step(wf.Context(), …)",
) -> StepSettings:
    """What a step is made of; `weighted` if its loss is a mean over examples."""
    loss_fix = "give what makes the loss of a batch: lambda x, y: wf.nn.cross_entropy(model(x), y)"
    if not isinstance(reduction, str) or reduction not in ("mean", "sum"):
        what = f"there is no reduction {reduction!r}"
        raise WeftError(what, fix='use "mean" or "sum", whichever the loss is over its examples')
    if count is None:
        count = counter("steps")
    if not (isinstance(count, StaticIndex) and count.counts):
        raise WeftError(f"counter= takes a counter, not {count!r}", fix='write counter=wf.counter("n")')
    return StepSettings(
        checked_context(context, example),
        checked_call(loss_of, "loss_of", loss_fix),
        checked_call(optimise, "optimise", "write optimise=lambda loss: wf.optim.adam(loss, lr=0.001)"),
        reduction == "mean",
        count,
        batch_axes,
        checked_options(options),
    )


@dataclass(frozen=True, slots=True)
class BuiltLoss:
    """What a step computes of tensors of a batch, by name, and the code that leaves gradients and statistics."""

    values: Mapping[str, Tensor]
    update: Code

    @property
    def loss(self) -> Tensor:
        return self.values[LOSS]


@public_methods
class AnyStep(ABC):
    """A training step: called with the arrays of a batch it learns from them, and returns the loss before that."""

    def __init__(self, settings: StepSettings) -> None:
        self.context, self.count = settings.context, settings.count
        self._settings = settings
        self._optimiser: Code | None = None
        self._params: tuple[Tensor, ...] = ()
        self._draws = Draws()

    @abstractmethod
    def __call__(self, *arrays: npt.ArrayLike, **indices: int) -> Any:
        """Take one step on a batch and return its loss, as it was before the step, and metrics if there are any."""

    @abstractmethod
    def prepare(self, *arrays: npt.ArrayLike) -> object:
        """Compile what runs for batches like this one; nothing is run."""

    @abstractmethod
    def made_of(self) -> Stateful:
        """What has the state of the step."""

    @property
    def params(self) -> tuple[Tensor, ...]:
        """The parameters of the loss, once a batch was seen."""
        return self._params

    def state(self) -> dict[str, Array]:
        """Everything that outlives a step, as `ctx.state(step)` gives it."""
        return self.context.state(self)

    def restore(self, state: Mapping[str, npt.ArrayLike], *, strict: bool = True) -> Restored:
        """Go on from a state, as `ctx.restore(step, state)` does."""
        return self.context.restore(self, state, strict=strict)

    def _unseen(self) -> WeftError:
        what = "the step has seen no batch yet: it does not know its parameters"
        return WeftError(what, fix="show it one: step.prepare(x, y)")

    def _build(self, inputs: tuple[Tensor, ...], batch: str) -> BuiltLoss:
        """The loss of a batch, metrics and gradients; `batch` says which, if parameters are others than before.

        Whichever batch comes first, what is random is drawn by the same keys.
        """
        with self._draws.again(), training(step=self.count) as mode:
            loss, metrics = loss_and_metrics(self._settings.loss_of(*inputs))
        update = grad_update(loss)
        if self._optimiser is not None and loss.params != self._params:
            raise other_parameters(loss.params, self._params, batch)
        return BuiltLoss({LOSS: loss, **metrics}, seq(update, mode.updates))

    def _optimised(self, loss: Tensor) -> Code:
        """What the optimiser does, made of the first loss there is."""
        if self._optimiser is None:
            code = self._settings.optimise(loss)
            if not isinstance(code, Code):
                fix = "return what an optimiser gives: lambda loss: wf.optim.sgd(loss, lr=0.1)"
                raise WeftError(f"`optimise` gave {type(code).__name__}, not code", fix=fix)
            self._optimiser, self._params = code, loss.params
        return self._optimiser


def told(values: Mapping[str, Array]) -> Any:
    """What a step returns: the loss as a number, and with it metrics by name, if there are any."""
    found = {name: float(value.item()) for name, value in values.items()}
    loss = found.pop(LOSS)
    return (loss, found) if found else loss


def loss_and_metrics(found: object) -> tuple[Tensor, dict[str, Tensor]]:
    """What a function of a batch gave: a loss, or a loss and metrics by name."""
    loss, metrics = found if isinstance(found, tuple) and len(found) == 2 else (found, {})
    if not isinstance(metrics, Mapping) or not all(isinstance(name, str) for name in metrics):
        what = f"metrics are tensors by name, not {metrics!r}"
        raise WeftError(what, fix='return (loss, {"accuracy": wf.train.accuracy(logits, y)})')
    if LOSS in metrics:
        raise WeftError("a measure cannot be called `loss`: the loss is", fix="call it something else")
    fix = "return one number, wf.mean(…), or that and metrics by name"
    return (
        checked_tensor(loss, "the loss", fix),
        {name: checked_tensor(value, f"metric `{name}`", fix) for name, value in metrics.items()},
    )
