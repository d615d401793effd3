"""Contractions that have no term at some points, as contractions of all points.

A window whose factor is read under tests reads a copy with a border of zeros instead:

    for o in range(28): for d: { t = 0;  for k in range(3): if 0 <= o + k - 1 < 28: t = t + x[o + k - 1] * w[k, d];  … }

    becomes

    x_padded[0] = 0;  for i in range(28): x_padded[i + 1] = x[i];  x_padded[29] = 0
    for o in range(28): for d: { t = 0;  for k in range(3): t = t + x_padded[o + k] * w[k, d];  … }
    off = 0;  for k: for d: off = off + w[k, d] * 0
    if off is not a number: for o in range(28): for d: … as before

so that it runs in tiles. A gradient below a choice counts where it is not zero, and all of it is taken instead:

    for i: for k: for j: c[i, j] += where(g[i, k] != 0, g[i, k] * w[k, j], 0)

A zero times what is not finite is not a number, where tests and gates skip a term: so the other factor is looked
through, and where it holds any such thing, the loops run as they were and find everything anew. If what they do cannot
be done twice, the contraction does not run then. Fast math does not look, and of whole numbers none is infinite.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from math import prod
from typing import NamedTuple

from weft.affine import Affine
from weft.loops import Annotation, Buffer, For, If, Inside, Let, Local, Read, Set, Stmt, Store
from weft.loops.contraction import Contraction, guarded_factor
from weft.loops.legality import points
from weft.loops.names import BlockNames
from weft.loops.nodes import Cast, Role
from weft.loops.walk import Body, Loop, accesses, around, free, top_down
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import is_float
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.products.contractions import Contracting, contracting, is_placed


def with_padded_windows(
    body: Sequence[Stmt], options: CompileOptions = DEFAULTS, cold: Sequence[Annotation] = ()
) -> Body:
    """A block whose contractions that a backend may place run at all points.

    The loops that they were, which hardly ever run, are annotated so.
    """
    names = BlockNames(body)

    def rule(stmt: Stmt) -> Body | None:
        if not isinstance(stmt, For):
            return None
        found = contracting(stmt)
        if found is None or not found.what.is_conditional or not is_placed(found, options.contraction_points):
            return None
        return _at_all_points(found, replace(stmt, how=tuple(cold)), names, options)

    return top_down(body, rule)


def _at_all_points(found: Contracting, stmt: Stmt, names: BlockNames, options: CompileOptions) -> Body | None:
    """What runs for a contraction under tests or a gate: copies, one that reads them at all points, and what it was.

    None if a copy has so many cells, as with windows whose taps lie far apart, that it is not worth it.
    """
    what, factors, copies = found.what, list(found.what.factors), list[Stmt]()
    by_side = {side: [one for one in what.tests if guarded_factor(what, one) == side] for side in (0, 1)}
    for side, tests in by_side.items():
        if tests:
            copy, read = _copied(what, side, tests, names)
            if prod(read.buffer.shape) * options.thresholds.border_uses > points(what.loops):
                return None
            copies, factors[side] = [*copies, *copy], read
    product = replace(found, what=replace(what, factors=(factors[0], factors[1]), tests=(), gate=None)).body
    if options.fast_math or not is_float(found.total.dtype):
        return (*copies, *product)
    off = Local(names.fresh("off"), found.total.dtype)
    zeros = [side for side, tests in by_side.items() if tests or side == what.gate]
    asked = [_looked_through(factors[1 - side], what.loops, off, names) for side in zeros]
    finite, other = (Inside(Cast("int64", Call(op, (off, off))), 1) for op in ("ne", "eq"))
    copies += [Let(off, Cast(off.dtype, Num(0))), *asked]
    first = product if _repeatable(found) else (If((finite,), product),)
    return (*copies, *first, If((other,), (stmt,)))


def _repeatable(found: Contracting) -> bool:
    """Does a contraction leave the same if it runs a second time: is nothing it changes an operand of it?"""
    if not all(isinstance(one, Let | Store) for one in found.rest):
        return False
    touched = accesses((Let(found.total, found.start), *found.rest))
    written = {one.buffer for one in touched if one.writes}
    return not any(one.buffer in written for one in touched if not one.writes)


class _PaddedAxis(NamedTuple):
    """An axis of a copy: of so many cells those `inside` are copied, the others zero, the first `border` among them.

    What is copied begins at `first` in the tensor; the contraction reads the copy at `read`.
    """

    loop: str
    size: int
    border: int
    inside: int
    first: int
    read: Affine


def _copied(what: Contraction, side: int, tests: Sequence[Inside], names: BlockNames) -> tuple[Body, Read]:
    """The code that copies a factor into zeros, and how the contraction reads the copy."""
    factor, ranges = what.factors[side], dict(what.loops)
    assert isinstance(factor, Read)
    axes, source = list[_PaddedAxis](), list[Scalar]()
    for index, size in zip(factor.at, factor.buffer.shape, strict=True):
        if isinstance(index, Affine) and not ranges.keys().isdisjoint(index.names):
            axes.append(_axis(names.fresh("at"), index, size, tests, ranges))
            index = Affine.of(axes[-1].loop) + axes[-1].first
        source.append(index)
    buffer = factor.buffer.beside(Role.PACKED, shape=tuple(one.size for one in axes))
    buffer = replace(buffer, name=names.fresh(f"{factor.buffer.name}_padded"))
    return _filled(buffer, axes, Read(factor.buffer, tuple(source))), Read(buffer, tuple(one.read for one in axes))


def _filled(buffer: Buffer, axes: Sequence[_PaddedAxis], value: Scalar) -> Body:
    """The code that fills a buffer, each cell once: the zeros before and after what is copied, axis by axis."""
    at = [Affine.of(one.loop) for one in axes]
    inside = [index + one.border for index, one in zip(at, axes, strict=True)]
    body: Body = (Store(buffer, tuple(inside), value),)
    zero = Cast(buffer.dtype, Num(0))
    for depth, one in reversed([*enumerate(axes)]):
        loops = [(each.loop, each.size) for each in axes[depth + 1 :]]
        ends = [(0, one.border), (one.border + one.inside, one.size - one.border - one.inside)]
        before, after = (
            around(
                [(one.loop, size), *loops],
                (Store(buffer, (*inside[:depth], at[depth] + first, *at[depth + 1 :]), zero),),
            )
            if size
            else ()
            for first, size in ends
        )
        body = (*before, *around([(one.loop, one.inside)], body), *after)
    return body


def _axis(loop: str, index: Affine, size: int, tests: Sequence[Inside], ranges: Mapping[str, int]) -> _PaddedAxis:
    """The axis of a copy that is read at an index, where tests of it hold."""
    known = [(one.index, one.size) for one in tests if isinstance(one.index, Affine)]
    own = [(tested, below) for tested, below in known if not set(index.names).isdisjoint(tested.names)]
    bounds = index.bounds(ranges)
    if not own or bounds is None:
        return _PaddedAxis(loop, size, 0, size, 0, index)
    low, high = bounds
    apart = [(index - tested).offset for tested, _ in own]
    end = min(high + 1, *(by + below for by, (_, below) in zip(apart, own, strict=True)))
    first = min(max(low, *apart), high + 1)
    return _PaddedAxis(loop, high - low + 1, first - low, max(end - first, 0), first, index - low)


def _looked_through(factor: Scalar, loops: Sequence[Loop], off: Local, names: BlockNames) -> Stmt:
    """The code after which a variable is not a number if anything that a factor reads is not finite."""
    moving, own = dict(loops), list[Loop]()
    if isinstance(factor, Read):
        at = list[Scalar]()
        for index, size in zip(factor.at, factor.buffer.shape, strict=True):
            fixed = moving.keys().isdisjoint(free(index))
            own += [] if fixed else [(names.fresh("at"), size)]
            at.append(index if fixed else Affine.of(own[-1][0]))
        factor = Read(factor.buffer, tuple(at))
    else:
        own = [one for one in loops if one[0] in free(factor)]
    nothing = Call("mul", (factor, Cast(off.dtype, Num(0))))
    return around(own, (Set(off, Call("add", (off, nothing))),))[0]
