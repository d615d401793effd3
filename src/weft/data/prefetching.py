"""Prefetching: a thread makes batches ahead of their use."""

from __future__ import annotations

import os
import threading
import weakref
from collections import deque
from collections.abc import Iterable, Iterator
from types import TracebackType
from typing import Any, Generic, TypeVar

from weft.data.validation import checked_whole
from weft.errors import WeftError
from weft.public import public

T = TypeVar("T")

#: How long the end of the process waits for a thread that is in the middle of something.
_PATIENCE = 1.0


class _Channel(Generic[T]):
    """What is fetched and not used yet, at most `most` at once, and how it ended."""

    __slots__ = ("_changed", "_fetched", "_most", "ended", "error", "process")

    def __init__(self, most: int) -> None:
        self._fetched: deque[T] = deque()
        self._most = most
        self._changed = threading.Condition()
        self.ended = False
        self.error: BaseException | None = None
        self.process = os.getpid()

    def put(self, one: T) -> bool:
        """Add something once there is room; False if nobody wants it any more."""
        with self._changed:
            self._changed.wait_for(lambda: self.ended or len(self._fetched) < self._most)
            if not self.ended:
                self._fetched.append(one)
                self._changed.notify_all()
            return not self.ended

    def end(self, error: BaseException | None = None) -> None:
        """Nothing more comes."""
        with self._changed:
            if not self.ended:
                self.ended, self.error = True, error
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more is wanted."""
        with self._changed:
            self._fetched.clear()
            self.ended, self.error = True, None
            self._changed.notify_all()

    def take(self) -> T:
        with self._changed:
            self._changed.wait_for(lambda: self.ended or bool(self._fetched))
            if self._fetched:
                self._changed.notify_all()
                return self._fetched.popleft()
            error, self.error = self.error, None
        raise StopIteration if error is None else error


class Prefetch(Iterator[T]):
    """An iterator whose next values a thread of its own fetches meanwhile. It closes itself when nobody holds it."""

    def __init__(self, source: Iterator[T], ahead: int) -> None:
        self._channel: _Channel[T] = _Channel(ahead)
        # The thread knows the channel and not the iterator, so that the iterator can go.
        self._thread = threading.Thread(
            target=_produce, args=(source, self._channel), name="weft-prefetch", daemon=True
        )
        self._end = weakref.finalize(self, _stop, self._channel, self._thread, _PATIENCE)
        self._thread.start()

    def __iter__(self) -> Prefetch[T]:
        return self

    @public
    def __next__(self) -> T:
        if self._channel.process != os.getpid():
            what = "what is fetched ahead comes from a thread of another process: this one was forked from it"
            raise WeftError(what, fix="begin to iterate after the fork")
        return self._channel.take()

    def close(self) -> None:
        """Fetch nothing more, and wait until the thread is done with what it fetches now."""
        _stop(self._channel, self._thread, None)

    def __enter__(self) -> Prefetch[T]:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"<fetched ahead: {'ended' if self._channel.ended else 'under way'}>"


def prefetch(source: Iterable[T], ahead: int = 2) -> Prefetch[T]:
    """What an iterable gives, fetched by a thread while earlier values are used, at most `ahead` of them.

    What fetching raises is raised where the value is asked for. `close`, or the end of a `with` block, ends the thread;
    so does nobody holding the iterator any more.

    >>> list(wf.data.prefetch(range(3), ahead=2))
    [0, 1, 2]
    """
    if not isinstance(source, Iterable):
        what = f"only what can be iterated is fetched ahead, not {type(source).__name__}"
        raise WeftError(what, fix="give batches, a generator or a list")
    return Prefetch(iter(source), checked_whole("ahead", ahead, 1))


def _produce(source: Iterator[Any], channel: _Channel[Any]) -> None:
    try:
        while channel.put(next(source)):
            pass
    except StopIteration:
        channel.end()
    except BaseException as error:  # whatever it is, it is the consumer's
        channel.end(error)
    finally:
        if close := getattr(source, "close", None):  # a generator's
            close()


def _stop(channel: _Channel[Any], thread: threading.Thread, patience: float | None) -> None:
    if channel.process != os.getpid():
        return  # the thread stayed in the other process, perhaps with the lock
    channel.close()
    if thread is not threading.current_thread() and thread.ident is not None:
        thread.join(patience)
