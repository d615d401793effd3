"""Nothing compiled reads or writes outside its buffers, or does what C leaves undefined.

The tests of the C backend run again in a process of their own, twice: under gcc's sanitizers, whose library not every
gcc comes with; and between forbidden pages, with traps at what is undefined, which need nothing but a compiler.
"""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from backends.compilers import real

TESTS = Path(__file__).parents[1]
PROGRAMS = TESTS / "backends" / "test_backends_cc.py"
SANITIZED = "gcc -g -fsanitize=address,undefined -fno-sanitize-recover=undefined"
TRAPPED = f"{shlex.join(real().command)} -fsanitize=undefined -fsanitize-undefined-trap-on-error"


def find_library() -> str:
    """The library of the address sanitizer; gcc answers with no path if it has none."""
    if not shutil.which("gcc"):
        return ""
    command = ["gcc", "-print-file-name=libasan.so"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


LIBRARY = find_library()
needs_library = pytest.mark.skipif(not os.path.isabs(LIBRARY), reason="there is no gcc here that has libasan")
both = pytest.mark.parametrize("sanitized", [pytest.param(True, marks=needs_library), False])


def run(folder: Path, sanitized: bool, *arguments: str) -> subprocess.CompletedProcess[str]:
    chosen = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}
    chosen |= {"WEFT_CACHE": str(folder), "CI": "1"}  # the same programs at every run
    if sanitized:  # the library must come first in the process, and is nothing for the compiler's own
        chosen |= {"WEFT_CC": f"env -u LD_PRELOAD {SANITIZED}", "LD_PRELOAD": LIBRARY, "ASAN_OPTIONS": "detect_leaks=0"}
    else:
        chosen |= {"WEFT_CC": TRAPPED}
    return subprocess.run([sys.executable, *arguments], env=chosen, capture_output=True, text=True, check=False)


@both
def test_programs(sanitized: bool, tmp_path: Path) -> None:
    options = ["-p", "no:cacheprovider", "-x", "-s", "-k", "not readable"]
    options += [] if sanitized else ["-p", "backends.guarded"]
    done = run(tmp_path, sanitized, "-m", "pytest", *options, str(PROGRAMS))
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


#: Calls functions with four numbers and a place, compiled and run as the environment says.
CALLS = """
import ctypes, os, sys
from pathlib import Path
import numpy as np
from backends.guarded import guarded
from weft.backends.cc.build import build, find_compiler

text = (
    "int peek(int *x, int at) { return x[at]; }"
    "int poke(int *x, int at) { return x[at] = 7; }"
    "int shift(int *x, int by) { return x[0] << by; }"
)
library = build(find_compiler(os.environ["WEFT_CC"]), text, Path(os.environ["WEFT_CACHE"]))
for name, number in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    array = np.full(4, 7, "int32")
    if "LD_PRELOAD" not in os.environ:
        array = guarded(array, at_end=number > 0)
    print(library[name](ctypes.c_void_p(array.ctypes.data), number))
"""
OUTSIDE = [("peek", "4"), ("poke", "-1")]


def calls(folder: Path, sanitized: bool, *names_and_numbers: str) -> subprocess.CompletedProcess[str]:
    return run(folder, sanitized, "-c", CALLS, *names_and_numbers)


@both
def test_what_is_right_passes(sanitized: bool, tmp_path: Path) -> None:
    done = calls(tmp_path, sanitized, "peek", "0", "peek", "3", "poke", "0", "poke", "3", "shift", "0")
    assert (done.returncode, done.stdout) == (0, "7\n" * 5), done.stderr


@needs_library
@pytest.mark.parametrize(("name", "number"), OUTSIDE)
def test_the_sanitizers_see_what_is_outside(name: str, number: str, tmp_path: Path) -> None:
    done = calls(tmp_path, True, name, number)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


@needs_library
def test_the_sanitizers_see_what_is_undefined(tmp_path: Path) -> None:
    done = calls(tmp_path, True, "shift", "40")
    assert done.returncode != 0
    assert "shift exponent 40 is too large" in done.stderr


@pytest.mark.parametrize(("name", "number"), OUTSIDE)
def test_a_forbidden_page_stops_what_is_outside(name: str, number: str, tmp_path: Path) -> None:
    assert calls(tmp_path, False, name, number).returncode == -signal.SIGSEGV


def test_a_trap_stops_what_is_undefined(tmp_path: Path) -> None:
    assert calls(tmp_path, False, "shift", "40").returncode in (-signal.SIGILL, -signal.SIGTRAP)
