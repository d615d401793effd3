"""From C text to a loaded library: out of the cache, or made by the machine's compiler."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import select
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from weft.backends.cc.compiler import Compiler, find_compiler
from weft.cache import Cache, opened, sweep
from weft.errors import Origin, WeftError, WeftWarning, user_origin
from weft.machine import Machine

__all__ = ["Compiler", "Crash", "attempt_all", "build_all", "find_compiler", "library_key", "loaded"]

#: Loading never changes the process's floating-point mode: nothing here links with fast-math. Products and sums are
#: not fused, as the oracle's are not. Vectors are made where they are asked for and nowhere else (`compiler_bugs.py`).
#: Jumps are not threaded: where several choices hang on one condition, that makes branches of them, and no vectors.
#: Nobody asks which exceptions floats raised: so comparisons may be moved, and what both sides of a choice compute.
FLAGS = (
    *("-std=c11", "-O2", "-fno-tree-vectorize", "-fno-thread-jumps", "-march=native", "-fopenmp-simd"),
    *("-fno-math-errno", "-fno-trapping-math", "-ffp-contract=off", "-fwrapv", "-fPIC", "-shared"),
)
LIBRARIES = ("-lm", "-lpthread")

E = TypeVar("E", bound=WeftError)

_UNDER_WAY, _FAILED = "weft-making-", "weft-failed-"
#: What compilers say when they break down, or when a part of them does: it may be out of memory.
_BREAKDOWN = re.compile("internal compiler error|signal terminated program|PLEASE submit a bug report")
_loaded: dict[tuple[Path, str], ctypes.CDLL] = {}
_warned: set[str] = set()


class Crash(WeftError):
    """The compiler broke down on a text, which no text should make it do; `kept` is the folder it worked in."""

    kept: Path | None = None

    def discard(self) -> None:
        """Remove what is kept of it."""
        if self.kept is not None:
            shutil.rmtree(self.kept, ignore_errors=True)


def build_all(compiler: Compiler, texts: Sequence[str], folder: Path) -> list[ctypes.CDLL]:
    """The libraries of some C texts, those that must be compiled side by side.

    `folder` is the cache: where it cannot be used, what is compiled is not kept.
    """
    found = []
    for one in attempt_all(compiler, texts, folder):
        if isinstance(one, Crash):
            raise one
        found.append(one)
    return found


def attempt_all(compiler: Compiler, texts: Sequence[str], folder: Path) -> list[ctypes.CDLL | Crash]:
    """The same, and in place of a library what is known of the compiler's crash on its text."""
    keys = [library_key(compiler, text) for text in texts]
    wanted = {key: text for key, text in zip(keys, texts, strict=True) if (folder, key) not in _loaded}
    crashes: dict[str, Crash] = {}
    if wanted:
        with opened(folder) as cache:
            found = {key: library for key in wanted if (library := loaded(cache, key)) is not None}
            missing = {key: text for key, text in wanted.items() if key not in found}
            for key, made in _make(missing, compiler, folder, cache).items():
                if isinstance(made, Crash):
                    crashes[key] = made
                else:
                    found[key] = made
        _loaded.update({(folder, key): library for key, library in found.items()})
        if cache.problem:
            _warn(f"compiled code is not kept in {folder}: {cache.problem}; set WEFT_CACHE to a folder of your own")
    return [crashes[key] if key in crashes else _loaded[folder, key] for key in keys]


def loaded(cache: Cache, key: str) -> ctypes.CDLL | None:
    """The library kept for a key, if there is one, it is whole and it can be loaded."""
    library = cache.whole(f"{key}.so")
    try:
        return ctypes.CDLL(str(library)) if library else None
    except OSError as error:
        cache.problem = str(error)
        return None


def library_key(compiler: Compiler, text: str) -> str:
    """A name for a C text as compiled here: by this compiler, with these flags, for this processor."""
    parts = [text, compiler.identity, *compiler.command, *FLAGS, *LIBRARIES, Machine.here().identity]
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:40]


def _warn(text: str) -> None:
    """Say something once, at the user's line."""
    if text not in _warned:
        _warned.add(text)
        origin = user_origin() or Origin("weft", 0)
        warnings.warn_explicit(text, WeftWarning, origin.file, origin.line)


@dataclass(frozen=True, slots=True)
class _Compilation:
    """A compiler at work in a folder."""

    compiler: Compiler
    workdir: Path
    process: subprocess.Popen[bytes]


def _make(texts: Mapping[str, str], compiler: Compiler, folder: Path, cache: Cache) -> dict[str, ctypes.CDLL | Crash]:
    """The libraries of some C texts, by key, compiled and kept: every compiler is started before any is waited for."""
    with ExitStack() as stack:
        lasting = folder if cache.place else None
        work = {key: stack.enter_context(_compiling(compiler, text, lasting)) for key, text in texts.items()}
        return {key: _finish(one, cache, key) for key, one in work.items()}


@contextmanager
def _compiling(compiler: Compiler, text: str, lasting: Path | None) -> Iterator[_Compilation]:
    """A compiler at work on a text. If it is not done when it is left, it is ended, with all it started."""
    with _working_directory(text) as workdir:
        work = _start(compiler, workdir, lasting or workdir)
        try:
            yield work
        finally:
            if work.process.returncode is None:
                _end(work.process)


def _end(process: subprocess.Popen[bytes], limit_s: float = 1.0) -> None:
    """End a compiler, with all it started.

    An interrupt while it was waited for may have left it done but not known to be, or the lock taken under which a
    process is waited for without limit.
    """
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)
    with suppress(subprocess.TimeoutExpired):
        process.wait(limit_s)


