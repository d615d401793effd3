"""Small programs of OCANNL's tests, documents and tutorials that no other test has, as a user of weft writes them."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


def test_a_parabola_and_its_slope_at_many_points() -> None:
    """The plot of f(x) = 3x² - 4x + 5 in the first lecture: one compilation, points fetched by an index."""
    at, points = wf.index("at", 5), np.linspace(-5, 5, 5)
    x = wf.require_grad(wf.data(points, batch=1, label="x"))
    f = 3 * x[at] ** 2 - 4 * x[at] + 5
    ctx = wf.Context("interp")
    step = ctx.compile(wf.grad_update(f), bindings=[at], keep=[x.grad])
    for number, point in enumerate(points):
        step(at=number)
        assert ctx[f].tolist() == [3 * point**2 - 4 * point + 5]
        assert ctx[x.grad].ravel()[number] == 6 * point - 4


def test_a_neuron_of_two_inputs() -> None:
    w, b = wf.param("w", init=[(-3.0, 1.0)]), wf.param("b", init=[6.7])
    x = wf.require_grad(wf.tensor([2.0, 0.0]))
    out = wf.relu(w @ x + b)
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(out), keep=[w.grad, b.grad, x.grad, out])()
    np.testing.assert_allclose(ctx[out], [0.7], rtol=1e-5)
    assert str(w.dims) == "2->1"
    assert [ctx[one.grad].ravel().tolist() for one in (w, b, x)] == [[2.0, 0.0], [1.0], [-3.0, 1.0]]


def test_an_update_compiled_apart_runs_after_the_gradient_and_not_before() -> None:
    p = wf.param("p", o=2, init=[1.0, 2.0])
    loss = wf.einsum("i => 0", p * p)
    ctx = wf.Context("interp")
    gradient, update = ctx.compile(wf.grad_update(loss), keep=[p.grad]), ctx.compile(wf.optim.sgd(loss, lr=0.25))
    with pytest.raises(wf.WeftError, match=r"`p\.grad`"):
        update()
    for expected in ([0.5, 1.0], [0.25, 0.5]):
        gradient()
        update()
        assert ctx[p].tolist() == expected


def test_the_least_and_the_largest_value_a_parameter_ever_had() -> None:
    p, least, most = wf.param("p", o=2, init=[1.0, -1.0]), wf.node("least", init=np.inf), wf.node("most", init=-np.inf)
    step = wf.index("n", 4)

    @wf.cd
    def update() -> None:
        p.__imul__(-0.5 * wf.number(step))
        least.accumulate("min", p)
        most.accumulate("max", p)

    ctx, seen = wf.Context("interp"), []
    run = ctx.compile(update(), bindings=[step])
    for number in (1, 2, 3):
        run(n=number)
        seen.append(ctx[p])
    np.testing.assert_array_equal(ctx[least], np.min(seen, 0))
    np.testing.assert_array_equal(ctx[most], np.max(seen, 0))


def test_rows_of_a_table_by_number_and_rows_of_zeros_for_numbers_that_are_none() -> None:
    ids, table = wf.data(np.array([2, 0, 7, -1]), batch=1), wf.param("table", init=[(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)])
    one_hot = wf.equal(wf.einsum("v => v", wf.offsets(), v=3), ids)
    rows = table @ one_hot
    assert wf.Context("interp")[rows].tolist() == [[3.0, 6.0], [1.0, 4.0], [0.0, 0.0], [0.0, 0.0]]


def test_a_choice_between_a_half_and_a_brain_float_by_bytes() -> None:
    chosen = wf.where(
        wf.data(np.array([0, 1, 2], "uint8")),
        wf.cast(wf.data(np.array([0.5, 1.5, 2.5])), "float16"),
        wf.cast(wf.data(np.array([4.0, 8.0, 16.0])), "bfloat16"),
    )
    assert chosen.dtype == "float32"
    assert wf.Context("interp")[chosen].tolist() == [4.0, 1.5, 2.5]


def test_tensors_called_like_words_and_functions_of_c() -> None:
    names = ("return", "int", "float", "exp", "log", "floorf", "static")
    total = wf.number(0.0)
    for name in names:
        total = total + wf.exp(wf.param(name, o=3, init=0.0))
    ctx = wf.Context("cc")
    routine = ctx.compile(total.forward)
    routine()
    assert ctx[total].tolist() == [7.0] * 3


def test_sums_over_the_last_axes_by_a_spec_that_is_computed() -> None:
    values = np.arange(24.0).reshape(2, 3, 4)
    for number in range(4):
        axes = ", ".join("ijk"[:number])
        found = wf.Context("interp")[wf.einsum(f"..., {axes} => ..." if axes else "... => ...", wf.data(values))]
        expected = values.sum(tuple(range(3 - number, 3)))
        np.testing.assert_array_equal(found, np.atleast_1d(expected))


def test_sinusoids_by_position() -> None:
    position, rate = np.arange(5.0), np.array([1.0, 0.1])
    angle = wf.einsum("s => s|0", wf.data(position)) * wf.data(rate)
    both = wf.einsum("...|i => ...|2*i", wf.sin(angle)) + wf.einsum("...|i => ...|2*i+1", wf.cos(angle))
    angles = position[:, None] * rate
    expected = np.stack([np.sin(angles), np.cos(angles)], -1).reshape(5, 4)
    np.testing.assert_allclose(wf.Context("interp")[both], expected)
    assert str(both.dims) == "5|4"


SPELLED = {
    "c =: a ^^ b": np.minimum,
    "c =: a; c =^^ b": np.minimum,
    "c =: a -?^ b": lambda a, b: np.where((a > 0) & (a < 1), b, 0),
    "c =: a; c =-?^ b": lambda a, b: np.where((a > 0) & (a < 1), b, 0),
    "c =: a -@> b": lambda a, _: a,
    "c =: a -/> b": lambda _, b: b,
    "c =: a % b": np.mod,
    "c =: a <> b": np.not_equal,
}


@pytest.mark.parametrize("text", SPELLED)
def test_signs_of_the_rest_of_the_operations(text: str) -> None:
    a, b, c = np.array([-0.5, 0.5, 2.0]), np.array([1.0, 2.0, 3.0]), wf.node("c")
    ctx = wf.Context("interp")
    ctx.compile(wf.parse_cd(text, a=wf.data(a), b=wf.data(b), c=c))()
    np.testing.assert_array_equal(ctx[c], SPELLED[text](a, b))


@pytest.mark.parametrize("text", ["c =: a @- b", "c =@- b", "c =?^ b", "c =:?^ b"])
def test_signs_that_are_spelled_otherwise_are_answered_with_those_there_are(text: str) -> None:
    with pytest.raises(wf.WeftError, match="there is no oper") as caught:
        wf.parse_cd(text, a=wf.data(np.ones(2)), b=wf.data(np.ones(2)), c=wf.node("c"))
    assert "`-?^` `@^` `^^`" in caught.value.fix


def test_an_intermediate_of_an_operator_says_at_its_end_which_operand_it_lies_like() -> None:
    @wf.operator
    def doubled(v: wf.Tensor, v1: wf.Tensor) -> None:
        wf.intermediate("rhs1_twice")

    with pytest.raises(wf.WeftError, match="rhs1_twice") as caught:
        doubled(wf.param("p", o=2))
    assert "ends in _lhs, _rhs1, _rhs2" in caught.value.fix
