"""Compilers to test with: the machine's own, and shell scripts that go wrong in a chosen way."""

from __future__ import annotations

from pathlib import Path

from weft.backends.cc.compiler import Compiler, find_compiler

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
