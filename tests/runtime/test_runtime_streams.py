"""Streams and events: what is in order, what waits for what; any program gives what running it in order gives."""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from runtime.hooked import Hooked, param

SOON_S = 20


@dataclass
class Gates:
    """Programs that mention a name wait until its gate opens, and are noted when they begin."""

    closed: dict[str, threading.Event] = field(default_factory=dict)
    begun: list[str] = field(default_factory=list)

    def __call__(self, loops: str) -> None:
        written = loops.splitlines()[-1].split("[")[0].strip()
        self.begun.append(written)
        if written in self.closed:
            assert self.closed[written].wait(SOON_S), f"the gate of {written} did not open"

    def close(self, name: str) -> Callable[[], None]:
        self.closed[name] = threading.Event()
        return self.closed[name].set


@pytest.fixture
def gates() -> Gates:
    return Gates()


@pytest.fixture
def ctx(gates: Gates) -> wf.Context:
    return wf.Context(Hooked(gates), devices=2)


def adding(ctx: wf.Context, target: wf.Tensor, *sources: wf.Tensor) -> wf.Routine:
    """A routine that adds 1 and the sources to the target."""

    @wf.cd
    def code() -> None:
        value = target + 1.0
        for source in sources:
            value = value + source
        target[:] = value

    return ctx.compile(code())


def numbers(*names: str) -> list[wf.Tensor]:
    """Zeros that are given, so that no program computes them."""
    return [param(name, init=np.zeros(1)) for name in names]


def test_a_run_is_enqueued_and_its_event_says_when_it_is_done(ctx: wf.Context, gates: Gates) -> None:
    (a,) = numbers("a")
    run, open_a = adding(ctx, a), gates.close("a")
    event = ctx.device(0).run(run)
    assert isinstance(event, wf.Event)
    assert not event.done
    assert repr(event) == "<event: pending>"
    open_a()
    event.wait()
    assert event.done
    assert repr(event) == "<event: done>"
    assert ctx[a].item() == 1.0


def test_a_read_waits_for_what_writes_and_for_nothing_else(ctx: wf.Context, gates: Gates) -> None:
    a, b = numbers("a", "b")
    open_a = gates.close("a")
    slow = ctx.device(0).run(adding(ctx, a))
    ctx.device(0).stream().run(adding(ctx, b))
    assert ctx[b].item() == 1.0
    assert not slow.done
    threading.Timer(0.05, open_a).start()
    assert ctx[a].item() == 1.0
    assert slow.done


@pytest.mark.parametrize("given", [True, False], ids=["given", "set"])
def test_setting_a_value_waits_for_those_who_read_the_old_one(ctx: wf.Context, gates: Gates, given: bool) -> None:
    """Whether the old one is the user's array, which is left as it is, or memory that is written again."""
    (a,), b = numbers("a"), param("b", init=np.full(1, 10.0))
    if not given:
        ctx[b] = 10.0
    open_a = gates.close("a")
    ctx.device(0).run(adding(ctx, a, b))
    threading.Timer(0.05, open_a).start()
    ctx[b] = 20.0
    assert (ctx[a].item(), ctx[b].item()) == (11.0, 20.0)


def test_a_call_runs_after_what_was_enqueued(ctx: wf.Context, gates: Gates) -> None:
    a, b = numbers("a", "b")
    open_a = gates.close("a")
    ctx.device(0).run(adding(ctx, a))
    threading.Timer(0.05, open_a).start()
    adding(ctx, b, a)()
    assert ctx[b].item() == 2.0
    ctx.device(0).run(adding(ctx, a))
    adding(ctx, b)()
    assert gates.begun == ["a", "b", "a", "b"]


def in_a_thread(work: Callable[[], None]) -> threading.Thread:
    thread = threading.Thread(target=work)
    thread.start()
    return thread


def begins(gates: Gates, *names: str) -> None:
    """Wait until exactly these have begun."""
    deadline = time.monotonic() + SOON_S
    while gates.begun != list(names) and time.monotonic() < deadline:
        time.sleep(0.001)
    assert gates.begun == list(names)


def test_calls_take_turns(ctx: wf.Context, gates: Gates) -> None:
    """Two threads call the same routine, which is ready: one call at a time."""
    (a,) = numbers("a")
    step = adding(ctx, a)
    step()
    open_a = gates.close("a")
    first = in_a_thread(step)
    begins(gates, "a", "a")
    second = in_a_thread(step)
    time.sleep(0.02)
    assert gates.begun == ["a", "a"]
    open_a()
    for thread in (first, second):
        thread.join(SOON_S)
    assert ctx[a].item() == 3.0


