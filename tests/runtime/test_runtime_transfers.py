"""Transfers between devices: values, merge buffers, their order, and what is refused."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import weft as wf
from runtime.hooked import Hooked, param

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


@wf.cd
def add_one(w):  # type: ignore[no-untyped-def]
    w[:] = w + 1.0


@wf.cd
def add_merged(w):  # type: ignore[no-untyped-def]
    w += w.merge


@pytest.fixture
def ctx() -> wf.Context:
    return wf.Context("interp", devices=3)


@BACKENDS
def test_a_value_is_copied_from_device_to_device(backend: str) -> None:
    ctx = wf.Context(backend, devices=2)
    one, two = ctx.devices
    w = param(o=3, init=1.0)
    one[w] = [1.0, 2.0, 3.0]
    event = two.receive(w, one)
    assert isinstance(event, wf.Event)
    event.wait()
    one[w] = 0.0
    assert two[w].tolist() == [1.0, 2.0, 3.0]
    two[w] = 5.0
    assert one[w].tolist() == [0.0, 0.0, 0.0]


@BACKENDS
def test_gradients_are_merged(backend: str) -> None:
    ctx = wf.Context(backend, devices=2)
    p = param("p", o=2, init=[1.0, 2.0])
    update = ctx.compile(wf.grad_update(wf.einsum("i => 0", p * p)), keep=[p.grad])

    @wf.cd
    def merge() -> None:
        p.grad += p.grad.merge

    merge_grads = ctx.compile(merge())
    for device in ctx.devices:
        device.run(update)
    ctx.device(0).receive(p.grad, ctx.device(1), merge=True)
    merge_grads()
    assert [device[p.grad].tolist() for device in ctx.devices] == [[4, 8], [2, 4]]


def test_what_is_computed_can_be_sent_once_it_is_stored(ctx: wf.Context) -> None:
    w = param(o=1, init=2.0)
    y = w * 3.0
    run = ctx.compile(y.forward)
    ctx.device(1)[w] = 5.0
    ctx.device(1).run(run)
    ctx.device(2).receive(y, ctx.device(1))
    assert ctx.device(2)[y].item() == 15.0
    assert ctx.device(0)[y].item() == 6.0


def test_the_user_s_array_is_not_written_by_a_transfer(ctx: wf.Context) -> None:
    array = np.zeros(2)
    x = wf.data(array, label="x")
    for device in ctx.devices:
        device[x]
    ctx.device(1)[x] = 7.0
    ctx.device(0).receive(x, ctx.device(1)).wait()
    assert ctx[x].tolist() == [7.0, 7.0]
    assert array.tolist() == [0.0, 0.0]
    ctx.device(1).receive(x, ctx.device(2)).wait()
    assert ctx.device(1)[x].tolist() == [0.0, 0.0]


def test_a_copy_comes_after_what_its_source_had_enqueued_and_before_its_later_writes() -> None:
    gate = threading.Event()
    ctx = wf.Context(Hooked(lambda loops: assert_opens(gate) if "w[" in loops else None), devices=2)
    one, two = ctx.devices
    w = param("w", init=np.zeros(1))
    step = ctx.compile(add_one(w))
    one.run(step)
    copied = two.receive(w, one)
    later = one.run(step)
    time.sleep(0.02)
    assert not copied.done
    gate.set()
    later.wait()
    assert (one[w].item(), two[w].item()) == (2.0, 1.0)


def assert_opens(gate: threading.Event) -> None:
    assert gate.wait(20)


def test_a_source_waits_for_the_copy_before_it_writes_again() -> None:
    """The target is held up, so the copy is late; the source must not run ahead of it."""
    gate = threading.Event()
    ctx = wf.Context(Hooked(lambda loops: assert_opens(gate) if loops.startswith("# v") else None), devices=2)
    one, two = ctx.devices
    w, v = param("w", init=np.zeros(1)), param("v", init=np.zeros(1))
    two.run(ctx.compile(add_one(v)))
    one[w] = 1.0
    copied = two.receive(w, one)
    written = one.run(ctx.compile(add_one(w)))
    time.sleep(0.02)
    assert not copied.done
    assert not written.done
    gate.set()
    assert (one[w].item(), two[w].item()) == (2.0, 1.0)


def test_a_call_while_a_copy_is_pending_waits_for_it() -> None:
    gate = threading.Event()
    ctx = wf.Context(Hooked(lambda loops: assert_opens(gate) if loops.startswith("# v") else None), devices=2)
    one, two = ctx.devices
    w, v = param("w", init=np.zeros(1)), param("v", init=np.zeros(1))
    step = ctx.compile(add_one(w))
    step()
    two.run(ctx.compile(add_one(v)))
    two.receive(w, one)
    threading.Timer(0.05, gate.set).start()
    step()
    assert (one[w].item(), two[w].item()) == (2.0, 1.0)


# What is refused


def test_a_source_without_a_stored_value_is_refused(ctx: wf.Context) -> None:
    w = param("w", o=2, init=1.0)
    ctx[w]
    with pytest.raises(wf.WeftError) as caught:
        ctx.device(0).receive(w, ctx.device(2))
    assert caught.value.what == "device 2 stores no value of `w` to transfer"
    assert caught.value.fix == "run what computes it there, with keep=[w], or set it: ctx.device(2)[w] = …"
    assert caught.value.origin is not None
    assert caught.value.origin.code == "ctx.device(0).receive(w, ctx.device(2))"
    with pytest.raises(wf.WeftError, match="device 0 stores no value of `mul`"):
        ctx.device(1).receive(w * 2.0, ctx.device(0), merge=True)


def test_a_device_does_not_receive_from_itself(ctx: wf.Context) -> None:
    w = param(o=2, init=1.0)
    with pytest.raises(wf.WeftError, match="device 1 cannot receive `w` from itself"):
        ctx.device(1).receive(w, ctx.device(1))


def test_a_device_of_another_context_is_refused(ctx: wf.Context) -> None:
    w, other = param(o=2, init=1.0), wf.Context("interp", devices=2)
    other[w]
    with pytest.raises(wf.WeftError, match=r"`w` cannot come from <device 0 of context .*>: device 1 is of another"):
        ctx.device(1).receive(w, other.device(0))


@pytest.mark.parametrize("source", [0, None, "device 1"])
def test_what_is_no_device_is_refused(ctx: wf.Context, source: object) -> None:
    with pytest.raises(wf.WeftError, match=f"a device receives from a device, not {type(source).__name__}"):
        ctx.device(0).receive(param(o=2), source)  # type: ignore[arg-type]


def test_what_is_no_tensor_is_refused(ctx: wf.Context) -> None:
    with pytest.raises(wf.WeftError, match="holds tensors, not str"):
        ctx.device(0).receive("w", ctx.device(1))  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match=r"`w\.merge` is read by code only"):
        ctx.device(0).receive(param("w", o=2).merge, ctx.device(1))


def test_a_merge_buffer_nothing_was_put_into_is_refused(ctx: wf.Context) -> None:
    w = param("w", o=1, init=1.0)
    run = ctx.compile(add_merged(w))
    with pytest.raises(wf.WeftError) as caught:
        ctx.device(1).run(run)
    assert caught.value.what == "nothing was transferred into `w.merge` on device 1"
    assert caught.value.notes == ()
    assert caught.value.fix == "transfer it first: device.receive(w, source, merge=True)"
    assert caught.value.origin is not None
    assert caught.value.origin.code == "ctx.device(1).run(run)"


def test_a_merge_buffer_is_used_up_by_reading_it(ctx: wf.Context) -> None:
    w = param("w", o=1, init=1.0)
    run = ctx.compile(add_merged(w))
    ctx.device(1)[w] = 5.0
    ctx.device(0).receive(w, ctx.device(1), merge=True)
    run()
    assert ctx[w].item() == 6.0
    with pytest.raises(wf.WeftError, match=r"nothing was transferred into `w\.merge` on device 0"):
        run()
    assert ctx[w].item() == 6.0
    ctx.device(0).receive(w, ctx.device(1), merge=True)
    ctx.device(0).receive(w, ctx.device(1), merge=True)
    run()
    assert ctx[w].item() == 11.0


def test_a_merge_in_the_wrong_direction_says_what_is_there(ctx: wf.Context) -> None:
    p, q = param("p", o=1, init=1.0), param("q", o=1, init=1.0)
    run = ctx.compile(add_merged(p))
    for device in ctx.devices:
        device[q], device[p] = 2.0, 3.0
    ctx.device(1).receive(q, ctx.device(2), merge=True)
    ctx.device(0).receive(p, ctx.device(1), merge=True)
    with pytest.raises(wf.WeftError) as caught:
        ctx.device(1).run(run)
    assert caught.value.what == "nothing was transferred into `p.merge` on device 1"
    assert caught.value.notes == ("it holds `q` from device 2",)
    ctx.device(0).run(run)
    assert ctx[p].item() == 6.0


def test_the_merge_buffer_and_the_value_are_two_things(ctx: wf.Context) -> None:
    w = param("w", o=1, init=1.0)
    ctx.device(1)[w] = 5.0
    ctx.device(0).receive(w, ctx.device(1), merge=True).wait()
    assert ctx[w].item() == 1.0
    assert ctx[w.merge * 2.0].item() == 10.0
    with pytest.raises(wf.WeftError, match=r"nothing was transferred into `w\.merge`"):
        ctx[w.merge * 2.0]
    with pytest.raises(wf.WeftError, match=r"`w\.merge` is read by code only"):
        ctx[w.merge]


def test_a_run_that_is_refused_uses_up_nothing(ctx: wf.Context) -> None:
    w, n = param("w", o=1, init=1.0), wf.node("n", dtype="float64")

    @wf.cd
    def code() -> None:
        w[:] = w.merge + n

    run = ctx.compile(code())
    ctx.device(1)[w] = 5.0
    ctx.device(0).receive(w, ctx.device(1), merge=True)
    with pytest.raises(wf.WeftError, match="`n` is read"):
        run()
    ctx[n] = 1.0
    run()
    assert ctx[w].item() == 6.0
