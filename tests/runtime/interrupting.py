"""Work interrupted at every point where Python looks for signals: by an exception, or by a handler that reads values.

Python looks when a function is entered and after a function written in C; a profiler is called at the same points,
those inside the standard library too. Run as a program, with a backend or for threads: it prints how many points were
tried, or shows what does not hold, or where it hangs.
"""

from __future__ import annotations

import faulthandler
import gc
import os
import shutil
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from inspect import CO_GENERATOR
from types import FrameType

import numpy as np

import weft as wf
from runtime.hooked import Hooked
from weft.backends import Backend
from weft.cache import cache_folder
from weft.runtime import events

HANGS_S, SOON_S = 55, 20
Work = Callable[[], object]


def at_point(number: int, work: Work, act: Callable[[], None], lost: bool = False) -> bool:
    """Do some work; at a point of it, counted from 0, something else comes in between. Did the work get that far?

    An interrupt is not lost, unless it may be.
    """
    seen, came = -1, ""

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen, came
        code = frame.f_code
        # A generator that is let go is entered too, but not looked at.
        if event == "c_return" or (event == "call" and not code.co_flags & CO_GENERATOR):
            seen += code.co_filename != __file__ and not (seen + 1 == number and is_finalizing(frame))
            if seen == number and not came:
                came = f"{code.co_filename}:{frame.f_lineno}"
                sys.setprofile(None)
                act()

    sys.setprofile(look)
    try:
        work()
        assert not came or lost or act is not interrupt, f"an interrupt at {number} was lost, in {came}"
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return bool(came)


def is_finalizing(frame: FrameType | None) -> bool:
    """Is an object being let go of? Python ignores whatever is raised there."""
    while frame is not None:
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def interrupt() -> None:
    raise KeyboardInterrupt


class Bench:
    """A context with a routine that computes `y = a * x` and then adds 1 to `a` and to `b`."""

    def __init__(self, backend: str | Backend) -> None:
        self.ctx = wf.Context(backend)
        self.a, self.b = (wf.param(name, o=4, init=0.0, dtype="float64") for name in "ab")
        self.x = wf.data(np.ones(4), label="x")
        self.y = self.a * self.x
        self.z = self.y * 3.0  # never stored

        @wf.cd
        def grow() -> None:
            self.a.accumulate("+", 1)
            self.b.accumulate("+", 1)

        self.step = self.ctx.compile(wf.seq(self.y.forward, grow()))
        self.other = self.ctx.compile(wf.exp(self.y).forward)
        self.made: list[object] = []

    def value(self, tensor: wf.Tensor) -> float:
        return float(self.ctx[tensor][0])

    @property
    def state(self) -> tuple[float, float]:
        return self.value(self.a), self.value(self.b)

    # What is interrupted

    def run_again(self) -> Work:
        self.step()
        return self.step

    def run_on_new_data(self) -> Work:
        self.step()
        self.ctx[self.x] = self.value(self.x) + 1.0
        return self.step

    def run_after_another(self) -> Work:
        self.step()
        self.other()
        return self.step

    def run_after_another_on_new_data(self) -> Work:
        self.run_on_new_data()
        self.other()
        return self.step

    def enqueue(self) -> Work:
        self.step()
        self.other()
        return lambda: self.ctx.device(0).run(self.step)

    def enqueue_on_new_data(self) -> Work:
        self.run_on_new_data()
        return lambda: self.ctx.device(0).run(self.step)

    def set(self) -> Work:
        self.step()
        return lambda: self.ctx.__setitem__(self.x, 7.0)

    def read(self) -> Work:
        self.step()
        return lambda: self.ctx[self.y]

    def compute(self) -> Work:
        self.step()
        return lambda: self.ctx[self.z]

    def compile(self) -> Work:
        """All but the compiler's own part, which is done once."""
        self.step()
        shutil.rmtree(cache_folder("routines"), ignore_errors=True)
        return lambda: self.ctx.compile((self.y * 0.5).forward)

    def compile_anew(self) -> Work:
        self.step()
        return lambda: self.ctx.compile((self.y * self.value(self.a)).forward)

    def let_go(self) -> Work:
        self.step()
        tensor = self.a * self.b
        self.made += [tensor, self.ctx.compile(tensor.forward)]

        def let_go() -> None:
            self.made.clear()
            gc.collect()

        return let_go

    def call(self) -> Work:
        self.step()
        array = np.full(4, self.value(self.a))
        assert (ADDING.add(array) == array + 1).all()  # compiled by now, and right after every interrupt
        return lambda: ADDING.add(array)


