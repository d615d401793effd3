"""Definite assignment: does code write every cell of a tensor before somebody looks at it?"""

from __future__ import annotations

from collections.abc import Iterator
from math import prod

from weft.assign.definitions import accumulates
from weft.assign.nodes import Accum, Assignment, Node
from weft.einsum.nodes import Label
from weft.ops import OPS
from weft.project.coverage import cover, is_surjective
from weft.project.nodes import Projection
from weft.project.plan import project
from weft.shape.close import close
from weft.shape.logic import Einsum, Slice
from weft.shape.subscripts import AxisPoint


class Unwritten:
    """Nodes of which code has written some cells so far and not all: what the rest hold is what they held before."""

    __slots__ = ("_parts",)

    def __init__(self) -> None:
        self._parts: dict[Node, list[Projection]] = {}

    def __contains__(self, node: Node) -> bool:
        return node in self._parts

    def __iter__(self) -> Iterator[Node]:
        return iter(self._parts)

    def write(self, node: Node, statement: Assignment, whole: bool) -> None:
        """A statement writes a node; `whole` if every cell of it has a value already."""
        part = None if whole else written_part(statement)
        if part is None:
            self._parts.pop(node, None)
            return
        parts = self._parts.setdefault(node, [])
        parts.append(part)
        if len(parts) > 1 and cover(parts):
            del self._parts[node]


def written_part(statement: Assignment) -> Projection | None:
    """The loops of a statement that overwrites some cells of its left side and leaves the others; None if none are."""
    if not isinstance(statement, Accum) or accumulates(statement):
        return None
    record = statement.record
    if isinstance(record.operation.logic, Slice) and _is_looped(record.operation.logic):
        return None
    moves = isinstance(record.operation.logic, Einsum) or record.lhs  # all else writes the whole of its result
    starts = statement.reset and OPS[statement.accum].neutral is not None
    if not moves or starts or not prod(close(statement.lhs.shape).array_shape):
        return None
    projection = project(record.operation).view(record.lhs, *record.operands)
    return None if is_surjective(projection) else projection


def _is_looped(logic: Slice) -> bool:
    """Do loops around come to every position that is no whole axis, and is there such a one?"""
    told = [one for one in logic.subscripts if not isinstance(one, Label)]
    return bool(told) and all(isinstance(one, AxisPoint) and one.looped for one in told)
