"""How many axes the uses of an open row ask for.

A row is asked for as many axes as what it broadcasts to is known to have, the fewest over all its uses. A result
that nothing of known rank has gone into is seen through to its own uses. So `w + x`, `relu(w) + x`
and `(w + v) + x` ask the same of `w`, while in `(x + w) + y` it is `x` that `w` goes with.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Sequence

from weft.shape.cells import RowCell
from weft.shape.rows import RowBelowRule, RowIsRule


def wanted_ranks(rows: Sequence[RowCell]) -> dict[RowCell, int]:
    """How many axes each open leaf is asked for, and each row that leaves are seen through."""
    said = _said(rows)
    found: dict[RowCell, int] = {}
    asked = dict.fromkeys(row for row in reversed(rows) if row.role != "inner" or row not in said)
    queue = deque(asked)  # uses come before what they use, so most rows are looked at once
    while queue:
        row = queue.popleft()
        asks = [rank + more for other, more in _uses(row) if (rank := _rank(other, said, found)) is not None]
        if asks and (row not in found or max(row.lo, min(asks)) < found[row]):
            found[row] = max(row.lo, min(asks))  # bounded below, so a row that feeds itself ends
            if row not in said:  # what is said of a row counts more than what it is asked for
                queue.extend(one for one in _feeding(row) if one in asked)
    return found


def _said(rows: Sequence[RowCell]) -> set[RowCell]:
    """The open rows that something of known rank has gone into."""
    said = {row for row in rows if any(_known(other) for other in _sources(row))}
    queue = deque(said)
    while queue:
        for row in _reached(queue.popleft()):
            if row.axes is None and row not in said:
                said.add(row)
                queue.append(row)
    return said


def _known(row: RowCell) -> bool:
    return row.axes is not None


def _rank(row: RowCell, said: set[RowCell], found: dict[RowCell, int]) -> int | None:
    return row.lo if _known(row) or row in said else found.get(row)


def _uses(row: RowCell) -> Iterator[tuple[RowCell, int]]:
    """The rows a row broadcasts to or equals, and how many axes it has more than they."""
    for rule in row.watchers:
        if isinstance(rule, RowBelowRule) and rule.operand is row:
            yield rule.result, 0
        elif isinstance(rule, RowIsRule) and rule.middle is not None:
            if rule.row is row:
                yield rule.middle, rule.flanks
            else:
                yield rule.row, -rule.flanks


def _feeding(row: RowCell) -> Iterator[RowCell]:
    """The open rows for which this one is a use."""
    for rule in row.watchers:
        if isinstance(rule, RowBelowRule) and rule.result is row:
            yield rule.operand
        elif isinstance(rule, RowIsRule) and rule.middle is not None:
            yield rule.middle if rule.row is row else rule.row


def _sources(row: RowCell) -> Iterator[RowCell]:
    return (rule.operand for rule in row.watchers if isinstance(rule, RowBelowRule) and rule.result is row)


def _reached(row: RowCell) -> Iterator[RowCell]:
    for rule in row.watchers:
        if isinstance(rule, RowBelowRule) and rule.operand is row:
            yield rule.result
        elif isinstance(rule, RowIsRule) and rule.middle is not None:
            yield rule.middle if rule.row is row else rule.row
