"""Does a read leave its tensor whatever the sizes? As far as linear subscripts, ranges and types in the text tell.

What it refuses could run only where a size is 0, and then reads nothing. An index on the left is at least 0, so a read
that is past its tensor already there leaves no value for it: its range is empty.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from weft.affine import Affine
from weft.comprehension.accesses import Access, Accesses
from weft.comprehension.boundedness import never_negative, with_sizes
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import Comprehension, Ident, Index, Int, TensorType, indices, left, walk
from weft.comprehension.show import show_expr


def check_inside(accesses: Accesses, params: Mapping[str, TensorType]) -> Iterator[Mistake]:
    """The reads of a statement that leave tensors of these types for all sizes from 1 on."""
    statement, every = accesses.statement, accesses.every
    reads = [one for one in every if one.read and one.tensor in params and not one.guards]
    ranges = _ranges(accesses)
    yield from _without_points(statement, reads, ranges or {}, params)
    whole = [name for name in indices(statement) if ranges is not None and name not in ranges]
    if ranges is None or not all(_runs_along_axes(name, every) for name in whole):
        return  # it may have no points, and then it reads nothing
    for access in reads:
        value, dim = with_sizes(access.at), params[access.tensor].dims[access.axis]
        if value is None or any(name in whole for name in value.names):
            continue
        least, greatest = _extreme(value, ranges, -1), _extreme(value, ranges, 1)
        if never_negative(-least - 1) or never_negative(greatest - _size(dim)):
            yield _leaves(access, dim)


def _without_points(
    statement: Comprehension, reads: Sequence[Access], ranges: Mapping[str, _Ends], params: Mapping[str, TensorType]
) -> Iterator[Mistake]:
    """The reads that no value of an index on the left keeps inside: past one end at 0, they go further from there."""
    free = [name for name in left(statement) if name not in statement.given]
    for access in reads:
        value, dim = with_sizes(access.at), params[access.tensor].dims[access.axis]
        mine = {name: value.coefficient(name) for name in free if name in value.names} if value is not None else {}
        if value is None or not mine:
            continue
        first = value.without(mine)
        if any(name in indices(statement) and name not in ranges for name in first.names):
            continue  # its range is not known
        rises, falls = (all(factor * sign > 0 for factor in mine.values()) for sign in (1, -1))
        past = rises and never_negative(_extreme(first, ranges, 1) - _size(dim))
        if past or (falls and never_negative(-_extreme(first, ranges, -1) - 1)):
            yield _empty(access, dim, next(iter(mine)), statement.target.name)


#: The first value of an index and the last.
_Ends = tuple[Affine, Affine]


def _ranges(accesses: Accesses) -> dict[str, _Ends] | None:
    """The ranges that a statement gives; None where one may be empty, or is not linear in sizes."""
    found: dict[str, _Ends] = {}
    for name, ends in accesses.given.items():
        low, high = map(with_sizes, ends)
        if low is None or high is None or not never_negative(high - 1 - low):
            return None
        found[name] = low, high - 1
    return found


def _runs_along_axes(name: str, every: Sequence[Access]) -> bool:
    """Does an index stand alone wherever it stands in a subscript?"""
    return all(Index(name) not in walk(one.subscript) or one.subscript == Index(name) for one in every)


def _size(dim: Ident | Int) -> Affine:
    return Affine((), dim.value) if isinstance(dim, Int) else Affine.of(dim.name)


def _extreme(value: Affine, ranges: Mapping[str, _Ends], sign: int) -> Affine:
    """The least (-1) or greatest (1) of what a sum of indices is over their ranges, as a sum of sizes."""
    factors = ((factor, name) for factor, name in value.terms if name in ranges)
    return value.substitute({name: ranges[name][factor * sign > 0] for factor, name in factors})


def _empty(access: Access, dim: Ident | Int, index: str, target: str) -> Mistake:
    what = f"{_leaving(access, dim)}, from `{index} = 0` on, so nothing of `{target}` is written whatever the sizes"
    return Mistake(what, access.span, f"stay in 0:{dim} where `{index}` is 0, or choose: `… ? … : …`")


def _leaves(access: Access, dim: Ident | Int) -> Mistake:
    fix = f"stay in 0:{dim}: give another range by `where`, or choose: `… ? … : …`"
    return Mistake(f"{_leaving(access, dim)}, whatever the sizes", access.span, fix)


def _leaving(access: Access, dim: Ident | Int) -> str:
    return f"`{show_expr(access.subscript)}` leaves axis {access.axis} of `{access.tensor}`, which is `{dim}`"