def _finish(work: _Compilation, cache: Cache, key: str) -> ctypes.CDLL | Crash:
    made = _wait(work)
    if isinstance(made, Crash):
        return made
    try:
        cache.keep(f"{key}.so", made.read_bytes())
    except OSError as error:
        what = f"what the C compiler made cannot be read: {error.strerror}"
        raise _failure(what, work.compiler, work.workdir) from None
    try:
        return loaded(cache, key) or ctypes.CDLL(str(made))
    except OSError as error:
        cache.forget(f"{key}.so")
        fix = "check WEFT_CC, and that programs may run from TMPDIR or WEFT_CACHE"
        what = f"what the C compiler made cannot be loaded: {error}"
        raise _failure(what, work.compiler, work.workdir, fix) from None


@contextmanager
def _working_directory(text: str) -> Iterator[Path]:
    """A folder to compile in, with the source. It is gone afterwards, unless `_failure` gave it another name."""
    workdir: Path | None = None
    try:
        try:
            workdir = Path(tempfile.mkdtemp(prefix=_UNDER_WAY))
            (workdir / "weft.c").write_text(text, encoding="utf-8")
        except OSError as error:
            what = f"there is no place to compile: {error}"
            raise WeftError(what, origin=None, fix="set TMPDIR to a folder with room") from None
        yield workdir
    finally:
        if workdir is not None:
            shutil.rmtree(workdir, ignore_errors=True)
            sweep(workdir.parent, _UNDER_WAY)


def _start(compiler: Compiler, workdir: Path, lasting: Path) -> _Compilation:
    try:
        with (workdir / "messages.txt").open("wb") as messages:
            process = subprocess.Popen(
                _command(compiler, workdir),
                env=compiler.environment(workdir, lasting),
                stdin=subprocess.DEVNULL,
                stdout=messages,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
    except OSError as error:
        raise _failure(f"the C compiler could not be started: {error.strerror}", compiler, workdir) from None
    return _Compilation(compiler, workdir, process)


def _wait(work: _Compilation) -> Path | Crash:
    """The library, once it is there, or that there will be none because the compiler broke down."""
    made = work.workdir / "weft.so"
    try:
        status = _ended(work.process, work.compiler.limit_s)
    except subprocess.TimeoutExpired:
        what = f"the C compiler did not finish within {work.compiler.limit_s} s"
        raise _failure(what, work.compiler, work.workdir) from None
    if killed_by := _signal(-status if status < 0 else status - 128):  # a shell adds 128
        return _crash(f"the C compiler was killed by {killed_by}", work)
    if status:
        said = _messages(work.workdir)
        what = f"the C compiler failed: {_complaint(said) or f'exit status {status}'}"
        if _BREAKDOWN.search(said):
            return _crash(what, work)
        raise _failure(what, work.compiler, work.workdir)
    if not made.is_file():
        raise _failure("the C compiler reports success but wrote no library", work.compiler, work.workdir)
    return made


def _ended(process: subprocess.Popen[bytes], limit_s: float) -> int:
    """How a process ended. Where the system tells when it does, nobody has to look from time to time."""
    if sys.platform == "linux":
        with suppress(OSError):
            descriptor = os.pidfd_open(process.pid)
            try:
                told = select.poll()
                told.register(descriptor, select.POLLIN)
                told.poll(1000 * limit_s)
                limit_s = 0
            finally:
                os.close(descriptor)
    return process.wait(limit_s)


def _command(compiler: Compiler, workdir: Path) -> list[str]:
    return [*compiler.command, *FLAGS, str(workdir / "weft.c"), "-o", str(workdir / "weft.so"), *LIBRARIES]


def _messages(workdir: Path) -> str:
    """What the compiler said."""
    try:
        with (workdir / "messages.txt").open(encoding="utf-8", errors="replace") as file:
            return file.read(1 << 20)
    except OSError:
        return ""


def _complaint(said: str) -> str:
    """The compiler's first error, or whatever it said first."""
    lines = [line.strip() for line in said.splitlines() if line.strip()]
    return next((line for line in lines if "error: " in line), lines[0] if lines else "")[:300]


def _signal(number: int) -> str:
    """A signal by its number; nothing if there is none."""
    if number not in signal.valid_signals():
        return ""
    known = {int(one): one.name for one in signal.Signals}
    return f"signal {number} ({known.get(number, 'unknown')})"


def _crash(what: str, work: _Compilation) -> Crash:
    found = _failed(Crash, what, work.compiler, work.workdir)
    found.kept = _kept(work.workdir)
    return found


def _kept(workdir: Path) -> Path:
    """The name under which a folder is not swept."""
    return workdir.with_name(workdir.name.replace(_UNDER_WAY, _FAILED))


def _failure(what: str, compiler: Compiler, workdir: Path, fix: str = "") -> WeftError:
    return _failed(WeftError, what, compiler, workdir, fix)


def _failed(kind: type[E], what: str, compiler: Compiler, workdir: Path, fix: str = "") -> E:
    """An error that shows what was run. The folder is kept, under a name that is not swept, if it is still there."""
    kept = _kept(workdir)
    try:
        workdir.rename(kept)
    except OSError:
        note = f"the folder it worked in is gone: {workdir}"
        fix = "keep what cleans up TMPDIR from folders in use, or set another TMPDIR"
        return kind(what, origin=None, notes=[note], fix=fix)
    return kind(
        what.replace(str(workdir), str(kept)),
        origin=None,
        notes=[f"command: {shlex.join(_command(compiler, kept))}", f"the source is kept at {kept / 'weft.c'}"],
        fix=fix or 'check WEFT_CC, or use Context("interp")',
    )
