"""Does anything say how far each index runs? As far as the text alone tells, whatever the sizes.

This follows the rounds in which ranges are found (range_inference.py), but asks only whether a subscript could bound
an index: what it refuses could not run for any sizes.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from itertools import count

from weft.affine import Affine
from weft.assign.explicit import as_affine
from weft.comprehension.accesses import Access, Accesses, place_of
from weft.comprehension.mistakes import Mistake, listed, meant
from weft.comprehension.nodes import Comprehension, Index, Read, computed_axes, indices, left, own_reads, walk
from weft.comprehension.piecewise import Piecewise
from weft.comprehension.scalars import index_names, written
from weft.comprehension.show import show_expr, show_left, show_sign
from weft.loops import Local
from weft.loops.walk import rewritten
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class Names:
    """The names a mistake about ranges may suggest."""

    sizes: Sequence[str]
    scalars: Sequence[str]


def is_affine(value: Scalar) -> bool:
    """Could a scalar be affine for some sizes? It is tried with sizes that are all different."""
    if isinstance(as_affine(value), Affine):
        return True
    sizes = defaultdict[str, int](count(1009, 10).__next__)
    return Piecewise([*index_names(value)], sizes.__getitem__).value(value) is not None


def check_bounded(
    accesses: Accesses, shaped: Collection[str], declared: Collection[str], names: Names
) -> Iterator[Mistake]:
    """An index of a statement that nothing bounds, in tensors whose shapes are known before it runs.

    `declared` are those that the type of a result bounds.
    """
    statement, parts = accesses.statement, [one for one in accesses.every if one.tensor in shaped]
    affine = [one for one in parts if is_affine(one.at)]
    pending = [name for name in indices(statement) if name not in statement.given]
    while pending:
        alone = [one.indices & {*pending} for one in affine]
        found = [one for one in pending if {one} in alone] or [one for one in pending if one in declared]
        if not found:
            yield unbounded(pending, statement, parts, affine, names)
            return
        pending = [one for one in pending if one not in found]


def unbounded(
    pending: Sequence[str], statement: Comprehension, parts: Sequence[Access], affine: Sequence[Access], names: Names
) -> Mistake:
    """That nothing says how far the first of some indices runs, and why; `affine` are those isl can look at."""
    name = pending[0]
    mine = [one for one in parts if name in one.indices]
    others = [one for one in pending if any({name, one} <= both.indices for both in mine) and one != name]
    shown = listed(dict.fromkeys(str(one) for one in mine))
    size = next(iter(names.sizes), "N")
    fix = f"give its range: `where {name} in 0:{size}`"
    if not mine:
        guess = meant(name, [*names.scalars, *names.sizes])
        return Mistake(f"nothing says how far `{name}` runs", place_of(name, statement), guess or fix)
    if not any(name in one.indices for one in affine):
        data = any(isinstance(part, Read) for one in mine for part in walk(one.subscript))
        why = "depends on what tensors hold" if data else "is not affine"
        what = f"{shown} does not say how far `{name}` runs: the subscript {why}"
    elif others:
        what = f"{shown} does not say how far each of {listed([name, *others])} runs"
        fix = f"give the range of one: `where {others[0]} in 0:{size}`"
    else:
        what = f"{shown} does not bound `{name}` on both sides"
    return Mistake(what, place_of(name, statement), fix)


def check_sized(statement: Comprehension, declared: Sequence[int | None]) -> Iterator[Mistake]:
    """The axes of a tensor that its first statement writes at computed subscripts, and that have no declared size."""
    for axis in computed_axes(statement):
        if axis >= len(declared) or declared[axis] is None:
            target, subscript = statement.target, statement.at[axis]
            what = f"`{show_expr(subscript)}` does not say how large axis {axis} of `{target}` is"
            fix = f"give the result a type, of sizes that come in or numbers: `-> (float(N) {target})`"
            yield Mistake(what, subscript.span, f"{fix}; or define it in a statement before")


def check_begins(accesses: Accesses) -> Iterator[Mistake]:
    """The indices on the left of a tensor's only statement that begin later than 0 whatever the sizes."""
    statement = accesses.statement
    for index in left(statement):
        low = _begins(index, accesses)
        if low is not None:
            place = next(one for one in statement.at if isinstance(one, Index) and one.name == index)
            yield late(index, f"begins at {low}", statement, low, place)


def late(index: str, runs: str, statement: Comprehension, low: int | str, place: Index) -> Mistake:
    """That a tensor has cells which nothing defines, because an index begins late."""
    fix = f"let it begin at 0: write `{index} + {low}` for `{index}` on the right"
    if own_reads(statement):
        begun = f"{index} > 0" if low in (1, "1") else f"{index} >= {low}"
        fix = f"say what the first cells are: `{show_left(statement)} {show_sign(statement)} {begun} ? … : …`"
    what = f"`{index}` {runs}, so nothing defines `{statement.target}` below {low}"
    return Mistake(what, place.span, fix)


def _begins(index: str, accesses: Accesses) -> str | None:
    """A value above 0, whatever the sizes, that an index is never below, as far as numbers and sizes tell."""
    if index in accesses.given:
        lows = [with_sizes(accesses.given[index][0])]
    else:
        forms = (with_sizes(one.at) for one in accesses.every if not one.guards)
        lows = [_least(form, index) for form in forms if form is not None and index in form.names]
    late = [low for low in lows if low is not None and {*indices(accesses.statement)}.isdisjoint(low.names)]
    found = max((low for low in late if never_negative(low - 1)), key=lambda low: low.offset, default=None)
    return show_expr(written(found)) if found is not None else None


def _least(form: Affine, index: str) -> Affine | None:
    """What an index must not be below for a subscript not to be."""
    factor, rest = form.coefficient(index), form.without([index])
    if factor == 1:
        return -rest
    return Affine((), -(rest.offset // factor)) if factor > 0 and rest.is_constant else None


def with_sizes(value: Scalar) -> Affine | None:
    """A scalar as a sum of indices and sizes times constants, None if it is none."""
    sized = rewritten(
        value, lambda one: Affine.of(one.name) if isinstance(one, Local) and "." not in one.name else None
    )
    found = as_affine(sized)
    return found if isinstance(found, Affine) else None


def never_negative(form: Affine) -> bool:
    """Is a sum of sizes at least 0, whatever the sizes from 1 on?"""
    factors = [factor for factor, _ in form.terms]
    return all(factor > 0 for factor in factors) and form.offset + sum(factors) >= 0
