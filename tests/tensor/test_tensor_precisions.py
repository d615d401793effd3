"""Element types of tensors: where they come from, what is computed in them, on both backends."""

from __future__ import annotations

import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from tensor.differences import EVERYTHING
from tensor.exact import Exact, whole_numbers
from weft.assign import statements, target
from weft.ops.dtypes import ELEMENT_TYPES, is_float, numpy_type

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])
FLOATS = ("float16", "bfloat16", "float32", "float64")
NARROW = ("float16", "bfloat16")
SCALE = wf.tc.define("def scale(float16(B,D) X, float(D) S) -> (Y) { Y(b,d) = X(b,d) * S(d) }")


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path_factory.getbasetemp() / "precisions"))


def data(values: object, dtype: str, **axes: int) -> wf.Tensor:
    return wf.data(np.array(values).astype(numpy_type(dtype)), **axes)


def value(backend: str, tensor: wf.Tensor) -> list[object]:
    """What a tensor comes to, as plain numbers; it is stored in its type."""
    found = wf.Context(backend)[tensor]
    assert found.dtype == numpy_type(tensor.dtype)
    return found.tolist()


# Where types come from


@BACKENDS
@pytest.mark.parametrize("dtype", FLOATS)
def test_a_parameter_takes_the_type_of_the_data_it_is_applied_to(backend: str, dtype: str) -> None:
    w, x = wf.param("w", o=2), data(np.ones((4, 3)), dtype, batch=1)
    y = w @ x
    ctx = wf.Context(backend)
    assert ctx[y].dtype == ctx[w].dtype == numpy_type(dtype)
    assert w.grad.dtype == dtype


def test_a_parameter_used_in_two_types_is_of_the_wider() -> None:
    w = wf.param("w", o=3)
    first, second = w * data([1, 2, 3], "float16"), w + data([1, 2, 3], "float64")
    assert (w.dtype, first.dtype, second.dtype) == ("float64", "float64", "float64")


def test_half_and_brain_floats_meet_in_single_precision() -> None:
    w = wf.param("w", o=3)
    assert (w * data([1, 2, 3], "float16") + w * data([1, 2, 3], "bfloat16")).dtype == "float32"
    assert w.dtype == "float32"


@pytest.mark.parametrize("dtype", ["bfloat16", "float64"])
def test_parameters_used_only_together_take_the_type_of_their_use(dtype: str) -> None:
    w, b = wf.param("w", o=3), wf.param("b", o=3)
    h = wf.tanh(w + b)
    y = h * data([1, 2, 3], dtype)
    assert [one.dtype for one in (w, b, h, y)] == [dtype] * 4


def test_parameters_of_a_layer_take_the_type_of_what_enters() -> None:
    @wf.op
    def dense(x: wf.Tensor, *, size: int) -> wf.Tensor:
        return wf.relu("w" @ x + wf.param("b", o=size))

    layer = dense(size=4)
    assert layer(data(np.ones(3), "bfloat16")).dtype == "bfloat16"
    assert {one.dtype for one in layer.params} == {"bfloat16"}


def test_a_parameter_nobody_uses_is_a_float32() -> None:
    assert wf.param("w", o=2).dtype == "float32"


@pytest.mark.parametrize("dtype", [one for one in ELEMENT_TYPES if one != "bool" and "float8" not in one])
def test_numbers_of_the_program_take_the_type_of_what_they_meet(dtype: str) -> None:
    x = data([1, 2, 3], dtype)
    literal, constant, number = wf.tensor([1, 2, 3]), wf.constant(2), wf.number(2)
    assert {(x + one).dtype for one in (literal, constant, number, 2)} == {dtype}
    assert {one.dtype for one in (literal, constant, number)} == {dtype}


@pytest.mark.parametrize("dtype", FLOATS)
def test_random_numbers_take_the_type_of_what_they_meet(dtype: str) -> None:
    x = data([1, 2, 3], dtype)
    drawn = [wf.random_uniform("u", step=0), wf.random_standard_normal("n", step=0), wf.bernoulli("b", 0.5, step=0)]
    assert [(x * one).dtype for one in drawn] == [dtype] * 3
    assert [one.dtype for one in drawn] == [dtype] * 3
    assert wf.dropout(x, 0.5, step=0).dtype == dtype


def test_fractions_make_floats_of_whole_numbers() -> None:
    x = data([1, 2, 3], "int8")
    fractions = [0.5, wf.constant(0.5), wf.tensor([1, 2.5, 3]), wf.tensor([2.5, 1, 3]), wf.param("w", o=3)]
    assert [(x * one).dtype for one in fractions] == ["float32"] * 5


@BACKENDS
def test_literals_are_exact_in_the_type_they_take(backend: str) -> None:
    large = 2**53 + 1
    assert value(backend, wf.tensor([large, -large]) + data([0, 1], "int64")) == [large, 1 - large]
    assert value(backend, wf.constant(large) + data([0, 1], "int64")) == [large, large + 1]
    assert value(backend, wf.tensor([0.1]) + data([0], "float64")) == [0.1]


