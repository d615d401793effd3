"""Counters: static indices that count runs by themselves."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf

ONES = np.ones((3, 4), np.float32)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_counter_counts_runs_wherever_an_index_may_stand(backend: str) -> None:
    n, epoch = wf.counter("n"), wf.counter("epoch", 3)
    x = wf.data(np.arange(6, dtype=np.float32).reshape(3, 2), batch=1, label="x")
    t = wf.data(ONES, batch=1, label="t")
    total = wf.node("total", init=0.0)

    @wf.cd
    def add() -> None:
        total[:] = total + x[epoch] * wf.where(n < 2, n, 10.0) + 0.5**n

    ctx = wf.Context(backend)
    drawn = wf.dropout(t, 0.5, step=n).named("drawn")
    step = ctx.compile(wf.seq(add(), drawn.forward))
    rows, found = np.arange(6.0).reshape(3, 2), np.zeros(2)
    masks = []
    for run in range(5):
        assert (ctx[n], ctx[epoch]) == (run, run % 3)
        step()
        found = found + rows[run % 3] * (run if run < 2 else 10.0) + 0.5**run
        masks.append(ctx[drawn].tobytes())
        np.testing.assert_allclose(ctx[total], found)
    assert len(set(masks)) == 5
    ctx[n] = 1  # as it was before
    step()
    assert ctx[drawn].tobytes() == masks[1]
    assert (ctx[n], ctx[epoch]) == (2, 0)


def test_routines_and_functions_of_a_context_count_together() -> None:
    n, x = wf.counter("n"), wf.input("x", b="batch", o=1)
    ctx, other = wf.Context("interp"), wf.Context("interp")
    scaled = ctx.function(x, returns=x * n)
    state = wf.node("state")

    @wf.cd
    def keep() -> None:
        state[:] = wf.constant(1.0) * n

    routine = ctx.compile(keep())
    assert scaled([[1.0], [2.0]]).tolist() == [[0], [0]]
    assert scaled([[1.0]]).tolist() == [[1]]
    routine()
    assert ctx[state].tolist() == [2]
    ctx.devices[0].run(routine).wait()
    assert ctx[state].tolist() == [3]
    pending = [scaled([[1.0]], wait=False) for _ in range(2)]
    assert [one.wait().tolist() for one in pending] == [[[4]], [[5]]]
    assert (ctx[n], other[n]) == (6, 0)


def test_what_does_not_run_is_not_counted() -> None:
    n, missing = wf.counter("n"), wf.node("missing")
    ctx = wf.Context("interp")
    rate = wf.data(np.float32([2.0]), label="base") * 0.5**n
    y = wf.node("y")

    @wf.cd
    def use() -> None:
        y[:] = rate * missing.merge

    step = ctx.compile(use())
    with pytest.raises(wf.WeftError, match="nothing was transferred"):
        step()
    with pytest.raises(wf.WeftError, match="nothing was transferred"):
        ctx.devices[0].run(step)
    assert ctx[n] == 0
    ctx[n] = 2
    assert ctx[rate].tolist() == [0.5]  # what the next run will use; looking does not count
    assert ctx[n] == 2


def test_a_schedule_is_an_expression_of_a_counter() -> None:
    n, x = wf.counter("n"), wf.input("x", b="batch", o=2)
    w = wf.param("w", o=1, init=np.float32([[1.0, 1.0]]))
    loss = wf.sum(w @ x, "...|... => 0")
    warm = wf.minimum((n + 1) / 4, 1.0)
    ctx = wf.Context("interp")
    step = ctx.function(x, code=wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1 * warm)))
    for _ in range(6):
        step([[1.0, 0.0]])
    np.testing.assert_allclose(ctx[w], [[1 - 0.1 * (0.25 + 0.5 + 0.75 + 3), 1.0]], rtol=1e-5)


def test_mistakes_with_counters_are_told() -> None:
    n, i, ctx = wf.counter("n"), wf.index("i", 3), wf.Context("interp")
    x = wf.data(ONES, batch=1, label="x")
    for wrong, text in (
        (lambda: wf.counter("2n"), "a counter needs a name that is an identifier"),
        (lambda: wf.counter("n", 0), "counter `n` needs a size from 1 on, not 0"),
        (lambda: ctx[i], r"static index `i` has no value.*\n.*\n.*wf.counter\(\"i\"\) counts runs by itself"),
        (lambda: ctx.__setitem__(n, -1), "counter `n` cannot be set to -1"),
        (lambda: ctx.__setitem__(n, 1.5), "counter `n` cannot be set to 1.5"),
        (lambda: x[n], r'axis 0 of `x` has 3\n(.*\n)*.*wf.counter\("n", 3\)'),
        (lambda: ctx.compile((x * n).forward)(n=3), "the routine has no static index `n`"),
    ):
        with pytest.raises(wf.WeftError, match=text):
            wrong()
    by_hand = ctx.compile((x * n).forward, bindings=[n])
    by_hand(n=7)
    assert ctx[n] == 0
