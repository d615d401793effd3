"""The functions that every text of C or CUDA C++ can use."""

from __future__ import annotations

from functools import cache
from importlib.resources import files


@cache
def functions() -> str:
    """All headers of this folder. The library comes first: after <tgmath.h> its names would depend on types."""
    names = ("library.h", "elementary.h", "elementary_wide.h", "primitives.h")
    folder = files("weft.backends.c_family")
    return "\n".join(folder.joinpath(name).read_text(encoding="utf-8") for name in names)
