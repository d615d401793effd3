"""Which blocks masks of indices hide."""

from __future__ import annotations

from itertools import product

from hypothesis import given, strategies as st

from weft.affine import Affine
from weft.loops import Buffer, Cast, Read, check
from weft.loops.nests import nests
from weft.loops.parse import parse
from weft.ops import Call, Num
from weft.schedule.fusion.hidden_blocks import Masks, block_ranges, has_all_rows, hidden, visible

T, S = Affine.of("t"), Affine.of("s")


def test_what_a_comparison_leaves_visible() -> None:
    assert visible(Call("le", (S, T))) == {T - S}
    assert visible(Call("lt", (S, T))) == {T - S - 1}
    assert hidden(Call("le", (S, T))) == {S - T - 1}
    assert visible(Call("and", (Call("le", (S, T)), Call("lt", (T, S + 4))))) == {T - S, S - T + 3}
    assert visible(Call("le", (Read(Buffer(0, "x", (8,), "int64"), (S,)), T))) is None
    assert visible(Num(1)) is None


def test_unsigned_numbers_wrap_around_below_0() -> None:
    """uint32(t) - uint32(s) is never negative: all columns are visible where it is not."""
    for dtype in ("uint32", "uint64"):
        t, s = Cast(dtype, T), Cast(dtype, S)
        assert visible(Call("le", (s, t))) == {T - S}
        assert visible(Call("le", (s, Call("add", (t, Cast(dtype, Num(3))))))) == {T + 3 - S}
        for apart in (Cast(dtype, Call("sub", (T, S))), Cast(dtype, Call("sub", (t, s)))):
            assert visible(Call("le", (Num(0), apart))) is None
    assert visible(Call("le", (Num(0), Cast("int32", Call("sub", (T, S)))))) == {T - S}


def test_every_row_must_see_something() -> None:
    rows, columns = ("t", 8), ("s", 8)
    assert has_all_rows(frozenset([T - S]), rows, columns)
    assert not has_all_rows(frozenset([T - S - 1]), rows, columns)  # the first row sees none
    assert has_all_rows(frozenset([T - S, S - T + 2]), rows, columns)
    assert not has_all_rows(frozenset([T - S + 2, S - T - 3]), rows, columns)


def test_ranges_of_blocks_under_a_causal_mask() -> None:
    rows, columns = ("t", Affine.of("i") * 16, 16, 64), ("s", Affine.of("j") * 8, 8, 64)
    (whole, seen), (cut, unseen) = block_ranges(frozenset([T - S]), rows, columns)
    first = Affine.of("i") * 16 - Affine.of("j") * 8
    assert (seen, unseen) == ({T - S}, frozenset())
    assert [one.index for one in whole] == [first - 7]
    assert [one.index for one in cut] == [Affine((), 6) - first, first + 15]


def test_without_a_mask_there_is_one_range() -> None:
    rows, columns = ("t", Affine.of("i") * 16, 16, 64), ("s", Affine.of("j") * 8, 8, 64)
    assert list(block_ranges(frozenset(), rows, columns)) == [((), frozenset())]


coefficients = st.integers(-9, 9)


@given(st.sets(st.tuples(coefficients, coefficients, st.integers(-40, 40)), max_size=3))
def test_every_visible_point_is_in_one_range(drawn: set[tuple[int, int, int]]) -> None:
    """A block in which some point is visible is in one alone, visible all over as that says; others may be in one."""
    forms = frozenset(Affine(tuple((k, n) for k, n in ((a, "s"), (b, "t")) if k), c) for a, b, c in drawn)
    rows, columns = ("t", Affine.of("i") * 4, 4, 12), ("s", Affine.of("j") * 8, 8, 16)
    ranges = list(block_ranges(forms, rows, columns))
    for i, j in product(range(3), range(2)):
        place = {"i": Affine((), i), "j": Affine((), j)}
        tests = [[(one.index.substitute(place).offset, one.size) for one in some] for some, _ in ranges]  # type: ignore[union-attr]
        inside = [at for at, some in enumerate(tests) if all(0 <= index < size for index, size in some)]
        points = [{"t": Affine((), 4 * i + t), "s": Affine((), 8 * j + s)} for t, s in product(range(4), range(8))]
        seen = [all(form.substitute(point).offset >= 0 for form in forms) for point in points]
        assert len(inside) <= 1
        assert inside or not any(seen)
        assert all(form.substitute(one).offset >= 0 for at in inside for form in ranges[at][1] for one in points)


def test_numbers_that_read_one_matrix_often_are_seen_through_once() -> None:
    """Each matrix is twice the one before: two ways to each, and so 2**60 to the first."""
    lines = ["x0: float32[8, 8]", *(f"x{at + 1}: float32[8, 8]" for at in range(60))]
    for at in range(60):
        lines += [
            "for t in range(8):",
            "    for s in range(8):",
            f"        x{at + 1}[t, s] = x{at}[t, s] + x{at}[t, s]",
        ]
    lines[61:61] = ["for t in range(8):", "    for s in range(8):", "        x0[t, s] = where(s <= t, 0.0, -1e9)"]
    found = nests(check(parse("\n".join(lines))))
    masks = Masks({nest.target: [nest] for nest in found}, {}, 1e8)
    assert masks.low(found[-1].core.value) == {T - S}
    assert masks.vanishing(found[-1].core.value) == {S - T - 1}
