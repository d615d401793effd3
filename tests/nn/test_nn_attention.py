"""Attention, its masks and its positions, against heads and positions one after another in NumPy."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from nn.differential import check_block
from nn.sequences import attention, before, everything, turned

X = np.random.default_rng(1).normal(size=(2, 4, 3))
SOURCE = np.random.default_rng(2).normal(size=(2, 3, 5))


def test_heads_of_a_sequence() -> None:
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, d_v=3, d_model=3, qkv_bias=True, out_bias=True, label="mha")
    check_block(layer, X, attention, batch=2)
    labels = [p.label for p in layer.params]
    assert labels == [f"mha.{name}" for name in ("q", "q_bias", "k", "k_bias", "v", "v_bias", "o", "o_bias")]


def test_a_position_sees_those_before_it_in_a_window_and_heads_share_keys() -> None:
    layer = wf.nn.multi_head_attention(num_heads=4, d_k=2, num_kv_heads=2, causal=True, window=2, d_model=3)
    check_block(layer, X, lambda x, p: attention(x, p, sees=lambda row: lambda t, s: t - 2 < s <= t), batch=2)
    assert [str(p.dims) for p in layer.params] == ["3->2,2,2", "3->2,2", "3->2,2", "2,2,2->3"]


def test_compiled_attention_is_the_same() -> None:
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, causal=True, d_model=3)
    check_block(layer, X, lambda x, p: attention(x, p, sees=lambda row: before), batch=2, backend="cc")


def test_a_window_alone_goes_both_ways() -> None:
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, window=2, d_model=3)
    check_block(layer, X, lambda x, p: attention(x, p, sees=lambda row: lambda t, s: abs(t - s) < 2), batch=2)


@pytest.mark.parametrize("interleaved", [True, False])
def test_positions_that_turn(interleaved: bool) -> None:
    layer = wf.nn.multi_head_attention(num_heads=1, d_k=4, rope=True, interleaved=interleaved, d_model=3)
    check_block(layer, X, lambda x, p: attention(x, p, rope=True, interleaved=interleaved), batch=2)
    x = np.random.default_rng(3).normal(size=(5, 6))
    found = wf.Context("interp")[wf.nn.rope(wf.data(x, batch=1), d=6, interleaved=interleaved)]
    np.testing.assert_allclose(found, turned(x, interleaved=interleaved), rtol=1e-6)


def test_lengths_and_masks_hide() -> None:
    lengths, mask = np.array([1, 3]), np.random.default_rng(5).integers(0, 2, (2, 4, 4))
    mask[:, :, 0] = 1
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, d_model=3)

    def hidden(x: wf.Tensor) -> wf.Tensor:
        return layer(x, lengths=wf.data(lengths, batch=1), mask=wf.data(mask, batch=2))

    def reference(x: np.ndarray, p: dict[str, np.ndarray]) -> np.ndarray:
        return attention(x, p, sees=lambda row: lambda t, s: s < lengths[row] and bool(mask[row, t, s]))

    ctx, values = wf.Context("interp"), wf.data(X, batch=2)
    y = ctx[hidden(values)]
    params = {name: ctx[layer.param(name)] for name in "qkvo"}
    np.testing.assert_allclose(y, reference(X, params), rtol=1e-6)
    causal = layer(values, mask=wf.nn.causal_mask(4, window=3))
    np.testing.assert_allclose(
        ctx[causal], attention(X, params, sees=lambda row: lambda t, s: t - 3 < s <= t), rtol=1e-6
    )
    padded = layer(values, mask=wf.nn.padding_mask(wf.data(lengths, batch=1), 4))
    np.testing.assert_allclose(ctx[padded], ctx[layer(values, lengths=wf.data(lengths, batch=1))], rtol=1e-12)


def test_what_is_hidden_has_no_influence() -> None:
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, causal=True, window=2, d_model=3)
    x = wf.require_grad(wf.data(X, batch=2, label="x"))
    seen = wf.einsum("b, t|d; t => 0", layer(x), wf.tensor([0.0, 0.0, 1.0, 0.0]))
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(seen), keep=[x.grad])()
    moved = np.abs(ctx[x.grad]).sum((0, 2)) > 0
    assert moved.tolist() == [False, True, True, False]


def test_attention_to_an_encoder() -> None:
    encoded = wf.data(SOURCE, batch=2, label="encoded")
    cross = wf.nn.cross_attention(num_heads=2, d_k=2, label="cross", bias=True)
    ctx = wf.Context("interp")
    x = wf.data(X, batch=2, label="x")
    lengths = wf.data(np.array([2, 3]), batch=1)
    y = ctx[x + cross(x, encoded, lengths=lengths)]
    params = {p.label.removeprefix("cross."): ctx[p] for p in cross.params}
    expected = attention(X, params, source=SOURCE, sees=lambda row: lambda t, s: s < (2, 3)[row])
    np.testing.assert_allclose(y, X + expected, rtol=1e-6)
    same = wf.nn.multi_head_attention(num_heads=2, d_k=2, d_model=3)
    y = ctx[same(x, encoded)]
    params = {name: ctx[same.param(name)] for name in "qkvo"}
    np.testing.assert_allclose(y, attention(X, params, source=SOURCE, sees=lambda row: everything), rtol=1e-6)


def test_the_plain_one() -> None:
    layer = wf.nn.multi_head_att_workshop(num_heads=2, d_k=2)
    ctx, x = wf.Context("interp"), wf.data(X, batch=2)
    y = ctx[x + layer(x)]
    np.testing.assert_allclose(y, X + attention(X, {name: ctx[layer.param(name)] for name in "qkvo"}), rtol=1e-6)


def test_further_batch_axes_and_none() -> None:
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, causal=True, rope=True, d_model=3)
    ctx, many = wf.Context("interp"), np.stack([X, 2 * X, 3 * X])
    whole = ctx[layer(wf.data(many, batch=3))]
    np.testing.assert_allclose(ctx[layer(wf.data(many[2, 1], batch=1))], whole[2, 1], rtol=1e-12)


def test_weights_are_dropped_in_training_alone() -> None:
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, dropout_rate=0.5, d_model=3)
    ctx, x = wf.Context("interp"), wf.data(X, batch=2)
    with wf.nn.training(step=3):
        trained = layer(x)
    plain = ctx[layer(x)]
    np.testing.assert_allclose(plain, attention(X, {name: ctx[layer.param(name)] for name in "qkvo"}), rtol=1e-6)
    assert not np.allclose(ctx[trained], plain)


def test_lengths_that_calls_decide() -> None:
    x = wf.input("x", b=("batch", "time"), o=3, dtype="float64")
    layer = wf.nn.multi_head_attention(num_heads=2, d_k=2, causal=True, rope=True, d_model=3)
    run = wf.Context("interp").function(x, returns=wf.nn.learned_positions(layer(x), max_len=6))
    whole = run(X)
    np.testing.assert_allclose(run(X[:1, :2]), whole[:1, :2], rtol=1e-12)


def test_positions_are_added() -> None:
    ctx, x = wf.Context("interp"), wf.data(X, batch=2)
    layer = wf.nn.learned_positions(max_len=6, label="positions")
    found = ctx[layer(x)]
    np.testing.assert_allclose(found, X + ctx[layer.param("table")][:4], rtol=1e-12)
    waves = ctx[wf.nn.sinusoidal_positions(wf.data(np.zeros((5, 4)), batch=1), d_model=4, max_len=7)]
    for t in range(5):
        expected = [np.sin(t), np.cos(t), np.sin(t / 100), np.cos(t / 100)]
        np.testing.assert_allclose(waves[t], expected, rtol=1e-6, atol=1e-8)
    angles = ctx[wf.nn.position_indices(seq_len=3) * wf.nn.rope_frequencies(d=4, base=100.0)]
    np.testing.assert_allclose(angles, [[0, 0], [1, 0.1], [2, 0.2]], rtol=1e-6)


@pytest.mark.parametrize("interleaved", [True, False])
def test_angles_of_far_positions_are_those_of_double_precision(interleaved: bool) -> None:
    far, d = 100_000, 8
    ctx, x = wf.Context("cc"), np.zeros((far, d), np.float32)
    x[:, : d // 2] = 1.0
    angle = np.arange(far)[:, None] * 10000.0 ** (-np.arange(d // 2) / (d // 2))
    turned = ctx[wf.nn.rope(wf.data(x, batch=1), d=d, interleaved=interleaved)]
    if interleaved:
        np.testing.assert_allclose(turned[:, 0], np.cos(angle[:, 0]) - np.sin(angle[:, 0]), atol=1e-6)
    else:
        np.testing.assert_allclose(turned, np.hstack([np.cos(angle), np.sin(angle)]), atol=1e-6)
    table = ctx[wf.nn.sinusoidal_position_encoding(d_model=d, max_len=far)]
    np.testing.assert_allclose(table[:, 0::2], np.sin(angle), atol=1e-6)
    np.testing.assert_allclose(table[:, 1::2], np.cos(angle), atol=1e-6)


def test_compiled_gradients_of_a_model_with_positions_are_those_of_the_oracle() -> None:
    """Rows of tables that data names, positions that are computed once more, and tests that read them."""
    ids = (np.arange(288) % 9).reshape(18, 16).astype("int32")
    model = wf.nn.gpt(vocab_size=9, max_len=32, d_model=16, num_layers=1, num_heads=2, label="model")
    x, y = (wf.data(one, batch=2) for one in (ids, (ids + 1) % 9))
    loss = wf.mean(wf.nn.cross_entropy(model(x), y), "...|... => 0")
    found = []
    for backend in ("interp", "cc"):
        wf.seed(0)
        ctx = wf.Context(backend)
        ctx.compile(wf.grad_update(loss), keep=[one.grad for one in loss.params])()
        found.append([ctx[one.grad] for one in loss.params])
    for param, meant, ours in zip(loss.params, *found, strict=True):
        np.testing.assert_allclose(ours, meant, rtol=1e-4, atol=1e-7, err_msg=param.label)


@pytest.mark.parametrize(
    ("config", "said"),
    [
        ({"num_heads": 0}, "attention takes a whole number from 1 on for `num_heads`, not 0"),
        ({"num_kv_heads": 3}, "attention cannot share 4 heads among 3 groups: 4 is not a multiple of 3"),
        ({"window": 0}, "a window has 1 position or more, not 0"),
        ({"rope": True, "d_k": 3}, "rotary positions turn pairs, and d = 3 is odd"),
    ],
)
def test_sizes_that_do_not_go_together(config: dict[str, int], said: str) -> None:
    layer = wf.nn.multi_head_attention(**{"num_heads": 4, "d_k": 2, "d_model": 3, **config})
    with pytest.raises(wf.WeftError) as error:
        layer(wf.data(X, batch=2))
    assert error.value.what == said
    assert error.value.fix


def test_a_sequence_longer_than_its_positions() -> None:
    layer = wf.nn.learned_positions(max_len=3, label="positions")
    with pytest.raises(wf.WeftError, match=r"`position\[3\]` is 3, and the positions along `max_len` are from 0 to 2"):
        wf.Context("interp")[layer(wf.data(X, batch=2))]
