"""The machine that code runs on: what it has, and what it does in a second.

What it has is read from descriptions of the processor, not measured. What it does in a second is that of a common
machine, until `measured` tries it here; what that finds is kept on disk.
"""

from __future__ import annotations

import hashlib
import json
import os
import platform
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from functools import lru_cache
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

from weft.cache import cache_folder, opened
from weft.errors import WeftError
from weft.public import public_constructor

#: What -march=native looks at, by the names of x86 and of ARM.
_PROCESSOR = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")
#: Instruction sets by the word for them in the description: bytes in a vector, and how many vector registers.
_VECTORS = {"avx512f": (64, 32), "avx": (32, 16), "sse2": (16, 16), "asimd": (16, 32)}
#: The same by which they multiply narrow types, and the bytes of these machines' vectors.
_NARROW = (("avx512_bf16", 64, "bfloat16"), ("avx512_vnni", 64, "int8"), ("avx_vnni", 32, "int8"))
#: What differs by the vendor and the family of a processor, if it has the widest vectors. Some run these in two halves,
#: and take as long for two narrower ones, which load more; to some a line of the second cache comes meanwhile.
_FAMILIES: Mapping[tuple[str, ...], Mapping[str, float]] = {
    ("AuthenticAMD", "25"): {"narrow_steps": 1.08, "strided_steps": 0.01, "held_steps": 0.01},
    ("AuthenticAMD", "26"): {"line_steps": 3.6, "strided_steps": 1.4, "held_steps": 0.1},
}
_CACHES = "/sys/devices/system/cpu/cpu0/cache"
_MEASURED_S = 0.02


@public_constructor
@dataclass(frozen=True, slots=True)
class Machine:
    """A processor; by itself, one core of a common one.

    `caches` are bytes, from the one nearest to a core on, in lines of `line_bytes`. `flops_per_s` and `bytes_per_s` are
    of one core and of memory, `cached_bytes_per_s` of what lies in the second cache, `last_cached_bytes_per_s` of what
    the last one holds. In nanoseconds: `call_ns` to call a kernel; `function_ns` for a function such as `exp` at a
    point, `wait_ns` longer for every other it waits for, `latency_ns` at most; `scalar_function_ns` where it runs on
    one number at a time, `vector_function_ns` where on vectors; `round_ns` until other cores have joined a loop, and
    all are done with it. `reorder_points`: at so many points in a row it finds enough to do while functions wait. In
    steps, multiply-adds of vectors in registers: `copy_steps` to copy a number into a panel and `transpose_steps` to
    transpose it there, `narrow_steps` for two multiply-adds of vectors half as wide, `load_steps` for a multiply-add
    whose vectors are all loaded, and may straddle two cache lines, `line_steps` to read a number from a line that no
    first cache holds, `strided_steps` to load vectors from such a line where those around it are not wanted,
    `held_steps` the same where the second cache holds it, `contested_steps` to write to one that another core writes
    to, `scalar_steps` for an operation on one number; to convert one takes `convert_operations` of these,
    `half_operations` from half precision. Lines `way_bytes` apart compete for the same few places of the first cache,
    for `near_ways` places of the second one if they are that part of it apart, lines up to `near_bytes` apart are
    fetched before they are asked for, and `points_per_ns` points that do next to nothing are done in a nanosecond.
    `narrow` has the types of which vectors add up several products in a step: "bfloat16", two in a lane of float32;
    "int8", four in one of int32. `identity` tells machines apart that cannot share compiled code.
    """

    isa: str = "x86_64"
    vector_bytes: int = 64
    registers: int = 32
    caches: tuple[int, ...] = (3 << 14, 1 << 21, 1 << 25)
    cores: int = 1
    line_bytes: int = 64
    flops_per_s: float = 5e10
    bytes_per_s: float = 1.5e10
    cached_bytes_per_s: float = 1e11
    last_cached_bytes_per_s: float = 4e10
    call_ns: float = 15.0
    function_ns: float = 0.57
    wait_ns: float = 0.17
    latency_ns: float = 1.7
    scalar_function_ns: float = 8.0
    vector_function_ns: float = 1.0
    round_ns: float = 1000.0
    reorder_points: int = 64
    copy_steps: float = 0.1
    transpose_steps: float = 0.4
    narrow_steps: float = 2.0
    load_steps: float = 1.4
    line_steps: float = 1.7
    strided_steps: float = 2.8
    held_steps: float = 2.8
    contested_steps: float = 32.0
    scalar_steps: float = 4.0
    convert_operations: float = 0.125
    half_operations: float = 0.5
    way_bytes: int = 4096
    near_ways: int = 16
    near_bytes: int = 256
    points_per_ns: float = 4.0
    narrow: str = ""
    identity: str = ""

    def __post_init__(self) -> None:
        for field in fields(self):
            value = getattr(self, field.name)
            if isinstance(field.default, str):
                _require(field.name, value, isinstance(value, str), "text")
            elif isinstance(field.default, tuple):
                whole = isinstance(value, tuple) and len(value) > 1 and all(_positive(one) for one in value)
                _require(field.name, value, whole, "a tuple of sizes in bytes, two at least")
            else:
                _require(field.name, value, _positive(value), "a number above 0")
        known = {kind for *_, kind in _NARROW}
        _require("narrow", self.narrow, known.issuperset(self.narrow.split()), f"some of {', '.join(sorted(known))}")

    @staticmethod
    def here() -> Machine:
        """This machine."""
        return _here()

    def transfer_ns(self, size: int, held: int | None = None) -> float:
        """What it takes to move so many bytes between a core and the cache that holds all of them, or memory; so many
        are held, if that is not what is moved."""
        return size / self.bytes_per_s_of(size if held is None else held) * 1e9

    def bytes_per_s_of(self, held: int) -> float:
        """How many bytes of so many are moved in a second."""
        if held <= self.caches[1]:
            return self.cached_bytes_per_s
        return self.last_cached_bytes_per_s if held <= self.caches[-1] else self.bytes_per_s

    def measured(self, trial: Callable[[Machine], Mapping[str, float]] | None = None) -> Machine:
        """The machine with its speeds as they are here; tried once, then found on disk.

        They are what NumPy reaches, or what a `trial` finds: the speeds by name.
        """
        key = hashlib.sha256(f"{self!r} {trial is None}".encode()).hexdigest()[:40]
        with opened(cache_folder("machine")) as cache:
            found = cache.read(key)
            if found is None:
                found = json.dumps({**(trial or _speeds)(self)}).encode()
                cache.keep(key, found)
        return replace(self, **json.loads(found))


