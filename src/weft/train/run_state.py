"""The state of a run, how far it has come: what a checkpoint keeps beside the state of its step."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from math import inf
from typing import Any

import numpy as np

from weft.backends import Array
from weft.data.batching import BatchSettings
from weft.errors import WeftError
from weft.train.history import EpochRecord
from weft.train.running_means import Tally

#: What is a run's own among the arrays and texts of a checkpoint.
_OWN = "fit/"
_LOSSES, _BEST, _TEXT = f"{_OWN}losses", f"{_OWN}best/", f"{_OWN}run"


@dataclass(slots=True)
class Account:
    """Where a run stands: its position in the data, what it has counted, and the best that it has seen."""

    epoch: int = 0
    batch: int = 0
    losses: list[float] = field(default_factory=list)
    records: list[EpochRecord] = field(default_factory=list)
    tally: Tally = field(default_factory=Tally)
    seconds: float = 0.0
    best: float = inf
    waited: int = 0
    best_state: dict[str, Array] | None = None
    stopped: bool = False

    def count(self, values: Mapping[str, float], examples: int) -> None:
        """A step is done."""
        self.losses.append(values["loss"])
        self.tally.add(values, examples)
        self.batch += 1

    def close_epoch(self, validation: Mapping[str, float]) -> EpochRecord:
        """An epoch is done: the next begins."""
        means = self.tally.means()
        loss = means.pop("loss")
        made = EpochRecord(self.epoch, len(self.losses), loss, means, validation, self.seconds, self.tally.examples)
        self.records.append(made)
        self.epoch, self.batch, self.tally, self.seconds = self.epoch + 1, 0, Tally(), 0.0
        return made

    def improved(self, record: EpochRecord) -> bool:
        """Is it the best epoch so far, by its validation loss if it has one? If not, one more was waited in vain."""
        value = record.validation.get("loss", record.loss)
        better = value < self.best
        self.best, self.waited = (value, 0) if better else (self.best, self.waited + 1)
        return better

    def saved(self, state: Mapping[str, Array], settings: BatchSettings) -> tuple[dict[str, Array], dict[str, str]]:
        """Arrays and texts that are enough to go on from, with the state of the step."""
        best = {f"{_BEST}{name}": array for name, array in (self.best_state or {}).items()}
        told = {
            **{name: getattr(self, name) for name in ("epoch", "batch", "seconds", "best", "waited", "stopped")},
            "records": [asdict(one) for one in self.records],
            "tally": asdict(self.tally),
            "settings": dict(settings),
        }
        return {**state, **best, _LOSSES: np.array(self.losses, np.float64)}, {_TEXT: json.dumps(told)}

    @staticmethod
    def read(
        arrays: Mapping[str, Array], texts: Mapping[str, str], settings: BatchSettings
    ) -> tuple[Account, dict[str, Array]]:
        """Where a run stood when it was saved, and the state of its step; refused if the data is other data."""
        if _TEXT not in texts or _LOSSES not in arrays:
            raise WeftError("the file is no checkpoint of wf.train.fit", fix="give the folder that fit wrote to")
        told: dict[str, Any] = json.loads(texts[_TEXT])
        _check_settings(told.pop("settings"), settings)
        best = {name.removeprefix(_BEST): array for name, array in arrays.items() if name.startswith(_BEST)}
        records = [EpochRecord(**one) for one in told.pop("records")]
        found = Account(
            losses=[float(one) for one in arrays[_LOSSES]],
            records=records,
            tally=Tally(**told.pop("tally")),
            best_state=best or None,
            **told,
        )
        return found, {name: array for name, array in arrays.items() if not name.startswith(_OWN)}


def _check_settings(saved: BatchSettings, now: BatchSettings) -> None:
    differing = [name for name in dict.fromkeys([*saved, *now]) if saved.get(name) != now.get(name)]
    if differing:
        notes = [f"{name}: {saved.get(name)!r} then, {now.get(name)!r} now" for name in differing]
        what = "the checkpoint is of a run on other batches, and going on would not be the same run"
        raise WeftError(what, notes=notes, fix="give the same data, batch size and seed, or another folder")
