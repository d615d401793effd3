"""Prologues of contractions: a factor is computed where tiles pack it, instead of stored before.

    f[k, j] = relu(b[k, j]);  c[i, j] += a[i, k] * f[k, j]      becomes      c[i, j] += a[i, k] * relu(b[k, j])

Tiles pack the columns of one factor into panels, each once for all rows (`schedule/products/tile.py`): that costs what
computing the factor before costs, and saves a pass over memory. Rows are not packed but read again for every tile of
columns. So one factor may be computed, if its map lets it be columns: it lies side by side along a loop of its own.

Rows that are gathered and stored before stay so: to copy them takes no longer than to find them for every tile.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops.contraction import Contraction, contraction_of
from weft.loops.nests import Nest, stride_of
from weft.loops.nodes import Read
from weft.loops.product_legality import lies_along
from weft.loops.walk import Loop, operations_in, reads, rewritten, substituted
from weft.ops import Scalar
from weft.optimise.inline import invert_access


def placed(nest: Nest, points: int, gathers: bool = False) -> Contraction | None:
    """The contraction of so many points that a nest is, in the loops it shares, if a backend may place it in tiles;
    one that gathers rows, where it `gathers`."""
    found = contraction_of(replace(nest, loops=nest.own_loops, shared=()) if nest.shared else nest)
    found = found.with_gathers if found is not None and gathers else found
    return found if found is not None and not found.why and found.points >= points else None


def joined(nest: Nest, writers: Sequence[Nest], points: int, operations: int) -> Nest | None:
    """A contraction with the cells of a factor computed where it read them; None where it is better stored.

    Copies join any factor, up to so many operations one that is packed.
    """
    writer, *others = writers
    if others or writer.tests or writer.reduces:
        return None
    ranges, cells = dict(nest.loops), dict[Scalar, Scalar]()
    for read in nest.reads:
        if read.buffer == writer.target:
            solution = invert_access(writer, read.at)
            if solution is None or not all(test in nest.tests or test.always(ranges) for test in solution.tests):
                return None
            cells[read] = substituted(writer.core.value, solution.indices)
    new = nest.mapped(lambda scalar: rewritten(scalar, cells.get))
    what = placed(new, points)
    if what is None:
        return None
    sides = zip(what.factors, (what.left, what.right), strict=True)
    computed = [(factor, own) for factor, own in sides if not isinstance(factor, Read)]
    fits = all(_is_packed(*one, nest.target.dtype) and operations_in(one[0]) <= operations for one in computed)
    return new if fits and len(computed) <= 1 else None


def _is_packed(factor: Scalar, own: Sequence[Loop], dtype: str) -> bool:
    """Does all that a factor reads lie side by side along a loop of its own, or stand still?"""
    found = reads(factor)
    return any(
        any(lies_along(one, loop, dtype) for one in found) and all(stride_of(one, loop[0]) in (0, 1) for one in found)
        for loop in own
    )
