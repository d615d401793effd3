"""Copies that are accumulated into once in each cell are not made: what is added is added to the original.

g[i] = x[i];  …;  for j: g[j] += s      becomes      …;  for j: g[j] = x[j] + s

Gradients begin so: with the first term, to which others are added. Nothing may look at the copy before, or write to the
original.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Read
from weft.loops.walk import substituted
from weft.optimise.forward_fills import stored_from, takes_all


@dataclass(frozen=True, slots=True)
class _CopiedStart:
    """The nest that copies, by its ordinal, the loop of each axis, and the original in terms of those."""

    nest: int
    loops: tuple[str, ...]
    original: Read


def with_forwarded_copies(nests: Sequence[Nest]) -> list[Nest]:
    """Nests without copies that the first accumulation into them makes up for."""
    copies, done = dict[Buffer, _CopiedStart](), dict[int, Nest](enumerate(nests))
    for at, nest in enumerate(nests):
        copy = copies.get(nest.target)
        if copy is not None and not nest.shared and takes_all(nest):
            where = {loop: index for loop, index in zip(copy.loops, nest.core.at, strict=True) if isinstance(index, Affine)}
            original = Read(copy.original.buffer, tuple([substituted(one, where) for one in copy.original.at]))
            remarks = tuple(dict.fromkeys([*nests[copy.nest].remarks, *nest.remarks]))
            done[at] = replace(nest, core=stored_from(nest.core, original), remarks=remarks)
            del done[copy.nest]
        touched = {nest.target, *(read.buffer for read in nest.reads)}
        copies = {
            one: of for one, of in copies.items() if one not in touched and of.original.buffer != nest.target
        }
        if (found := _copied(nest, at)) is not None:
            copies[nest.target] = found
    return [done[at] for at in sorted(done)]


def _copied(nest: Nest, at: int) -> _CopiedStart | None:
    """What a nest copies into every cell of its target, each once, if a loop runs through each axis."""
    value = nest.core.value
    if not isinstance(value, Read) or nest.shared or not nest.fills or value.buffer.dtype != nest.target.dtype:
        return None
    names = [index.only for index in nest.core.at if isinstance(index, Affine)]
    plain = all(names) and len(set(names)) == len(nest.core.at) == len(nest.loops) and value.buffer != nest.target
    affine = all(isinstance(index, Affine) for index in value.at)
    return _CopiedStart(at, tuple(names), value) if plain and affine else None
