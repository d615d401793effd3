"""Products of narrow whole numbers as products of floats, where these hold every sum exactly.

    product of left i; right j; sums k: { t: int64 = 0;  for k: t = t + int64(a[i, k]) * int64(b[k, j]);  … t … }

    becomes, where a and b are int8 and there are no more than 1024 sums,

    product of left i; right j; sums k:
        { u: float32 = 0;  for k: u = u + float32(a[i, k]) * float32(b[k, j]);  t: int64 = 0 + int64(u);  … t … }

Vectors have twice as many lanes of single precision as of 64 bits, and multiply them in one step instead of several.
No sum of some of the terms, in any order, is larger than as many times the largest term: where a float holds all whole
numbers up to that, nothing is ever rounded. Those that a machine multiplies in words (`tile.py`) stay as they are.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops import Cast, Let, Local, Staged, Stmt
from weft.loops.constants import neutral_of
from weft.loops.interleaving import largest_sum
from weft.loops.names import BlockNames
from weft.loops.nodes import Read
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.staged import Parts, parts_of, staged_product
from weft.loops.walk import Body, top_down
from weft.ops import Call, Scalar
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.products.tile import best_tile

#: Up to here floats hold all whole numbers.
_EXACT = {"float32": 2**24, "float64": 2**53}


def in_exact_floats(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> Body:
    """A block whose products of whole numbers are of floats, where that is exact and the machine has nothing better."""
    names = BlockNames(body)

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Staged):
            return None
        found = parts_of(stmt)
        dtype = exact_type(found)
        if dtype is None or _is_interleaved(best_tile(stmt, options)):
            return (stmt,)
        return (_as_floats(found, dtype, names),)

    return top_down(body, rule)


def exact_type(found: Parts) -> str | None:
    """The narrowest float that holds every sum of a product of whole numbers; None if none does, or it is of floats."""
    if found.ops != SUM_OF_PRODUCTS or found.total.dtype not in ("int64", "uint64"):
        return None
    return next((dtype for dtype, exact in _EXACT.items() if largest_sum(found) <= exact), None)


def _is_interleaved(tiled: Staged | None) -> bool:
    return tiled is not None and tiled.what.tile is not None and tiled.what.tile.interleaved > 1


def _as_floats(found: Parts, dtype: str, names: BlockNames) -> Staged:
    """A product whose factors and sums are floats; the sum is a whole number again before anything is done with it."""
    one, other = (Cast(dtype, _unconverted(factor)) for factor in found.factors)
    total = Local(names.fresh(f"{found.total.name}_float"), dtype)
    whole = Cast(found.total.dtype, total)
    rest = (Let(found.total, Call("add", (found.start, whole))), *found.rest)
    start, loops = Let(total, neutral_of("add", dtype)), (found.left, found.right, found.sums)
    return staged_product(*loops, start, found.ops, (one, other), rest, tests=found.tests)


def _unconverted(factor: Scalar) -> Scalar:
    """A tensor's number as it lies in memory, rather than in a type that holds it as well."""
    return factor.value if isinstance(factor, Cast) and isinstance(factor.value, Read) else factor
