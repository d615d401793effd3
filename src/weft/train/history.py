"""What a training run was: a record for each epoch, and the loss of each step."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.columns import table
from weft.errors import WeftError
from weft.runtime import Context
from weft.train.stepping import Step

#: Why a run ended: all epochs are done, the patience of early stopping, a callback, Ctrl-C, a loss that is no number.
Stopped: TypeAlias = Literal["epochs", "early", "callback", "interrupt", "not finite"]

_BARS = "▁▂▃▄▅▆▇█"


@dataclass(frozen=True, slots=True)
class Record:
    """An epoch: means over its examples, as they were while it learned, and over the validation data after it."""

    epoch: int
    steps: int
    loss: float
    metrics: Mapping[str, float]
    validation: Mapping[str, float]
    seconds: float
    examples: int

    @property
    def values(self) -> dict[str, float]:
        """All numbers of the epoch by name; those of validation begin with `val_`."""
        measured = {f"val_{name}": value for name, value in self.validation.items()}
        return {"loss": self.loss, **self.metrics, **measured}

    def __str__(self) -> str:
        return f"epoch {self.epoch}: " + ", ".join(f"{name} {value:.4g}" for name, value in self.values.items())


@dataclass(frozen=True, slots=True)
class History(Sequence[Record]):
    """The records of a run. Printed it is a table; `plot()` draws its curves.

    `losses` has the loss of each step, `stopped` why the run ended. `best` is the number of the epoch of least
    validation loss, or least loss. `context` holds what was learned, and `step` takes further steps.
    """

    records: tuple[Record, ...]
    losses: npt.NDArray[np.float64]
    stopped: Stopped
    step: Step = field(repr=False)

    @property
    def context(self) -> Context:
        return self.step.context

    @property
    def best(self) -> int | None:
        watched = [one.validation.get("loss", one.loss) for one in self.records]
        return self.records[int(np.argmin(watched))].epoch if watched else None

    def __len__(self) -> int:
        return len(self.records)

    def __getitem__(self, at: Any) -> Any:
        return self.records[at]

    def __iter__(self) -> Iterator[Record]:
        return iter(self.records)

    def curve(self, name: str) -> list[float]:
        """A number of each epoch, by its name in the table."""
        known = list(dict.fromkeys(one for record in self.records for one in record.values))
        if name not in known:
            raise WeftError(f"the history has no `{name}`", fix=f"there are {', '.join(known)}")
        return [record.values.get(name, np.nan) for record in self.records]

    def __str__(self) -> str:
        if not self.records:
            return f"no epoch is done; {len(self.losses)} steps"
        names = list(self.records[0].values)
        rows = [_row(one, names) for one in self.records]
        return table(["epoch", "steps", *names, "seconds"], rows)

    def plot(self, path: str | os.PathLike[str] | None = None) -> str:
        """The curves of the run as text, one line each; with a path, drawn to a PNG (`pip install weft[plot]`).

        print(history.plot())
        history.plot("curves.png")
        """
        if path is not None:
            _draw(self, os.fspath(path))
        names = list(self.records[0].values) if self.records else []
        curves = {"steps": list(self.losses), **{name: self.curve(name) for name in names}}
        width = max(map(len, curves))
        return "\n".join(f"{name:<{width}}  {_line(curve)}" for name, curve in curves.items() if curve)


def _row(record: Record, names: Sequence[str]) -> list[str]:
    measured = [f"{record.values.get(name, np.nan):.4f}" for name in names]
    return [str(record.epoch), str(record.steps), *measured, f"{record.seconds:.1f}"]


def _line(values: Sequence[float], most: int = 60) -> str:
    """A curve in one line of text: its first and last value, and bars between its least and its most."""
    groups = np.array_split(np.asarray(values, np.float64), min(len(values), most))
    means = np.array([np.mean(group) for group in groups])
    finite = means[np.isfinite(means)]
    least, spread = (finite.min(), np.ptp(finite)) if finite.size else (0.0, 0.0)
    bars = [_bar((one - least) / spread if spread else 0.5 + one - one) for one in means]  # keeps what is no number
    return f"{values[0]:.4g} {''.join(bars)} {values[-1]:.4g}"


def _bar(height: float) -> str:
    return _BARS[min(int(height * len(_BARS)), len(_BARS) - 1)] if np.isfinite(height) else "×"


def _draw(history: History, path: str) -> None:
    try:
        from matplotlib.figure import Figure
    except ImportError:
        raise WeftError("matplotlib draws to files, and it is not installed", fix="pip install weft[plot]") from None
    figure = Figure(figsize=(8, 4), layout="constrained")
    steps, epochs = figure.subplots(1, 2)
    steps.plot(history.losses, linewidth=0.8)
    steps.set(xlabel="step", ylabel="loss", title="loss of each step")
    for name in history.records[0].values if history.records else ():
        epochs.plot([one.epoch for one in history.records], history.curve(name), marker=".", label=name)
    epochs.set(xlabel="epoch", title="means of each epoch")
    if history.records:
        epochs.legend()
    figure.savefig(path)
