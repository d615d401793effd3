"""Values of tensors on a device: stored ones read and written, others computed from leaves."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, TypeAlias

from weft.assign import Merge, Node, Operand
from weft.backends import Array, Block, BoundProgram
from weft.dlpack import DeviceArray
from weft.loops import Buffer
from weft.runtime import errors
from weft.runtime.compiled import Compiled
from weft.runtime.events import Event
from weft.runtime.footprint import Footprint
from weft.runtime.hazards import OwnWork
from weft.runtime.ordered import in_order, in_queue
from weft.runtime.queue import Queue
from weft.runtime.residency import Claim, initial_marks
from weft.runtime.sources import key_of, leaves_of

if TYPE_CHECKING:
    from weft.runtime.device_state import DeviceState

#: Makes an array of what a block of a buffer holds.
Take: TypeAlias = Callable[[Buffer, Block], Any]


def value(state: DeviceState, node: Node, take: Take | None = None) -> Array:
    """The value of a node: as stored if that is up to date, else computed from leaves. `take` gets it off a block."""
    changed: int | None = None
    with state.lock:
        stored = state.residency.stores(node.id) and not state.residency.being_computed(node)
        if stored:
            changed = _changed_since(state, node)
    if node.definition is not None and (not stored or changed is not None):
        return _compute(state, node, changed, take)
    if node.gradient_of is not None and not stored:
        raise errors.not_stored(node, state.index)
    return read(state, node, take)


def value_there(state: DeviceState, node: Node) -> DeviceArray:
    """The value of a node as an array of the caller's own that lies on the device."""
    found: Any = value(state, node, state.memory.lent)
    assert isinstance(found, DeviceArray)
    return found


def has_value(state: DeviceState, node: Node) -> bool:
    """Is there a value to be had?"""
    with state.lock:
        if node.definition is None:
            return state.residency.can_have(node)
        if state.residency.intact(node) and _changed_since(state, node) is None:
            return True
        leaves, indices = leaves_of(node)
        return not indices and all(map(state.residency.can_have, leaves))


def holds(state: DeviceState, node: Node) -> bool:
    """Is a value stored of the node, or of anything it is computed from?"""
    sources = state.engine.sources(node).keys if node.definition is not None else ()
    with state.lock:
        return any(map(state.residency.stores, (node.id, *sources)))


def _changed_since(state: DeviceState, node: Node) -> int | None:
    return state.residency.changed_since(node, lambda: state.engine.sources(node))


# Reading


def read(state: DeviceState, node: Node, take: Take | None = None) -> Array:
    """The value of a node, stored or its initial one."""
    work = Footprint((state.engine.layout.buffer(node),), needs=(node,))
    return _found(state, (node,), work, take=take)[0]


def read_all(state: DeviceState, nodes: Sequence[Node], from_zero: Collection[Node]) -> list[Array]:
    """The values of nodes between two runs, stored or their initial ones; some that have none begin at zero."""
    reads = tuple(map(state.engine.layout.buffer, nodes))
    return _found(state, nodes, Footprint(reads, needs=tuple(nodes), recurrent=frozenset(from_zero)))


def _compute(state: DeviceState, node: Node, changed: int | None, take: Take | None) -> Array:
    """Compute a node from leaves, in memory of its own: what routines left stored is not touched."""
    program, work, counters = state.engine.computing(node, changed)
    given = state.engine.counters.now(counters) if counters else {}
    return _found(state, (node,), work, program, lambda: state.engine.show_computing(node), given, take)[0]


