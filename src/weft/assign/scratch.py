"""Memory beside a buffer while it is written, and the loops that fill and copy it: what every lowering needs."""

from __future__ import annotations

from collections.abc import Collection

from weft.affine import Affine
from weft.loops import Buffer, Cast, Fill, Read, Role, Stmt, Store
from weft.loops.insert_casts import type_before
from weft.loops.walk import Loop, around
from weft.ops import OPS, Scalar
from weft.ops.convert import exact
from weft.ops.dtypes import accumulator_type, carrier, is_float, numpy_type


def before(target: Buffer) -> Buffer:
    """Memory beside a buffer for its old values while it is written."""
    return target.beside(Role.BEFORE, ".before")


def wide_sum(target: Buffer) -> Buffer:
    """Where sums grow: in the buffer itself, or beside it in a wider type."""
    wide = accumulator_type(target.dtype)
    return target if wide == target.dtype else target.beside(Role.ACCUMULATOR, ".sum", dtype=wide)


def accumulation_buffer(target: Buffer, op: str, value: Scalar) -> Buffer:
    """Where a value is accumulated: in the buffer itself, or beside it in a wider type.

    Narrow floats accumulate in single precision. The largest or smallest of whole numbers that are computed is found
    in 64 bits: what wraps around when it is stored must not do so before it is compared.
    """
    if op not in ("max", "min"):
        return wide_sum(target)
    wide = accumulator_type(target.dtype) if _fits(value, target.dtype) else carrier(target.dtype)
    return target if wide == target.dtype else target.beside(Role.ACCUMULATOR, f".{op}", dtype=wide)


def _fits(value: Scalar, dtype: str) -> bool:
    """Is a value of this type as it is, or a float, which ends where the type does?"""
    own = type_before(value)
    return is_float(own) or (isinstance(value, Read | Cast) and exact(own, dtype))


def neutral_fill(cells: Buffer, op: str, target: Buffer) -> Fill:
    """Every cell at what an operation begins with; where cells accumulate beside a target, at what is stored as its.

    In 64 bits that is a number next to their end which wraps around to the end of the narrow type.
    """
    begins = OPS[op].begins
    assert begins is not None
    number, end = (begins(numpy_type(one.dtype)) for one in (cells, target))
    if cells.dtype != target.dtype and isinstance(number, int) and isinstance(end, int):
        span = 1 << 8 * numpy_type(target.dtype).itemsize
        number += (end - number) % span if number < 0 else -((number - end) % span)
    return Fill(cells, number if isinstance(number, bool | int) else float(number))  # type: ignore[arg-type]


def copied_cells(copy: Buffer, source: Buffer, taken: Collection[str], first: tuple[Affine, ...] = ()) -> Stmt:
    """Every cell of a buffer, below its first subscripts, into another; no loop is called like one of `taken`."""
    at, loops = every_cell(source, taken, first)
    return around(loops, (Store(copy, at, Read(source, at)),))[0]


def every_cell(
    buffer: Buffer, taken: Collection[str], first: tuple[Affine, ...] = ()
) -> tuple[tuple[Affine, ...], list[Loop]]:
    """The subscripts of every cell of a buffer, below its first ones, and the loops that run through them."""
    loops = [(untaken(f"i{axis}", taken), size) for axis, size in enumerate(buffer.shape[len(first) :])]
    at = (*first, *(Affine(((1, loop),)) if size > 1 else Affine(()) for loop, size in loops))
    return at, [(loop, size) for loop, size in loops if size > 1]


def untaken(name: str, taken: Collection[str]) -> str:
    """A name for a loop that is not one of `taken`."""
    while name in taken:
        name += "_"
    return name
