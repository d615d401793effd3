"""What is worth keeping from one process to the next: compiled libraries, how routines run, parser tables.

An entry is one file: its content, then the digest of its name and its content. It is written under another name and
renamed: a reader sees a whole one or none, whoever else is writing or was killed. Nothing is synced to disk: what a
crash of the machine cut short does not match its digest and is made again.

Loading a library is running code, so a folder is used only if it is the user's own (or root's) and no one else may
write in it: then no one else can change an entry between check and load. Where others could move the folder, or one
above it, and put another in its place, it goes by the descriptor it was opened with, which stays with the folder.
(By its path where it can: debuggers and profilers look there for what was loaded.)

Nothing is kept for ever (`limit.py`): all of it can be made again.
"""

from __future__ import annotations

import hashlib
import os
import shutil
import stat
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from weft.cache.limit import cache_limit, touch, trim
from weft.errors import WeftError

#: Longer than any compilation may take: what is older was left by a process that was killed.
STALE_S = 600
#: A process looks at its first new entry in a folder, and after so many more, what is left there and if it is too much.
_OFTEN = 64
_UNFINISHED = "making-"
_made = Counter[Path]()
_DIGEST = hashlib.sha256().digest_size


def cache_folder(kind: str) -> Path:
    """Where things of some kind are kept: below WEFT_CACHE, or the user's cache folder."""
    chosen = os.environ.get("WEFT_CACHE")
    try:
        return (Path(chosen).expanduser() if chosen else _user_cache() / "weft") / kind
    except RuntimeError:
        what = f"WEFT_CACHE names a home that is not there: {chosen!r}"
        raise WeftError(what, fix="set it to a folder, or leave it out") from None


@cache
def own_identity() -> str:
    """A name for this very weft: whatever depends on how weft works is kept under it.

    When a file last changed says more than its own time, which an archive may have set to anything.
    """
    lines = sorted(_stamps(str(Path(__file__).parent.parent)))
    return hashlib.sha256("\n".join([sys.version, *lines]).encode()).hexdigest()


def _stamps(folder: str) -> Iterator[str]:
    """What is known of the sources in a folder, and in those inside it, from a look at each."""
    with os.scandir(folder) as found:
        for one in found:
            if one.name.endswith((".py", ".h", ".lark")):
                info = one.stat()
                yield f"{one.path} {info.st_size} {info.st_mtime_ns} {info.st_ctime_ns}"
            elif one.name != "__pycache__" and one.is_dir():
                yield from _stamps(one.path)


def _user_cache() -> Path:
    chosen = os.environ.get("XDG_CACHE_HOME", "")
    if os.path.isabs(chosen):
        return Path(chosen)
    try:
        return Path.home() / ".cache"
    except RuntimeError:  # neither HOME nor an account that has one
        return Path(tempfile.gettempdir()) / f"cache-{os.getuid()}"


@dataclass(slots=True)
class Cache:
    """An open cache. `place` is its folder, None where that cannot be used; `problem` says why nothing was kept."""

    place: Path | None
    problem: str = ""

    def whole(self, name: str) -> Path | None:
        """The file of an entry, if there is one and it is whole."""
        return self.place / name if self.place and content(self.place / name) is not None else None

    def read(self, name: str) -> bytes | None:
        """What an entry holds, if there is one and it is whole."""
        return content(self.place / name) if self.place else None

    def keep(self, name: str, content: bytes) -> None:
        """Make an entry, if there is room and the right to."""
        if self.place is None:
            return
        try:
            _write(self.place / name, content + _digest(name, content))
        except OSError as error:
            self.problem = error.strerror or str(error)
        if _made[self.place] % _OFTEN == 0:
            sweep(self.place, _UNFINISHED)
            trim(self.place, cache_limit())
        _made[self.place] += 1

    def forget(self, name: str) -> None:
        """Remove an entry."""
        if self.place is not None:
            (self.place / name).unlink(missing_ok=True)


@contextmanager
def opened(folder: Path) -> Iterator[Cache]:
    """The cache in a folder, which is made if need be."""
    try:
        _make(folder)
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
    except OSError as error:
        yield Cache(None, error.strerror or str(error))
        return
    try:
        shared = _shared(os.fstat(handle))
        place = None if shared else _place(folder.resolve(), handle)
        yield Cache(place, shared or ("" if place else "it can be moved or removed"))
    finally:
        os.close(handle)


def _place(folder: Path, handle: int) -> Path | None:
    """A name under which an open folder stays the same."""
    try:
        fixed = all(_is_fixed(os.stat(above)) for above in folder.parents)
        if fixed and os.path.samestat(os.stat(folder), os.fstat(handle)):
            return folder
    except FileNotFoundError:  # somebody removed it meanwhile
        return None
    below = Path(f"/proc/self/fd/{handle}")
    return below if below.exists() else None


def content(entry: Path) -> bytes | None:
    """What an entry holds; None if there is none, another user can change it, or it does not match its digest."""
    try:
        with open(os.open(entry, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK), "rb") as file:
            info = os.fstat(file.fileno())
            found = b"" if _shared(info) or not stat.S_ISREG(info.st_mode) else file.read()
            touch(file.fileno(), info)
    except OSError:
        return None
    return found[:-_DIGEST] if found[-_DIGEST:] == _digest(entry.name, found[:-_DIGEST]) else None


def sweep(folder: Path, prefix: str) -> None:
    """Remove what killed processes left: the user's own files and folders of that prefix, once they are old."""
    try:
        with os.scandir(folder) as found:
            left = [one for one in found if one.name.startswith(prefix) and _is_old(one)]
    except OSError:
        return
    for one in left:
        if one.is_dir(follow_symlinks=False):
            shutil.rmtree(one.path, ignore_errors=True)
        else:
            Path(one.path).unlink(missing_ok=True)


def _is_old(one: os.DirEntry[str]) -> bool:
    try:
        info = one.stat(follow_symlinks=False)
    except OSError:
        return False
    return info.st_uid == os.geteuid() and time.time() - info.st_mtime > STALE_S


def _write(entry: Path, content: bytes) -> None:
    handle, unfinished = tempfile.mkstemp(prefix=_UNFINISHED, dir=entry.parent)
    try:
        with open(handle, "wb") as file:
            file.write(content)
        os.replace(unfinished, entry)
    except BaseException:
        Path(unfinished).unlink(missing_ok=True)
        raise


def _digest(name: str, content: bytes) -> bytes:
    return hashlib.sha256(name.encode() + content).digest()


def _make(folder: Path) -> None:
    """Make a folder and those above it, for the user alone."""
    if not folder.is_dir():
        if folder.parent != folder:
            _make(folder.parent)
        folder.mkdir(mode=0o700, exist_ok=True)


def _shared(info: os.stat_result) -> str:
    """Why code must not be loaded from a folder or a file; empty if it may be."""
    if info.st_uid not in _trusted():
        return "it belongs to another user"
    return "other users can write in it" if info.st_mode & (stat.S_IWGRP | stat.S_IWOTH) else ""


def _is_fixed(info: os.stat_result) -> bool:
    """Does what lies in a folder stay there, whatever other users do? In one like /tmp they move their own only."""
    return not _shared(info) or (info.st_uid in _trusted() and bool(info.st_mode & stat.S_ISVTX))


def _trusted() -> tuple[int, ...]:
    return (os.geteuid(), 0)
