"""Scalars made simpler, one line each."""

from __future__ import annotations

from itertools import product

import numpy as np
import pytest
from hypothesis import given, strategies as st

from loops.written import K, V, program
from weft.affine import Affine
from weft.loops import Cast, Local, Read, Store, dtype_of, show_scalar
from weft.loops.constants import constant_of, constant_value as number_of
from weft.loops.interp.values import evaluated
from weft.ops import OPS, Call, Num, Scalar
from weft.ops.convert import convert, exact, needless
from weft.ops.dtypes import ELEMENT_TYPES, is_float, numpy_type
from weft.optimise.simplify import simplified


def scalar(text: str) -> Scalar:
    """A scalar of single precision, in a place where `s` is a static index."""
    (stmt,) = program(f"V[s] = {text}").body
    assert isinstance(stmt, Store)
    return stmt.value


SIMPLER = {
    "V[s] + 0.0": "(V[s] + 0.0)",
    "0 - V[s] * 1.0": "(0 - V[s])",
    "neg(V[s] - W[s])": "neg((V[s] - W[s]))",
    "V[s] - 0.0": "V[s]",
    "exp(V[s]) + 0.0": "exp(V[s])",
    "0 + (abs(V[s]) + W[s]) * 1.0": "(abs(V[s]) + W[s])",
    "float32(K[s]) + 0.0": "float32(K[s])",
    "V[s] * 0.0": "(V[s] * 0.0)",
    "V[s] - V[s]": "(V[s] - V[s])",
    "neg(neg(V[s]))": "V[s]",
    "V[s] + neg(W[s])": "(V[s] - W[s])",
    "V[s] / 4.0": "(V[s] * 0.25)",
    "V[s] / 3.0": "(V[s] / 3.0)",
    "1.0 / V[s]": "recip(V[s])",
    "pow(V[s], 2)": "(V[s] * V[s])",
    "pow(V[s], 3.0)": "((V[s] * V[s]) * V[s])",
    "pow(V[s], 5.0)": "pow(V[s], 5.0)",
    "pow(V[s] + W[s], 2.0)": "pow((V[s] + W[s]), 2.0)",  # an operand is not computed twice
    "pow(V[s], -1.0)": "recip(V[s])",
    "pow(V[s], 0.5)": "pow(V[s], 0.5)",
    "where(V[s] < V[s], W[s], 2.0)": "2.0",
    "where(V[s] < W[s], V[s], V[s])": "V[s]",
    "max(max(V[s], 1.0), 2.0)": "max(V[s], 2.0)",
    "(V[s] + 1.0) + 2.0": "((V[s] + 1.0) + 2.0)",
    "relu(relu(V[s]))": "relu(V[s])",
    "2.0 * 3.0 + 0.5": "6.5",
    "exp(0.0) * V[s]": "V[s]",
    "recip(0.0)": "recip(0.0)",  # a warning is left to where it runs
    "sqrt(-1.0)": "sqrt(-1.0)",
    "0.1 + 0.2": "0.3",
    "float16(0.1)": "0.099975586",
    "float32(int64(2.9))": "2.0",
    "float32(int8(300))": "44.0",
    "float32(uint8(-1.0))": "0.0",
    "K[s] * 0": "0.0",
    "K[s] - K[s]": "0.0",
    "(K[s] + 1) + 2": "float32(K[s] + 3)",
    "floor(K[s])": "float32(K[s])",
    "float64(K[s])": "float32(float64(K[s]))",
    "float64(float16(V[s]))": "float32(float16(V[s]))",
    "float64(V[s])": "V[s]",
    "float32(V[s] < W[s])": "float32(V[s] < W[s])",
    "ne(V[s] < W[s], 0)": "float32(V[s] < W[s])",
    "where(V[s] < W[s], 1.0, 0.0)": "float32(V[s] < W[s])",
    "s + s": "2*s",
    "3 * s - 2 * s": "s",
    "V[mod(7, 4)]": "V[3]",
    "V[s + 0 * K[s]]": "V[(s + (0 * K[s]))]",  # where `s` ends is not known here
    "V[mod(7, 4) + 9]": "V[(mod(7, 4) + 9)]",  # nothing outside becomes a place
    "H[s] * 1.0": "float32(H[s])",
    "exp(log(V[s]))": "exp(log(V[s]))",
}
FASTER = {
    "V[s] * 0.0": "0.0",
    "V[s] - V[s]": "0.0",
    "V[s] / 3.0": "(V[s] * 0.33333334)",
    "pow(V[s], 0.5)": "sqrt(V[s])",
    "(V[s] + 1.0) + 2.0": "(V[s] + 3.0)",
    "exp(log(V[s]))": "V[s]",
    "V[s] * W[s] + 1.0": "fma(V[s], W[s], 1.0)",
    "1.0 / sqrt(V[s])": "recip_sqrt(V[s])",
    "V[s] * float32(0 < W[s])": "where((0 < W[s]), V[s], 0.0)",
    "recip(0.0)": "recip(0.0)",
}


