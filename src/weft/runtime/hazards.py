"""In which order work on a device happens: each piece waits for what was asked for earlier and touches the same memory.

What reads a buffer waits for its last writer; what writes it, for its last writer and for those who read since. All of
this is decided when work is asked for, under the context's lock, so work only ever waits for work asked for earlier.

Work on a device that has nothing else to do is direct: the thread that asks does it at once, and it is not entered here
unless somebody asks for other work meanwhile. A thread does not wait for its own work: if it asks for anything while at
it, it is a signal handler, and that work stands still until the handler is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from itertools import count
from threading import get_ident
from typing import TYPE_CHECKING

from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.events import Event, Failure
from weft.runtime.footprint import Footprint

if TYPE_CHECKING:
    from weft.runtime.residency import Claim

_keys = count()


def next_key() -> int:
    """A number for somebody who asks for work. Of the events of one key the newest is over last."""
    return next(_keys)


class OwnWork(Event):
    """The end of work that the thread which asks for it does itself, and what counts as written meanwhile."""

    claim: Claim | None = None


class DirectRun:
    """Own work that is not entered: what it touches, who does it, and its event, if it has one by now.

    (One is made for every call, so it is not initialised but has all three set.)
    """

    __slots__ = ("event", "footprint", "thread")
    event: OwnWork | None
    footprint: Footprint
    thread: int


@dataclass(slots=True, eq=False)
class Use:
    """Who wrote a buffer last, and who reads it since."""

    writer: Event | None = None
    readers: dict[int, Event] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Hazards:
    """What is under way on one device. Every method is called with the context's lock held."""

    uses: dict[Buffer, Use] = field(default_factory=dict)
    active: dict[int, Event] = field(default_factory=dict)  # the newest event of everybody who has work here
    direct: DirectRun | None = None  # who does it takes it away, without the lock
    failures: list[Failure] = field(default_factory=list)  # workers append to it

    def idle(self) -> bool:
        """Is everything over, and nothing left to tell?"""
        if self.active:
            self.active = {key: event for key, event in self.active.items() if not event.done}
        return self.direct is None and not self.active and not self.failures

    def own(self) -> OwnWork | None:
        """The work this thread is at, if any: then who asks is a signal handler in the middle of it."""
        if self.direct is None and not self.active:
            return None
        self.enter_direct()
        me = get_ident()
        for one in self.active.values():
            if one.thread == me and not one.over and isinstance(one, OwnWork):
                return one
        return None

    def begin(self, work: OwnWork, footprint: Footprint, also: Sequence[Event] = ()) -> None:
        """Own work takes its place in the order, behind `also` too: it is direct if the device is idle."""
        work.thread = get_ident()
        if self.idle():
            self.wrote(footprint.writes)
            direct = DirectRun()
            direct.event, direct.footprint, direct.thread = work, footprint, work.thread
            self.direct = direct
        else:
            work.after = [*self.before(footprint), *also]
            work.needs = self.needed(footprint)
            self.enter(next_key(), work, footprint)

    def under_way(self) -> list[Event]:
        """Everything that is not over yet, and that this thread can wait for."""
        self.enter_direct()
        waiting = [event for event in self.active.values() if not event.done]
        return [event for event in waiting if not event.is_behind(get_ident())] if self.own() else waiting

    def before(self, work: Footprint) -> list[Event]:
        """What work has to wait for."""
        self.enter_direct()
        found = self._writers((*work.reads, *work.writes))
        uses = (self.uses.get(buffer) for buffer in work.writes)
        found += [reader for use in uses if use is not None for reader in use.readers.values()]
        waiting = [event for event in dict.fromkeys(found) if not event.done]
        if waiting and self.own() is not None:
            waiting = [event for event in waiting if event.thread != get_ident()]
            if any(event.is_behind(get_ident()) for event in waiting):
                raise errors.behind_own_work()
        return waiting

    def needed(self, work: Footprint) -> list[Event]:
        """Whose values work reads. Asked after `before`."""
        return [writer for writer in self._writers(work.reads) if not writer.spared]

    def _writers(self, buffers: Iterable[Buffer]) -> list[Event]:
        uses = (self.uses.get(buffer) for buffer in buffers)
        return [use.writer for use in uses if use is not None and use.writer is not None]

    def enter(self, key: int, event: Event, work: Footprint) -> None:
        """From now on this work is under way."""
        self.active[key] = event
        for buffer in work.reads:
            use = self.uses.setdefault(buffer, Use())
            use.readers = {one: reader for one, reader in use.readers.items() if not reader.done}
            use.readers[key] = event
        self.wrote(work.writes, event)

    def enter_direct(self) -> None:
        """Somebody else asks: direct work gets the place in the order that it has had from its beginning."""
        if (direct := self.direct) is not None:
            event = direct.event or OwnWork()
            event.thread, direct.event = direct.thread, event
            if self.direct is None:
                event.over = True  # it ended just now, and who ended it may not have seen that there is an event
            self.enter(next_key(), event, direct.footprint)
            self.direct = None

    def wrote(self, buffers: Iterable[Buffer], event: Event | None = None) -> None:
        """These buffers hold what this work writes; without an event, what is there already."""
        for buffer in buffers:
            self.uses[buffer] = Use(event)

    def broken(self, buffer: Buffer) -> Failure | None:
        """Why a buffer holds no value, if whoever was to write it failed."""
        use = self.uses.get(buffer)
        writer = use.writer if use is not None else None
        return writer.failure if writer is not None and not writer.spared else None
