"""Kernels loaded by name: those this process has, those on disk, and the rest compiled in a few units at once.

A unit that the compiler breaks down on is halved until it is known on which kernels it does.

With them come what all of them need: the player of lists of kernels, the team of threads, the texts that try the
compiler. There is one team in a process, the first that was loaded, whoever compiled it.
"""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from hashlib import sha256
from importlib.resources import files
from pathlib import Path
from typing import Any

from weft.backends.c_family.headers import functions
from weft.backends.cc import compiler_bugs
from weft.backends.cc.build import Crash, attempt_all, library_key, loaded
from weft.backends.cc.compiler import Compiler
from weft.backends.cc.kernels import PLAYER
from weft.cache import Cache, opened

#: So many loops of kernels are worth a unit: each begins with the prelude. Code is the same in any unit.
_WORTH_A_UNIT = 48
#: The type of a vector, and its bytes.
_VECTOR = re.compile(r"\bweft_[a-z]+[0-9]*v([0-9]+)\b")


@dataclass(frozen=True, slots=True)
class _Function:
    """A function of a library, which stays loaded with it, and the bytes of scratch memory each thread needs."""

    function: Any
    scratch: int

    @property
    def address(self) -> int:
        return ctypes.cast(self.function, ctypes.c_void_p).value or 0

    @staticmethod
    def of(library: ctypes.CDLL | None, name: str) -> _Function | None:
        """The function of that name; None if the library has none."""
        function = getattr(library, name, None)
        if library is None or function is None:
            return None
        try:
            return _Function(function, ctypes.c_int64.in_dll(library, f"{name}_scratch").value)
        except ValueError:
            return _Function(function, 0)


#: The functions of this process: where they are kept, what they are.
_known: dict[tuple[Path, str], _Function] = {}
#: The functions that the compiler broke down on in this process: it is not asked a second time.
_crashed: dict[tuple[Path, str], Crash] = {}
#: What shares work among the threads of this process, once it is loaded.
_team: list[_Function] = []


@dataclass(frozen=True, slots=True)
class Loaded:
    """Kernels by name, as addresses, the most scratch memory a thread needs, and what plays and shares them.

    `crashes` are those that are not there, because the compiler broke down on them.
    """

    kernels: Mapping[str, int]
    scratch: int
    play: Callable[..., None]
    share: int
    crashes: Mapping[str, Crash]


def load(compiler: Compiler, texts: Mapping[str, str], folder: Path) -> Loaded:
    """The functions of some C texts, by name. A name stands for its text: no two texts have one."""
    wanted = {**texts, "weft_play": PLAYER, "weft_share": _text("team.h"), "weft_fault": compiler_bugs.texts()}
    keys = _keys(compiler, wanted)
    missing = [name for name in _find(folder, keys) if (folder, keys[name]) not in _crashed]
    units: Sequence[Sequence[str]] = _units({name: wanted[name] for name in missing}) if missing else ()
    while units:
        units = _compile(compiler, units, wanted, folder, keys)
    crashes = {name: _crashed[folder, key] for name, key in keys.items() if (folder, key) in _crashed}
    for name in crashes.keys() - texts.keys():
        raise crashes[name]
    return _loaded(compiler, folder, {name: key for name, key in keys.items() if name not in crashes}, crashes)


def _compile(
    compiler: Compiler,
    units: Sequence[Sequence[str]],
    texts: Mapping[str, str],
    folder: Path,
    keys: Mapping[str, str],
) -> list[Sequence[str]]:
    """Compile functions in units; the halves of those units that the compiler broke down on."""
    whole = [with_prelude("\n".join(texts[name] for name in unit)) for unit in units]
    found, halves = attempt_all(compiler, whole, folder), list[Sequence[str]]()
    with opened(folder) as kept:
        for unit, text, made in zip(units, whole, found, strict=True):
            if isinstance(made, Crash) and len(unit) > 1:
                made.discard()
                halves += [unit[::2], unit[1::2]]
                continue
            for name in unit:
                if isinstance(made, Crash):
                    _crashed[folder, keys[name]] = made
                    continue
                function = _Function.of(made, name)
                assert function is not None, f"the text of {name} is that of a function"
                _known[folder, keys[name]] = function
                kept.keep(f"{keys[name]}.in", library_key(compiler, text).encode())
    return halves


