"""Expressions that code would compute from other values than were there when they were made.

    old = a * 1.0;  a[:] = b;  b[:] = old

Code computes an expression where it is used. Made in the same recording before something it reads is written, and used
after that, it would not be what Python's reader takes it for: it is refused. What was made before the recording is part
of the model, and is meant as it is at its first use.
"""

from __future__ import annotations

from collections.abc import Iterable

from weft.assign.definitions import inputs_of
from weft.assign.nodes import Assignment, Node, Operand, next_id, node_of, target
from weft.errors import WeftError, said_at


class Writes:
    """What was written in a recording, and which of the expressions made and used in it are stale.

    Nodes are numbered as they are made, and writes by the same count. An expression is looked at when it is first used,
    and told of writes from then on, so that all this takes a time linear in what is recorded.
    """

    __slots__ = ("_last", "_readers", "_seen", "_stale", "_started")

    def __init__(self) -> None:
        self._started = next_id()
        self._last: dict[Node, tuple[int, Assignment]] = {}
        self._readers: dict[Node, list[Node]] = {}
        self._seen: set[Node] = set()
        self._stale: dict[Node, Assignment] = {}

    def use(self, operands: Iterable[Operand]) -> None:
        """Refuse what is stale."""
        for node in map(node_of, operands):
            self._look(node)
            if node in self._stale:
                raise _stale(node, self._stale[node])

    def write(self, statement: Assignment) -> None:
        """Something is written: whatever was used so far and reads it is stale."""
        written = target(statement)
        self._last[written] = (next_id(), statement)
        self._spread(written, statement)

    def _look(self, node: Node) -> None:
        """Learn what an expression made here is computed from."""
        stack = [node]
        while stack:
            one = stack.pop()
            if one in self._seen or one.definition is None or one.id <= self._started:
                continue
            self._seen.add(one)
            for read in inputs_of(one.definition):
                self._readers.setdefault(read, []).append(one)
                stack.append(read)
                moment, statement = self._last.get(read, (0, None))
                if statement is not None and moment > one.id:
                    self._mark(one, statement)
                elif read in self._stale:
                    self._mark(one, self._stale[read])

    def _mark(self, node: Node, statement: Assignment) -> None:
        if node not in self._stale:
            self._stale[node] = statement
            self._spread(node, statement)

    def _spread(self, node: Node, statement: Assignment) -> None:
        stack = [node]
        while stack:
            fresh = [reader for reader in self._readers.get(stack.pop(), ()) if reader not in self._stale]
            self._stale |= dict.fromkeys(fresh, statement)
            stack += fresh


def _stale(node: Node, statement: Assignment) -> WeftError:
    written = target(statement)
    return WeftError(
        f"`{node.label}` reads `{written.label}`, which was written after `{node.label}` was made",
        notes=[
            *said_at("made", node.origin),
            *said_at(f"`{written.label}` is written", statement.origin),
            "code computes an expression where it is used, so it would be computed from the new value",
        ],
        fix=f"keep the old value in a node before the write, `kept = wf.node(…); kept[:] = …`, or write the expression "
        f"after it, if the new `{written.label}` is meant",
    )
