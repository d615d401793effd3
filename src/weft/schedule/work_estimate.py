"""An estimate of how long code takes on one core, in nanoseconds: what is too short is not shared among threads.

Operations and functions run on vectors, and what is touched lies in a cache: code that does worse takes longer. Tiles
keep what they read in registers.
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops import Cast, Read, Stmt, Store, Update
from weft.loops.legality import points
from weft.loops.walk import parts, scoped, walk
from weft.machine import Machine
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import numpy_type
from weft.optimise.latency import is_long_latency


def work_ns(body: Sequence[Stmt], machine: Machine) -> float:
    """How long a block takes."""
    total = 0.0
    for stmt, scope in scoped(body):
        tiled = any(step.staged for step in scope.around)
        own = sum(_scalar_ns(one, machine, tiled) for part in parts(stmt) for one in walk(part))
        if isinstance(stmt, Store | Update):
            own += _transfer_ns(stmt.buffer.dtype, machine)
        if isinstance(stmt, Update):
            own += 1e9 / machine.flops_per_s + _transfer_ns(stmt.buffer.dtype, machine)
        total += own * points(scope.loops)
    return total


def _scalar_ns(scalar: Scalar, machine: Machine, tiled: bool) -> float:
    match scalar:
        case Call():
            return machine.function_ns if is_long_latency(scalar) else 1e9 / machine.flops_per_s
        case Cast(value=value):
            return 0.0 if isinstance(value, Num) else 1e9 / machine.flops_per_s
        case Read(buffer=buffer) if not tiled:
            return _transfer_ns(buffer.dtype, machine)
    return 0.0


def _transfer_ns(dtype: str, machine: Machine) -> float:
    return numpy_type(dtype).itemsize * 1e9 / machine.cached_bytes_per_s
