"""Affine indices: whole-number combinations of loops and of indices that are given when code runs."""

from __future__ import annotations

from dataclasses import dataclass

from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class Affine(Scalar):
    """The sum of `coefficient * loop` over its terms, and an offset."""

    terms: tuple[tuple[int, str], ...]
    offset: int = 0
