"""Kernels that differ in where along an axis they touch a tensor, or in random keys, become the same kernel, to be
compiled once.

    for i: h[i] = x[7, i]      becomes      for i: h[i] = x[s, i]      with s = 7

So the steps of a recurrence that is written out are one kernel, though each reads another slice, and so is what fills
parameters of one shape. Where a kernel touches several positions, and no loop moves along that axis, they are counted
from the first of them.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.affine import Affine
from weft.loops import Buffer, Cast, Stmt
from weft.loops.walk import Cell, accesses, mapped, retargeted, rewritten
from weft.ops import Num, Scalar

#: An axis of a buffer.
_Axis = tuple[Buffer, int]


#: Whole numbers of more bits are keys: no step of a computation is that long.
_KEY_BITS = 40


def anchored(body: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], dict[str, int]]:
    """A block with static indices for the first positions it touches and for its keys, and what those are."""
    found, keys = _keyed(body)
    found, firsts = _positioned(found)
    return found, {**keys, **firsts}


def _keyed(body: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], dict[str, int]]:
    names: dict[int, str] = {}

    def leaf(one: Scalar) -> Scalar | None:
        match one:
            case Cast(dtype="uint64", value=Num(value=int(key))) if key.bit_length() > _KEY_BITS:
                name = names.setdefault(key, f"key {len(names)}")
                return Cast("uint64", Affine(((1, name),)))
        return None

    found = tuple(mapped(stmt, lambda scalar: rewritten(scalar, leaf)) for stmt in body)
    return found, {name: key - (1 << 64 if key >> 63 else 0) for key, name in names.items()}


def _positioned(body: Sequence[Stmt]) -> tuple[tuple[Stmt, ...], dict[str, int]]:
    firsts = _firsts(body)
    names = {axis: f"{number} of {axis[0].name}" for number, axis in enumerate(firsts)}

    def cell(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        return buffer, tuple([place((buffer, axis), one) for axis, one in enumerate(at)])

    def place(axis: _Axis, at: Scalar) -> Scalar:
        if axis not in firsts:
            return at
        assert isinstance(at, Affine)
        return Affine(((1, names[axis]),), at.offset - firsts[axis])

    found = retargeted(body, cell) if firsts else tuple(body)
    return found, {names[axis]: first for axis, first in firsts.items()}


def _firsts(body: Sequence[Stmt]) -> dict[_Axis, int]:
    """The axes that are only touched at fixed positions, and the first of these."""
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
