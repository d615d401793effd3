"""Functions of inputs of any length: a call gives what a model written for its length gives, bit for bit, or refuses.

The same operations are applied to inputs once, and to data of each length anew. Between calls parameters are trained,
so that what one length leaves the next one finds.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import weft as wf

Operation = Callable[[wf.Tensor, wf.Tensor, int], wf.Tensor]

#: Of a tensor `n|d`, another of as many examples, and a number of the operation's own.
SAME: dict[str, Operation] = {
    "dense": lambda h, other, at: wf.param(f"w{at}", o=3) @ h,
    "bias": lambda h, other, at: wf.tanh(h + wf.param(f"b{at}")),
    "other": lambda h, other, at: h * wf.sum(other),
    "centre": lambda h, other, at: h - wf.mean(h, "n|... => ..."),
    "softmax": lambda h, other, at: wf.softmax(h),
    "over examples": lambda h, other, at: wf.einsum("n|d; m|d; m|e => n|e", h, h, other),
    "dropout": lambda h, other, at: wf.dropout(h, 0.5, step=at),
    "noise": lambda h, other, at: h + wf.random_uniform(f"noise{at}", step=at),
    "choice": lambda h, other, at: wf.where(h > 0.1, h, wf.sum(other)),
    "slope": lambda h, other, at: h + wf.grad(wf.sum(wf.tanh(h * wf.param(f"s{at}")), "...|... => 0"), h),
    "reversed": lambda h, other, at: h[::-1],
    "window": lambda h, other, at: wf.einsum("n|o=+k; k => n|o", h, wf.param(f"k{at}", o=2)),
    "running": lambda h, other, at: wf.cumsum(h),
    "running over examples": lambda h, other, at: wf.cummax(h, "n|d => d"),
    "recurrent": lambda h, other, at: wf.scan(_cell(at), (h, other), init=0.5, reverse=bool(at % 2))[0],
    "every other": lambda h, other, at: h * wf.scan(_cell(at), (h[1:], other[1:]), init=0.5)[1],
    "pairs": lambda h, other, at: wf.scan(lambda s, x: s + wf.scan(_cell(at), (h, other), init=x)[1], h, init=0.1)[0],
    "counted": lambda h, other, at: h * wf.scan(lambda count, x: count + 1, h, init=0.0)[1],
    "sorted": lambda h, other, at: wf.sort(h),
    "monoid": lambda h, other, at: h - wf.einsum("...|d => ...|0", h, accum="logsumexp"),
    "looked up": lambda h, other, at: h * wf.einsum("v, d; n|0@v => n|d", wf.param(f"t{at}", o=(3, 1)), wf.argmax(h)),
    "flattened": lambda h, other, at: wf.einsum("n|d&e => n|e&d", h, e=1) + h,
}
#: What changes how many there are.
LAST: dict[str, Operation] = {
    "joined": lambda h, other, at: wf.einsum("n, |d; m, |d => n^m, |d", h, h * 2.0),
    "windows": lambda h, other, at: wf.einsum("n<+k, |d; k => n, |d", h, wf.param(f"k{at}", o=2)),
    "every second": lambda h, other, at: wf.einsum("2*n, |d => n, |d", h),
    "all pairs": lambda h, other, at: wf.einsum("n|d; m|d => n,m|d", h, h),
    "but the first": lambda h, other, at: h[1:],
    "the last": lambda h, other, at: h[-1] * wf.param(f"l{at}"),
    "transposed": lambda h, other, at: wf.einsum("n, |d => d, |n", h),
}


def _cell(at: int) -> Callable[[wf.Tensor, tuple[wf.Tensor, wf.Tensor]], wf.Tensor]:
    u = wf.param(f"u{at}")
    return lambda carry, x: wf.tanh(u * carry + x[0] * wf.sum(x[1]))


def check(rng: np.random.Generator) -> None:
    recipe = [SAME[str(name)] for name in rng.choice(list(SAME), rng.integers(1, 5))]
    if rng.random() < 0.4:
        recipe.append(LAST[str(rng.choice(list(LAST)))])
    x, y = wf.input("x", b="n", o=3), wf.input("y", b="n", o=2)
    loss, result = _built(recipe, x, y)
    ctx = wf.Context("interp")
    step = ctx.function(x, y, code=_trained(loss), returns=(loss, result))
    for length in rng.integers(1, 5, 3):
        given = [rng.uniform(-1, 1, (length, size)).astype("float32") for size in (3, 2)]
        _compare(ctx, step, loss, lambda *data: _built(recipe, *data), given)


def _built(recipe: list[Operation], x: wf.Tensor, y: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
    wf.seed(3)
    h = wf.param("first", o=3) @ x
    for at, operation in enumerate(recipe):
        h = operation(h, y, at)
    return wf.mean(h * h, "...|...->... => 0"), h


def _trained(loss: wf.Tensor) -> wf.Code:
    return wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1))


def _compare(
    ctx: wf.Context,
    step: wf.Function,
    loss: wf.Tensor,
    build: Callable[..., tuple[wf.Tensor, wf.Tensor]],
    given: list[np.ndarray],
) -> None:
    state = wf.Context("interp")
    try:
        written, result = build(*(wf.data(one, batch=1, label="xy"[at]) for at, one in enumerate(given)))
        for mine, other in zip(loss.params, written.params, strict=True):
            state[other] = ctx[mine]
        state.compile(_trained(written), keep=[written, result])()
    except wf.ShapeError as refused:
        try:
            step(*given)
        except wf.ShapeError:
            return
        raise AssertionError(f"{len(given[0])} examples should be refused: {refused}") from refused
    for mine, theirs in zip(step(*given), (written, result), strict=True):
        np.testing.assert_array_equal(mine, state[wf.given(theirs)])
    for mine, theirs in zip(loss.params, written.params, strict=True):
        np.testing.assert_array_equal(ctx[mine], state[theirs], err_msg=mine.label)
