"""What runs loop programs."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable
from contextlib import suppress
from functools import cache
from importlib.util import find_spec

from weft.backends.cc import Cc
from weft.backends.interp import Interp
from weft.backends.protocol import (
    Array as Array,
    Backend as Backend,
    Bindable as Bindable,
    Block as Block,
    BoundProgram as BoundProgram,
    CompilerCrash as CompilerCrash,
    DescribingGpu as DescribingGpu,
    DeviceUse as DeviceUse,
    Exchanging as Exchanging,
    Executable as Executable,
    InOrder as InOrder,
    KernelCall as KernelCall,
    Lasting as Lasting,
    Memory as Memory,
    Placing as Placing,
    Played as Played,
    Pooling as Pooling,
    Prompt as Prompt,
)
from weft.errors import Origin, WeftError, WeftWarning, user_origin


def _cuda() -> Backend:
    """Imported where it is asked for: who does not ask pays nothing."""
    from weft.backends.cuda import Cuda

    return Cuda()


_BACKENDS: dict[str, Callable[[], Backend]] = {"interp": Interp, "cc": Cc, "cuda": _cuda}


#: What others call them.
_MEANT = {"cpu": "cc", "c": "cc", "gcc": "cc", "clang": "cc", "gpu": "cuda", "cuda:0": "cuda", "numpy": "interp"}


def find_backend(wanted: str | Backend | None) -> Backend:
    """The backend of a name, or the one given, or by default the one WEFT_BACKEND names, or the best that works."""
    if isinstance(wanted, Backend) and not isinstance(wanted, type):
        return wanted
    by_default = os.environ.get("WEFT_BACKEND") if wanted is None else None
    name = by_default or wanted
    if name is None:
        return _best()
    if not isinstance(name, str) or name not in _BACKENDS:
        known = ", ".join(f'"{one}"' for one in _BACKENDS)
        what = f"WEFT_BACKEND names no backend: {name!r}" if by_default else f"there is no backend {name!r}"
        meant = _MEANT.get(str(name).lower())
        raise WeftError(what, fix=f'write "{meant}"' if meant else f"use one of {known}")
    return _BACKENDS[name]()


def _best() -> Backend:
    """A GPU that works, where what compiles for it is installed; else the processor, if need be interpreted."""
    if has_gpu_compilers():
        with suppress(WeftError):
            return _cuda()
    try:
        return Cc()
    except WeftError:
        return _interpreter_instead()


@cache
def has_gpu_compilers() -> bool:
    """Is the extra `weft[cuda]` installed? Without it no driver is looked for."""
    return find_spec("triton") is not None


@cache
def _interpreter_instead() -> Backend:
    """The interpreter; the first time it is asked for, a warning that says what to install."""
    named = os.environ.get("WEFT_CC")
    found = f"WEFT_CC names no compiler ({named!r})" if named else "no C compiler was found"
    origin = user_origin() or Origin("weft", 0)
    warnings.warn_explicit(
        f'{found}, so code is interpreted, which is slow; install gcc or clang, or pip install "weft[cc]", '
        'or set WEFT_CC to a compiler; wf.Context("interp") says that slow is fine',
        WeftWarning,
        origin.file,
        origin.line,
    )
    return Interp()
