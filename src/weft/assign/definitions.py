"""Completing code: what it reads and nobody computed is computed just before its first use, once."""

from __future__ import annotations

from collections.abc import Iterable

from weft.assign.nodes import (
    Accum,
    Arg,
    Assignment,
    Awaited,
    Code,
    Comment,
    Copied,
    Direct,
    Fetch,
    Keep,
    Node,
    Noop,
    Repeat,
    Seq,
    operands_of,
    seq,
    statements,
    target,
)
from weft.shape.reach import parts_first


def complete(code: Code, given: Iterable[Node] = ()) -> Code:
    """The code with the definitions of everything it needs; nodes in `given` are read as stored."""
    return _Completion(given).complete(code)


class _Completion:
    def __init__(self, given: Iterable[Node]) -> None:
        self.ready: dict[Node, None] = dict.fromkeys(given)

    def complete(self, code: Code) -> Code:
        match code:
            case Seq(codes=codes):
                return seq(*(self.complete(one) for one in codes))
            case Comment(text=text, body=body):
                return Comment(text, self.complete(body))
            case Fetch(node=node):
                self.ready[node] = None
                return code
            case Accum(lhs=lhs) | Direct(lhs=lhs):
                needed = self._defined(nodes_read(code))
                self.ready[lhs] = None
                return seq(*needed, code)
            case Repeat():
                needed = self._defined(inputs_of(code))
                self.ready |= dict.fromkeys(map(target, statements(code)))
                return seq(*needed, code)
            case Keep(nodes=nodes):
                return seq(*self._defined(nodes), code)
            case Noop():
                return code

    def _defined(self, wanted: Iterable[Node]) -> list[Code]:
        """The definitions that some nodes need and that are not ready yet, operands first."""
        found: list[Code] = []
        for node in parts_first(self._missing(wanted), self._read):
            if node not in self.ready and node.definition is not None:
                self.ready |= dict.fromkeys([*map(target, statements(node.definition)), node])
                found.append(node.definition)
        return found

    def _read(self, node: Node) -> list[Node]:
        """What a node is computed from and must be computed first, the last first."""
        return self._missing(inputs_of(node.definition)[::-1]) if node.definition is not None else []

    def _missing(self, nodes: Iterable[Node]) -> list[Node]:
        return [one for one in nodes if one not in self.ready and one.definition is not None]


def initial(node: Node) -> Code:
    """The code that gives a node its first values."""
    match node.init:
        case None | Awaited():
            return Noop()
        case Copied(operand=operand, record=record):
            return complete(Accum(node, "arg2", True, Arg(0), (operand,), record, node.origin))
    return Fetch(node, node.init, node.origin)


def nodes_read(statement: Assignment) -> list[Node]:
    """The nodes whose computed values a statement reads, its own left side included when it accumulates into it."""
    found = [operand for operand in operands_of(statement) if isinstance(operand, Node)]
    return list(dict.fromkeys([*found, target(statement)] if accumulates(statement) else found))


def accumulates(statement: Assignment) -> bool:
    """Does a statement build on what its left side holds?"""
    if isinstance(statement, Accum):
        return not statement.reset and statement.accum != "arg2"
    return isinstance(statement, Direct) and statement.keeps


def inputs_of(code: Code) -> list[Node]:
    """The nodes that code reads before it computes them."""
    written: dict[Node, None] = {}
    needed: dict[Node, None] = {}
    for statement in statements(code):
        needed |= {node: None for node in nodes_read(statement) if node not in written}
        written[target(statement)] = None
    return list(needed)
