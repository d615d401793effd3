"""How far weft's own elementary functions are from the true values, in units in the last place (ulp).

    python bench/ulps.py                    every number of single precision; a quarter of an hour on two cores
    python bench/ulps.py --quick            every 257th of them
    python bench/ulps.py sin pow            these functions only

Functions of one number in `float32` are tried at all of its 2³² values, in loops on vectors as kernels have them, and
held against the C library in double precision. Powers, and everything in `float64`, are tried at random numbers of all
sizes and at hard ones: near multiples of pi/2, near 1, near where results are least or largest; `float64` is held
against the C library in `long double`. What is infinite, not a number or zero must be what the C library finds, the
sign of zeros included.
The status is 1 if a function is further off than it says (docs/precisions.md).
"""

from __future__ import annotations

import argparse
import ctypes
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

from weft.backends.cc.build import FLAGS
from weft.backends.cc.compiler import find_compiler
from weft.backends.cc.loader import _prelude

#: What each function may be off by, in ulp of `float32` and of `float64`, and what it is in C, in any type.
FUNCTIONS = {
    "exp": (1.25, 1.0, "exp(x)"),
    "log": (1.0, 1.0, "log(x)"),
    "log1p": (1.5, 1.0, "log1p(x)"),
    "tanh": (2.0, 2.0, "tanh(x)"),
    "sigmoid": (3.0, 1.75, "1 / (1 + exp(-x))"),
    "erf": (1.5, 1.5, "erf(x)"),
    "sin": (0.6, 1.0, "sin(x)"),
    "cos": (0.6, 1.0, "cos(x)"),
    "pow": (0.6, 1.25, "pow(x, y)"),
}
Array = np.ndarray

#: How many numbers there are of single precision, and how many random ones, or pairs, are tried of what has more.
ALL, RANDOM = 1 << 32, 1 << 26
#: Numbers that are tried at a time, and every how manyth with --quick.
BLOCK, STRIDE = 1 << 18, 257

SOURCE = r"""
typedef struct { double worst; double at[2]; int64_t wrong; double wrong_at[2]; } found;

static void note(found *found, double x, double y, double off)
{
    if (off > found->worst) found->worst = off, found->at[0] = x, found->at[1] = y;
    if (off < 0 && !found->wrong++) found->wrong_at[0] = x, found->wrong_at[1] = y;
}

/* How far a result is from the true value, in ulp, or 0 where no number is nearer; -1 where it must be the same as the
   C library's and is not. */
#define OFF(T, W, t, digits, lowest)                                                                   \
    static inline double off_##t(T result, T same, W exact)                                            \
    {                                                                                                  \
        if (isnan(same) || isnan(result)) return isnan(same) && isnan(result) ? 0 : -1;                \
        if (signbit(result) != signbit(same)) return -1;                                               \
        if (result == same) return 0;                                                                  \
        if (exact == 0 || isinf(exact)) return -1;                                                     \
        if (isinf(same) || isinf(result)) return 1;                                                    \
        int power = ilogb(exact) < lowest ? lowest : ilogb(exact);                                     \
        return (double)ldexp(fabs((W)result - exact), digits - power);                                 \
    }
OFF(float, double, float32, 23, -126)
OFF(double, long double, float64, 52, -1022)

#define TRY(name, T, W, t, call, exact)                                                                \
    static inline W wide_##name##_##t(W x, W y) { return (void)y, exact; }                             \
    static inline T narrow_##name##_##t(T x, T y) { return (void)y, exact; }                           \
    void try_##name##_##t(const T *xs, const T *ys, T *zs, int64_t size, found *found)                 \
    {                                                                                                  \
        _Pragma("omp simd") for (int64_t i = 0; i < size; i++)                                         \
        {                                                                                              \
            T x = xs[i], y = ys[i];                                                                    \
            (void)y;                                                                                   \
            zs[i] = weft_##name##_##t call;                                                            \
        }                                                                                              \
        for (int64_t i = 0; i < size; i++) {                                                           \
            T x = xs[i], y = ys[i];                                                                    \
            W wide = wide_##name##_##t(x, y);                                                          \
            T same = isfinite(wide) && wide != 0 ? (T)wide : narrow_##name##_##t(x, y);                \
            note(found, x, y, off_##t(zs[i], same, wide));                                             \
        }                                                                                              \
    }
"""


