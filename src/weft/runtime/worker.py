"""Threads that do what is enqueued. They know their queue and nothing else, so they keep nothing alive."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue

from weft.errors import Origin
from weft.runtime.events import Event, Failure
from weft.runtime.process import watch_worker


@dataclass(frozen=True, slots=True, eq=False)
class Task:
    """Work to do once everything in `after` is over, unless something it `needs` failed."""

    event: Event
    work: Callable[[], None]
    after: tuple[Event, ...]
    needs: tuple[Event, ...]
    device: int
    origin: Origin | None

    def do(self) -> None:
        """Wait, work, and say how it ended. Done twice it is done once."""
        if self.event.over:
            return
        for one in self.after:
            one.settle()
        for need in self.needs:
            if need.failure is not None:
                self.event.finish(need.failure, skipped=True)
                return
        try:
            self.work()
        except BaseException as error:
            self.event.finish(Failure(error, self.device, self.origin))
        else:
            self.event.finish()


class Worker(threading.Thread):
    """Does the tasks of one stream, in order, until told to stop."""

    def __init__(self) -> None:
        super().__init__(name="weft stream", daemon=True)
        self.tasks: SimpleQueue[Task | None] = SimpleQueue()
        watch_worker(self)
        self.start()

    def run(self) -> None:
        """Do tasks; hold on to none while waiting for the next."""
        while (task := self.tasks.get()) is not None:
            task.do()
            del task

    def stop(self) -> None:
        """Finish what is enqueued, then end."""
        self.tasks.put(None)
