"""Kernels loaded by name: those this process has, those on disk, and the rest compiled in a few units at once."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.backends.cc.build import build_all, key_of
from weft.backends.cc.cache import opened
from weft.backends.cc.compiler import Compiler
from weft.backends.cc.kernels import PLAYER

#: So many kernels are worth starting another compiler for.
_WORTH_A_UNIT = 4

#: The kernels of this process: where they are kept, what they are; the library stays loaded with them.
_known: dict[tuple[Path, str], Any] = {}


@dataclass(frozen=True, slots=True)
class Loaded:
    """Kernels by name, as addresses, and the function that plays a list of them."""

    kernels: Mapping[str, int]
    play: Callable[..., None]


def load(compiler: Compiler, texts: Mapping[str, str], folder: Path) -> Loaded:
    """The functions of some C texts, by name."""
    prelude = files("weft.backends.cc").joinpath("prelude.h").read_text(encoding="utf-8")
    wanted = {**texts, "weft_play": PLAYER}
    keys = {name: key_of(compiler, f"{prelude}\n{text}") for name, text in wanted.items()}
    missing = [name for name in wanted if (folder, keys[name]) not in _known]
    if missing:
        missing = _find(folder, {name: keys[name] for name in missing})
    if missing:
        units = _units(missing)
        texts_of = [f"{prelude}\n" + "\n".join(wanted[name] for name in unit) for unit in units]
        made = build_all(compiler, texts_of, folder)
        with opened(folder) as cache:
            for unit, text, library in zip(units, texts_of, made, strict=True):
                for name in unit:
                    _known[folder, keys[name]] = getattr(library, name)
                    cache.note(keys[name], key_of(compiler, text))
    functions = {name: _known[folder, keys[name]] for name in wanted}
    play = functions.pop("weft_play")
    play.restype = None
    addresses = {name: ctypes.cast(one, ctypes.c_void_p).value for name, one in functions.items()}
    return Loaded({name: at for name, at in addresses.items() if at is not None}, play)


def _find(folder: Path, keys: Mapping[str, str]) -> list[str]:
    """Load what is on disk; the names of what is not."""
    missing = []
    libraries: dict[str, ctypes.CDLL | None] = {}
    with opened(folder) as cache:
        for name, key in keys.items():
            unit = cache.noted(key)
            if unit is not None and unit not in libraries:
                libraries[unit] = cache.load(unit)
            function = getattr(libraries.get(unit or ""), name, None)
            if function is None:
                missing.append(name)
            else:
                _known[folder, key] = function
    return missing


def _units(names: Sequence[str]) -> list[Sequence[str]]:
    """Kernels dealt out to compilers: as many as there are processors, if there is work for them."""
    count = max(1, min(len(os.sched_getaffinity(0)), len(names) // _WORTH_A_UNIT))
    return [names[start::count] for start in range(count)]
