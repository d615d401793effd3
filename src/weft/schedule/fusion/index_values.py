"""Values of indices: buffers whose cells are numbers of where they lie, as those of a mask of positions are.

at[i] = i;  seen[t, s] = at[s] <= at[t];  a[h, t, s] = where(seen[t, s], …)    becomes    … where(s <= t, …)
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.affine import Affine, are_affine
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Read, Store
from weft.loops.walk import rewritten, substituted
from weft.ops import Scalar


def values_of_indices(nests: Sequence[Nest]) -> dict[Buffer, Nest]:
    """The buffers whose cells are numbers of their indices, and what stores each."""
    writers: dict[Buffer, list[Nest]] = {}
    for nest in nests:
        writers.setdefault(nest.target, []).append(nest)
    found: dict[Buffer, Nest] = {}
    for nest in nests:
        plain = [index.only for index in nest.core.at if isinstance(index, Affine) and index.only]
        alone = len(writers[nest.target]) == 1 and isinstance(nest.core, Store) and not nest.tests and not nest.shared
        if alone and sorted(plain) == sorted(name for name, _ in nest.loops) and nest.fills and nest.loops:
            if all(read.buffer in found for read in nest.reads):
                found[nest.target] = with_indices_inlined(nest, found)
    return found


def with_indices_inlined(nest: Nest, known: Mapping[Buffer, Nest]) -> Nest:
    """A nest that computes what is a number of indices, rather than reads it."""

    def leaf(one: Scalar) -> Scalar | None:
        if not isinstance(one, Read) or one.buffer not in known or not are_affine(one.at):
            return None
        writer = known[one.buffer]
        at = {index.only: place for index, place in zip(writer.core.at, one.at, strict=True) if index.only}  # type: ignore
        return substituted(writer.core.value, at)  # type: ignore[arg-type]

    return nest.mapped(lambda scalar: rewritten(scalar, leaf))
