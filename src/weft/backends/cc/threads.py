"""How many threads this process may have: what it is told, and what the system lets it use."""

from __future__ import annotations

import os
from collections.abc import Iterator
from functools import cache
from pathlib import Path

#: A thread that has nothing to do looks for work so long before it sleeps: waking it takes as long.
SPIN_NS = 50_000


def usable_threads() -> int:
    """How many threads work at once: at most OMP_NUM_THREADS, the processors this process may run on, and its quota."""
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    return max(1, min(_told(), allowed, _quota()))


def _told() -> int:
    """What OMP_NUM_THREADS says; for loops inside loops there may be more numbers after the first."""
    first = os.environ.get("OMP_NUM_THREADS", "").split(",")[0].strip()
    return int(first) if first.isdecimal() and int(first) > 0 else 1 << 16


@cache
def _quota() -> int:
    return min((whole(one) for one in quotas(Path("/proc/self/cgroup"), Path("/sys/fs/cgroup"))), default=1 << 16)


def whole(processors: float) -> int:
    """Whole processors: half a one more is worth a thread."""
    return max(1, int(processors + 0.5))


def quotas(membership: Path, root: Path) -> Iterator[float]:
    """How many processors' time the control groups of a process may use, those of either version that are limited."""
    for line in _read(membership).splitlines():
        _, kinds, path = [*line.split(":", 2), "", ""][:3]
        if kinds and "cpu" not in kinds.split(","):
            continue
        folder, names = root / "cpu" if kinds else root, Path(path).parts[1:]
        for depth in range(len(names) + 1):
            group = folder.joinpath(*names[:depth])
            files = ("cpu.cfs_quota_us", "cpu.cfs_period_us") if kinds else ("cpu.max",)
            limit, period = [*(word for one in files for word in _read(group / one).split()), "", ""][:2]
            if limit.isdecimal() and period.isdecimal() and int(period):
                yield int(limit) / int(period)


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