def test_what_is_enqueued_behind_a_call_waits_for_it(ctx: wf.Context, gates: Gates) -> None:
    """Also where the call itself had to wait, and no memory is shared."""
    a, b, c = numbers("a", "b", "c")
    open_a, open_b = gates.close("a"), gates.close("b")
    run_b, run_c = adding(ctx, b), adding(ctx, c)
    ctx.device(0).run(adding(ctx, a))
    call = in_a_thread(run_b)
    while ctx.device(0).last_write(b) is None:
        time.sleep(0.001)
    later = ctx.device(0).run(run_c)
    open_a()
    begins(gates, "a", "b")
    time.sleep(0.02)
    assert gates.begun == ["a", "b"]
    assert not later.done
    open_b()
    later.wait()
    call.join(SOON_S)


def test_streams_run_side_by_side(ctx: wf.Context, gates: Gates) -> None:
    a, b = numbers("a", "b")
    open_a = gates.close("a")
    first = ctx.device(0).stream().run(adding(ctx, a))
    ctx.device(0).stream().run(adding(ctx, b)).wait()
    assert not first.done
    open_a()
    ctx.synchronize()
    assert first.done


def test_devices_run_side_by_side(ctx: wf.Context, gates: Gates) -> None:
    (a,) = numbers("a")
    run = adding(ctx, a)
    ctx.device(1)[a] = 5.0
    open_a = gates.close("a")
    events = [device.run(run) for device in ctx.devices]
    begins(gates, "a", "a")
    assert not any(event.done for event in events)
    open_a()
    assert [device[a].item() for device in ctx.devices] == [1.0, 6.0]


def test_one_stream_is_in_order(ctx: wf.Context, gates: Gates) -> None:
    a, b = numbers("a", "b")
    open_a = gates.close("a")
    stream = ctx.device(0).stream()
    stream.run(adding(ctx, a))
    event = stream.run(adding(ctx, b))
    recorded = stream.record()
    time.sleep(0.02)
    assert not event.done
    assert not recorded.done
    assert gates.begun in ([], ["a"])
    open_a()
    recorded.wait()
    assert event.done


def test_a_stream_waits_for_an_event_of_another(ctx: wf.Context, gates: Gates) -> None:
    a, b, c = numbers("a", "b", "c")
    open_a = gates.close("a")
    event = ctx.device(0).run(adding(ctx, a))
    stream = ctx.device(1).stream()
    stream.wait(event)
    later = stream.run(adding(ctx, b))
    ctx.device(1).run(adding(ctx, c)).wait()
    assert sorted(gates.begun) in (["c"], ["a", "c"])
    assert not later.done
    open_a()
    later.wait()
    assert event.done


def test_an_empty_stream_records_what_it_waits_for(ctx: wf.Context, gates: Gates) -> None:
    (a,) = numbers("a")
    open_a = gates.close("a")
    event = ctx.device(0).run(adding(ctx, a))
    stream = ctx.device(0).stream()
    stream.record().wait()
    stream.wait(event)
    recorded = stream.record()
    time.sleep(0.02)
    assert not recorded.done
    open_a()
    recorded.wait()
    assert event.done


def test_a_stream_waits_for_events_only(ctx: wf.Context) -> None:
    with pytest.raises(wf.WeftError) as caught:
        ctx.device(0).stream().wait(threading.Event())  # type: ignore[arg-type]
    assert caught.value.what == "a stream waits for events, not Event"
    assert "stream.record()" in caught.value.fix


def test_synchronizing_waits_for_all_streams(ctx: wf.Context, gates: Gates) -> None:
    a, b, c = numbers("a", "b", "c")
    openers = [gates.close(name) for name in "ab"]
    events = [ctx.device(0).stream().run(adding(ctx, a)), ctx.device(0).run(adding(ctx, b))]
    other = ctx.device(1).run(adding(ctx, c))
    ctx.device(1).synchronize()
    assert other.done
    assert not any(event.done for event in events)
    for delay, opener in zip((0.02, 0.05), openers, strict=True):
        threading.Timer(delay, opener).start()
    ctx.device(0).synchronize()
    assert all(event.done for event in events)


def test_what_a_dropped_stream_was_given_is_done(ctx: wf.Context) -> None:
    (a,) = numbers("a")
    run = adding(ctx, a)
    for _ in range(20):
        ctx.device(0).stream().run(run)
    assert ctx[a].item() == 20.0


