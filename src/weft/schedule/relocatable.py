"""Relocatable kernels: kernels that differ only in constant indices or random keys become one with parameters, compiled
once.

    for i: h[i] = x[7, i]      becomes      for i: h[i] = x[s, i]      with s = 7

So the steps of an unrolled recurrence are one kernel, though each reads another slice, and so is the initialisation of
parameters of one shape. Where a kernel has several constant indices in an axis, and no loop indexes it, they are
relative to the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import Affine
from weft.loops import Buffer, Cast, Stmt
from weft.loops.walk import Cell, accesses, map_scalars, retargeted, rewritten
from weft.ops import Num, Scalar

#: An axis of a buffer.
_Axis = tuple[Buffer, int]


#: Integers of more bits are keys: no index is that large.
_KEY_BITS = 40


def anchored(body: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], dict[str, int]]:
    """A block with parameters for its first constant indices and for its keys, and their values."""
    found, keys = _with_keys(body)
    found, firsts = _with_offsets(found)
    return found, {**keys, **firsts}


def _with_keys(body: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], dict[str, int]]:
    names: dict[int, str] = {}

    def leaf(one: Scalar) -> Scalar | None:
        match one:
            case Cast(dtype="uint64", value=Num(value=int(key))) if key.bit_length() > _KEY_BITS:
                name = names.setdefault(key, f"key {len(names)}")
                return Cast("uint64", Affine(((1, name),)))
        return None

    found = tuple(map_scalars(stmt, lambda scalar: rewritten(scalar, leaf)) for stmt in body)
    return found, {name: key - (1 << 64 if key >> 63 else 0) for key, name in names.items()}


def _with_offsets(body: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], dict[str, int]]:
    firsts = _firsts(body)
    names = {axis: f"{ordinal} of {axis[0].name}" for ordinal, axis in enumerate(firsts)}

    def cell(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        return buffer, tuple([relative((buffer, axis), one) for axis, one in enumerate(at)])

    def relative(axis: _Axis, at: Scalar) -> Scalar:
        if axis not in firsts:
            return at
        assert isinstance(at, Affine)
        return Affine(((1, names[axis]),), at.offset - firsts[axis])

    found = retargeted(body, cell) if firsts else tuple(body)
    return found, {names[axis]: first for axis, first in firsts.items()}


def _firsts(body: Sequence[Stmt]) -> dict[_Axis, int]:
    """The axes that only have constant indices, and the least of these."""
    found: dict[_Axis, int] = {}
    moving: set[_Axis] = set()
    for one in accesses(body):
        for axis, size in enumerate(one.buffer.shape):
            match one.at[axis] if one.at is not None else None:
                case Affine(terms=(), offset=offset) if size > 1:
                    found[one.buffer, axis] = min(offset, found.get((one.buffer, axis), offset))
                case _:
                    moving.add((one.buffer, axis))
    return {axis: first for axis, first in found.items() if axis not in moving}