@pytest.mark.parametrize("text", SIMPLER)
def test_simpler(text: str) -> None:
    before = scalar(text)
    after = simplified(before)
    assert show_scalar(after) == SIMPLER[text]
    assert dtype_of(after) == "float32"
    assert simplified(after) is after


@pytest.mark.parametrize("text", FASTER)
def test_simpler_under_fast_math(text: str) -> None:
    assert show_scalar(simplified(scalar(text), fast=True)) == FASTER[text]


def test_what_cannot_be_simpler_is_the_very_same() -> None:
    before = scalar("exp(V[s]) * W[s] + V[mod(K[s], 4)]")
    assert simplified(before) is before


def test_zeros_of_different_sign_are_not_the_same() -> None:
    plus, minus = (Call("div", (Read(V, (Affine(()),)), Cast("float32", Num(zero)))) for zero in (0.0, -0.0))
    condition = Call("lt", (Read(K, (Affine(()),)), Cast("int64", Num(0))))
    choice = Call("where", (condition, plus, minus))
    assert plus == minus  # to Python
    assert simplified(choice) is choice


def test_subscripts_stay_affine() -> None:
    before = Read(V, (Affine(((1, "s"),)),))
    assert simplified(before) is before


@given(st.data())
def test_constants_keep_their_value(data: st.DataObject) -> None:
    dtype = data.draw(st.sampled_from(ELEMENT_TYPES))
    with np.errstate(all="ignore"):
        value = convert(data.draw(st.floats() | st.integers(-(1 << 63), (1 << 63) - 1)), dtype)
        again = number_of(constant_of(value, dtype))
    assert again.dtype == numpy_type(dtype)
    assert again.tobytes() == np.asarray(value, numpy_type(dtype)).tobytes() or (again != again and value != value)


@given(st.data())
def test_calls_of_constants_come_to_what_they_mean(data: st.DataObject) -> None:
    op = data.draw(
        st.sampled_from([one for one in OPS.values() if one.name not in ("uniform", "normal", "threefry4x32")])
    )
    dtype = data.draw(st.sampled_from(["int64", "float32", "float64"]))
    kinds = st.integers(-9, 9) if dtype == "int64" else st.floats(-9, 9, width=32)
    wanted, _ = op.typing(*[dtype] * op.arity)
    if any(one not in ("bool", "int64", "float32", "float64") for one in wanted):
        return
    call = Call(op.name, tuple(Cast(one, Num(data.draw(kinds))) for one in wanted))
    simple = simplified(call)
    assert dtype_of(simple) == dtype_of(call)
    with np.errstate(all="ignore"):
        one, other = (np.asarray(evaluated(scalar, {}, {})) for scalar in (call, simple))
    np.testing.assert_allclose(other, one, rtol=1e-6)


def samples(dtype: str) -> np.ndarray:
    """Values of a type: all of them if they are few, else its ends and some between."""
    kind, numbers = numpy_type(dtype), np.random.default_rng(0)
    if dtype == "bool":
        return np.array([False, True])
    if kind.itemsize == 1:
        return np.arange(256, dtype=np.uint8).view(kind)
    if is_float(dtype):
        ends = [
            0,
            -0.0,
            np.inf,
            -np.inf,
            np.nan,
            1e-310,
            1e-42,
            65504,
            65520,
            3e38,
            1e300,
            127.5,
            -129,
            2.0**31,
            2.0**63,
        ]
        with np.errstate(over="ignore"):
            return np.array([*ends, *(numbers.normal(size=99) * 10.0 ** numbers.integers(-9, 20, 99))]).astype(kind)
    ends = np.iinfo(kind)
    inside = [ends.min, ends.max, ends.max // 2 + 1, min(ends.max, (1 << 24) + 1), min(ends.max, (1 << 53) + 1)]
    return np.array([*inside, *numbers.integers(ends.min, ends.max, 99, kind)], kind)


def bits(array: object) -> np.ndarray:
    """Values as they can be compared: what is not a number equals itself, zeros have signs."""
    wide = np.asarray(array)
    wide = wide.astype(np.float64) if is_float(wide.dtype.name) else wide
    return (
        np.where(wide != wide, 0, np.where((wide == 0) & np.signbit(wide), -0.5, wide))
        if wide.dtype.kind == "f"
        else wide
    )


@pytest.mark.parametrize("source", ELEMENT_TYPES)
def test_a_needless_conversion_changes_nothing(source: str) -> None:
    values = samples(source)
    with np.errstate(all="ignore"):
        for between, target in product(ELEMENT_TYPES, repeat=2):
            if needless(source, between, target):
                straight, bent = convert(values, target), convert(convert(values, between), target)
                np.testing.assert_array_equal(bits(bent), bits(straight), f"{source} {between} {target}")
            if between == target and exact(source, target):
                np.testing.assert_array_equal(bits(convert(convert(values, target), source)), bits(values))


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_conversions_that_change_nothing_are_left_out(dtype: str) -> None:
    local = Local("x", dtype)
    assert simplified(Cast(dtype, local)) is local
    assert simplified(Cast(dtype, Cast("float64", Cast(dtype, local)))) == (
        local if exact(dtype, "float64") else Cast(dtype, Cast("float64", local))
    )
