"""A queue: work in order, done by a thread of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial

from weft.errors import user_origin
from weft.runtime.events import Event
from weft.runtime.footprint import Footprint
from weft.runtime.hazards import Hazards, next_key
from weft.runtime.worker import Worker, WorkItem


class Queue:
    """What is put here is done in order. Every method but `stop` is called with the context's lock held."""

    __slots__ = ("__weakref__", "_waits", "_worker", "device", "key", "last")

    def __init__(self, device: int) -> None:
        self.device = device
        self.key = next_key()
        self.last: Event | None = None  # of what was put here
        self._waits: list[Event] = []
        self._worker: Worker | None = None

    def put(
        self, work: Callable[[], None], touched: Mapping[Hazards, Footprint], claim: Callable[[], None] | None = None
    ) -> Event:
        """Enqueue work that touches memory of some devices; `claim` is called when it has its place in the order."""
        worker = self._working()
        event = Event()
        event.reports = [one.failures for one in touched]
        after = [one for hazards, footprint in touched.items() for one in hazards.before(footprint)]
        event.after = [*after, *self.earlier(), *self._waits]
        event.needs = [one for hazards, footprint in touched.items() for one in hazards.needed(footprint)]
        task = WorkItem(event, work, self.device, user_origin())
        event.push = partial(worker.tasks.put, task)  # if a signal comes before it is put, who waits puts it
        for hazards, footprint in touched.items():
            hazards.enter(self.key, event, footprint)
        self.last = event
        self._waits = []
        if claim is not None:
            claim()
        worker.tasks.put(task)
        event.push = None
        return event

    def earlier(self) -> tuple[Event, ...]:
        """What was put here last, if it is not over."""
        return () if self.last is None or self.last.done else (self.last,)

    def wait(self, event: Event) -> None:
        """Let everything put here from now on wait for an event."""
        self._waits.append(event)

    def stop(self) -> None:
        """Finish what was put here and end the thread; what is put later starts another."""
        worker = self._worker
        if worker is not None:
            worker.stop()
            worker.join()
            self._worker = None

    def _working(self) -> Worker:
        """The thread, started at first need; after a fork the child starts one of its own."""
        if self._worker is None or not self._worker.is_alive():
            self._worker = Worker(self)
        return self._worker