def test_first_values_are_computed_in_order(ctx: wf.Context, gates: Gates) -> None:
    """A parameter that gets its first value on one stream is read by another."""
    a, b = numbers("a", "b")
    w = param("w", o=1, init=7.0)
    open_w = gates.close("w")
    ctx.device(0).stream().run(adding(ctx, a, w))
    later = ctx.device(0).stream().run(adding(ctx, b, w))
    time.sleep(0.02)
    assert not later.done
    open_w()
    assert (ctx[a].item(), ctx[b].item()) == (8.0, 8.0)
    assert gates.begun.count("w") == 1


def test_scratch_memory_is_not_shared_by_two_runs_at_once(ctx: wf.Context, gates: Gates) -> None:
    """A sum that reads its own old cells keeps them aside: another run must not put its own there."""
    m = param("m", o=(2, 2), init=np.array([[1.0, 2.0], [3.0, 4.0]]))

    @wf.cd
    def turn() -> None:
        wf.assign(m, "=", "id", m, logic="ij=>ji")

    run = ctx.compile(turn())
    streams = [ctx.device(0).stream() for _ in range(3)]
    for at in range(9):
        streams[at % 3].run(run)
    assert ctx[m].tolist() == [[1.0, 3.0], [2.0, 4.0]]


# Any program


NAMES = "abcd"


class Machine:
    """Two devices with three streams each, and the same state kept by hand."""

    def __init__(self) -> None:
        self.random = random.Random(0)
        self.ctx = wf.Context(Hooked(self.dawdle), devices=2)
        self.tensors = [param(name, o=1, init=0.0) for name in NAMES]
        self.streams = [[device.stream() for _ in range(3)] for device in self.ctx.devices]
        self.routines = {
            (into, one, two): self.ctx.compile(_mix(self.tensors[into], self.tensors[one], self.tensors[two]))
            for into in range(4)
            for one, two in [(0, 1), (1, 2), (2, 3), (3, 0)]
        }

    def dawdle(self, _: str) -> None:
        time.sleep(self.random.choice((0, 0, 0.0005)))


@wf.cd
def _mix(into, one, two):  # type: ignore[no-untyped-def]
    into[:] = (into * 3.0 + one * 5.0 + two) % 1009.0


steps = st.one_of(
    st.tuples(st.just("run"), st.integers(0, 1), st.integers(0, 2), st.integers(0, 15)),
    st.tuples(st.just("call"), st.integers(0, 15)),
    st.tuples(st.just("set"), st.integers(0, 1), st.integers(0, 3), st.integers(0, 100)),
    st.tuples(st.just("get"), st.integers(0, 1), st.integers(0, 3)),
    st.tuples(st.just("receive"), st.integers(0, 1), st.integers(0, 2), st.integers(0, 3)),
    st.tuples(st.just("wait"), st.integers(0, 1), st.integers(0, 2), st.integers(0, 1), st.integers(0, 2)),
)


@pytest.fixture(scope="module")
def machine() -> Machine:
    return Machine()


@settings(max_examples=60)
@given(st.lists(steps, min_size=8, max_size=40))
def test_any_program_gives_what_running_it_in_order_gives(machine: Machine, program: list[tuple[int, ...]]) -> None:
    ctx, tensors, keys = machine.ctx, machine.tensors, list(machine.routines)
    state = [[float(at) for at in range(4)] for _ in range(2)]
    for device in ctx.devices:
        for at, tensor in enumerate(tensors):
            device[tensor] = float(at)

    def model(device: int, key: tuple[int, int, int]) -> None:
        into, one, two = key
        values = state[device]
        values[into] = (values[into] * 3 + values[one] * 5 + values[two]) % 1009

    for kind, *arguments in program:
        match kind, *arguments:
            case "run", device, stream, routine:
                machine.streams[device][stream].run(machine.routines[keys[routine]])
                model(device, keys[routine])
            case "call", routine:
                machine.routines[keys[routine]]()
                model(0, keys[routine])
            case "set", device, tensor, value:
                ctx.device(device)[tensors[tensor]] = value
                state[device][tensor] = float(value)
            case "get", device, tensor:
                assert ctx.device(device)[tensors[tensor]].item() == state[device][tensor]
            case "receive", device, stream, tensor:
                machine.streams[device][stream].receive(tensors[tensor], ctx.device(1 - device))
                state[device][tensor] = state[1 - device][tensor]
            case "wait", device, stream, other, another:
                machine.streams[device][stream].wait(machine.streams[other][another].record())
    found = [[device[tensor].item() for tensor in tensors] for device in ctx.devices]
    assert found == state
