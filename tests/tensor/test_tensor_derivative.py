"""Derivatives of scalars by the table of operations, and what each accumulation makes of a gradient."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from weft.assign import Arg
from weft.errors import WeftError
from weft.loops import Cast
from weft.ops import Call, Num, Scalar, call, where
from weft.tensor.derivative import Of, contribution, differentiate, share, times

x, y, z = Arg(0), Arg(1), Arg(2)


@pytest.mark.parametrize(
    ("value", "wanted"),
    [
        (x * y, y),
        (call("exp", x * 2), call("exp", x * 2) * 2),
        (where(y, x, 0), where(y, 1, 0)),
        (where(x, y, z), Num(0)),  # a choice does not change with its condition
        (where(y, x, x), Num(1)),
        (call("select", y, x * z), where(y, z, 0)),
        (where(y, x, 0) * z, where(y, z, 0)),  # nothing is computed that is not chosen
        (Cast("float64", x * y), y),
        (Cast("int32", x * y), Num(0)),
        (call("lt", x, y), Num(0)),
        (call("atan2", y, z), Num(0)),
        (y, Num(0)),
    ],
)
def test_derivatives(value: Scalar, wanted: Scalar) -> None:
    assert differentiate(value, x) == wanted


def test_an_operation_without_a_derivative_may_stand_where_nothing_depends_on_it() -> None:
    assert differentiate(call("nextafter", y, z) + x, x) == Num(1)
    with pytest.raises(WeftError, match="has no derivative"):
        differentiate(call("nextafter", x, z), x)


def test_a_derivative_takes_no_stack() -> None:
    value: Scalar = x
    for _ in range(5000):
        value = Cast("float32", value * 2)
    assert isinstance(differentiate(value, x), Call)


def test_a_product_goes_into_a_choice() -> None:
    assert times(y, where(x, z, 0)) == where(x, y * z, 0)
    assert times(where(x, 0, z), y) == where(x, 0, y * z)


@pytest.mark.parametrize(
    ("factor", "masked", "wanted"),
    [
        (Num(1), True, x),
        (y, False, x * y),
        (y, True, where(call("ne", x, 0), x * y, 0)),
        (call("lt", 0, y), True, call("select", call("lt", 0, y), x)),
        (where(y, 1, 0), False, call("select", call("ne", y, 0), x)),
        (where(call("eq", y, z), z, 0), False, where(call("eq", y, z), x * z, 0)),
    ],
)
def test_what_is_passed_on(factor: Scalar, masked: bool, wanted: Scalar) -> None:
    assert contribution(x, Num(1), factor, masked) == wanted


def _collected(values: list[float], result: float) -> Callable[[str, str, Of], Scalar]:
    """Accumulates over values that are known."""

    def collect(name: str, accum: str, of: Of) -> Scalar:
        found = [_number(of(Num(value), Num(result))) for value in values]
        return Num(float(np.sum(found) if accum == "add" else np.prod(found)))

    return collect


def _number(value: Scalar) -> float:
    from weft.ops import OPS, computed

    def leaf(one: Scalar) -> float:
        assert isinstance(one, Num)
        return one.value

    with np.errstate(all="ignore"):
        return float(computed(value, leaf, lambda one, args: OPS[one.op].meaning(*map(np.float64, args))))


@pytest.mark.parametrize(
    ("accum", "values", "wanted"),
    [
        ("add", [2, 3], [1, 1]),
        ("arg2", [2], [1]),
        ("max", [1, 4, 4, 2], [0, 0.5, 0.5, 0]),
        ("min", [1, 4, 4, 2], [1, 0, 0, 0]),
        ("mul", [2, 3, 4], [12, 8, 6]),
        ("mul", [2, 0, 4], [0, 8, 0]),
        ("mul", [2, 0, 0], [0, 0, 0]),
    ],
)
def test_what_of_a_result_comes_from_each_value(accum: str, values: list[float], wanted: list[float]) -> None:
    result = {"add": np.sum, "arg2": np.sum, "max": np.max, "min": np.min, "mul": np.prod}[accum](values)
    part = share(accum, _collected(values, float(result)))
    assert [_number(part(Num(value), Num(float(result)))) for value in values] == wanted


def test_logic_has_no_gradient() -> None:
    with pytest.raises(WeftError, match="accumulating with 'or' has no gradient"):
        share("or", _collected([], 0))


def test_an_infinite_gradient_reaches_only_what_attained_a_maximum() -> None:
    w = wf.param("w", o=3)
    ctx = wf.Context("interp")
    ctx[w] = np.array([1, 3, 2], "float32")
    loss = wf.log(wf.einsum("i => 0", w, accum="max") - 3.0)
    ctx.compile(wf.grad_update(loss), keep=[w.grad])()
    assert ctx[w.grad].tolist() == [0, np.inf, 0]
