"""What threads gain: weft alone against weft on all processors, on a machine that is free and with a core that is not.

    python bench/threads.py               a table, a minute
    python bench/threads.py --threads 4   on so many threads
    python bench/threads.py --rounds 100  best of more rounds, on a busy machine

Both run the same kernels, in turns, and the best round counts; first both must find the same, to the bit. `busy` is the
same while another process does nothing but keep a core from others. `idle` is the median of runs after ten milliseconds
of doing nothing, when the threads are asleep.
"""

from __future__ import annotations

import argparse
import multiprocessing
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from statistics import median
from time import perf_counter, sleep

import numpy as np
from rich.console import Console
from rich.table import Table

import weft as wf

RNG = np.random.default_rng(0)
ROUND_S, IDLE_RUNS = 0.02, 20


def numbers(*shape: int, batch: int = 0) -> wf.Tensor:
    return wf.data(RNG.standard_normal(shape).astype("float32"), batch=batch)


def product(m: int, k: int, n: int) -> wf.Tensor:
    return wf.einsum("ij; jk => ik", numbers(m, k), numbers(k, n))


def chain() -> wf.Tensor:
    x = numbers(1 << 22)
    return (wf.tanh(x * 2.0 + 1.0) * x + 0.5 * x - 1.0) * x


WORKS: dict[str, Callable[[], wf.Tensor]] = {
    "product 64×256×128": lambda: product(64, 256, 128),
    "product 256×256×256": lambda: product(256, 256, 256),
    "product 1024×1024×1024": lambda: product(1024, 1024, 1024),
    "product 2000×64×10": lambda: product(2000, 64, 10),
    "product 1×1024×1024": lambda: product(1, 1024, 1024),
    "chain with tanh, 4M": chain,
    "sum of 4M": lambda: wf.einsum("i => 0", numbers(1 << 22)),
    "columns of 4096×1024": lambda: wf.einsum("b|d => d", numbers(4096, 1024, batch=1)),
    "softmax 4096×1024": lambda: wf.softmax(numbers(4096, 1024, batch=1)),
}


def best(runs: dict[str, Callable[[], object]], rounds: int) -> dict[str, float]:
    """The best time of each, in turns."""
    found = dict.fromkeys(runs, float("inf"))
    for _ in range(rounds):
        for name, run in runs.items():
            end = perf_counter() + ROUND_S
            while (start := perf_counter()) < end:
                run()
                found[name] = min(found[name], perf_counter() - start)
    return found


def after_a_rest(run: Callable[[], object]) -> float:
    times = []
    for _ in range(IDLE_RUNS):
        sleep(0.01)
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return median(times)


def keep_a_core_busy() -> None:
    while True:
        pass


@contextmanager
def busy() -> Iterator[None]:
    hog = multiprocessing.get_context("spawn").Process(target=keep_a_core_busy, daemon=True)
    hog.start()
    try:
        yield
    finally:
        hog.kill()
        hog.join()


def routines(make: Callable[[], wf.Tensor], threads: int) -> dict[str, Callable[[], object]]:
    """A work alone and on threads, which must find the same."""
    tensor, runs, found = make(), {}, []
    for name, count in (("alone", 1), ("shared", threads)):
        ctx = wf.Context("cc")
        runs[name] = ctx.compile(tensor.forward, keep=[tensor], options=wf.CompileOptions(threads=count))
        runs[name]()
        found.append(ctx[tensor])
    np.testing.assert_array_equal(*found)
    return runs


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--threads", type=int, default=0, help="0: as many as there are processors")
    parser.add_argument("--rounds", type=int, default=15)
    given = parser.parse_args()
    works = {name: routines(make, given.threads) for name, make in WORKS.items()}
    free = {name: best(runs, given.rounds) for name, runs in works.items()}
    rested = {name: {one: after_a_rest(run) for one, run in runs.items()} for name, runs in works.items()}
    with busy():
        held = {name: best(runs, given.rounds) for name, runs in works.items()}
    table = Table("", "alone, µs", "shared, µs", "times as fast", "idle", "busy", title="one thread and all of them")
    for name in works:
        times = [f"{1e6 * free[name][one]:.1f}" for one in ("alone", "shared")]
        table.add_row(
            name, *times, *(f"{one[name]['alone'] / one[name]['shared']:.2f}" for one in (free, rested, held))
        )
    Console().print(table)


if __name__ == "__main__":
    main()