ADDING = wf.tc.define("def add(double(N) A) -> (B) { B(n) = A(n) + 1.0 }")


KINDS = (
    *("run_again", "run_on_new_data", "run_after_another", "run_after_another_on_new_data"),
    *("enqueue", "enqueue_on_new_data", "set", "read", "compute", "compile", "compile_anew", "let_go", "call"),
)
#: Every so manyth point of what is long.
STRIDES = {
    "compile": 331,
    "compile_anew": 1999,
    "first run": 17,
    "build": 211,
    "mistake": 601,
    "close": 5,
    "waited for": 1,
}


def points(kind: str) -> Iterator[int]:
    """All points of what is short, some of what is long."""
    if kind in STRIDES:
        yield from range(0, 10**9, STRIDES[kind])
    yield from range(150)
    yield from range(150, 10**9, 37)


def try_interrupts(backend: str, kind: str, whole: bool) -> int:
    """After an interrupt anywhere the context is usable, and what was under way happened or did not."""
    bench = Bench(backend)
    tried = 0
    for number in points(kind):
        work, (a, b), x = getattr(bench, kind)(), bench.state, bench.value(bench.x)
        hit = at_point(number, work, interrupt)
        bench.ctx.synchronize()
        if kind.startswith("compile"):
            work()  # the same once more
        place = f"{kind}, interrupted at {number}"
        after = bench.state
        if whole:
            assert after in ((a, b), (a + 1, b + 1)), f"{place}: {(a, b)} became {after}"
        data = bench.value(bench.x)
        assert data in (x, 7.0), f"{place}: the data became {data}"
        left = bench.value(bench.y)
        assert left in ((a - 1) * x, a * data, after[0] * data), f"{place}: y is {left}, a {after}, x {data}"
        if kind.endswith("on_new_data") or data != x:
            assert left in (a * data, after[0] * data), f"{place}: y is out of date"
        bench.step()
        assert bench.value(bench.a) == after[0] + 1, f"{place}: the next run did not happen"
        assert bench.value(bench.z) == 3 * data * (after[0] + 1), f"{place}: something else is computed"
        tried += 1
        if not hit:
            break
    return tried


def try_first_run(backend: str, whole: bool) -> int:
    """A first run either happened or did not, also where some values were set and others are first values."""
    tried = 0
    for number in points("first run"):
        bench = Bench(backend)
        bench.ctx[bench.b] = 5.0
        hit = at_point(number, bench.step, interrupt)
        after = bench.state
        assert not whole or after in ((0, 5), (1, 6)), f"a first run, interrupted at {number}: {after}"
        assert bench.value(bench.y) in (0.0, after[0])
        bench.step()
        assert bench.value(bench.a) == after[0] + 1
        tried += 1
        if not hit:
            break
    return tried


def try_handlers(backend: str, kind: str) -> int:
    """A handler may read values wherever it comes: they are those of before or those of after."""
    bench = Bench(backend)
    tried = 0
    for number in points(kind):
        work, (a, b), x = getattr(bench, kind)(), bench.state, bench.value(bench.x)
        bench.ctx[bench.z]
        seen: list[tuple[float, float, float, float]] = []

        def handle(seen: list[tuple[float, float, float, float]] = seen) -> None:
            bench.ctx.synchronize()
            seen.append((bench.value(bench.a), bench.value(bench.x), bench.value(bench.y), bench.value(bench.z)))

        hit = at_point(number, work, handle)
        bench.ctx.synchronize()
        for now, data, y, z in seen:
            place = f"{kind}, a handler at {number}: a {now}, x {data}, y {y}, z {z}"
            assert now in (a, a + 1), place
            assert data in (x, 7.0), place
            assert y in ((a - 1) * x, a * data, now * data), place
            assert z == 3 * now * data, place
        grown = 1 if kind.startswith(("run", "enqueue")) else 0
        assert bench.state == (a + grown, b + grown), f"{kind}, a handler at {number}: the run did not happen"
        tried += 1
        if not hit:
            break
    return tried


