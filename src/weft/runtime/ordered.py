"""Ordered work of a device: done by the thread that asks for it, or by that of a queue.

Either way it is asked for under the context's lock, and what it is to write counts as written from then on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, TypeVar

from weft.errors import IndexOutOfBounds
from weft.runtime.events import Event, Failure
from weft.runtime.footprint import Footprint
from weft.runtime.hazards import Hazards, OwnWork
from weft.runtime.queue import Queue
from weft.runtime.residency import Claim

if TYPE_CHECKING:
    from weft.runtime.device_state import DeviceState

A = TypeVar("A")
R = TypeVar("R")


def in_order(state: DeviceState, ask: Callable[[OwnWork, Claim], A], do: Callable[[A], R], *, tell: bool = True) -> R:
    """Work of this thread, in its turn: `ask` is called with the lock held and begins it, `do` when its turn has come.

    What went wrong before is told first, unless it is not asked for.
    """
    hazards, work = state.hazards, OwnWork()
    work.claim = claim = Claim(state.residency)
    lost: Failure | None = None

    def asking() -> A:
        if tell:
            state.tell()
        return ask(work, claim)

    try:
        asked = state.engine.admit(asking)
        lost = work.come()
        if lost is not None:
            raise lost.tell_follower()
        return do(asked)
    except BaseException as error:
        broke_off(state, work, error, lost)
        raise
    finally:
        # Stores without calls: no signal comes between the end of the work and the word that it is over.
        if (direct := hazards.direct) is not None and direct.event is work:
            hazards.direct = None
        work.over = True
        work.wake()


def broke_off(state: DeviceState, work: OwnWork, error: BaseException, lost: Failure | None = None) -> None:
    """Own work ended in an error: what it was to write is lost, unless it was interrupted or refused."""
    with state.lock:
        if not work.thread:
            return  # it did not begin
        state.ready = None
        refused = lost is None and isinstance(error, IndexOutOfBounds)
        spared = refused or not isinstance(error, Exception)
        if spared and work.claim is not None:
            (work.claim.refuse if refused else work.claim.take_back)()
        state.hazards.enter_direct()
        work.failure, work.spared = lost or Failure(error, state.index, told=True), spared


def in_queue(
    state: DeviceState,
    queue: Queue,
    work: Callable[[], None],
    touched: Mapping[Hazards, Footprint],
    make: Callable[[Claim], None],
    started: Collection[int] = (),
) -> Event:
    """Let a queue do work, and make its claim. Interrupted, it may be done or not. Called with the lock held.

    If it is refused, those `started` have first values all the same.
    """
    claim = Claim(state.residency)

    def refusable() -> None:
        try:
            work()
        except IndexOutOfBounds:
            with state.lock:
                state.ready = None
                claim.keep(started)
                claim.refuse()
            raise

    try:
        return queue.put(refusable, touched, lambda: make(claim))
    except BaseException:
        state.ready = None
        if not claim.before:
            make(claim)
        claim.take_back()
        raise