def test_what_the_user_says_wins() -> None:
    x = data([1, 2, 3], "float64")
    w, c, t = wf.param("w", o=3, dtype="float16"), wf.constant(1, dtype="int8"), wf.tensor([1, 2, 3], dtype="bfloat16")
    assert [(w * x).dtype, (c + x).dtype, (t * x).dtype] == ["float64"] * 3
    assert [w.dtype, c.dtype, t.dtype] == ["float16", "int8", "bfloat16"]


def test_asking_for_a_type_settles_it() -> None:
    w = wf.param("w", o=3)
    assert w.dtype == "float32"
    assert (w * data([1, 2, 3], "float16")).dtype == "float32"
    late = wf.param("late", o=3)
    assert ((late * data([1, 2, 3], "float16")).dtype, late.dtype) == ("float16", "float16")
    assert (late * data([1, 2, 3], "float64")).dtype == "float64"
    assert late.dtype == "float16"


def test_running_settles_types_too() -> None:
    w = wf.param("w", o=3)
    wf.Context("interp")[w]
    assert (w * data([1, 2, 3], "float16")).dtype == "float32"


def test_a_type_that_is_none_is_refused_by_name() -> None:
    for make in (
        lambda: wf.param("w", dtype="float17"),
        lambda: wf.cast(wf.constant(1), "complex64"),
        lambda: wf.cast(wf.constant(1), None),
        lambda: wf.node("v", at_least="bf16"),
    ):
        with pytest.raises(wf.WeftError, match=r"is not an element type|takes text for `dtype`"):
            make()


@pytest.mark.parametrize("kind", [np.complex64, np.longdouble, np.str_, np.object_, ml_dtypes.int4, "datetime64[s]"])
def test_data_of_other_types_is_refused(kind: object) -> None:
    with pytest.raises(wf.WeftError, match="data must be numbers, not "):
        wf.data(np.zeros(2).astype(np.dtype(kind)))


def test_what_is_masked_is_no_number() -> None:
    masked = np.ma.array([1.0, 2.0], mask=[False, True])
    with pytest.raises(wf.WeftError, match="1 of 2 numbers of a masked array have no value"):
        wf.data(masked)
    np.testing.assert_array_equal(wf.Context("interp")[wf.data(np.ma.array([1.0, 2.0]))], [1, 2])


def test_what_does_not_meet_is_refused_at_the_line_that_joins_it() -> None:
    signed, unsigned = data([1, 2], "int64"), data([1, 2], "uint64")
    with pytest.raises(wf.WeftError, match="no whole-number type holds both uint64 and int64") as caught:
        signed + unsigned
    assert caught.value.origin is not None
    assert caught.value.origin.code == "signed + unsigned"
    later = signed * 2 + unsigned * 2
    with pytest.raises(wf.WeftError, match="no whole-number type holds both uint64 and int64") as caught:
        wf.Context("interp")[later]
    assert caught.value.origin is not None
    assert caught.value.origin.code == "later = signed * 2 + unsigned * 2"


# Assignments


def test_a_node_takes_the_type_of_what_is_assigned() -> None:
    delta, held, given = wf.node("delta"), wf.node("held", at_least="float32"), wf.node("given", dtype="int8")
    x = data([1, 2, 3], "float16")

    @wf.cd
    def code() -> None:
        delta[:] = x * 2
        held[:] = 0.9 * held + x
        given[:] = x

    code()
    assert [one.dtype for one in (delta, held, given)] == ["float16", "float32", "int8"]


@BACKENDS
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint16", "float16", "float64"])
def test_a_recurrent_node_keeps_its_type(backend: str, dtype: str) -> None:
    x, v = data([1, 0, 1], dtype), wf.node("v")

    @wf.cd
    def code() -> None:
        v[:] = wf.where(x, x, v)

    ctx = wf.Context(backend)
    step = ctx.compile(code())
    step()
    step()
    assert v.dtype == dtype
    assert ctx[v].tolist() == [1, 0, 1]


# Casts


CASTS = [
    ("float32", "int8", [1.9, -1.9, 300, -300, np.nan, np.inf], [1, -1, 127, -128, 0, 127]),
    ("float64", "uint64", [-1, 2.0**53, 2.0**64, -np.inf, 0.5, np.nan], [0, 2**53, 2**64 - 1, 0, 0, 0]),
    ("float16", "bool", [0, -0.0, 2, np.nan, 6e-8, np.inf], [False, False, True, True, True, True]),
    ("int64", "int8", [127, 128, -129, 2**40, -1, 256], [127, -128, 127, 0, -1, 0]),
    ("int64", "uint64", [-1, 0, 1, -(2**63), 2**62, 5], [2**64 - 1, 0, 1, 2**63, 2**62, 5]),
    ("float64", "float16", [1e-9, 65519, 65520, 2049, -2051, 1 / 3], [0, 65504, np.inf, 2048, -2052, 0.333251953125]),
    ("float32", "float8_e5m2", [1.1, 57344, 61439, 61440, 1e-9, -2.5], [1, 57344, 57344, np.inf, 0, -2.5]),
    ("float32", "float8_e4m3fn", [1.1, 448, 464, -17, 0.0009765625, 3], [1.125, 448, 448, -16, 0, 3]),
    ("bool", "float8_e4m3fn", [True, False, True, True, False, True], [1, 0, 1, 1, 0, 1]),
]


