"""Accumulations and combinations of contractions."""

from __future__ import annotations

import pytest

from loops.written import program, text
from weft.loops import MalformedLoops
from weft.loops.semiring import asks_for_numbers, is_accumulation, is_commutative, is_rounded, is_tiled


def test_facts() -> None:
    assert [op for op in ("add", "mul", "max", "and", "sub", "fmax", "arg1") if is_accumulation(op)] == [
        "add",
        "mul",
        "max",
        "and",
    ]
    assert is_tiled(("max", "add"))
    assert not is_tiled(("max", "div"))
    assert not is_tiled(("sub", "mul"))
    assert [is_rounded(("add", "min"), one) for one in ("float32", "float64", "int64")] == [True, True, False]
    assert not is_rounded(("mul", "add"), "float32")
    assert [asks_for_numbers((one, "add"), "float64") for one in ("max", "min", "add")] == [True, True, False]
    assert not asks_for_numbers(("max", "add"), "int64")
    assert (is_commutative(("max", "add")), is_commutative(("max", "sub"))) == (True, False)


PRODUCT = """
product of left i; right j; sums k{tile}:
    for i in range(4):
        for j in range(40):
            t: float32 = -inf
            for k in range(3):
                t = max(t, {terms})
            A[i, j] = t
"""


@pytest.mark.parametrize("terms", ["(X[i, k] + B[k, j])", "(X[i, k] - B[k, j])", "min(X[i, k], B[k, j])"])
def test_a_product_of_any_semiring_is_one(terms: str) -> None:
    for tile in ("", " in tiles of 8 rows by 2 vectors of 16, copied panels of 2, then along columns"):
        made = PRODUCT.format(tile=tile, terms=terms)
        assert text(program(made).body) == made


@pytest.mark.parametrize(
    ("tile", "terms", "why"),
    [
        ("", "X[i, k] / B[k, j]", "it does not accumulate products in t"),
        (
            " in tiles of 4 rows by 4 columns, along sums on vectors of 16, then along columns",
            "X[i, k] + B[k, j]",
            "only sums of floats are",
        ),
        (
            " in tiles of 8 rows by 2 vectors of 16, parts of 60, then along columns",
            "X[i, k] + B[k, j]",
            "only sums of floats are",
        ),
        (
            " in tiles of 8 rows by 2 vectors of 16, copied panels of 4, then along columns",
            "X[i, k] + B[k, j]",
            "blocks are of panels",
        ),
    ],
)
def test_what_is_none_is_refused(tile: str, terms: str, why: str) -> None:
    with pytest.raises(MalformedLoops, match=why):
        program(PRODUCT.format(tile=tile, terms=terms))
