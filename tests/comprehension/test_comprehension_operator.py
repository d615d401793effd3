"""Definitions in tensor expressions: shapes flow both ways, gradients flow, neighbours are fused."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from comprehension.running import assert_near, backends, definition

TEXT = """
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def conv(float(N) I, float(K) W) -> (O) { O(i) +=! I(i + k) * W(k) }
def scale(float a, float(N) x) -> (y) { y(i) = a * x(i) }
def both(float(N) x, float(N) y) -> (p, q) { t(i) = x(i) * y(i)
    p(i) = t(i) * t(i)
    q max=! t(i) }
def add(float(N) x) -> (y) { y(i) += x(i) }
def layer(float(B,I) x, float(O,I) w, float(O) c) -> (y) { y(b,o) +=! x(b,i) * w(o,i)
    y(b,o) = max(y(b,o) + c(o), 0) }
def third(float(3) x) -> (y) { y(i) = x(i) / 3 }
def narrow(half(N) x) -> (y) { y(i) = x(i) }
"""
A, B = np.arange(12, dtype="float32").reshape(3, 4), np.linspace(-1, 1, 20, dtype="float32").reshape(4, 5)


def text(backend: str = "interp") -> Any:
    return wf.tc.define(TEXT, backend=backend)


@backends
def test_an_operator_like_any_other(backend: str) -> None:
    ctx, tc = wf.Context(backend), text(backend)
    product = tc.mm(wf.data(A), wf.data(B))
    assert str(product.dims) == "3,5"
    assert_near(ctx[2 * product + 1], 2 * (A @ B) + 1)
    assert_near(ctx[tc.mm(A=wf.data(A), B=B)], A @ B)
    assert_near(ctx[tc.scale(2.0, wf.data(A[0]))], 2 * A[0])


def test_numbers_have_the_types_of_their_parameters() -> None:
    f = wf.tc.define("def f(int32 a, bool b, float(N) x) -> (y) { y(i) = b ? a * x(i) : 0 }", backend="interp").f
    assert_near(wf.Context("interp")[f(2, True, wf.data(A[0]))], 2 * A[0])
    for numbers in ((2.5, True), (2**40, True), (2, 1)):
        with pytest.raises(wf.WeftError, match="is no number of that type"):
            f(*numbers, wf.data(A[0]))


@backends
def test_several_results_are_several_tensors(backend: str) -> None:
    ctx, tc = wf.Context(backend), text(backend)
    p, q = tc.both(wf.data(A[0]), wf.data(A[1]))
    assert_near(ctx[p], (A[0] * A[1]) ** 2)
    assert np.ravel(ctx[q]) == (A[0] * A[1]).max()


@backends
def test_what_it_accumulates_into_is_the_last_operand(backend: str) -> None:
    found = text(backend).add(wf.data(A[0][:3]), wf.data(np.ones(4, "float32")))
    assert str(found.dims) == "4"
    assert_near(wf.Context(backend)[found], [1, 2, 3, 1])


# Shapes


def test_shapes_flow_forwards_and_backwards() -> None:
    tc = text()
    w, v = wf.param("w"), wf.param("v")
    y = tc.mm(tc.mm(wf.data(A), w), v) + wf.data(np.ones((3, 2), "float32"))
    tc.mm(v, wf.data(A[:2])) + wf.data(np.ones((6, 4), "float32"))
    assert [str(one.dims) for one in (w, v, y)] == ["4,6", "6,2", "3,2"]
    u = wf.param("u")
    tc.mm(u, wf.data(B)) + wf.data(np.ones((3, 5), "float32"))
    assert str(u.dims) == "3,4"


def test_sizes_that_the_text_computes() -> None:
    found = text().conv(wf.data(np.ones(9, "float32")), wf.data(np.ones(3, "float32")))
    assert str(found.dims) == "7"


def test_axes_of_every_kind_in_memory_order() -> None:
    found = text().mm(wf.data(A, batch=1), wf.data(B, input=1))
    assert_near(wf.Context("interp")[found], A @ np.asarray(B))


@pytest.mark.parametrize(
    ("call", "said"),
    [
        (lambda tc: tc.mm(wf.data(A), wf.data(A)), "`K` cannot be both 4 and 3"),
        (lambda tc: tc.mm(wf.data(A[0]), wf.data(B)), "`A` of `mm` has 2 axes, and what is given is 4"),
        (
            lambda tc: tc.mm(wf.data(A), wf.data(B.astype("float64"))),
            "`B` of `mm` is float32, and what is given is float64",
        ),
        (lambda tc: tc.narrow(wf.param("w", o=3)), "`x` of `narrow` is float16, and what is given is float32"),
        (lambda tc: tc.third(wf.data(A[0])), "cannot be both 4 and 3"),
        (lambda tc: tc.mm(wf.data(A)), "`mm` was not given `B`"),
        (lambda tc: tc.add(wf.data(A[0])), "`add` accumulates into `y`"),
        (lambda tc: tc.mm(wf.data(A), B, outputs=(A,)), "`mm` was given tensors and `outputs`"),
    ],
)
def test_operands_that_do_not_fit(call: Any, said: str) -> None:
    with pytest.raises(wf.WeftError) as error:
        call(text())
    assert said in error.value.what
    assert error.value.fix


def test_a_read_that_leaves_its_tensor_is_told_in_terms_of_the_text() -> None:
    f = wf.tc.define("def f(float(N) x) -> (y) { y(i) = x(i + 1) where i in 0:4 }", backend="interp").f
    with pytest.raises(wf.WeftError, match="`i \\+ 1` takes the values 1 to 4, and axis 0 of `x` is 4"):
        wf.Context("interp")[f(wf.data(A[0]))]


# Gradients


@backends
def test_gradients_of_several_results(backend: str) -> None:
    x, y = wf.param("x", o=4), wf.param("y", o=4)
    p, q = text(backend).both(x, y)
    loss = wf.einsum("... => 0", p) + 3 * q * q
    ctx, one, other = wf.Context(backend), np.array([1, 2, 3, 4], "float32"), np.array([0.5, -1, 2, 1], "float32")
    ctx[x], ctx[y] = one, other
    ctx.compile(wf.grad_update(loss), keep=[x.grad, y.grad])()
    product = one * other
    by_product = 2 * product + 6 * product * (product == product.max())
    assert_near(ctx[x.grad], by_product * other)
    assert_near(ctx[y.grad], by_product * one)


@backends
def test_the_same_operand_twice(backend: str) -> None:
    dot = wf.tc.define("def dot(float(N) x, float(N) y) -> (z) { z +=! x(i) * y(i) }", backend=backend).dot
    x, ctx = wf.param("x", o=3), wf.Context(backend)
    ctx[x] = np.array([1, 2, 3], "float32")
    ctx.compile(wf.grad_update(dot(x, x)), keep=[x.grad])()
    assert_near(ctx[x.grad], [2, 4, 6])


def trained(backend: str, comprehension: bool) -> tuple[list[float], list[Any]]:
    """The losses of ten steps of a model of two layers, and its parameters after them."""
    rng = np.random.default_rng(1)
    inputs, wanted = (rng.standard_normal(shape).astype("float32") for shape in ((8, 5), (8, 3)))
    first = {"w1": rng.standard_normal((6, 5)) / 2, "w2": rng.standard_normal((3, 6)) / 2, "c1": np.ones(6) / 8}
    first["c2"] = np.ones(3) / 8
    shapes = {"w1": {"o": 6, "i": 5}, "w2": {"o": 3, "i": 6}} if not comprehension else {"w1": {}, "w2": {}}
    params = {name: wf.param(name, **shapes.get(name, {"o": one.shape[0]})) for name, one in first.items()}
    w1, w2, c1, c2 = params.values()
    layer, batch = text(backend).layer, 0 if comprehension else 1
    x, goal = wf.data(inputs, batch=batch), wf.data(wanted, batch=batch)
    if comprehension:
        y = layer(layer(x, w1, c1), w2, c2)
    else:
        y = wf.relu(w2 @ wf.relu(w1 @ x + c1) + c2)
    loss = wf.einsum("...|... => 0", (y - goal) * (y - goal))
    ctx = wf.Context(backend)
    for name, param in params.items():
        ctx[param] = first[name].astype("float32")
    step, losses = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.01))), []
    for _ in range(10):
        step()
        losses.append(float(np.ravel(ctx[loss])[0]))
    return losses, [np.array(ctx[param]) for param in params.values()]


@backends
def test_a_model_learns_as_it_does_without_comprehensions(backend: str) -> None:
    losses, params = trained(backend, True)
    others, expected = trained(backend, False)
    np.testing.assert_allclose(losses, others, rtol=1e-4)
    assert losses[-1] < losses[0]
    for found, wanted in zip(params, expected, strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-3, atol=1e-5)


# Fusion


def test_neighbours_are_fused() -> None:
    tc = wf.tc.define(TEXT + "def twice(float(M,N) A) -> (C) { C(m,n) = A(m,n) * 2 }", backend="cc")
    y = wf.relu(tc.twice(tc.mm(wf.data(A) * 2, wf.data(B))) + 1)
    kernels = wf.Context("cc").compile(y.forward).show("kernels")
    assert kernels.count("kernel ") == 1


BACKWARDS = """
def convolve(float(N) I, float(K) W) -> (O) { O(i) +=! I(i+k) * W(k) }
def skip(float(N) I, float(K) W) -> (O) { O(i) +=! I(2*i+k) * W(k) }
def pair(float(N) a, float(N) b) -> (c) { c(i) = a(i) * b(i) }
"""


def test_sizes_that_are_computed_are_found_backwards_too() -> None:
    tc = wf.tc.define(BACKWARDS)
    ten, seven, three = (wf.data(np.ones(size, "float32")) for size in (10, 7, 3))
    kernel, image = wf.param("kernel"), wf.param("image")
    tc.pair(tc.convolve(ten, kernel), seven)
    tc.pair(tc.convolve(image, three), seven)
    assert kernel.dims.array_shape == (4,)
    assert image.dims.array_shape == (9,)


def test_a_size_of_which_several_would_do_must_be_given() -> None:
    tc = wf.tc.define(BACKWARDS)
    kernel = wf.param("kernel")
    tc.pair(tc.skip(wf.data(np.ones(10, "float32")), kernel), wf.data(np.ones(4, "float32")))
    with pytest.raises(wf.WeftError, match="nothing says how big the output axis of parameter `kernel` is"):
        kernel.dims


# Batch axes


CONV = "def conv(float(B,T,C) x, float(K,C) w) -> (y) { y(b,t,c) +=! x(b,t + k,c) * w(k,c) }"


def batched(*shape: int, batch: int = 1) -> wf.Tensor:
    return wf.data(np.random.default_rng(len(shape)).standard_normal(shape).astype("float32"), batch=batch)


@pytest.mark.parametrize(
    ("text", "shape", "batch", "dims"),
    [
        (CONV, (8, 6, 4), 1, "8|4,4"),
        (CONV, (8, 6, 4), 2, "8|4,4"),
        (CONV, (8, 6, 4), 0, "8,4,4"),
        ("def f(float(A,B,C) x, float(K,C) w) -> (y) { y(a,b,c) = x(a,b,c) * w(0,c) }", (8, 6, 4), 2, "8,6|4"),
        ("def f(float(B,T,C) x, float(K,C) w) -> (y) { y(b,c) max=! x(b,t,c) + w(0,c) }", (8, 6, 4), 1, "8|4"),
        ("def f(float(B,T,C) x, float(K,C) w) -> (y) { y(b) +=! x(b,t,c) * w(0,c) }", (8, 6, 4), 1, "8|1"),
        (
            "def f(float(B,T,C) x, float(K,C) w) -> (y) { y(b,t) max=! x(b,2 * t + k,c) + w(0,c) where k in 0:2 }",
            (8, 6, 4),
            1,
            "8|3",
        ),
        (
            "def g(float(P,Q,R) x) -> (z) { z(p,q,r) = x(p,q,r) * 2 }\n"
            "def f(float(B,T,C) x, float(K,C) w) -> (y) { y = g(x) y(b,t,c) += w(0,c) }",
            (8, 6, 4),
            1,
            "8|6,4",
        ),
    ],
)
def test_a_batch_axis_stays_one(text: str, shape: tuple[int, ...], batch: int, dims: str) -> None:
    made = definition(text)(batched(*shape, batch=batch), wf.data(np.ones((3, 4), "float32")))
    assert str(made.dims) == dims


@backends
def test_examples_do_not_mix_after_a_comprehension(backend: str) -> None:
    x, w = batched(5, 6, 4), np.ones((3, 4), "float32")
    y = definition(CONV)(x, wf.data(w))
    v = wf.param("v", o=2)
    out = wf.einsum("...|... => ...|0", v @ y)
    ctx = wf.Context(backend)
    weights = np.random.default_rng(1).standard_normal((2, 4, 4)).astype("float32")
    ctx[v] = weights
    values = sum(ctx[x][:, k : k + 4] for k in range(3))
    np.testing.assert_allclose(ctx[out], np.einsum("btc,otc->b", values, weights)[:, None], rtol=1e-4)
    loss = wf.einsum("...|... => 0", out * out)
    step = ctx.compile(wf.grad_update(loss), keep=[v.grad])
    step()
    each = np.einsum("btc,otc->b", values, weights)
    np.testing.assert_allclose(
        ctx[v.grad], np.einsum("b,btc->tc", 2 * each, values)[None].repeat(2, 0), rtol=1e-3, atol=1e-3
    )


def test_the_kinds_of_an_operand_that_is_still_open_are_those_known_so_far() -> None:
    h = wf.relu(wf.param("u", o=5) @ batched(8, 3))
    square = definition("def square(float(B,N) x) -> (y) { y(b,n) = x(b,n) * x(b,n) }")
    assert str(square(h).dims) == "8|5"
    total = definition("def total(float(B,N) x) -> (y) { y(b) +=! x(b,n) }")
    twice = definition("def twice(float(B) x) -> (y) { y(b) = 2 * x(b) }")
    made = twice(total(h))
    assert str(made.dims) == "8|1"
    assert wf.Context("interp")[made].shape == (8, 1)


def test_a_batch_axis_that_is_not_the_first_is_warned_of() -> None:
    turned = definition("def turned(float(B,N) x) -> (y) { y(n,b) = x(b,n) }")
    with pytest.warns(wf.WeftWarning) as caught:
        assert str(turned(batched(8, 3)).dims) == "3,8"
    (one,) = caught
    assert one.filename == __file__
    assert str(one.message) == (
        "the batch axis `B` is an output axis of `y` of `turned`: it is not the first\n"
        "  fix: let the index of `B` come first on the left side of `y`"
    )
