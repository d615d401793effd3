"""What compilers get wrong, and how generated code keeps clear of it.

    seen in                      what goes wrong                                      what weft does
    gcc 11, 12 <12.4, 13 <13.2   sums in order of neighbours that lie in reverse,     vectors only where asked for, with
                                 put on vectors unasked, count some of them twice     sums named: `-fno-tree-vectorize`
    gcc 12                       a function on vectors is taken for one that does     no function knows another:
                                 not read or write what it does                       `WEFT_APART`
    gcc                          `-fma(x, y, z)` is taken for -x y - z, which is 0.0  a sign is flipped as a bit:
                                 where it should be -0.0                              `weft_neg`
    gcc                          `0.0 - x` is taken for -x where x cannot be -0.0,    `0.0 + weft_neg(x)`
                                 which is -0.0 where it should be 0.0

`faults.h` has such a text for each, with its answer, and what all generated code rests on besides: choices and named
sums on vectors. It is compiled as all code is, kept with it, and asked once in a process: what a compiler makes of
them is known before anything it compiled runs.
"""

from __future__ import annotations

import ctypes
from functools import cache
from importlib.resources import files

from weft.backends.cc.compiler import Compiler
from weft.errors import WeftError

#: What the texts do, by number.
KNOWN = (
    "sums of neighbours in reversed order",
    "what functions read through their arguments",
    "choices on vectors",
    "sums on vectors",
)


@cache
def texts() -> str:
    """The texts, in C, and `weft_fault`, which tries them."""
    return files("weft.backends.cc").joinpath("faults.h").read_text(encoding="utf-8")


def refuse(compiler: Compiler, fault: ctypes._NamedFuncPointer) -> None:
    """Refuse a compiler that gets one of the texts wrong."""
    fault.restype = ctypes.c_int64
    wrong = fault()
    if wrong:
        raise WeftError(
            f"the C compiler gets {KNOWN[wrong - 1]} wrong: {' '.join(compiler.command)}",
            fix='set WEFT_CC to another compiler, or use Context("interp")',
        )
