"""Tables for `wf.nn.from_torch` and `wf.nn.to_torch`: where the parameters of models and layers are in PyTorch's."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import Literal

from weft.nn.checks import one_of, whole
from weft.nn.state_dicts import StoredWeight


def gpt2_names(num_layers: int, *, label: str = "gpt", prefix: str = "transformer.") -> dict[str, StoredWeight]:
    """Where the parameters of `wf.nn.gpt` are in a state of GPT-2: its weights are transposed, q, k and v are one.

    >>> names = wf.nn.gpt2_names(12)
    >>> print(len(names), names["gpt.block3.attention.k"].name)
    196 transformer.h.3.attn.c_attn.weight
    """
    whole("gpt2_names", num_layers=num_layers)
    names = {
        "tokens": StoredWeight("wte.weight"),
        "positions.table": StoredWeight("wpe.weight"),
        **_norm("norm", "ln_f"),
    }
    for at in range(num_layers):
        here, there = f"block{at}", f"h.{at}"
        names |= _norm(f"{here}.ln1", f"{there}.ln_1") | _norm(f"{here}.ln2", f"{there}.ln_2")
        for part, name in enumerate("qkv"):
            joined = f"{there}.attn.c_attn"
            names[f"{here}.attention.{name}"] = StoredWeight(f"{joined}.weight", 2, True, part, 3)
            names[f"{here}.attention.{name}_bias"] = StoredWeight(f"{joined}.bias", 2, False, part, 3)
        names[f"{here}.attention.o"] = StoredWeight(f"{there}.attn.c_proj.weight", transposed=True)
        names[f"{here}.attention.o_bias"] = StoredWeight(f"{there}.attn.c_proj.bias")
        for name, theirs in (("up", "c_fc"), ("down", "c_proj")):
            names[f"{here}.ffn.{name}.w"] = StoredWeight(f"{there}.mlp.{theirs}.weight", transposed=True)
            names[f"{here}.ffn.{name}.b"] = StoredWeight(f"{there}.mlp.{theirs}.bias")
    return _named(names, label, prefix)


def llama_names(
    num_layers: int, *, label: str = "llama", prefix: str = "model.", grouped: bool = True, tied: bool = False
) -> dict[str, StoredWeight]:
    """Where the parameters of `wf.nn.llama` are in a state of Llama; `grouped` if its heads share keys and values.

    Such states pair halves: configure `wf.nn.llama(…, interleaved=False)`.

    >>> print(wf.nn.llama_names(2)["llama.block1.attention.q"].name)
    model.layers.1.self_attn.q_proj.weight
    """
    whole("llama_names", num_layers=num_layers)
    names = {"tokens": StoredWeight("embed_tokens.weight"), "norm.gamma": StoredWeight("norm.weight")}
    for at in range(num_layers):
        here, there = f"block{at}", f"layers.{at}"
        names[f"{here}.ln1.gamma"] = StoredWeight(f"{there}.input_layernorm.weight")
        names[f"{here}.ln2.gamma"] = StoredWeight(f"{there}.post_attention_layernorm.weight")
        for name, rows in (("q", 3 if grouped else 2), ("k", 2), ("v", 2), ("o", 1)):
            names[f"{here}.attention.{name}"] = StoredWeight(f"{there}.self_attn.{name}_proj.weight", rows)
        for name in ("gate", "up", "down"):
            names[f"{here}.ffn.{name}.w"] = StoredWeight(f"{there}.mlp.{name}_proj.weight")
    head = {} if tied else {f"{label}.head": StoredWeight("lm_head.weight")}
    return _named(names, label, prefix) | head


def _norm(here: str, there: str) -> dict[str, StoredWeight]:
    return {f"{here}.gamma": StoredWeight(f"{there}.weight"), f"{here}.beta": StoredWeight(f"{there}.bias")}


def _named(names: Mapping[str, StoredWeight], label: str, prefix: str) -> dict[str, StoredWeight]:
    return {f"{label}.{path}": replace(one, name=prefix + one.name) for path, one in names.items()}


def transformer_names(
    num_layers: int, *, decoder: bool = False, label: str | None = None, prefix: str = ""
) -> dict[str, StoredWeight]:
    """Where the parameters of `wf.nn.transformer_encoder` are in PyTorch's `nn.TransformerEncoder`, or of a decoder.

    It has biases, in norms as well: configure `wf.nn.TransformerStyle(bias=True, …)`.

    >>> print(wf.nn.transformer_names(2, prefix="net.")["transformer_encoder.block1.attention.o"].name)
    net.layers.1.self_attn.out_proj.weight
    """
    whole("transformer_names", num_layers=num_layers)
    names = _norm("norm", "norm")
    for at in range(num_layers):
        here, there = f"block{at}", f"layers.{at}"
        for norm in range(1, 4 if decoder else 3):
            names |= _norm(f"{here}.ln{norm}", f"{there}.norm{norm}")
        names |= _attention(f"{here}.attention", f"{there}.self_attn")
        names |= _attention(f"{here}.cross", f"{there}.multihead_attn") if decoder else {}
        for name, theirs in (("up", "linear1"), ("down", "linear2")):
            names[f"{here}.ffn.{name}.w"] = StoredWeight(f"{there}.{theirs}.weight")
            names[f"{here}.ffn.{name}.b"] = StoredWeight(f"{there}.{theirs}.bias")
    return _named(names, label or ("transformer_decoder" if decoder else "transformer_encoder"), prefix)


def _attention(here: str, there: str) -> dict[str, StoredWeight]:
    """Queries, keys and values by heads here, and one matrix there."""
    names = {
        f"{here}.o": StoredWeight(f"{there}.out_proj.weight"),
        f"{here}.o_bias": StoredWeight(f"{there}.out_proj.bias"),
    }
    for part, name in enumerate("qkv"):
        names[f"{here}.{name}"] = StoredWeight(f"{there}.in_proj_weight", 2, False, part, 3)
        names[f"{here}.{name}_bias"] = StoredWeight(f"{there}.in_proj_bias", 2, False, part, 3)
    return names


def recurrent_names(
    kind: Literal["rnn", "lstm", "gru"],
    num_layers: int = 1,
    *,
    bidirectional: bool = False,
    label: str | None = None,
    prefix: str = "",
) -> dict[str, StoredWeight | tuple[StoredWeight, ...]]:
    """Where the parameters of `wf.nn.rnn`, `wf.nn.lstm` or `wf.nn.gru` are in PyTorch's layer, which has two biases.

    They are added up, as the layer does. Written, the first has the sum, and the second what a GRU keeps apart.

    >>> names = wf.nn.recurrent_names("lstm", 2, bidirectional=True, label="reader")
    >>> print(names["reader.back1.w"])
    StoredWeight(name='weight_ih_l1_reverse', rows=2, transposed=False, part=0, parts=1, window=0, first=None)
    """
    one_of("recurrent_names", ("rnn", "lstm", "gru"), kind=kind)
    whole("recurrent_names", num_layers=num_layers)
    names: dict[str, StoredWeight | tuple[StoredWeight, ...]] = {}
    for at in range(num_layers):
        number = "" if num_layers == 1 else str(at)
        names |= _cell(kind, f"{label or kind}.cell{number}", prefix, f"l{at}")
        if bidirectional:
            names |= _cell(kind, f"{label or kind}.back{number}", prefix, f"l{at}_reverse")
    return names


def _cell(kind: str, here: str, prefix: str, end: str) -> dict[str, StoredWeight | tuple[StoredWeight, ...]]:
    """One run along a sequence: gates are an axis here, and beside each other there."""
    w, u, b, b_u = (f"{prefix}{name}_{end}" for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh"))
    rows, apart = 1 if kind == "rnn" else 2, kind == "gru"
    return {
        f"{here}.w": StoredWeight(w, rows),
        f"{here}.u": StoredWeight(u, rows),
        f"{here}.b": (StoredWeight(b, rows), StoredWeight(b_u, rows, first=2 if apart else None)),
        **({f"{here}.b_n": StoredWeight(b_u, part=2, parts=3)} if apart else {}),
    }
