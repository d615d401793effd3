"""Maps, perceptrons, lookups, dropout, softmax over named axes."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from nn.differential import check_batches, check_block
from nn.reference import relu

X = np.random.default_rng(1).normal(size=(4, 3))
IMAGES = np.random.default_rng(2).normal(size=(4, 2, 3))


def test_a_linear_layer_maps_the_whole_row() -> None:
    layer = wf.nn.linear(o=5, label="head")
    check_block(layer, X, lambda x, p: x @ p["w"].T + p["b"])
    assert [p.label for p in layer.params] == ["head.w", "head.b"]
    flat = wf.nn.linear(o=(2, 2), bias=False)
    check_block(flat, IMAGES, lambda x, p: np.einsum("bij,klij->bkl", x, p["w"]))
    check_batches(wf.nn.linear(o=5), X[0])


def test_a_layer_of_a_perceptron() -> None:
    check_block(wf.nn.mlp_layer(hid_dim=5), X, lambda x, p: relu(x @ p["w"].T + p["b"]))
    check_block(wf.nn.mlp_layer(hid_dim=5, activation=wf.tanh), X, lambda x, p: np.tanh(x @ p["w"].T + p["b"]))


def test_a_perceptron() -> None:
    def reference(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
        hidden = np.tanh(np.tanh(x @ p["w1"].T + p["b1"]) @ p["w2"].T + p["b2"])
        return hidden @ p["w_out"].T + p["b_out"]

    check_block(wf.nn.mlp(hid_dims=[5, 1], o=2, activation=wf.tanh), X, reference)
    check_batches(wf.nn.mlp(hid_dims=[5], o=2), X[0])


def test_the_outputs_of_a_perceptron_are_inferred_from_the_loss() -> None:
    model = wf.nn.mlp(hid_dims=[5], label="mlp")
    loss = wf.nn.mse(model(wf.data(X, batch=1)), wf.data(np.ones((4, 2)), batch=1))
    assert loss.dims.array_shape == (1,)
    assert str(model.param("w_out").dims) == "5->2"


def test_rows_of_a_table() -> None:
    ids = wf.data(np.array([[3, 1], [3, 0]]), batch=2, label="ids")
    table = wf.nn.embedding(vocab_size=5, o=4, label="words")
    found = table(ids)
    beside = table(wf.data(np.array([[3, 1], [3, 0]]), batch=1, label="beside"))
    ctx = wf.Context("interp")
    loss = wf.nn.mse(found, 0.0, reduction="sum")
    ctx.compile(wf.grad_update(loss), keep=[found])()
    rows = ctx[table.param("table")]
    np.testing.assert_allclose(ctx[found], rows[[[3, 1], [3, 0]]])
    np.testing.assert_allclose(ctx[beside], rows[[[3, 1], [3, 0]]])
    assert (str(found.dims), str(beside.dims)) == ("2,2|4", "2|2,4")
    expected = 2 * rows * np.array([1, 1, 0, 2, 0])[:, None]
    np.testing.assert_allclose(ctx[table.param("table").grad], expected, rtol=1e-6)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_dropout_is_there_to_be_trained_only(backend: str) -> None:
    ones = wf.data(np.ones(2000, "float32"), label="ones")
    layer = wf.nn.dropout(rate=0.25)
    assert layer(ones) is ones
    n = wf.counter("n")
    with wf.nn.training(step=n):
        dropped = layer(ones)
        assert wf.nn.dropout(ones, rate=0.0) is ones
    ctx = wf.Context(backend)
    step = ctx.compile(dropped.forward)
    seen = []
    for _ in range(2):
        step()
        seen.append(ctx[wf.given(dropped)].copy())
    assert all(np.isin(one, [0.0, np.float32(1 / 0.75)]).all() for one in seen)
    assert all(0.2 < (one == 0).mean() < 0.3 for one in seen)
    assert (seen[0] != seen[1]).any()


def test_softmax_over_the_axes_that_are_named() -> None:
    x = wf.data(IMAGES, batch=1, label="x")
    ctx = wf.Context("interp")

    def expected(axes: tuple[int, ...], temperature: float = 1.0) -> np.ndarray:
        exps = np.exp(IMAGES / temperature)
        return exps / exps.sum(axes, keepdims=True)

    for spec, axes in {"...|..., v": (2,), "...|t, v": (1, 2), "b|...": (0,), "...|..d..": (1, 2)}.items():
        np.testing.assert_allclose(ctx[wf.nn.softmax(x, spec=spec)], expected(axes), rtol=1e-12)
    np.testing.assert_allclose(ctx[wf.nn.softmax(x)], expected((1, 2)), rtol=1e-12)
    np.testing.assert_allclose(ctx[wf.nn.softmax(x, spec="...|t, v => ...|t")], expected((2,)), rtol=1e-12)
    np.testing.assert_allclose(ctx[wf.nn.softmax(x, temperature=2.5)], expected((1, 2), 2.5), rtol=1e-12)


def test_classes_as_numbers() -> None:
    ctx = wf.Context("interp")
    ids = wf.nn.class_ids_of_int_list([2, 0])
    for found in (
        wf.nn.one_hot_of_ids(ids, num_classes=3),
        wf.nn.one_hot_of_int_list([2, 0], num_classes=3),
        wf.nn.dense_one_hot_of_int_list([2, 0], num_classes=3),
    ):
        np.testing.assert_array_equal(ctx[found], [[0, 0, 1], [1, 0, 0]])
    u = [wf.data(np.random.default_rng(k).random(4000)) for k in (0, 1)]
    drawn = ctx[wf.nn.box_muller(*u)]
    assert abs(drawn.mean()) < 0.05
    assert abs(drawn.std() - 1) < 0.05


x = wf.data(X, batch=1, label="x")


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        (lambda: wf.nn.dropout(x, rate=1.0), "dropout takes a number from 0 on and below 1 for `rate`, not 1.0"),
        (lambda: wf.nn.dropout(rate="half", label="d"), "`dropout` takes a number for `rate`, not 'half'"),
        (lambda: wf.nn.mlp(x, hid_dims=8), "mlp takes a list for `hid_dims`, not 8"),
        (lambda: wf.nn.mlp(x, hid_dims=[0], o=2), "an axis cannot have size 0"),
        (lambda: wf.nn.embedding(x, vocab_size=0, o=2), "embedding takes a whole number from 1 on for `vocab_size`"),
        (lambda: wf.nn.embedding(x, vocab_size=3, o=2), "`x` holds positions along `vocab_size`, and they are float64"),
        (lambda: wf.nn.softmax(x, temperature=0), "softmax takes a number above 0 for `temperature`, not 0"),
        (lambda: wf.nn.reduce_specified_axes("i => 0"), "the axes to reduce are named by one shape"),
        (lambda: wf.nn.linear(x, o=2, i=4), "the input axis of `linear.w` cannot be both 4 and 3"),
        (lambda: wf.nn.linear(X, o=2), "`linear` is a function of tensors, and `x` is an array of shape (4, 3)"),
        (lambda: wf.nn.linear(x, out=2), "`linear` has no configuration `out`"),
    ],
)
def test_wrong_use_is_told(wrong: object, what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wrong()  # type: ignore[operator]
    assert caught.value.what.startswith(what)


def test_a_parameter_set_by_the_name_that_leads_to_it() -> None:
    model = wf.nn.residual(layer=wf.nn.mlp(hid_dims=[2], label="inner"), label="block")
    check_block(
        model,
        X,
        lambda x, p: x + relu(x @ p["layer.w1"].T + p["layer.b1"]) @ p["layer.w_out"].T + p["layer.b_out"],
    )
    with pytest.raises(wf.WeftError, match="residual goes around a layer, not 3"):
        wf.nn.residual(x, layer=3)


def test_an_id_outside_of_the_vocabulary_is_told_so() -> None:
    ids = wf.data(np.array([[0, 2], [5, 1]]), batch=2, label="ids")
    with pytest.raises(wf.IndexOutOfBounds) as caught:
        wf.Context("interp")[wf.nn.embedding(ids, vocab_size=5, o=2)]
    assert caught.value.what == "`ids[1, 0]` is 5, and the positions along `vocab_size` are from 0 to 4"


@pytest.mark.parametrize(
    "number",
    [
        lambda x: wf.nn.linear(x, o=1, label="first"),
        lambda x: wf.sum(x),
        lambda x: wf.mean(x, "...|... => ...|0"),
        lambda x: wf.nn.mlp(hid_dims=[3], o=1, label="first")(x),
    ],
)
def test_what_one_number_is_mapped_from_need_not_be_said(number: Callable[[wf.Tensor], wf.Tensor]) -> None:
    x = wf.data(np.ones((5, 3), "float32"), batch=1)
    second = wf.nn.linear(o=4, label="second")
    assert str(second(number(x)).dims) == "5|4"
    assert str(second["w"].dims) == "1->4"


def test_ids_outside_say_what_the_layer_can_be_given() -> None:
    ids = wf.data(np.array([3, 12]), batch=1, label="ids")
    with pytest.raises(wf.IndexOutOfBounds) as caught:
        wf.Context("interp")[wf.nn.embedding(ids, vocab_size=10, o=4)]
    assert caught.value.fix.startswith("pass others, or have more of them: vocab_size=13; wf.take and wf.einsum can be")
    with pytest.raises(wf.IndexOutOfBounds) as caught:
        wf.Context("interp")[wf.take(wf.param("t", o=(10, 4)), ids)]
    assert caught.value.fix.startswith("pass others, or say what is meant: outside=")


def test_rows_of_another_number_of_axes_are_noticed() -> None:
    for layer in (wf.nn.linear(o=2), wf.nn.mlp_layer(hid_dim=2), wf.nn.mlp(hid_dims=[4], o=2)):
        layer(wf.data(np.ones((5, 3), "float32"), batch=1))
        layer(wf.data(np.ones((5, 4, 3), "float32"), batch=2))
        with pytest.warns(wf.WeftWarning, match=r"maps the whole output row, 1 axis until now, and `x` is 5\|4,3"):
            layer(wf.data(np.ones((5, 4, 3), "float32"), batch=1, label="x"))
