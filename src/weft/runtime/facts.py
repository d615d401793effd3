"""What code does to memory: read off before it is compiled."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property

from weft.assign import Code, Merge, Node, Operand, Stored, node_of, operands_of, statements, target
from weft.assign.definite_assignment import Unwritten
from weft.assign.definitions import reads
from weft.assign.nodes import keeps
from weft.loops import Buffer
from weft.runtime.hazards import Touch


@dataclass(frozen=True, eq=False)
class Facts:
    """What completed code needs to find in memory, writes, leaves stored and why, and what it touches at all.

    `completed` are the nodes it needs only because it writes some of their cells and leaves the others as they are,
    `recurrent` those of its own that it reads before it writes them: they start at zero.
    """

    needs: tuple[Operand, ...]
    written: tuple[Node, ...]
    kept: Mapping[Node, str]
    touched: tuple[Node, ...]
    completed: frozenset[Node] = frozenset()
    recurrent: frozenset[Node] = frozenset()

    @property
    def leaves(self) -> tuple[Node, ...]:
        return tuple(self.kept)

    @cached_property
    def computed(self) -> frozenset[int]:
        """Of the nodes it writes, those computed from others, by id: they can be computed again."""
        return frozenset(node.id for node in self.written if node.definition is not None)


@dataclass(frozen=True, slots=True)
class Reads:
    """What must be in memory before something can run: values of nodes, and what other devices sent for some."""

    nodes: tuple[Node, ...]
    merges: tuple[Node, ...]
    buffers: tuple[Buffer, ...]
    completed: frozenset[Node] = frozenset()
    recurrent: frozenset[Node] = frozenset()


def reads_of(facts: Facts, buffer: Callable[[Operand], Buffer]) -> Reads:
    """What code finds in memory."""
    nodes = dict.fromkeys(node_of(operand) for operand in facts.needs if not isinstance(operand, Merge))
    merges = dict.fromkeys(operand.node for operand in facts.needs if isinstance(operand, Merge))
    buffers = dict.fromkeys(buffer(operand) for operand in facts.needs)
    return Reads(tuple(nodes), tuple(merges), tuple(buffers), facts.completed, facts.recurrent)


def touch_of(facts: Facts, reads: Reads, buffers: Sequence[Buffer], buffer: Callable[[Operand], Buffer]) -> Touch:
    """The memory a program finds, and the memory it writes: scratch is written too."""
    written = {buffer(node) for node in facts.written}
    found = set(reads.buffers)
    writes = [one for one in buffers if one in written or one not in found]
    return Touch(reads.buffers, tuple(writes))


def analyse(code: Code) -> Facts:
    """Read off completed code what it does to memory. Its shapes are closed.

    What is read, or left, before every cell of it was written must be there before: a write to some cells is not a
    write to all.
    """
    needs: dict[Operand, None] = {}
    consumed: dict[Node, bool] = {}  # every node written so far: has it been read since?
    unwritten = Unwritten()
    completed: set[Node] = set()
    touched: dict[Node, None] = {}
    for statement in statements(code):
        for operand in operands_of(statement):
            node = node_of(operand)
            touched[node] = None
            if isinstance(operand, Merge | Stored) or node not in consumed:
                needs[operand] = None
            else:
                consumed[node] = True
        found = reads(statement)
        completed.update(node for node in found if node in unwritten and node not in needs)
        needs |= dict.fromkeys(node for node in found if node not in consumed or node in unwritten)
        written = target(statement)
        touched[written] = None
        had = written in needs or (written in consumed and written not in unwritten)
        unwritten.write(written, statement, had)
        consumed[written] = False
    completed.update(node for node in unwritten if node not in needs)
    needs |= dict.fromkeys(unwritten)
    asked = {node for keep in keeps(code) for node in keep.nodes}
    why = {node: _why_kept(node, read, node in asked, node in needs) for node, read in consumed.items()}
    kept = {node: reason for node, reason in why.items() if reason}
    recurrent = frozenset(node for node in consumed if node in needs and node not in completed and _is_own(node))
    return Facts(tuple(needs), tuple(consumed), kept, tuple(touched), frozenset(completed), recurrent)


def _is_own(node: Node) -> bool:
    """Is it a node of code's own, neither a leaf of a model, nor computed, nor a gradient?"""
    return node.init is None and node.definition is None and node.gradient_of is None


def _why_kept(node: Node, read: bool, asked: bool, builds: bool) -> str:
    """Why a node that code writes is stored afterwards; empty if it is not. `builds`: on what it held before."""
    if asked:
        return "asked for"
    if node.verify:
        return "checked after every run"
    if not read:
        return "what the routine ends with"
    if node.definition is not None or node.gradient_of is not None:
        return ""
    if node.init is not None:
        return "keeps its value between runs"
    return "its old value is read" if builds or not node.made_inline else ""
