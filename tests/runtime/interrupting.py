"""Work interrupted at every point where Python looks for signals: by an exception, or by a handler that reads values.

Python looks when a function is entered and after a function written in C; a profiler is called at the same points.
Run as a program, with a backend: it prints how many points were tried, or shows what does not hold. A hang is for the
caller to notice.
"""

from __future__ import annotations

import gc
import os
import sys
from collections.abc import Callable, Iterator
from types import FrameType

import numpy as np

import weft as wf

HOME = os.path.dirname(wf.__file__)
Work = Callable[[], object]


def at_point(number: int, work: Work, act: Callable[[], None]) -> bool:
    """Do some work; at a point of it, counted from 0, something else comes in between. Did the work get that far?"""
    seen, came = -1, False

    def look(frame: FrameType, event: str, _: object) -> None:
        nonlocal seen, came
        if event in ("call", "c_return") and frame.f_code.co_filename.startswith(HOME):
            seen += 1
            if seen == number:
                came = True
                sys.setprofile(None)
                act()

    sys.setprofile(look)
    try:
        work()
    except KeyboardInterrupt:
        pass
    finally:
        sys.setprofile(None)
    return came


def interrupt() -> None:
    raise KeyboardInterrupt


class Bench:
    """A context with a routine that computes `y = a * x` and then adds 1 to `a` and to `b`."""

    def __init__(self, backend: str) -> None:
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
        self.step()
        return lambda: self.ctx.compile((self.y * self.value(self.a)).forward)


KINDS = (
    *("run_again", "run_on_new_data", "run_after_another", "run_after_another_on_new_data"),
    *("enqueue", "enqueue_on_new_data", "set", "read", "compute", "compile"),
)


def points(kind: str) -> Iterator[int]:
    """All points of what is short, some of what is long."""
    if kind == "compile":
        yield from range(0, 10**9, 331)
    yield from range(90)
    yield from range(90, 10**9, 37)


def try_interrupts(backend: str, kind: str, whole: bool) -> int:
    """After an interrupt anywhere the context is usable, and what was under way happened or did not."""
    bench = Bench(backend)
    tried = 0
    for number in points(kind):
        work, (a, b), x = getattr(bench, kind)(), bench.state, bench.value(bench.x)
        hit = at_point(number, work, interrupt)
        bench.ctx.synchronize()
        if kind == "compile":
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


def main(backend: str) -> None:
    gc.disable()  # so that the points are the same each time
    whole = backend == "cc"  # the interpreter can be stopped between two assignments
    counts = {kind: try_interrupts(backend, kind, whole) for kind in KINDS}
    counts["first run"] = try_first_run(backend, whole)
    handled = {kind: try_handlers(backend, kind) for kind in KINDS}
    assert gc.isenabled() is False
    print(sum(counts.values()), sum(handled.values()))


if __name__ == "__main__":
    main(*sys.argv[1:])
