"""The C compilers a machine may have, told apart without running them: a start that compiles nothing runs nothing."""

from __future__ import annotations

import os
import platform
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from weft.errors import WeftError, user_origin

#: What -march=native looks at, by the names of x86 and of ARM.
_PROCESSOR = ("vendor_id", "cpu family", "model", "flags", "Features", "CPU implementer", "CPU part", "CPU variant")


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: how it is called, and what identifies it."""

    command: tuple[str, ...]
    identity: str

    def environment(self, passing: Path, lasting: Path) -> dict[str, str]:
        """What it runs with: messages in English, its temporary files and zig's caches in folders of ours."""
        chosen = {**os.environ, "LC_ALL": "C", "TMPDIR": str(passing)}
        if _is_zig(self.command):
            chosen["ZIG_LOCAL_CACHE_DIR"] = str(passing)
            chosen.setdefault("ZIG_GLOBAL_CACHE_DIR", str(lasting / "zig"))
        return chosen


def find_compiler(wanted: str | None) -> Compiler | None:
    """The compiler `wanted` names; else the first there is of cc, gcc, clang and the package ziglang."""
    candidates = [_words(wanted)] if wanted else [("cc",), ("gcc",), ("clang",), *_packaged()]
    found = (one for one in candidates if one and shutil.which(one[0]))
    return next((Compiler(one, _identity(one)) for one in found), None)


@lru_cache(maxsize=1)
def machine() -> str:
    """What compiled code depends on besides its text and its compiler: the processor, and the ABI."""
    abi = (platform.system(), platform.machine(), sys.byteorder, str(sys.maxsize), _libc())
    return "\n".join([*abi, *_processor()])


def _words(wanted: str) -> tuple[str, ...]:
    if shutil.which(wanted):
        return (wanted,)  # a path may have spaces in it
    try:
        return tuple(shlex.split(wanted))
    except ValueError as error:
        raise WeftError(
            f"WEFT_CC is not a command: {wanted!r}: {error}",
            origin=user_origin(),
            fix='write it as in a shell, such as "gcc -m64"',
        ) from None


def _packaged() -> list[tuple[str, ...]]:
    return [(sys.executable, "-m", "ziglang", "cc")] if find_spec("ziglang") else []


def _is_zig(command: Sequence[str]) -> bool:
    return "ziglang" in command or any(Path(word).stem == "zig" for word in command)


def _identity(command: Sequence[str]) -> str:
    """Path, size and time of every program the command may run.

    Each word counts, and each place on PATH: `ccache gcc`, or a ccache that calls itself gcc, run the gcc behind them.
    """
    files = [shutil.which(word, path=folder) for word in command for folder in os.get_exec_path()]
    if "ziglang" in command and (package := find_spec("ziglang")) and package.origin:
        files.append(str(Path(package.origin).with_name("zig")))
    return "\n".join(map(_stamp, dict.fromkeys(os.path.realpath(file) for file in files if file)))


def _stamp(path: str) -> str:
    try:
        info = os.stat(path)
    except OSError:
        return path
    return f"{path} {info.st_size} {info.st_mtime_ns}"


def _libc() -> str:
    """The C library and its version: code linked with a newer one does not load with an older one."""
    try:
        return os.confstr("CS_GNU_LIBC_VERSION") or ""
    except (AttributeError, ValueError, OSError):
        return str(getattr(sys.implementation, "_multiarch", ""))


def _processor() -> list[str]:
    """The first processor's description; where there is none, the machine's name stands for it."""
    found = []
    try:
        with open("/proc/cpuinfo", encoding="utf-8", errors="replace") as lines:
            for line in lines:
                if not line.strip():
                    break
                if line.startswith(_PROCESSOR):
                    found.append(line.strip())
    except OSError:
        pass
    return found or [platform.node()]
