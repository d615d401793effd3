"""Recurrent layers against loops over steps in NumPy, forward and backward."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from nn.differential import Arrays, check_block
from nn.sequences import gru, inner, lstm, rnn

X = np.random.default_rng(1).normal(size=(2, 4, 3))


@wf.op
def sequence(x: wf.Tensor, *, layer: Any) -> wf.Tensor:
    """What a layer gives at each step, without its last state."""
    return layer(x)[0]


def check(layer: Any, reference: Callable[[np.ndarray, Arrays], np.ndarray], *, backend: str = "interp") -> None:
    check_block(sequence(layer=layer), X, lambda x, p: reference(x, inner(p, "layer")), batch=2, backend=backend)


def test_a_plain_network() -> None:
    check(wf.nn.rnn(hid_dim=2), lambda x, p: rnn(x, inner(p, "cell")))


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_an_lstm(backend: str) -> None:
    check(wf.nn.lstm(hid_dim=2), lambda x, p: lstm(x, inner(p, "cell"))[0], backend=backend)


def test_a_gru() -> None:
    check(wf.nn.gru(hid_dim=2), lambda x, p: gru(x, inner(p, "cell")))


def test_layers_in_both_directions() -> None:
    def reference(x: np.ndarray, p: Arrays) -> np.ndarray:
        for at in range(2):
            forward = gru(x, inner(p, f"cell{at}"))
            backward = gru(x[:, ::-1], inner(p, f"back{at}"))[:, ::-1]
            x = np.concatenate([forward, backward], -1)
        return x

    check(wf.nn.gru(hid_dim=2, num_layers=2, bidirectional=True), reference)


def test_the_last_states() -> None:
    layer, ctx = wf.nn.lstm(hid_dim=2, label="lstm"), wf.Context("interp")
    hs, (h, c) = layer(wf.data(X, batch=2, label="x"))
    states, last = ctx[hs], ctx[h]
    np.testing.assert_allclose(last, states[:, -1], rtol=1e-12)
    p = {path: ctx[param] for path, param in layer._paths()}
    np.testing.assert_allclose(ctx[c], lstm(X, inner(p, "cell"))[1], rtol=1e-6)
    _, ends = wf.nn.lstm(wf.data(X, batch=2), hid_dim=2, num_layers=2, bidirectional=True)
    assert [str(part.dims) for state in ends for part in state] == ["2|2"] * 8


def test_sequences_end_after_their_lengths() -> None:
    layer, ctx, lengths = wf.nn.lstm(hid_dim=2), wf.Context("interp"), [1, 3]
    _, (_, c) = layer(wf.data(X, batch=2), lengths=wf.data(np.array(lengths), batch=1))
    found = ctx[c]
    p = inner({path: ctx[param] for path, param in layer._paths()}, "cell")
    np.testing.assert_allclose(found, lstm(X, p, lengths)[1], rtol=1e-6)
    both = wf.nn.gru(hid_dim=2, bidirectional=True)
    _, ends = both(wf.data(X, batch=2), lengths=wf.data(np.array(lengths), batch=1))
    backward = ctx[ends[1]]
    p = inner({path: ctx[param] for path, param in both._paths()}, "back")
    np.testing.assert_allclose(backward[1], gru(X[1:, 2::-1], p)[0, -1], rtol=1e-6)


def test_states_to_start_from_and_further_batch_axes() -> None:
    layer, ctx = wf.nn.gru(hid_dim=2), wf.Context("interp")
    many = np.stack([X, 2 * X])
    whole = ctx[layer(wf.data(many, batch=3))[0]]
    one, middle = layer(wf.data(many[1, 0, :2], batch=1))
    np.testing.assert_allclose(ctx[one], whole[1, 0, :2], rtol=1e-12)
    rest, _ = layer(wf.data(many[1, 0, 2:], batch=1), init=wf.data(ctx[middle]))
    np.testing.assert_allclose(ctx[rest], whole[1, 0, 2:], rtol=1e-12)


def test_a_cell_of_ones_own() -> None:
    hs, last = wf.nn.recurrence(lambda carry, x: ({"sum": carry["sum"] + x}, 2 * x), wf.data(X, batch=2), {"sum": 0.0})
    ctx = wf.Context("interp")
    np.testing.assert_allclose(ctx[hs], 2 * X)
    np.testing.assert_allclose(ctx[last["sum"]], X.sum(1))


def test_states_that_do_not_fit() -> None:
    x, zero = wf.data(X, batch=2), wf.data(np.zeros((2, 2)), batch=1)
    with pytest.raises(wf.WeftError) as error:
        wf.nn.gru(hid_dim=2, num_layers=2)(x, init=[zero])
    assert error.value.what == "2 runs along a sequence start from 2 states, in a list, not from 1"
    assert error.value.fix == "a layer's backward state comes after its forward one; init=None starts from 0"
    with pytest.raises(wf.WeftError, match="a recurrent layer takes a whole number from 1 on for `num_layers`, not 0"):
        wf.nn.gru(x, hid_dim=2, num_layers=0)
    with pytest.raises(wf.WeftError, match="takes a carry of one tensor and gives list of `0`, `1`, `2`"):
        wf.nn.recurrence(lambda h, x: [h, x, x], x, lengths=wf.data(np.array([1, 2]), batch=1))


@pytest.mark.parametrize(
    "layer",
    [
        lambda x: wf.nn.lstm(x, hid_dim=3)[1][0],
        lambda x: wf.nn.multi_head_attention(x, num_heads=1, d_k=2, d_model=3),
        lambda x: wf.nn.learned_positions(x, max_len=8),
        lambda x: wf.nn.sinusoidal_positions(x, d_model=2, max_len=8),
    ],
)
def test_examples_are_no_time(layer: Callable[[wf.Tensor], wf.Tensor]) -> None:
    """Sequences whose time was not said to be a batch axis: what runs along time would take examples for steps."""
    x, y = np.ones((8, 5, 2), np.float32), np.ones((8, 1), np.float32)
    model = wf.op(lambda x: wf.nn.linear(layer(x), o=1))()
    with pytest.raises(wf.ShapeError, match=r"runs along the last batch axis of `.*`, and that is `batch`") as refused:
        wf.train.fit(model, wf.nn.mse, (x, y), context=wf.Context("interp"), progress=False)
    assert "batch_axes=2 of wf.train.fit" in refused.value.fix
