"""Gradients as tensors: what they mean, how they are asked for, and what is refused.

That they are right, and their own gradients, is checked for every operator in `test_tensor_gradients.py` and for random
compositions in `test_tensor_compositions.py`.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tensor.differences import EVERYTHING, Differences, check_second_order, double, total

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


def everything(tensor: wf.Tensor) -> wf.Tensor:
    return wf.einsum(EVERYTHING, tensor)


def value(tensor: wf.Tensor, backend: str = "interp") -> np.ndarray:
    return wf.Context(backend)[tensor]


@BACKENDS
def test_a_power_is_differentiated_until_nothing_is_left(backend: str) -> None:
    x = wf.param("x", init=3.0, o=1)
    found, powers = x**4, []
    for _ in range(4):
        found = wf.grad(found, x)
        powers.append(value(found, backend).item())
    assert powers == [108.0, 108.0, 72.0, 24.0]
    with pytest.warns(wf.WeftWarning, match="the gradient of `d_x` by `x` is zero"):
        assert value(wf.grad(found, x), backend).item() == 0.0


def test_in_the_form_in_which_it_is_asked_for() -> None:
    x, y = double("x", o=1, init=2.0), double("y", o=1, init=3.0)
    loss = x * x * y
    by_tuple = wf.grad(loss, (x, y))
    assert isinstance(by_tuple, tuple)
    by_list = wf.grad(loss, [x, y])
    assert isinstance(by_list, list)
    by_name = wf.grad(loss, {"x": x, "y": y})
    assert list(by_name) == ["x", "y"]
    for found in (by_tuple, by_list, list(by_name.values())):
        assert [value(one).item() for one in found] == [12.0, 4.0]
    assert value(wf.grad(loss, y)).item() == 4.0
    nested = wf.grad(loss, {"in": (x, [y])})
    assert (value(nested["in"][0]).item(), value(nested["in"][1][0]).item()) == (12.0, 4.0)
    ways = {"y": wf.tensor([10.0]), "x": wf.tensor([1.0])}  # by name, in whatever order
    assert value(wf.jvp(loss, {"of": {"x": x, "y": y}}, {"of": ways})).item() == 52.0


def test_a_gradient_is_pulled_back() -> None:
    w, numbers = double("w", i=3, o=2), np.random.default_rng(0)
    x, d = (wf.data(numbers.normal(size=size)) for size in (3, 2))
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[wf.grad(w @ x, w, d=d)], np.outer(ctx[d], ctx[x]))
    np.testing.assert_allclose(ctx[wf.grad(w @ x, w, d=2.0)], np.outer([2.0, 2.0], ctx[x]))


def test_a_direction_is_pushed_forward() -> None:
    w, numbers = double("w", i=3, o=2), np.random.default_rng(0)
    x = wf.data(numbers.normal(size=3))
    v = wf.data(numbers.normal(size=(2, 3)), input=1)
    ctx = wf.Context("interp")
    np.testing.assert_allclose(
        ctx[wf.jvp(wf.tanh(w @ x), w, v)], (1 - np.tanh(ctx[w] @ ctx[x]) ** 2) * (ctx[v] @ ctx[x])
    )


def test_what_is_asked_for_may_be_computed() -> None:
    """The gradient by something between counts what goes through it, and so does what it is computed from."""
    x = double("x", o=1, init=2.0)
    y = (x * x).named("y")
    z = y * y + x
    by_x, by_y = wf.grad(z, (x, y))
    assert (value(by_x).item(), value(by_y).item()) == (33.0, 8.0)
    one = wf.tensor([1.0])
    assert value(wf.jvp(z, (x, y), (one, one))).item() == 41.0


def test_a_hessian_times_a_vector_is_one_line() -> None:
    numbers = np.random.default_rng(1)
    a = numbers.normal(size=(4, 4))
    x, v = double("x", o=4), wf.data(numbers.normal(size=4))
    loss = wf.einsum("i; ij; j => 0", x, wf.data(a), x)
    product = wf.grad(wf.einsum("i; i => 0", wf.grad(loss, x), v), x)
    forward_over_reverse = wf.jvp(wf.grad(loss, x), x, v)
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[product], (a + a.T) @ ctx[v])
    np.testing.assert_allclose(ctx[forward_over_reverse], (a + a.T) @ ctx[v])


@BACKENDS
def test_a_gradient_penalty_trains(backend: str) -> None:
    """A loss with the slope of a network in it, by the gradients of a training step."""
    numbers = np.random.default_rng(2)
    x = wf.require_grad(wf.data(numbers.normal(size=(5, 3)), batch=1))
    w, b = double("w", i=3, o=4), double("b", o=4)
    out = everything(wf.tanh(w @ x + b))
    slope = wf.grad(out, x)
    loss = everything(out * out + (wf.einsum("...|i; ...|i => ...|0", slope, slope) - 1.0) ** 2)
    found = Differences(loss, [w, b])
    found.check()
    ctx = wf.Context(backend)
    ctx[w], ctx[b] = found.ctx[w], found.ctx[b]
    ctx.compile(wf.grad_update(loss), keep=[w.grad])()
    np.testing.assert_allclose(ctx[w.grad], found.gradients[w], rtol=1e-9)


def test_a_step_of_meta_learning() -> None:
    """The gradient of what a loss is after one step of gradient descent, against NumPy's own formula."""
    numbers = np.random.default_rng(3)
    a, t, s = numbers.normal(size=(6, 3)), numbers.normal(size=6), numbers.normal(size=6)
    w = double("w", o=3)
    ctx = wf.Context("interp")

    def loss(weights: wf.Tensor, truth: np.ndarray) -> wf.Tensor:
        off = wf.einsum("bi; i => b", wf.data(a), weights) - wf.data(truth)
        return wf.einsum("b; b => 0", off, off)

    rate = 0.05
    inner = w - rate * wf.grad(loss(w, t), w)
    found = ctx[wf.grad(loss(inner, s), w)]
    start = ctx[w]
    after = start - rate * 2 * a.T @ (a @ start - t)
    np.testing.assert_allclose(found, (np.eye(3) - rate * 2 * a.T @ a) @ (2 * a.T @ (a @ after - s)), rtol=1e-10)


