"""Nothing compiled reads or writes outside its buffers, or does what C leaves undefined.

The tests of the C backend run between forbidden pages, compiled as always (`guarded_memory`); and here again, in a
process of their own, under gcc's sanitizers, or with traps at what is undefined where gcc comes without their library.
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
PROGRAMS = [TESTS / "backends" / f"test_backends_{name}.py" for name in ("cc", "products")]
PLAIN = shlex.join(real().command)


def find_library() -> str:
    """The library of the address sanitizer; gcc answers with no path if it has none."""
    if not shutil.which("gcc"):
        return ""
    command = ["gcc", "-print-file-name=libasan.so"]
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout.strip()


LIBRARY = find_library()
HAS_LIBRARY = os.path.isabs(LIBRARY)
SANITIZERS = "-O0 -fsanitize=address,undefined -fno-sanitize-recover=undefined"
ENVIRONMENTS = {
    "guarded": {"WEFT_CC": PLAIN},
    "trapped": {"WEFT_CC": f"{PLAIN} -fsanitize=undefined -fsanitize-undefined-trap-on-error"},
    # The library must come first in the process, and is nothing for the compiler's own. Not optimised, whatever weft
    # asks for: all that is written is looked at, what an optimiser would drop too, and is compiled in half the time.
    "sanitized": {
        "WEFT_CC": f"env -u LD_PRELOAD sh -c 'exec gcc \"$@\" {SANITIZERS}' gcc",
        "LD_PRELOAD": LIBRARY,
        "ASAN_OPTIONS": "detect_leaks=0",
    },
}
needs_library = pytest.mark.skipif(not HAS_LIBRARY, reason="there is no gcc here that has libasan")


def run(folder: Path, kind: str, *arguments: str) -> subprocess.CompletedProcess[str]:
    chosen = {**os.environ, "PYTHONPATH": os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])}
    chosen |= {"WEFT_CACHE": str(folder), "CI": "1", **ENVIRONMENTS[kind]}  # CI: the same programs at every run
    return subprocess.run([sys.executable, *arguments], env=chosen, capture_output=True, text=True, check=False)


def test_programs(tmp_path: Path) -> None:
    options = ["-p", "no:cacheprovider", "-x", "-s", "-k", "not readable and not float64"]
    done = run(tmp_path, "sanitized" if HAS_LIBRARY else "trapped", "-m", "pytest", *options, *map(str, PROGRAMS))
    assert done.returncode == 0, f"exit status {done.returncode}\n{done.stdout[-3000:]}\n{done.stderr[-6000:]}"


# Each of them stops what it is there to stop


#: Calls functions with four numbers and a place, compiled and run as the environment says.
CALLS = """
import ctypes, os, sys
from pathlib import Path
import numpy as np
from backends.guarded import guarded
from weft.backends.cc.build import build_all, find_compiler

text = (
    "int peek(int *x, int at) { return x[at]; }"
    "int poke(int *x, int at) { return x[at] = 7; }"
    "int shift(int *x, int by) { return x[0] << by; }"
)
(library,) = build_all(find_compiler(os.environ["WEFT_CC"]), [text], Path(os.environ["WEFT_CACHE"]))
for name, number in zip(sys.argv[1::2], map(int, sys.argv[2::2])):
    array = np.full(4, 7, "int32")
    if "LD_PRELOAD" not in os.environ:
        array = guarded(array, at_end=number > 0)
    print(library[name](ctypes.c_void_p(array.ctypes.data), number))
"""
OUTSIDE = [("peek", "4"), ("poke", "-1")]


def calls(folder: Path, kind: str, *names_and_numbers: str) -> subprocess.CompletedProcess[str]:
    return run(folder, kind, "-c", CALLS, *names_and_numbers)


@pytest.mark.parametrize("kind", ["guarded", "trapped", pytest.param("sanitized", marks=needs_library)])
def test_what_is_right_passes(kind: str, tmp_path: Path) -> None:
    done = calls(tmp_path, kind, "peek", "0", "peek", "3", "poke", "0", "poke", "3", "shift", "0")
    assert (done.returncode, done.stdout) == (0, "7\n" * 5), done.stderr


@pytest.mark.parametrize(("name", "number"), OUTSIDE)
def test_a_forbidden_page_stops_what_is_outside(name: str, number: str, tmp_path: Path) -> None:
    assert calls(tmp_path, "guarded", name, number).returncode == -signal.SIGSEGV


def test_a_trap_stops_what_is_undefined(tmp_path: Path) -> None:
    assert calls(tmp_path, "trapped", "shift", "40").returncode in (-signal.SIGILL, -signal.SIGTRAP)


@needs_library
@pytest.mark.parametrize(("name", "number"), OUTSIDE)
def test_the_sanitizers_see_what_is_outside(name: str, number: str, tmp_path: Path) -> None:
    done = calls(tmp_path, "sanitized", name, number)
    assert done.returncode != 0
    assert "heap-buffer-overflow" in done.stderr


@needs_library
def test_the_sanitizers_see_what_is_undefined(tmp_path: Path) -> None:
    done = calls(tmp_path, "sanitized", "shift", "40")
    assert done.returncode != 0
    assert "shift exponent 40 is too large" in done.stderr
