"""A process for each contestant: it makes a work ready, tells what it finds, and runs a round when it is asked to."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing.connection import Connection
from time import perf_counter
from typing import Any

from _peers import Array, Training
from _peers.contestants import CONTESTANTS, Ready, made_ready
from _peers.peak import Peak, peak
from _peers.table import work as work_of

#: One sample is as many calls as take so long, so that reading the clock costs nothing.
SAMPLE_S = 5e-4

#: What libraries ask for when they are imported. What is freed stays with the process: nobody pays for fresh pages.
SETTINGS = {
    "JAX_PLATFORMS": "cpu",
    "MALLOC_MMAP_MAX_": "0",
    "MALLOC_TRIM_THRESHOLD_": str(2**40),
    "MALLOC_TOP_PAD_": str(2**28),
}
THREADS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS")


class Failed(Exception):
    """A contestant could not do what it was asked for."""


class Process:
    """A contestant, or the machine itself, in a process of its own, which is stopped while nobody asks it anything.

    So its threads take no processor from others, however long they would spin in wait for more work.
    """

    def __init__(self, name: str, threads: int) -> None:
        self.name = name
        self._pipe, other = multiprocessing.Pipe()
        self._process = multiprocessing.get_context("spawn").Process(
            target=serve, args=(other, name, threads), daemon=True
        )
        with _environment(SETTINGS | dict.fromkeys(THREADS, str(threads))):
            self._process.start()
        other.close()
        self._signal("SIGSTOP")

    def peak(self) -> Peak:
        return self._asked("peak")

    def reference(self, text: str) -> list[Array] | None:
        """What the work of a row comes to in double precision; nothing if there are no words for it."""
        return self._asked("reference", text)

    def build(self, text: str, tuned: float = 0.0) -> list[Array] | None:
        """Make the work of a row ready, instead of the one before. What it finds, if there are words for it."""
        return self._asked("build", text, tuned)

    def round(self, seconds: float) -> float:
        """Run what is ready for so long: the seconds of its best sample."""
        return self._asked("round", seconds)

    def end(self) -> None:
        self._signal("SIGCONT")
        self._pipe.close()
        self._process.join(5)
        if self._process.is_alive():
            self._process.kill()

    def _asked(self, *question: Any) -> Any:
        self._signal("SIGCONT")
        try:
            self._pipe.send(question)
            done, found = self._pipe.recv()
        except (EOFError, OSError) as error:
            raise Failed(f"the process of {self.name} has ended: {error!r}") from None
        finally:
            self._signal("SIGSTOP")
        if not done:
            raise Failed(found)
        return found

    def _signal(self, name: str) -> None:
        """Stop or continue, where there are such signals and the process has not ended."""
        if self._process.is_alive() and self._process.pid and hasattr(signal, name):
            os.kill(self._process.pid, getattr(signal, name))


@contextmanager
def _environment(settings: dict[str, str]) -> Iterator[None]:
    """What a process that starts finds in its environment."""
    before = dict(os.environ)
    os.environ |= settings
    try:
        yield
    finally:
        os.environ.clear()
        os.environ |= before


def serve(pipe: Connection, name: str, threads: int) -> None:
    """Answer questions until nobody asks any more."""
    _limit(name, threads)
    contestant = Contestant(name, threads)
    while True:
        try:
            what, *given = pipe.recv()
        except EOFError:
            return
        try:
            answer = True, getattr(contestant, what)(*given)
        except Exception as error:  # whatever it is: others go on, and the table says who did not
            answer = False, f"{type(error).__name__}: {error}"
        pipe.send(answer)


def _limit(name: str, threads: int) -> None:
    """As many processors as threads, for those who ask the machine rather than the environment.

    weft is to find nothing that was tuned at other times.
    """
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, sorted(os.sched_getaffinity(0))[:threads])
    if CONTESTANTS.get(name, ("",))[0] == "torch":
        import torch

        torch.set_num_threads(threads)
    if name == "weft":
        import weft as wf

        wf.config.tuned = ""


class Contestant:
    """What runs in a process: the works of one contestant, one at a time."""

    def __init__(self, name: str, threads: int) -> None:
        self.name, self.threads = name, threads
        self.ready: Ready | None = None
        self.count = 1

    def peak(self) -> Peak:
        return peak(self.threads)

    def reference(self, text: str) -> list[Array] | None:
        work = work_of(text)
        if isinstance(work, Training):
            return None
        ready = made_ready(self.name, work, in_double=True)
        return ready and ready.answers()

    def build(self, text: str, tuned: float) -> list[Array] | None:
        self.ready = None  # its memory is free before there is more
        gc.collect()
        self.ready = made_ready(self.name, work_of(text), tuned=tuned)
        if self.ready is None:
            return None
        found = self.ready.answers()
        self.count = max(1, round(SAMPLE_S / min(_seconds(self.ready.run, 1) for _ in range(3))))
        return found

    def round(self, seconds: float) -> float:
        assert self.ready is not None
        gc.collect()
        gc.disable()
        try:
            end, best = perf_counter() + seconds, float("inf")
            while perf_counter() < end:
                best = min(best, _seconds(self.ready.run, self.count) / self.count)
        finally:
            gc.enable()
        return best


def _seconds(run: Callable[[], Any], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        run()
    return perf_counter() - start