@BACKENDS
@pytest.mark.parametrize(("source", "to", "values", "found"), CASTS, ids=[f"{one[0]} to {one[1]}" for one in CASTS])
def test_casts(backend: str, source: str, to: str, values: list[float], found: list[object]) -> None:
    y = wf.cast(data(values, source), to)
    assert (y.dtype, value(backend, y)) == (to, found)


@BACKENDS
def test_gradients_come_back_in_the_type_of_the_tensor(backend: str) -> None:
    w = wf.param("w", o=3, dtype="float64", init=[1.0, 2.0, 3.0])
    narrow = wf.cast(w, "float16")
    loss = wf.einsum(EVERYTHING, narrow * narrow * data([0.1, 0.2, 0.3], "float16"))
    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(loss), keep=[w.grad, narrow.grad])()
    assert (loss.dtype, narrow.grad.dtype, w.grad.dtype) == ("float16", "float16", "float64")
    np.testing.assert_array_equal(ctx[w.grad], ctx[narrow.grad].astype(np.float64))
    np.testing.assert_allclose(ctx[w.grad], [0.2, 0.8, 1.8], rtol=2e-3)


def test_a_parameter_that_is_cast_does_not_take_the_type_of_the_cast() -> None:
    w = wf.param("w", o=3)
    assert (wf.cast(w, "float16") * data([1, 2, 3], "float16")).dtype == "float16"
    assert w.dtype == "float32"


def test_nothing_is_differentiated_through_whole_numbers() -> None:
    w = wf.param("w", o=3, init=[1.5, 2.5, 3.5])
    whole = wf.cast(w, "int32")
    with pytest.raises(wf.WeftError, match="has no gradient"):
        whole.grad
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(wf.einsum(EVERYTHING, whole * w)), keep=[w.grad])()
    assert ctx[w.grad].tolist() == [1, 2, 3]


@BACKENDS
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2", *NARROW])
def test_gradients_are_stored_as_their_tensors(backend: str, dtype: str) -> None:
    w = wf.param("w", o=4, dtype=dtype, init=[1.0, 2.0, 2.0, -3.0])
    pooled = wf.einsum("o<+k=>o", w, accum="max", k=2)
    loss = wf.einsum(EVERYTHING, pooled)
    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(loss), keep=[w.grad])()
    assert (w.grad.dtype, ctx[w.grad].dtype) == (dtype, numpy_type(dtype))
    assert pooled.dtype == dtype
    assert ctx[w.grad].tolist() == [0, 1.5, 1.5, 0]


# Whole numbers


@BACKENDS
@pytest.mark.parametrize("dtype", ["int64", "uint64"])
def test_sums_of_whole_numbers_are_exact_beyond_what_floats_hold(backend: str, dtype: str) -> None:
    x = data([2**53, 1, 2**53, 1, 1], dtype)
    total, weighted = wf.einsum("i=>0", x), wf.einsum("i;i=>0", x, data([3, 1, 0, 1, 5], dtype))
    assert value(backend, total) == [2**54 + 3]
    assert value(backend, weighted) == [3 * 2**53 + 7]
    assert (total.dtype, weighted.dtype) == (dtype, dtype)


