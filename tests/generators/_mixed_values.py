"""What `mixtures.py` computes from numbers at each place, and of all along some axes."""

from __future__ import annotations

from collections.abc import Callable
from math import erf, inf
from typing import Any

import ml_dtypes
import numpy as np

import weft as wf
from generators._named_axes import Array, Drawing, Step, Value, folded, lined, part_of

_erf = np.vectorize(erf, otypes=[float])
POINTWISE: dict[str, tuple[Callable[[Any], Any], Callable[[Any], Any]]] = {
    "tanh": (wf.tanh, np.tanh),
    "sin": (wf.sin, np.sin),
    "sigmoid": (wf.sigmoid, lambda x: 1 / (1 + np.exp(-x))),
    "relu": (wf.relu, lambda x: np.maximum(x, 0)),
    "abs": (wf.abs, np.abs),
    "square": (lambda x: x * x, lambda x: x * x),
    "cube": (lambda x: x**3, lambda x: x**3),
    "bump": (lambda x: wf.exp(-x * x), lambda x: np.exp(-x * x)),
    "gelu": (wf.gelu, lambda x: 0.5 * x * (1 + _erf(x * 0.5**0.5)) if x.size else x),
    "softplus": (wf.softplus, lambda x: np.logaddexp(x, 0)),
    "root": (lambda x: wf.sqrt(x * x + 0.5), lambda x: np.sqrt(x * x + 0.5)),
    "where": (
        lambda x: wf.where(x > 0.1, wf.log(x), 0.3 * x),
        lambda x: np.where(x > 0.1, np.log(np.where(x > 0.1, x, 1)), 0.3 * x),
    ),
    "clip": (lambda x: wf.clip(x, -0.5, 0.7), lambda x: np.clip(x, -0.5, 0.7)),
    "ratio": (lambda x: x / (1.5 + wf.abs(x)), lambda x: x / (1.5 + np.abs(x))),
    "negated": (lambda x: -x, lambda x: -x),
    "counted": (lambda x: x * 0.5 + 0.25, lambda x: x * 0.5 + 0.25),
    "stopped": (lambda x: wf.stop_gradient(x) * x, lambda x: x * x),
    "sign": (lambda x: wf.sign(x) * 0.5 + x, lambda x: np.sign(x) * 0.5 + x),
    "remainder": (lambda x: x % 0.75, lambda x: x % 0.75),
}


def _pointwise(d: Drawing) -> Value | None:
    x, name = d.any(), d.pick(list(POINTWISE))
    assert x
    if name == "stopped":
        d.smooth = False
    theirs, ours = POINTWISE[name]
    return d.make(name, theirs(x.tensor), (x.batch, x.output), ours, x)


BINARY = {"+": np.add, "-": np.subtract, "*": np.multiply, "max": np.maximum, "min": np.minimum}


def _binary(d: Drawing) -> Value | None:
    x, y = d.any(), d.any()
    if not x or not y:
        return None
    axes = d.some(x.axes + "".join(one for one in y.axes if one not in x.axes), share=1)
    if d.size(axes) > d.largest:
        return None
    op = d.pick(list(BINARY))
    if x.part == y.part and d.chance(0.7):
        op = d.pick(["+", "-", "*"])
        theirs = {"+": lambda: x.tensor + y.tensor, "-": lambda: x.tensor - y.tensor, "*": lambda: x.tensor * y.tensor}
        return d.make(op, theirs[op](), (x.batch, x.output), BINARY[op], x, y)
    return d.einsum(
        "", [x, y], d.rows(axes), lambda a, b: BINARY[op](lined(a, x.axes, axes), lined(b, y.axes, axes)), op=op
    )


def _contract(d: Drawing) -> Value | None:
    count = 3 if d.chance(0.2) else 2
    operands = [one for one in (d.any() for _ in range(count)) if one]
    union = "".join(dict.fromkeys("".join(one.axes for one in operands)))
    kept = d.some(union, share=0.5)
    if d.size(union) > d.loops or d.size(kept) > d.largest:
        return None
    numpy = ",".join(one.axes for one in operands) + "->" + kept
    return d.einsum("product", operands, d.rows(kept), lambda *arrays: np.einsum(numpy, *arrays))


def _semiring(d: Drawing) -> Value | None:
    x, y = d.any(), d.any()
    if not x or not y:
        return None
    union = "".join(dict.fromkeys(x.axes + y.axes))
    kept = d.some(union, share=0.5)
    if d.size(union) > d.loops or d.size(kept) > d.largest:
        return None
    op, accum = d.pick(["+", "-", "*", "max", "min"]), d.pick(["max", "min", "+", "logsumexp", "mean"])

    def meaning(a: Array, b: Array) -> Array:
        full = BINARY[op](lined(a, x.axes, union), lined(b, y.axes, union))
        full = np.broadcast_to(full, [d.sizes[one] for one in union])
        return folded(full, union, kept, REDUCTIONS[accum])

    return d.einsum("semiring", [x, y], d.rows(kept), meaning, op=op, accum=accum)