def test_a_loss_of_physics() -> None:
    """The residual of u'' + u = 0 of a network of one hidden layer, by derivatives written out by hand."""
    numbers = np.random.default_rng(4)
    points = numbers.uniform(-1, 1, (7, 1))
    x = wf.require_grad(wf.data(points, batch=1))
    w, b, c = double("w", i=1, o=5), double("b", o=5), double("c", i=5, o=1)
    u = c @ wf.tanh(w @ x + b)
    slope = wf.grad(everything(u), x)
    bend = wf.grad(everything(slope), x)
    residual = everything((bend + u) ** 2)
    found = Differences(residual, [w, b, c])
    found.check()
    ctx = found.ctx
    h = np.tanh(points @ ctx[w].T + ctx[b])
    wanted = ((-2 * h * (1 - h**2) * ctx[w].T ** 2 + h) @ ctx[c].T) ** 2
    np.testing.assert_allclose(ctx[residual].item(), wanted.sum(), rtol=1e-10)


def test_a_gradient_goes_into_a_layer_whose_shape_it_infers() -> None:
    @wf.op
    def lifted(x: wf.Tensor) -> wf.Tensor:
        slope = wf.grad(everything(wf.tanh(wf.param("a", o=5) @ x)), x)  # type: ignore[operator]
        return "m" @ slope  # type: ignore[operator]

    x = wf.require_grad(wf.data(np.ones((2, 3)), batch=1))
    out = lifted(x)
    ctx = wf.Context("interp")
    assert ctx[wf.einsum("...|o => ...|o", out, o=4)].shape == (2, 4)


def test_operators_of_users_are_differentiated_twice() -> None:
    @wf.operator
    def cubed(v, v1):  # type: ignore[no-untyped-def]
        v[:] = v1 * v1 * v1

    @cubed.gradient
    def _(g, g1, v1):  # type: ignore[no-untyped-def]
        square = wf.intermediate("square_rhs1")
        square[:] = v1 * v1
        g1 += 3.0 * g * square

    x = double("x", o=3)
    check_second_order(Differences(total(cubed(x)), [x]))


def test_a_gradient_function_that_subtracts() -> None:
    @wf.operator
    def against(v, v1, v2):  # type: ignore[no-untyped-def]
        v[:] = v1 * v1 - v2

    @against.gradient
    def _(g, g1, g2, v1):  # type: ignore[no-untyped-def]
        g1 += 2.0 * g * v1
        g2 -= g

    x, y = double("x", o=3), double("y", o=3)
    check_second_order(Differences(total(against(x, y) * y), [x, y]))


def test_no_gradient_passes_where_it_was_stopped_whatever_the_order() -> None:
    x = double("x", o=1, init=3.0)
    y = x * wf.stop_gradient(x) * x
    assert [value(one).item() for one in (wf.grad(y, x), wf.grad(wf.grad(y, x), x))] == [18.0, 6.0]


def test_data_counts_only_where_its_gradient_is_required() -> None:
    x = wf.data(np.array([3.0]))
    required = wf.require_grad(x)
    y = required * x * required
    assert value(wf.grad(wf.grad(y, required), required)).item() == 6.0
    assert value(wf.grad(y, x)).item() == 18.0


