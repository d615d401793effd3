"""Programs and lanes of a launch that touch a cell which another one stores, as enumeration finds them."""

from __future__ import annotations

from textwrap import dedent

import pytest

from backends.grid_races import race
from weft.loops import parse

BUFFERS = """
x: float32[40]
y: float32[40]
z: float32[8, 40]
n: int64[40]
a: float32[4, 64, 32]
b: float32[4, 32, 48]
g: float32[4, 64, 48]
"""
PRODUCT = """
{loops}
        product of left i; right j; sums k {blocks}:
            for i in range(64):
                for j in range(48):
                    t: float32 = 0.0
                    for k in range(32):
                        t = t + (a[h, i, k] * b[h, k, j])
                    {does}
"""
BLOCKS = "in blocks of 32 rows by 32 columns by 32 sums, 4 warps, 2 stages, groups of 8"
BATCH = "for h in range(4) on a grid by 1 with 4 warps:"


@pytest.mark.parametrize(
    ("text", "cell"),
    [
        ("for i in range(40) on a grid by 8 with 1 warp:\n    y[i] = x[i]", ""),
        ("for i in range(39) on a grid by 8 with 1 warp:\n    y[i] = y[i + 1]", "`y[1]`"),
        ("for i in range(40) on a grid by 8 with 1 warp:\n    y[0] += x[i]", "`y[0]`"),
        (
            "for i in range(39) on a grid by 8 with 1 warp:\n    y[i] = 1\n    if 0 <= -i < 1:\n        y[i + 1] = 2",
            "`y[1]`",
        ),
        ("for i in range(8) on a grid by 1 with 1 warp:\n    for j in range(40):\n        z[i, j] += x[j]", ""),
        ("for i in range(8) on a grid by 1 with 1 warp:\n    for j in range(40):\n        y[j] += x[j]", "`y[0]`"),
        ("for i in range(8) on a grid by 1 with 1 warp:\n    z[i, n[i]] += x[i]", ""),
        ("for i in range(8) on a grid by 1 with 1 warp:\n    z[n[i], 3] += x[i]", "`z[…, 3]`"),
        ("for i in range(8):\n    for j in range(39) in lanes by 64:\n        z[i, j] = z[i, j + 1]", "`z[0, 1]`"),
        ("for i in range(8):\n    for j in range(40) in lanes by 64:\n        z[i, j] = z[7, 0]", "`z[7, 0]`"),
        (PRODUCT.format(blocks=BLOCKS, loops=BATCH, does="g[h, i, j] = t"), ""),
        (PRODUCT.format(blocks=BLOCKS, loops=BATCH, does="g[0, i, j] += t"), "`g[0, 0, 0]`"),
        (PRODUCT.format(blocks=BLOCKS, loops="for h in range(4):", does="g[0, i, j] += t"), ""),
        (PRODUCT.format(blocks=BLOCKS, loops="for h in range(4):", does="g[h, i, 0] += t"), "`g[0, 0, 0]`"),
        (
            PRODUCT.format(blocks=BLOCKS, loops="for h in range(3):", does="g[h, i, j] = g[h + 1, 63 - i, j] + t"),
            "`g[1, 0, 0]`",
        ),
    ],
)
def test_cells_that_are_raced_for(text: str, cell: str) -> None:
    found = race(parse(BUFFERS.lstrip() + dedent(text).strip() + "\n").body)
    assert cell in found if cell else not found
