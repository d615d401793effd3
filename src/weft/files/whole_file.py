"""A file written whole or not at all."""

from __future__ import annotations

import contextlib
import os
import secrets
from pathlib import Path

from weft.cache import sweep


def replace_file(path: Path, content: bytes | bytearray | memoryview) -> None:
    """Let a file have this content: a reader sees the old one or the new one, even after a crash of the machine.

    It is written beside the file, synced, and renamed. What killed processes left there is removed once it is old.
    """
    target = Path(os.path.realpath(path))  # of a link, the file it leads to
    unfinished = target.with_name(f"{_prefix(target)}{secrets.token_hex(6)}")
    try:
        with open(unfinished, "xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(unfinished, target)
    except BaseException:
        with contextlib.suppress(OSError):
            unfinished.unlink()
        raise
    _sync_folder(target.parent)
    sweep(target.parent, _prefix(target))


def _prefix(target: Path) -> str:
    """How the names begin under which a file is written; short where its own is as long as names can be."""
    return f".{target.name[:100]}.writing-"


def _sync_folder(folder: Path) -> None:
    """Let the new name last. Not every file system can; the file is whole either way."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
