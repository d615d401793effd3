"""Threads, forks, the end of the process, and a million calls."""

from __future__ import annotations

import gc
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from runtime.hooked import Hooked, ended, param
from runtime.scripts import run_script

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])


@wf.cd
def add(w, step):  # type: ignore[no-untyped-def]
    w[:] = w + step


# Threads


@BACKENDS
def test_two_threads_run_routines_of_one_context(backend: str) -> None:
    """What both write is written in turns: nothing is lost."""
    ctx = wf.Context(backend)
    w = param(o=1, init=0.0)
    runs = [ctx.compile(add(w, step)) for step in (1.0, 1000.0)]
    count = 400

    def work(run: wf.Routine) -> None:
        for _ in range(count):
            run()

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, runs))
    assert ctx[w].item() == 1001.0 * count


@BACKENDS
def test_two_threads_run_one_routine_with_indices_of_their_own(backend: str) -> None:
    ctx = wf.Context(backend)
    w, i = param(o=1, init=0.0), wf.index("i", 1001)
    run = ctx.compile(add(w, i), bindings=[i])

    def work(at: int) -> None:
        for _ in range(400):
            run(i=at)

    with ThreadPoolExecutor(2) as pool:
        list(pool.map(work, (1, 1000)))
    assert ctx[w].item() == 1001.0 * 400


def test_a_thread_that_calls_again_and_again_lets_others_in() -> None:
    ctx = wf.Context(Hooked(lambda _: time.sleep(0.0005)))
    w, stop = param(o=1, init=0.0), threading.Event()
    greedy, modest = (ctx.compile(add(w, step)) for step in (1.0, 2.0))
    greedy()

    def work() -> None:
        while not stop.is_set():
            greedy()

    thread = threading.Thread(target=work)
    thread.start()
    started = time.monotonic()
    for _ in range(20):
        modest()
    spent = time.monotonic() - started
    stop.set()
    thread.join(20)
    assert spent < 5


def test_threads_enqueue_read_and_set_at_once() -> None:
    ctx = wf.Context("interp", devices=2)
    w = param(o=1, init=0.0)
    run = ctx.compile(add(w, 1.0))
    run()

    def work(number: int) -> None:
        device, stream = ctx.device(number % 2), ctx.device(number % 2).stream()
        for _ in range(50):
            stream.run(run)
            device.run(run)
            device[w]

    with ThreadPoolExecutor(4) as pool:
        list(pool.map(work, range(4)))
    assert [device[w].item() for device in ctx.devices] == [201.0, 200.0]


def test_threads_compile_at_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On one context: names are distinct, and everybody gets the code asked for."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    ctx = wf.Context("cc")

    def work(number: int) -> float:
        w = param("w", o=number + 1, init=1.0)
        total = wf.einsum("i => 0", w * float(number))
        ctx.compile(total.forward)()
        return float(ctx[total].item())

    with ThreadPoolExecutor(4) as pool:
        found = list(pool.map(work, range(8)))
    assert found == [number * (number + 1.0) for number in range(8)]
    names = [buffer.name for buffer in ctx._engine.devices[0].memory.blocks]
    assert len(names) == len(set(names))


def test_the_compiler_runs_without_a_lock() -> None:
    """While one thread's backend compiles, another lowers, compiles and runs."""
    compiling, go_on = threading.Event(), threading.Event()

    class Slow(Hooked):
        def compile(self, kernels):  # type: ignore[no-untyped-def]
            if threading.current_thread().name == "slow":
                compiling.set()
                assert go_on.wait(20)
            return super().compile(kernels)

    ctx = wf.Context(Slow(lambda _: None))
    v, w = param("v", o=1, init=0.0), param("w", o=1, init=0.0)
    thread = threading.Thread(target=lambda: ctx.compile(add(v, 1.0))(), name="slow")
    thread.start()
    assert compiling.wait(20)
    ctx.compile(add(w, 1.0))()
    assert ctx[w].item() == 1.0
    go_on.set()
    thread.join(20)
    assert ctx[v].item() == 1.0


def test_first_values_are_compiled_without_a_lock() -> None:
    compiling, go_on = threading.Event(), threading.Event()

    class Slow(Hooked):
        def compile(self, kernels):  # type: ignore[no-untyped-def]
            if threading.current_thread().name == "slow":
                compiling.set()
                assert go_on.wait(20)
            return super().compile(kernels)

    ctx = wf.Context(Slow(lambda _: None))
    v, w = param("v", o=1, init=7.0), param("w", init=np.zeros(1))
    first, second = ctx.compile(add(v, 1.0)), ctx.compile(add(w, 1.0))
    thread = threading.Thread(target=first, name="slow")
    thread.start()
    assert compiling.wait(20)
    second()
    go_on.set()
    thread.join(20)
    assert (ctx[v].item(), ctx[w].item()) == (8.0, 1.0)


