"""How fast a machine is at code of weft's own: tried once, then found on disk.

NumPy's library of products may know nothing of a processor, and share its work or not; so what a kernel is held against
(`routine.profile`, `routine.tune`) is the best of what NumPy and a compiled product and compiled copies reach:

    flops_per_s           a product that the second cache holds, on one core
    bytes_per_s           a copy that no cache holds, on all cores
    cached_bytes_per_s    a copy that half of the second cache holds, on one core; last_cached_bytes_per_s of the last
"""

from __future__ import annotations

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
from weft.schedule import CompileOptions
from weft.schedule.driver import stages
from weft.schedule.stage import Task

_TRIED_S = 0.02
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
        "last_cached_bytes_per_s": (8 * last, _COPY.replace("SIZE", str(last)), one),
        "cached_bytes_per_s": (8 * near, _COPY.replace("SIZE", str(near)), one),
    }
    found = {name: getattr(numpys, name) for name in tried}
    with suppress(WeftError, MemoryError):
        for name, (done, text, cores) in tried.items():
            found[name] = max(found[name], done / _best_seconds(text, cores, backend))
    return found


def _best_seconds(text: str, machine: Machine, backend: Backend) -> float:
    """The best time of some runs of a program."""
    program = parse(text)
    buffers = buffers_of(program)
    kept = dict.fromkeys(buffers, "it is asked for")
    places = backend.places if isinstance(backend, Placing) else frozenset[type]()
    options = CompileOptions(machine=machine, threads=machine.cores)
    *_, (_, stage) = stages(program, Task(kept, places=places, options=options))
    assert stage.plan is not None
    values = {one: np.zeros(one.shape, one.dtype) for one in buffers}
    bench = Workbench(backend, stage.kernels, stage.plan, values, {})
    call, best, end = bench.compiled(stage.kernels), float("inf"), perf_counter() + _TRIED_S
    bench.run(call)
    while perf_counter() < end:
        start = perf_counter()
        bench.run(call)
        best = min(best, perf_counter() - start)
    return max(best, 1e-9)
