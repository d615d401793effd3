"""What `weft cache` prints and removes."""

from __future__ import annotations

import time
from pathlib import Path

from weft.cache import cache_folder
from weft.cache.limit import DAY_S, Entry, amount, cache_limit, entries, remove
from weft.errors import WeftError

#: The kinds of things kept, and what they are to people.
KINDS = {"cc": "compiled kernels", "cuda": "kernels for GPUs", "routines": "how routines run", "grammars": "parsers"}
#: Below `tuned` in the cache; `weft tune` shows what it says.
_TUNED = "tuned.jsonl"


def report() -> str:
    """Where the cache is, how much there is of each kind, and the limit."""
    limit = cache_limit()
    found = {what: entries(cache_folder(kind)) for kind, what in KINDS.items()}
    lines = [f"folder  {cache_folder('')}", f"limit   {'none' if limit is None else amount(limit)} of each kind"]
    lines += [f"{what}: {_counted(some)}" for what, some in found.items()]
    tuned = _tuned()
    return "\n".join([*lines, f"what tuning found: {amount(tuned.stat().st_size) if tuned else 'nothing'}"])


def clear(days: int, everything: bool) -> str:
    """Remove what was not used for so many days; what tuning found only if `everything` is to go."""
    old = time.time() - days * DAY_S if days else float("inf")
    chosen = [one for kind in KINDS for one in entries(cache_folder(kind)) if one.used < old]
    size = remove(chosen)
    tuned = _tuned() if everything else None
    if tuned is not None:
        size += tuned.stat().st_size
        try:
            tuned.unlink()
        except OSError as error:
            what = f"{tuned} cannot be removed: {error.strerror}"
            raise WeftError(what, fix="remove it by hand, or set WEFT_CACHE") from None
    return f"{amount(size)} removed from {cache_folder('')}"


def _counted(found: list[Entry]) -> str:
    if not found:
        return "none"
    size, last = sum(one.size for one in found), max(one.used for one in found)
    days = max(0, int((time.time() - last) // DAY_S))
    when = "today" if not days else f"{days} day{'s' * (days > 1)} ago"
    return f"{len(found)}, {amount(size)}, last used {when}"


def _tuned() -> Path | None:
    path = cache_folder("tuned") / _TUNED
    return path if path.is_file() and not path.is_symlink() else None
