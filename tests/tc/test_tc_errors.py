"""Wrong uses: each is told with the thing's name, both sides, and a fix."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

TC = """
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def add(float(N) x) -> (y) { y(i) += x(i) }
def three(float(3) x) -> (y) { y(i) = x(i) }
def scalars(int32 a, uint8 b, bool c) -> (y) { y = c ? a + int32(b) : 0 }
def beyond(float(N) x) -> (y) { y(i) = x(i + 1) where i in 0:4 }
def split(float(N) x) -> (y, z) { y(i) = x(i) + 1
    z(i) = x(i) * 2 }
"""
A, B = np.ones((2, 3), "float32"), np.ones((3, 4), "float32")
X = np.ones(4, "float32")
O = np.ones((2, 4), "float32")  # noqa: E741

WRONG: list[tuple[Callable[[Any], Any], str, str]] = [
    (lambda tc: tc.mm(A), "`mm` was not given `B`", "call mm(A, B)"),
    (lambda tc: tc.mm(A, B, B), "`mm` takes 2 arguments and was given 3", "call mm(A, B)"),
    (lambda tc: tc.mm(A, B, A=A), "`mm` was given `A` twice", "call mm(A, B)"),
    (lambda tc: tc.mm(A, B, Q=A), "`mm` has no parameter `Q`", "call mm(A, B)"),
    (lambda tc: tc.mm(A, A), "`K` is 3 as axis 1 of `A` and 2 as axis 0 of `B`", "make them equal"),
    (lambda tc: tc.mm(A[0], B), "`A` has 2 axes, and what is given is one axis of 3", "pass another tensor"),
    (lambda tc: tc.mm(A, 3.0), "`B` has 2 axes, and what is given is a single number", "pass another tensor"),
    (lambda tc: tc.mm(A.astype("float64"), B), "`A` of `mm` is float32, and what is given is float64", "`double(…) A`"),
    (lambda tc: tc.mm(A.tolist(), B), "`A` of `mm` is float32, and what is given is float64", "convert it"),
    (lambda tc: tc.mm(A, "B"), "`B`: data must be numbers, not <U1", "convert it first"),
    (lambda tc: tc.mm(A, None), "`B`: data must be numbers, not object", "convert it first"),
    (lambda tc: tc.mm(A, B.astype(complex)), "`B`: data must be numbers, not complex128", "convert it first"),
    (lambda tc: tc.three(X), "axis 0 of `x` is 4, and its type says 3", "pass a tensor of that size"),
    (lambda tc: tc.beyond(X), "`i + 1` takes the values 1 to 4, and axis 0 of `x` is 4", "stay in 0:4"),
    (lambda tc: tc.scalars(2.5, 1, True), "`a` is int32, and 2.5 is no number of that type", "pass another number"),
    (lambda tc: tc.scalars(2**40, 1, True), "`a` is int32, and 1099511627776 is no number", "pass another number"),
    (lambda tc: tc.scalars(1, -1, True), "`b` is uint8, and -1 is no number", "pass another number"),
    (lambda tc: tc.scalars(1, 1, 7), "`c` is bool, and 7 is no number", "pass another number"),
    (lambda tc: tc.add(X), "`add` accumulates into `y`", "as `y` or by `outputs`"),
    (lambda tc: tc.add(X, outputs=(A,)), "`y` has 1 axis, and what is given is 2×3", "pass another tensor"),
    (lambda tc: tc.mm(A, B, outputs=O), "`outputs` of `mm` are not 1 arrays", "(C,)"),
    (lambda tc: tc.mm(A, B, outputs=()), "`outputs` of `mm` are not 1 arrays", "(C,)"),
    (
        lambda tc: tc.mm(A, B, outputs=(A,)),
        "`C` is float32[2, 4], and the output given for it is float32[2, 3]",
        "shape",
    ),
    (lambda tc: tc.mm(A, B, outputs=(O.astype("float64"),)), "the output given for it is float64[2, 4]", "type"),
    (lambda tc: tc.mm(A, B, outputs=("C",)), "the output given for `C`, str, cannot be written", "pass a NumPy array"),
    (lambda tc: tc.mm(A, B, outputs=(np.broadcast_to(O[:1], (2, 4)),)), "its memory is read-only", "may be written"),
    (lambda tc: tc.split(X, outputs=(X, X)), "the outputs given for `y` and `z` share memory", "a different array"),
    (lambda tc: tc.mm.show("loops"), "`mm` was not given `A`", "call mm(A, B)"),
]


@pytest.mark.parametrize("number", range(len(WRONG)))
def test_wrong_uses(number: int) -> None:
    use, said, fix = WRONG[number]
    with pytest.raises(wf.WeftError) as error:
        use(wf.tc.define(TC, backend="interp"))
    assert said in str(error.value)
    assert fix in str(error.value).split("fix:")[1]
    assert "test_tc_errors.py" in str(error.value)