def _found(
    state: DeviceState,
    nodes: Sequence[Node],
    work: Footprint,
    program: Compiled | None = None,
    reader: Callable[[], str] | None = None,
    given: Mapping[str, int] = MappingProxyType({}),
    take: Take | None = None,
) -> list[Array]:
    """The values of nodes once everything that work reads is there, and the program has run."""
    buffers, residency, memory = list(map(state.engine.layout.buffer, nodes)), state.residency, state.memory
    state.compile_initial_values(work.needs)

    def ask(own: OwnWork, claim: Claim) -> tuple[Sequence[BoundProgram], Sequence[Block]]:
        initial = residency.missing(work, reader)
        calls, blocks = state.fill(initial), memory.blocks
        if program is not None:
            bound, blocks = memory.place(program, work.writes)
            calls.append(bound)
        state.hazards.begin(own, Footprint(work.reads, initial.buffers))
        if initial.nodes or work.merges:
            used = {key_of(Merge(one)): (residency.next(), False) for one in work.merges}
            claim.make({**initial_marks(initial), **used})
        return calls, [blocks[buffer] for buffer in buffers]

    def do(asked: tuple[Sequence[BoundProgram], Sequence[Block]]) -> list[Array]:
        calls, found = asked
        for call in calls:
            call(given)
        state.wait()
        return [(take or memory.download)(*one) for one in zip(buffers, found, strict=True)]

    return in_order(state, ask, do)


# Writing


def write(state: DeviceState, node: Node, array: Array) -> None:
    """Store the values of an array of the node's shape and type."""
    write_all(state, {node: array})


def write_all(state: DeviceState, arrays: Mapping[Node, Array]) -> None:
    """Store the values of arrays, each of its node's shape and type, at one moment; or there is no memory for all."""
    buffers = {node: state.engine.layout.buffer(node) for node in arrays}

    def ask(own: OwnWork, claim: Claim) -> Mapping[Operand, tuple[Buffer, Block]]:
        state.refuse_inside()
        written: dict[Operand, tuple[Buffer, Block]]
        written = {node: (buffer, state.memory.writable(buffer)) for node, buffer in buffers.items()}
        state.hazards.begin(own, Footprint((), tuple(buffers.values())))
        _overwrite(state, written, claim)
        return written

    def do(written: Mapping[Operand, tuple[Buffer, Block]]) -> None:
        for node, array in arrays.items():
            buffer, block = written[node]
            state.memory.upload(buffer, array, block)

    in_order(state, ask, do, tell=False)


def receive(state: DeviceState, queue: Queue, node: Node, source: DeviceState, merge: bool) -> Event:
    """Let a queue of a device copy a node's stored value from another device."""
    operand, layout = Merge(node) if merge else node, state.engine.layout
    sent, into = layout.buffer(node), layout.buffer(operand)

    def ask() -> Event:
        state.refuse_inside()
        _check_sent(source, node, sent)
        block = state.memory.writable(into)
        if merge:
            state.residency.sent[key_of(operand)] = (node.label, source.index)
        found = source.memory.blocks[sent]

        def copy() -> None:
            state.engine.backend.copy(found, block)
            state.wait()

        touched = {source.hazards: Footprint((sent,)), state.hazards: Footprint((), (into,))}
        return in_queue(state, queue, copy, touched, lambda claim: _overwrite(state, {operand: (into, block)}, claim))

    return state.engine.admit(ask)


def _check_sent(source: DeviceState, node: Node, sent: Buffer) -> None:
    """Refuse to send what is not there, or is out of date."""
    if not source.residency.stores(node.id):
        raise errors.nothing_to_send(node, source.index)
    source.residency.check_whole((sent,))
    changed = _changed_since(source, node)
    if changed is not None:
        raise errors.out_of_date(node, source.engine.layout.label(changed), source.index)


def _overwrite(state: DeviceState, written: Mapping[Operand, tuple[Buffer, Block]], claim: Claim) -> None:
    """Blocks are to be written as a whole; where they are others than before, what was ready is no longer."""
    blocks, moment = state.memory.blocks, state.residency.next()
    replaced = {operand: one for operand, one in written.items() if blocks.get(one[0]) is not one[1]}
    claim.make(dict.fromkeys(map(key_of, written), (moment, True)), tuple(map(key_of, replaced)))
    if replaced:
        state.ready = None
    for buffer, block in replaced.values():
        state.memory.put(buffer, block)
