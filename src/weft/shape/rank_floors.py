"""How many axes open rows must have at least.

A result that must have more axes than anything that goes into it would get has them from all its open operands, and so
on down to the leaves. What is free to have as many as the result is asked first, so that nothing else need grow. A
constant fits any shape, so it lends its axes to nobody.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Collection, Iterator, Mapping, Sequence

from weft.shape.cells import RowCell
from weft.shape.rows import RowBelowRule, RowIsRule, RowJoinRule


def raised_floors(
    rows: Sequence[RowCell], floors: Mapping[RowCell, int], ranks: Mapping[RowCell, int], anchored: Collection[RowCell]
) -> dict[RowCell, int] | None:
    """The floors that open rows must have beyond these, where leaves get these ranks; None if these will do."""
    joins = dict.fromkeys(rule for row in rows for rule in row.watchers if isinstance(rule, RowJoinRule))
    if not any(_is_short(rule, floors, {}) for rule in joins):
        return None
    given, raised = _given(rows, ranks), dict(floors)
    queue = deque(one for rule in joins if _is_short(rule, raised, given) for one in _owing(rule, raised))
    while queue:
        row, rank = queue.popleft()
        if row.axes is None and min(rank, row.hi) > raised.get(row, row.lo):
            raised[row] = min(rank, row.hi)
            queue.extend(_equal(row, raised[row]))
            for rule in row.watchers:
                if isinstance(rule, RowJoinRule) and rule.result is row and not _has_free(rule, anchored):
                    queue.extend(_owing(rule, raised) if _is_short(rule, raised, given) else ())
    return raised if raised != floors else None


def _has_free(rule: RowJoinRule, anchored: Collection[RowCell]) -> bool:
    """Is there an operand that would have as many axes as the result if it were asked again?"""
    return any(row.axes is None and row not in anchored and row.role != "constant" for row in rule.operands)


def _is_short(rule: RowJoinRule, floors: Mapping[RowCell, int], given: Mapping[RowCell, int]) -> bool:
    """Must a result have more axes than any of its operands?"""
    return floors.get(rule.result, rule.result.lo) > max(given.get(row, row.lo) for row in rule.operands)


def _owing(rule: RowJoinRule, floors: Mapping[RowCell, int]) -> Iterator[tuple[RowCell, int]]:
    rank = floors.get(rule.result, rule.result.lo)
    return ((row, rank) for row in rule.operands if row.role != "constant")


def _given(rows: Sequence[RowCell], ranks: Mapping[RowCell, int]) -> dict[RowCell, int]:
    """How many axes rows get from leaves of these ranks."""
    given = {row: min(ranks.get(row, row.lo), row.hi) if row.grows else row.lo for row in rows}
    queue = deque(given)
    while queue:
        row = queue.popleft()
        above = (rule.result for rule in row.watchers if isinstance(rule, RowBelowRule) and rule.operand is row)
        for other, rank in (*((one, given[row]) for one in above), *_equal(row, given[row])):
            if other in given and min(rank, other.hi) > given[other]:
                given[other] = min(rank, other.hi)
                queue.append(other)
    return given


def _equal(row: RowCell, rank: int) -> Iterator[tuple[RowCell, int]]:
    """The rows that have as many axes as this one, less or more those that a specification names."""
    for rule in row.watchers:
        if isinstance(rule, RowIsRule) and rule.middle is not None:
            if rule.row is not row:
                yield rule.row, rank + rule.flanks
            elif rank > rule.least:  # a row of no axes may stand for a single number
                yield rule.middle, rank - rule.flanks
