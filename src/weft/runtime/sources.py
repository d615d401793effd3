"""Dependencies of a computed tensor: the leaves it is computed from, through everything in between."""

from __future__ import annotations

from dataclasses import dataclass

from weft.assign import Awaited, Merge, Node, Operand, Stored, node_of, operands_of, statements, symbols, target
from weft.runtime import errors


def key_of(operand: Operand) -> int:
    """A number for what is stored: that of a node, or of what another device sent for it."""
    node = node_of(operand)
    return ~node.id if isinstance(operand, Merge) else node.id


@dataclass(frozen=True, slots=True)
class Sources:
    """Leaves by key, and the names of static indices. It names nodes by number, so it keeps none alive."""

    keys: tuple[int, ...]
    indices: tuple[str, ...]


def sources_of(node: Node) -> Sources:
    """What a computed node is computed from; refused if that has values only in calls."""
    leaves, indices = leaves_of(node)
    for leaf in map(node_of, leaves):
        if isinstance(leaf.init, Awaited):
            raise errors.not_handed_in(leaf)
    return Sources(tuple(map(key_of, leaves)), tuple(indices))


def leaves_of(node: Node) -> tuple[list[Operand], list[str]]:
    """The leaves of a computed node, and the static indices it depends on, but for those that count.

    A leaf is a parameter, data, a node that is assigned to, what another device sent, or a value read as stored.
    """
    leaves: dict[Operand, None] = {}
    indices: dict[str, None] = {}
    seen, stack = {node}, [node]
    while stack:
        definition = stack.pop().definition
        assert definition is not None
        indices |= dict.fromkeys(one.name for one, _ in symbols(definition) if not one.counts)
        own = {target(statement) for statement in statements(definition)}
        for operand in (one for statement in statements(definition) for one in operands_of(statement)):
            if isinstance(operand, Merge | Stored) or operand.definition is None:
                if operand not in own:
                    leaves[operand] = None
            elif operand not in seen:
                seen.add(operand)
                stack.append(operand)
    return list(leaves), list(indices)
