"""Products of narrower factors: those of contractions in single precision are rounded, their sums are not.

    c[i, j] += a[i, k] * b[k, j]      becomes      c[i, j] += float32(bfloat16(a[i, k])) * float32(bfloat16(b[k, j]))

It says what a program means, so it comes before every pass and is the same on every backend. A contraction reuses
a factor (`loops/contraction.py`): sums of squares, means and norms are none, and stay as they are. A loop that runs
once neither adds up nor reuses anything, whether a front end writes it or not.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.affine import Affine
from weft.loops.contraction import contraction_of
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Cast, For, If, Inside, Program, Stmt, Update
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.walk import BLOCKS, Body, Loop, block_at, with_body
from weft.ops import Scalar

_WIDE = "float32"


def with_rounded_factors(program: Program, dtype: str) -> Program:
    """A lowered program whose contractions in single precision multiply numbers of a narrower type."""
    return Program(_block(program.body, (), (), dtype))


def _block(body: Sequence[Stmt], loops: tuple[Loop, ...], tests: tuple[Inside, ...], dtype: str) -> Body:
    return tuple(_statement(stmt, loops, tests, dtype) for stmt in body)


def _statement(stmt: Stmt, loops: tuple[Loop, ...], tests: tuple[Inside, ...], dtype: str) -> Stmt:
    match stmt:
        case Update():
            return _rounded(Nest(loops, tests, stmt), dtype)
        case For(loop=loop, size=1, body=body):
            return with_body(stmt, _block(block_at(body, {loop: Affine()}), loops, tests, dtype))
        case For(loop=loop, size=size, body=body):
            return with_body(stmt, _block(body, (*loops, (loop, size)), tests, dtype))
        case If(tests=own, body=body):
            return with_body(stmt, _block(body, loops, (*tests, *own), dtype))
        case _ if isinstance(stmt, BLOCKS):
            return with_body(stmt, _block(stmt.body, loops, tests, dtype))
    return stmt


def _rounded(nest: Nest, dtype: str) -> Stmt:
    found = contraction_of(nest)
    if found is None or found.ops != SUM_OF_PRODUCTS or dtype_of(nest.core.value) != _WIDE:
        return nest.core
    one, other = (_narrow(factor, dtype) for factor in found.factors)
    return replace(nest.core, value=replace(found, factors=(one, other)).term)


def _narrow(factor: Scalar, dtype: str) -> Scalar:
    """A factor rounded, unless it was converted from another type, which is narrower."""
    return factor if isinstance(factor, Cast) else Cast(_WIDE, Cast(dtype, factor))
