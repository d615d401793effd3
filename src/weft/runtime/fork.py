"""What the whole process shares: one lock around lowering, and what a fork and the end of the process need to know.

Shapes belong to tensors, which contexts share, so one thread at a time closes and lowers. Before a fork every context
is held still and its work is waited for, calls of functions too: the child finds locks that are free, events that are
over, and starts threads of its own when it needs them. At the end of the process every thread finishes what was
enqueued.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable, Generator
from contextlib import suppress
from dataclasses import dataclass, field
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, TypeVar

from weft.dlpack import TAKING
from weft.errors import WeftError
from weft.lazy import LOADING
from weft.runtime.weak import Weak
from weft.shape.inference_lock import INFERRING

if TYPE_CHECKING:
    from weft.runtime.engine import Engine
    from weft.runtime.worker import Worker


#: Held while shapes are closed and code is lowered.
LOWERING = threading.RLock()

_compiling = threading.local()
P = ParamSpec("P")
R = TypeVar("R")


def uninterrupted(compiling: Callable[P, R]) -> Callable[P, R]:
    """Refuse to compile while this thread does: a signal handler has come in the middle of it."""

    @wraps(compiling)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        if getattr(_compiling, "now", False):
            what = "a signal handler asks for something that must be compiled, in the middle of a compilation"
            fix = "let it read what is stored: parameters, and what routines left; or set a flag and compute it later"
            raise WeftError(what, fix=fix)
        try:
            _compiling.now = True
            return compiling(*args, **kwargs)
        finally:
            _compiling.now = False

    return alone


_engines: Weak[Engine, None] = Weak()
_workers: Weak[Worker, None] = Weak()
_locks: Weak[threading.RLock, None] = Weak()


def watch(engine: Engine) -> None:
    """Hold this engine still during forks."""
    _engines.put(engine, None)


def new_lock() -> threading.RLock:
    """A lock that is free in both processes after a fork. Who holds it takes no other."""
    made = threading.RLock()
    _locks.put(made, None)
    return made


def watch_worker(worker: Worker) -> None:
    """Wait for this thread at the end of the process."""
    _workers.put(worker, None)


@dataclass(slots=True)
class _Held:
    """What one fork holds. A thing is listed before it is taken: letting go of what was not taken does nothing."""

    engines: list[Engine] = field(default_factory=list)
    still: list[Generator[None, None, None]] = field(default_factory=list)
    locks: list[threading.RLock] = field(default_factory=list)
    all: bool = False

    def take(self) -> None:
        """Take everything that is not taken yet: contexts first, then the locks under which nothing else is taken."""
        self._lock(_forking)
        while fresh := [one for one in _engines if one not in self.engines]:
            for engine in fresh:
                self.still.append(engine.held_still())
                next(self.still[-1])
                self.engines.append(engine)
        for lock in (LOWERING, INFERRING, TAKING, LOADING):
            self._lock(lock)
        while others := [one for one in _locks if one not in self.locks]:
            for lock in others:
                self._lock(lock)
        self.all = True

    def _lock(self, lock: threading.RLock) -> None:
        self.locks.append(lock)
        lock.acquire()

    def let_go(self) -> None:
        for one in reversed(self.still):
            one.close()
        while self.locks:
            with suppress(RuntimeError):
                self.locks[-1].release()
            del self.locks[-1]


_forking = threading.RLock()
_held: dict[int, list[_Held]] = {}  # by thread; a signal handler may fork inside a fork


def _before_fork() -> None:
    held = _Held()
    _held.setdefault(threading.get_ident(), []).append(held)
    _insist(held.take)


def _after_fork() -> None:
    mine = _held.get(threading.get_ident())
    if mine and mine[-1].all:
        try:
            _insist(mine[-1].let_go)
        finally:
            if not mine[-1].locks:
                del mine[-1]


def _insist(work: Callable[[], None]) -> None:
    """Do it although an interrupt comes: Python says that what is raised around a fork is ignored, and goes on."""
    try:
        work()
    except BaseException:
        work()
        raise


def _at_exit() -> None:
    running = [worker for worker in _workers if worker.is_alive()]
    for worker in running:
        worker.stop()
    for worker in running:
        worker.join()
    for engine in _engines:
        for text in engine.untold():
            print(text, file=sys.stderr)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
    os.register_at_fork(after_in_parent=_after_fork)  # an interrupt may come just as the first begins
atexit.register(_at_exit)
