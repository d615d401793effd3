"""Attention: softmax between two products, of each head, as it is written and as libraries have it by name."""

from __future__ import annotations

from typing import Any

import numpy as np

from _peers import Work, kind, numbers


@kind("attention")
def attention(heads: int, length: int, width: int, *, causal: bool = False, gradients: bool = False) -> Work:
    """Heads of as many positions and numbers at each; a position sees those up to it if that is `causal`."""
    mask = np.triu(np.full((length, length), -1e9, "float32"), 1)

    def plain(np: Any, q: Any, k: Any, v: Any) -> Any:
        scores = np.einsum("hte,hse->hts", q, k) * width**-0.5 + (mask if causal else 0)
        powers = np.exp(scores - scores.max(-1, keepdims=True))
        return np.einsum("hts,hse->hte", powers / powers.sum(-1, keepdims=True), v)

    def ours(wf: Any, q: Any, k: Any, v: Any) -> Any:
        scores = wf.einsum("h | t, e; h | s, e => h | t, s", q, k) * width**-0.5
        if causal:
            hidden = wf.where(wf.nn.causal_mask(length), 0.0, -1e9)
            scores = scores + wf.einsum("t | s => t, s", hidden, label="mask")
        largest = wf.stop_gradient(wf.einsum("h | t, s => h | t, 0", scores, accum="max"))
        powers = wf.exp(scores - largest)
        weights = powers / wf.einsum("h | t, s => h | t, 0", powers)
        return wf.einsum("h | t, s; h | s, e => h | t, e", weights, v)

    def torchs(torch: Any, q: Any, k: Any, v: Any) -> Any:
        found = torch.nn.functional.scaled_dot_product_attention(q[None], k[None], v[None], is_causal=causal)
        return found[0]

    return Work(
        inputs={name: numbers(heads, length, width, seed=seed) for seed, name in enumerate("qkv")},
        numpy=plain,
        torch=torchs,
        jax=lambda jax, q, k, v: plain(jax.numpy, q, k, v),
        weft=ours,
        gradients=("q", "k", "v") if gradients else (),
        batch=dict.fromkeys("qkv", 1),
        flops=4 * heads * length * length * width * (3.5 if gradients else 1) / (2 if causal else 1),
    )
