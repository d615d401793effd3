"""The gradient of every operator against finite differences."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tensor.differences import EVERYTHING, Differences, check_gradient, double, total
from weft.ops import OPS
from weft.ops.library import LIBRARY
from weft.tensor.functions import pointwise

UNARY = {
    "relu": wf.relu,
    "sat01": wf.sat01,
    "exp": wf.exp,
    "log": wf.log,
    "exp2": wf.exp2,
    "log2": wf.log2,
    "sin": wf.sin,
    "cos": wf.cos,
    "sqrt": wf.sqrt,
    "recip": wf.recip,
    "recip_sqrt": wf.recip_sqrt,
    "tanh": wf.tanh,
    "erf": wf.erf,
    "abs": wf.abs,
    "floor": wf.floor,
    "rint": wf.round,
    "sign": wf.sign,
    "neg": lambda x: -x,
    "sigmoid": wf.sigmoid,
    "square": lambda x: x**2,
    "cube": lambda x: x**3,
    "power": lambda x: x**1.5,
    "reciprocal power": lambda x: x**-2,
    "identity": lambda x: pointwise("identity", x),
}
POSITIVE = {"log", "log2", "sqrt", "recip_sqrt", "power", "recip", "reciprocal power"}


def spread(positive: bool = False) -> np.ndarray:
    """Twelve numbers away from every kink."""
    values = np.array([-1.7, -1.2, -0.8, -0.35, 0.15, 0.35, 0.55, 0.85, 1.3, 1.6, 2.2, 2.9])
    return (np.abs(values) if positive else values).reshape(3, 4)


@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str) -> None:
    x = double("x", b=3, o=4)
    check_gradient(UNARY[name](x), values={x: spread(name in POSITIVE)})


BINARY: dict[str, Callable[[wf.Tensor, wf.Tensor], wf.Tensor]] = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "mod": lambda x, y: x % y,
    "max": wf.maximum,
    "min": wf.minimum,
    "arg1": lambda x, y: pointwise("arg1", x, y),
    "arg2": lambda x, y: pointwise("arg2", x, y),
    "type_as": lambda x, y: pointwise("type_as", x, y),
    "relu_gate": lambda x, y: pointwise("relu_gate", x, y),
    "sat01_gate": lambda x, y: pointwise("sat01_gate", x, y),
    "select": lambda x, y: pointwise("select", x < y, y),
    "pow": lambda x, y: pointwise("pow", wf.abs(x), y),
    "where": lambda x, y: wf.where(x < y, x * 2.0, y),
    "fma": lambda x, y: wf.fma(x, y, x),
}


def test_every_differentiable_operation_is_tested() -> None:
    compared = {"lt", "le", "eq", "ne", "precedes", "order_place"}
    flat = compared | {"or", "and", "not", "floordiv", "threefry4x32", "uniform", "normal"}
    library = {op.name for op in LIBRARY}  # functions of comprehensions, differentiated there
    assert set(UNARY) | set(BINARY) | flat | library >= set(OPS)


@pytest.mark.parametrize("shapes", ["alike", "left smaller", "right smaller"])
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, shapes: str) -> None:
    x = double("x", o=4) if shapes == "left smaller" else double("x", b=3, o=4)
    y = double("y", b=3, o=1) if shapes == "right smaller" else double("y", b=3, o=4)
    rest = np.array([1.9, 0.45, -1.45, -0.65, 0.95, 2.45, 1.05, -2.15, 0.75, 1.15, -0.25, 3.3]).reshape(3, 4)
    values = {
        x: spread()[1] if shapes == "left smaller" else spread(),
        y: rest[:, :1] if shapes == "right smaller" else rest,
    }
    check_gradient(BINARY[name](x, y), x, y, values=values)


@pytest.mark.parametrize("name", BINARY)
def test_the_same_tensor_in_both_operands(name: str) -> None:
    x = double("x", o=4)
    check_gradient(BINARY[name](x, x), values={x: [0.7, 1.3, 2.1, 0.4]})


@pytest.mark.parametrize("name", ["lt", "le", "eq", "ne", "or", "and"])
def test_comparisons_pass_no_gradient(name: str) -> None:
    x = double("x", o=3)
    found = Differences(wf.einsum(EVERYTHING, pointwise(name, x, 1.0) * x), [x], {x: [0.5, 2.0, 3.0]})
    assert found.gradients[x].tolist() == np.asarray(pointwise(name, x, 1.0)).tolist()


def test_where_with_three_tensors() -> None:
    c = wf.data(np.array([1.0, 0.0, 2.0]))
    x, y = double("x", o=3), double("y", o=3)
    found = check_gradient(wf.where(c, x, y), x, y)
    assert (found.gradients[x] != 0).tolist() == [True, False, True]
    assert (found.gradients[y] != 0).tolist() == [False, True, False]


def test_fma_with_three_tensors() -> None:
    x, y, z = double("x", o=3), double("y", o=3), double("z", o=3)
    check_gradient(wf.fma(x, y, z), x, y, z)


MASKED = {
    "log of zero": (lambda x: wf.where(x > 0.0, wf.log(x), 0.0), 0.0),
    "division by zero": (lambda x: wf.where(x > 0.0, 1.0 / x, 0.0), 0.0),
    "root of zero": (lambda x: wf.where(x > 0.0, wf.sqrt(x), 0.0), 0.0),
    "root of a negative number": (lambda x: wf.where(x > 0.0, wf.sqrt(x), 0.0), -1.0),
    "power of a negative number": (lambda x: wf.where(x > 0.0, x**0.5, 0.0), -1.0),
    "reciprocal root of zero": (lambda x: wf.where(x > 0.0, wf.recip_sqrt(x), 0.0), 0.0),
    "log, then something": (lambda x: wf.where(x > 0.0, wf.tanh(wf.log(x)), 0.0), 0.0),
}


@pytest.mark.parametrize("name", MASKED)
def test_the_branch_not_taken_leaks_no_nan(name: str) -> None:
    function, bad = MASKED[name]
    x = double("x", o=3)
    found = Differences(wf.einsum(EVERYTHING, function(x)), [x], {x: np.array([0.5, bad, 2.0])})
    assert found.gradients[x][1] == 0.0
    assert np.isfinite(found.gradients[x]).all()
    assert (found.gradients[x][[0, 2]] != 0).all()


COMPOSE = {
    "matrix and vector": ({"i": 3, "o": 2}, {"o": 3}),
    "matrix and matrix": ({"i": 3, "o": 2}, {"i": 4, "o": 3}),
    "with batch axes on the right": ({"i": 3, "o": 2}, {"b": 4, "o": 3}),
    "with batch axes on both": ({"b": 2, "i": 3, "o": 2}, {"b": (5, 2), "o": 3}),
    "with two input axes": ({"i": (3, 2), "o": 2}, {"o": (3, 2)}),
}


@pytest.mark.parametrize("name", COMPOSE)
def test_composition(name: str) -> None:
    left, right = COMPOSE[name]
    w, x = double("w", **left), double("x", **right)
    check_gradient(w @ x, w, x)


def test_composition_of_a_tensor_with_itself() -> None:
    w = double("w", i=3, o=3)
    check_gradient(w @ w, w)


def test_transpose() -> None:
    w, x = double("w", b=2, i=3, o=4), double("x", o=4)
    check_gradient(w.T @ x, w, x)


EINSUM = {
    "product": ("ij;jk=>ik", [{"o": (2, 3)}, {"o": (3, 4)}]),
    "permutation": ("ijk=>kji", [{"o": (2, 3, 4)}]),
    "diagonal": ("ii=>i", [{"o": (3, 3)}]),
    "trace": ("ii=>0", [{"o": (3, 3)}]),
    "outer product": ("i;j=>ij", [{"o": 2}, {"o": 3}]),
    "rows": ("b|i->o; b|->i => b|->o", [{"b": 2, "i": 3, "o": 4}, {"b": 2, "o": 3}]),
    "moved between rows": ("b|i->o => o|b->i", [{"b": 2, "i": 3, "o": 4}]),
    "row variables": ("...|i->...; j->i => ...|j->...", [{"b": 2, "i": 3, "o": (4, 2)}, {"i": 2, "o": 3}]),
    "three operands": ("ij;jk;kl=>il", [{"o": (2, 3)}, {"o": (3, 4)}, {"o": (4, 2)}]),
    "four operands": ("i;i;j;ij=>j", [{"o": 2}, {"o": 2}, {"o": 3}, {"o": (2, 3)}]),
    "a position read": ("i1=>i", [{"o": (3, 2)}]),
    "a position written": ("i=>i1", [{"o": 3}]),
    "every second": ("2*i=>i", [{"o": 6}]),
    "odd places": ("i=>2*i+1", [{"o": 3}]),
    "interleaved": ("2*i+1;i=>i", [{"o": 6}, {"o": 3}]),
    "concatenation": ("a;b=>a^b", [{"o": 2}, {"o": 3}]),
    "concatenation of three": ("ai;bi;ci=>a^b^ci", [{"o": (2, 3)}, {"o": (1, 3)}, {"o": (2, 3)}]),
    "a part skipped": ("2^a=>a", [{"o": 5}]),
    "convolution": ("o<+k;k=>o", [{"o": 7}, {"o": 3}]),
    "strided convolution": ("2*o<+k;k=>o", [{"o": 9}, {"o": 3}]),
    "dilated convolution": ("o<+2*k;k=>o", [{"o": 8}, {"o": 3}]),
    "strided, dilated convolution": ("2*o<+3*k;k=>o", [{"o": 8}, {"o": 2}]),
    "padded convolution": ("o=+k;k=>o", [{"o": 5}, {"o": 3}]),
    "padded, strided convolution": ("2*o=+k;k=>o", [{"o": 8}, {"o": 3}]),
    "two-dimensional convolution": (
        "...|h<+a,w<+b,c; ->a,b,c,d => ...|h,w,d",
        [{"b": 2, "o": (5, 4, 2)}, {"o": (3, 2, 2, 3)}],
    ),
}


@pytest.mark.parametrize("name", EINSUM)
def test_einsum(name: str) -> None:
    spec, sizes = EINSUM[name]
    params = [double("xyzw"[number], **one) for number, one in enumerate(sizes)]
    check_gradient(wf.einsum(spec, *params), *params)


PAIRS = [
    ("+", "*"),
    ("+", "+"),
    ("+", "-"),
    ("+", "/"),
    ("+", "max"),
    ("+", "min"),
    ("max", "*"),
    ("max", "+"),
    ("max", "-"),
    ("min", "+"),
    ("min", "*"),
    ("*", "+"),
    ("*", "*"),
    ("*", "-"),
]


@pytest.mark.parametrize(("accum", "op"), PAIRS)
@pytest.mark.parametrize("spec", ["ij;jk=>ik", "o<+k;k=>o", "2*o=+k;k=>o"])
def test_pairs_of_operations(accum: str, op: str, spec: str) -> None:
    shapes = ((2, 3), (3, 4)) if ";j" in spec else (6, 2) if "<" in spec else (6, 3)
    x, y = double("x", o=shapes[0]), double("y", o=shapes[1])
    numbers = np.random.default_rng(3)
    values = {one: numbers.uniform(0.5, 2.0, one.dims.array_shape) for one in (x, y)}
    check_gradient(wf.einsum(spec, x, y, accum=accum, op=op), x, y, values=values)


@pytest.mark.parametrize("accum", ["max", "min", "*", "+"])
@pytest.mark.parametrize("spec", ["2*o<+k=>o", "o<+k=>o", "2*o=+k=>o"])
def test_pooling(accum: str, spec: str) -> None:
    x = double("x", o=8)
    check_gradient(wf.einsum(spec, x, accum=accum, k=2), x)


def test_max_pooling_routes_the_gradient_to_the_largest() -> None:
    x = double("x", o=6)
    loss = wf.einsum(EVERYTHING, wf.einsum("2*o<+k=>o", x, accum="max", k=2) * wf.tensor([1.0, 10.0, 100.0]))
    found = Differences(loss, [x], {x: np.array([3.0, 1.0, 2.0, 5.0, -1.0, -2.0])})
    assert found.gradients[x].tolist() == [1.0, 0.0, 0.0, 10.0, 100.0, 0.0]


def test_slices() -> None:
    x, i = double("x", b=4, o=3), wf.index("i", 4)
    for at in (0, 3):
        found = check_gradient(x[i], x, bound={i: at})
        assert np.nonzero(found.gradients[x].any(1))[0].tolist() == [at]
    found = check_gradient(x[2] * x[0], x)
    assert np.nonzero(found.gradients[x].any(1))[0].tolist() == [0, 2]


def test_a_slice_used_beside_the_whole() -> None:
    x, i = double("x", b=3, o=2), wf.index("i", 3)
    check_gradient(x * x[i], x, bound={i: 1})


def test_a_static_index_as_a_number() -> None:
    x, i = double("x", o=3), wf.index("i", 5)
    check_gradient(x * i + i, x, bound={i: 4})


@pytest.mark.parametrize("kind", ["batch", "input", "output"])
def test_concatenation_and_stacking(kind: str) -> None:
    x, y = double("x", b=2, i=3, o=2), double("y", b=2, i=3, o=2)
    check_gradient(wf.concat(x, y, x, kind=kind), x, y)
    check_gradient(wf.stack(x, y, x * y, kind=kind), x, y)


def test_several_axes_as_one() -> None:
    x, y = double("x", o=(2, 3, 4)), double("y", o=12)
    check_gradient(wf.einsum("abc => c&ab", x), x)
    check_gradient(wf.einsum("a&b&c => ca", y, a=2, b=3), y)
    check_gradient(wf.einsum("abc; b&d&c => a&d", x, y), x, y)
    check_gradient(wf.einsum("d&a => a&k&d", y, d=3, k=2), y)


def test_block_literals() -> None:
    x, y = double("x", o=2), double("y", o=2)
    check_gradient(wf.tensor([[x, y], [y * 2.0, x]]), x, y)
    check_gradient(wf.tensor(wf.batch([(x, y)], [(y, x)])), x, y)


def test_a_layer_used_twice() -> None:
    @wf.op
    def layer(x: wf.Tensor, *, size: int) -> wf.Tensor:
        return wf.tanh(wf.param("w", dtype="float64") @ x + wf.param("b", o=size, dtype="float64"))

    x = double("x", b=2, o=3)
    one = layer(size=3)
    check_gradient(one(one(x)) + one(x), x, *one.params)


def test_a_tensor_used_in_many_places() -> None:
    x = double("x", o=3)
    y = x
    for _ in range(4):
        y = wf.tanh(y + y * x)
    check_gradient(y, x)


def test_a_softmax_with_cross_entropy() -> None:
    w = double("w", i=3, o=4)
    x = wf.data(np.random.default_rng(0).normal(size=(5, 3)), batch=1)
    truth = wf.data(np.eye(4)[[0, 3, 1, 2, 3]], batch=1)
    logits = w @ x
    shifted = wf.exp(logits - wf.stop_gradient(wf.einsum("...|...v => ...|0", logits, accum="max")))
    shares = shifted / wf.einsum("...|...v => ...|0", shifted)
    loss = -wf.einsum(EVERYTHING, truth * wf.log(shares))
    Differences(loss, [w]).check(12)


def test_gradients_are_added_up_only_within_a_run() -> None:
    x = double("x", o=2)
    loss, ctx = total(x), wf.Context("interp")
    step = ctx.compile(wf.grad_update(loss), keep=[x.grad])
    step()
    once = ctx[x.grad]
    step()
    np.testing.assert_array_equal(ctx[x.grad], once)


def test_the_parts_of_grad_update_do_the_same() -> None:
    x = double("x", o=2)
    loss, ctx = total(x), wf.Context("interp")
    ctx.compile(wf.seq(loss.zero_grads, loss.forward, loss.backprop), keep=[x.grad])()
    parts = ctx[x.grad]
    ctx.compile(wf.grad_update(loss), keep=[x.grad])()
    np.testing.assert_array_equal(ctx[x.grad], parts)


def test_the_gradient_of_the_sum_of_a_loss() -> None:
    x, ctx = double("x", o=3), wf.Context("interp")
    ctx[x] = [1.0, 2.0, 3.0]
    loss = (x * x).named("loss")
    update = wf.grad_update(loss, sum=True)
    ctx.compile(update, keep=[x.grad])()
    assert ctx[x.grad].tolist() == [2.0, 4.0, 6.0]
    assert ctx[loss].tolist() == [1.0, 4.0, 9.0]
    assert "loss.sum.grad =: 1.0" in str(update)
    assert "loss.sum =" not in str(update)


def gradient_of(function: Callable[[wf.Tensor], wf.Tensor], *values: float) -> list[float]:
    x = double("x", o=len(values))
    return Differences(wf.einsum(EVERYTHING, function(x)), [x], {x: values}).gradients[x].tolist()


def test_a_product_with_one_zero_has_a_gradient_there() -> None:
    assert gradient_of(lambda x: wf.einsum("i=>0", x, accum="*"), 2.0, 0.0, 3.0) == [0.0, 6.0, 0.0]


@pytest.mark.parametrize("accum", ["max", "min"])
def test_a_tie_counts_once(accum: str) -> None:
    x = wf.data(np.array([3.0, 3.0]))
    assert gradient_of(lambda w: wf.einsum("i=>0", w * x, accum=accum), 2.0) == [3.0]


def test_the_branch_not_taken_leaks_no_nan_through_a_product() -> None:
    found = gradient_of(lambda x: wf.where(x > 0.0, x * wf.log(x), 0.0), 0.5, 0.0, 2.0)
    np.testing.assert_allclose(found, [np.log(0.5) + 1, 0.0, np.log(2.0) + 1])


def test_the_branch_not_taken_leaks_no_nan_through_an_overflow() -> None:
    found = gradient_of(lambda x: wf.where(x < 100.0, wf.exp(x), 0.0), 0.5, 1000.0)
    np.testing.assert_allclose(found, [np.exp(0.5), 0.0])


def test_the_power_of_zero_is_flat() -> None:
    assert gradient_of(lambda x: x**0, 0.5, 0.0) == [0.0, 0.0]


def test_a_product_with_two_zeros_has_none() -> None:
    assert gradient_of(lambda x: wf.einsum("i=>0", x, accum="*"), 0.0, 2.0, 0.0) == [0.0, 0.0, 0.0]


def test_products_with_a_zero_in_some_rows() -> None:
    x = double("x", o=(3, 3))
    start = np.array([[1.0, 2.0, 3.0], [0.0, 5.0, 6.0], [0.0, 0.0, 7.0]])
    found = Differences(wf.einsum(EVERYTHING, wf.einsum("ij=>i", x, accum="*")), [x], {x: start})
    assert found.gradients[x].tolist() == [[6.0, 3.0, 2.0], [30.0, 0.0, 0.0], [0.0, 0.0, 0.0]]


def test_ties_in_pooling_count_once_in_each_window() -> None:
    x = double("x", o=4)
    found = Differences(
        wf.einsum(EVERYTHING, wf.einsum("o<+k=>o", x, accum="max", k=2)), [x], {x: [1.0, 1.0, 0.0, 2.0]}
    )
    assert found.gradients[x].sum() == 3.0
