"""Threads that do what is enqueued. They know their queue and nothing else, so they keep nothing alive."""

from __future__ import annotations

import os
from _thread import start_new_thread
from collections.abc import Callable
from dataclasses import dataclass
from queue import SimpleQueue
from typing import TYPE_CHECKING
from weakref import ref

from weft.errors import Origin
from weft.runtime.events import Event, Failure
from weft.runtime.fork import watch_worker

if TYPE_CHECKING:
    from weft.runtime.queue import Queue


@dataclass(frozen=True, slots=True, eq=False)
class WorkItem:
    """Work to do when its turn has come, unless something it reads is lost."""

    event: Event
    work: Callable[[], None]
    device: int
    origin: Origin | None

    def do(self) -> None:
        """Wait, work, and say how it ended. Done twice it is done once."""
        if self.event.over:
            return
        lost = self.event.come()
        if lost is not None:
            self.event.finish(lost, skipped=True)
            return
        try:
            self.work()
        except BaseException as error:
            self.event.finish(Failure(error, self.device, self.origin))
        else:
            self.event.finish()


class Worker:
    """A thread that does the tasks of one queue, in order, until it is told to stop or the queue is no more.

    It is a bare thread: one of `threading` is waited for when it starts, in Python, which must not be interrupted.
    """

    def __init__(self, queue: Queue) -> None:
        self.tasks: SimpleQueue[WorkItem | object] = SimpleQueue()
        self._queue = ref(queue, self.tasks.put)
        self._ended = Event()
        self._process = os.getpid()
        watch_worker(self)
        start_new_thread(self._run, ())

    def _run(self) -> None:
        """Do tasks; hold on to none while waiting for the next."""
        while isinstance(task := self.tasks.get(), WorkItem):
            task.do()
            del task
        self._ended.finish()

    def is_alive(self) -> bool:
        """Does it go on? After a fork the child has none of the threads."""
        return not self._ended.over and self._process == os.getpid()

    def stop(self) -> None:
        """Finish what is enqueued, then end."""
        self.tasks.put(None)

    def join(self) -> None:
        """Return when it has ended."""
        self._ended.settle()
