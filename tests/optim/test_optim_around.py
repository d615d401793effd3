"""What stands around an optimiser: clipped gradients, those of several runs, averages; state of a context."""

from __future__ import annotations

import re
from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from optim import recurrences

STEPS = 10
N = wf.counter("n")
random = np.random.default_rng(3)
A, B = random.normal(size=(2, 3)), random.normal(size=2)
X, Y = random.normal(size=(STEPS, 4, 3)) * 2, random.normal(size=(STEPS, 4, 2))
BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


def regression() -> tuple[wf.Tensor, wf.Tensor, wf.Tensor, wf.Tensor, wf.Tensor]:
    x, y = (wf.input(name, b="batch", o=size, dtype="float64") for name, size in (("x", 3), ("y", 2)))
    a, b = wf.param("a", dtype="float64"), wf.param("b", o=2, dtype="float64")
    loss = wf.mean((a @ x + b - y) ** 2, "...|... => 0").named("loss")
    return x, y, a, b, loss


def gradients(a: np.ndarray, b: np.ndarray, x: np.ndarray, y: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    apart = 2 * (x @ a.T + b - y) / y.size
    return apart.T @ x, apart.sum(0)


def started(backend: str, a: wf.Tensor, b: wf.Tensor) -> wf.Context:
    ctx = wf.Context(backend)
    ctx[a], ctx[b] = A, B
    return ctx


# Clipping


@BACKENDS
def test_gradients_are_clipped_by_their_length_together(backend: str) -> None:
    x, y, a, b, loss = regression()
    norm = wf.node("norm", scalar=True, dtype="float64")
    code = wf.seq(wf.grad_update(loss), wf.optim.clip_by_norm(loss, 15.0, norm=norm), wf.optim.sgd(loss, lr=0.1))
    ctx = started(backend, a, b)
    step = ctx.function(x, y, code=code, returns=norm)
    wa, wb, lengths = A, B, []
    for xs, ys in zip(X, Y, strict=True):
        ga, gb = gradients(wa, wb, xs, ys)
        lengths.append(np.linalg.norm([*ga.ravel(), *gb]))
        share = min(1.0, 15.0 / lengths[-1])
        wa, wb = wa - 0.1 * share * ga, wb - 0.1 * share * gb
        np.testing.assert_allclose(step(xs, ys).item(), lengths[-1], rtol=1e-10)
    assert min(lengths) < 15.0 < max(lengths)
    np.testing.assert_allclose(ctx[a], wa, rtol=1e-10)
    np.testing.assert_allclose(ctx[b], wb, rtol=1e-10)


def test_what_is_excluded_neither_counts_nor_changes() -> None:
    x, y, a, b, loss = regression()
    code = wf.seq(wf.grad_update(loss), wf.optim.clip_by_norm(loss, 0.01, exclude="b"), wf.optim.sgd(loss, lr=1.0))
    ctx = started("interp", a, b)
    ctx.function(x, y, code=code)(X[0], Y[0])
    ga, gb = gradients(A, B, X[0], Y[0])
    np.testing.assert_allclose(ctx[a], A - 0.01 * ga / np.linalg.norm(ga), rtol=1e-10)
    np.testing.assert_allclose(ctx[b], B - gb, rtol=1e-10)


def test_gradients_are_clipped_by_value() -> None:
    x, y, a, b, loss = regression()
    code = wf.seq(wf.grad_update(loss), wf.optim.clip_by_value(loss, 0.3), wf.optim.sgd(loss, lr=1.0))
    ctx = started("interp", a, b)
    ctx.function(x, y, code=code)(X[0], Y[0])
    ga, gb = gradients(A, B, X[0], Y[0])
    assert (np.abs(ga) > 0.3).any()
    np.testing.assert_allclose(ctx[a], A - np.clip(ga, -0.3, 0.3), rtol=1e-10)
    np.testing.assert_allclose(ctx[b], B - np.clip(gb, -0.3, 0.3), rtol=1e-10)


def test_an_update_with_clipping_is_one_pass_over_each_parameter() -> None:
    x, y, _, _, loss = regression()
    code = wf.seq(wf.grad_update(loss), wf.optim.clip_by_norm(loss, 1.0), wf.optim.adamw(loss))
    step = wf.Context("cc").function(x, y, code=code, returns=loss)
    lines = [line for line in step.show("kernels", batch=4).splitlines() if not line.startswith("#")]
    for written in ("a[", "b[", "adamw.m.a[", "adamw.v.a[", "adamw.m.b[", "adamw.v.b["):
        stores = [line for line in lines if re.match(rf"\s*{re.escape(written)}[^=]*\] -?= ", line)]
        assert len(stores) == 1, (written, stores)


# Accumulation


@BACKENDS
def test_gradients_of_several_runs_make_one_update(backend: str) -> None:
    x, y, a, b, loss = regression()
    update = wf.seq(wf.optim.clip_by_norm(loss, 1.0), wf.optim.adam(loss, lr=0.1))
    code = wf.seq(wf.grad_update(loss), wf.optim.accumulate(loss, update, every=3, step=N))
    ctx = started(backend, a, b)
    step = ctx.function(x, y, code=code, returns=loss)
    values, sums = [A, B], [np.zeros_like(A), np.zeros_like(B)]
    states: list[dict[str, object]] = [{}, {}]
    for run, (xs, ys) in enumerate(zip(X, Y, strict=True)):
        step(xs, ys)
        sums = [total + g for total, g in zip(sums, gradients(*values, xs, ys), strict=True)]
        if run % 3 == 2:
            length = np.linalg.norm(np.concatenate([one.ravel() for one in sums]) / 3)
            means = [total / 3 / max(1.0, length) for total in sums]
            values = [recurrences.adam(*one, lr=0.1) for one in zip(values, means, states, strict=True)]
            sums = [np.zeros_like(A), np.zeros_like(B)]
        np.testing.assert_allclose(ctx[a], values[0], rtol=1e-9)
        np.testing.assert_allclose(ctx[b], values[1], rtol=1e-9)


def test_micro_batches_are_a_batch() -> None:
    """Two runs on halves end where one on the whole does, with an update of one's own."""

    @wf.cd
    def own(p: wf.Tensor) -> None:
        count, share = wf.node("count", init=0.0, scalar=True), wf.node("share", init=1.0, scalar=True)
        count += 1
        share *= 0.5
        p -= 0.1 * (count * share) * p.grad

    found = []
    for parts in (1, 2):
        x, y, a, b, loss = regression()
        update = wf.seq(*map(own, loss.params))
        code = wf.seq(wf.grad_update(loss), wf.optim.accumulate(loss, update, every=parts, step=N))
        ctx = started("interp", a, b)
        step = ctx.function(x, y, code=code)
        for xs, ys in zip(X, Y, strict=True):
            for at in range(parts):
                step(xs[at::parts], ys[at::parts])
        found.append(ctx[a])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9)


