"""Expressions on zeros of both signs, infinities and what is not a number: rewriting changes none of them.

Random graphs of operations that are exact, with constants that tempt a simplifier (0, -0.0, 1, -1), sums, one-hots and
gradients. Optimised code must agree with unoptimised code and with the interpreter, the signs of zeros included.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft as wf

VALUES = (0.0, -0.0, 1.0, -1.0, 2.0, -0.5, np.inf, -np.inf, np.nan, 3.0)
NUMBERS = (0, 0.0, -0.0, 1, 1.0, -1.0, 2.0, 0.5)
ONE: dict[str, Callable[[wf.Tensor], wf.Tensor]] = {
    "neg": lambda x: -x,
    "abs": wf.abs,
    "relu": wf.relu,
    "recip": wf.recip,
    "sign": wf.sign,
    "round": wf.round,
    "clip": lambda x: wf.clip(x, -1, 2),
    "finite": wf.isfinite,
    "sqrt": lambda x: wf.sqrt(wf.abs(x)),
    "square": lambda x: x**2,
    "copy": lambda x: wf.einsum("ij=>ij", x),
    "turn": lambda x: wf.einsum("ij=>ij", wf.einsum("ij=>ji", wf.einsum("ij=>ji", x))),
}
TWO: dict[str, Callable[[wf.Tensor, wf.Tensor | float], wf.Tensor]] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "from": lambda x, y: y - x,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "by": lambda x, y: y / x,
    "where": lambda x, y: wf.where(wf.less(x, y), x, y),
    "not less": lambda x, y: wf.where(wf.logical_not(wf.less(x, y)), x, 0),
    "mask": lambda x, y: x * wf.equal(x, y),
    "fma": lambda x, y: wf.fma(x, y, x),
}


def check(rng: np.random.Generator) -> None:
    dtype = str(rng.choice(["float32", "float64"]))
    arrays = [rng.choice(VALUES, (4, 4)).astype(dtype) for _ in range(2)]
    labels = rng.integers(-1, 5, 4)
    plan = []
    for at in range(2, 2 + int(rng.integers(1, 7))):
        if rng.random() < 0.3:
            plan.append((str(rng.choice(list(ONE))), int(rng.integers(at)), None))
        else:
            number = float(rng.choice(NUMBERS)) if rng.random() < 0.5 else int(rng.integers(at))
            plan.append((str(rng.choice(list(TWO))), int(rng.integers(at)), number))
    end = str(rng.choice(["as it is", "sum", "one-hot", "gradient"]))
    found = {}
    for way, backend, optimise in (("interpreted", "interp", True), ("plain", "cc", False), ("optimised", "cc", True)):
        with wf.config.using(optimise=optimise):
            found[way] = _run(backend, arrays, labels, plan, end)
    what = f"{[one.tolist() for one in arrays]} {labels.tolist()} {plan} {end} {dtype}"
    for way in ("plain", "optimised"):
        same = all(map(_alike, found[way], found["interpreted"]))
        assert same, f"{what}\n{way}: {found[way]}\ninterpreted: {found['interpreted']}"


def _run(
    backend: str,
    arrays: list[np.ndarray],
    labels: np.ndarray,
    plan: list[tuple[str, int, int | float | None]],
    end: str,
) -> list[np.ndarray]:
    ctx = wf.Context(backend)
    leaves = [wf.require_grad(wf.data(one)) for one in arrays]
    graph = list(leaves)
    for name, left, right in plan:
        if right is None:
            graph.append(ONE[name](graph[left]))
        else:
            graph.append(TWO[name](graph[left], graph[right] if isinstance(right, int) else right))
    last = graph[-1]
    if end == "sum":
        last = wf.einsum("ij=>i", last)
    if end == "one-hot":
        columns = wf.einsum("v=>v", wf.offsets(), v=4)
        hot = wf.einsum("i;v=>iv", wf.data(labels), columns, op="=")
        last = wf.einsum("iv;vj=>ij", hot, last, op="select")
    if end != "gradient" or not last.differentiable:  # a truth value has no gradient
        return [ctx[last]]
    reached = [leaves[at] for at in sorted(_reached(plan)) if at < len(leaves)]
    ctx.compile(wf.grad_update(wf.einsum("ij=>0", last)), keep=[one.grad for one in reached])()
    return [ctx[one.grad] for one in reached]


def _reached(plan: list[tuple[str, int, int | float | None]]) -> set[int]:
    """What the last step is computed from."""
    found = {len(plan) + 1}
    for at, (_, left, right) in reversed(list(enumerate(plan, 2))):
        if at in found:
            found |= {left} | ({right} if isinstance(right, int) else set())
    return found


def _alike(one: np.ndarray, other: np.ndarray) -> bool:
    """Are the same numbers infinite, zeros of the same sign and no numbers? The order of a sum may round the others."""
    special = ~np.isfinite(one) | ~np.isfinite(other) | ((one == 0) & (other == 0))
    exact = np.where(special, one, 0), np.where(special, other, 0)
    signs = (np.signbit(exact[0]) == np.signbit(exact[1])) | np.isnan(one)
    rounding = 32 * float(np.finfo(one.dtype).eps)
    left, right = one[~special], other[~special]
    close = np.allclose(left, right, rtol=rounding, atol=rounding)
    return bool(np.array_equal(*exact, equal_nan=True) and signs.all() and close)
