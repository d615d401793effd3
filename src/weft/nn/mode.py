"""Training or not: what some layers compute depends on it.

    n = wf.counter("n")
    with wf.nn.training(step=n) as mode:
        loss = wf.nn.mse(model(x), y)
    code = wf.seq(wf.grad_update(loss), mode.updates, wf.optim.adam(loss))

Outside of `training`, layers are applied as they are used: nothing is dropped, and batches are normalised by running
statistics. One model is applied both ways, and shares its parameters and statistics.
"""

from __future__ import annotations

from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field

from weft.assign import Code, seq
from weft.dynamic_scope import temporarily
from weft.tensor import random
from weft.tensor.random import DrawStep
from weft.tensor.tensor import Tensor


@dataclass(slots=True)
class Training:
    """What layers find where they are applied to be trained: when to draw anew, and where to leave their updates."""

    step: DrawStep
    left: list[Code] = field(default_factory=list)

    def leave(self, code: Code) -> None:
        """Have code run in every training step, such as that of running statistics."""
        self.left.append(code)

    @property
    def updates(self) -> Code:
        """The code that layers left, for a training step to run after the gradient update."""
        return seq(*self.left)


_training: ContextVar[Training | None] = ContextVar("weft_training", default=None)


def current_training() -> Training | None:
    """How layers are being applied: to be trained, or (None) to be used."""
    return _training.get()


def training(step: DrawStep) -> AbstractContextManager[Training]:
    """Apply layers to be trained: dropout draws anew for each `step`, and batches are normalised by themselves.

    >>> x = wf.data(np.ones(4), label="x")
    >>> with wf.nn.training(step=0) as mode:
    ...     y = wf.nn.dropout(x, rate=0.5)
    >>> print(sorted(set(ctx[y].tolist())))
    [0.0, 2.0]
    """
    random.check_step(step)
    return temporarily(_training, Training(step))


def dropped(x: Tensor, rate: float) -> Tensor:
    """What is left of a tensor where layers are trained; outside of that, itself."""
    mode = current_training()
    return random.dropout(x, rate, step=mode.step) if mode and rate else x
