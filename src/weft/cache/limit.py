"""How much is kept, and for how long: what was used longest ago goes first.

Each kind of thing may take `WEFT_CACHE_LIMIT` bytes (`500M`, `2G`; 1 GiB if not set, `none` for no limit). Where it is
more, entries go until a quarter is free again; what nobody used for 90 days goes in any case. Reading an entry notes
the day. Nothing but entries is ever removed: files of the user's own with the names that entries have.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat
import time
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from weft.errors import WeftError

DAY_S = 24 * 60 * 60
#: What nobody used for so long is removed.
AGE_S = 90 * DAY_S
DEFAULT_LIMIT = 1 << 30
_UNITS = {"": 0, "K": 10, "M": 20, "G": 30, "T": 40}
_NAME = re.compile(r"[0-9a-f]{40}(\.so|\.in)?")


@dataclass(frozen=True, slots=True)
class Entry:
    """A file of a cache: how long it is, and when it was last used, to the day."""

    path: Path
    size: int
    used: float


def cache_limit() -> int | None:
    """How many bytes each kind of thing may take; None if as many as it likes."""
    text = os.environ.get("WEFT_CACHE_LIMIT", "").strip()
    if not text:
        return DEFAULT_LIMIT
    if text.lower() == "none":
        return None
    match = re.fullmatch(r"(\d{1,15})\s*([KMGT]?)(i?B)?", text, re.IGNORECASE | re.ASCII)
    if match is None:
        what = f"WEFT_CACHE_LIMIT is no number of bytes: {text!r}"
        raise WeftError(what, fix="write 500M, 2G or none")
    return int(match[1]) << _UNITS[match[2].upper()]


def entries(place: Path) -> list[Entry]:
    """The entries of a folder."""
    found = []
    try:
        with os.scandir(place) as files:
            for one in files:
                if _NAME.fullmatch(one.name):
                    info = one.stat(follow_symlinks=False)
                    if stat.S_ISREG(info.st_mode) and info.st_uid == os.geteuid():
                        found.append(Entry(place / one.name, info.st_size, info.st_mtime))
    except OSError:  # another process may be removing the same
        pass
    return found


def trim(place: Path, limit: int | None, now: float | None = None) -> None:
    """Remove what is too old, and where there is too much, what was used longest ago."""
    now = time.time() if now is None else now
    found = sorted(entries(place), key=lambda one: one.used)
    remove(one for one in found if now - one.used > AGE_S)
    kept = [one for one in found if now - one.used <= AGE_S]
    total = sum(one.size for one in kept)
    if limit is not None and total > limit:
        for one in kept:
            if total <= limit * 3 // 4:
                break
            remove([one])
            total -= one.size


def remove(found: Iterable[Entry]) -> int:
    """Remove entries; how many bytes that were."""
    total = 0
    for one in found:
        with contextlib.suppress(OSError):
            one.path.unlink()
            total += one.size
    return total


def touch(handle: int, info: os.stat_result) -> None:
    """Note that an open entry is used today."""
    if time.time() - info.st_mtime > DAY_S:
        with contextlib.suppress(OSError):
            os.utime(handle)


def amount(count: int) -> str:
    """A number of bytes for people."""
    shown, unit = float(count), "bytes"
    for larger in ("KiB", "MiB", "GiB", "TiB", "PiB"):
        if shown < 1024:
            break
        shown, unit = shown / 1024, larger
    return f"{shown:.4g} {unit}"
