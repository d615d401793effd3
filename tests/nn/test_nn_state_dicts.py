"""Weights in the layout of PyTorch: GPT-2 and Llama as they are published, computed in NumPy from that layout."""

from __future__ import annotations

from typing import Any, Literal

import numpy as np
import pytest

import weft as wf
from nn.reference import normalise, sigmoid
from nn.sequences import gelu, gelu_tanh, turned

Array = np.ndarray
VOCABULARY, WIDTH, LAYERS, HEADS, LENGTH = 7, 6, 2, 3, 5
IDS = np.random.default_rng(3).integers(0, VOCABULARY, (2, 4)).astype("int32")


def gpt2_state() -> dict[str, Array]:
    """A state dict as a GPT-2 of these sizes has it: weights of its layers are inputs by outputs."""
    random, d = np.random.default_rng(1), WIDTH
    shapes: dict[str, tuple[int, ...]] = {"wte.weight": (VOCABULARY, d), "wpe.weight": (LENGTH, d)}
    shapes |= {"ln_f.weight": (d,), "ln_f.bias": (d,)}
    for at in range(LAYERS):
        shapes |= {f"h.{at}.{norm}.{part}": (d,) for norm in ("ln_1", "ln_2") for part in ("weight", "bias")}
        layers = {"attn.c_attn": (d, 3 * d), "attn.c_proj": (d, d), "mlp.c_fc": (d, 4 * d), "mlp.c_proj": (4 * d, d)}
        for name, (inputs, outputs) in layers.items():
            shapes |= {f"h.{at}.{name}.weight": (inputs, outputs), f"h.{at}.{name}.bias": (outputs,)}
    return {f"transformer.{name}": random.normal(size=shape, scale=0.5) for name, shape in shapes.items()}


