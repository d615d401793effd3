"""Does a read leave its tensor whatever the sizes? As far as linear subscripts, ranges and types in the text tell.

What it refuses could run only where a size is 0, and then reads nothing. An index on the left is at least 0, so a read
that is past its tensor already there leaves no value for it: its range is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.affine import Affine
from weft.comprehension.accesses import Access, accesses
from weft.comprehension.linear import is_size, never_negative, of_size, with_sizes
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import (
    Between,
    Comprehension,
    Ident,
    Index,
    Int,
    TensorType,
    indices,
    left,
    walk,
)
from weft.comprehension.show import show_expr


def check_inside(statement: Comprehension, types: Mapping[str, TensorType]) -> Iterator[Mistake]:
    """The reads of a statement that leave tensors of these types for all sizes from 1 on."""
    reads = [one for one in accesses(statement) if one.read and one.tensor in types and not one.guards]
    ranges = _ranges(statement)
    yield from _without_points(statement, reads, ranges or {}, types)
    whole = [name for name in indices(statement) if ranges is not None and name not in ranges]
    if ranges is None or not all(_runs_along_axes(name, statement) for name in whole):
        return  # it may have no points, and then it reads nothing
    for access in reads:
        value, dim = with_sizes(access.subscript), types[access.tensor].dims[access.axis]
        if value is None or any(name in whole for name in value.names):
            continue
        least, greatest = _extreme(value, ranges, -1), _extreme(value, ranges, 1)
        if never_negative(-least - 1) or never_negative(greatest - _size(dim)):
            yield _leaves(access, dim)


def _without_points(
    statement: Comprehension, reads: Sequence[Access], ranges: Mapping[str, _Ends], types: Mapping[str, TensorType]
) -> Iterator[Mistake]:
    """The reads that no value of an index on the left keeps inside: past one end at 0, they go further from there."""
    given = {clause.index.name for clause in statement.where if isinstance(clause, Between)}
    free = [name for name in left(statement) if name not in given]
    for access in reads:
        value, dim = with_sizes(access.subscript), types[access.tensor].dims[access.axis]
        mine = {name: value.coefficient(name) for name in free if name in value.names} if value is not None else {}
        if value is None or not mine:
            continue
        first = value.without(mine)
        if any(not is_size(name) and name not in ranges for name in first.names):
            continue  # its range is not known
        rises, falls = (all(factor * sign > 0 for factor in mine.values()) for sign in (1, -1))
        past = rises and never_negative(_extreme(first, ranges, 1) - _size(dim))
        if past or (falls and never_negative(-_extreme(first, ranges, -1) - 1)):
            yield _empty(access, dim, next(iter(mine)), statement.target.name)


#: The first value of an index and the last.
_Ends = tuple[Affine, Affine]


def _ranges(statement: Comprehension) -> dict[str, _Ends] | None:
    """The ranges that a statement gives; None where one may be empty, or is not linear in sizes."""
    found: dict[str, _Ends] = {}
    for clause in statement.where:
        if isinstance(clause, Between):
            low, high = with_sizes(clause.low), with_sizes(clause.high)
            if low is None or high is None:
                return None
            last = high - 1
            if not never_negative(last - low):
                return None
            found[clause.index.name] = low, last
    return found


def _runs_along_axes(name: str, statement: Comprehension) -> bool:
    """Does an index stand alone wherever it stands in a subscript?"""
    subscripts = (one.subscript for one in accesses(statement))
    return all(Index(name) not in walk(one) or one == Index(name) for one in subscripts)


def _size(dim: Ident | Int) -> Affine:
    return Affine((), dim.value) if isinstance(dim, Int) else of_size(dim.name)


def _extreme(value: Affine, ranges: Mapping[str, _Ends], sign: int) -> Affine:
    """The least (-1) or greatest (1) of what a sum of indices is over their ranges, as a sum of sizes."""
    factors = ((factor, name) for factor, name in value.terms if name in ranges)
    return value.substitute({name: ranges[name][factor * sign > 0] for factor, name in factors})


def _empty(access: Access, dim: Ident | Int, index: str, target: str) -> Mistake:
    size = dim.value if isinstance(dim, Int) else dim.name
    outside = f"`{show_expr(access.subscript)}` leaves axis {access.axis} of `{access.tensor}`, which is `{size}`"
    what = f"{outside}, from `{index} = 0` on, so nothing of `{target}` is written whatever the sizes"
    return Mistake(what, access.span, f"stay in 0:{size} where `{index}` is 0, or choose: `… ? … : …`")


def _leaves(access: Access, dim: Ident | Int) -> Mistake:
    size = dim.value if isinstance(dim, Int) else dim.name
    subscript = show_expr(access.subscript)
    what = f"`{subscript}` leaves axis {access.axis} of `{access.tensor}`, which is `{size}`, whatever the sizes"
    return Mistake(what, access.span, f"stay in 0:{size}: give another range by `where`, or choose: `… ? … : …`")
