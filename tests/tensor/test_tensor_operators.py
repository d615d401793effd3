"""What the operators compute, with numbers, arrays, sizes and other tensors; which tensors have gradients."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tensor.differences import check_gradient, double
from weft.ops.dtypes import numpy_type
from weft.tensor.functions import pointwise

X, Y = np.array([0.5, 1.5, 2.5, -1.0]), np.array([2.0, 1.5, -2.0, 3.0])


def value(tensor: wf.Tensor) -> np.ndarray:
    return wf.Context("interp")[tensor]


OPERATORS: dict[str, Callable[[object, object], object]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "<": lambda x, y: x < y,
    "<=": lambda x, y: x <= y,
    ">": lambda x, y: x > y,
    ">=": lambda x, y: x >= y,
    "%": lambda x, y: x % y,
}


@pytest.mark.parametrize("sign", OPERATORS)
def test_two_tensors(sign: str) -> None:
    np.testing.assert_allclose(value(OPERATORS[sign](wf.data(X), wf.data(Y))), OPERATORS[sign](X, Y))


@pytest.mark.parametrize("number", [2, 2.5, np.float32(2.5), np.int64(2), np.bool_(True), np.array(2.5)])
@pytest.mark.parametrize("sign", OPERATORS)
def test_a_number_on_the_right(sign: str, number: float) -> None:
    np.testing.assert_allclose(value(OPERATORS[sign](wf.data(X), number)), OPERATORS[sign](X, number))


@pytest.mark.parametrize("number", [2, 2.5, np.float32(2.5), np.int64(2), np.bool_(True), np.array(2.5)])
@pytest.mark.parametrize("sign", OPERATORS)
def test_a_number_on_the_left(sign: str, number: float) -> None:
    np.testing.assert_allclose(value(OPERATORS[sign](number, wf.data(X))), OPERATORS[sign](number, X))


@pytest.mark.parametrize("sign", OPERATORS)
def test_an_array_on_either_side_is_to_be_wrapped(sign: str) -> None:
    for pair in ((Y, wf.data(X)), (wf.data(X), Y)):
        with pytest.raises(wf.WeftError, match=r"takes tensors and numbers, not an array of shape \(4,\)") as caught:
            OPERATORS[sign](*pair)
        assert caught.value.fix.startswith("wrap it: wf.data(x, batch=1)")


@pytest.mark.parametrize("sign", OPERATORS)
def test_a_truth_value_is_no_operand(sign: str) -> None:
    x = wf.data(X)
    for pair in ((x, x == x), (x == wf.data(Y), x)):
        with pytest.raises(wf.WeftError, match="takes tensors and numbers, not the truth value") as caught:
            OPERATORS[sign](*pair)
        assert caught.value.fix.endswith("wf.equal(a, b) compares their values")


def test_division_with_a_floor() -> None:
    np.testing.assert_array_equal(value(wf.data(X) // wf.data(Y)), X // Y)
    np.testing.assert_array_equal(value(wf.data(X) // 2), X // 2)


def test_negation_and_powers() -> None:
    np.testing.assert_array_equal(value(abs(wf.data(X))), np.abs(X))
    assert value(-wf.data(X)).tolist() == (-X).tolist()
    np.testing.assert_allclose(value(wf.data(X) ** 3), X**3)
    np.testing.assert_allclose(value(wf.data(np.abs(X)) ** 0.5), np.abs(X) ** 0.5)


def test_a_matrix_product_is_a_composition() -> None:
    a, b = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    np.testing.assert_array_equal(value(wf.data(a, input=1) @ wf.data(b, input=1)), a @ b)
    np.testing.assert_array_equal(value(wf.data(a, input=1) @ wf.data(b.T, batch=1)), (a @ b).T)


def test_transpose_swaps_inputs_and_outputs() -> None:
    a = np.arange(6.0).reshape(2, 3)
    tensor = wf.data(a, input=1)
    assert str(tensor.T.dims) == "2->3"
    np.testing.assert_array_equal(value(tensor.T), a.T)
    np.testing.assert_array_equal(value(tensor.T.T), a)


FUNCTIONS = {
    "relu": (wf.relu, lambda x: np.maximum(x, 0)),
    "sat01": (wf.sat01, lambda x: np.clip(x, 0, 1)),
    "exp": (wf.exp, np.exp),
    "exp2": (wf.exp2, np.exp2),
    "sin": (wf.sin, np.sin),
    "cos": (wf.cos, np.cos),
    "tanh": (wf.tanh, np.tanh),
    "abs": (wf.abs, np.abs),
    "floor": (wf.floor, np.floor),
    "recip": (wf.recip, np.reciprocal),
    "sigmoid": (wf.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "log": (lambda x: wf.log(x * x), lambda x: np.log(x * x)),
    "log2": (lambda x: wf.log2(x * x), lambda x: np.log2(x * x)),
    "sqrt": (lambda x: wf.sqrt(x * x), np.abs),
    "recip_sqrt": (lambda x: wf.recip_sqrt(x * x), lambda x: 1 / np.abs(x)),
    "not": (lambda x: wf.logical_not(x > 0.0), lambda x: x <= 0),
}


@pytest.mark.parametrize("name", FUNCTIONS)
def test_functions_of_one(name: str) -> None:
    function, expected = FUNCTIONS[name]
    np.testing.assert_allclose(value(function(wf.data(X))), expected(X), rtol=1e-12)


PAIRS = {
    "maximum": (wf.maximum, np.maximum),
    "minimum": (wf.minimum, np.minimum),
    "less": (wf.less, np.less),
    "less_equal": (wf.less_equal, np.less_equal),
    "equal": (wf.equal, np.equal),
    "not_equal": (wf.not_equal, np.not_equal),
    "logical_or": (wf.logical_or, np.logical_or),
    "logical_and": (wf.logical_and, np.logical_and),
}


@pytest.mark.parametrize("name", PAIRS)
def test_functions_of_two(name: str) -> None:
    function, expected = PAIRS[name]
    np.testing.assert_array_equal(value(function(wf.data(X), wf.data(Y))), expected(X, Y))
    np.testing.assert_array_equal(value(function(wf.data(X), 1.5)), expected(X, 1.5))
    np.testing.assert_array_equal(value(function(1.5, wf.data(X))), expected(1.5, X))


def test_functions_of_three() -> None:
    x, y = wf.data(X), wf.data(Y)
    np.testing.assert_array_equal(value(wf.where(x < y, x, y)), np.minimum(X, Y))
    np.testing.assert_array_equal(value(wf.where(x < y, 1.0, -1.0)), np.where(X < Y, 1.0, -1.0))
    np.testing.assert_allclose(value(wf.fma(x, y, 1.0)), X * Y + 1)


def test_functions_of_numbers_alone() -> None:
    assert value(wf.exp(0.0)).tolist() == [1.0]
    assert value(wf.maximum(2.0, 3.0)).tolist() == [3.0]


def test_every_operation_of_the_table_is_reachable() -> None:
    assert value(pointwise("relu_gate", wf.data(X), wf.data(Y))).tolist() == [2.0, 1.5, -2.0, 0.0]


@pytest.mark.parametrize(("left", "right", "dtype"), [
    ("float32", "float32", "float32"),
    ("float32", "float64", "float64"),
    ("int32", "float32", "float32"),
    ("int64", "float16", "float16"),
    ("float16", "bfloat16", "float32"),
    ("float8_e5m2", "bfloat16", "float32"),
    ("float8_e4m3fn", "float8_e4m3fn", "float32"),
    ("int32", "int64", "int64"),
    ("uint8", "int8", "int16"),
    ("uint8", "uint32", "uint32"),
    ("bool", "int8", "int8"),
    ("bool", "bool", "int64"),
])  # fmt: skip
def test_types_meet(left: str, right: str, dtype: str) -> None:
    assert (wf.data(np.ones(2, numpy_type(left))) + wf.data(np.ones(2, numpy_type(right)))).dtype == dtype


def test_comparisons_can_be_counted() -> None:
    assert value(wf.einsum("i=>0", wf.data(X) > 0.0)).tolist() == [3]


def listed(tensor: wf.Tensor) -> list[float]:
    return value(tensor).tolist()


def test_comparisons_can_be_added() -> None:
    x = wf.data(np.arange(4.0))
    assert listed((x > 0.0) + (x > 1.0)) == [0.0, 1.0, 2.0, 2.0]


def test_comparisons_can_be_subtracted() -> None:
    x = wf.data(np.arange(4.0))
    assert listed((x > 0.0) - (x > 1.0)) == [0.0, 1.0, 0.0, 0.0]


def test_comparisons_can_be_negated() -> None:
    assert listed(-(wf.data(np.arange(3.0)) > 1.0)) == [0.0, 0.0, -1.0]


def test_whole_numbers_have_reciprocals() -> None:
    assert listed(wf.data(np.array([1, 2])) ** -1) == [1.0, 0.5]


def test_bytes_do_not_wrap_when_summed() -> None:
    assert value(wf.einsum("i=>0", wf.data(np.array([200, 100], np.uint8)))).tolist() == [300]


def test_numbers_do_not_widen() -> None:
    assert (wf.data(np.ones(2, np.float32)) * 0.5 + 1).dtype == "float32"
    assert wf.exp(wf.data(np.ones(2, np.float32))).dtype == "float32"


EINSUMS = [
    ("ij;jk=>ik", "+", "*", lambda a, b: a @ b),
    ("ij;jk=>ik", "max", "+", lambda a, b: (a[:, :, None] + b[None]).max(1)),
    ("ij;jk=>ik", "min", "+", lambda a, b: (a[:, :, None] + b[None]).min(1)),
    ("ij;jk=>ik", "*", "-", lambda a, b: (a[:, :, None] - b[None]).prod(1)),
    ("ij;jk=>ki", "+", "/", lambda a, b: (a[:, :, None] / b[None]).sum(1).T),
    ("ij;jk=>j", "+", "max", lambda a, b: np.maximum(a[:, :, None], b[None]).sum((0, 2))),
    ("ij;jk=>0", "+", "*", lambda a, b: np.array([(a @ b).sum()])),
]


@pytest.mark.parametrize(("spec", "accum", "op", "expected"), EINSUMS)
def test_einsum_with_pairs_of_operations(spec: str, accum: str, op: str, expected: Callable[..., np.ndarray]) -> None:
    numbers = np.random.default_rng(0)
    a, b = numbers.uniform(1, 2, (2, 3)), numbers.uniform(1, 2, (3, 4))
    np.testing.assert_allclose(value(wf.einsum(spec, wf.data(a), wf.data(b), accum=accum, op=op)), expected(a, b))


def test_einsum_of_one_three_and_more() -> None:
    a = np.arange(1.0, 7.0).reshape(2, 3)
    tensor = wf.data(a)
    assert value(wf.einsum("ij=>ji", tensor)).tolist() == a.T.tolist()
    np.testing.assert_allclose(
        value(wf.einsum("ij;j;i=>i", tensor, *map(wf.data, (a[0], a[:, 0])))), (a @ a[0]) * a[:, 0]
    )
    np.testing.assert_allclose(value(wf.einsum("i;i;i;i=>0", *[wf.data(a[0])] * 4)), [(a[0] ** 4).sum()])


def test_a_convolution_that_counts() -> None:
    board = np.zeros((4, 4))
    board[1, 1:3] = board[2, 1] = 1
    count = wf.einsum("h=+a,w=+b; a,b => h,w", wf.data(board), wf.data(np.ones((3, 3))))
    expected = [[1, 2, 2, 1], [2, 3, 3, 1], [2, 3, 3, 1], [1, 1, 1, 0]]
    assert value(count).tolist() == expected


def test_captured_sizes_are_numbers() -> None:
    x = wf.data(np.arange(12.0).reshape(3, 4))
    summed = wf.einsum("ij=>i", x)
    np.testing.assert_allclose(value(summed / wf.dim(summed, "j")), x_mean := np.arange(12.0).reshape(3, 4).mean(1))
    np.testing.assert_allclose(value(summed * wf.dim(summed, "i") * (1 / wf.dim(summed, "j"))), 3 * x_mean)


def test_sizes_and_indices_on_either_side_of_an_operator() -> None:
    x, i, ctx = wf.data(X), wf.index("i", 5), wf.Context("interp")
    size = wf.dim(wf.einsum("i=>0", x), "i")
    for sign in ("+", "-", "*", "/", "<", ">="):
        np.testing.assert_allclose(ctx[OPERATORS[sign](size, x)], OPERATORS[sign](4.0, X))
        np.testing.assert_allclose(ctx[OPERATORS[sign](x, size)], OPERATORS[sign](X, 4.0))
        left, right = OPERATORS[sign](i + 1, x), OPERATORS[sign](x, 1 + i)
        ctx.compile(wf.seq(left.forward, right.forward), bindings=[i])(i=2)
        np.testing.assert_allclose(ctx[left], OPERATORS[sign](3.0, X))
        np.testing.assert_allclose(ctx[right], OPERATORS[sign](X, 3.0))


def test_a_captured_size_waits_for_inference() -> None:
    w = wf.param("w", init=1.0)
    summed = wf.einsum("ij=>i", w)
    mean = summed / wf.dim(summed, "j")
    joined = w * wf.data(np.ones((2, 5)))
    ctx = wf.Context("interp")
    assert ctx[joined].shape == (2, 5)
    assert ctx[mean].tolist() == [1.0, 1.0]


def test_a_captured_size_must_exist() -> None:
    x = wf.einsum("ij=>i", wf.data(np.ones((2, 3))))
    with pytest.raises(wf.EinsumError) as caught:
        wf.dim(x, "k")
    assert caught.value.what == "`einsum` is not computed by an einsum with a label `k`"
    assert caught.value.fix == "ask for one of `i`, `j`"
    with pytest.raises(wf.EinsumError) as caught:
        wf.dim(wf.einsum("...|..d.. => ...|0", x), "o")
    assert caught.value.fix == "ask for one of `d`"
    with pytest.raises(wf.EinsumError) as caught:
        wf.dim(wf.number(1.0), "k")
    assert caught.value.fix.startswith("ask the tensor that an einsum computes")


def test_slices_by_number_and_by_static_index() -> None:
    array = np.arange(12.0).reshape(2, 3, 2)
    x, i, j = wf.data(array, batch=2), wf.index("i", 2), wf.index("j", 3)
    ctx = wf.Context("interp")
    assert ctx[x[1][2]].tolist() == array[1, 2].tolist()
    row = x[i][j] * 1.0
    read = ctx.compile(row.forward, bindings=[i, j])
    for a in range(2):
        for b in range(3):
            read(i=a, j=b)
            assert ctx[row].tolist() == array[a, b].tolist()


def test_the_whole_of_a_tensor_is_itself() -> None:
    x = wf.number(1.0)
    assert x[:] is x


def test_only_what_parameters_reach_has_a_gradient() -> None:
    x, w = wf.data(X), double("w", o=4)
    assert not (x * 2.0).differentiable
    assert (x * w).differentiable
    assert not wf.stop_gradient(w).differentiable
    with pytest.raises(wf.WeftError) as caught:
        x.grad
    assert caught.value.what == "`data` has no gradient: nothing it is computed from is a parameter"
    assert caught.value.fix == "use a parameter, or make it differentiable with wf.require_grad"


def test_stop_gradient_keeps_the_value_and_drops_the_gradient() -> None:
    w, ctx = double("w", o=2), wf.Context("interp")
    ctx[w] = [2.0, 3.0]
    loss = wf.einsum("...|... => 0", w * wf.stop_gradient(w * w))
    assert loss.params == (w,)
    ctx.compile(wf.grad_update(loss), keep=[w.grad])()
    assert ctx[loss].tolist() == [35.0]
    assert ctx[w.grad].tolist() == [4.0, 9.0]


def test_a_loss_behind_stop_gradient_is_refused() -> None:
    w = double("w", o=2)
    with pytest.raises(wf.WeftError, match="does not depend on any parameter, so there is nothing to update"):
        wf.grad_update(wf.stop_gradient(w) * 2.0)


def test_require_grad_differentiates_by_data() -> None:
    x, ctx = wf.require_grad(wf.data(np.array([2.0, 3.0]))), wf.Context("interp")
    loss = wf.einsum("...|... => 0", x * x)
    assert loss.params == ()
    ctx.compile(wf.grad_update(loss), keep=[x.grad])()
    assert ctx[x.grad].tolist() == [4.0, 6.0]


def test_require_grad_of_what_is_computed_is_refused() -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.require_grad(wf.data(X) * 2.0)
    assert caught.value.what.startswith("`mul` is computed from other tensors; require a gradient of what")
    assert caught.value.fix == "apply wf.require_grad to data before using it"


def test_params_in_the_order_they_were_made() -> None:
    a, b, c = (double(name, o=2) for name in "abc")
    assert (wf.sin(b) * a + b * c).params == (a, b, c)


def test_tensors_are_equal_if_they_are_the_same() -> None:
    x, y = wf.data(X), wf.data(X)
    assert x == x
    assert x != y
    assert len({x, y, x}) == 2
    with pytest.raises(wf.WeftError) as caught:
        x == 2.0  # noqa: B015
    assert (caught.value.what, caught.value.fix) == ("`data == 2.0` would not compare values", "write wf.equal(t, x)")


def test_a_tensor_can_be_named() -> None:
    x = (wf.data(X) * 2.0).named("doubled")
    assert x.label == "doubled"
    assert str((x + 1.0).forward).splitlines() == ["doubled =: data *. 2.0;", "add =: doubled + 1.0"]


def test_a_new_operator_in_a_dozen_lines() -> None:
    @wf.operator
    def softplus(v, v1):  # type: ignore[no-untyped-def]
        v[:] = wf.log(1.0 + wf.exp(v1))

    @softplus.gradient
    def gentle(g, v, g1):  # type: ignore[no-untyped-def]
        g1 += g * (1.0 - wf.exp(-v))

    x, ctx = double("x", o=3), wf.Context("interp")
    ctx[x] = [-1.0, 0.0, 2.0]
    for operator in (softplus, gentle):
        loss = wf.einsum("...|... => 0", operator(x))
        ctx.compile(wf.grad_update(loss), keep=[x.grad])()
        np.testing.assert_allclose(ctx[loss], [np.log1p(np.exp([-1.0, 0.0, 2.0])).sum()])
        np.testing.assert_allclose(ctx[x.grad], 1 / (1 + np.exp([1.0, 0.0, -2.0])))


def test_an_operator_with_a_logic_of_its_own() -> None:
    @wf.operator("ij=>i")
    def largest(v, v1):  # type: ignore[no-untyped-def]
        v.accumulate("max", v1, reset=True)

    @wf.operator("@", name="tropical")
    def tropical(lhs, rhs1, rhs2):  # type: ignore[no-untyped-def]
        lhs.accumulate("max", rhs1 + rhs2, reset=True)

    a, b = np.arange(6.0).reshape(2, 3), np.array([3.0, 1.0, 2.0])
    assert value(largest(wf.data(a))).tolist() == [2.0, 5.0]
    assert value(tropical(wf.data(a, input=1), wf.data(b))).tolist() == [4.0, 7.0]
    assert tropical.name == "tropical"


def test_an_operator_whose_parameters_name_no_slot_is_refused() -> None:
    @wf.operator
    def wrong(v, weight):  # type: ignore[no-untyped-def]
        v[:] = weight

    with pytest.raises(wf.WeftError) as caught:
        wrong(wf.number(1.0))
    assert caught.value.what == "wrong has a parameter `weight`, which names no slot"
    assert caught.value.fix == "its parameters are v, v1, v2, … and in a gradient also g, g1, g2, …"


def test_a_gradient_that_cannot_be_derived_is_refused() -> None:
    @wf.operator
    def twice(v, v1):  # type: ignore[no-untyped-def]
        v[:] = v1
        v += v1

    x = double("x", o=2)
    assert value(twice(wf.data(X))).tolist() == (2 * X).tolist()
    with pytest.raises(wf.WeftError) as caught:
        wf.grad_update(twice(x))
    assert caught.value.what == "the gradient of `twice` cannot be derived: its forward code is not one assignment"
    assert caught.value.fix == "give the operator a gradient function"


def test_a_long_chain_of_operations() -> None:
    x = wf.data(np.zeros(2))
    y = x
    for _ in range(1500):
        y = y + 1.0
    assert value(y).tolist() == [1500.0, 1500.0]


def test_a_shared_expression_is_computed_once() -> None:
    y = wf.data(np.ones(2))
    for _ in range(40):
        y = y + y
    assert value(y).tolist() == [2.0**40] * 2
    assert len(str(y.forward).splitlines()) == 40


# Functions with a spec

C, A, B = np.random.default_rng(5).normal(size=(3, 3, 2, 4))
WITH_SPECS: dict[str, tuple[Callable[..., wf.Tensor], Callable[..., np.ndarray]]] = {
    "one operand": (
        lambda c, a, b: wf.einsum("ij=>ji", a[0], op="relu"),
        lambda c, a, b: np.maximum(a[0], 0).T,
    ),
    "one operand, summed": (
        lambda c, a, b: wf.tanh(a, spec="b|ij=>b|i"),
        lambda c, a, b: np.tanh(a).sum(2),
    ),
    "three operands, summed": (
        lambda c, a, b: wf.einsum("k|ij;k|ij;k|ij=>k|i", c > 0, a, b, op="where"),
        lambda c, a, b: np.where(c > 0, a, b).sum(2),
    ),
    "three operands by a function": (
        lambda c, a, b: wf.where(c > 0, a, b, spec="...|ij;...|ij;...|ij=>...|ji"),
        lambda c, a, b: np.where(c > 0, a, b).swapaxes(1, 2),
    ),
    "three operands, the largest": (
        lambda c, a, b: wf.einsum("...|ij;...|ij;...|kj=>...|ik", a, b, c, op="fma", accum="max"),
        lambda c, a, b: ((a * b)[:, :, None] + c[:, None]).max(3),
    ),
    "two operands": (
        lambda c, a, b: wf.maximum(a, b, spec="...|ij;...|ij=>...|j"),
        lambda c, a, b: np.maximum(a, b).sum(1),
    ),
    "a product and a sum": (
        lambda c, a, b: wf.fma(wf.einsum("ij=>j->i", a[0]), wf.einsum("ij=>i->j", b[0]), 1.5, spec="@"),
        lambda c, a, b: a[0] @ b[0].T + 1.5,
    ),
}


@pytest.mark.parametrize("name", WITH_SPECS)
def test_functions_with_a_spec(name: str) -> None:
    function, expected = WITH_SPECS[name]
    c, a, b = wf.data(C, batch=1), double("a", b=3, o=(2, 4)), double("b", b=3, o=(2, 4))
    result = function(c, a, b)
    found = check_gradient(result, values={a: A, b: B})
    np.testing.assert_allclose(found.ctx[result], expected(C, A, B), rtol=1e-12)


def test_an_operation_takes_as_many_operands_as_it_has() -> None:
    x = wf.data(X)
    with pytest.raises(wf.WeftError, match="op='where' takes 3 operands, and the spec has 2"):
        wf.einsum("i;i=>i", x, x, op="where")
    with pytest.raises(wf.WeftError, match="op='relu' takes one operand, and the spec has 3"):
        wf.einsum("i;i;i=>i", x, x, x, op="relu")


@pytest.mark.parametrize("backend", ["interp", "cc"])
@pytest.mark.parametrize(
    ("dtype", "points"), [("float32", [-10, -15, -17, -20, -80, 80]), ("float64", [-20, -36, -40, -700, 700])]
)
def test_sigmoid_keeps_its_digits_where_it_is_small(backend: str, dtype: str, points: list[float]) -> None:
    x = np.array(points, dtype)
    exact = 1 / (1 + np.exp(-x.astype(float)))
    ctx, given = wf.Context(backend), wf.require_grad(wf.data(x))
    value = wf.sigmoid(given)
    ctx.compile(wf.grad_update(wf.einsum("...|... => 0", value)), keep=[value, given.grad])()
    near = 4 * np.finfo(dtype).eps
    np.testing.assert_allclose(ctx[value], exact, rtol=near)
    np.testing.assert_allclose(ctx[given.grad], exact / (1 + np.exp(x.astype(float))), rtol=4 * near)
    np.testing.assert_allclose(ctx[wf.log(value)], np.log(exact), rtol=near, atol=near)
    word = {"float32": "float", "float64": "double"}[dtype]
    written = wf.tc.define(f"def f({word}(N) x) -> (y) {{ y(i) = sigmoid(x(i)) }}", backend=backend).f
    np.testing.assert_array_equal(written(x), ctx[value])


def test_the_gradient_of_sigmoid_is_a_number_where_exp_is_infinite() -> None:
    x = wf.require_grad(wf.data(np.array([-1000.0, -100.0, 100.0, 1000.0, np.inf, -np.inf], "float32")))
    ctx = wf.Context("cc")
    ctx.compile(wf.grad_update(wf.einsum("...|... => 0", wf.sigmoid(x))), keep=[x.grad])()
    np.testing.assert_allclose(ctx[x.grad], 0, atol=1e-37)
