"""The calling thread's own work on a device, in order with what others enqueued there."""

from __future__ import annotations

import threading
from types import TracebackType

from weft.runtime.events import Event, Failure
from weft.runtime.order import Order, Touch, next_key


class Access:
    """`with Access(…) as access:` begin under the lock, settle without it, then work. However that ends, it is over."""

    __slots__ = ("_after", "_awaited", "_device", "_event", "_failure", "_lock", "_needs", "_order")

    def __init__(self, order: Order, lock: threading.RLock, device: int) -> None:
        self._order = order
        self._lock = lock
        self._device = device
        self._awaited: list[Event] | None = None
        self._event: Event | None = None
        self._after: list[Event] = []
        self._needs: list[Event] = []
        self._failure: Failure | None = None

    def __enter__(self) -> Access:
        return self

    def begin(self, touch: Touch, also: tuple[Event, ...] = (), key: int | None = None) -> Event | None:
        """Take a place in the order, behind `also` too. There is an event if others are at work."""
        self._awaited = self._order.take(touch)
        if self._awaited is None:
            self._after = [*self._order.before(touch), *also]
            self._needs = self._order.needed(touch)
            self._event = Event()
            self._order.enter(next_key() if key is None else key, self._event, touch)
        return self._event

    def settle(self) -> None:
        """Wait until it is this work's turn."""
        while self._after:
            self._after[-1].settle()
            self._after.pop()
        for need in self._needs:
            if need.failure is not None:
                self._failure = need.failure
                raise need.failure.tell_follower()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._failure is None and isinstance(error, Exception):
            self._failure = Failure(error, self._device, told=True)
        if self._event is not None and self._after:
            self._event.abandon(self._after)
        elif self._event is not None:
            self._event.finish(self._failure)
        elif self._awaited is not None and self._failure is None:
            self._order.leave(self._awaited)
        elif self._awaited is not None and self._failure is not None:
            with self._lock:
                self._order.fail(self._failure)
