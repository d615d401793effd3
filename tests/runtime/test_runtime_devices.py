"""Devices: several in a context, each with memory of its own; runs that are enqueued; a context's life."""

from __future__ import annotations

import gc
import weakref
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

import weft as wf
from runtime.hooked import ended, param
from weft.runtime import context
from weft.runtime.context import unlisted
from weft.runtime.default_context import DefaultContext
from weft.tensor.evaluator import evaluator

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


@wf.cd
def double(w):  # type: ignore[no-untyped-def]
    w[:] = w * 2.0


@BACKENDS
def test_each_device_has_memory_of_its_own(backend: str) -> None:
    ctx = wf.Context(backend, devices=3)
    w = param(o=2, init=1.0)
    step = ctx.compile(double(w))
    step()
    ctx.device(1)[w] = [5.0, 6.0]
    ctx.device(1).run(step)
    assert [device[w].tolist() for device in ctx.devices] == [[2, 2], [10, 12], [1, 1]]
    assert ctx[w].tolist() == [2, 2]


@BACKENDS
def test_data_set_between_calls_is_seen_by_the_next(backend: str) -> None:
    """The first time it takes the place of the user's array, later it is written where it is."""
    ctx = wf.Context(backend)
    x, other = wf.data(np.array([1.0, 2.0]), label="x"), param(o=2, init=0.0)
    y = x * 10.0
    step = ctx.compile(y.forward)
    for value in (None, 3.0, 4.0, [5.0, 6.0]):
        if value is not None:
            ctx[x] = value
            ctx[other] = value
        step()
        assert ctx[y].tolist() == [10.0, 20.0] if value is None else (ctx[y] == 10 * np.asarray(value)).all()


def test_a_context_speaks_for_device_0() -> None:
    ctx = wf.Context("interp", devices=2)
    w = param(o=1, init=1.0)
    ctx[w] = 3.0
    assert [device[w].item() for device in ctx.devices] == [3.0, 1.0]
    ctx.devices[0][w] = 4.0
    assert ctx[w].item() == 4.0


def test_parameters_start_alike_on_all_devices() -> None:
    ctx = wf.Context("interp", devices=3)
    w = param(o=7)
    first, *others = (device[w].tobytes() for device in ctx.devices)
    assert others == [first, first]


def test_devices_are_found_by_index() -> None:
    ctx = wf.Context("interp", devices=2)
    assert [device.index for device in ctx.devices] == [0, 1]
    assert ctx.device(1) is ctx.devices[1]
    assert repr(ctx) == "<context on interp, 2 devices>"
    assert repr(ctx.device(1)) == "<device 1 of context on interp, 2 devices>"
    assert repr(ctx.device(1).stream()) == "<stream of <device 1 of context on interp, 2 devices>>"


@pytest.mark.parametrize("index", [2, -1, 1.0, True, "0", None])
def test_a_device_that_does_not_exist_is_refused(index: object) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.Context("interp", devices=2).device(index)  # type: ignore[arg-type]
    assert caught.value.what == f"there is no device {index!r}: the context has 2"
    assert caught.value.fix == "use 0 to 1, or make more: wf.Context(…, devices=n)"
    assert str(caught.value).startswith("test_runtime_devices.py:")


@pytest.mark.parametrize("count", [0, -1, 1.5, True, "2", None])
def test_a_number_of_devices_that_makes_no_sense_is_refused(count: object) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.Context("interp", devices=count)  # type: ignore[arg-type]
    assert caught.value.what == f"a context needs a whole number of devices from 1 on, not {count!r}"


def test_a_routine_runs_on_any_device_with_its_indices() -> None:
    ctx = wf.Context("interp", devices=2)
    x, i = wf.data(np.arange(6.0).reshape(3, 2), batch=1), wf.index("i", 3)
    row = x[i] * 1.0
    run = ctx.compile(row.forward, bindings=[i])
    ctx.device(1).run(run, i=2).wait()
    run(i=1)
    assert [device[row].tolist() for device in ctx.devices] == [[2, 3], [4, 5]]
    with pytest.raises(wf.WeftError, match="i=3 is outside the range"):
        ctx.device(1).run(run, i=3)
    with pytest.raises(wf.WeftError, match="static index `i` is not bound"):
        ctx.device(1).run(run)


def test_an_index_may_have_any_name() -> None:
    ctx = wf.Context("interp")
    for name in ("self", "routine", "values"):
        index = wf.index(name, 3)
        total = wf.number(1.0) * index
        run = ctx.compile(total.forward, bindings=[index])
        ctx.device(0).run(run, **{name: 2}).wait()
        assert ctx[total].item() == 2.0


def test_garbage_is_refused_on_the_device_that_would_read_it() -> None:
    ctx = wf.Context("interp", devices=2)
    n, m = wf.node("n", dtype="float64"), wf.node("m", dtype="float64")

    @wf.cd
    def code() -> None:
        m[:] = n * wf.data(np.ones(2))

    run = ctx.compile(code())
    ctx[n] = 3.0
    run()
    with pytest.raises(wf.WeftError) as caught:
        ctx.device(1).run(run)
    assert caught.value.what.startswith("`n` is read by a routine that starts with `")
    assert caught.value.what.endswith("` on device 1 but never got a value")
    assert caught.value.fix == "set it first: ctx.device(1)[n] = …, or give it init=…"
    assert caught.value.origin is not None
    assert caught.value.origin.code == "ctx.device(1).run(run)"
    ctx.device(1)[n] = 4.0
    ctx.device(1).run(run)
    assert ctx.device(1)[m].tolist() == [4, 4]


