"""Wrong uses that must be errors of weft, and axes of size 1 that must not be lost."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf


def value(tensor: wf.Tensor) -> list[float]:
    return wf.Context("interp")[tensor].tolist()


def test_axes_of_one_can_be_concatenated_and_used() -> None:
    x, y = wf.param("x", o=1, init=1.0), wf.param("y", o=1, init=2.0)
    scaled = x * 2.0
    assert value(wf.concat(scaled, y, scaled) * 1.0 + 0.0) == [2.0, 2.0, 2.0]


WRONG: dict[str, Callable[[], object]] = {
    "a ragged list as init": lambda: wf.param("w", init=[[1], [2, 3]]),
    "an element type that is none": lambda: wf.param("w", o=2, dtype="floaty"),
    "an element type of a literal that is none": lambda: wf.tensor([1.0], dtype="floaty"),
    "a number that is text": lambda: wf.number("a"),  # type: ignore[arg-type]
    "a constant that is text": lambda: wf.constant("a"),  # type: ignore[arg-type]
    "a count of axes that is text": lambda: wf.data([1.0, 2.0], batch="x"),  # type: ignore[arg-type]
    "a step that is text": lambda: wf.dropout(wf.number(1.0), 0.5, step="n"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", WRONG)
def test_wrong_use_is_an_error_of_weft(name: str) -> None:
    with pytest.raises(wf.WeftError):
        WRONG[name]()


def test_habits_of_other_libraries_are_answered() -> None:
    x = wf.data(np.ones((2, 6)), batch=1, label="x")
    for wrong, what, fix in (
        (lambda: wf.concat([x, x]), "concat takes tensors one by one, not a list of them", "write wf.concat(*tensors)"),
        (lambda: wf.stack((x, x)), "stack takes tensors one by one, not a list of them", "write wf.stack(*tensors)"),
        (
            lambda: wf.pad(x, (1, 2)),
            "`pad` takes a whole number for `before`, not (1, 2)",
            "pad(x, before, after",
        ),
        (lambda: wf.top_k(x, 40), "there are no 40 largest along `v` of `x`, which is 2|6", "or fewer"),
    ):
        with pytest.raises(wf.WeftError) as refused:
            wrong()  # type: ignore[no-untyped-call]
        assert refused.value.what == what
        assert fix in refused.value.fix
