"""Factors of products as matrices in memory, of which a GPU's copy engine loads blocks: tensor maps.

    x[b, t, h, e]  by rows `t` and sums `e`    is a matrix of b*t rows of h*e cells: a block of it begins at
                                               row b*T + t and cell h*E + e

The axes of a tensor are divided into those of a matrix's rows and those of its cells. Rows of the product lie along one
of the two and its sums along the other, all of them as they follow each other; what is left of the subscripts is the
same for a whole block. So a block is one rectangle. Beyond the matrix there are zeros.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from weft.affine import Affine
from weft.loops.nodes import Buffer, Cast, Read
from weft.loops.staged import Parts
from weft.loops.walk import Loop
from weft.ops import Scalar
from weft.ops.dtypes import numpy_type

#: What the copy engine asks for: rows begin at multiples of so many bytes.
ROW_BYTES = 16
#: The types that are copied as they are multiplied.
_COPIED = ("bfloat16", "float16", "float32")


@dataclass(frozen=True, slots=True)
class TensorMap:
    """A factor's tensor as a matrix of `height` rows of `width` cells.

    A block begins where `outer` and `inner` say, in rows and in cells, further on by the product's own rows, or
    columns, and by its sums; these lie along the cells of a row if `sums_inside`.
    """

    buffer: Buffer
    height: int
    width: int
    outer: Affine
    inner: Affine
    sums_inside: bool


def factor_maps(parts: Parts) -> tuple[TensorMap, TensorMap] | None:
    """A product's factors as matrices; None if one is none, or they are of several types."""
    sides = zip(parts.factors, (parts.left, parts.right), strict=True)
    match [_map_of(factor, own, parts.sums) for factor, own in sides]:
        case [TensorMap() as one, TensorMap() as other] if one.buffer.dtype == other.buffer.dtype:
            return one, other
    return None


def _map_of(factor: Scalar, own: Sequence[Loop], sums: Sequence[Loop]) -> TensorMap | None:
    """The matrix of a factor, whose own loops and sums are these, if it is no more than a tensor, or that converted."""
    read = factor.value if isinstance(factor, Cast) and factor.dtype == "float32" else factor
    if not isinstance(read, Read) or read.buffer.dtype not in _COPIED:
        return None
    at, shape = [one for one in read.at if isinstance(one, Affine)], read.buffer.shape
    if len(at) < len(shape):
        return None
    for split in range(1, len(shape)):
        outer, inner = _joined(at[:split], shape[:split]), _joined(at[split:], shape[split:])
        height, width = prod(shape[:split]), prod(shape[split:])
        sums_inside = _runs(outer, own, sums) and _runs(inner, sums, own)
        if not sums_inside and not (_runs(outer, sums, own) and _runs(inner, own, sums)):
            continue
        if width * numpy_type(read.buffer.dtype).itemsize % ROW_BYTES == 0:
            moving = [name for name, _ in (*own, *sums)]
            return TensorMap(read.buffer, height, width, outer.without(moving), inner.without(moving), sums_inside)
    return None


def _joined(at: Sequence[Affine], shape: Sequence[int]) -> Affine:
    """Subscripts as one number."""
    total = Affine(())
    for index, size in zip(at, shape, strict=True):
        total = total * size + index
    return total


def _runs(index: Affine, loops: Sequence[Loop], others: Sequence[Loop]) -> bool:
    """Does an index move by one from each iteration of loops to the next, and not with others?"""
    step = 1
    for name, size in reversed(loops):
        if size > 1 and index.coefficient(name) != step:
            return False
        step *= size
    return all(size == 1 or index.coefficient(name) == 0 for name, size in others)