@wf.operator
def swish(v, v1):
    v[:] = v1 / (1 + wf.exp(-v1))


@wf.operator
def gated(v, v1, v2):
    v[:] = wf.where(v1 > v2, v1 * v2, wf.sin(v2))


@gated.gradient
def gated(g, v1, v2, g1, g2):
    g1 += wf.where(v1 > v2, g * v2, 0)
    g2 += g * wf.where(v1 > v2, v1, wf.cos(v2))


def _operator(d: Drawing) -> Value | None:
    x = d.any()
    assert x
    if d.chance(0.5):
        return d.make("swish", swish(x.tensor), (x.batch, x.output), lambda a: a / (1 + np.exp(-a)), x)
    y = d.any(lambda one: one.part == x.part)
    return d.make(
        "gated", gated(x.tensor, y.tensor), (x.batch, x.output), lambda a, b: np.where(a > b, a * b, np.sin(b)), x, y
    )


TEXTS: list[tuple[int, str, Callable[[Array], Array]]] = [
    (
        1,
        "Y(i) = i > 0 ? X(i) * 0.5 + X(i - 1) : X(i) where i in 0:N",
        lambda a: np.concatenate([a[:1], a[1:] * 0.5 + a[:-1]]),
    ),
    (1, "S +=! X(i) * X(i)  Y(i) = X(i) / (1.0 + S)", lambda a: a / (1 + (a * a).sum())),
    (
        1,
        "Y(i) = i > 0 ? 0.5 * Y(i - 1) + X(i) : X(i) where i in 0:N",
        lambda a: np.array([sum(a[j] * 0.5 ** (i - j) for j in range(i + 1)) for i in range(len(a))]),
    ),
    (2, "M(i) max=! X(i,j)  Y(i,j) = exp(X(i,j) - M(i))", lambda a: np.exp(a - a.max(1, keepdims=True))),
    (2, "T(i,j) +=! X(i,k) * X(j,k)  Y(i,k) +=! T(i,j) * X(j,k) * 0.1", lambda a: a @ a.T @ a * 0.1),
    (2, "Y(i,j) +=! X(i,k) * (k <= j ? 1.0 : 0.0) where j in 0:K", lambda a: np.cumsum(a, 1)),
    (2, "Y(i,j) = X(N - 1 - i,j) where i in 0:N", lambda a: a[::-1]),
    (
        2,
        "B(j) +=! X(i,j)  Y(i,j) = X(i,j) * 0.5 - B(j) * 0.1  Y(i,j) += B(j) * X(i,j)",
        lambda a: a * 0.5 - a.sum(0) * 0.1 + a.sum(0) * a,
    ),
]


def _comprehension(d: Drawing) -> Value | None:
    x = d.any(lambda one: not one.batch and len(one.output) in (1, 2))
    if not x or d.size(x.axes) > 400:
        return None
    axes, text, meaning = d.pick([one for one in TEXTS if one[0] == len(x.axes)])
    made = wf.tc.define(f"def f(double({'N,K'[: 2 * axes - 1]}) X) -> (Y) {{ {text} }}").f
    return d.make(text, made(x.tensor), ("", x.axes), meaning, x)


REDUCTIONS: dict[str, Callable[[Array], Array]] = {
    "+": lambda x: x.sum(-1),
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min(-1),
    "*": lambda x: x.prod(-1),
    "mean": lambda x: x.mean(-1),
    "var": lambda x: x.var(-1),
    "logsumexp": lambda x: np.log(np.exp(x).sum(-1)),
}
FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "sum": REDUCTIONS["+"],
    "mean": REDUCTIONS["mean"],
    "max": REDUCTIONS["max"],
    "min": REDUCTIONS["min"],
    "prod": REDUCTIONS["*"],
    "var": REDUCTIONS["var"],
    "logsumexp": REDUCTIONS["logsumexp"],
}
SCALED = wf.monoid(
    "scaled",
    start=(0.0, 1.0),
    of=lambda x: (x, wf.cos(x)),
    combine=lambda a, b: (a[0] + b[0], a[1] * b[1]),
    result=lambda state: wf.sin(state[0]) * state[1],
)
LAST = wf.monoid(
    "affine",
    start=(1.0, 0.0),
    of=lambda x: (0.5 * x, x),
    combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
    result=lambda state: state[1],
)


def _affine(x: Array) -> Array:
    total = np.zeros(x.shape[:-1])
    for at in range(x.shape[-1]):
        total = total * 0.5 * x[..., at] + x[..., at]
    return total


MONOIDS: list[tuple[Any, Callable[[Array], Array]]] = [
    (SCALED, lambda x: np.sin(x.sum(-1)) * np.cos(x).prod(-1)),
    (LAST, _affine),
]