def gpt2(state: dict[str, Array], ids: Array, activation: Any) -> Array:
    """The forward pass, one head at a time."""
    s = {name.removeprefix("transformer."): value for name, value in state.items()}

    def affine(x: Array, name: str) -> Array:
        return x @ s[f"{name}.weight"] + s[f"{name}.bias"]

    def norm(x: Array, name: str) -> Array:
        return normalise(x, (-1,)) * s[f"{name}.weight"] + s[f"{name}.bias"]

    x = s["wte.weight"][ids] + s["wpe.weight"][: ids.shape[1]]
    hidden = np.triu(np.full((ids.shape[1],) * 2, -np.inf), 1)
    for at in range(LAYERS):
        joined = np.split(affine(norm(x, f"h.{at}.ln_1"), f"h.{at}.attn.c_attn"), 3, axis=-1)
        heads = []
        for q, k, v in zip(*(np.split(one, HEADS, axis=-1) for one in joined), strict=True):
            weights = np.exp(q @ k.swapaxes(1, 2) / np.sqrt(WIDTH // HEADS) + hidden)
            heads.append(weights / weights.sum(-1, keepdims=True) @ v)
        x = x + affine(np.concatenate(heads, -1), f"h.{at}.attn.c_proj")
        x = x + affine(activation(affine(norm(x, f"h.{at}.ln_2"), f"h.{at}.mlp.c_fc")), f"h.{at}.mlp.c_proj")
    return norm(x, "ln_f") @ s["wte.weight"].T


def loaded(model: Any, state: dict[str, Array], names: dict[str, wf.nn.StoredWeight]) -> tuple[Array, dict[str, Array]]:
    """What a model computes with the weights of a state, and these weights."""
    ctx, logits = wf.Context("interp"), model(wf.data(IDS, batch=2, label="ids"))
    values = wf.nn.from_torch(state, names, model)
    for param in model.params:
        ctx[param] = values[param.label]  # which converts them, as a state that is restored is not
    return ctx[logits], values


@pytest.mark.parametrize(("kind", "activation"), [("gelu_tanh", gelu_tanh), ("gelu", gelu)])
def test_weights_of_gpt2(kind: Literal["gelu", "gelu_tanh"], activation: Any) -> None:
    style = wf.nn.TransformerStyle(activation=kind)
    sizes = {"vocab_size": VOCABULARY, "max_len": LENGTH, "d_model": WIDTH, "num_layers": LAYERS, "num_heads": HEADS}
    model, state = wf.nn.gpt(**sizes, style=style, label="gpt"), gpt2_state()
    extra = {"transformer.h.0.attn.bias": np.tril(np.ones((LENGTH, LENGTH)))}
    logits, values = loaded(model, {**state, **extra}, wf.nn.gpt2_names(LAYERS))
    np.testing.assert_allclose(logits, gpt2(state, IDS, activation), rtol=1e-4, atol=1e-4)
    again = wf.nn.to_torch(values, wf.nn.gpt2_names(LAYERS))
    assert again.keys() == state.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(again[name], array)


def test_weights_of_llama() -> None:
    heads, shared, d, wide = 4, 2, 2, 5
    model = wf.nn.llama(
        vocab_size=VOCABULARY,
        d_model=heads * d,
        num_layers=1,
        num_heads=heads,
        num_kv_heads=shared,
        d_ff=wide,
        interleaved=False,
        label="llama",
    )
    random, width = np.random.default_rng(1), heads * d
    inside = {
        f"self_attn.{name}_proj": (rows * d, width) for name, rows in (("q", heads), ("k", shared), ("v", shared))
    }
    inside |= {"self_attn.o_proj": (width, width), "mlp.gate_proj": (wide, width), "mlp.up_proj": (wide, width)}
    inside |= {"mlp.down_proj": (width, wide), "input_layernorm": (width,), "post_attention_layernorm": (width,)}
    shapes = {f"model.layers.0.{name}.weight": shape for name, shape in inside.items()}
    shapes |= {"model.embed_tokens.weight": (VOCABULARY, width), "model.norm.weight": (width,)}
    state = {name: random.normal(size=shape, scale=0.5) for name, shape in shapes.items()}
    state["lm_head.weight"] = random.normal(size=(VOCABULARY, width))
    logits, values = loaded(model, state, wf.nn.llama_names(1))

    w = {name.removesuffix(".weight").removeprefix("model.layers.0."): value for name, value in state.items()}
    x = w["model.embed_tokens"][IDS]

    def norm(x: Array, name: str) -> Array:
        return x / np.sqrt((x * x).mean(-1, keepdims=True) + 1e-5) * w[name]

    for row in range(2):
        y = norm(x[row], "input_layernorm")
        q, k, v = (np.split(y @ w[f"self_attn.{name}_proj"].T, n, -1) for name, n in zip("qkv", (4, 2, 2), strict=True))
        found = []
        for head in range(heads):
            one, other = (turned(part, interleaved=False) for part in (q[head], k[head // 2]))
            scores = np.exp(np.where(np.tri(len(y)) > 0, one @ other.T / np.sqrt(d), -np.inf))
            found.append(scores / scores.sum(1, keepdims=True) @ v[head // 2])
        x[row] += np.concatenate(found, -1) @ w["self_attn.o_proj"].T
    y = norm(x, "post_attention_layernorm")
    gate = y @ w["mlp.gate_proj"].T
    x = x + (gate * sigmoid(gate) * (y @ w["mlp.up_proj"].T)) @ w["mlp.down_proj"].T
    np.testing.assert_allclose(logits, norm(x, "model.norm") @ w["lm_head"].T, rtol=1e-4, atol=1e-4)
    again = wf.nn.to_torch(values, wf.nn.llama_names(1))
    assert again.keys() == state.keys()
    for name, array in state.items():
        np.testing.assert_array_equal(again[name], array)


def test_kernels_of_pytorch_have_their_window_last() -> None:
    random = np.random.default_rng(4)
    own = random.normal(size=(3, 2, 4, 5))
    for stored, expected in (
        (wf.nn.StoredWeight("w", window=2), np.einsum("oxyi->oixy", own)),
        (wf.nn.StoredWeight("w", window=2, transposed=True), np.einsum("oxyi->ioxy", own)),
        (wf.nn.StoredWeight("w", window=1, rows=2), np.einsum("goxi->goix", own).reshape(6, 5, 4)),
        (wf.nn.StoredWeight("w", window=3), own[:, None]),
    ):
        state = wf.nn.to_torch({"w": own}, {"w": stored})
        np.testing.assert_array_equal(state["w"], expected)
        np.testing.assert_array_equal(wf.nn.from_torch({"w": expected}, {"w": stored}, {"w": own})["w"], own)


def test_two_biases_are_added_up() -> None:
    size, x = 3, wf.data(np.ones((2, 5, 4), "float32"), batch=2)
    ctx, layer = wf.Context("interp"), wf.nn.gru(hid_dim=size, label="gru")
    layer(x)[0].dims
    names, random = wf.nn.recurrent_names("gru"), np.random.default_rng(5)
    shapes = {"weight_ih_l0": (9, 4), "weight_hh_l0": (9, 3), "bias_ih_l0": (9,), "bias_hh_l0": (9,)}
    state = {name: random.normal(size=shape).astype("float32") for name, shape in shapes.items()}
    values = wf.nn.from_torch(state, names, layer)
    given, before = state["bias_ih_l0"].reshape(3, size), state["bias_hh_l0"].reshape(3, size)
    np.testing.assert_array_equal(values["gru.cell.b"], [given[0] + before[0], given[1] + before[1], given[2]])
    np.testing.assert_array_equal(values["gru.cell.b_n"], before[2])
    np.testing.assert_array_equal(values["gru.cell.u"].reshape(9, 3), state["weight_hh_l0"])
    assert str(ctx.restore(layer, values)) == "4 restored"
    for order in (1, -1):  # whichever label comes first
        again = wf.nn.to_torch(dict([*ctx.state(layer).items()][::order]), names)
        np.testing.assert_array_equal(again["bias_ih_l0"], values["gru.cell.b"].ravel())
        np.testing.assert_array_equal(again["bias_hh_l0"], [*np.zeros(6), *before[2]])


def test_layers_and_directions_have_names_of_their_own() -> None:
    layer = wf.nn.lstm(hid_dim=3, num_layers=2, bidirectional=True, label="reader")
    layer(wf.data(np.ones((2, 5, 4), "float32"), batch=2))[0].dims
    ctx = wf.Context("interp")
    names = wf.nn.recurrent_names("lstm", 2, bidirectional=True, label="reader", prefix="net.")
    state = wf.nn.to_torch(ctx.state(layer), names)
    assert state["net.weight_ih_l1_reverse"].shape == (12, 6)
    np.testing.assert_array_equal(state["net.bias_hh_l1"], np.zeros(12))
    for label, value in wf.nn.from_torch(state, names, layer).items():
        np.testing.assert_array_equal(value, ctx.state(layer)[label])


def test_a_state_says_what_is_wanted_as_well() -> None:
    norm = wf.nn.batch_norm(label="bn")
    norm(wf.data(np.ones((5, 3), "float32"), batch=1)).dims
    ctx = wf.Context("interp")
    names = {"gamma": "weight", "beta": "bias", "running_mean": "running_mean", "running_var": "running_var"}
    table = {f"bn.{own}": theirs for own, theirs in names.items()}
    values = {theirs: np.full(3, at, "float32") for at, theirs in enumerate(names.values())}
    assert str(ctx.restore(norm, wf.nn.from_torch(values, table, ctx.state(norm)))) == "4 restored"
    np.testing.assert_array_equal(ctx[norm["running_var"]], [3.0, 3.0, 3.0])


def test_states_that_do_not_fit() -> None:
    model = wf.nn.linear(o=2, label="head")
    model(wf.data(np.ones((5, 3)), batch=1)).dims
    names = {"head.w": wf.nn.StoredWeight("fc.weight", transposed=True), "head.b": "fc.bias"}
    state = {"fc.weight": np.ones((3, 2)), "fc.bias": np.ones(2)}
    assert wf.nn.from_torch(state, names, model)["head.w"].shape == (2, 3)
    with pytest.raises(wf.ShapeError) as wrong:
        wf.nn.from_torch({**state, "fc.weight": np.ones((2, 3))}, names, model)
    assert wrong.value.what == "`fc.weight` is of shape (2, 3), and (3, 2) is expected"
    with pytest.raises(wf.WeftError) as missing:
        wf.nn.from_torch({"fc.weights": np.ones((3, 2))}, names, model)
    assert (missing.value.what, missing.value.fix) == ("there is no `fc.weight` in the state", "it has `fc.weights`")
    with pytest.raises(wf.WeftError, match=r"there is no `head\.b` in the table"):
        wf.nn.to_torch({"head.b": np.ones(2)}, {})
    with pytest.raises(wf.WeftError) as place:
        wf.nn.to_torch({"head.b": np.ones(2)}, {"head.b": ("fc.bias", "T")})  # type: ignore[dict-item]
    assert place.value.what == "`head.b` is at ('fc.bias', 'T') in the table, which is no place in a state"
    assert "wf.nn.StoredWeight" in place.value.fix
    with pytest.raises(wf.WeftError, match=r"for a layer or like a state, not for a tuple"):
        wf.nn.from_torch(state, names, model.params)  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match=r"recurrent_names knows no kind='LSTM'"):
        wf.nn.recurrent_names("LSTM")  # type: ignore[arg-type]
