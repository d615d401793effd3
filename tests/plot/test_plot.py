"""Pictures of numbers as text and as images."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf


def test_a_curve_falls_from_the_top_left_to_the_bottom_right() -> None:
    plot = wf.plot.curve(np.linspace(5.0, 1.0, 200), width=20, height=5, title="loss")
    rows = plot.canvas.split("\n")
    assert [len(row) for row in rows] == [20] * 5
    marked = [[at for at, mark in enumerate(row) if mark != " "] for row in rows]
    assert [(one[0], one[-1]) for one in marked] == [(0, 3), (4, 7), (8, 11), (12, 15), (16, 19)]
    assert str(plot).splitlines() == [
        "loss",
        *(f"{label:>10} ┤{row}".rstrip() for label, row in zip(("5", "", "3", "", "1"), rows, strict=True)),
        "           └────────────────────",
        "            0                199",
    ]


def test_dots_of_braille_are_where_the_numbers_are() -> None:
    """Two columns and four rows in a character: 4 numbers over 2 characters fill each column once."""
    assert wf.plot.curve([0, 0, 0, 3], width=2, height=2).canvas == " ⢸\n⣀⡇"
    heights = [7, 6, 5, 4]
    assert wf.plot.curve([*heights, 0, 0], width=3, height=2).canvas.split("\n")[0][:2] == "⠑⢄"


def test_a_column_shows_the_mean_of_its_numbers() -> None:
    noisy = np.tile([0.0, 2.0], 500)
    noisy[:2] = 1.0
    rows = wf.plot.curve(noisy, width=10, height=9).canvas.split("\n")
    assert not any(rows[row].strip() for row in (0, 1, 7, 8)), "numbers between 0 and 2 have the mean 1"


def test_several_curves_have_marks() -> None:
    plot = wf.plot.curve({"train": [4, 2, 1], "test": [4.0, 3.0]}, width=5, height=4)
    assert plot.canvas.split("\n") == ["×    ", "    ×", "  •  ", "    •"]
    assert str(plot).splitlines()[-1].strip() == "• train   × test"


def test_logarithms_make_a_line_of_a_decay() -> None:
    rows = wf.plot.curve(10.0 ** -np.arange(5), width=5, height=5, log=True)
    assert [line.split("┤")[0].strip() for line in str(rows).splitlines()[:5]] == ["1", "", "0.01", "", "0.0001"]
    two = {"a": 10.0 ** -np.arange(5), "b": [1.0]}
    assert [row.find("•") for row in wf.plot.curve(two, width=5, height=5, log=True).canvas.split("\n")][1:] == [
        1,
        2,
        3,
        4,
    ]


@pytest.mark.parametrize(
    "values", [[-1.7e308, 1.7e308], [5e-324, 1e-323], [1.0, math.nextafter(1.0, 2.0)], [0.0, -0.0]]
)
def test_numbers_may_be_as_large_and_as_close_as_numbers_are(values: list[float]) -> None:
    for log in (False, True):
        assert str(wf.plot.curve(values, log=log, width=4, height=3)).count("\n") >= 4
        assert str(wf.plot.curve({"a": values, "b": [1.0]}, log=log))


def test_what_cannot_be_shown_is_counted() -> None:
    assert str(wf.plot.curve([1.0, math.nan, math.inf])).endswith("2 not shown: not finite")
    assert str(wf.plot.curve([1.0, 0.0], log=True)).endswith("1 not shown: not positive")
    assert str(wf.plot.curve([math.nan])).endswith("1 not shown: not finite")
    assert "     2 ┤" in str(wf.plot.curve([2.0, 2.0])), "numbers all alike lie in the middle"


def test_a_function_of_the_plane_is_shaded_and_has_points_on_it() -> None:
    plot = wf.plot.function(
        lambda xy: xy[:, 0], (0, 4, 0, 1), width=5, height=3, points=[[4, 1], [0, 0], [9, 9]], classes=list("bab")
    )
    assert plot.canvas.split("\n") == [" ░▒▓#", " ░▒▓█", "o░▒▓█"]
    assert str(plot) == f"{plot.canvas}\n0 to 4 across, 0 to 1 up"
    up = wf.plot.function(lambda xy: xy[:, 1:], (0, 1, -1, 1), width=3, height=4, levels=[0], title="above")
    assert str(up).split("\n")[:5] == ["above", "░░░", "░░░", "", ""]
    holes = wf.plot.function(lambda xy: np.where(xy[:, 0] > 0.5, np.nan, 1.0), (0, 1, 0, 1), width=2, height=2)
    assert holes.canvas == " ?\n ?"


@pytest.mark.parametrize("suffix", [".png", ".svg"])
def test_a_plot_is_saved_as_an_image(suffix: str, tmp_path: Path) -> None:
    pytest.importorskip("matplotlib")
    plots = {
        "curve": wf.plot.curve({"a": [3, 2, 1], "b": [1.0, math.nan]}, log=True, title="loss"),
        "shades": wf.plot.function(lambda xy: xy[:, 0], (0, 1, 0, 1), pixels=8),
        "levels": wf.plot.function(lambda xy: xy[:, 0], (0, 1, 0, 1), pixels=8, levels=[0.5], points=[[0.5, 0.5]]),
    }
    for name, plot in plots.items():
        plot.save(tmp_path / f"{name}{suffix}", width=2, height=1.5)
        content = (tmp_path / f"{name}{suffix}").read_bytes()
        assert content.startswith(b"\x89PNG") if suffix == ".png" else b"<svg" in content


def test_notebooks_get_the_same_escaped() -> None:
    plot = wf.plot.curve([1.0, 2.0], title="<b>&")
    assert "&lt;b&gt;&amp;" in plot._repr_html_()
    assert "<b>" not in plot._repr_html_()
    assert repr(plot) == str(plot)


WRONG: dict[str, tuple[Callable[[], object], str]] = {
    "no numbers": (lambda: wf.plot.curve("abc"), "a curve is numbers in order: could not convert"),
    "nothing": (lambda: wf.plot.curve([]), "a curve is numbers in order, and this is an array of shape (0,)"),
    "a matrix": (lambda: wf.plot.curve({"w": np.ones((2, 2))}), "curve 'w' is numbers in order, and this is an array"),
    "no curves": (lambda: wf.plot.curve({}), "a plot shows 1 to 8 curves, not 0"),
    "too narrow": (lambda: wf.plot.curve([1.0], width=1), "width= is 1, in characters"),
    "no frame": (
        lambda: wf.plot.function(abs, (0, 0, 1, 1)),
        "a frame is (left, right, bottom, top), not (0, 0, 1, 1)",
    ),
    "a word": (lambda: wf.plot.function(abs, "frame"), "a frame is (left, right, bottom, top), not 'frame'"),
    "too few": (
        lambda: wf.plot.function(lambda xy: xy[:1, 0], (0, 1, 0, 1), width=3, height=2),
        "the function was given 6 points, and gave an array of shape (1,)",
    ),
    "texts": (lambda: wf.plot.function(lambda xy: "x", (0, 1, 0, 1)), "the function gave no numbers"),
    "levels": (lambda: wf.plot.function(len, (0, 1, 0, 1), levels=range(5)), "5 levels are more than 4"),
    "points": (
        lambda: wf.plot.function(lambda xy: xy[:, 0], (0, 1, 0, 1), points=[1.0]),
        "points are rows of two numbers, and this is an array of shape (1,)",
    ),
    "classes": (
        lambda: wf.plot.function(lambda xy: xy[:, 0], (0, 1, 0, 1), points=[[0, 0]], classes=[1, 2]),
        "there are 1 points and 2 classes",
    ),
    "a name": (lambda: wf.plot.curve([1.0]).save(3), "an image is named by a path, not int"),  # type: ignore[arg-type]
    "a suffix": (lambda: wf.plot.curve([1.0]).save("loss"), "'loss' does not say its format: its suffix is ''"),
    "a folder": (
        lambda: wf.plot.curve([1.0]).save("none/loss.png"),
        "'none/loss.png' could not be written: No such file",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    wrong, what = WRONG[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_without_matplotlib_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(wf.WeftError, match=r"an image needs matplotlib, which is not installed\n.*\n.*weft\[plot\]"):
        wf.plot.curve([1.0]).save("loss.png")


def test_any_numbers_in_order_are_a_curve() -> None:
    given: list[Any] = [[1, 2], (1.0, 2.0), np.array([[1], [2]], np.float16), np.array([1, 2])]
    assert len({wf.plot.curve(one).canvas for one in given}) == 1
