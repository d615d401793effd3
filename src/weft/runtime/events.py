"""The end of work: what is over, what failed, and that a failure is told once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from weft.errors import Origin, WeftError
from weft.public import public_methods

#: So often who waits looks whether it is over: whoever was to say so may have been interrupted at just that.
_LOOK_S = 0.1


@dataclass(slots=True, eq=False)
class Failure:
    """What went wrong inside a piece of work, and whether somebody has been told."""

    error: BaseException
    device: int
    origin: Origin | None = None
    told: bool = False

    def __str__(self) -> str:
        return f"{type(self.error).__name__}: {self.error}"

    def tell(self) -> WeftError:
        """The error to raise: what went wrong, at the line that enqueued it."""
        self.told = True
        return self._error(f"a task on device {self.device} failed: {self}")

    def tell_follower(self) -> WeftError:
        """The error of work that was skipped because it reads what the failed task was to write."""
        if not self.told:
            return self.tell()
        return self._error(f"work was skipped: it reads what a task on device {self.device} was to write, which failed")

    def _error(self, what: str) -> WeftError:
        made = WeftError(what, origin=self.origin)
        made.__cause__ = self.error
        return made


@public_methods
class Event:
    """The end of a piece of enqueued work.

    For those who do the work: `over` says that nothing more will happen, `instead` what to wait for besides. Both are
    plain attributes, so that no signal comes between a piece of work and the word that it is over. `ended` asks
    whether work that gives no word is over; `push` hands the work to who is to do it, once more if need be.

    Who waits tries to take a bare lock that is taken until the work is over. (A condition of the standard library is
    written in Python: an interrupt in the middle of it can leave its lock taken, and all who wait there wait for ever.)
    """

    __slots__ = ("_failures", "_pending", "_skipped", "ended", "failure", "instead", "interrupted", "over", "push")

    def __init__(self, failures: Sequence[list[Failure]] = (), ended: Callable[[], bool] | None = None) -> None:
        self._failures = tuple(failures)  # those of its devices: who waits for one task hears of all
        self._pending = threading.Lock()
        self._pending.acquire()
        self._skipped = False
        self.ended = ended
        self.push: Callable[[], None] | None = None
        self.over = False
        self.instead: Sequence[Event] = ()
        self.interrupted = False  # by a signal: what it was to write is as it was, or as it was to be
        self.failure: Failure | None = None

    @property
    def done(self) -> bool:
        """Is the work over?"""
        return (self.over or (self.ended is not None and self.ended())) and all(one.done for one in self.instead)

    def wait(self) -> None:
        """Return when the work is done; raise what went wrong on its device, unless that was raised before."""
        self.settle()
        if self._skipped and self.failure is not None:
            self._skipped = False
            raise self.failure.tell_follower()
        for failures in self._failures:
            for failure in failures:
                if not failure.told:
                    raise failure.tell()

    def settle(self) -> None:
        """Return when the work is over, however it ended."""
        while not self.over and not (self.ended is not None and self.ended()):
            if (push := self.push) is not None:
                push()
            if self._pending.acquire(timeout=_LOOK_S):
                self._wake()
        for one in self.instead:
            one.settle()

    def finish(self, failure: Failure | None = None, *, skipped: bool = False) -> None:
        """The work is over: it was done, or it failed, or it was skipped because what it reads failed."""
        self.failure, self._skipped = failure, skipped
        if failure is not None and not skipped:
            for failures in self._failures:
                failures.append(failure)
        self.over = True
        self._wake()

    def _wake(self) -> None:
        """Let one who waits go on; it lets the next."""
        with suppress(RuntimeError):  # they are awake already
            self._pending.release()

    def __repr__(self) -> str:
        return f"<event: {'done' if self.done else 'pending'}>"