def test_a_compile_that_fails_leaves_no_trace() -> None:
    """In the backend, after code was lowered, just as before."""
    broken = True

    class Failing(Hooked):
        def compile(self, kernels):  # type: ignore[no-untyped-def]
            if broken:
                raise wf.WeftError("no")
            return super().compile(kernels)

    ctx = wf.Context(Failing(lambda _: None))
    for _ in range(3):
        with pytest.raises(wf.WeftError, match="no") as caught:
            ctx.compile(add(param("w", o=1, init=0.0), 1.0))
        assert caught.value.origin is not None
    broken = False
    w = param("w", o=1, init=0.0)
    assert ctx.compile(add(w, 1.0)).show("assign") == "w =: w + 1.0"


def test_a_compile_that_fails_takes_nothing_from_others() -> None:
    lowered, go_on = threading.Event(), threading.Event()

    class Failing(Hooked):
        def compile(self, kernels):  # type: ignore[no-untyped-def]
            if threading.current_thread().name == "failing":
                lowered.set()
                assert go_on.wait(20)
                raise wf.WeftError("no")
            return super().compile(kernels)

    ctx = wf.Context(Failing(lambda _: None))
    v, w = (param(name, init=np.zeros(1)) for name in "vw")
    errors: list[str] = []

    def fail() -> None:
        try:
            ctx.compile(add(v, 1.0))
        except wf.WeftError as error:
            errors.append(error.what)

    thread = threading.Thread(target=fail, name="failing")
    thread.start()
    assert lowered.wait(20)
    ctx[v] = 3.0
    step = ctx.compile(add(w, v))
    go_on.set()
    thread.join(20)
    assert errors == ["no"]
    u = param("u", init=np.ones(1))
    ctx.compile(add(u, 1.0))()
    step()
    assert (ctx[v].item(), ctx[w].item(), ctx[u].item()) == (3.0, 3.0, 2.0)


# Forks

FORK = """
import os, sys, threading, warnings
warnings.simplefilter("ignore")  # newer Pythons warn of forks beside threads
w = wf.param("w", init=np.zeros(1))
@wf.cd
def add(step):
    w[:] = w + step
ctx = wf.Context({backend!r}, devices=2)
step = ctx.compile(add(1.0))
"""


@BACKENDS
def test_a_child_goes_on_with_a_context_made_before(backend: str) -> None:
    done = run_script(
        FORK.format(backend=backend)
        + """
step()
stream = ctx.device(1).stream()
for _ in range(50):
    ctx.device(1).run(step)
    stream.run(step)
child = os.fork()
step()
ctx.device(1).run(step)
stream.run(step)
ctx.device(0).receive(w, ctx.device(1), merge=True)
other = ctx.compile(add(w.merge))
other()
who = "parent" if child else "child"
os.write(1, f"{who} {ctx[w].item()} {ctx.device(1)[w].item()}\\n".encode())
if child:
    sys.exit(os.waitpid(child, 0)[1])
"""
    )
    assert done.returncode == 0, done.stderr
    assert sorted(done.stdout.splitlines()) == ["child 104.0 102.0", "parent 104.0 102.0"]
    assert done.stderr == ""


def test_a_fork_waits_for_threads_at_work() -> None:
    """Threads keep calling, enqueuing and compiling while the process forks; every child can work."""
    done = run_script(
        FORK.format(backend="interp")
        + """
stop = threading.Event()
def call():
    while not stop.is_set():
        step()
def enqueue():
    while not stop.is_set():
        ctx.device(0).run(step).wait()
def compile():
    while not stop.is_set():
        ctx.compile(add(2.0))
square = wf.tc.define("def square(double(N,M) A) -> (B) { B(n, m) = A(n, m) * A(n, m) }").square
ones = np.ones((300, 300))
def call_a_comprehension():
    while not stop.is_set():
        square(ones)
threads = [threading.Thread(target=target) for target in (call, enqueue, compile, call_a_comprehension)]
for thread in threads:
    thread.start()
failed = 0
for _ in range(20):
    child = os.fork()
    if not child:
        before = ctx[w].item()
        step()
        ctx.device(0).run(step).wait()
        ctx.compile(add(3.0))()
        os._exit(0 if ctx[w].item() == before + 5.0 and (square(ones) == ones).all() else 1)
    failed += os.waitpid(child, 0)[1] != 0
stop.set()
for thread in threads:
    thread.join()
print(failed)
"""
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "0\n", "")