@BACKENDS
def test_quotients_and_rests_are_exact_beyond_what_floats_hold(backend: str) -> None:
    x = data([2**62 + 1, -(2**62) - 1, 2**53 + 3, 7, -7], "int64")
    y = data([3, 3, -2, 0, 2], "int64")
    assert value(backend, x // y) == [(2**62 + 1) // 3, (-(2**62) - 1) // 3, (2**53 + 3) // -2, 0, -4]
    assert value(backend, x % y) == [(2**62 + 1) % 3, (-(2**62) - 1) % 3, (2**53 + 3) % -2, 0, 1]
    assert (x // y).dtype == (x % y).dtype == "int64"


@BACKENDS
def test_division_of_whole_numbers_gives_floats(backend: str) -> None:
    y = data([1, 7, -3], "int8") / data([2, 4, 0], "int8")
    assert (y.dtype, value(backend, y)) == ("float32", [0.5, 1.75, -np.inf])


@BACKENDS
@pytest.mark.parametrize("dtype", ["bool", "int8", "uint64"])
def test_comparisons_of_whole_numbers_are_whole_numbers(backend: str, dtype: str) -> None:
    x, y = data([1, 0, 1], dtype), data([1, 1, 0], dtype)
    assert {one.dtype for one in (x < y, wf.equal(x, y), x <= y, wf.logical_and(x, y))} == {dtype}
    assert value(backend, x < y) == [0, 1, 0]


@BACKENDS
def test_comparisons_are_exact_beyond_what_floats_hold(backend: str) -> None:
    x = data([2**53, 2**53 + 1], "int64")
    assert value(backend, wf.equal(x, 2**53 + 1)) == [0, 1]
    assert value(backend, x < 2**53 + 1) == [1, 0]
    assert value(backend, data([100, -1], "int8") < 300) == [1, 1]


@BACKENDS
def test_moving_whole_numbers_does_not_widen_them(backend: str) -> None:
    x = data([[100, -100], [50, 60]], "int8")
    moved = [wf.concat(x, x), wf.einsum("ij=>ji", x), x.T, wf.stack(x, x), wf.einsum("i=>2*i+1", data([7, 8], "int8"))]
    assert {one.dtype for one in moved} == {"int8"}
    assert value(backend, moved[1]) == [[100, 50], [-100, 60]]
    assert value(backend, moved[4]) == [0, 7, 0, 8]
    assert data([[1, 2]], "int8", batch=1)[0].dtype == "int8"
    assert wf.einsum("ij=>i", x).dtype == "int64"
    assert (data([[1, 2]], "int8", input=1) @ data([1, 2], "int8")).dtype == "int64"
    assert wf.einsum("ij=>i", x, accum="max").dtype == "int8"


@BACKENDS
@pytest.mark.parametrize("dtype", [one for one in ELEMENT_TYPES if one != "bool"])
def test_accumulations_start_from_the_ends_of_the_type(backend: str, dtype: str) -> None:
    """What is never written is neutral: nothing is larger than the start of a minimum."""
    x = data([5, 7], dtype)
    low, high = (value(backend, wf.einsum("i=>2*i+1", x, accum=accum)) for accum in ("max", "min"))
    assert (low[1::2], high[1::2]) == ([5, 7], [5, 7])
    if dtype != "float8_e4m3fn":
        ends = (-np.inf, np.inf) if is_float(dtype) else (np.iinfo(dtype).min, np.iinfo(dtype).max)
        assert (low[0], high[0]) == ends


@BACKENDS
def test_accumulations_start_from_the_ends_of_a_type_without_infinities(backend: str) -> None:
    x = data([5, 7], "float8_e4m3fn")
    assert value(backend, wf.einsum("i=>2*i+1", x, accum="max")) == [-448, 5, -448, 7]


@BACKENDS
@pytest.mark.parametrize("accum", ["max", "min"])
def test_the_largest_of_what_is_computed_is_exact(backend: str, accum: str) -> None:
    x, y = (np.random.default_rng(seed).integers(-128, 128, (6, 6), np.int8) for seed in (0, 1))
    sums = x.astype(np.int64)[:, :, None] + y.astype(np.int64)
    found = wf.einsum("ij;jk=>ik", wf.data(x), wf.data(y), accum=accum, op="+")
    wanted = {"max": sums.max(1), "min": sums.min(1)}[accum]
    assert value(backend, found) == wanted.astype(found.dtype).tolist()


@BACKENDS
def test_negative_unsigned_numbers_wrap(backend: str) -> None:
    x = data([0, 1, 2**63], "uint64")
    assert value(backend, -x) == [0, 2**64 - 1, 2**63]
    assert value(backend, wf.abs(x)) == [0, 1, 2**63]
    assert value(backend, wf.abs(data([-128, -1], "int8"))) == [-128, 1]


@BACKENDS
def test_powers_of_whole_numbers(backend: str) -> None:
    x = data([3, -2, 0], "int16")
    assert (value(backend, x**2), value(backend, x**0), value(backend, x**15)) == (
        *([9, 4, 0], [1, 1, 1]),
        [3**15 % 2**16 - 2**16 if 3**15 % 2**16 >= 2**15 else 3**15 % 2**16, -(2**15), 0],
    )
    assert (value(backend, x**-1), (x**-1).dtype) == ([pytest.approx(1 / 3), -0.5, np.inf], "float32")
    assert (x**0.5).dtype == "float32"


@BACKENDS
def test_truth_values_count(backend: str) -> None:
    x = data([True, False, True], "bool")
    assert value(backend, wf.einsum("i=>0", x)) == [2]
    assert value(backend, x + x) == [2, 0, 2]
    assert value(backend, -x) == [-1, 0, -1]
    assert value(backend, x * 0.5) == [0.5, 0, 0.5]
    assert value(backend, wf.einsum("i=>0", x, accum="or")) == [True]
    assert value(backend, wf.where(x, x, wf.logical_not(x))) == [True, True, True]


STATIC = [
    ("bool", "int64", [100, 100]),
    ("int8", "int8", [100, -56]),
    ("uint64", "uint64", [100, 200]),
    ("float16", "float16", [100, 200]),
    ("float8_e4m3fn", "float32", [100, 200]),
]


@BACKENDS
@pytest.mark.parametrize(("dtype", "found", "values"), STATIC)
def test_a_static_index_takes_the_type_of_what_it_meets(
    backend: str, dtype: str, found: str, values: list[float]
) -> None:
    i = wf.index("i", 200)
    y = data([1, 2], dtype) * i
    ctx = wf.Context(backend)
    ctx.compile(y.forward, bindings=[i])(i=100)
    assert (y.dtype, ctx[y].tolist()) == (found, values)


@settings(max_examples=tries(12), derandomize=True)
@given(whole_numbers())
def test_expressions_of_whole_numbers_are_exact_until_stored(pool: list[Exact]) -> None:
    tensors = [one.tensor for one in pool]
    for backend in ("interp", "cc"):
        ctx = wf.Context(backend)
        routine = ctx.compile(wf.seq(*(one.forward for one in tensors)), keep=tensors)
        routine()
        alone = wf.Context(backend)[tensors[-1]]
        for one in pool:
            found = ctx[one.tensor]
            assert (found.dtype.name, found.shape) == (one.tensor.dtype, one.shape)
            assert found.tolist() == one.values.tolist(), f"{one.tensor.label} on {backend}\n{routine.show('assign')}"
        assert alone.tolist() == pool[-1].values.tolist(), f"{backend}\n{routine.show('assign')}"


# One-hot


def columns(count: int) -> wf.Tensor:
    """0, 1, 2, … along one output axis."""
    return wf.einsum("i=>i", wf.offsets(), i=count)


@BACKENDS
@pytest.mark.parametrize("dtype", ["int32", "int64", "uint32", "uint64"])
def test_one_hot_rows_of_large_labels_are_exact_and_whole(backend: str, dtype: str) -> None:
    first = 2**24
    labels = data([[first + 1], [first + 4]], dtype, batch=1)
    hot = wf.equal(labels, columns(5) + first)
    assert hot.dtype == ("uint64" if dtype == "uint64" else "int64")
    assert value(backend, hot) == [[0, 1, 0, 0, 0], [0, 0, 0, 0, 1]]


@BACKENDS
def test_one_hot_rows_multiply_a_table_of_any_type(backend: str) -> None:
    hot = wf.equal(data([[2], [0]], "int64", batch=1), columns(3))
    table = data([[1.5, 2.5, 3.5]], "bfloat16", input=1)
    assert (hot.dtype, (table @ hot).dtype) == ("int64", "bfloat16")
    assert value(backend, table @ hot) == [[3.5], [1.5]]


@pytest.mark.parametrize("dtype", ["uint8", "int8", "float16"])
def test_one_hot_rows_of_narrow_labels(dtype: str) -> None:
    hot = wf.equal(data([[100], [0]], dtype, batch=1), columns(5000))
    assert value("interp", wf.einsum("n|->i=>n", wf.cast(hot, "int64"))) == [1, 1]
    assert dtype != "float16" or value("interp", wf.equal(data([2048], dtype), columns(5000))).count(1) == 1


# Narrow floats


@BACKENDS
@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_long_sums_of_narrow_floats_do_not_stall(backend: str, dtype: str) -> None:
    ones = data(np.ones(5000), dtype)
    assert value(backend, wf.einsum("i=>0", ones)) == [4992 if dtype == "bfloat16" else 5000]
    w = wf.param("w", o=1, init=[1.0], dtype=dtype)
    loss = wf.einsum(EVERYTHING, w * data(np.ones((5000, 1)), dtype, batch=1))
    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(loss), keep=[w.grad])()
    assert ctx[w.grad].tolist() == [4992 if dtype == "bfloat16" else 5000]


@BACKENDS
def test_a_padded_convolution_of_halves(backend: str) -> None:
    x, k = data(np.arange(8), "float16"), wf.param("k", o=3, init=[1.0, 2.0, 1.0])
    y = wf.einsum("2*o=+k;k=>o", x, k)
    assert (y.dtype, k.dtype, value(backend, y)) == ("float16", "float16", [1, 8, 16, 24])


@BACKENDS
@pytest.mark.parametrize("dtype", ["float8_e4m3fn", "float8_e5m2"])
def test_eight_bit_floats_are_only_stored(backend: str, dtype: str) -> None:
    x = data([1.5, -2, 3], dtype)
    assert {one.dtype for one in (x + x, x * 2, wf.exp(x), wf.einsum("i=>0", x), -x)} == {"float32"}
    assert {one.dtype for one in (wf.where(x, x, 0), x.T, wf.einsum("i=>0", x, accum="max"), x < 0)} == {dtype}
    assert value(backend, x * x) == [2.25, 4, 9]
    assert value(backend, wf.einsum("o<+k=>o", x, accum="max", k=2)) == [1.5, 3]


def test_a_sum_of_ties_is_counted_in_single_precision() -> None:
    w = wf.param("w", o=3000, init=1.0, dtype="float16")
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(wf.einsum("i=>0", w, accum="max")), keep=[w.grad])()
    np.testing.assert_array_equal(ctx[w.grad], np.full(3000, np.float16(1 / 3000)))


