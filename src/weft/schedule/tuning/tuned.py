"""What tuning found, kept in a file of JSON lines: kernel, kind of machine, decisions, seconds with them and without.

    {"format": 1, "kernel": "02bb5ee9…", "machine": "5d41402a…", "decisions": {"i0": "on vectors"}, "seconds": 1e-5,
     "untuned": 2e-5, "what": "y =: relu(x)"}

A kernel is known by what it does, whatever it is called and whichever program it is part of. Lines are only ever added,
each in one write, so files merge by concatenation, in any order: of the same decisions the slowest measurement counts,
of different ones the best, and none that is not quicker than weft's own choice. Lines that cannot be read are passed
over, and so are those of other machines.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from weft.cache import cache_folder, opened
from weft.errors import WeftError, warn
from weft.lazy import lazy_property
from weft.machine import Machine
from weft.schedule.decisions import Decisions, read_decisions

#: Decisions of another format may mean something else.
_FORMAT = 1
_KIND = "tuned"


@dataclass(frozen=True, slots=True)
class Found:
    """Decisions about a kernel on a kind of machine, how long it took with them, and with none."""

    kernel: str
    machine: str
    decisions: Decisions
    seconds: float
    untuned: float
    what: str = ""

    @property
    def ratio(self) -> float:
        return self.seconds / self.untuned

    @property
    def line(self) -> str:
        said = {"kernel": self.kernel, "machine": self.machine, "decisions": self.decisions.texts}
        times = {"seconds": self.seconds, "untuned": self.untuned}
        return json.dumps({"format": _FORMAT, **said, **times, "what": self.what}, ensure_ascii=False)


@dataclass(frozen=True)
class Tuned:
    """The best decisions about kernels on one machine; `identity` tells apart those that differ in anything."""

    best: Mapping[str, Decisions] = field(default_factory=dict)

    @lazy_property
    def identity(self) -> str:
        texts = sorted((kernel, found.texts) for kernel, found in self.best.items())
        return sha256(json.dumps(texts).encode()).hexdigest() if texts else ""

    def but(self, changes: Mapping[str, Decisions | None]) -> Tuned:
        """With other decisions about some kernels; None stands for weft's own."""
        best = {**self.best, **changes}
        return Tuned({kernel: one for kernel, one in best.items() if one is not None})


def machine_key(machine: Machine) -> str:
    """A name for a kind of machine."""
    return sha256(f"{machine.identity} {machine.cores} {machine.vector_bytes}".encode()).hexdigest()[:16]


def tuned_file(name: str) -> Path:
    """Where what was found is kept: a relative path begins at the cache."""
    return cache_folder(_KIND) / name


def tuned(name: str, machine: Machine) -> Tuned:
    """The best decisions that a file has for a machine; none if it is called nothing."""
    content = _content(name) if name else b""
    return _tuned(content, machine_key(machine), name) if content else Tuned()


@lru_cache(maxsize=8)
def _tuned(content: bytes, machine: str, name: str) -> Tuned:
    found, damaged = read_lines(content.decode(errors="replace").splitlines())
    if damaged:
        what = f"{damaged} line{'s' * (damaged > 1)} of what tuning found cannot be read: {tuned_file(name)}"
        warn(WeftError(what, fix=f"weft tune merge --into {tuned_file(name)} leaves them out; all others are used"))
    return Tuned(best_of(one for one in found if one.machine == machine))


def best_of(found: Iterable[Found]) -> dict[str, Decisions]:
    """The best decisions about each kernel, where any are better than none."""
    best: dict[str, Found] = {}
    for one in slowest_of(found):
        if one.ratio < 1 and (one.kernel not in best or one.ratio < best[one.kernel].ratio):
            best[one.kernel] = one
    return {kernel: one.decisions for kernel, one in best.items()}


def slowest_of(found: Iterable[Found]) -> list[Found]:
    """Of the same decisions about a kernel on a machine, the slowest measurement: a lucky one does not count."""
    slowest: dict[tuple[str, str, Decisions], Found] = {}
    for one in found:
        key = one.machine, one.kernel, one.decisions
        if key not in slowest or one.ratio > slowest[key].ratio:
            slowest[key] = one
    return list(slowest.values())


def read_lines(lines: Iterable[str]) -> tuple[list[Found], int]:
    """What lines say, and how many of them say nothing that can be read."""
    written = [line for line in lines if line.strip()]
    found = [one for line in written if (one := _read(line)) is not None]
    return found, len(written) - len(found)


def _read(line: str) -> Found | None:
    try:
        said = json.loads(line)
        if said["format"] != _FORMAT:
            return None
        seconds, untuned = float(said["seconds"]), float(said["untuned"])
        texts = {str(name): str(text) for name, text in said["decisions"].items()}
        kernel, machine, what = (str(said[name]) for name in ("kernel", "machine", "what"))
        found = Found(kernel, machine, read_decisions(texts), seconds, untuned, what)
        return found if 0 < seconds < float("inf") and 0 < untuned < float("inf") else None
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError, RecursionError):
        return None


def _content(name: str) -> bytes:
    """What a file holds: one in the cache, if that can be trusted, or one that somebody names."""
    path = tuned_file(name)
    if os.path.isabs(name) or not path.exists():  # most often: a cache is opened for nothing else
        return _bytes(path)
    with opened(cache_folder(_KIND)) as cache:
        return _bytes(cache.place / name) if cache.place is not None else b""


def _bytes(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError:
        return b""


def keep(name: str, found: Sequence[Found]) -> bool:
    """Add lines to a file, each in one write, if there is one; where they cannot be kept, that is said once."""
    try:
        if not name or os.path.isabs(name):
            return bool(name) and _append(Path(name), found)
        with opened(cache_folder(_KIND)) as cache:
            if cache.place is None:
                raise OSError(cache.problem)
            return _append(cache.place / name, found)
    except OSError as error:
        what = f"what tuning found is not kept in {tuned_file(name)}: {error.strerror or error}"
        warn(WeftError(what, fix="set WEFT_CACHE to a folder of your own, or wf.config.tuned to a file"))
        return False


def _append(path: Path, found: Sequence[Found]) -> bool:
    handle = os.open(path, os.O_RDWR | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
    try:
        size = os.fstat(handle).st_size
        cut = size > 0 and os.pread(handle, 1, size - 1) != b"\n"  # by a writer that was killed, or a person
        for one in found:
            os.write(handle, f"{chr(10) * cut}{one.line}\n".encode())
            cut = False
    finally:
        os.close(handle)
    return True