@wf.op
def dense(x: wf.Tensor) -> wf.Tensor:
    with wf.config.using(strict=True):
        return wf.relu("w" @ x + wf.param("b", o=2, init=1.0))


def try_building() -> int:
    """What was being built can be built once more, on tensors that were there before, and nothing is left entered."""
    tried = 0
    for number in points("build"):
        x, ctx = wf.data(np.arange(12.0).reshape(3, 4), batch=1, label="x"), wf.Context("interp")
        w, layer = wf.param("w", o=3, init=0.5), dense(label="dense")
        h = w @ x

        def build(h: wf.Tensor = h, layer: wf.Layer = layer) -> wf.Tensor:
            y = layer(h)
            loss = wf.einsum("...|... => 0", y * 2.0)
            wf.grad_update(loss)
            return loss

        hit = at_point(number, build, interrupt)
        assert wf.param("free").label == "free", f"in a layer's body for ever after an interrupt at {number}"
        assert not wf.config.strict, f"in a block for ever after an interrupt at {number}"
        loss = build()
        ctx[layer.params[0]] = np.full(layer.params[0].dims.array_shape, 0.25)
        found = ctx[loss].item(), [f"{one.label}: {one.shape}" for one in layer.params], str(w.dims)
        expected = 4 * (3 + 0.25 * 3 * (3.0 + 11.0 + 19.0)), ["dense.w: 3->2", "dense.b: 2"], "4->3"
        assert found == expected, f"after an interrupt at {number}: {found}"
        tried += 1
        if not hit:
            break
    return tried


def try_building_inside() -> int:
    """A handler that builds on tensors whose shapes are being inferred is refused; elsewhere it builds."""
    told: list[str] = []
    for number in points("build"):
        ctx, x = wf.Context("interp"), wf.data(np.ones((3, 4)), batch=1, label="x")
        h = wf.param("w", o=2, init=0.5) @ x

        def build(h: wf.Tensor = h) -> wf.Tensor:
            return wf.einsum("...|... => 0", wf.relu(h + wf.param("b", init=1.0)) * 2.0)

        def handle(ctx: wf.Context = ctx, build: Callable[[], wf.Tensor] = build) -> None:
            try:
                assert ctx[build()].item() == 36.0
                told.append("")
            except wf.WeftError as error:
                told.append(error.what)

        hit = at_point(number, build, handle)
        assert ctx[build()].item() == 36.0, f"built anew after a handler at {number}"
        if not hit:
            break
    assert set(told) == {"", "a signal handler asks for shapes in the middle of their inference"}, set(told)
    return len(told)


def try_mistakes() -> int:
    """What is found by trying is taken back whole."""
    tried = 0
    for number in points("mistake"):
        one, two = wf.random_uniform("one", step=0), wf.random_uniform("two", step=0)
        good, other = one + wf.data(np.ones(3)), two + wf.data(np.ones(5))
        wrong = one + two  # three or five

        def ask(wrong: wf.Tensor = wrong) -> None:
            told = ""
            try:
                wrong.dims
            except wf.WeftError as error:
                told = str(error)
            assert "cannot be both 3 and 5" in told

        hit = at_point(number, ask, interrupt)
        ask()
        found = [str(each.dims) for each in (one, good, two, other)]
        assert found == ["3", "3", "5", "5"], f"after an interrupt at {number} the shapes are {found}"
        tried += 1
        if not hit:
            break
    return tried


def try_closing(backend: str) -> int:
    """A context that was being closed is closed or not, and can be closed."""
    tried = 0
    for number in points("close"):
        bench = Bench(backend)
        bench.step()
        bench.ctx.device(0).run(bench.step)
        hit = at_point(number, bench.ctx.close, interrupt)
        if not bench.ctx._engine.closed:
            bench.step()
        other = threading.Thread(target=bench.ctx.close, daemon=True)
        other.start()
        other.join(SOON_S)
        assert bench.ctx._engine.closed, f"a context cannot be closed after an interrupt at {number}"
        tried += 1
        if not hit:
            break
    return tried


