"""In which order work on a device happens: each piece waits for what was asked for earlier and touches the same memory.

What reads a buffer waits for its last writer; what writes it, for its last writer and for those who read since. All of
this is decided when work is asked for, under the context's lock, so work only ever waits for work asked for earlier.

Work on a device that has nothing else to do is direct: the thread that asks does it at once, and it has no event unless
somebody asks for other work meanwhile. A thread does not wait for its own direct work: if it asks for anything while at
it, it is a signal handler, and that work stands still until it is done.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import count
from threading import get_ident

from weft.loops import Buffer
from weft.runtime.events import Event, Failure
from weft.runtime.footprint import Footprint

_keys = count()


def next_key() -> int:
    """A number for somebody who asks for work. Of the events of one key the newest is over last."""
    return next(_keys)


@dataclass(slots=True, eq=False)
class Use:
    """Who wrote a buffer last, and who reads it since."""

    writer: Event | None = None
    readers: dict[int, Event] = field(default_factory=dict)


@dataclass(slots=True, eq=False)
class Hazards:
    """What is under way on one device. Every method but `leave` is called with the context's lock held."""

    uses: dict[Buffer, Use] = field(default_factory=dict)
    active: dict[int, Event] = field(default_factory=dict)  # the newest event of everybody who has work here
    failures: list[Failure] = field(default_factory=list)  # workers append to it
    direct: Footprint | None = None  # what direct work touches while it is under way
    owner: int = 0  # the thread that does it
    #: What it writes that others count on: how it was before.
    claimed: Mapping[int, tuple[object, bool]] = field(default_factory=dict)
    awaited: list[Event] = field(default_factory=list)  # the event of direct work, if any; another list for each

    def idle(self) -> bool:
        """Is everything over, and nothing left to tell?"""
        if self.active:
            self.active = {key: event for key, event in self.active.items() if not event.done}
        return self.direct is None and not self.active and not self.failures

    # Direct work

    def interrupted(self) -> bool:
        """Is this a signal handler, in the middle of direct work of its thread?"""
        return self.direct is not None and self.owner == get_ident()

    def take(self, work: Footprint) -> list[Event] | None:
        """Begin direct work if the device is idle; what it gives is to be handed to `leave`."""
        if not self.idle():
            return None
        self.wrote(work.writes)
        self.owner = get_ident()
        self.claimed = {}
        self.direct = work
        awaited: list[Event] = []
        self.awaited = awaited
        return awaited

    def leave(self, awaited: list[Event]) -> None:
        """Direct work is over. Who looks on meanwhile either has put an event here or sees that it is too late."""
        if self.awaited is awaited:
            self.direct = None
        for event in awaited:
            event.finish(event.failure)

    def fail(self, failure: Failure, interrupted: bool = False) -> None:
        """Direct work went wrong: what it was to write is lost, unless it was only interrupted."""
        assert self.direct is not None
        event = self._event_of(self.direct)
        event.interrupted = interrupted
        self.direct = None
        event.finish(failure)

    def _event_of(self, direct: Footprint) -> Event:
        """The event of direct work, made when somebody first asks; if the work is over by then, so is the event."""
        awaited = self.awaited
        if not awaited:
            event = Event(ended=lambda: self.awaited is not awaited or self.direct is None)
            self.enter(next_key(), event, direct)
            awaited.append(event)
            if self.direct is None:
                event.finish()
        return awaited[0]

    # All work

    def under_way(self) -> list[Event]:
        """Everything that is not over yet, and that this thread can wait for."""
        mine = self.awaited if self.interrupted() else ()
        if (direct := self.direct) is not None and not self.interrupted():
            self._event_of(direct)
        return [event for event in self.active.values() if not event.done and event not in mine]

    def needed(self, work: Footprint) -> list[Event]:
        """Whose values the work reads. Asked after `before`."""
        return [writer for writer in self._writers(work.reads) if not writer.interrupted]

    def _writers(self, buffers: Iterable[Buffer]) -> list[Event]:
        uses = (self.uses.get(buffer) for buffer in buffers)
        return [use.writer for use in uses if use is not None and use.writer is not None]

    def before(self, work: Footprint) -> list[Event]:
        """What the work has to wait for."""
        mine = self.awaited if self.interrupted() else ()
        direct = self.direct
        found = [self._event_of(direct)] if direct is not None and not self.interrupted() else []
        found += self._writers((*work.reads, *work.writes))
        uses = (self.uses.get(buffer) for buffer in work.writes)
        found += [reader for use in uses if use is not None for reader in use.readers.values()]
        return [event for event in dict.fromkeys(found) if not event.done and event not in mine]

    def enter(self, key: int, event: Event, work: Footprint) -> None:
        """From now on this work is under way."""
        self.active[key] = event
        for buffer in work.reads:
            use = self.uses.setdefault(buffer, Use())
            use.readers = {one: reader for one, reader in use.readers.items() if not reader.done}
            use.readers[key] = event
        self.wrote(work.writes, event)

    def wrote(self, buffers: Iterable[Buffer], event: Event | None = None) -> None:
        """These buffers hold what this work writes; without an event, what is there already."""
        for buffer in buffers:
            self.uses[buffer] = Use(event)

    def broken(self, buffer: Buffer) -> Failure | None:
        """Why a buffer holds no value, if whoever was to write it failed."""
        use = self.uses.get(buffer)
        writer = use.writer if use is not None else None
        return writer.failure if writer is not None and not writer.interrupted else None
