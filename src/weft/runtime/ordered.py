"""The calling thread's own work on a device, in order with what others enqueued there."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field

from weft.runtime.events import Event, Failure
from weft.runtime.footprint import Footprint
from weft.runtime.hazards import Hazards, next_key
from weft.runtime.residency import FIRST, NEVER, Mark, Residency


@dataclass(slots=True, eq=False)
class OrderedWork:
    """Begin and claim under the lock, settle without it, work; then, however that ended, end."""

    hazards: Hazards
    residency: Residency
    needs: list[Event] = field(default_factory=list)
    failure: Failure | None = None
    before: Mapping[int, Mark] = field(default_factory=dict)
    computed: Collection[int] = ()
    awaited: list[Event] | None = None  # of direct work
    event: Event | None = None  # of work that waits for others
    after: list[Event] = field(default_factory=list)  # what it still waits for

    def begin(self, work: Footprint, also: tuple[Event, ...] = (), key: int | None = None) -> Event | None:
        """Take a place in the order, behind `also` too. There is an event if others are at work."""
        self.awaited = self.hazards.take(work)
        if self.awaited is None:
            self.after = [*self.hazards.before(work), *also]
            self.needs = self.hazards.needed(work)
            self.event = event = Event()
            self.hazards.enter(next_key() if key is None else key, event, work)
        return self.event

    def claim(self, marks: Mapping[int, Mark], computed: Collection[int] = ()) -> None:
        """From now on these count as written. What is `computed` from others can be computed again."""
        if not marks:
            return
        known = self.residency.marks
        self.computed = computed
        self.before = before = {key: known.get(key, NEVER) for key in marks}
        if self.awaited is not None:
            self.hazards.claimed = before
        known.update(marks)

    @property
    def claimed(self) -> bool:
        return bool(self.before)

    def keep(self, keys: Collection[int]) -> None:
        """These have got their first values by now, whatever happens next."""
        self.before = {key: FIRST if key in keys else mark for key, mark in self.before.items()}

    def settle(self) -> None:
        """Wait until it is this work's turn."""
        while self.after:
            self.after[-1].settle()
            self.after.pop()
        for need in self.needs:
            if need.failure is not None:
                self.failure = need.failure
                raise need.failure.tell_follower()

    def take_back(self) -> None:
        """What was claimed may not have happened."""
        self.residency.take_back(self.before, self.computed)

    def fail(self, error: BaseException, device: int) -> None:
        """The work broke off. Called with the lock held."""
        interrupted = not isinstance(error, Exception)
        failure = self.failure or Failure(error, device, told=True)
        if interrupted:
            self.take_back()
        if self.event is not None:
            self.event.interrupted, self.event.failure = interrupted, failure
        elif self.awaited is not None and self.hazards.awaited is self.awaited and self.hazards.direct is not None:
            self.hazards.fail(failure, interrupted)

    def end(self) -> None:
        """Wake who waits for it."""
        if self.event is not None:
            self.event.finish(self.event.failure)
        elif self.awaited is not None:
            self.hazards.leave(self.awaited)
