"""From C text to a loaded library: out of the cache, or made by the machine's compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import shlex
import shutil
import signal
import subprocess
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from weft.backends.cc.cache import Cache, cache_folder, opened, sweep
from weft.backends.cc.compiler import Compiler, find_compiler, machine
from weft.errors import Origin, WeftError, WeftWarning, user_origin

__all__ = ["Compiler", "TIME_LIMIT_S", "build", "cache_folder", "find_compiler", "key_of"]

#: Loading never changes the process's floating-point mode: nothing here links with fast-math. Products and sums are
#: not fused, as the oracle's are not. Not -O3: gcc 12 then vectorises nested loops around `c ? x[i] : y[i]` wrongly,
#: reading zeros for the branch it masks.
FLAGS = (
    *("-std=c11", "-O2", "-march=native", "-fopenmp-simd"),
    *("-fno-math-errno", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared"),
)
LIBRARIES = ("-lm",)
TIME_LIMIT_S = 120

_UNDER_WAY, _FAILED = "weft-making-", "weft-failed-"
_loaded: dict[tuple[Path, str], ctypes.CDLL] = {}
_warned: set[str] = set()


def build(compiler: Compiler, text: str, folder: Path) -> ctypes.CDLL:
    """The library of a C text. `folder` is the cache: where it cannot be used, what is compiled is not kept."""
    key = key_of(compiler, text)
    if (folder, key) not in _loaded:
        with opened(folder) as cache:
            _loaded[folder, key] = cache.load(key) or _make(compiler, text, folder, cache, key)
        if cache.problem:
            _warn(f"compiled code is not kept in {folder}: {cache.problem}; set WEFT_CACHE to a folder of your own")
    return _loaded[folder, key]


def key_of(compiler: Compiler, text: str) -> str:
    """A name for a C text as compiled here: by this compiler, with these flags, for this processor."""
    parts = [text, compiler.identity, *compiler.command, *FLAGS, *LIBRARIES, machine()]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _warn(text: str) -> None:
    """Say something once, at the user's line."""
    if text not in _warned:
        _warned.add(text)
        origin = user_origin() or Origin("weft", 0)
        warnings.warn_explicit(text, WeftWarning, origin.file, origin.line)


def _make(compiler: Compiler, text: str, folder: Path, cache: Cache, key: str) -> ctypes.CDLL:
    with _workshop(text) as place:
        _compile(compiler, place, folder if cache.place else place)
        made = place / "weft.so"
        cache.keep(key, made.read_bytes())
        try:
            return cache.load(key) or ctypes.CDLL(str(made))
        except OSError as error:
            cache.forget(key)
            fix = "check WEFT_CC, and that programs may run from TMPDIR or WEFT_CACHE"
            raise _failure(f"what the C compiler made cannot be loaded: {error}", compiler, place, fix) from None


@contextmanager
def _workshop(text: str) -> Iterator[Path]:
    """A folder to compile in, with the source. It is gone afterwards, unless `_failure` gave it another name."""
    try:
        place = Path(tempfile.mkdtemp(prefix=_UNDER_WAY))
        (place / "weft.c").write_text(text, encoding="utf-8")
    except OSError as error:
        raise WeftError(f"there is no place to compile: {error}", fix="set TMPDIR to a folder with room") from None
    try:
        yield place
    finally:
        shutil.rmtree(place, ignore_errors=True)
        sweep(place.parent, _UNDER_WAY)


def _compile(compiler: Compiler, place: Path, lasting: Path) -> None:
    try:
        status = _run(_command(compiler, place), compiler.environment(place, lasting), place / "messages.txt")
    except OSError as error:
        raise _failure(f"the C compiler could not be started: {error.strerror}", compiler, place) from None
    if status is None:
        raise _failure(f"the C compiler did not finish within {TIME_LIMIT_S} s", compiler, place)
    if status < 0:
        raise _failure(f"the C compiler was killed by {_signal(-status)}", compiler, place)
    if status:
        raise _failure(f"the C compiler failed: {_complaint(place) or f'exit status {status}'}", compiler, place)
    if not (place / "weft.so").is_file():
        raise _failure("the C compiler reports success but wrote no library", compiler, place)


def _command(compiler: Compiler, place: Path) -> list[str]:
    return [*compiler.command, *FLAGS, str(place / "weft.c"), "-o", str(place / "weft.so"), *LIBRARIES]


def _run(command: list[str], environment: dict[str, str], messages: Path) -> int | None:
    """The exit status, negative if a signal ended it; None if it ran out of time: then all it started is ended too."""
    with messages.open("wb") as file:
        process = subprocess.Popen(
            command,
            env=environment,
            stdin=subprocess.DEVNULL,
            stdout=file,
            stderr=subprocess.STDOUT,
            start_new_session=True,
        )
    try:
        return process.wait(TIME_LIMIT_S)
    except subprocess.TimeoutExpired:
        return None
    finally:
        if process.returncode is None:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def _complaint(place: Path) -> str:
    """The compiler's first error, or whatever it said first."""
    with (place / "messages.txt").open(encoding="utf-8", errors="replace") as file:
        lines = [line.strip() for line in file.read(1 << 20).splitlines() if line.strip()]
    return next((line for line in lines if "error: " in line), lines[0] if lines else "")[:300]


def _signal(number: int) -> str:
    known = {int(one): one.name for one in signal.Signals}
    return f"signal {number} ({known.get(number, 'unknown')})"


def _failure(what: str, compiler: Compiler, place: Path, fix: str = "") -> WeftError:
    """An error that shows what was run. The folder is kept, under a name that is not swept."""
    kept = place.with_name(place.name.replace(_UNDER_WAY, _FAILED))
    place.rename(kept)
    return WeftError(
        what.replace(str(place), str(kept)),
        notes=[f"command: {shlex.join(_command(compiler, kept))}", f"the source is kept at {kept / 'weft.c'}"],
        fix=fix or 'check WEFT_CC, or use Context("interp")',
    )
