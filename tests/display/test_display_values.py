"""Values to look at: boxes with named axes, both ends of what is long, and a line that is true of all."""

from __future__ import annotations

import re
from html import unescape
from typing import Any

import numpy as np
import pytest

import weft as wf

ctx = wf.Context("interp")


def text(array: Any, **options: Any) -> str:
    return str(ctx.show(wf.data(np.asarray(array), **{"label": "t", **options})))


def test_a_matrix_is_a_box() -> None:
    w = wf.data(np.array([[1.5, -2, 0.123456], [4, 50000, 1e-9]], np.float32), input=1, label="w")
    assert str(ctx.show(w)).splitlines() == [
        "w: 3->2 float32",
        "┌──────────────────┬──────────────────┐",
        "│ output ↓ input → │   0     1      2 │",
        "├──────────────────┼──────────────────┤",
        "│                0 │ 1.5    -2 0.1235 │",
        "│                1 │   4 5e+04  1e-09 │",
        "└──────────────────┴──────────────────┘",
        "min -2   mean 8334   max 5e+04   nan 0",
    ]


def test_one_axis_is_a_row_and_one_number_a_line() -> None:
    assert text([3, 4]).splitlines()[1:4] == ["┌──────────┬─────┐", "│ output → │ 0 1 │", "├──────────┼─────┤"]
    assert text([3, 4]).splitlines()[-1] == "min 3   mean 3.5   max 4   nan 0"
    assert text([2.5]) == "t: 1 float64\n2.5"
    assert text(np.zeros((2, 0))) == "t: 2,0 float64\nno values"


def test_each_position_along_outer_axes_has_a_box() -> None:
    shown = text(np.arange(24).reshape(2, 2, 2, 3), batch=1, input=1)
    titles = [line for line in shown.splitlines() if "=" in line]
    assert titles == [f"batch = {b}, output[0] = {o}" for b in range(2) for o in range(2)]
    assert shown.count("│ output[1] ↓ input → │") == 4
    assert "│                   1 │ 21 22 23 │" in shown


def test_axes_are_called_by_their_labels() -> None:
    x = wf.data(np.ones((2, 3)), b=wf.Dim(2, "examples"), o=wf.Dim(3, "rgb"), label="x")
    assert "│ batch examples ↓ output rgb → │" in str(ctx.show(x))


def test_of_what_is_long_both_ends_are_shown() -> None:
    grid = wf.data(np.arange(3000).reshape(30, 100), batch=1, label="t")
    shown = str(ctx.show(grid, rows=3, columns=4))
    assert [line.split() for line in shown.splitlines()[2:-2] if "─" not in line] == [
        ["│", "batch", "↓", "output", "→", "│", "0", "1", "…", "98", "99", "│"],
        ["│", "0", "│", "0", "1", "…", "98", "99", "│"],
        ["│", "1", "│", "100", "101", "…", "198", "199", "│"],
        ["│", "…", "│", "…", "…", "…", "…", "…", "│"],
        ["│", "29", "│", "2900", "2901", "…", "2998", "2999", "│"],
    ]
    many = ctx.show(wf.data(np.zeros((9, 2, 2)), batch=1), boxes=3)
    assert [line for line in str(many).splitlines() if "batch" in line or "more" in line] == [
        "batch = 0",
        "batch = 1",
        "… 6 more …",
        "batch = 8",
    ]
    assert str(ctx.show(grid)).count("\n") == 16


@pytest.mark.parametrize(
    ("values", "line"),
    [
        ([1.0, np.nan, 3.0], "min 1   mean 2   max 3   nan 1"),
        ([np.nan, np.nan], "nan 2"),
        ([-np.inf, 1.0], "min -inf   mean -inf   max 1   nan 0"),
        ([True, False], "min False   mean 0.5   max True   nan 0"),
        (np.array([250, 255], np.uint8), "min 250   mean 252.5   max 255   nan 0"),
        (np.array([60000, 60000], np.float16), "min 6e+04   mean 6e+04   max 6e+04   nan 0"),
    ],
)
def test_the_line_below_is_true_of_all_values(values: Any, line: str) -> None:
    assert text(values).splitlines()[-1] == line


def test_every_type_is_shown() -> None:
    for dtype in ("bfloat16", "float8_e4m3fn", "float8_e5m2"):
        shown = str(ctx.show(wf.cast(wf.data(np.array([0.5, 2.0])), dtype)))
        assert f"2 {dtype}\n" in shown
        assert "│ 0.5 2 │" in shown


def test_notebooks_get_the_same_escaped() -> None:
    evil = wf.data(np.ones((2, 2)), o=wf.Dim(2, "<b>"), b=2, label="<script>alert(1)</script>&")
    html = ctx.show(evil)._repr_html_()
    assert "<script>" not in html
    assert "&lt;script&gt;alert(1)&lt;/script&gt;&amp;: 2|&lt;b&gt;=2 float64" in html
    assert "<b>" not in html
    words = unescape(re.sub("<[^>]*>", " ", html)).split()
    assert words == re.sub("[│─┌┐└┘├┤┬┴┼]", " ", str(ctx.show(evil))).split()


def test_wrong_use_is_told() -> None:
    with pytest.raises(wf.WeftError) as caught:
        ctx.show(wf.data(np.ones(3)), rows=0)
    assert caught.value.what == "rows= says how many to show at most, and is 0"
    assert caught.value.fix == "write rows=1 or more"
    with pytest.raises(wf.WeftError) as caught:
        ctx.show(3)  # type: ignore[arg-type]
    assert caught.value.what == "a context holds tensors, not int"


def test_a_tensor_says_its_type_where_that_is_settled() -> None:
    w = wf.param("w", o=2)
    assert repr(w) == "<w: ...->2>"
    assert repr(w) == "<w: ...->2>", "looking settles nothing"
    ctx[w * wf.data(np.ones(2))]
    assert repr(w) == "<w: 2 float64>"