def test_a_fork_finds_no_lock_of_a_property_that_is_being_made() -> None:
    done = run_script(
        """
        import os, threading
        from weft.lazy import lazy_property
        begun, over = threading.Event(), threading.Event()
        class Slow:
            @lazy_property
            def value(self):
                begun.set()
                over.wait()
                return 2
        thread = threading.Thread(target=lambda: Slow().value)
        thread.start()
        begun.wait()
        child = os.fork()
        over.set()
        if not child:
            os._exit(Slow().value)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (done.stdout, done.stderr) == ("2\n", "")


def test_a_fork_waits_for_a_room_that_is_being_loaded() -> None:
    done = run_script(
        """
        import os, threading, weft.runtime.fork
        from weft.lazy import LOADING
        begun, over = threading.Event(), threading.Event()
        def load():
            with LOADING:
                begun.set()
                over.wait()
        thread = threading.Thread(target=load)
        thread.start()
        begun.wait()
        threading.Timer(0.1, over.set).start()
        child = os.fork()
        if not child:
            wf.optim
            os._exit(3 if over.is_set() else 4)
        print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
        """
    )
    assert (done.stdout, done.stderr) == ("3\n", "")


# The end of the process


@pytest.mark.parametrize("end", ["", "del ctx, step, w", "sys.exit(0)", "raise SystemExit"])
def test_what_is_enqueued_is_done_before_the_process_ends(end: str) -> None:
    done = run_script(
        """
        import sys, time, atexit
        from weft.backends.interp import Interp
        class Slow(Interp):
            def compile(self, kernels):
                inner = super().compile(kernels)
                class Executable:
                    source = ""
                    def bind(self, memory):
                        bound = inner.bind(memory)
                        def run(given):
                            time.sleep(0.01)
                            bound(given)
                            print(end="x")
                        return run
                return Executable()
        ctx = wf.Context(Slow(), devices=2)
        w = wf.param("w", init=np.zeros(1))
        step = ctx.compile((w * 2.0).forward)
        for device in ctx.devices:
            for _ in range(5):
                device.run(step)
                device.stream().run(step)
        """
        + "\n        "
        + end
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "x" * 20, "")


def test_a_process_ends_while_others_still_call() -> None:
    done = run_script(
        """
        import threading, time
        ctx = wf.Context("interp")
        w = wf.param("w", init=np.zeros(1))
        step = ctx.compile((w * 2.0).forward)
        def work():
            while True:
                step()
                ctx.device(0).run(step).wait()
        threading.Thread(target=work, daemon=True).start()
        time.sleep(0.2)
        """
    )
    assert (done.returncode, done.stdout) == (0, "")


def test_threads_end_with_their_streams() -> None:
    ctx = wf.Context("interp")
    run = ctx.compile((param(o=1, init=0.0) * 2.0).forward)
    run()
    streams = [ctx.device(0).stream() for _ in range(5)]
    for stream in streams:
        stream.run(run).wait()
    workers = [stream._queue._worker for stream in streams]
    assert all(worker is not None and worker.is_alive() for worker in workers)
    del streams, stream
    gc.collect()
    for worker in workers:
        assert worker is not None
        assert ended(worker)


# Memory


def resident_kib() -> int:
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1])


@pytest.mark.skipif(not Path("/proc/self/status").exists(), reason="asks /proc for the memory in use")
def test_a_million_calls_leak_nothing() -> None:
    w, i = param(o=1, init=1.0), wf.index("i", 10)
    ctx = wf.Context("cc")
    step = ctx.compile(add(w, i), bindings=[i])
    for _ in range(20_000):
        step(i=3)
    gc.collect()
    before = resident_kib()
    for _ in range(1_000_000):
        step(i=3)
    gc.collect()
    assert resident_kib() - before < 1024
    assert ctx[w].item() == 3_060_001.0


def test_many_enqueued_runs_and_reads_leak_nothing() -> None:
    w = param(o=1, init=1.0)
    ctx = wf.Context("interp")
    step, stream = ctx.compile(add(w, 1.0)), ctx.device(0).stream()

    def work() -> None:
        for _ in range(300):
            ctx.device(0).run(step)
            stream.run(step)
            stream.record()
            ctx[w]
            ctx[w] = 1.0
        ctx.synchronize()

    work()
    gc.collect()
    hazards = ctx.device(0)._state.hazards
    before = len(gc.get_objects())
    work()
    gc.collect()
    assert len(gc.get_objects()) - before < 100
    assert len(hazards.active) <= 3
    assert all(len(use.readers) <= 3 for use in hazards.uses.values())
