"""How many axes the uses of an open row ask for.

A row that something with axes goes into is *anchored*: it has as many axes as it must have for that, and no more.
Where a sum above must have more axes than anything that goes into it, they come from all its open operands. Any other
row is asked for what its uses have, the fewest over all of them; a use that is not anchored is seen through to its own
uses. Where nothing above is anchored, the axes that a specification names are what is asked for. So `w + x`,
`relu(w) + x` and `(w + v) + x` ask the same of `w`, and so do an einsum of `w` and one of `w @ x`, while in
`(x + w) + y` it is `x` that `w` goes with. A row of no axes, or of ones, fits anything and anchors nothing; a varying
tensor of which nothing else is asked has as many axes as all its uses have, and they are ones.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass

from weft.shape.cells import AxisCell, RowCell
from weft.shape.rank_floors import raised_floors
from weft.shape.reach import reach
from weft.shape.rows import RowBelowRule, RowIsRule


@dataclass(frozen=True, slots=True)
class Demand:
    """The rows that are anchored, and how many axes each open row is asked for, where it is.

    `unasked` are the rows of varying tensors that nothing is asked of, and all that they go into.
    """

    anchored: set[RowCell]
    ranks: dict[RowCell, int]
    unasked: set[RowCell]


def rank_demand(rows: Sequence[RowCell]) -> Demand:
    """What is asked of these open rows."""
    floors = {row: row.lo for row in rows}
    while True:
        demand = _demand(rows, floors)
        if not (raised := raised_floors(rows, floors, demand.ranks, demand.anchored)):
            return demand
        floors = raised


def _demand(rows: Sequence[RowCell], floors: Mapping[RowCell, int]) -> Demand:
    """What is asked of open rows that must have so many axes at least."""
    anchored = _reach(row for row in rows if any(map(_speaks, _sources(row))))
    ranks = {row: floors.get(row, row.lo) for row in anchored}
    _ask(ranks, [row for row in rows if row not in anchored], floors)
    named = _reach(filter(_has_named_axes, rows))
    left = [row for row in rows if row not in ranks]
    ranks |= {row: floors[row] for row in left if row in named}
    _ask(ranks, [row for row in left if row not in named], floors)
    open_shape = [row for row in rows if row.role == "varying" and row not in ranks]
    for row in open_shape:
        ranks[row] = max([floors[row], *(floors.get(use, use.lo) + more for use, more in _uses(row))])
    return Demand(anchored, ranks, _reach(open_shape))


def _ask(ranks: dict[RowCell, int], rows: Sequence[RowCell], floors: Mapping[RowCell, int]) -> None:
    """Ask rows for what their uses have until nothing changes; bounded below, so a row that feeds itself ends."""
    asked = dict.fromkeys(reversed(rows))  # uses come before what they use, so most rows are looked at once
    queue = deque(asked)
    while queue:
        row = queue.popleft()
        least = min(_asks(row, ranks), default=None)
        if least is not None and (row not in ranks or max(floors[row], least) < ranks[row]):
            ranks[row] = max(floors[row], least)
            queue.extend(one for one in _feeding(row) if one in asked)


def _asks(row: RowCell, ranks: dict[RowCell, int]) -> Iterator[int]:
    for use, more in _uses(row):
        rank = use.lo if use.axes is not None else ranks.get(use)
        if rank is not None:
            yield rank + more


def _speaks(row: RowCell) -> bool:
    """Does a row say something about the rank of what it goes into: has it axes that were not just decided?"""
    return row.axes is not None and not row.silent and any(map(_is_told, row.axes))


def _is_told(axis: AxisCell) -> bool:
    return axis.size not in (None, 1) or axis.basis is not None or axis.least > 1 or axis.cap is not None


def _has_named_axes(row: RowCell) -> bool:
    """Does a specification name axes of the row?"""
    return any(isinstance(rule, RowIsRule) and rule.row is row and rule.flanks for rule in row.watchers)


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
    """The rows for which this one is a use."""
    for rule in row.watchers:
        if isinstance(rule, RowBelowRule) and rule.result is row:
            yield rule.operand
        elif isinstance(rule, RowIsRule) and rule.middle is not None:
            yield rule.middle if rule.row is row else rule.row


def _sources(row: RowCell) -> Iterator[RowCell]:
    return (rule.operand for rule in row.watchers if isinstance(rule, RowBelowRule) and rule.result is row)


def _reach(rows: Iterable[RowCell]) -> set[RowCell]:
    """These open rows and all open ones that they go into or equal."""
    return set(reach(rows, lambda row: (use for use, _ in _uses(row) if use.axes is None)))