def test_a_gradient_that_is_zero_may_still_change() -> None:
    """At the optimum of a square behind a choice the gradient vanishes, and its slope does not."""
    x = double("x", o=2, init=np.array([2.0, -1.0]))
    loss = everything(wf.where(x > 0.0, (wf.log(x) - np.log(2.0)) ** 2, 0.0))
    first = wf.grad(loss, x)
    assert value(first).tolist() == [0.0, 0.0]
    np.testing.assert_allclose(value(wf.grad(everything(first), x)), [0.5, 0.0])
    np.testing.assert_allclose(value(wf.jvp(first, x, wf.tensor([1.0, 1.0]))), [0.5, 0.0])


def test_types_of_gradients_are_those_of_their_tensors() -> None:
    for dtype in ("float16", "float32", "float64"):
        x = wf.param("x", dtype=dtype, o=2)
        assert wf.grad(everything(x * x), x).dtype == dtype


def test_code_that_computes_a_gradient_prints() -> None:
    x = wf.param("x", o=2)
    assert str(wf.grad(everything(x * x), x).forward).splitlines() == [
        "d_einsum =: 1.0;",
        'd_mul =:+ d_einsum ~logic:"...|...->... => 0" ~slots:"0=>1";',
        'd_x =:+ d_mul *. x ~slots:"0,2=>1";',
        'd_x =+ d_mul *. x ~slots:"0,1=>2"',
    ]


# Refused


def test_nothing_passes_the_gradient_on() -> None:
    x = double("x", o=2, init=1.5)
    with pytest.warns(wf.WeftWarning, match="the gradient of `einsum` by `x` is zero: nothing passes it on"):
        found = wf.grad(everything(wf.stop_gradient(x) + 1.0), x)
    assert value(found).tolist() == [0.0, 0.0]


X, Y = wf.param("x", o=2), wf.param("y", o=2)
DATA = wf.data(np.ones(2), label="given")
REFUSED: dict[str, tuple[Callable[[], object], str, str]] = {
    "not computed from it": (
        lambda: wf.grad(everything(X), Y),
        "`einsum` is not computed from `y`",
        "differentiate by something that it is computed from",
    ),
    "not differentiable": (
        lambda: wf.grad(everything(X * DATA), DATA),
        "`given` is not differentiable: it is neither a parameter nor computed from one",
        "x = wf.require_grad(given), and build `einsum` from x",
    ),
    "several numbers": (
        lambda: wf.Context("interp").compile(wf.grad(X * X, X).forward),
        "the loss `mul` is 2, 2 numbers, and a gradient starts from one",
        "reduce it",
    ),
    "no tensor": (
        lambda: wf.grad(2.0, X),  # type: ignore[arg-type]
        "wf.grad differentiates a tensor, not float",
        "wf.grad(loss, w)",
    ),
    "by no tensor": (
        lambda: wf.grad(everything(X), ("x",)),  # type: ignore[arg-type]
        "wf.grad differentiates by tensors, not str",
        "give a tensor, or a tuple or dict of tensors",
    ),
    "too few directions": (
        lambda: wf.jvp(everything(X * Y), (X, Y), (X,)),
        "wf.jvp moves 2 tensors along 1",
        "give one direction for each tensor, of its shape",
    ),
    "another shape": (
        lambda: wf.grad(X * X, X, d=wf.data(np.ones(3))),
        "cannot",
        "",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_is_refused(name: str) -> None:
    call, what, fix = REFUSED[name]
    with pytest.raises(wf.WeftError) as caught:
        call()
    text = str(caught.value)
    assert what in text
    assert fix in text
    assert "test_tensor_grad.py" in text


def test_a_gradient_function_that_is_not_linear_pushes_nothing_forward() -> None:
    @wf.operator
    def odd(v, v1):  # type: ignore[no-untyped-def]
        v[:] = v1

    @odd.gradient
    def _(g, g1):  # type: ignore[no-untyped-def]
        g1 += g * g

    with pytest.raises(wf.WeftError, match="`odd` is not linear in the gradient of its result"):
        wf.jvp(odd(X), X, X)


def test_a_gradient_function_that_writes_again_what_it_read() -> None:
    @wf.operator
    def odd(v, v1):  # type: ignore[no-untyped-def]
        v[:] = v1

    @odd.gradient
    def _(g, g1):  # type: ignore[no-untyped-def]
        t = wf.intermediate("t_rhs1")
        t[:] = g
        g1 += t
        t[:] = g * 2.0
        g1 += t

    with pytest.raises(wf.WeftError, match="it writes `t_rhs1` again after it read it"):
        wf.grad(everything(odd(X)), X)
