"""The end of work: what is over, what failed, and that a failure is told once."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass

from weft.errors import IndexOutOfBounds, Origin, WeftError
from weft.public import public
from weft.runtime import errors

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


class Event:
    """The end of a piece of work.

    For those who do the work: `over` says that it does nothing more, `after` what it waits for. Both are plain
    attributes, so that no signal comes between a piece of work and the word that it is over. (And all have values to
    begin with: one is made for every call.)

    Who waits tries to take a bare lock that is taken until the work is over, made by who waits first. (A condition of
    the standard library is written in Python: an interrupt in the middle of it can leave its lock taken, and all who
    wait there wait for ever.)
    """

    over = False
    spared = False  # it failed, and what it was to write is as it was, or, by a signal, as it was to be
    failure: Failure | None = None
    after: Sequence[Event] = ()  # what was asked for earlier and is not over; popped one by one
    needs: Sequence[Event] = ()  # whose values it reads
    thread = 0  # that does it, if it is the one that asked
    push: Callable[[], None] | None = None  # hands the work to who is to do it, once more if need be
    reports: Sequence[list[Failure]] = ()  # those of its devices: who waits for one task hears of all
    _skipped = False
    waiting: threading.Lock | None = None

    @property
    def done(self) -> bool:
        """Is the work over?"""
        return self.over and all(one.done for one in self.after)

    @public
    def wait(self) -> None:
        """Return when the work is done; raise what went wrong on its device, unless that was raised before."""
        if self.is_behind(threading.get_ident()):
            raise errors.behind_own_work()
        self.settle()
        if self._skipped and self.failure is not None:
            self._skipped = False
            raise self.failure.tell_follower()
        for failures in self.reports:
            for failure in failures:
                if not failure.told:
                    raise failure.tell()

    def is_behind(self, thread: int) -> bool:
        """Does it wait for work of a thread, or is it that? Then this thread must not wait for it."""
        seen, stack = {self}, [self]
        while stack:
            one = stack.pop()
            if one.thread == thread and not one.over:
                return True
            new = [other for other in tuple(one.after) if other not in seen]
            seen.update(new)
            stack += new
        return False

    def settle(self) -> None:
        """Return when the work is over, however it ended."""
        while not self.over:
            if (push := self.push) is not None:
                push()
            waiting = self.waiting or self.__dict__.setdefault("waiting", _taken())
            if not self.over and waiting.acquire(timeout=_LOOK_S):
                self.wake()
        for one in self.after:
            one.settle()

    def come(self) -> Failure | None:
        """Return when everything it waits for is over: why something that it reads is lost, or None."""
        while self.after:
            self.after[-1].settle()
            self.after = self.after[:-1]
        needs, self.needs = self.needs, ()  # it keeps no earlier work alive
        for one in needs:
            if one.failure is not None and not one.spared:
                return one.failure
        return None

    def finish(self, failure: Failure | None = None, *, skipped: bool = False) -> None:
        """The work is over: it was done, or it failed, or it was skipped because what it reads failed."""
        self.failure, self._skipped = failure, skipped
        self.spared = failure is not None and not skipped and isinstance(failure.error, IndexOutOfBounds)
        if failure is not None and not skipped:
            for failures in self.reports:
                failures.append(failure)
        self.over = True
        self.wake()

    def wake(self) -> None:
        """Let one who waits go on; it lets the next."""
        if self.waiting is not None:
            with suppress(RuntimeError):  # they are awake already
                self.waiting.release()

    def __repr__(self) -> str:
        return f"<event: {'done' if self.done else 'pending'}>"


def _taken() -> threading.Lock:
    made = threading.Lock()
    made.acquire()
    return made
