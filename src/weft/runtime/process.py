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
from collections.abc import Callable, Generator
from functools import wraps
from typing import TYPE_CHECKING, ParamSpec, Protocol, TypeVar

from weft.errors import WeftError, user_origin
from weft.runtime.weak import Weak
from weft.shape.alone import INFERRING

if TYPE_CHECKING:
    from weft.runtime.worker import Worker


class Watched(Protocol):
    """The engine of a context, as the process sees it."""

    def held_still(self) -> Generator[None, None, None]:
        """Let nothing new begin and wait for what has begun, up to the `yield`; then let go."""
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


_engines: Weak[Watched, None] = Weak()
_workers: Weak[Worker, None] = Weak()


def watch(engine: Watched) -> None:
    """Hold this engine still during forks."""
    _engines.put(engine, None)


def watch_worker(worker: Worker) -> None:
    """Wait for this thread at the end of the process."""
    _workers.put(worker, None)


class _Forks:
    """What is held during a fork, of all contexts and of what they share. A signal handler may fork inside a fork."""

    def __init__(self) -> None:
        self._alone = threading.RLock()
        self._held: list[list[Generator[None, None, None]]] = []

    def before(self) -> None:
        self._alone.acquire()
        engines: list[Watched] = []
        held: list[Generator[None, None, None]] = []
        self._held.append(held)
        while fresh := [one for one in _engines if one not in engines]:
            for engine in fresh:
                held.append(engine.held_still())
                next(held[-1])
            engines += fresh
        LOWERING.acquire()
        INFERRING.acquire()

    def after(self) -> None:
        INFERRING.release()
        LOWERING.release()
        for one in reversed(self._held.pop()):
            next(one, None)
        self._alone.release()


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
    _forks = _Forks()
    os.register_at_fork(before=_forks.before, after_in_parent=_forks.after, after_in_child=_forks.after)
atexit.register(_at_exit)
