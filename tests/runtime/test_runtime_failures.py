"""Errors inside tasks: told once, at the next wait, and what was to be written is not read."""

from __future__ import annotations

import threading
import time

import numpy as np
import pytest

import weft as wf
from runtime.hooked import Hooked, param
from runtime.scripts import run_script
from weft.runtime.events import Event


class Broken(Exception):
    pass


class Trouble:
    """Programs that write a name among `names` fail."""

    def __init__(self) -> None:
        self.names: set[str] = set()
        self.ran: list[str] = []

    def __call__(self, loops: str) -> None:
        written = loops.splitlines()[-1].split("[")[0].strip()
        if written in self.names:
            raise Broken(f"no {written} today")
        self.ran.append(written)


@pytest.fixture
def trouble() -> Trouble:
    return Trouble()


@pytest.fixture
def ctx(trouble: Trouble) -> wf.Context:
    return wf.Context(Hooked(trouble), devices=2)


def copying(ctx: wf.Context, into: wf.Tensor, source: wf.Tensor) -> wf.Routine:
    @wf.cd
    def code() -> None:
        into[:] = source + 1.0

    return ctx.compile(code())


def numbers(*names: str) -> list[wf.Tensor]:
    return [param(name, init=np.zeros(1)) for name in names]


WAITS = {
    "event": lambda ctx, event, t: event.wait(),
    "device": lambda ctx, event, t: ctx.device(1).synchronize(),
    "context": lambda ctx, event, t: ctx.synchronize(),
    "record": lambda ctx, event, t: ctx.device(1).stream().record().wait(),
    "read": lambda ctx, event, t: ctx.device(1)[t],
    "compute": lambda ctx, event, t: ctx.device(1)[t * 2.0],
}


def settled(event: wf.Event) -> None:
    while not event.done:
        time.sleep(0.001)


@pytest.mark.parametrize("way", WAITS)
def test_a_failure_is_told_once(ctx: wf.Context, trouble: Trouble, way: str) -> None:
    a, b = numbers("a", "b")
    trouble.names = {"a"}
    event = ctx.device(1).run(copying(ctx, a, b))
    settled(event)
    with pytest.raises(wf.WeftError) as caught:
        WAITS[way](ctx, event, b)
    assert caught.value.what == "a task on device 1 failed: Broken: no a today"
    assert isinstance(caught.value.__cause__, Broken)
    assert caught.value.origin is not None
    assert caught.value.origin.code == "event = ctx.device(1).run(copying(ctx, a, b))"
    for wait in WAITS.values():
        wait(ctx, event, b)


def test_two_failures_are_both_told(ctx: wf.Context, trouble: Trouble) -> None:
    a, b, c = numbers("a", "b", "c")
    trouble.names = {"a", "b"}
    for name in (a, b):
        settled(ctx.device(0).run(copying(ctx, name, c)))
    told = []
    for _ in range(2):
        with pytest.raises(wf.WeftError, match="a task on device 0 failed") as caught:
            ctx.synchronize()
        told.append(str(caught.value.__cause__))
    assert told == ["no a today", "no b today"]
    ctx.synchronize()


def test_a_call_tells_too(ctx: wf.Context, trouble: Trouble) -> None:
    a, b, c = numbers("a", "b", "c")
    step = copying(ctx, c, b)
    step()
    trouble.names = {"a"}
    settled(ctx.device(0).run(copying(ctx, a, b)))
    with pytest.raises(wf.WeftError, match="no a today"):
        step()
    step()
    assert trouble.ran == ["c", "c"]


def test_what_was_to_be_written_is_not_read(ctx: wf.Context, trouble: Trouble) -> None:
    a, b, c = numbers("a", "b", "c")
    make, use = copying(ctx, a, b), copying(ctx, c, a)
    trouble.names = {"a"}
    settled(ctx.device(0).run(make))
    with pytest.raises(wf.WeftError, match="no a today"):
        ctx.synchronize()
    for attempt in (lambda: ctx[a], lambda: ctx[a * 2.0], use, lambda: ctx.device(0).run(use)):
        with pytest.raises(wf.WeftError) as caught:
            attempt()
        assert caught.value.what == "`a` has no value on device 0: what was to write it failed"
        assert caught.value.notes == ("on device 0: Broken: no a today",)
        assert caught.value.fix.startswith("set it again: ctx[a] = …")
    with pytest.raises(wf.WeftError, match="`a` has no value on device 0"):
        ctx.device(1).receive(a, ctx.device(0))
    assert ctx[b].item() == 0.0
    ctx[a] = 5.0
    use()
    assert ctx[c].item() == 6.0


def test_a_routine_that_failed_does_not_go_on_from_what_it_left(ctx: wf.Context, trouble: Trouble) -> None:
    (a,) = numbers("a")
    step = copying(ctx, a, a)
    step()
    trouble.names = {"a"}
    settled(ctx.device(0).run(step))
    trouble.names = set()
    with pytest.raises(wf.WeftError, match="no a today"):
        ctx.synchronize()
    for again in (lambda: ctx.device(0).run(step), step, step):
        with pytest.raises(wf.WeftError, match="`a` has no value on device 0"):
            again()
    ctx[a] = 1.0
    step()
    assert ctx[a].item() == 2.0
    trouble.names = {"a"}
    with pytest.raises(Broken):
        step()
    trouble.names = set()
    with pytest.raises(wf.WeftError, match="`a` has no value on device 0"):
        step()