def test_writes_keep_what_is_there_by_themselves() -> None:
    *_, loss = regression()
    text = str(wf.optim.accumulate(loss, wf.optim.adamw(loss, lr=0.5, weight_decay=0.0), every=3, step=N))
    assert "accumulate.mean.b =: where((n % 3) = 0, 0.0, accumulate.mean.b) + (b.grad / 3)" in text
    assert "b =- where((n % 3) = 2, 0.5 *. " in text
    assert "kept" not in text


def test_what_code_writes_in_parts_is_kept_as_well() -> None:
    w, ctx = wf.param("w", o=3, init=1.0), wf.Context("interp")
    loss = wf.einsum("i => 0", w)
    seen = wf.node("seen", o=3, i=[], b=[], dtype="float32")
    ctx[seen] = np.full(3, 5, "float32")

    @wf.cd
    def part() -> None:
        seen[:2] = w[:2] * 2.0

    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.accumulate(loss, part(), every=2, step=N)), keep=[seen])
    step()
    np.testing.assert_array_equal(ctx[seen], [5, 5, 5])
    step()
    np.testing.assert_array_equal(ctx[seen], [2, 2, 5])


# Averages


@BACKENDS
def test_averages_follow_and_are_used_in_a_block(backend: str) -> None:
    x, y, a, b, loss = regression()
    average = wf.optim.ema(loss, decay=0.8)
    code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1), average.update)
    ctx = started(backend, a, b)
    step, predict = ctx.function(x, y, code=code), ctx.function(x, returns=a @ x + b)
    values, means = [A, B], [np.zeros(()), np.zeros(())]
    for run, (xs, ys) in enumerate(zip(X, Y, strict=True)):
        step(xs, ys)
        values = [v - 0.1 * g for v, g in zip(values, gradients(*values, xs, ys), strict=True)]
        means = [0.8 * m + 0.2 * v if run else v for m, v in zip(means, values, strict=True)]
    for tensor, mean in zip(average.means, means, strict=True):
        np.testing.assert_allclose(ctx[tensor], mean, rtol=1e-10)
    usual = predict(X[0])
    with average.used(ctx):
        np.testing.assert_allclose(predict(X[0]), X[0] @ means[0].T + means[1], rtol=1e-10)
        np.testing.assert_allclose(ctx[a], means[0], rtol=1e-10)
    np.testing.assert_array_equal(predict(X[0]), usual)
    with pytest.raises(ZeroDivisionError), average.used(ctx):
        raise ZeroDivisionError
    np.testing.assert_array_equal(predict(X[0]), usual)


