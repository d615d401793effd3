"""Copy forwarding into accumulations: a copy that is added to once in each cell is not made: sums read the original.

g[i] = x[i];  …;  for j: g[j] += s      becomes      …;  for j: g[j] = x[j] + s

Gradients begin so: with the first term, to which others are added. Nothing may look at the copy before, or write to the
original. Where memory is dear, what is computed by few operations from one buffer as large counts as a copy of that.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Read
from weft.loops.walk import substituted
from weft.ops import Scalar
from weft.optimise.forward_fills import stored_from, takes_all
from weft.optimise.single_source import is_from_one, price_of


@dataclass(frozen=True, slots=True)
class _CopiedStart:
    """The nest that copies, by its ordinal, the loop of each axis, the original in terms of those, what it reads."""

    nest: int
    loops: tuple[str, ...]
    original: Scalar
    reads: frozenset[Buffer]


def with_forwarded_copies(nests: Sequence[Nest], operations: int = 0) -> list[Nest]:
    """Nests without copies, by so many operations, that the first accumulation into them makes up for."""
    copies, done = dict[Buffer, _CopiedStart](), dict[int, Nest](enumerate(nests))
    for at, nest in enumerate(nests):
        copy = copies.get(nest.target)
        if copy is not None and not nest.shared and takes_all(nest):
            where = {
                loop: index for loop, index in zip(copy.loops, nest.core.at, strict=True) if isinstance(index, Affine)
            }
            remarks = tuple(dict.fromkeys([*nests[copy.nest].remarks, *nest.remarks]))
            done[at] = replace(nest, core=stored_from(nest.core, substituted(copy.original, where)), remarks=remarks)
            del done[copy.nest]
        touched = {nest.target, *(read.buffer for read in nest.reads)}
        copies = {one: of for one, of in copies.items() if one not in touched and nest.target not in of.reads}
        if (found := _copied(nest, at, operations)) is not None:
            copies[nest.target] = found
    return [done[at] for at in sorted(done)]


def _copied(nest: Nest, at: int, operations: int) -> _CopiedStart | None:
    """What a nest copies into every cell of its target, each once, if a loop runs through each axis."""
    value = nest.core.value
    is_copy = isinstance(value, Read) or (operations and price_of([nest]) <= operations and is_from_one([nest]))
    if not is_copy or not nest.reads or nest.shared or not nest.fills or dtype_of(value) != nest.target.dtype:
        return None
    names = [index.only for index in nest.core.at if isinstance(index, Affine)]
    plain = all(names) and len(set(names)) == len(nest.core.at) == len(nest.loops)
    read = frozenset(one.buffer for one in nest.reads)
    affine = all(isinstance(index, Affine) for one in nest.reads for index in one.at)
    return _CopiedStart(at, tuple(names), value, read) if plain and affine and nest.target not in read else None
