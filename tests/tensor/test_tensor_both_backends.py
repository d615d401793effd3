"""Programs that must mean the same on every backend, and mistakes that must not pass in silence."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft as wf
from tensor.differences import EVERYTHING

pytestmark = pytest.mark.usefixtures("shared_cache")
BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


@BACKENDS
def test_first_values_of_another_shape_are_refused(backend: str) -> None:
    w = wf.param("w", o=2, i=3, init=np.arange(6.0).reshape(3, 2))
    with pytest.raises(wf.ShapeError, match=r"`w` is 3->2, in memory .2, 3., and cannot be set to an array of .3, 2."):
        wf.Context(backend)[w]


@BACKENDS
def test_long_sums_in_single_precision_keep_their_digits(backend: str) -> None:
    ones = wf.data(np.full(20_000_000, 0.1, np.float32))
    found = wf.Context(backend)[wf.einsum("i=>0", ones)]
    np.testing.assert_allclose(found, [2_000_000], rtol=1e-5)


@BACKENDS
def test_a_static_index_takes_the_type_of_what_it_meets(backend: str) -> None:
    p, n = wf.param("p", o=5, init=[0.1, 0.2, 0.3, 0.7, 0.6]), wf.index("n", 9)

    @wf.operator("i=>0")
    def largest(v, v1):  # type: ignore[no-untyped-def]
        v.accumulate("max", v1 * n * 0.3, reset=True)

    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(largest(p)), bindings=[n], keep=[p.grad])(n=7)
    np.testing.assert_allclose(ctx[p.grad], [0, 0, 0, 2.1, 0], rtol=1e-6)


@BACKENDS
def test_byte_order_is_not_lost(backend: str, tmp_path: Path) -> None:
    found = wf.Context(backend)[wf.data(np.arange(4.0).astype(">f8")) + 1.0]
    np.testing.assert_array_equal(found, [1, 2, 3, 4])
    np.arange(4.0).astype(">f4").tofile(tmp_path / "numbers.bin")
    with pytest.raises(wf.WeftError, match="'>f4' is not an element type"):
        wf.from_file(tmp_path / "numbers.bin", ">f4")


@BACKENDS
def test_numbers_and_labels_that_start_with_digits(backend: str) -> None:
    x = wf.data(np.ones(3), label="2nd")
    np.testing.assert_allclose(wf.Context(backend)[x * wf.number(0.5) + wf.constant(2.0)], [2.5, 2.5, 2.5])


@BACKENDS
def test_sums_of_narrow_whole_numbers_are_exact(backend: str) -> None:
    a = wf.data(np.full(4, 100, np.int8))
    found = wf.Context(backend)[wf.einsum("i;i=>0", a, a)]
    assert (found.tolist(), found.dtype) == ([40000], np.int64)


@BACKENDS
def test_narrow_whole_numbers_wrap_where_they_are_stored(backend: str) -> None:
    a = wf.data(np.full(2, 100, np.int8))
    assert wf.Context(backend)[a * a].tolist() == [16, 16]
    assert wf.Context(backend)[(a * a) < 0].tolist() == [0, 0]


@BACKENDS
def test_two_losses_add_up_in_what_they_share(backend: str) -> None:
    p = wf.param("p", o=2, init=[1.0, 2.0])
    h = p * p
    first, second = wf.einsum(EVERYTHING, h), wf.einsum(EVERYTHING, h * h)
    ctx = wf.Context(backend)
    ctx.compile(
        wf.seq(first.zero_grads, second.zero_grads, first.forward, second.forward, first.backprop, second.backprop),
        keep=[p.grad],
    )()
    np.testing.assert_allclose(ctx[p.grad], [6, 36])


def test_a_stored_value_and_the_computed_one_in_one_routine_are_refused() -> None:
    y = (wf.param("p", o=2) * 3.0).named("y")
    with pytest.raises(wf.WeftError, match="computes `y` and also reads its stored value"):
        wf.Context("interp")[y - wf.given(y)]


@pytest.mark.parametrize("sign", ["**=", "%=", "//=", "@="])
def test_signs_that_assign_nothing_are_refused_under_cd(sign: str) -> None:
    p = wf.param("p", o=2)

    @wf.cd
    def code() -> None:
        exec(f"p {sign} 2.0", {"p": p})

    with pytest.raises(wf.WeftError, match="does not record an assignment"):
        code()


def test_numbers_known_only_at_run_time_decide_nothing() -> None:
    i = wf.index("i", 4)
    with pytest.raises(wf.WeftError, match="neither true nor false"):
        bool(i < 2)


@BACKENDS
def test_several_sums_in_one_assignment(backend: str) -> None:
    x = wf.data(np.arange(3, dtype="float32"))
    assert wf.Context(backend)[wf.einsum("x^y=>0", x, x=2, y=1)].tolist() == [3]


def test_an_operator_that_reads_its_own_result_is_refused() -> None:
    @wf.operator
    def circular(v, v1):  # type: ignore[no-untyped-def]
        v.accumulate("add", v * v1, reset=True)

    with pytest.raises(wf.WeftError, match="reads its result before computing it"):
        circular(wf.data(np.ones(2)))


@BACKENDS
def test_offsets_count_in_memory_order(backend: str) -> None:
    found = wf.Context(backend)[wf.offsets() + wf.data(np.zeros((2, 3)))]
    np.testing.assert_array_equal(found, np.arange(6).reshape(2, 3))


def test_results_are_called_by_function_argument_and_label() -> None:
    @wf.op
    def scale(x):  # type: ignore[no-untyped-def]
        return "w" * x

    x = wf.data(np.ones(3), label="x")
    assert scale()(x).label == "scale.x"
    assert scale()(x + 1.0).label == "scale"
    assert scale(label="S")(x).label == "S"
    assert [p.label for p in scale(label="S")(x).params] == ["S.w"]


@BACKENDS
def test_truth_values_are_numbers_inside_one_expression(backend: str) -> None:
    @wf.operator
    def count(v, v1):  # type: ignore[no-untyped-def]
        v[:] = (v1 > 0.0) + (v1 > 1.0) - (v1 > 2.0) + wf.maximum(v1 > 3.0, v1 > 4.0)

    assert wf.Context(backend)[count(wf.data(np.arange(6.0)))].tolist() == [0, 1, 2, 1, 2, 2]


@BACKENDS
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_quotients_are_rounded_down_as_numpy_rounds_them(backend: str, dtype: str) -> None:
    """Once, with the sign of a zero, and of fractions that have no finite quotient as well."""
    rng, special = np.random.default_rng(0), np.array([0, -0.0, 1, -1, 0.1, -0.3, 7, 6e4, np.inf, -np.inf, np.nan])
    pairs = np.stack(np.meshgrid(special, special)).reshape(2, -1)
    drawn = rng.normal(size=(2, 2000)) * 10 ** rng.uniform(-2, [[4], [2]], (2, 2000))
    whole = np.stack([np.arange(500.0), np.full(500, 0.1)])
    one, other = np.concatenate([pairs, drawn, whole], 1).astype(dtype)
    with np.errstate(all="ignore"):
        meant = np.floor_divide(one, other)
    found = wf.Context(backend)[wf.data(one) // wf.data(other)]
    np.testing.assert_array_equal(found, meant)
    np.testing.assert_array_equal(np.signbit(found[meant == 0]), np.signbit(meant[meant == 0]))
