"""The order of locks, as the runtime's README has it: no thread takes one while it holds a later one.

And nobody waits for work while holding the lock under which work is asked for, unless everything is held to fork.
"""

from __future__ import annotations

import importlib
import inspect
import os
import re
import sys
import threading
from concurrent.futures import ThreadPoolExecutor
from itertools import count
from pathlib import Path
from pkgutil import iter_modules
from typing import ClassVar

import numpy as np
import pytest

import weft as wf
import weft.runtime
from weft.dlpack import TAKING
from weft.lazy import LOADING
from weft.runtime import fork
from weft.runtime.events import Event
from weft.shape.inference_lock import INFERRING


class Watched:
    """A lock that tells when it is taken out of order. A thread may take one again that it has."""

    def __init__(self, inner: threading.RLock, name: str, rank: tuple[int, ...], watch: Watch) -> None:
        self.inner, self.name, self.rank, self.watch = inner, name, rank, watch

    def acquire(self) -> bool:
        held = self.watch.held
        if self not in held:
            self.watch.pairs |= {(other.name, self.name) for other in held}
            wrong = [f"{self.name} under {other.name}" for other in held if other.rank >= self.rank]
            self.watch.wrong += wrong
            assert not wrong  # it could be waited for for ever
        self.inner.acquire()
        held.append(self)
        return True

    def release(self) -> None:
        self.inner.release()
        self.watch.held.remove(self)

    def __enter__(self) -> bool:
        return self.acquire()

    def __exit__(self, *_: object) -> None:
        self.release()


class Watch(threading.local):
    """All locks, watched: those each thread holds, which were taken under which, and what was out of order."""

    pairs: ClassVar[set[tuple[str, str]]] = set()
    wrong: ClassVar[list[str]] = []

    def __init__(self) -> None:
        self.held: list[Watched] = []

    def context(self, number: int, backend: str, devices: int = 1) -> wf.Context:
        """A context whose locks are watched."""
        ctx = wf.Context(backend, devices=devices)
        engine = ctx._engine
        engine._holding = Watched(engine._holding, f"holding {number}", (2, number, 2), self)  # type: ignore[assignment]
        engine.lock = Watched(engine.lock, f"lock {number}", (2, number, 3), self)  # type: ignore[assignment]
        for device in engine.devices:
            device.lock = engine.lock
        return ctx


@pytest.fixture
def watch(monkeypatch: pytest.MonkeyPatch) -> Watch:
    watch = Watch()
    watch.pairs.clear()
    watch.wrong.clear()

    def put_in_place_of(old: object, new: object) -> None:
        for name, module in list(sys.modules.items()):
            if name.startswith("weft"):
                for key in [key for key, value in vars(module).items() if value is old]:
                    monkeypatch.setattr(module, key, new)

    shared = [(fork._forking, "forking", 1), (fork.LOWERING, "LOWERING", 4), (INFERRING, "INFERRING", 5)]
    for lock, name, rank in (*shared, (TAKING, "TAKING", 6), (LOADING, "LOADING", 6)):
        put_in_place_of(lock, Watched(lock, name, (rank, name == "LOADING"), watch))

    numbers = count()

    def new_lock() -> Watched:
        made = Watched(threading.RLock(), "last", (7, next(numbers)), watch)
        fork._locks.put(made, None)  # type: ignore[arg-type]
        return made

    put_in_place_of(fork.new_lock, new_lock)
    settle = Event.settle

    def settle_watched(event: Event) -> None:
        held = [lock.name for lock in watch.held if not lock.name.startswith("holding")]
        if held and "forking" not in held and not event.over:
            raise AssertionError(f"work is waited for under {held}")  # it could be waited for for ever
        settle(event)

    monkeypatch.setattr(Event, "settle", settle_watched)
    return watch


@wf.cd
def grow(w, step):  # type: ignore[no-untyped-def]
    w[:] = w + step


def use(ctx: wf.Context, rounds: int = 3) -> None:
    """Compile, run, enqueue, read, compute, set and send, call functions."""
    w, x = wf.param("w", o=2, init=0.0), wf.input("x", o=2)
    step = ctx.compile(grow(w, 1.0))
    function = ctx.function(x, returns=x * 2.0)
    one, two = ctx.devices
    for _ in range(rounds):
        step()
        stream = one.stream()
        stream.run(step)
        two.receive(w, one)
        two.run(step).wait()
        ctx[w] = ctx[w * 2.0]
        function(np.ones(2, np.float32))
        function(np.ones(2, np.float32), wait=False).wait()
        stream.record().wait()
        ctx.synchronize()
    define = wf.tc.define("def add(float(N) A) -> (B) { B(n) = A(n) + 1.0 }")
    assert define.add(np.ones(3, np.float32)).tolist() == [2, 2, 2]


def test_a_busy_process_takes_locks_in_order(watch: Watch) -> None:
    contexts = [watch.context(number, "interp", devices=2) for number in range(2)]
    done = threading.Event()

    def fork_now_and_then() -> None:
        while not done.wait(0.01):
            child = os.fork()
            if not child:
                os._exit(0)
            os.waitpid(child, 0)

    with ThreadPoolExecutor(4) as pool:
        forking = pool.submit(fork_now_and_then)
        try:
            for used in [pool.submit(use, contexts[number % 2]) for number in range(3)]:
                used.result()
        finally:
            done.set()
        forking.result()
    for ctx in contexts:
        ctx.close()
    assert watch.wrong == []
    expected = {("forking", "holding 0"), ("holding 0", "lock 0"), ("lock 0", "holding 1"), ("lock 1", "LOWERING")}
    assert watch.pairs >= expected | {("lock 0", "LOWERING"), ("LOWERING", "INFERRING"), ("LOWERING", "last")}


def test_what_is_out_of_order_is_seen(watch: Watch) -> None:
    ctx, x = watch.context(0, "interp"), wf.data(np.ones(2), label="x")
    with fork.LOWERING, pytest.raises(AssertionError):
        ctx[x]
    assert watch.wrong[0] == "lock 0 under LOWERING"
    with ctx._engine.lock, pytest.raises(AssertionError, match=r"work is waited for under \['lock 0'\]"):
        Event().settle()


def test_the_argument_names_what_there_is() -> None:
    """Each function and lock that the README argues with stands in the runtime by that name."""
    rooms = [importlib.import_module(f"weft.runtime.{one.name}") for one in iter_modules(weft.runtime.__path__)]
    known = {name: value for room in rooms for name, value in vars(room).items()}
    text = Path(weft.runtime.__file__).with_name("README.md").read_text(encoding="utf-8")
    argument = text[text.index("**Why nothing can deadlock.**") :]
    named = re.findall(r"`(_?[A-Z][A-Za-z]+)\.([a-z_]+)`", argument)
    assert len(named) > 15
    for owner, name in named:
        there = hasattr(known[owner], name) or f"self.{name} = " in inspect.getsource(known[owner])
        assert there, f"the README speaks of {owner}.{name}"
    for name in re.findall(r"`([a-z_]+|[A-Z]+)`", argument):
        assert name in known, f"the README speaks of {name}"