# Optimisers


def trained(backend: str, dtype: str, optimiser: str, scale: float = 1.0, **options: object) -> np.ndarray:
    w = wf.param("w", o=3, init=[1.0, 2.0, 3.0], dtype=dtype)
    loss = wf.einsum(EVERYTHING, w * w * scale)
    ctx = wf.Context(backend)
    step = ctx.compile(wf.seq(wf.grad_update(loss), getattr(wf.optim, optimiser)(loss, lr=0.02, **options)))
    for _ in range(20):
        step()
    assert ctx[w].dtype == numpy_type(dtype)
    return ctx[w].astype(np.float64)


@pytest.mark.parametrize("dtype", FLOATS)
def test_optimisers_keep_their_state_in_single_precision_at_least(dtype: str) -> None:
    w = wf.param("w", o=3, dtype=dtype)
    loss = wf.einsum(EVERYTHING, w * w)
    wide = "float64" if dtype == "float64" else "float32"
    code = wf.seq(wf.optim.sgd(loss, lr=0.1, momentum=0.9, nesterov=True), wf.optim.adam(loss))
    nodes = {target(one).label.removesuffix(".w"): target(one).dtype for one in statements(code)}
    assert {name: nodes[name] for name in ("sgd.momentum", "adam.m", "adam.v", "w")} == {
        **dict.fromkeys(("sgd.momentum", "adam.m", "adam.v"), wide),
        "w": dtype,
    }


