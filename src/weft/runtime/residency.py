"""What a device holds: which nodes have values in its memory, and since when.

Time is counted by what changes: a routine runs, a value is set or received. All that is written at once has one moment.
A stored value of a computed tensor is as old as the run that left it; once anything it is computed from was written
later it is out of date, and counts no more. What the run itself wrote, it wrote at the same moment.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.assign import Awaited, Merge, Node, Operand
from weft.backends import BoundProgram
from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.compiled import Compiled
from weft.runtime.footprint import Footprint
from weft.runtime.hazards import Hazards
from weft.runtime.initial_values import InitialValues, given_values, is_computed, starts_at_zero, with_sources
from weft.runtime.memory import DeviceMemory
from weft.runtime.sources import Sources, key_of


@dataclass(slots=True, eq=False)
class Moment:
    """When something was written; a routine that runs again moves it."""

    at: int


#: When something was last written, and whether it has a value now.
Mark: TypeAlias = tuple[Moment, bool]
#: Initial values were there before everything else.
FIRST: Mark = (Moment(0), True)
NEVER: Mark = (Moment(0), False)

_NOTHING = InitialValues()


@dataclass(slots=True, eq=False)
class Residency:
    """Which values there are. Every method is called with the context's lock held."""

    memory: DeviceMemory
    hazards: Hazards
    buffer: Callable[[Operand], Buffer]
    initial_program: Callable[[tuple[Node, ...]], Compiled | None]
    device: int
    now: int = 0
    marks: dict[int, Mark] = field(default_factory=dict)
    claimed: dict[int, Claim] = field(default_factory=dict)  # who is to write each last
    sent: dict[int, tuple[str, int]] = field(default_factory=dict)  # into merge buffers, by which device, for errors

    def stores(self, key: int) -> bool:
        """Is there a value, however old?"""
        return self.marks.get(key, NEVER)[1]

    def changed_since(self, node: Node, sources: Callable[[], Sources]) -> int | None:
        """Something a stored value was computed from and that was written after it; None if it is up to date."""
        since = self.marks[node.id][0].at
        if since >= self.now or node.definition is None:
            return None
        marks = self.marks
        return next((key for key in sources().keys if marks.get(key, NEVER)[0].at > since), None)

    def can_have(self, operand: Operand) -> bool:
        """Has it a value, or gets an initial one when it is needed?"""
        starts = isinstance(operand, Node) and not isinstance(operand.init, Awaited | None)
        return self.intact(operand) if self.stores(key_of(operand)) else starts

    def intact(self, operand: Operand) -> bool:
        """Is a value stored, and did whatever was to write it succeed?"""
        return self.stores(key_of(operand)) and self.hazards.broken(self.buffer(operand)) is None

    def being_computed(self, node: Node) -> bool:
        """Does work that a signal handler, this one, interrupts compute the node, or write it for the first time?"""
        own = self.hazards.own()
        before = own.claim.before.get(node.id) if own is not None and own.claim is not None else None
        return before is not None and (node.definition is not None or not before[1])

    # Reading

    def uncomputed(self, nodes: Sequence[Node]) -> tuple[Node, ...]:
        """Those that have no value yet and whose initial values are computed."""
        return tuple([node for node in nodes if not self.stores(node.id) and is_computed(node)])

    def missing(self, work: Footprint, reader: Callable[[], str] | None = None) -> InitialValues:
        """What has to happen before work. Changes nothing; refuses to read garbage. `reader` shows who reads."""
        for node in work.merges:
            if not self.stores(key_of(Merge(node))):
                held = [one for key, one in self.sent.items() if self.stores(key)]
                raise errors.nothing_transferred(node, held, self.device)
        self.check_whole(work.reads)
        if self.hazards.own() is not None:
            for node in work.needs:
                if self.being_computed(node):
                    raise errors.being_written(node)
        missing = [node for node in work.needs if not self.stores(node.id)]
        if not missing:
            return _NOTHING
        missing = [node for node in with_sources(missing) if not self.stores(node.id)]
        computed, given = self.uncomputed(missing), {}
        for node in missing:
            if not is_computed(node):
                buffer = self.buffer(node)
                given[buffer] = given_values(node, buffer)
                starts = given[buffer] is not None or starts_at_zero(node)
                if not starts and node not in work.recurrent:
                    raise errors.never_got_a_value(node, reader, self.device, node in work.partial)
        return InitialValues(tuple(missing), given, self.initial_program(computed))

    def fill(self, initial: InitialValues) -> list[BoundProgram]:
        """Put the values that are given where they belong; what is left to call for those that are computed."""
        for buffer, array in initial.given.items():
            if array is None:
                self.memory.clear(buffer)
            else:
                self.memory.adopt(buffer, array)
        self.hazards.wrote(initial.given)
        return [self.memory.place(initial.program)[0]] if initial.program else []

    # Writing

    def next(self) -> Moment:
        """A moment later than all before."""
        self.now += 1
        return Moment(self.now)

    def check_whole(self, buffers: Sequence[Buffer]) -> None:
        """Refuse values that were to be written by something that failed."""
        for buffer in buffers:
            failure = self.hazards.broken(buffer)
            if failure is not None:
                raise errors.lost(buffer.name, failure, self.device)

    def drop(self, identity: int) -> None:
        """Forget a node that is no more."""
        for key in (identity, ~identity):
            self.marks.pop(key, None)
            self.claimed.pop(key, None)
            self.sent.pop(key, None)


@dataclass(slots=True, eq=False)
class Claim:
    """What work is to write counts as written from when it is asked for: how that was before, to be taken back."""

    residency: Residency
    before: Mapping[int, Mark] = field(default_factory=dict)
    computed: Collection[int] = ()

    def make(self, marks: Mapping[int, Mark], computed: Collection[int] = ()) -> None:
        """From now on these count as written. What is `computed` from others can be computed again."""
        known = self.residency.marks
        self.computed = computed
        self.before = {key: known.get(key, NEVER) for key in marks}
        self.residency.claimed.update(dict.fromkeys(marks, self))
        known.update(marks)

    def keep(self, keys: Collection[int]) -> None:
        """These have got their first values by now, whatever happens next."""
        self.before = {key: FIRST if key in keys else mark for key, mark in self.before.items()}

    def take_back(self) -> None:
        """It may not have happened: whatever had a value has one, the old or the new; the rest has none.

        What is computed from others is computed again when it is asked for; what another device sent is used up.
        """
        self._take_back(self.before, lambda key: key >= 0)

    def refuse(self) -> None:
        """It has not happened; what is computed from others may have been written on the way.

        What somebody asked to write since will have the value that it then gets.
        """
        claimed = self.residency.claimed
        self._take_back([key for key in self.before if claimed.get(key, self) is self], lambda key: True)

    def _take_back(self, keys: Iterable[int], stays: Callable[[int], bool]) -> None:
        moment = self.residency.next()
        kept = {key for key, mark in self.before.items() if mark[1] and stays(key) and key not in self.computed}
        self.residency.marks.update({key: (moment, key in kept) for key in keys})


def initial_marks(initial: InitialValues) -> dict[int, Mark]:
    """What initial values change in what there is."""
    return dict.fromkeys((node.id for node in initial.nodes), FIRST)


def marks_of(work: Footprint, moment: Moment) -> dict[int, Mark]:
    """What a run changes in what there is: of what it writes, what it leaves stays; merge buffers are used up."""
    gone = [*(node.id for node in work.written), *(key_of(Merge(node)) for node in work.merges)]
    left = (node.id for node in work.leaves)
    return dict.fromkeys(gone, (moment, False)) | dict.fromkeys(left, (moment, True))
