"""Which pass made a program compute something else: the kernels after each are interpreted and compared."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from weft.backends import Array, Backend
from weft.loops import Buffer, Program, buffers_of
from weft.loops.interp import run
from weft.ops.dtypes import digits, is_float, numpy_type
from weft.schedule import Kernel, as_program

#: How far results may lie apart, in roundings of the largest number among them: passes reorder sums.
_ROUNDINGS = 256


@dataclass(frozen=True, slots=True)
class Difference:
    """The first pass after which a buffer holds something else, and by how much, relative to its largest number."""

    done: str
    buffer: str
    relative: float

    def __str__(self) -> str:
        return f"after `{self.done}` `{self.buffer}` is off by {self.relative:.1e} of its largest number"


def first_difference(
    stages: Iterable[tuple[str, Sequence[Kernel]]],
    backend: Backend,
    found: Mapping[Buffer, Array],
    kept: Collection[Buffer],
    given: Mapping[str, int],
) -> Difference | None:
    """Compare what every stage leaves in `kept` with what the first does, and at last what the backend makes of it.

    `found` is what is in memory before.
    """
    meant: Mapping[Buffer, Array] | None = None
    kernels: Sequence[Kernel] = ()
    for name, kernels in stages:
        left = _interpreted(as_program(kernels), found, kept, given)
        meant = meant or left
        if (found_first := difference(name, meant, left)) is not None:
            return found_first
    return difference("compile", meant or {}, _run(backend, kernels, found, kept, given))


def _interpreted(
    program: Program, found: Mapping[Buffer, Array], kept: Collection[Buffer], given: Mapping[str, int]
) -> dict[Buffer, Array]:
    memory = {one: _start(one, found) for one in (*buffers_of(program), *kept)}
    run(program, memory, given)
    return {one: memory[one] for one in kept}


def _run(
    backend: Backend,
    kernels: Sequence[Kernel],
    found: Mapping[Buffer, Array],
    kept: Collection[Buffer],
    given: Mapping[str, int],
) -> dict[Buffer, Array]:
    memory = {}
    for one in dict.fromkeys([*buffers_of(as_program(kernels)), *kept]):
        memory[one] = backend.allocate(one, 0)
        backend.upload(_start(one, found), memory[one])
    backend.compile(kernels).bind(memory)(given)
    return {one: backend.download(memory[one]) for one in kept}


def _start(buffer: Buffer, found: Mapping[Buffer, Array]) -> Array:
    """What a buffer holds before: what was found there, else nothing but zeros."""
    return found[buffer].copy() if buffer in found else np.zeros(buffer.shape, numpy_type(buffer.dtype))


def difference(done: str, meant: Mapping[Buffer, Array], left: Mapping[Buffer, Array]) -> Difference | None:
    """The first buffer that holds something else than what is meant, by more than roundings."""
    for buffer, array in meant.items():
        relative = _distance(array.astype(np.float64), left[buffer].astype(np.float64))
        if relative > (_ROUNDINGS * 2.0 ** -digits(buffer.dtype) if is_float(buffer.dtype) else 0):
            return Difference(done, buffer.name, relative)
    return None


def _distance(meant: Array, left: Array) -> float:
    """How far numbers lie from what is meant, relative to the largest of those."""
    finite = np.isfinite(meant)
    if not np.array_equal(meant[~finite], left[~finite], equal_nan=True):
        return float("inf")
    off, largest = (np.abs(one[finite]).max(initial=0) for one in (meant - left, meant))
    return float(off / (largest or 1)) if np.isfinite(off) else float("inf")