@BACKENDS
@pytest.mark.parametrize("dtype", NARROW)
@pytest.mark.parametrize("optimiser", ["adam", "sgd"])
def test_narrow_parameters_are_trained_like_wide_ones(backend: str, dtype: str, optimiser: str) -> None:
    options = {"momentum": 0.9, "weight_decay": 0.1, "nesterov": True} if optimiser == "sgd" else {}
    tolerance = 20 * {"float16": 2.0**-10, "bfloat16": 2.0**-7}[dtype]
    narrow, wide = (trained(backend, one, optimiser, **options) for one in (dtype, "float64"))
    np.testing.assert_allclose(narrow, wide, atol=3 * tolerance)


@BACKENDS
def test_small_gradients_of_halves_are_not_lost_when_squared(backend: str) -> None:
    narrow, wide = (trained(backend, one, "adam", 1e-4) for one in ("float16", "float64"))
    np.testing.assert_allclose(narrow, wide, atol=0.05)


# Values from outside


@BACKENDS
@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_a_value_set_is_converted_to_the_type_of_the_tensor(backend: str, dtype: str) -> None:
    w, ctx = wf.param("w", o=3, dtype=dtype), wf.Context(backend)
    for values in (np.array([1.0, 0.0, 3.0]), np.array([1, 0, 3], np.int16), [1, 0, 3], np.array([True, False, True])):
        ctx[w] = values
        assert ctx[w].dtype == numpy_type(dtype)
        assert ctx[w].tolist() == np.array(values).astype(numpy_type(dtype)).tolist()


@BACKENDS
@pytest.mark.parametrize(
    ("dtype", "values", "found"),
    [("int8", [300.0, -300.0, np.nan], [127, -128, 0]), ("float16", [1e6, -1e6, 1.0], [np.inf, -np.inf, 1])],
)
def test_a_value_set_is_converted_as_code_would(backend: str, dtype: str, values: object, found: list[float]) -> None:
    w, ctx = wf.param("w", o=3, dtype=dtype), wf.Context(backend)
    ctx[w] = np.array(values)
    assert ctx[w].tolist() == found


@BACKENDS
def test_a_file_of_brain_floats(backend: str, tmp_path: Path) -> None:
    np.array([1.5, 2.5, -3], ml_dtypes.bfloat16).tofile(tmp_path / "x.bin")
    for kind in ("bfloat16", ml_dtypes.bfloat16):
        y = wf.from_file(tmp_path / "x.bin", kind) * data([2, 2, 2], "int8")  # type: ignore[arg-type]
        assert (y.dtype, value(backend, y)) == ("bfloat16", [3, 5, -6])


@BACKENDS
def test_numbers_too_large_for_a_type(backend: str) -> None:
    assert value(backend, data([1, 2], "float32") + 10**400) == [np.inf, np.inf]
    assert value(backend, data([1, 2], "int8") + (10**400 + 1)) == [2, 3]
    assert value(backend, wf.constant(300, dtype="int8")) == [44]
    assert value(backend, wf.constant(300.0, dtype="int8")) == [127]


@pytest.mark.parametrize("kind", [np.float16, np.float32])
def test_fractions_of_numpys_kinds_are_fractions(kind: type) -> None:
    assert (wf.constant(kind(0.5)) * data([4, 2], "int8")).dtype == "float32"


