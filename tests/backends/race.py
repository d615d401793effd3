"""Many processes build the same libraries in one cold cache, and some are killed: `python race.py FOLDER SEED`.

Each process wants a few of the programs and asks their libraries for their answers. Half of the victims are killed by
the parent at some moment, whatever they are doing; the others kill themselves with part of an entry written, which
chance would seldom hit. Prints how many processes were right, wrong and killed.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import tempfile
import time
from collections import Counter
from pathlib import Path
from types import TracebackType
from typing import IO

from backends.compilers import real, text
from weft import cache
from weft.backends.cc.build import build_all

PROCESSES, KILLED, PROGRAMS, WANTED = 100, 25, 8, 3
KILLING_S = 2.0


class Dying:
    """A file whose writer is killed at work."""

    def __init__(self, handle: int) -> None:
        self.handle = handle

    def __enter__(self) -> Dying:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None: ...

    def write(self, content: bytes) -> None:
        os.write(self.handle, content[:100])
        os.kill(os.getpid(), signal.SIGKILL)


def opened(handle: int, mode: str) -> Dying | IO[bytes]:
    return Dying(handle) if mode == "wb" else os.fdopen(handle, mode)


def child(folder: Path, chance: random.Random, number: int) -> None:
    replace = os.replace
    if number < KILLED // 2:
        cache.open = opened  # type: ignore[attr-defined]
    else:
        os.replace = lambda *names: (time.sleep(chance.random() * 0.02), replace(*names))  # type: ignore[assignment]
    compiler = real()
    libraries = {
        program: build_all(compiler, [text(program)], folder)[0] for program in chance.sample(range(PROGRAMS), WANTED)
    }
    time.sleep(chance.random())  # whatever others write meanwhile must leave alone what was loaded
    if any(library.answer() != program for program, library in libraries.items()):
        os._exit(1)
    if number < KILLED:
        signal.pause()  # a victim that got this far has its end still to come
    os._exit(0)


def start(folder: Path, seed: int, number: int, gate: tuple[int, int]) -> int:
    process = os.fork()
    if process == 0:
        try:
            os.close(gate[1])
            os.read(gate[0], 1)  # until the parent closes its end: all begin together
            child(folder, random.Random(seed * PROCESSES + number), number)
        finally:
            os._exit(2)
    return process


def main(folder: Path, seed: int) -> None:
    chance, ended, gate = random.Random(seed), Counter[str](), os.pipe()
    tempfile.gettempdir()  # it tries the folder with a file, which no killed process shall leave
    processes = [start(folder, seed, number, gate) for number in range(PROCESSES)]
    os.close(gate[1])
    for process in reversed(processes[:KILLED]):  # those that kill themselves last: they may have found all they wanted
        time.sleep(chance.random() * 2 * KILLING_S / KILLED)
        os.kill(process, signal.SIGKILL)
    for process in processes:
        status = os.waitpid(process, 0)[1]
        ended["killed" if status == signal.SIGKILL else "wrong" if status else "right"] += 1
    print(ended["right"], ended["wrong"], ended["killed"])


if __name__ == "__main__":
    main(Path(sys.argv[1]), int(sys.argv[2]))
