"""The footprint of work: what it finds in memory, what it writes, what it leaves there."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from types import MappingProxyType
from typing import NamedTuple

from weft.assign import Code, Merge, Node, Operand, Stored, node_of, operands_of, statements, target
from weft.assign.definite_assignment import Unwritten
from weft.assign.definitions import nodes_read
from weft.assign.nodes import keeps
from weft.errors import WeftError
from weft.loops import Buffer


class Footprint(NamedTuple):
    """What work does to memory: as buffers, and as nodes where it is a program's.

    `nodes_read` are buffers it finds values in, `writes` those it writes, scratch too. Of the nodes, `needs` must have
    values and `merges` what another device sent: the `partial` ones because it writes some of their cells and leaves
    the others as they are; the `recurrent` ones are its own, read before it writes them, and start at zero. It changes
    those `written`; `leaves` says why some of them are stored afterwards. Those `computed` from others, by id, can be
    computed again. (A tuple, since one is made whenever a value is read.)
    """

    reads: tuple[Buffer, ...] = ()
    writes: tuple[Buffer, ...] = ()
    needs: tuple[Node, ...] = ()
    merges: tuple[Node, ...] = ()
    partial: frozenset[Node] = frozenset()
    recurrent: frozenset[Node] = frozenset()
    written: tuple[Node, ...] = ()
    leaves: Mapping[Node, str] = MappingProxyType({})
    computed: frozenset[int] = frozenset()

    def placed(self, buffer: Callable[[Operand], Buffer], touched: Iterable[Buffer]) -> Footprint:
        """The same in buffers, of a program that touches some: what it does not find it writes."""
        operands: tuple[Operand, ...] = (*self.needs, *map(Merge, self.merges))
        found = dict.fromkeys(map(buffer, operands))
        written = set(map(buffer, self.written))
        return self._replace(reads=tuple(found), writes=tuple(b for b in touched if b in written or b not in found))

    def without(self, inputs: Collection[Node]) -> Footprint:
        """The same where inputs are handed in with each run: it finds no values in them."""
        return self._replace(needs=tuple(node for node in self.needs if node not in inputs)) if inputs else self

    def found(self) -> Footprint:
        """What is found, without a word of what is written: so it keeps none of that alive."""
        return self._replace(written=(), leaves={}, computed=frozenset())


def nodes_in(code: Code) -> tuple[Node, ...]:
    """The nodes that code touches."""
    touched = (node for one in statements(code) for node in (*map(node_of, operands_of(one)), target(one)))
    return tuple(dict.fromkeys(touched))


def footprint_of(code: Code) -> Footprint:
    """Read off completed code what it does to nodes. Its shapes are closed.

    What is read, or left, before every cell of it was written must be there before: a write to some cells is not a
    write to all.
    """
    needs: dict[Operand, None] = {}
    consumed: dict[Node, bool] = {}  # every node written so far: has it been read since?
    unwritten = Unwritten()
    partial: set[Node] = set()
    for statement in statements(code):
        for operand in operands_of(statement):
            node = node_of(operand)
            if isinstance(operand, Merge | Stored) or node not in consumed:
                needs[operand] = None
            else:
                consumed[node] = True
        found = nodes_read(statement)
        partial.update(node for node in found if node in unwritten and node not in needs)
        needs |= dict.fromkeys(node for node in found if node not in consumed or node in unwritten)
        written = target(statement)
        had = written in needs or (written in consumed and written not in unwritten)
        unwritten.write(written, statement, had)
        consumed[written] = False
    partial.update(node for node in unwritten if node not in needs)
    needs |= dict.fromkeys(unwritten)
    _check_stored(needs, consumed)
    asked = {node for keep in keeps(code) for node in keep.nodes}
    why = {node: _why_kept(node, read, node in asked, node in needs) for node, read in consumed.items()}
    return Footprint(
        needs=tuple(dict.fromkeys(node_of(operand) for operand in needs if not isinstance(operand, Merge))),
        merges=tuple(operand.node for operand in needs if isinstance(operand, Merge)),
        partial=frozenset(partial),
        recurrent=frozenset(node for node in consumed if node in needs and node not in partial and _is_own(node)),
        written=tuple(consumed),
        leaves={node: reason for node, reason in why.items() if reason},
        computed=frozenset(node.id for node in consumed if node.definition is not None),
    )


def _check_stored(needs: Iterable[Operand], written: Mapping[Node, bool]) -> None:
    for operand in needs:
        if isinstance(operand, Stored) and operand.node in written:
            what = f"the code computes `{operand}` and also reads its stored value"
            raise WeftError(what, fix="read one of the two in a routine of its own")


def _is_own(node: Node) -> bool:
    """Is it a node of code's own, neither a leaf of a model, nor computed, nor a gradient?"""
    return node.init is None and node.definition is None and node.gradient_of is None


def _why_kept(node: Node, read: bool, asked: bool, builds: bool) -> str:
    """Why a node that code writes is stored afterwards; empty if it is not. `builds`: on what it held before."""
    if asked:
        return "asked for"
    if node.check is not None:
        return "checked in every run"
    if node.iterations is not None:
        return ""
    if not read:
        return "what the routine ends with"
    if node.definition is not None or node.gradient_of is not None:
        return ""
    if node.init is not None:
        return "keeps its value between runs"
    return "its old value is read" if builds or node.declared is None else ""
