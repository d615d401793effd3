"""The C compilers a machine may have, told apart without running them: a start that compiles nothing runs nothing."""

from __future__ import annotations

import os
import shlex
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from weft.errors import WeftError


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler: how it is called, what identifies it, and how long it is waited for."""

    command: tuple[str, ...]
    identity: str
    limit_s: float = 120

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


def _words(wanted: str) -> tuple[str, ...]:
    if shutil.which(wanted):
        return (wanted,)  # a path may have spaces in it
    try:
        return tuple(shlex.split(wanted))
    except ValueError as error:
        raise WeftError(
            f"WEFT_CC is not a command: {wanted!r}: {error}", fix='write it as in a shell, such as "gcc -m64"'
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
