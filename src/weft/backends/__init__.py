"""What runs loop programs."""

from __future__ import annotations

from collections.abc import Callable

from weft.backends.cc import Cc
from weft.backends.interp import Interp
from weft.backends.seam import Array, Backend, Bound, Executable, Memory
from weft.errors import WeftError, user_origin

__all__ = ["Array", "Backend", "Bound", "Executable", "Memory", "find_backend"]

_BACKENDS: dict[str, Callable[[], Backend]] = {"interp": Interp, "cc": Cc}


def find_backend(name: str) -> Backend:
    """The backend called `name`."""
    if name not in _BACKENDS:
        known = " or ".join(f'"{one}"' for one in _BACKENDS)
        raise WeftError(f"there is no backend {name!r}", origin=user_origin(), fix=f"use {known}")
    return _BACKENDS[name]()