def _positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _require(name: str, value: object, holds: bool, wanted: str) -> None:
    if not holds:
        what = f"Machine.{name} is {wanted}, not {value!r}"
        fix = "change what differs: dataclasses.replace(wf.Machine.here(), …)"
        raise WeftError(what, fix=fix)


#: One core of a common machine.
COMMON = Machine()


# What it has


@lru_cache(maxsize=1)
def _here() -> Machine:
    lines = described()
    words = " ".join(lines).split()
    vector_bytes, registers = next((found for word, found in _VECTORS.items() if word in words), (16, 16))
    return Machine(
        platform.machine(),
        vector_bytes,
        registers,
        _caches() or COMMON.caches,
        os.cpu_count() or 1,
        _line() or COMMON.line_bytes,
        **_of_family(lines),
        narrow=" ".join(kind for word, size, kind in _NARROW if word in words and size == vector_bytes),
        identity=hashlib.sha256("\n".join(lines).encode()).hexdigest()[:16],
    )


def _of_family(lines: Sequence[str]) -> Mapping[str, Any]:
    """What differs from a common machine where a processor of this description runs the widest vectors."""
    said = {key.strip(): value.split() for key, _, value in (line.partition(":") for line in lines)}
    family = *said.get("vendor_id", ()), *said.get("cpu family", ())
    return _FAMILIES.get(family, {}) if "avx512f" in said.get("flags", ()) else {}


def described() -> list[str]:
    """What compiled code depends on besides its text and its compiler: the ABI and the processor.

    Where nothing describes the processor, the machine's name stands for it.
    """
    abi = (platform.system(), platform.machine(), sys.byteorder, str(sys.maxsize), _libc())
    return [*abi, *(list(_processor()) or [platform.node()])]


def _processor() -> Iterator[str]:
    """The first processor's description."""
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not line.strip():
                    return
                if line.startswith(_PROCESSOR):
                    yield line.strip()
    except OSError:
        return


def _libc() -> str:
    """The C library and its version: code linked with a newer one does not load with an older one."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return str(getattr(sys.implementation, "_multiarch", ""))


def _caches() -> tuple[int, ...]:
    """The sizes of a core's caches for data, the nearest first; nothing where the system does not say."""
    found = dict[int, int]()
    try:
        for one in sorted(os.listdir(_CACHES)):
            if one.startswith("index"):
                level, kind, size = (_word(f"{_CACHES}/{one}/{what}") for what in ("level", "type", "size"))
                if kind != "Instruction":
                    found[int(level)] = int(size.rstrip("KM")) << {"K": 10, "M": 20}.get(size[-1:], 0)
    except (OSError, ValueError):
        return ()
    return tuple(size for _, size in sorted(found.items())) if len(found) > 1 and all(found.values()) else ()


def _line() -> int:
    """The bytes of a line of the nearest cache; 0 where the system does not say."""
    try:
        return int(_word(f"{_CACHES}/index0/coherency_line_size"))
    except (OSError, ValueError):
        return 0


def _word(path: str) -> str:
    with open(path, encoding="utf-8") as file:
        return file.read().strip()


# What it does in a second


def _speeds(machine: Machine) -> Mapping[str, float]:
    sizes = 1 << 26, *(max(size // 4, 1 << 12) for size in (machine.caches[-1], machine.caches[1]))
    far, last, near = (np.ones(size // 4, np.float32) for size in sizes)
    matrix = np.ones((64, 64), np.float32)  # small enough that one core computes it
    return {
        "flops_per_s": 2 * 64**3 / _seconds(lambda out: np.dot(matrix, matrix, out=out), matrix),
        "bytes_per_s": 2 * far.nbytes / _seconds(lambda to: np.copyto(to, far), far),
        "last_cached_bytes_per_s": 2 * last.nbytes / _seconds(lambda to: np.copyto(to, last), last),
        "cached_bytes_per_s": 2 * near.nbytes / _seconds(lambda to: np.copyto(to, near), near),
    }


def _seconds(work: Callable[[NDArray[np.float32]], object], like: NDArray[np.float32]) -> float:
    """The best time of some tries."""
    into, best, end = like.copy(), float("inf"), perf_counter() + _MEASURED_S
    while perf_counter() < end:
        start = perf_counter()
        work(into)
        best = min(best, perf_counter() - start)
    return max(best, 1e-9)
