"""How fast a machine is at code of weft's own: tried once, then found on disk.

NumPy's library of products may know nothing of a processor, and share its work or not; so what a kernel is held against
(`routine.profile`, `routine.tune`) is the best of what NumPy and a compiled product and compiled copies reach:

    flops_per_s           a product that the second cache holds, on one core
    bytes_per_s           a copy that no cache holds, on all cores
    cached_bytes_per_s    a copy that half of the second cache holds, on one core
    last_cached_bytes_per_s   one that half of the last cache holds, on all cores, of each

Compiled code says as well what takes how long:

    function_ns           an exponential in a row of them, on one core
    round_ns              a loop that all cores share, beyond its share of what one alone takes
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from functools import partial
from time import perf_counter

import numpy as np

from weft.backends import Backend, Placing
from weft.errors import WeftError
from weft.loops import Grid, Parallel, Product, buffers_of
from weft.loops.parse import parse
from weft.machine import Machine
from weft.runtime.workbench import Workbench
from weft.schedule import CompileOptions, Kernel, as_kernels, as_program
from weft.schedule.driver import stages
from weft.schedule.memory.memory_plan import MemoryPlan
from weft.schedule.stage import Task

_TRIED_S = 0.1
_SIZE = 192
_PRODUCT = f"""\
a: float32[{_SIZE}, {_SIZE}]
b: float32[{_SIZE}, {_SIZE}]
c: float32[{_SIZE}, {_SIZE}]
for i in range({_SIZE}):
    for j in range({_SIZE}):
        for k in range({_SIZE}):
            c[i, j] += a[i, k] * b[k, j]"""
_COPY = """\
a: float32[SIZE]
c: float32[SIZE]
for i in range(SIZE):
    c[i] = a[i]"""
_POINTS = 1 << 14
_FUNCTIONS = _COPY.replace("SIZE", str(_POINTS)).replace("= a[i]", "= exp(a[i])")
_TIMES = 32
_ROUNDS = f"""\
a: float32[{_POINTS}]
c: float32[{_POINTS}]
for i in range({_TIMES}):
    for j in range({_POINTS}) on threads by CHUNK, on vectors:
        c[j] = exp(a[j])"""


def with_measured_speeds(machine: Machine, backend: Backend) -> Machine:
    """The machine with the best speeds that a backend's code, or NumPy, reaches on it; NumPy's if it compiles none."""
    if not isinstance(backend, Placing) or not {Product, Parallel} <= backend.places or Grid in backend.places:
        return machine.measured()
    return machine.measured(partial(_compiled_speeds, backend=backend))


def _compiled_speeds(machine: Machine, backend: Backend) -> dict[str, float]:
    one, numpys = replace(machine, cores=1), machine.measured()
    far, (last, near) = 1 << 24, (max(machine.caches[at] // 16, 1 << 10) for at in (-1, 1))
    tried = {
        "flops_per_s": (2 * _SIZE**3, _PRODUCT, one),
        "bytes_per_s": (8 * far, _COPY.replace("SIZE", str(far)), machine),
        "last_cached_bytes_per_s": (8 * last / machine.cores, _COPY.replace("SIZE", str(last)), machine),
        "cached_bytes_per_s": (8 * near, _COPY.replace("SIZE", str(near)), one),
    }
    found = {name: getattr(numpys, name) for name in (*tried, "function_ns", "round_ns")}
    with suppress(WeftError, MemoryError):
        for name, (done, text, cores) in tried.items():
            found[name] = max(found[name], done / _best_seconds(*_decided(text, cores, backend), backend))
        found["function_ns"] = 1e9 * _best_seconds(*_decided(_FUNCTIONS, one, backend), backend) / _POINTS
        alone, shared = (_rounds_ns(cores, machine.cores, backend) for cores in (1, machine.cores))
        found["round_ns"] = max(shared - alone / machine.cores, 1.0)
    return found


def _rounds_ns(threads: int, cores: int, backend: Backend) -> float:
    """What a round takes of a loop that is cut for some cores, and that so many threads share."""
    program = parse(_ROUNDS.replace("CHUNK", str(_POINTS // cores)))
    kernels = tuple(replace(kernel, threads=threads) for kernel in as_kernels(program))
    return 1e9 * _best_seconds(kernels, MemoryPlan({}, 0, 0, {}, {}, {}), backend) / _TIMES


def _decided(text: str, machine: Machine, backend: Backend) -> tuple[Sequence[Kernel], MemoryPlan]:
    """A program as it runs on a machine."""
    program = parse(text)
    kept = dict.fromkeys(buffers_of(program), "it is asked for")
    places = backend.places if isinstance(backend, Placing) else frozenset[type]()
    options = CompileOptions(machine=machine, threads=machine.cores)
    *_, (_, stage) = stages(program, Task(kept, places=places, options=options))
    assert stage.plan is not None
    return stage.kernels, stage.plan


def _best_seconds(kernels: Sequence[Kernel], plan: MemoryPlan, backend: Backend) -> float:
    """The best time of some runs of kernels."""
    values = {one: np.zeros(one.shape, one.dtype) for one in buffers_of(as_program(kernels))}
    bench = Workbench(backend, kernels, plan, values, {})
    call, best, end = bench.compiled(kernels), float("inf"), perf_counter() + _TRIED_S
    bench.run(call)
    while perf_counter() < end:
        start = perf_counter()
        bench.run(call)
        best = min(best, perf_counter() - start)
    return max(best, 1e-9)