class Found(ctypes.Structure):
    """The most that a function is off, where, and how often it is something else altogether."""

    _fields_ = (
        ("worst", ctypes.c_double),
        ("at", ctypes.c_double * 2),
        ("wrong", ctypes.c_int64),
        ("wrong_at", ctypes.c_double * 2),
    )


@dataclass(frozen=True, slots=True)
class Case:
    name: str
    dtype: str

    @property
    def limit(self) -> float:
        return FUNCTIONS[self.name][self.dtype == "float64"]

    @property
    def exhaustive(self) -> bool:
        return self.dtype == "float32" and self.name != "pow"


def cases(names: Iterable[str] = FUNCTIONS) -> list[Case]:
    return [Case(name, dtype) for dtype in ("float32", "float64") for name in names]


def library(folder: Path, flags: Sequence[str] = ()) -> ctypes.CDLL:
    """Every function in a loop on vectors, compiled as kernels are."""
    compiler = find_compiler(None)
    assert compiler is not None, "there is no C compiler"
    text = [_prelude(), SOURCE]
    for case in cases():
        call, exact = "(x, y)" if case.name == "pow" else "(x)", FUNCTIONS[case.name][2]
        types = "float, double, float32" if case.dtype == "float32" else "double, long double, float64"
        text.append(f"TRY({case.name}, {types}, {call}, {exact})")
    source, made = folder / "ulps.c", folder / "ulps.so"
    source.write_text("\n".join(text))
    subprocess.run([*compiler.command, *FLAGS, *flags, "-o", str(made), str(source), "-lm"], check=True)
    return ctypes.CDLL(str(made))


def tried(made: ctypes.CDLL, case: Case, x: Array, y: Array) -> Found:
    """What a function is off by at some numbers."""
    found, results = Found(), np.empty_like(x)
    pointers = [ctypes.c_void_p(one.ctypes.data) for one in (x, y, results)]
    made[f"try_{case.name}_{case.dtype}"](*pointers, ctypes.c_int64(len(x)), ctypes.byref(found))
    return found


def together(found: Iterable[Found]) -> Found:
    most = Found()
    for one in found:
        if one.worst > most.worst:
            most.worst, most.at = one.worst, one.at
        most.wrong_at = one.wrong_at if one.wrong and not most.wrong else most.wrong_at
        most.wrong += one.wrong
    return most


# What is tried


