"""Does a read leave its tensor whatever the sizes? As far as linear subscripts, ranges and types in the text tell.

What it refuses could run only where a size is 0, and then reads nothing.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from weft.comprehension.accesses import Access, accesses
from weft.comprehension.linear import Linear, linear
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import Between, Comprehension, Dim, Ident, Index, Int, Size, TensorType, indices, walk
from weft.comprehension.show import show_expr


def check_inside(statement: Comprehension, types: Mapping[str, TensorType]) -> Iterator[Mistake]:
    """The reads of a statement that leave tensors of these types for all sizes from 1 on."""
    reads = [one for one in accesses(statement) if one.read and one.tensor in types and not one.guards]
    ranges = _ranges(statement)
    whole = [name for name in indices(statement) if ranges is not None and name not in ranges]
    if ranges is None or not all(_runs_along_axes(name, statement) for name in whole):
        return  # it may have no points, and then it reads nothing
    for access in reads:
        value, dim = linear(access.subscript, _symbol), types[access.tensor].dims[access.axis]
        if value is None or any(name in whole for name in value.factors):
            continue
        least, greatest = _extreme(value, ranges, -1), _extreme(value, ranges, 1)
        if _never_below_zero(least * -1 + Linear({}, -1)) or _never_below_zero(greatest + _size(dim) * -1):
            yield _leaves(access, dim)


#: The first value of an index and the last.
_Ends = tuple[Linear, Linear]


def _ranges(statement: Comprehension) -> dict[str, _Ends] | None:
    """The ranges that a statement gives; None where one may be empty, or is not linear in sizes."""
    found: dict[str, _Ends] = {}
    for clause in statement.where:
        if isinstance(clause, Between):
            low, high = linear(clause.low, _symbol), linear(clause.high, _symbol)
            if low is None or high is None:
                return None
            last = high + Linear({}, -1)
            if not _never_below_zero(last + low * -1):
                return None
            found[clause.index.name] = low, last
    return found


def _runs_along_axes(name: str, statement: Comprehension) -> bool:
    """Does an index stand alone wherever it stands in a subscript?"""
    subscripts = (one.subscript for one in accesses(statement))
    return all(Index(name) not in walk(one) or one == Index(name) for one in subscripts)


def _symbol(expr: Int | Size | Dim) -> Linear | None:
    return _size(Ident(expr.name)) if isinstance(expr, Size) else None


def _size(dim: Ident | Int) -> Linear:
    return Linear({}, dim.value) if isinstance(dim, Int) else Linear({f"size {dim.name}": 1}, 0)


def _extreme(value: Linear, ranges: Mapping[str, _Ends], sign: int) -> Linear:
    """The least (-1) or greatest (1) of what a sum of indices is over their ranges, as a sum of sizes."""
    found = Linear({}, value.offset)
    for name, factor in value.factors.items():
        ends = ranges.get(name)
        found += (ends[factor * sign > 0] if ends else Linear({name: 1}, 0)) * factor
    return found


def _never_below_zero(form: Linear) -> bool:
    """Is a sum of sizes at least 0, whatever the sizes from 1 on?"""
    factors = form.factors.values()
    return all(factor > 0 for factor in factors) and form.offset + sum(factors) >= 0


def _leaves(access: Access, dim: Ident | Int) -> Mistake:
    size = dim.value if isinstance(dim, Int) else dim.name
    subscript = show_expr(access.subscript)
    what = f"`{subscript}` leaves axis {access.axis} of `{access.tensor}`, which is `{size}`, whatever the sizes"
    return Mistake(what, access.span, f"stay in 0:{size}: give another range by `where`, or choose: `… ? … : …`")