def find_kernels(compiler: Compiler, names: Iterable[str], folder: Path) -> Loaded | None:
    """Functions by name, if all of them are in this process or on disk."""
    keys = _keys(compiler, [*names, "weft_play", "weft_share", "weft_fault"])
    return None if _find(folder, keys) else _loaded(compiler, folder, keys)


def environment(compiler: Compiler) -> str:
    """Whatever a function depends on besides its text."""
    beside = _prelude(), _text("vectors.h"), PLAYER, _text("team.h"), compiler_bugs.texts()
    return library_key(compiler, "\n".join(beside))


def _keys(compiler: Compiler, names: Iterable[str]) -> dict[str, str]:
    """What functions are kept under."""
    beside = environment(compiler)
    return {name: sha256(f"{name} {beside}".encode()).hexdigest()[:40] for name in names}


def with_prelude(text: str) -> str:
    """A text with what comes before it: `vectors.h` where it has products, for the vectors that it mentions."""
    widths = sorted(set(_VECTOR.findall(text)), key=int)
    vectors = [_text("vectors.h"), *(f"WEFT_VECTORS({one})" for one in widths)] if widths else []
    return "\n".join([_prelude(), *vectors, text])


@cache
def _prelude() -> str:
    """What every text can use."""
    return "\n".join((functions(), _text("prelude.h")))


@cache
def _text(name: str) -> str:
    """A text of this room."""
    return files("weft.backends.cc").joinpath(name).read_text(encoding="utf-8")


def _loaded(
    compiler: Compiler, folder: Path, keys: Mapping[str, str], crashes: Mapping[str, Crash] | None = None
) -> Loaded:
    functions = {name: _known[folder, key] for name, key in keys.items()}
    compiler_bugs.refuse(compiler, functions.pop("weft_fault").function)
    play = functions.pop("weft_play").function
    play.restype = None
    _team[:] = _team or [functions["weft_share"]]
    del functions["weft_share"]
    scratch = max((one.scratch for one in functions.values()), default=0)
    kernels = {name: one.address for name, one in functions.items()}
    return Loaded(kernels, scratch, play, _team[0].address, crashes or {})


def _find(folder: Path, keys: Mapping[str, str]) -> list[str]:
    """Load what is on disk and not in this process; the names of what is in neither."""
    wanted = {name: key for name, key in keys.items() if (folder, key) not in _known}
    missing = []
    libraries: dict[str, ctypes.CDLL | None] = {}
    if wanted:
        with opened(folder) as kept:
            for name, key in wanted.items():
                unit = _unit_of(kept, key)
                if unit not in libraries:
                    libraries[unit] = loaded(kept, unit) if unit else None
                function = _Function.of(libraries[unit], name)
                if function is None:
                    missing.append(name)
                else:
                    _known[folder, key] = function
    return missing


def _unit_of(kept: Cache, key: str) -> str:
    """The key of the library that holds a function; the library itself is checked when it is loaded."""
    return (kept.read(f"{key}.in") or b"").decode()


def _units(texts: Mapping[str, str]) -> list[list[str]]:
    """Kernels dealt out to compilers, the longest first: as many as there are processors, if there is work for them.

    What takes time is a function and every loop in it, however long its text.
    """
    cost = {name: 1 + text.count("for (") for name, text in texts.items()}
    count = min(len(os.sched_getaffinity(0)), sum(cost.values()) // _WORTH_A_UNIT)
    units: list[list[str]] = [[] for _ in range(max(1, count))]
    for name in sorted(texts, key=lambda one: -cost[one]):
        min(units, key=lambda unit: sum(cost[one] for one in unit)).append(name)
    return units