def _reduce(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.axes) > 0)
    if not x:
        return None
    kept = d.some(x.axes, share=0.5)
    if len(kept) == len(x.axes):
        kept = kept[1:]
    rows, way = d.rows(kept), d.rng.random()
    if way < 0.4:
        name = d.pick(list(REDUCTIONS))
        return d.einsum("", [x], rows, lambda a: folded(a, x.axes, kept, REDUCTIONS[name]), accum=name)
    if way < 0.55:
        monoid, meaning = d.pick(MONOIDS)
        return d.einsum("", [x], rows, lambda a: folded(a, x.axes, kept, meaning), accum=monoid)
    spec = f"{x.part} => {part_of(*rows)}"
    name = d.pick(list(FUNCTIONS))
    return d.make(
        f"{name} {spec}", getattr(wf, name)(x.tensor, spec), rows, lambda a: folded(a, x.axes, kept, FUNCTIONS[name]), x
    )


def _softmax(d: Drawing) -> Value | None:
    x = d.any(lambda one: len(one.output) > 0)
    if not x:
        return None
    kept = "".join(one for one in x.axes if d.chance(0.6))
    kept = kept if len(kept) < len(x.axes) else kept[1:]
    name = d.pick(["softmax", "softmax", "log_softmax"])
    batch, output = "".join(o for o in x.batch if o in kept), "".join(o for o in x.output if o in kept)
    spec = f"{x.part} => {part_of(batch, output)}"
    over = tuple(at for at, one in enumerate(x.axes) if one not in kept)

    def meaning(a: Array) -> Array:
        a = a - a.max(over, keepdims=True)
        weights = a - np.log(np.exp(a).sum(over, keepdims=True))
        return np.exp(weights) if name == "softmax" else weights

    return d.make(f"{name} {spec}", getattr(wf, name)(x.tensor, spec), (x.batch, x.output), meaning, x)


def _masked(d: Drawing) -> Value | None:
    """Softmax along an axis of what a mask of two axes, or of data, leaves."""
    x = d.any(lambda one: len(one.axes) > 1)
    if not x:
        return None
    t, s = d.some(x.axes, share=1)[:2]
    n, m = d.sizes[t], d.sizes[s]
    hidden = d.pick([-inf, -1e9, -3e38, 0.0])
    if d.chance(0.5):
        rows, columns = np.arange(n)[:, None], np.arange(m)[None]
        at, to = (
            wf.einsum(f"{one} => {t}{s}", wf.arange(d.sizes[one], dtype="int32"), **{t: n, s: m}) for one in (t, s)
        )
        seen, mask = d.pick(
            [
                (columns <= rows, to <= at),
                ((columns <= rows) & (columns > rows - 2), wf.logical_and(to <= at, at - 2 < to)),
                (columns >= rows, to >= at),
                (columns < max(m // 2, 1), to < max(m // 2, 1)),
                (np.abs(rows - columns) < 2, wf.abs(at - to) < 2),
            ]
        )
        seen = np.broadcast_to(seen, (n, m))
    else:
        seen = d.rng.random((n, m)) < 0.6
        mask = wf.data(seen.astype(float), label="seen") > 0.5
    if hidden == -inf and not seen.any(1).all():
        return None
    spread = wf.einsum(f"{t}{s} => {x.axes}", mask, **{one: d.sizes[one] for one in x.axes})
    scores = wf.einsum(f"{x.part} => {x.axes}", x.tensor)
    scores = wf.where(spread, scores, hidden)
    seen_there = lined(seen, t + s, x.axes)
    over = x.axes.index(s)

    def meaning(a: Array) -> Array:
        a = np.where(seen_there, a, hidden)
        e = np.exp(a - a.max(over, keepdims=True))
        return e / e.sum(over, keepdims=True)

    kept = x.axes.replace(s, "")
    return d.make(
        f"masked softmax along {s}, {t} {hidden}",
        wf.softmax(scores, f"{x.axes} => {kept or '0'}"),
        ("", x.axes),
        meaning,
        x,
    )


def _dropout(d: Drawing) -> Value | None:
    x = d.any()
    return x and d.make("dropout", wf.dropout(x.tensor, 0.4, step=0), (x.batch, x.output), None, x)


def _narrow(d: Drawing) -> Value | None:
    """Rounded to fewer bits: from there on, all is compared in these."""
    x, dtype = d.any(), d.pick(["float32", "float32", "bfloat16", "float16"])
    if not x:
        return None
    d.narrow, d.smooth = True, False
    kind = getattr(ml_dtypes, dtype, dtype)
    tensor = wf.cast(wf.cast(x.tensor, dtype), "float64")
    return d.make(
        f"as {dtype}", tensor, (x.batch, x.output), lambda a: a.astype("float32").astype(kind).astype(float), x
    )


#: How often each is drawn.
VALUES: dict[Step, float] = {
    _pointwise: 3,
    _binary: 3,
    _contract: 3,
    _semiring: 1,
    _operator: 0.7,
    _comprehension: 1,
    _reduce: 3,
    _softmax: 1.5,
    _masked: 1.5,
    _dropout: 0.3,
    _narrow: 0.15,
}
