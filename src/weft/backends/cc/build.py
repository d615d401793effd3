"""From C text to a loaded function: the machine's compiler, and a cache of what it made.

A cache entry is a library and a note of its digest, each written under another name and renamed: a reader sees a whole
entry or none, whoever else is writing or was killed. An entry that does not match its digest is made again.
"""

from __future__ import annotations

import ctypes
import hashlib
import os
import platform
import shlex
import shutil
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

from weft.errors import WeftError

#: Loading never changes the process's floating-point mode: nothing here links with fast-math. Not -O3: gcc 12 then
#: vectorises nested loops around `c ? x[i] : y[i]` wrongly, reading zeros for the branch it masks.
FLAGS = ("-std=c11", "-O2", "-march=native", "-fno-math-errno", "-fwrapv", "-fPIC", "-shared")
TIME_LIMIT_S = 120


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler and what identifies it."""

    command: tuple[str, ...]
    identity: str


@lru_cache(maxsize=8)
def find_compiler(wanted: str | None) -> Compiler | None:
    """The compiler `wanted` names, or the first of cc, gcc, clang that the machine has."""
    for candidate in [wanted] if wanted else ["cc", "gcc", "clang"]:
        command = tuple(shlex.split(candidate))
        if command and shutil.which(command[0]):
            version = _run([*command, "--version"])
            if version.returncode == 0:
                return Compiler(command, version.stdout.splitlines()[0])
    return None


def build(compiler: Compiler, text: str, folder: Path) -> ctypes.CDLL:
    """The library of a C text: from the cache, or compiled and cached."""
    name = hashlib.sha256(
        "\0".join([text, compiler.identity, *compiler.command, *FLAGS, _machine()]).encode()
    ).hexdigest()[:40]
    library, digest = folder / f"{name}.so", folder / f"{name}.sha256"
    if not _is_whole(library, digest):
        made = _compile(compiler, text)
        try:
            _keep(made, library, digest, folder)
        except OSError:
            return ctypes.CDLL(str(made))  # no room or no right to cache: use what was made
        shutil.rmtree(made.parent, ignore_errors=True)
    return ctypes.CDLL(str(library))


def cache_folder() -> Path:
    """Where compiled code is kept: WEFT_CACHE, or the user's cache folder."""
    chosen = os.environ.get("WEFT_CACHE")
    base = Path(chosen) if chosen else Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "weft"
    return base / "cc"


def _compile(compiler: Compiler, text: str) -> Path:
    place = Path(tempfile.mkdtemp(prefix="weft-"))
    source, library = place / "weft.c", place / "weft.so"
    source.write_text(text, encoding="utf-8")
    command = [*compiler.command, *FLAGS, str(source), "-o", str(library), "-lm"]
    try:
        done = _run(command)
    except subprocess.TimeoutExpired:
        raise WeftError(
            f"the C compiler did not finish within {TIME_LIMIT_S} s",
            notes=[f"command: {shlex.join(command)}", f"the source is kept at {source}"],
        ) from None
    if done.returncode:
        first = next((line for line in done.stderr.splitlines() if "error" in line), done.stderr.strip()[:300])
        raise WeftError(
            f"the C compiler failed: {first}",
            notes=[f"command: {shlex.join(command)}", f"the source is kept at {source}"],
            fix='check WEFT_CC, or use Context("interp")',
        )
    return library


def _keep(made: Path, library: Path, digest: Path, folder: Path) -> None:
    folder.mkdir(parents=True, exist_ok=True, mode=0o700)
    content = made.read_bytes()
    _write(library, content, folder)
    _write(digest, hashlib.sha256(content).hexdigest().encode(), folder)


def _write(path: Path, content: bytes, folder: Path) -> None:
    handle, temporary = tempfile.mkstemp(dir=folder)
    try:
        with os.fdopen(handle, "wb") as file:
            file.write(content)
        os.replace(temporary, path)
    except BaseException:
        Path(temporary).unlink(missing_ok=True)
        raise


def _is_whole(library: Path, digest: Path) -> bool:
    try:
        return hashlib.sha256(library.read_bytes()).hexdigest().encode() == digest.read_bytes()
    except OSError:
        return False


def _run(command: list[str]) -> subprocess.CompletedProcess[str]:
    return subprocess.run(command, capture_output=True, text=True, timeout=TIME_LIMIT_S, check=False)


@lru_cache(maxsize=1)
def _machine() -> str:
    """What -march=native depends on."""
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
        flags = next((line for line in lines if line.startswith(("flags", "Features"))), "")
    except OSError:
        flags = platform.processor()
    return f"{platform.system()} {platform.machine()} {flags}"
