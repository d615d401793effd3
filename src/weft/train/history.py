"""What a training run was: a record for each epoch, and the loss of each step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.columns import table
from weft.errors import WeftError
from weft.plot import Plot, curve
from weft.runtime import Context
from weft.train.any_step import AnyStep

#: Why a run ended: all epochs are done, the patience of early stopping, a callback, Ctrl-C, a loss that is no number.
Stopped: TypeAlias = Literal["epochs", "early", "callback", "interrupt", "not finite"]


@dataclass(frozen=True, slots=True)
class EpochRecord:
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


@dataclass(frozen=True, slots=True, eq=False)
class History(Sequence[EpochRecord]):
    """The records of a run. Printed it is a table; `print(history.plot())` draws its curves.

    `losses` has the loss of each step, `stopped` why the run ended. `best` is the number of the epoch of least
    validation loss, or least loss. `context` holds what was learned, and `step` takes further steps.
    """

    records: tuple[EpochRecord, ...]
    losses: npt.NDArray[np.float64]
    stopped: Stopped
    step: AnyStep = field(repr=False)

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

    def __iter__(self) -> Iterator[EpochRecord]:
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

    def plot(self, *names: str, width: int = 60, height: int = 12, log: bool = False) -> Plot:
        """Curves of the run, by their names in the table, or "steps" for the loss of each step.

        Without names it is the loss of each epoch and that of validation, or of each step where no two epochs are done.
        Printed it is text; `history.plot().save("loss.png")` makes an image of it.
        """
        usual = [name for name in ("loss", "val_loss") if len(self) > 1 and name in self.records[0].values]
        chosen = names or usual or ("steps",)
        curves = {name: self.losses if name == "steps" else self.curve(name) for name in chosen}
        return curve(curves, width=width, height=height, log=log)


def _row(record: EpochRecord, names: Sequence[str]) -> list[str]:
    measured = [f"{record.values.get(name, np.nan):.4f}" for name in names]
    return [str(record.epoch), str(record.steps), *measured, f"{record.seconds:.1f}"]
