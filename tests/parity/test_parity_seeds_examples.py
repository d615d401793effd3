"""The programs that the documents weft was specified by show, each as a user of weft writes it."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest

import weft as wf
from backends.interpreted import Fusing
from weft.assign import Accum, statements

X = np.linspace(-1, 1, 15).reshape(5, 3)


def points() -> wf.Tensor:
    return wf.data(X, batch=1, label="x")


@wf.op
def mlp_layer(x: wf.Tensor, *, hid_dim: int) -> wf.Tensor:
    return wf.relu("w" @ x + wf.param("b", o=hid_dim))


def shapes(result: wf.Tensor) -> dict[str, str]:
    return {param.label: str(param.dims) for param in result.params}


# Layers


def test_a_layer_of_plain_parameters_is_the_layer_with_inline_ones() -> None:
    w, b = wf.param("w"), wf.param("b", o=8)

    def layer(x: wf.Tensor) -> wf.Tensor:
        return wf.relu(w @ x + b)

    plain, inline = layer(points()), mlp_layer(hid_dim=8)(points())
    assert [str(one.dims) for one in (plain, w, b)] == ["5|8", "3->8", "8"]
    assert shapes(inline) == {"mlp_layer.w": "3->8", "mlp_layer.b": "8"}
    ctx = wf.Context("interp")
    for ours, theirs in zip((w, b), inline.params, strict=True):
        ctx[ours] = ctx[theirs]
    np.testing.assert_array_equal(ctx[plain], ctx[inline])


@dataclass(frozen=True)
class Widths:
    dim1: int
    dim2: int
    dim3: int


def test_three_layers_configured_where_they_are_applied() -> None:
    @wf.op
    def three_layer_perceptron(x: wf.Tensor, *, config: Widths) -> wf.Tensor:
        return mlp_layer(label="L3", hid_dim=config.dim3)(
            mlp_layer(label="L2", hid_dim=config.dim2)(mlp_layer(label="L1", hid_dim=config.dim1)(x))
        )

    model = three_layer_perceptron(config=Widths(6, 5, 2), label="M")
    first, second = model(points()), model(wf.data(X[0], label="one"))
    expected = {"L1.w": "3->6", "L1.b": "6", "L2.w": "6->5", "L2.b": "5", "L3.w": "5->2", "L3.b": "2"}
    assert shapes(first) == {f"M.{label}": shape for label, shape in expected.items()}
    assert first.params == second.params
    assert (str(first.dims), str(second.dims)) == ("5|2", "2")


def test_layers_over_a_list_of_widths_folded_or_made_beforehand() -> None:
    @wf.op
    def folded(x: wf.Tensor, *, hid_dims: tuple[int, ...]) -> wf.Tensor:
        for i, hid_dim in enumerate(hid_dims):
            x = mlp_layer(label=f"L{i}", hid_dim=hid_dim)(x)
        return x

    def mapped(*, hid_dims: tuple[int, ...]) -> Any:
        layers = [mlp_layer(label=f"L{i}", hid_dim=hid_dim) for i, hid_dim in enumerate(hid_dims)]

        def apply(x: wf.Tensor) -> wf.Tensor:
            for layer in layers:
                x = layer(x)
            return x

        return apply

    expected = {"L0.w": "3->6", "L0.b": "6", "L1.w": "6->2", "L1.b": "2"}
    model = folded(hid_dims=(6, 2), label="M")
    assert shapes(model(points())) == {f"M.{label}": shape for label, shape in expected.items()}
    assert model(points()).params == model(points()).params
    other = mapped(hid_dims=(6, 2))
    assert shapes(other(points())) == expected
    assert other(points()).params == other(points()).params


def test_a_loss_is_the_sum_of_a_margin_over_all_axes_by_the_size_of_the_batch() -> None:
    margin_loss, batch_size = wf.relu(1 - points()), 5
    scalar_loss = wf.einsum("...|... => 0", margin_loss) / batch_size
    ctx, in_code = wf.Context("interp"), wf.node("c")
    text = 'c =: (margin_loss ++ "...|... => 0") /. !..batch_size'
    ctx.compile(wf.parse_cd(text, c=in_code, margin_loss=margin_loss, batch_size=batch_size))()
    for found in (scalar_loss, in_code):
        np.testing.assert_allclose(ctx[found], [np.maximum(1 - X, 0).sum() / 5])


# Code


def test_a_product_in_the_assignment_or_in_a_tensor_of_its_own_runs_as_the_same_loops() -> None:
    p, rate = wf.param("p", o=3, init=[1.0, 2.0, 3.0]), wf.data(np.array([0.5], "float32"), label="rate")
    inside = wf.parse_cd('p =+ learning_rate * p.grad ~logic:"."', p=p, learning_rate=rate)
    scaled = rate * p.grad  # a tensor

    @wf.cd
    def apart() -> None:
        p.__iadd__(scaled)

    (binary,), (unary,) = statements(inside), statements(apart())
    assert isinstance(binary, Accum)
    assert isinstance(unary, Accum)
    assert (binary.operands, unary.operands) == ((rate.node, p.grad.node), (scaled.node,))
    costs = []
    for code in (inside, apart()):
        ctx = wf.Context(Fusing())
        ctx[p.grad] = [1.0, 0.0, -1.0]
        routine = ctx.compile(code)
        routine()
        assert ctx[p].tolist() == [1.5, 2.0, 2.5]
        costs.append([(one.flops, one.footprint) for one in routine.cost()])
    assert costs == [[(6, 40)], [(6, 40)]]  # one pass: `p`, its gradient and the rate are read, `p` is written


# Operators by slots


@wf.operator("@")
def matmul(v: Any, v1: Any, v2: Any) -> None:
    v.accumulate("+", v1 * v2, reset=True)


@matmul.gradient
def by_slots(v: Any, v1: Any, v2: Any, g: Any, g1: Any, g2: Any) -> None:
    g1 += g * v2
    g2 += v1 * g


def test_the_gradients_of_a_product_are_its_loops_read_by_slot() -> None:
    a, b = wf.param("a", i=3, o=2), wf.param("b", i=4, o=3)
    loss = wf.einsum("...|...->... => 0", by_slots(a, b))
    code = wf.grad_update(loss)
    printed = str(code)
    assert 'a.grad =+ matmul.grad * b ~logic:"@" ~slots:"0,2=>1"' in printed
    assert 'b.grad =+ a * matmul.grad ~logic:"@" ~slots:"1,0=>2"' in printed
    ctx = wf.Context("interp")
    ctx[a], ctx[b] = np.arange(6.0).reshape(2, 3), np.arange(12.0).reshape(3, 4)
    ctx.compile(code, keep=[a.grad, b.grad])()
    ones = np.ones((2, 4))
    np.testing.assert_array_equal(ctx[a.grad], ones @ ctx[b].T)
    np.testing.assert_array_equal(ctx[b.grad], ctx[a].T @ ones)


SPELLINGS = {
    "values": ("v", "v1", "v2"),
    "tensors": ("t", "t1", "t2"),
    "sides": ("lhs", "rhs1", "rhs2"),
}


@pytest.mark.parametrize("spelling", SPELLINGS)
def test_every_spelling_of_a_slot_names_it(spelling: str) -> None:
    result, left, right = SPELLINGS[spelling]
    functions: dict[str, Any] = {}
    exec(
        f"def forward({result}, {left}, {right}):\n    {result}[:] = {left} * {right}\n"
        f"def backward(g, {left}, {right}, g1, g2):\n    g1 += g * {right}\n    g2 += {left} * g\n",
        functions,
    )
    times = wf.operator(functions["forward"]).gradient(functions["backward"])
    a, b = wf.param("a", o=2, init=[2.0, 3.0]), wf.param("b", o=2, init=[5.0, 7.0])
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(wf.einsum("i => 0", times(a, b))), keep=[a.grad, b.grad])()
    assert (ctx[a.grad].tolist(), ctx[b.grad].tolist()) == ([5.0, 7.0], [2.0, 3.0])


@pytest.mark.parametrize("power", [2.0, 1.0, 3.0, 0.5, -1.0])
def test_a_power_by_a_number_defined_as_an_operator(power: float) -> None:
    """Unlike a binary operation it has one operand, and no gradient by the exponent."""

    @wf.operator
    def pointpow(v: Any, v1: Any) -> None:
        v[:] = v1**power

    @pointpow.gradient
    def pointpow(g: Any, v1: Any, g1: Any) -> None:
        if power == 2.0:
            g1 += power * v1 * g
        elif power == 1.0:
            g1 += g
        else:
            g1 += power * v1 ** (power - 1) * g

    values = np.array([0.5, 1.0, 2.0])
    x = wf.param("x", init=values, dtype="float64")
    ctx = wf.Context("interp")
    for result in (pointpow(x), x**power):
        ctx.compile(wf.grad_update(wf.einsum("i => 0", result)), keep=[x.grad, result])()
        np.testing.assert_allclose(ctx[result], values**power)
        np.testing.assert_allclose(ctx[x.grad], power * values ** (power - 1))
