"""Products of narrow numbers, several of which a processor adds up in one step: pairs or fours of the last sum, side by
side in words of 32 bits.

    t = t + float32(a[i, k]) * float32(b[k, j])     of bfloat16: pairs, added up in float32
    t = t + int64(a[i, k]) * int64(b[k, j])         of int8 and uint8: fours, where int32 holds every sum
"""

from __future__ import annotations

from weft.loops.insert_casts import dtype_of
from weft.loops.intervals import ANY, interval_of
from weft.loops.joint_sums import joint_sums
from weft.loops.legality import points
from weft.loops.nests import stride_of
from weft.loops.nodes import Cast, Read, Tile
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.staged import Parts, further_sums
from weft.loops.walk import Loop
from weft.ops import Num, Scalar
from weft.ops.dtypes import is_float, limits

#: The bytes of a word.
WORD = 4
#: Types of factors by what their products are computed in, and how many of a type a word holds.
_KINDS = {"float32": {"bfloat16": 2}, "int64": {"int8": 4, "uint8": 4}, "uint64": {"uint8": 4}}
#: What a machine multiplies in one step (`Machine.narrow`), by how many numbers a word has.
MULTIPLIED = {2: "bfloat16", 4: "int8"}


def interleaving(found: Parts) -> int:
    """How many products of a sum a step could add up; 1 if there is none for its factors."""
    kinds = _KINDS.get(found.total.dtype, {})
    together = {kinds.get(_narrow_type(one), 1) for one in found.factors}
    if found.ops != SUM_OF_PRODUCTS or len(together) > 1 or not found.sums or found.tests:
        return 1
    if joint_sums(found)[0] or further_sums(found)[0]:
        return 1
    return together.pop() if is_float(found.total.dtype) or largest_sum(found) < 1 << 31 else 1


def _narrow_type(factor: Scalar) -> str:
    """The type that a factor is converted from; none if it is a constant, or not converted."""
    return dtype_of(factor.value) if isinstance(factor, Cast) and not isinstance(factor.value, Num) else ""


def narrow(factor: Scalar) -> Scalar:
    """A factor before it is converted."""
    return factor.value if isinstance(factor, Cast) else factor


def register_type(found: Parts, tile: Tile) -> str:
    """The type in which registers add up."""
    dtype = found.total.dtype
    return "int32" if tile.interleaved > 1 and not is_float(dtype) else dtype


def lies_in_words(factor: Scalar, last: Loop, many: int) -> bool:
    """Do so many of a factor's numbers lie side by side along the last sum, and no word of them beyond its end?"""
    own = narrow(factor)
    return isinstance(own, Read) and stride_of(own, last[0]) == 1 and last[1] % many == 0


def largest_sum(found: Parts) -> float:
    """How far a sum of products of whole numbers is from 0 at most, and any sum of some of its terms."""
    one, other = (max(-low, high) for low, high in (interval_of(factor, _limits) for factor in found.factors))
    return one * other * points(found.sums)


def _limits(leaf: Scalar) -> tuple[float, float]:
    return limits(leaf.buffer.dtype) if isinstance(leaf, Read) else ANY
