"""What the whole process shares: one lock around lowering, and what a fork and the end of the process need to know.

Shapes belong to tensors, which contexts share, so one thread at a time closes and lowers. Before a fork every context
is held still and its work is waited for: the child finds locks that are free, events that are over, and starts threads
of its own when it needs them. At the end of the process every thread finishes what was enqueued.
"""

from __future__ import annotations

import atexit
import os
import sys
import threading
from collections.abc import Callable
from contextlib import AbstractContextManager, ExitStack
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar
from weakref import WeakSet

from weft.errors import WeftError, user_origin
from weft.shape.alone import INFERRING

if TYPE_CHECKING:
    from weft.runtime.worker import Worker


class Watched(Protocol):
    """The engine of a context, as the process sees it."""

    def held_still(self) -> AbstractContextManager[None]:
        """Let nothing new begin, and wait for what has begun."""
        ...

    def untold(self) -> list[str]:
        """What went wrong in tasks and nobody was told."""
        ...


#: Held while shapes are closed and code is lowered.
LOWERING = threading.RLock()

_compiling = threading.local()
P = ParamSpec("P")
R = TypeVar("R")


def uninterrupted(compile: Callable[P, R]) -> Callable[P, R]:
    """Refuse to compile while this thread does: a signal handler has come in the middle of it."""

    @wraps(compile)
    def alone(*args: P.args, **kwargs: P.kwargs) -> R:
        if getattr(_compiling, "now", False):
            what = "a signal handler asks for something that must be compiled, in the middle of a compilation"
            fix = "let it read what is stored: parameters, and what routines left; or set a flag and compute it later"
            raise WeftError(what, origin=user_origin(), fix=fix)
        try:
            _compiling.now = True
            return compile(*args, **kwargs)
        finally:
            _compiling.now = False

    return alone


_watching = threading.Lock()
_forking = threading.Lock()
_engines: WeakSet[Watched] = WeakSet()
_workers: WeakSet[Worker] = WeakSet()
_held = ExitStack()


def watch(engine: Watched) -> None:
    """Hold this engine still during forks."""
    with _watching:
        _engines.add(engine)


def watch_worker(worker: Worker) -> None:
    """Wait for this thread at the end of the process."""
    with _watching:
        _workers.add(worker)


def _living() -> list[Watched]:
    with _watching:
        return list(_engines)


def _before_fork() -> None:
    _forking.acquire()
    held: list[Watched] = []
    while fresh := [one for one in _living() if one not in held]:
        for engine in fresh:
            _held.enter_context(engine.held_still())
        held += fresh
    _held.enter_context(_watching)
    _held.enter_context(LOWERING)
    _held.enter_context(INFERRING)


def _after_fork() -> None:
    _held.close()
    _forking.release()


def _at_exit() -> None:
    with _watching:
        running = [worker for worker in _workers if worker.is_alive()]
    for worker in running:
        worker.stop()
    for worker in running:
        worker.join()
    for engine in _living():
        for text in engine.untold():
            print(text, file=sys.stderr)


if hasattr(os, "register_at_fork"):
    os.register_at_fork(before=_before_fork, after_in_parent=_after_fork, after_in_child=_after_fork)
atexit.register(_at_exit)