def test_a_fraction_of_a_static_index_is_a_fraction() -> None:
    assert (wf.constant(wf.index("i", 5) * 0.5) * data([4, 2], "int8")).dtype == "float32"


@BACKENDS
def test_literals_of_64_bits_without_a_sign(backend: str) -> None:
    assert value(backend, wf.tensor([1, 2**63 + 1]) + data([1, 1], "uint64")) == [2, 2**63 + 2]


def test_literals_beyond_64_bits_are_refused() -> None:
    with pytest.raises(wf.WeftError):
        wf.tensor([1, 2**64])


@BACKENDS
@pytest.mark.parametrize("dtype", NARROW)
def test_uniform_numbers_lie_below_1_in_every_type(backend: str, dtype: str) -> None:
    wf.seed(0)
    drawn = wf.Context(backend)[wf.random_uniform("u", step=0) * data(np.ones(20_000), dtype)]
    assert drawn.max() < 1


@pytest.mark.parametrize("dtype", ["bool", "float8_e4m3fn"])
def test_concatenation_keeps_every_type(dtype: str) -> None:
    assert wf.concat(data([1, 0], dtype), data([1], dtype)).dtype == dtype


# The order of the code


@dataclass(frozen=True)
class Plan:
    """An expression graph to be built: leaves, and operations on what comes before them."""

    leaves: tuple[str, ...]
    ops: tuple[tuple[str, tuple[int, ...]], ...]

    def build(self, priority: list[float], asked: list[int]) -> list[str] | str:
        """All types, with tensors made in the order of their priority as far as their operands allow."""
        made: dict[int, wf.Tensor] = {}
        try:
            while len(made) < len(self.leaves) + len(self.ops):
                ready = [
                    at
                    for at in range(len(priority))
                    if at not in made and all(one in made for one in self._operands(at))
                ]
                at = min(ready, key=priority.__getitem__)
                made[at] = self._make(at, [made[one] for one in self._operands(at)])
            return [made[at].dtype for at in asked] and [made[at].dtype for at in range(len(priority))]
        except wf.WeftError:
            return "refused"

    def _operands(self, at: int) -> tuple[int, ...]:
        return () if at < len(self.leaves) else self.ops[at - len(self.leaves)][1]

    def _make(self, at: int, operands: list[wf.Tensor]) -> wf.Tensor:
        if at < len(self.leaves):
            return LEAVES[self.leaves[at]]() if self.leaves[at] in LEAVES else data([1, 0, 1], self.leaves[at])
        return OPERATIONS[self.ops[at - len(self.leaves)][0]](*operands)


LEAVES = {
    "parameter": lambda: wf.param("w", o=3),
    "whole constant": lambda: wf.constant(2),
    "constant": lambda: wf.constant(0.5),
    "whole literal": lambda: wf.tensor([1, 2, 3]),
    "literal": lambda: wf.tensor([1, 2.5, 3]),
    "random": lambda: wf.random_uniform("u", step=0),
}
OPERATIONS = {
    "add": lambda x, y: x + y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "less": lambda x, y: x < y,
    "where": lambda c, x, y: wf.where(c, x, y),
    "exp": lambda x: wf.exp(x),
    "double": lambda x: x * 2,
    "half": lambda x: x * 0.5,
    "copy": lambda x: x.T.T,
    "sum": lambda x: wf.einsum("i=>0", x),
    "largest": lambda x: wf.einsum("i=>0", x, accum="max"),
    "count": lambda x: wf.einsum("i=>0", x < 1),
    "cast": lambda x: wf.cast(x, "float16"),
}
ARITY = {"add": 2, "mul": 2, "div": 2, "less": 2, "where": 3}


@st.composite
def plans(draw: st.DrawFn) -> Plan:
    leaves = draw(st.lists(st.sampled_from([*ELEMENT_TYPES, *list(LEAVES) * 2]), min_size=2, max_size=5))
    ops = []
    for at in range(draw(st.integers(1, 6))):
        name = draw(st.sampled_from(list(OPERATIONS)))
        ops.append((name, tuple(draw(st.integers(0, len(leaves) + at - 1)) for _ in range(ARITY.get(name, 1)))))
    return Plan(tuple(leaves), tuple(ops))


@settings(max_examples=60)
@given(plans(), st.data())
def test_types_do_not_depend_on_the_order_of_the_code(plan: Plan, rest: st.DataObject) -> None:
    count = len(plan.leaves) + len(plan.ops)
    orders = [rest.draw(st.permutations(range(count))) for _ in range(2)]
    found = [plan.build([float(one) for one in order], list(order)) for order in orders]
    assert found[0] == found[1]


def test_deep_chains_settle_at_once() -> None:
    w = x = wf.param("w", o=2)
    for _ in range(1000):
        x = x * 1.01 + 0.5
    y = x + data([1, 2], "bfloat16")
    start = time.process_time()
    assert (y.dtype, w.dtype) == ("bfloat16", "bfloat16")
    assert time.process_time() - start < 2


# From above, defaults, gradients


