"""What a machine can do at most: multiplications and additions, and bytes moved, in a second; measured."""

from __future__ import annotations

import ctypes
import subprocess
import tempfile
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from time import perf_counter

import numpy as np

from weft.backends.cc.compiler import find_compiler

#: Twelve accumulators keep two units busy that take four to six steps each.
SOURCE = r"""
#if defined(__AVX512F__)
#define BYTES 64
#elif defined(__AVX__)
#define BYTES 32
#else
#define BYTES 16
#endif
typedef float vector __attribute__((vector_size(BYTES)));

long multiply_add(long times, float *out)
{
    vector sums[12], x = (vector){0} + 0.999f, y = (vector){0} + 0.001f;
    for (int n = 0; n < 12; n++) sums[n] = (vector){0} + out[n]; /* not alike: each is to be computed */
    for (long time = 0; time < times; time++)
#pragma GCC unroll 12
        for (int n = 0; n < 12; n++) sums[n] = sums[n] * x + y;
    for (int n = 0; n < 12; n++) out[n] = sums[n][0];
    return times * 12 * (BYTES / 4) * 2;
}

long copy(long size, const float *restrict from, float *restrict to)
{
    for (long i = 0; i < size; i++) to[i] = from[i];
    return 8 * size;
}
"""
FLAGS = ("-O3", "-march=native", "-ffp-contract=fast", "-fno-tree-loop-distribute-patterns", "-shared", "-fPIC")
STEPS, NUMBERS, TRIES = 1_000_000, 1 << 22, 20


@dataclass(frozen=True, slots=True)
class Peak:
    """Floating-point operations and bytes, read and written, in a second; bytes as when 4M numbers are copied."""

    flops: float
    bandwidth: float

    def better(self, other: Peak) -> Peak:
        return Peak(max(self.flops, other.flops), max(self.bandwidth, other.bandwidth))

    def seconds(self, flops: float, moved: float) -> float:
        """The least time a work can take: that of its operations, or of its bytes."""
        return max(flops / self.flops, moved / self.bandwidth)


@cache
def _library() -> ctypes.CDLL:
    compiler = find_compiler(None)
    assert compiler is not None, "there is no C compiler"
    with tempfile.TemporaryDirectory() as folder:
        source, library = Path(folder, "peak.c"), Path(folder, "peak.so")
        source.write_text(SOURCE)
        subprocess.run([*compiler.command, *FLAGS, "-o", str(library), str(source)], check=True)
        found = ctypes.CDLL(str(library))
    found.multiply_add.argtypes = (ctypes.c_long, ctypes.c_void_p)
    found.copy.argtypes = (ctypes.c_long, ctypes.c_void_p, ctypes.c_void_p)
    found.multiply_add.restype = found.copy.restype = ctypes.c_long
    return found


def peak(threads: int) -> Peak:
    library, sums = _library(), np.zeros((threads, 16), "float32")
    one, other = np.ones(NUMBERS, "float32"), np.zeros(NUMBERS, "float32")
    part = NUMBERS // threads

    def copied(thread: int) -> int:
        of = slice(thread * part, (thread + 1) * part)
        return sum(library.copy(part, one[of].ctypes.data, other[of].ctypes.data) for _ in range(4))

    return Peak(
        _rate(lambda thread: library.multiply_add(STEPS, sums[thread].ctypes.data), threads), _rate(copied, threads)
    )


def _rate(work: Callable[[int], int], threads: int) -> float:
    """How much all threads do in a second, at best, each by its own clock: they do not begin at once."""

    def timed(thread: int) -> float:
        start = perf_counter()
        return work(thread) / (perf_counter() - start)

    with ThreadPoolExecutor(threads) as pool:
        return max(sum(pool.map(timed, range(threads))) for _ in range(TRIES))
