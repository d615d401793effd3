"""Files that are there whole or not at all."""

from __future__ import annotations

import os
from contextlib import suppress

from weft.errors import WeftError


def written_whole(path: str, content: bytes) -> None:
    """Write a file beside its place and move it there: who reads it never finds half of it."""
    folder, name = os.path.split(path)
    unfinished = os.path.join(folder, f".{name}.{os.getpid()}")
    try:
        with open(unfinished, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, path)
    except OSError as error:
        what = f"{path!r} cannot be written: {error.strerror or error}"
        raise WeftError(what, fix="give a path in a folder that there is, on a disk with room") from None
    finally:
        with suppress(OSError):
            os.unlink(unfinished)