@pytest.fixture
def defaults() -> Iterator[None]:
    yield
    wf.default_precision("float32")


def test_a_type_set_by_hand_reaches_what_nothing_else_decides() -> None:
    a, b, c = (wf.param(name, o=2) for name in "abc")
    whole = ((a + b) * c * 2.0).stored_in("bfloat16")
    assert {one.dtype for one in (a, b, c, whole)} == {"bfloat16"}
    w, x = wf.param("w", o=2), data(np.ones((4, 3)), "float16", batch=1)
    h = (w @ x).stored_in("float64")
    assert (w.dtype, h.dtype, wf.tanh(h).dtype) == ("float16", "float64", "float64")
    narrow = wf.param("narrow", o=2)
    assert (wf.cast(narrow, "float16").dtype, narrow.dtype) == ("float16", "float32")  # a cast is a border
    for wrong, text in (
        (lambda: h.stored_in("float32"), "is stored in float64 already: set by hand"),
        (lambda: x.stored_in("float32"), "is stored in float16 already: given"),
        (lambda: narrow.stored_in("float16"), "set it before asking for a type or running code"),
        (lambda: h.stored_in("single"), "is not an element type"),
    ):
        with pytest.raises(wf.WeftError, match=text):
            wrong()


def test_the_default_precision_is_that_of_when_a_tensor_was_made(defaults: None) -> None:
    before = wf.param("before", o=2)
    wf.default_precision("bfloat16")
    w, x, y = wf.param("w", o=2), wf.input("x", b="batch", o=3), wf.input("y", dtype="float64")
    wf.default_precision("float64")
    assert (before.dtype, w.dtype, x.dtype, y.dtype) == ("float32", "bfloat16", "bfloat16", "float64")
    assert (wf.param("v", o=2) * data([1, 2], "int8")).dtype == "float64"
    assert (wf.param("u", o=2) * data([1, 2], "float16")).dtype == "float16"
    for wrong in ("int32", "float8_e5m2"):
        with pytest.raises(wf.WeftError, match=f"{wrong} cannot be a default precision"):
            wf.default_precision(wrong)


@BACKENDS
def test_gradients_may_have_a_precision_of_their_own(backend: str, defaults: None) -> None:
    rng = np.random.default_rng(0)
    half, single = np.float16, np.float32
    points, start, last = (rng.normal(size=size).astype(half).astype(single) for size in ((5, 3), (4, 3), (1, 4)))
    wf.default_precision("float32", gradients="float32")
    x = wf.data(points.astype(half), batch=1, label="x")
    w, v, s = wf.param("w", o=4, init=start), wf.param("v", o=1, init=last), wf.param("s", o=1, init=0.37)
    h = wf.tanh(w @ x).named("h")
    loss = wf.sum(SCALE.scale(v @ h, s), "...|... => 0")
    ctx = wf.Context(backend)
    step = ctx.compile(wf.grad_update(loss), keep=[w.grad, v.grad, h.grad])
    step()
    assert [one.dtype for one in (w, v, h, w.grad, v.grad, h.grad)] == ["float16"] * 3 + ["float32"] * 3
    hidden = np.tanh((points @ start.T).astype(half).astype(single)).astype(half).astype(single)
    seed = np.full((5, 1), 0.37, single)
    slope = seed * last  # in half precision these would be off by 1e-4 and more
    inner = slope * (1 - hidden * hidden)
    np.testing.assert_allclose(ctx[h.grad], slope, rtol=1e-6)
    np.testing.assert_allclose(ctx[v.grad], seed.T @ hidden, rtol=2e-6, atol=1e-6)
    np.testing.assert_allclose(ctx[w.grad], inner.T @ points, rtol=2e-6, atol=1e-6)
    shown = [line.split(None, 2) for line in step.show("precisions").splitlines()]
    decided = {name: (dtype, who) for name, dtype, who in shown}
    assert decided["w.grad"] == ("float32", "the precision of gradients; summed in float32")
    assert decided["w"] == ("float16", "from its use: `x`; summed in float32")


def test_a_gradient_is_as_wide_as_its_tensor_or_as_it_is_said_to_be(defaults: None) -> None:
    wf.default_precision("float32", gradients="float32")
    wide, narrow = (wf.param(name, o=2, dtype=dtype) for name, dtype in (("wide", "float64"), ("narrow", "bfloat16")))
    assert (wide.grad.dtype, narrow.grad.dtype) == ("float64", "float32")
    loss = wf.sum(wide * narrow, "...|... => 0")
    assert wf.grad(loss, narrow).dtype == "float32"
    by_hand = wf.param("by_hand", o=2)
    by_hand.grad.stored_in("float16")
    assert (by_hand.dtype, by_hand.grad.dtype) == ("float32", "float16")
    wf.default_precision("float16", gradients="float32")
    lone = wf.param("lone", o=2)
    assert (lone.grad.dtype, lone.dtype) == ("float32", "float16")  # a gradient does not speak for its tensor
