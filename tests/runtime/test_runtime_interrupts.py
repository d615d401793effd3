"""Signals: an interrupt at any moment leaves a usable context, and a handler may read values."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from runtime.hooked import Hooked
from runtime.scripts import SRC, TIME_LIMIT_S, run_script

PROGRAM = Path(__file__).with_name("interrupting.py")


@pytest.mark.parametrize(
    ("part", "least_interrupts", "least_handlers"), [("cc", 300, 200), ("interp", 300, 200), ("threads", 300, 30)]
)
def test_at_every_point_of_a_run_a_read_a_write_or_a_compilation(
    part: str, least_interrupts: int, least_handlers: int
) -> None:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), part],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(map(str, (SRC, PROGRAM.parent.parent)))},
        capture_output=True,
        text=True,
        timeout=TIME_LIMIT_S,
    )
    assert done.returncode == 0, done.stderr
    interrupts, handlers = map(int, done.stdout.split())
    assert interrupts > least_interrupts
    assert handlers > least_handlers


def test_a_loop_of_short_runs_interrupted_again_and_again() -> None:
    done = run_script(
        """
        import random, signal
        random.seed(0)
        ctx = wf.Context("cc")
        a = wf.param("a", o=64, init=0.0)

        @wf.cd
        def grow():
            a.accumulate("+", 1)

        step = ctx.compile(grow())
        def interrupt(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        for attempt in range(300):
            try:
                signal.setitimer(signal.ITIMER_REAL, random.uniform(1e-4, 1e-3))
                while True:
                    step()
            except KeyboardInterrupt:
                pass
            ctx.synchronize()
            values = ctx[a]
            assert (values == values[0]).all()
        print("usable")
        """
    )
    assert (done.stdout, done.stderr) == ("usable\n", "")


def test_a_handler_that_saves_what_a_loop_of_short_runs_updates() -> None:
    done = run_script(
        """
        import signal
        ctx = wf.Context("cc")
        a = wf.param("a", o=64, init=0.0)

        @wf.cd
        def grow():
            a.accumulate("+", 1)

        step = ctx.compile(grow())
        step()
        saved = []
        signal.signal(signal.SIGALRM, lambda *_: saved.append(ctx[a]))
        for attempt in range(200):
            signal.setitimer(signal.ITIMER_REAL, 0.0005 + 0.0001 * (attempt % 7))
            while len(saved) <= attempt:
                step()
        assert all((one == one[0]).all() for one in saved)
        print(len(saved))
        """
    )
    assert (done.stdout, done.stderr) == ("200\n", "")


def test_a_handler_waits_for_nothing_that_waits_for_what_it_interrupts() -> None:
    """Not on a device that does something else meanwhile either, and not for what another thread asked for since."""
    done = run_script(
        """
        import signal, threading
        from weft.backends.host_memory import HostMemory
        from weft.backends.interp import Interp

        MAIN, go_on = threading.main_thread(), threading.Event()

        class Stopped(HostMemory):
            name = "stopped"
            def compile(self, kernels):
                inner = Interp().compile(kernels)
                class Executable:
                    source = inner.source
                    def bind(self, memory):
                        bound = inner.bind(memory)
                        def run(given):
                            if threading.current_thread() is not MAIN:
                                assert go_on.wait(20)
                            elif meanwhile:
                                meanwhile.pop()()
                                signal.raise_signal(signal.SIGUSR1)
                            bound(given)
                        return run
                return Executable()

        def handle(*_):
            ctx.synchronize()
            for ask in (lambda: ctx[a].item(), lambda: ctx[b].item(), lambda: enqueued[-1].wait()):
                try:
                    told.append(ask())
                except wf.WeftError as error:
                    told.append(error.what)

        def enqueue():
            other = threading.Thread(target=lambda: enqueued.append(ctx.device(0).run(step)))
            other.start()
            other.join()

        meanwhile, enqueued, told, ctx = [], [], [], wf.Context(Stopped())
        a, b = (wf.param(name, o=1, init=0.0) for name in "ab")

        @wf.cd
        def grow(t):
            t[:] = t + 1.0

        step, other = ctx.compile(grow(a)), ctx.compile(grow(b))
        step(), other()
        signal.signal(signal.SIGUSR1, handle)
        meanwhile.append(enqueue)
        step()  # a single call, and something is enqueued behind it
        go_on.set()
        ctx.synchronize()
        print(told)
        told.clear(), go_on.clear()
        busy = ctx.device(0).stream().run(other)
        meanwhile.append(lambda: None)
        signal.signal(signal.SIGUSR1, lambda *_: told.append(ctx[a].item()))
        step()  # in order, after nothing
        go_on.set()
        busy.wait()
        print(told, ctx[a], ctx[b])
        """
    )
    refused = "a signal handler asks for what comes after the run it interrupts: each would wait for the other"
    assert (done.stdout, done.stderr) == (f"{[refused, 1.0, refused]}\n[3.0] [4.] [2.]\n", "")


class Alarm:
    """A backend's hook: a signal arrives in the middle of each run, and its handler does something."""

    def __init__(self, act: Callable[[], object]) -> None:
        self.act = act
        self.inside = False
        self.raised: list[BaseException] = []

    def __call__(self, loops: str) -> None:
        if not self.inside:
            signal.raise_signal(signal.SIGUSR1)

    def handle(self, *_: object) -> None:
        self.inside = True
        try:
            self.act()
        except wf.WeftError as error:
            self.raised.append(error)
        finally:
            self.inside = False


def raised_inside(act: Callable[[wf.Context, wf.Tensor, wf.Routine], object], first: bool = False) -> list[str]:
    """What a handler that does something in the middle of a run is told."""
    a = wf.param("a", o=2, init=-0.0, dtype="float64")
    count = wf.node("count", dtype="float64")
    alarm = Alarm(lambda: act(ctx, count if first else a, step))
    ctx = wf.Context(Hooked(alarm))

    @wf.cd
    def grow() -> None:
        a.accumulate("+", 1)
        count[:] = a * 2.0

    step = ctx.compile(grow())
    before = signal.signal(signal.SIGUSR1, alarm.handle if first else signal.SIG_IGN)
    try:
        step()
        signal.signal(signal.SIGUSR1, alarm.handle)
        step()
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert ctx[a].tolist() == [2.0, 2.0]
    return [str(error) for error in alarm.raised]


def test_a_handler_reads_and_asks() -> None:
    seen: list[list[float]] = []
    assert raised_inside(lambda ctx, a, step: seen.append(ctx[a].tolist())) == []
    assert raised_inside(lambda ctx, a, step: seen.append((ctx[a * 3.0] if a in ctx else np.zeros(2)).tolist())) == []
    assert raised_inside(lambda ctx, a, step: ctx.synchronize()) == []
    assert seen[0] == [1.0, 1.0]
    assert seen[-1] == [3.0, 3.0]


@pytest.mark.parametrize(
    "act",
    [
        lambda ctx, a, step: ctx.__setitem__(a, 5.0),
        lambda ctx, a, step: step(),
        lambda ctx, a, step: ctx.device(0).run(step),
    ],
)
def test_a_handler_changes_nothing_in_the_middle_of_a_run(
    act: Callable[[wf.Context, wf.Tensor, wf.Routine], object],
) -> None:
    (told,) = raised_inside(act)
    assert "a signal handler came in the middle of a run: it can read values, but neither set any nor run" in told
    assert told.startswith("test_runtime_interrupts.py:")
    assert "fix: set a flag in the handler, and act on it between runs" in told


def test_a_handler_does_not_read_what_has_no_value_yet() -> None:
    told = raised_inside(lambda ctx, count, step: ctx[count], first=True)
    assert "`count.a` gets its first value from the run that this signal handler interrupts" in told[0]
    assert len(told) == 2  # while `a` gets its first value, and in the run itself; at the second run it reads


def test_a_handler_does_not_compile_in_the_middle_of_a_compilation() -> None:
    ctx, x = wf.Context("interp"), wf.data(np.ones(2), label="x")
    told: list[str] = []

    def handle(*_: object) -> None:
        assert ctx[x].tolist() == [1.0, 1.0]
        with pytest.raises(wf.WeftError) as caught:
            ctx[x * 2.0]
        told.append(str(caught.value))

    class Slow(Hooked):
        def compile(self, kernels: object) -> object:  # type: ignore[override]
            if signal.getsignal(signal.SIGUSR1) is handle:
                signal.raise_signal(signal.SIGUSR1)
            return super().compile(kernels)  # type: ignore[arg-type]

    ctx = wf.Context(Slow(lambda loops: None))
    ctx[x]
    before = signal.signal(signal.SIGUSR1, handle)
    try:
        ctx[x + 1.0]
    finally:
        signal.signal(signal.SIGUSR1, before)
    (text,) = told
    assert "asks for something that must be compiled, in the middle of a compilation" in text
    assert "let it read what is stored" in text
    assert ctx[x * 2.0].tolist() == [2.0, 2.0]