def test_a_gradient_not_stored_on_a_device_is_refused() -> None:
    ctx = wf.Context("interp", devices=2)
    p = param(o=2)
    ctx.compile(wf.grad_update(wf.einsum("i => 0", p * p)), keep=[p.grad])()
    ctx[p.grad]
    with pytest.raises(wf.WeftError, match=r"`w\.grad` is not stored on device 1: no routine left it behind"):
        ctx.device(1)[p.grad]


def test_only_routines_of_the_context_run() -> None:
    ctx, other = wf.Context("interp"), wf.Context("interp")
    w = param(o=1)
    with pytest.raises(wf.WeftError, match="run takes a routine or a function, not Tensor"):
        ctx.device(0).run(w)  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match="compiled for another context than that of device 0") as caught:
        ctx.device(0).run(other.compile(double(w)))
    assert caught.value.fix == "compile the code with the context it shall run in"


def test_a_routine_that_used_up_what_it_read_is_refused_the_second_time() -> None:
    """Also when nothing else ran in between."""
    ctx = wf.Context("interp")
    p = param(o=1, init=1.0)

    @wf.cd
    def use_up() -> None:
        p.grad *= 0.5
        p[:] = p - p.grad

    ctx.compile(wf.grad_update(wf.einsum("i => 0", p * p)), keep=[p.grad])()
    run = ctx.compile(use_up())
    run()
    assert ctx[p].item() == 0.0
    with pytest.raises(wf.WeftError, match=r"`w\.grad` is read by a routine"):
        run()


# Life


def test_a_closed_context_is_not_used_again() -> None:
    w = param(o=1, init=1.0)
    with wf.Context("interp", devices=2) as ctx:
        step = ctx.compile(double(w))
        step()
        stream = ctx.device(1).stream()
        events = [ctx.device(1).run(step), stream.run(step)]
        workers = [ctx.device(1)._state.queue._worker, stream._queue._worker]
    assert all(event.done for event in events)
    assert not any(worker is None or worker.is_alive() for worker in workers)
    for use in (
        lambda: ctx[w],
        lambda: step(),
        lambda: ctx.device(1).run(step),
        lambda: ctx.compile(double(w)),
        lambda: ctx.synchronize(),
        lambda: ctx.device(0).stream().record(),
    ):
        with pytest.raises(wf.WeftError) as caught:
            use()
        assert (caught.value.what, caught.value.fix) == ("the context is closed", "make another: wf.Context(…)")
    with pytest.raises(wf.WeftError, match="the context is closed"):
        ctx[w] = 1.0
    assert not ctx._engine.devices[0].memory.blocks
    ctx.close()


def test_what_the_body_of_a_with_raises_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError), wf.Context("interp"):
        raise ZeroDivisionError


def test_a_context_is_let_go() -> None:
    ctx = wf.Context("interp", devices=2)
    w = param(o=1, init=1.0)
    step = ctx.compile(double(w))
    step()
    ctx.device(1).run(step).wait()
    stream = ctx.device(1).stream()
    stream.run(step).wait()
    assert ctx[w * 3.0].item() == 6.0
    engine = weakref.ref(ctx._engine)
    worker = stream._queue._worker
    assert worker is not None
    del ctx, step, stream
    gc.collect()
    assert engine() is None
    assert ended(worker)


def test_a_device_or_a_routine_keeps_what_it_needs() -> None:
    w = param(o=1, init=1.0)
    step = wf.Context("interp").compile(double(w))
    device = wf.Context("interp", devices=2).device(1)
    gc.collect()
    step()
    device[w] = 5.0
    assert device[w].item() == 5.0


def test_numpy_reads_from_contexts_in_use() -> None:
    w = param(o=1, init=1.0)
    ctx = wf.Context("interp")
    ctx[w] = 2.0
    newer = wf.Context("interp")
    newer[w] = 3.0
    with pytest.raises(wf.WeftError, match="two contexts hold different values of `w`"):
        np.asarray(w)
    del newer
    gc.collect()
    assert np.asarray(w).item() == 2.0


def test_numpy_does_not_read_parameters_of_a_context_that_is_gone(monkeypatch: pytest.MonkeyPatch) -> None:
    none_yet = DefaultContext(unlisted)
    monkeypatch.setattr(evaluator, "evaluate", none_yet)
    monkeypatch.setattr(context, "listed", none_yet)
    w = param(o=1, init=1.0)
    with pytest.raises(wf.WeftError) as caught:
        np.asarray(w * 2.0)
    assert (caught.value.what, caught.value.fix) == ("no context can compute `mul`", "create a wf.Context")
    wf.Context("interp")[w] = 2.0
    gc.collect()
    with pytest.raises(wf.WeftError) as caught:
        np.asarray(w * 2.0)
    assert caught.value.what == "no context can compute `mul`: the one that held its parameters is gone"
    assert np.asarray(wf.number(2.0) + 1.0).tolist() == [3.0]


def test_a_context_made_in_one_thread_is_asked_by_another() -> None:
    with ThreadPoolExecutor(1) as pool:
        ctx, w = pool.submit(wf.Context, "interp").result(), param(o=1, init=1.0)
        ctx[w] = 2.0
        assert np.asarray(w).item() == 2.0
        assert pool.submit(np.asarray, w * 3.0).result().item() == 6.0
    with ThreadPoolExecutor(1) as pool:  # a thread started later
        assert pool.submit(np.asarray, w * 4.0).result().item() == 8.0
