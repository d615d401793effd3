"""The source of a kernel and its compiled code: what emitters, compilers and the driver hand to one another."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class BlockMap:
    """A buffer, by its position, as a matrix of rows and cells, of which a kernel's copies have `block`.

    One copy has a `box` of these, and lies in shared memory as `swizzle` says: a compiler decides both.
    """

    buffer: int
    dtype: str
    shape: tuple[int, int]
    block: tuple[int, int]
    box: tuple[int, int] = (0, 0)
    swizzle: int = 0


@dataclass(frozen=True, slots=True)
class Source:
    """A kernel as text: one function `entry`, of a pointer for each buffer and, if it is `given` indices, one to these.

    After these it is given a tensor map for each of its `maps`.
    `dtypes` are the element types of its buffers, in order. It is launched as a grid of `programs`, on `warps`
    of 32 threads each; Triton has `stages` of loads under way in loops. It `writes` some of its buffers, by position.
    """

    language: Literal["triton", "cuda"]
    entry: str
    text: str
    dtypes: tuple[str, ...]
    given: bool
    programs: int
    warps: int
    stages: int = 1
    writes: tuple[int, ...] = ()
    maps: tuple[BlockMap, ...] = ()


@dataclass(frozen=True, slots=True)
class Launch:
    """Machine code of a kernel for one architecture, and what launching it takes.

    `shared` are bytes of dynamic shared memory; so many null pointers are `trailing` its own parameters, of
    which `maps` are the last. It `writes` some of its buffers, by position.
    """

    entry: str
    cubin: bytes
    programs: int
    threads: int
    shared: int = 0
    trailing: int = 0
    writes: tuple[int, ...] = ()
    maps: tuple[BlockMap, ...] = ()


def waits_in_kernels(architecture: str) -> bool:
    """Do kernels of an architecture, launched while those before them run, wait for these by themselves?"""
    return int(architecture.removeprefix("sm_").rstrip("a")) >= 90
