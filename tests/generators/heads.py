"""Contractions one after another in batches, as attention is, and their gradients, for machines with small caches.

    s = q k;  p = f(s), along one of its axes or not;  o = p v;  y = g(o);  z = y w

Batches stand first, last or in between, sizes are odd, factors are transposed. What lies between two contractions stays
in a cache if they share the loops of their batches. Compiled code computes what the oracle does, up to rounding.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import weft as wf

_SIZES = {"b": (1, 4), "h": (2, 7), "t": (5, 40), "s": (5, 40), "d": (3, 24), "c": (3, 24), "e": (2, 9)}


def check(rng: np.random.Generator) -> None:
    sizes = {letter: int(rng.integers(*limits)) for letter, limits in _SIZES.items()}
    sizes |= {str(rng.choice(["t", "s"])): int(rng.integers(64, 140))} if rng.random() < 0.5 else {}
    loss, params, shown = _program(rng, sizes)
    kept = [loss, *(one.grad for one in params)]
    options = wf.config.options.but(machine=_machine(rng, sizes), contraction_points=int(rng.choice([64, 1024])))
    options = options.but(large_contraction_points=options.contraction_points)
    values = {one: rng.uniform(-1, 1, one.dims.array_shape) for one in params}
    found = []
    for backend, given in (("interp", None), ("cc", options)):
        ctx = wf.Context(backend)
        for one, value in values.items():
            ctx[one] = value
        run = ctx.compile(wf.grad_update(loss), keep=kept, options=given)
        for _ in range(2):
            run()
        found.append([ctx[one] for one in kept])
    for one, meant, ours in zip(kept, *found, strict=True):
        np.testing.assert_allclose(ours, meant, rtol=1e-9, atol=1e-10, err_msg=f"{one.label}\n{shown}\n{options}")


def _program(rng: np.random.Generator, sizes: dict[str, int]) -> tuple[wf.Tensor, list[wf.Tensor], str]:
    """A loss, its parameters, and how it is said."""
    params: list[wf.Tensor] = []
    shown: list[str] = []

    def param(letters: str) -> tuple[wf.Tensor, str]:
        order = "".join(rng.permutation(list(letters)))
        extents = [sizes[one] for one in order]
        params.append(wf.param("qkvw"[len(params)], o=extents, dtype="float64"))
        return params[-1], " ".join(order)

    def product(left: tuple[wf.Tensor, str], right: tuple[wf.Tensor, str], result: str) -> tuple[wf.Tensor, str]:
        order = " ".join(rng.permutation(list(result)))
        shown.append(f"{left[1]}; {right[1]} => {order}")
        return wf.einsum(shown[-1], left[0], right[0]), order

    scores = product(param("bhtd"), param("bhsd"), "bhts")
    weights = _between(rng, *scores, shown)
    across = "t" if rng.random() < 0.3 else "s"
    out = product((weights, scores[1]), param(f"bh{across}c"), f"bh{'s' if across == 't' else 't'}c")
    if rng.random() < 0.5:
        out = product((_between(rng, *out, shown), out[1]), param("hce"), f"b{'s' if across == 't' else 't'}e")
    return wf.einsum("... => 0", wf.sin(out[0])), params, "\n".join([str(sizes), *shown])


def _between(rng: np.random.Generator, tensor: wf.Tensor, order: str, shown: list[str]) -> wf.Tensor:
    """What is done to each number, or to all numbers along an axis."""
    how, axis = str(rng.choice(["nothing", "tanh", "scaled", "softmax", "softmax"])), str(rng.choice(order.split()))
    shown.append(f"{how} along {axis}" if how == "softmax" else how)
    match how:
        case "tanh":
            return wf.tanh(tensor)
        case "scaled":
            return tensor * 0.5 + 0.25
        case "softmax":
            kept, exps = " ".join(one for one in order.split() if one != axis), wf.exp(tensor)
            total = wf.einsum(f"{order} => {kept}", exps)
            if rng.random() < 0.5:
                return wf.einsum(f"{order}; {kept} => {order}", exps, total, op="/")
            return wf.einsum(f"{order}; {kept} => {order}", exps, wf.recip(total))
    return tensor


def _machine(rng: np.random.Generator, sizes: dict[str, int]) -> wf.Machine:
    """One whose second cache holds about what a batch leaves for the next contraction, or some rows of that."""
    near = 8 * sizes["t"] * sizes["s"] * int(rng.choice([1, 2, 3, 8, 16, 64])) // 8
    caches = (1 << 12, 2 * near)
    return replace(wf.Machine.here(), caches=caches, cores=int(rng.integers(1, 4)))
