"""Compilers to test with, the machine's own and shell scripts that go wrong in a chosen way, and what they make."""

from __future__ import annotations

from pathlib import Path

import pytest

from weft.backends.cc import build
from weft.backends.cc.compiler import Compiler, find_compiler
from weft.errors import WeftError

#: Shell: from here on $2 is the library to be written.
TO_THE_LIBRARY = 'while [ "$1" != -o ]; do shift; done\n'
#: Shell: from here on $source is the text to be compiled.
WITH_THE_SOURCE = 'for one; do case "$one" in *.c) source="$one" ;; esac; done\n'


def text(answer: int) -> str:
    """A C text whose library answers."""
    return f"int answer(void) {{ return {answer}; }}\n"


def real() -> Compiler:
    found = find_compiler(None)
    assert found is not None, "these tests need a C compiler"
    return found


def script(path: Path, lines: str) -> Path:
    """An executable shell script."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(f"#!/bin/sh\n{lines}\n")
    path.chmod(0o755)
    return path


def fake(folder: Path, lines: str) -> Compiler:
    """A compiler that is a shell script."""
    path = script(folder / "fakecc", lines)
    found = find_compiler(str(path))
    assert found is not None
    assert found.command == (str(path),)
    return found


def answer(folder: Path, number: int = 42, using: Compiler | None = None) -> int:
    """What the library of a text answers, as in a process that has not loaded it yet."""
    build._loaded.clear()
    return int(build.build_all(using or real(), [text(number)], folder)[0].answer())


def refused(folder: Path, using: Compiler) -> WeftError:
    """The error of a compiler that goes wrong."""
    with pytest.raises(WeftError) as caught:
        answer(folder, using=using)
    return caught.value


def entry(folder: Path) -> Path:
    """The only entry of a cache."""
    (found,) = folder.glob("*.so")
    return found


def forbid_compiling(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(build, "_start", lambda *_: pytest.fail("the compiler ran"))