def try_closing_inside() -> int:
    """A handler that closes a context in the middle of work is refused, and the work is done; else it is closed."""
    told = []
    for number in points("close"):
        bench = Bench("interp")
        bench.step()

        def run(bench: Bench = bench) -> None:
            with suppress(wf.WeftError):  # it is closed
                bench.ctx.device(0).run(bench.step).wait()

        def handle(bench: Bench = bench) -> None:
            try:
                bench.ctx.close()
            except wf.WeftError as error:
                told.append(error.what)

        hit = at_point(number, run, handle)
        bench.ctx.close()
        if not hit:
            break
    assert told
    assert all("nor close the context" in what for what in told)
    return number


def try_forking() -> int:
    """A fork that is interrupted leaves nothing held. Python prints interrupts in the middle of it, and goes on."""
    bench = Bench("interp")
    bench.step()
    told: list[object] = []
    before, sys.unraisablehook = sys.unraisablehook, told.append

    def fork() -> None:
        child = os.fork()
        if not child:
            os._exit(0)
        os.waitpid(child, 0)

    for number in points("fork"):
        hit = at_point(number, fork, interrupt, lost=True)
        other = threading.Thread(target=bench.step, daemon=True)
        other.start()
        other.join(SOON_S)
        assert not other.is_alive(), f"a thread waits for ever after a fork interrupted at {number}"
        if not hit:
            break
    sys.unraisablehook = before
    return number


def try_waiting(handler: bool) -> int:
    """Who waits for a stream is interrupted, or a handler waits for the same: all that is enqueued is done."""
    gate = threading.Lock()

    def hook(_: str) -> None:
        with gate:
            pass

    def handle() -> None:
        gate.release()
        bench.ctx.synchronize()
        gate.acquire()

    bench = Bench(Hooked(hook))
    bench.step()
    for number in range(40):  # by then it has looked again
        a = bench.value(bench.a)
        gate.acquire()
        events = [bench.ctx.device(0).run(bench.step) for _ in range(2)]
        at_point(number, events[-1].wait, handle if handler else interrupt)
        gate.release()
        bench.ctx.synchronize()
        assert bench.value(bench.a) == a + 2, f"waiting, interrupted at {number}"
    return number


def try_being_waited_for() -> int:
    """Who does work that another thread waits for is interrupted: that thread goes on."""
    waited = False

    def hook(_: str) -> None:
        while waited and hazards.direct is not None:
            time.sleep(1e-5)

    def wait() -> None:
        while hazards.direct is None and waited:
            time.sleep(1e-5)
        bench.ctx.synchronize()

    bench = Bench(Hooked(hook))
    hazards = bench.ctx._engine.devices[0].hazards
    bench.step()
    for number in points("waited for"):
        waited = True
        other = threading.Thread(target=wait, daemon=True)
        other.start()
        hit = at_point(number, bench.step, interrupt)
        waited = False
        other.join(SOON_S)
        assert not other.is_alive(), f"a thread waits for ever for work interrupted at {number}"
        if not hit:
            break
    return number


def main(part: str) -> None:
    """Print how many interrupts and handlers were tried, on a backend or between threads."""
    faulthandler.dump_traceback_later(HANGS_S, exit=True)
    gc.disable()  # so that the points are the same each time
    if part == "threads":
        events._LOOK_S = 0.001  # how often who waits looks
        interrupts = [try_forking(), try_building(), try_mistakes(), try_closing("interp")]
        interrupts += [try_waiting(handler=False), try_being_waited_for()]
        handlers = [try_building_inside(), try_closing_inside(), try_waiting(handler=True)]
    else:
        whole = part == "cc"  # the interpreter can be stopped between two assignments
        interrupts = [try_interrupts(part, kind, whole) for kind in KINDS] + [try_first_run(part, whole)]
        handlers = [try_handlers(part, kind) for kind in KINDS]
    assert gc.isenabled() is False
    print(sum(interrupts), sum(handlers))


if __name__ == "__main__":
    main(*sys.argv[1:])