def test_means_have_names_and_stand_in_expressions() -> None:
    _, _, _, _, loss = regression()
    average = wf.optim.ema(loss, only="b")
    assert [one.label for one in average.means] == ["ema.mean.b"]
    assert repr(average) == "<average of b>"
    assert str(average.update) == (
        '~~("ema b";\n'
        '  ema.mean.b =+ ema.share.b *. (b - ema.mean.b) ~at_least:"float32";\n'
        "  { ema.share.b; scalar; init = 1.0 } =: 0.0010000000000000009)"
    )


@pytest.mark.parametrize("what", ["clip_by_norm", "clip_by_value", "accumulate", "ema", "swap"])
def test_printed_code_reads_back(what: str) -> None:
    *_, loss = regression()
    average = wf.optim.ema(loss)
    code = {
        "clip_by_norm": wf.optim.clip_by_norm(loss, 1.0),
        "clip_by_value": wf.optim.clip_by_value(loss, 1.0),
        "accumulate": wf.optim.accumulate(loss, wf.optim.adamw(loss), every=3, step=N),
        "ema": average.update,
        "swap": average.swap,
    }[what]
    names = {p.label: p for p in loss.params}
    assert str(wf.parse_cd(str(code), {**names, "n": N}, declare=True)) == str(code)


# State


def test_state_belongs_to_a_context_and_goes_on_from_length_to_length() -> None:
    x, y, a, b, loss = regression()
    code = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1))
    contexts = [started("interp", a, b) for _ in range(2)]
    steps = [ctx.function(x, y, code=code) for ctx in contexts]
    values, states = [A, B], [{}, {}]  # type: ignore[var-annotated]
    for run, (xs, ys) in enumerate(zip(X, Y, strict=True)):
        rows = slice(1 + run % 3)
        steps[0](xs[rows], ys[rows])
        found = gradients(*values, xs[rows], ys[rows])
        values = [recurrences.adam(*one, lr=0.1) for one in zip(values, found, states, strict=True)]
    np.testing.assert_allclose(contexts[0][a], values[0], rtol=1e-9)
    steps[1](X[0], Y[0])
    first = recurrences.adam(A, gradients(A, B, X[0], Y[0])[0], {}, lr=0.1)
    np.testing.assert_allclose(contexts[1][a], first, rtol=1e-9)


LOSS = regression()[-1]
SGD = wf.optim.sgd(LOSS, lr=0.1)
WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "clipping to nothing": (
        lambda: wf.optim.clip_by_norm(LOSS, 0.0),
        "a gradient cannot be clipped to 0.0",
        "write a number above 0, such as 1.0",
    ),
    "clipping to text": (
        lambda: wf.optim.clip_by_norm(LOSS, "1"),  # type: ignore[arg-type]
        "gradients are clipped to a number, not '1'",
        "write a number above 0, such as 1.0",
    ),
    "a norm that is no node": (
        lambda: wf.optim.clip_by_norm(LOSS, 1.0, norm="norm"),  # type: ignore[arg-type]
        "norm= takes a node, not 'norm'",
        'write norm = wf.node("norm", scalar=True); wf.optim.clip_by_norm(loss, 1.0, norm=norm)',
    ),
    "an optimiser that was not called": (
        lambda: wf.optim.accumulate(LOSS, wf.optim.sgd, every=2, step=N),  # type: ignore[arg-type]
        "accumulate takes the code of an update, not function",
        "write wf.optim.accumulate(loss, wf.optim.adamw(loss), every=4, step=n)",
    ),
    "every none": (
        lambda: wf.optim.accumulate(LOSS, SGD, every=0, step=N),
        "every= takes a whole number of runs from 1 on, not 0",
        "write every=4",
    ),
    "a step that is a number": (
        lambda: wf.optim.accumulate(LOSS, SGD, every=2, step=1),  # type: ignore[arg-type]
        "step= takes a counter, not 1",
        'write n = wf.counter("n"); wf.optim.accumulate(…, step=n)',
    ),
    "a mean that keeps all": (
        lambda: wf.optim.ema(LOSS, decay=1.0),
        "decay is at least 0 and below 1, not 1.0",
        "write decay=0.9, or the like",
    ),
    "means of nothing": (
        lambda: wf.optim.ema(LOSS).used(SGD).__enter__(),  # type: ignore[arg-type]
        "means are those of a context, not of Seq",
        "write with average.used(ctx):",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str) -> None:
    wrong, what, fix = WRONG[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert (caught.value.what, caught.value.fix) == (what, fix)
