"""The kernel cache: machine code by name, of this process, from disk, or compiled in parallel.

An entry of the cache is a line of what launching takes, then the machine code. It is kept under all that decides it:
the name, which stands for the text, the architecture and the compilers (`KernelStore.identity`).
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, replace
from functools import cache
from hashlib import sha256
from importlib import metadata
from pathlib import Path
from typing import Any

from weft.backends.cuda.compiling import compiled_all
from weft.backends.cuda.gpu_kernels import Language, Toolchain
from weft.backends.cuda.kernel_source import BlockMap, Launch, Source
from weft.cache import opened, own_identity
from weft.errors import WeftError

#: What compilers are part of: another version is another compiler.
PACKAGES = ("triton", "nvidia-cuda-nvrtc")
_FACTS = ("entry", "programs", "threads", "shared", "trailing", "writes", "maps")
#: The kernels of this process by where and under what they are kept.
_known: dict[tuple[Path, str], Launch] = {}


@dataclass(frozen=True, slots=True)
class KernelStore:
    """Where machine code for an architecture is kept."""

    folder: Path
    architecture: str

    @property
    def identity(self) -> str:
        """All that machine code depends on besides its text."""
        return "\n".join([self.architecture, *versions(), own_identity()])

    def find(self, names: Iterable[str]) -> dict[str, Launch]:
        """Those of some kernels that are in this process or on disk."""
        keys = self._keys(names)
        missing = [key for key in keys.values() if (self.folder, key) not in _known]
        if missing:
            with opened(self.folder) as cache:
                for key in missing:
                    found = _launch(cache.read(key))
                    if found is not None:
                        _known[self.folder, key] = found
        return {name: _known[self.folder, key] for name, key in keys.items() if (self.folder, key) in _known}

    def keep(self, made: Mapping[str, Launch]) -> None:
        """Keep machine code for this process and later ones."""
        with opened(self.folder) as cache:
            for name, key in self._keys(made).items():
                _known[self.folder, key] = made[name]
                cache.keep(key, _entry(made[name]))

    def compiled(
        self, sources: Mapping[str, Source], toolchains: Mapping[Language, Toolchain]
    ) -> tuple[dict[str, Launch], dict[str, WeftError]]:
        """The machine code of some texts, by name; and on which of them a compiler broke down."""
        found = self.find(sources)
        missing = {name: one for name, one in sources.items() if name not in found}
        if not missing:
            return found, {}
        made = compiled_all(missing, self.architecture, toolchains)
        good = {
            name: replace(one, writes=missing[name].writes) for name, one in made.items() if isinstance(one, Launch)
        }
        self.keep(good)
        return {**found, **good}, {name: one for name, one in made.items() if isinstance(one, WeftError)}

    def _keys(self, names: Iterable[str]) -> dict[str, str]:
        beside = self.identity
        return {name: sha256(f"{name} {beside}".encode()).hexdigest()[:40] for name in names}


def _entry(launch: Launch) -> bytes:
    facts = {one: getattr(launch, one) for one in _FACTS} | {"maps": [asdict(one) for one in launch.maps]}
    return json.dumps(facts).encode() + b"\n" + launch.cubin


def _launch(entry: bytes | None) -> Launch | None:
    if entry is None:
        return None
    facts, _, cubin = entry.partition(b"\n")
    known = json.loads(facts)
    maps = tuple([_map(one) for one in known["maps"]])
    return Launch(cubin=cubin, **{**known, "writes": tuple(known["writes"]), "maps": maps})


def _map(facts: Mapping[str, Any]) -> BlockMap:
    found: dict[str, Any] = {name: tuple(one) if isinstance(one, list) else one for name, one in facts.items()}
    return BlockMap(**found)


@cache
def versions() -> tuple[str, ...]:
    """The compilers, told apart without importing them."""
    return tuple([f"{one} {_version(one)}" for one in PACKAGES])


def _version(package: str) -> str:
    try:
        return metadata.version(package)
    except metadata.PackageNotFoundError:
        return "none"