def parts(case: Case, stride: int) -> range:
    """The parts that what is tried comes in."""
    return range(-(-(ALL if case.exhaustive else RANDOM) // (BLOCK * stride)) + 1)


@np.errstate(all="ignore")
def numbers(case: Case, stride: int, part: int) -> tuple[Array, Array]:
    """All numbers of single precision, or every so manyth; random and hard ones of what has too many."""
    if part == 0:
        x = hard_numbers(case.dtype)
        return (x, x) if case.name != "pow" else pairs(special_numbers(case.dtype), x[::11])
    if not case.exhaustive:
        return random_numbers(case.dtype, part)
    bits = np.arange((part - 1) * BLOCK * stride, min(ALL, part * BLOCK * stride), stride).astype("uint32")
    return bits.view("float32"), bits.view("float32")


def pairs(*some: Array) -> tuple[Array, Array]:
    """Of each of some arrays, each number with each."""
    grids = [np.meshgrid(one, one) for one in some]
    x, y = (np.concatenate([grid[side].ravel() for grid in grids]) for side in (0, 1))
    return x, y


def random_numbers(dtype: str, seed: int) -> tuple[Array, Array]:
    """Pairs: random bits, numbers near 1 and -1, of moderate size and around 1, hard ones, each with each."""
    rng, size, found = np.random.default_rng(seed), BLOCK // 6, []
    bits = {"float32": "uint32", "float64": "uint64"}[dtype]
    for _ in range(2):
        random = np.frombuffer(rng.bytes(size * np.dtype(bits).itemsize), bits).view(dtype)
        near_one = 1 + rng.normal(size=size) * 2.0 ** -rng.uniform(0, 50, size)
        near_less = 2.0 ** -rng.uniform(0, 60, size) - 1
        moderate = rng.normal(size=size) * 2.0 ** rng.uniform(-8, 12, size)
        around = rng.uniform(-6, 6, size)  # where most functions bend
        hard = rng.choice(hard_numbers(dtype), size)
        drawn = (random, near_one, near_less, moderate, around, hard)
        found.append(np.concatenate([one.astype(dtype) for one in drawn]))
        found[-1][np.isnan(found[-1])] = np.nan  # libraries differ on those that signal
        rng.shuffle(found[-1])
    return found[0], found[1]


def hard_numbers(dtype: str) -> Array:
    """Whole numbers and halves, multiples of pi/2, and where results overflow or vanish, with special ones."""
    info = np.finfo(dtype)
    whole = [*np.arange(0.5, 70, 0.5), *(2.0 ** np.arange(0, info.maxexp, 7)), 2.0**info.nmant - 1, 2.0**info.nmant + 1]
    turns = [*(np.arange(1, 200) * np.pi / 2), *(np.round(2.0 ** np.linspace(8, 60, 300)) * np.pi / 2)]
    nearest = [
        np.ldexp(16367173.0, 72),
        np.ldexp(6381956970095103.0, 797 if dtype == "float64" else 0),
    ]  # to such a one
    ends = [*np.log([float(info.max), float(info.tiny), float(info.smallest_subnormal)]), 88.72, 709.78, 103.97, 745.13]
    found = np.array([*whole, *turns, *nearest, *ends]).astype(dtype)
    found = np.concatenate([found, *(np.nextafter(found, np.array(way, dtype)) for way in (0, np.inf))])
    return np.concatenate([special_numbers(dtype), found, -found])


def special_numbers(dtype: str) -> Array:
    info = np.finfo(dtype)
    least = [info.tiny, info.smallest_subnormal, 1 - info.epsneg, 1 + info.eps, info.max]
    found = np.array([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, np.inf, np.nan, *least]).astype(dtype)
    return np.concatenate([found, -found])


def measure(made: ctypes.CDLL, case: Case, stride: int, threads: int) -> Found:
    def one(part: int) -> Found:
        return tried(made, case, *numbers(case, stride, part))

    with ThreadPoolExecutor(threads) as pool:
        return together(pool.map(one, parts(case, stride)))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="FUNCTION", help=f"of {', '.join(FUNCTIONS)}")
    parser.add_argument("--type", default="float", metavar="TYPE", help="float32 or float64 only")
    parser.add_argument("--quick", action="store_true", help=f"every {STRIDE}th number")
    parser.add_argument("--threads", type=int, default=len(os.sched_getaffinity(0)))
    parser.add_argument("--flags", nargs="*", default=[], help="more for the compiler: --flags=-mno-fma")
    arguments = parser.parse_args()
    chosen = [case for case in cases(arguments.names or FUNCTIONS) if case.dtype.startswith(arguments.type)]
    passed = True
    grid = Table("function", "type", "most, ulp", "at", "stated", "seconds")
    with tempfile.TemporaryDirectory() as folder:
        made = library(Path(folder), arguments.flags)
        for case in track(chosen, "trying", console=Console(stderr=True), transient=True):
            start = perf_counter()
            found = measure(made, case, STRIDE if arguments.quick else 1, arguments.threads)
            right = not found.wrong and found.worst <= case.limit
            where = [*found.wrong_at] if found.wrong else [*found.at]
            shown = ", ".join(map(repr, where[: 2 if case.name == "pow" else 1]))
            most = f"{found.worst:.3f}" + (f", {found.wrong} WRONG" if found.wrong else "")
            style = "" if right else "red"
            seconds = f"{perf_counter() - start:.0f}"
            grid.add_row(case.name, case.dtype, most, shown, f"{case.limit:g}", seconds, style=style)
            passed &= right
    Console(width=120 if not sys.stdout.isatty() else None).print(grid)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
