"""A run that is refused because of a position outside has changed nothing that outlasts it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


def lookups() -> dict[str, Callable[[wf.Tensor, wf.Tensor], wf.Tensor]]:
    """Ways in which positions come to a table of six rows, from an input that is to be less than six."""
    return {
        "given": lambda table, ids: table[ids],
        "computed": lambda table, ids: table[(ids + 2) - 2],
        "of what a sum says": lambda table, ids: table[ids + wf.cast(0.0 * wf.sum(table, "...|... => 0"), "int32")],
        "in a recurrence": lambda table, ids: wf.scan(lambda h, at: 0.5 * h + table[at], ids, init=0.0)[0],
    }


def trained(backend: str, way: str) -> tuple[wf.Context, Any, list[wf.Tensor]]:
    ids = wf.input("ids", b="batch", dtype="int32")
    table, w = wf.param("table", o=(6, 3), init=1.0), wf.param("w", o=2, init=0.5)
    loss = wf.mean((w @ lookups()[way](table, ids)) ** 2, "...|... => 0")
    ctx = wf.Context(backend)
    code = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1))
    return ctx, ctx.function(ids, code=code, returns=[loss, w.grad]), [table, w, w.grad]


@BACKENDS
@pytest.mark.parametrize("way", lookups())
@pytest.mark.parametrize("wait", [True, False])
def test_a_step_that_is_refused_changes_nothing(backend: str, way: str, wait: bool) -> None:
    (ctx, step, kept), (other, plain, same) = trained(backend, way), trained(backend, way)
    for ids in ([1, 2], [0, 5]):
        expected = plain(ids)[0]  # what is compiled here is found again there
        np.testing.assert_array_equal(step(ids)[0], expected)
    before = [ctx[one] for one in kept]
    for ids in ([1, 6], [-1, 2]):
        with pytest.raises(wf.WeftError, match="and the positions along `v` are from 0 to 5"):
            step(ids) if wait else step(ids, wait=False).wait()
        for one, array in zip(kept, before, strict=True):
            np.testing.assert_array_equal(ctx[wf.given(one)], array)
    np.testing.assert_array_equal(step([3, 4])[0], plain([3, 4])[0])
    for one, twin in zip(kept, same, strict=True):
        np.testing.assert_array_equal(ctx[one], other[twin])


@wf.cd
def counted(counts: wf.Tensor, ids: wf.Tensor) -> None:
    counts += wf.einsum("...|@v => v", ids, v=4)


@BACKENDS
@pytest.mark.parametrize("optimise", [True, False])
def test_what_positions_are_added_to_stays_as_it_was(backend: str, optimise: bool) -> None:
    ids, counts = wf.input("ids", b="batch", dtype="int32"), wf.node("counts", o=4, init=0)
    with wf.config.using(optimise=optimise):
        ctx = wf.Context(backend)
        count = ctx.function(ids, code=counted(counts, ids))
        count([1, 1, 3])
        with pytest.raises(wf.WeftError, match=r"`ids\[0\]` is 4, and the positions along `v` are from 0 to 3"):
            count([4, 0])
        assert ctx[counts].tolist() == [0, 2, 0, 1]
        count([0])
    assert ctx[counts].tolist() == [1, 2, 0, 1]


@wf.cd
def walked(at: wf.Tensor, path: wf.Tensor, seen: wf.Tensor) -> None:
    at += 1
    seen += path[at]


@BACKENDS
def test_positions_that_the_run_itself_writes_are_put_back(backend: str) -> None:
    """They are known only when they are written."""
    at = wf.node("at", dtype="int32", scalar=True, init=0)
    seen = wf.node("seen", o=1, init=0.0)
    ctx = wf.Context(backend)
    step = ctx.compile(walked(at, wf.tensor([1.0, 10.0, 100.0]), seen))
    step()
    step()
    for _ in range(2):
        with pytest.raises(wf.WeftError, match="and the positions along"):
            step()
        assert (ctx[at].tolist(), ctx[seen].tolist()) == ([2], [110.0])


@BACKENDS
def test_calls_enqueued_behind_one_that_is_refused_go_on(backend: str) -> None:
    """From first values, which it computed before it was refused."""
    (ctx, step, kept), (other, plain, same) = trained(backend, "given"), trained(backend, "given")
    refused, *others = [step(ids, wait=False) for ids in ([1, 9], [3, 4], [5, 5])]
    with pytest.raises(wf.WeftError, match="and the positions along `v`"):
        refused.wait()
    for call, ids in zip(others, ([3, 4], [5, 5]), strict=True):
        np.testing.assert_array_equal(call.wait()[0], plain(ids)[0])
    for one, twin in zip(kept, same, strict=True):
        np.testing.assert_array_equal(ctx[one], other[twin])


@BACKENDS
def test_what_another_device_sent_is_not_used_up(backend: str) -> None:
    ctx = wf.Context(backend, devices=2)
    w, at = wf.param("w", o=1, init=1.0), wf.node("at", dtype="int32", scalar=True, init=5)

    @wf.cd
    def merged() -> None:
        w[:] = w.merge + wf.tensor([10.0, 20.0])[at]

    step = ctx.compile(merged())
    ctx.device(1)[w] = 5.0
    ctx.device(0).receive(w, ctx.device(1), merge=True)
    with pytest.raises(wf.WeftError, match=r"`at.*` is 5, and the positions"):
        step()
    ctx[at] = 1
    step()
    assert ctx[w].item() == 25.0


# What is said


@BACKENDS
def test_a_computed_position_is_named_where_it_stands(backend: str) -> None:
    """Also where it was computed on the way and not stored."""
    table, n = wf.tensor([1.0, 2.0, 3.0, 4.0]), wf.index("n", 5)
    ids = wf.data(np.array([[0, 1], [3, 0]], "int32"), batch=2, label="ids")
    ctx = wf.Context(backend)
    with pytest.raises(wf.WeftError, match=r"`add\[1, 0\]` is 5, and the positions along `v` are from 0 to 3"):
        ctx[table[ids + 2]]
    moved = ctx.compile((table[ids - n] * 2.0).forward, bindings=[n])
    moved(n=0)
    with pytest.raises(wf.WeftError, match=r"`sub\[0, 0\]` is -1, and the positions"):
        moved(n=1)


@BACKENDS
@pytest.mark.parametrize("reverse", [False, True])
def test_a_position_of_a_recurrence_is_named_with_its_step(backend: str, reverse: bool) -> None:
    steps = wf.data(np.array([[0, 1], [2, 3], [1, 2]], "int32"), batch=2, label="steps")
    table = wf.tensor([1.0, 2.0, 3.0, 4.0, 5.0])
    hs, _ = wf.scan(lambda h, k: 0.5 * h + table[2 * k], steps, init=0.0, reverse=reverse)
    with pytest.raises(wf.WeftError, match=r"`mul\[1\]` is 6, and the positions along `v` are from 0 to 4") as caught:
        wf.Context(backend)[hs]
    assert caught.value.notes == ("in step 1",)
