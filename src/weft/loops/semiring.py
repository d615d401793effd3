"""Accumulations and combinations of contractions: sums of products, and what takes their place in other semirings.

    c[i, j] max= a[i, k] + b[k, j]      accumulates by `max` what `add` combines

Any accumulation with a neutral element goes with any of the combinations. Of sums of floats it is promised how often
they are rounded (`roundings.py`); other accumulations are exact, or nothing is promised of them.
"""

from __future__ import annotations

from typing import TypeAlias

from weft.ops import OPS
from weft.ops.dtypes import is_float

#: An accumulation, and what combines two factors.
Semiring: TypeAlias = tuple[str, str]

SUM_OF_PRODUCTS: Semiring = ("add", "mul")

#: What vectors combine, lane by lane, and the types they have lanes of: all that numbers are computed in.
_COMBINATIONS = ("add", "sub", "mul", "max", "min", "and", "or")
TYPES = ("float32", "float64", "int64", "uint64", "bool")
#: Accumulations that choose one of their values: of floats, unless one is not a number, by a single comparison.
_CHOICES = ("max", "min")


def is_accumulation(op: str) -> bool:
    """Has an operation a neutral element, and may its values come in any order?"""
    row = OPS[op]
    return row.neutral is not None and row.monoid is None and row.commutative and row.associative


def is_tiled(ops: Semiring) -> bool:
    """Are there tiles for an accumulation of what an operation combines?"""
    return is_accumulation(ops[0]) and ops[1] in _COMBINATIONS


def is_rounded(ops: Semiring, dtype: str) -> bool:
    """Is it a sum of floats, of which a promise says how often it is rounded?"""
    return ops[0] == "add" and is_float(dtype)


def asks_for_numbers(ops: Semiring, dtype: str) -> bool:
    """Is it a choice of floats, which costs more where one of them may not be a number?"""
    return ops[0] in _CHOICES and is_float(dtype)


def is_commutative(ops: Semiring) -> bool:
    """May the two factors change places?"""
    return OPS[ops[1]].commutative
