"""Scatter to gather: a contraction that accumulates into windows sums up, for each cell, what falls into it.

    for o in range(28): for k in range(3): dx[o + k] += dy[o] * w[k]

    becomes, with o = i - k,

    for i in range(30): for k in range(3): if 0 <= i - k < 28: dx[i] += dy[i - k] * w[k]

which is a contraction whose cells are indexed by one loop each; `schedule/products/pad_windows.py` takes the test out
of it. Where windows move in strides there is one for each phase, with k = 2 q + phase and o = u - q:

    for o in range(14): for k in range(3): dx[2 o + k] += dy[o] * w[k]

    becomes

    for u in range(15): for q in range(2): if 0 <= u - q < 14: dx[2 u] += dy[u - q] * w[2 q]
    for u in range(14): for q in range(1): dx[2 u + 1] += dy[u - q] * w[2 q + 1]

Both are changes of variables: each term is added to the cell it was added to.

A contraction into rows that values say, as the gradient of a table of embeddings is, is summed up before:

    for b: for d: for n: dt[ids[b], d] += dy[b, n] * w[d, n]

    becomes

    for b: for d: sums[b, d] = 0
    for b: for d: for n: sums[b, d] += dy[b, n] * w[d, n]
    for b: for d: dt[ids[b], d] += sums[b, d]

Rows are added in the order they were added in, each as one number in a cell. A test of where a row goes is the
scatter's alone; any other says of the terms, too, which there are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from math import gcd
from typing import NamedTuple

from weft.affine import Affine, are_affine
from weft.loops.constants import neutral_of
from weft.loops.contraction import contraction_of
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Inside, Read, Role, Store, Update
from weft.loops.walk import mentioned, reads, substituted


def gathering(nests: Sequence[Nest], points: int, rows: bool = False) -> list[Nest]:
    """The nests, of which those that scatter are contractions of so many points where they can be; with `rows`, those
    that values scatter too."""
    found = [one for nest in nests for one in _gathering(nest, points)]
    return [one for at, nest in enumerate(found) for one in _summed_first(nest, points, at)] if rows else found


def _summed_first(nest: Nest, points: int, number: int) -> Sequence[Nest]:
    """A nest; or a contraction, and the scatter of what that sums up."""
    core = nest.core
    if not isinstance(core, Update) or are_affine(core.at) or nest.shared:
        return [nest]
    told = mentioned(*core.at, *(test.index for test in nest.tests))
    kept = tuple(loop for loop in nest.loops if loop[0] in told)
    if len(kept) == len(nest.loops) or dtype_of(core.value) != core.buffer.dtype:
        return [nest]
    sizes, at = tuple(size for _, size in kept), tuple(Affine.of(name) for name, _ in kept)
    sums = core.buffer.beside(Role.SUMS, f".sums{number}", shape=sizes)
    guards = tuple(test for test in nest.tests if test.index not in core.at)
    summing = replace(nest, tests=guards, core=Update(sums, at, core.op, core.value))
    what = contraction_of(summing)
    if what is None or what.why or what.points < points or core.buffer in [one.buffer for one in reads(core.value)]:
        return [nest]
    start = replace(nest, loops=kept, tests=(), core=Store(sums, at, neutral_of(core.op, sums.dtype)))
    return [start, summing, replace(nest, loops=kept, core=replace(core, value=Read(sums, at)))]


def _gathering(nest: Nest, points: int) -> Sequence[Nest]:
    """A nest; or one for each phase of its windows, where a backend may place them all."""
    found, windows = [nest], _windows(nest)
    what = contraction_of(nest) if windows else None
    if what is None or what.points < points:
        return [nest]
    for window in windows:
        terms = _terms(window, nest)
        if terms is None:
            return [nest]
        found = [phase for one in found for phase in _phases(one, terms)]
    return found if found and all(map(_may_be_placed, found)) else [nest]


def _may_be_placed(nest: Nest) -> bool:
    what = contraction_of(nest)
    return what is not None and not what.why


def _windows(nest: Nest) -> list[Affine]:
    """The indices of cells that depend on several loops."""
    indices = nest.core.at if isinstance(nest.core, Update) else ()
    return [one for one in indices if isinstance(one, Affine) and len(one.terms) > 1]


class _Terms(NamedTuple):
    """The axis of a window, the loop in whose strides it moves, and one of the others."""

    axis: int
    stride: int
    long: str
    step: int
    short: str


def _terms(window: Affine, nest: Nest) -> _Terms | None:
    """What a window is made of: it moves by its longest loop. None if it cannot be gathered by that."""
    sizes = dict(nest.own_loops)
    if not sizes.keys() >= {*window.names}:
        return None
    (stride, long), *others = sorted(window.terms, key=lambda term: -sizes[term[1]])
    if stride < 0 or (stride > 1 and len(others) > 1):
        return None
    return _Terms(nest.core.at.index(window), stride, long, *others[0])


def _phases(nest: Nest, terms: _Terms) -> Iterator[Nest]:
    """A nest with a window gathered: all iterations of the short loop at once, or those that hit the same cells."""
    count = terms.stride // gcd(terms.stride, terms.step)
    sizes = dict(nest.loops)
    for phase in range(min(count, sizes[terms.short])):
        sizes[terms.short] = -(-(dict(nest.loops)[terms.short] - phase) // count)
        index = Affine(((count, terms.short),), phase)
        found = _gathered(_moved(nest, {terms.short: index}, sizes), terms)
        if found is not None:
            yield found


def _gathered(nest: Nest, terms: _Terms) -> Nest | None:
    """A nest whose long loop runs over the cells of a window; None if no term falls into any."""
    window, sizes = nest.core.at[terms.axis], dict(nest.loops)
    assert isinstance(window, Affine)
    offset = window.offset % terms.stride
    cell = (window - offset).divide(terms.stride)  # which of the cells that are a stride apart
    assert cell is not None
    bounds = cell.bounds(sizes)
    assert bounds is not None
    last = (nest.target.shape[terms.axis] - 1 - offset) // terms.stride
    low, high = max(bounds[0], 0), min(bounds[1], last)
    if high < low:
        return None
    solved = Affine.of(terms.long) + low - cell.without([terms.long])
    inside = Inside(solved, sizes[terms.long])
    sizes[terms.long] = high - low + 1
    moved = _moved(nest, {terms.long: solved}, sizes)
    tests = (*moved.tests, inside)
    return replace(moved, tests=tuple(one for one in tests if not one.always(sizes)))


def _moved(nest: Nest, indices: Mapping[str, Affine], sizes: Mapping[str, int]) -> Nest:
    """A nest with loops at other indices, of other sizes."""
    loops = tuple((name, sizes[name]) for name, _ in nest.loops)
    return replace(nest.mapped(lambda one: substituted(one, indices)), loops=loops)
