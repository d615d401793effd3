"""Atomic files: there whole, or not at all."""

from __future__ import annotations

from pathlib import Path

from weft.errors import WeftError
from weft.files.whole_file import replace_file


def written_whole(path: str, content: bytes) -> None:
    """Write a file; who reads it never finds half of it."""
    try:
        replace_file(Path(path), content)
    except OSError as error:
        what = f"{path!r} cannot be written: {error.strerror or error}"
        raise WeftError(what, fix="give a path in a folder that there is, on a disk with room") from None