def test_a_value_that_is_written_anew_is_there_again(ctx: wf.Context, trouble: Trouble) -> None:
    a, b = numbers("a", "b")
    make = copying(ctx, a, b)
    trouble.names = {"a"}
    settled(ctx.device(0).run(make))
    with pytest.raises(wf.WeftError):
        ctx.synchronize()
    trouble.names = set()
    make()
    assert ctx[a].item() == 1.0


def test_followers_are_skipped(ctx: wf.Context, trouble: Trouble) -> None:
    """Work that reads what a failed task was to write does not run, whichever stream or device it is on."""
    a, b, c, d = numbers("a", "b", "c", "d")
    gate = threading.Event()

    def blocked(loops: str) -> None:
        gate.wait(20)
        trouble(loops)

    ctx = wf.Context(Hooked(blocked), devices=2)
    trouble.names = {"a"}
    one, two = ctx.devices
    one.run(copying(ctx, a, b))
    follower = one.stream().run(copying(ctx, c, a))
    sent = two.receive(c, one)
    bystander = one.stream().run(copying(ctx, d, b))
    gate.set()
    bystander.settle()
    with pytest.raises(wf.WeftError, match="no a today"):
        one.synchronize()
    for event in (follower, sent):
        with pytest.raises(wf.WeftError) as caught:
            event.wait()
        assert caught.value.what == "work was skipped: it reads what a task on device 0 was to write, which failed"
        assert isinstance(caught.value.__cause__, Broken)
        event.wait()
    assert trouble.ran == ["d"]
    with pytest.raises(wf.WeftError, match="`c` has no value on device 1"):
        two[c]
    ctx.synchronize()


def test_a_failed_call_raises_its_own_error_and_loses_what_it_wrote(ctx: wf.Context, trouble: Trouble) -> None:
    a, b = numbers("a", "b")
    step = copying(ctx, a, b)
    for runs in (0, 1):  # seen to for the first time, and ready
        for _ in range(runs):
            step()
        trouble.names = {"a"}
        with pytest.raises(Broken):
            step()
        with pytest.raises(wf.WeftError, match="`a` has no value on device 0"):
            ctx[a]
        trouble.names = set()
        step()
        assert ctx[a].item() == 1.0


def test_a_failed_call_skips_what_waits_for_it(ctx: wf.Context, trouble: Trouble) -> None:
    a, b, c = numbers("a", "b", "c")
    started, gate = threading.Event(), threading.Event()

    def blocked(loops: str) -> None:
        started.set()
        gate.wait(20)
        trouble(loops)

    ctx = wf.Context(Hooked(blocked))
    step, use = copying(ctx, a, b), copying(ctx, c, a)
    gate.set()
    step()
    gate.clear()
    started.clear()
    trouble.names = {"a"}
    errors: list[BaseException] = []

    def call() -> None:
        try:
            step()
        except Broken as error:
            errors.append(error)

    thread = threading.Thread(target=call)
    thread.start()
    started.wait(20)
    event = ctx.device(0).run(use)
    gate.set()
    thread.join(20)
    assert len(errors) == 1
    with pytest.raises(wf.WeftError, match="work was skipped"):
        event.wait()
    assert trouble.ran == ["a"]


def test_an_interrupt_while_waiting_keeps_the_order(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever gives up waiting leaves a place that is as good as what it waited for."""
    a, b = numbers("a", "b")
    gate = threading.Event()
    ctx = wf.Context(Hooked(lambda loops: assert_opens(gate)))
    earlier = ctx.device(0).run(copying(ctx, a, b))

    def interrupted(_: Event) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(Event, "come", interrupted)
    with pytest.raises(KeyboardInterrupt):
        ctx[a] = 5.0
    monkeypatch.undo()
    later = ctx.device(0).stream().run(copying(ctx, a, b))
    time.sleep(0.02)
    assert not later.done
    assert not earlier.done
    gate.set()
    later.wait()
    assert earlier.done
    assert ctx[a].item() == 1.0


def assert_opens(gate: threading.Event) -> None:
    assert gate.wait(20)


def test_what_nobody_waited_for_is_shown_at_the_end_of_the_process() -> None:
    done = run_script(
        """
        from weft.backends.interp import Interp
        class Failing(Interp):
            def compile(self, kernels):
                class Executable:
                    source = ""
                    def bind(self, memory):
                        def run(given):
                            raise OSError("out of luck")
                        return run
                return Executable()
        ctx = wf.Context(Failing())
        w = wf.param("w", init=np.zeros(1))
        ctx.device(0).run(ctx.compile((w * 2.0).forward))
        """
    )
    assert done.returncode == 0
    assert done.stderr == "<string>:16: a task on device 0 failed: OSError: out of luck\n"
