"""Which blocks masks of indices hide."""

from __future__ import annotations

from weft.affine import Affine
from weft.loops import Buffer, Read
from weft.ops import Call, Num
from weft.schedule.hidden_blocks import block_tests, has_all_rows, hidden, visible

T, S = Affine.of("t"), Affine.of("s")


def test_what_a_comparison_leaves_visible() -> None:
    assert visible(Call("le", (S, T))) == {T - S}
    assert visible(Call("lt", (S, T))) == {T - S - 1}
    assert hidden(Call("le", (S, T))) == {S - T - 1}
    assert visible(Call("and", (Call("le", (S, T)), Call("lt", (T, S + 4))))) == {T - S, S - T + 3}
    assert visible(Call("le", (Read(Buffer(0, "x", (8,), "int64"), (S,)), T))) is None
    assert visible(Num(1)) is None


def test_every_row_must_see_something() -> None:
    rows, columns = ("t", 8), ("s", 8)
    assert has_all_rows(frozenset([T - S]), rows, columns)
    assert not has_all_rows(frozenset([T - S - 1]), rows, columns)  # the first row sees none
    assert has_all_rows(frozenset([T - S, S - T + 2]), rows, columns)
    assert not has_all_rows(frozenset([T - S + 2, S - T - 3]), rows, columns)


def test_a_block_is_visible_where_its_nearest_corner_is() -> None:
    (test,) = block_tests(frozenset([T - S]), ("t", Affine.of("i") * 16, 16), ("s", Affine.of("j") * 8, 8), 99)
    assert test.index == Affine.of("i") * 16 - Affine.of("j") * 8 + 15
