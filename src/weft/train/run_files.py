"""The checkpoints of a run: files in a folder, each whole, the newest few."""

from __future__ import annotations

import contextlib
import os
import re
from collections.abc import Mapping
from pathlib import Path

from weft.backends import Array
from weft.errors import WeftError, warn
from weft.files import load, load_metadata, save

_NAMED = re.compile(r"step-(\d+)\.npz")


class Checkpoints:
    """A folder with the newest `keep` checkpoints, by the number of steps done."""

    def __init__(self, folder: str | os.PathLike[str], keep: int) -> None:
        if not isinstance(folder, str | os.PathLike):
            what = f"checkpoint= takes a folder, not {type(folder).__name__}"
            raise WeftError(what, fix='write checkpoint="runs/first"')
        self.folder, self._keep = Path(folder), keep
        try:
            self.folder.mkdir(parents=True, exist_ok=True)
        except OSError as error:
            what = f"{str(folder)!r} cannot be a folder for checkpoints: {error.strerror or error}"
            raise WeftError(what, fix="give the path of a folder that can be made") from None

    def files(self) -> list[Path]:
        """The checkpoints, newest first."""
        found = [(match, one) for one in self.folder.iterdir() if (match := _NAMED.fullmatch(one.name))]
        return [one for _, one in sorted(found, key=lambda pair: -int(pair[0][1]))]

    def write(self, steps: int, arrays: Mapping[str, Array], texts: Mapping[str, str]) -> None:
        """Keep a checkpoint and let go of old ones. If there is no room for it, that is warned of: the run goes on."""
        try:
            save(self.folder / f"step-{steps:09d}.npz", arrays, texts)
        except WeftError as error:
            warn(error)
            return
        for old in self.files()[self._keep :]:
            with contextlib.suppress(OSError):
                old.unlink()

    def newest(self) -> tuple[dict[str, Array], dict[str, str]] | None:
        """The newest checkpoint that can be read, if there are any; others are warned of."""
        files = self.files()
        for one in files:
            try:
                return load(one), load_metadata(one)
            except WeftError as error:
                warn(error)
        if files:
            what = f"none of the {len(files)} checkpoints in {str(self.folder)!r} can be read"
            raise WeftError(what, fix="give another folder, or leave out resume=True to begin anew")
        return None

    def refuse_others(self) -> None:
        """A run that begins anew wants a folder of its own: later it would be taken for the one that is there."""
        if self.files():
            what = f"{str(self.folder)!r} has the checkpoints of an earlier run"
            raise WeftError(what, fix="resume=True goes on from the newest; to begin anew give another folder")
