"""Texts compiled side by side: few in threads of this process, many that hold Python's lock in processes of their own.

A process is given some texts and answers one by one. If a compiler takes it down, it is known on which text, and what
is left goes to another: a crash of a compiler is not one of the program.
"""

from __future__ import annotations

import io
import json
import os
import pickle
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeAlias

from weft.backends.cuda.gpu_kernels import TOOLCHAINS, Compile, Language, Toolchain
from weft.backends.cuda.kernel_source import Launch, Source
from weft.errors import WeftError

#: What a compiler made of a text, or why it made nothing.
Made: TypeAlias = Launch | WeftError
#: Starting processes takes as long as compiling so many texts; each process compiles so many at least.
_START, _EACH = 10, 3
#: What a process runs: it imports what this one would.
PROGRAM = """\
import json, sys
sys.path[:] = json.loads(sys.stdin.buffer.readline())
from weft.backends.cuda.compiling import answer
answer(sys.stdin.buffer, sys.stdout.buffer)
"""


def compiled_all(
    sources: Mapping[str, Source], architecture: str, toolchains: Mapping[Language, Toolchain]
) -> dict[str, Made]:
    """What the compilers make of texts, by name."""
    cores = len(os.sched_getaffinity(0))
    apart = {name: one for name, one in sources.items() if toolchains[one.language].in_processes}
    if len(apart) - len(apart) // cores <= _START:
        apart = {}
    here = {name: one for name, one in sources.items() if name not in apart}
    with ThreadPoolExecutor(max(1, min(len(sources), cores))) as threads:
        compilers = [toolchains[one.language].compile for one in here.values()]
        found = threads.map(attempt, compilers, here.values(), [architecture] * len(here))
        made = in_processes(list(apart.values()), architecture, cores)
        return {**dict(zip(here, found, strict=True)), **dict(zip(apart, made, strict=True))}


def attempt(compile_one: Compile, source: Source, architecture: str) -> Made:
    """What a compiler makes of a text, or why it makes nothing."""
    try:
        return compile_one(source, architecture)
    except WeftError as error:
        return error
    except Exception as error:
        what = f"the {source.language} compiler failed: {type(error).__name__}: {str(error).strip()[:500]}"
        return WeftError(what, origin=None, fix='use wf.Context("cc"), and report the text of the kernel')


# In processes


def in_processes(sources: Sequence[Source], architecture: str, most: int, program: str = PROGRAM) -> list[Made]:
    """What is made of texts in so many processes at most; those after one that a process broke down on go to others."""
    made: dict[int, Made] = {}
    while left := [at for at in range(len(sources)) if at not in made]:
        dealt = _dealt(left, lambda at: len(sources[at].text), min(most, -(-len(left) // _EACH)))
        with ThreadPoolExecutor(len(dealt)) as threads:
            answers = threads.map(lambda part: _process([sources[at] for at in part], architecture, program), dealt)
            for part, of_one in zip(dealt, answers, strict=True):
                made |= dict(zip(part, of_one, strict=False))
    return [made[at] for at in range(len(sources))]


def _dealt(items: Sequence[int], size: Callable[[int], int], count: int) -> list[list[int]]:
    """Items dealt out, the largest first, each to whom has least."""
    parts: list[list[int]] = [[] for _ in range(count)]
    for item in sorted(items, key=lambda one: -size(one)):
        min(parts, key=lambda part: sum(map(size, part))).append(item)
    return parts


def _process(sources: Sequence[Source], architecture: str, program: str) -> list[Made]:
    """What a process makes of texts, in order; if it broke down, the last is that."""
    task = json.dumps(sys.path).encode() + b"\n" + pickle.dumps((list(sources), architecture))
    pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    process = subprocess.Popen([sys.executable, "-c", program], **pipes, start_new_session=True)  # type: ignore[call-overload]
    try:
        answers, said = process.communicate(task)
    finally:
        process.kill()
        process.wait()
    made = list(_unpickled(answers))
    if len(made) < len(sources):
        last = next((line for line in reversed(said.decode(errors="replace").splitlines()) if line.strip()), "")
        what = f"the {sources[len(made)].language} compiler broke down ({process.returncode}): {last.strip()[:300]}"
        made.append(WeftError(what, origin=None, fix='use wf.Context("cc"), and report the text of the kernel'))
    return made


def _unpickled(answers: bytes) -> Iterator[Made]:
    """The answers that are whole."""
    stream = io.BytesIO(answers)
    while stream.tell() < len(answers):
        try:
            kind, *parts = pickle.load(stream)
        except (EOFError, pickle.UnpicklingError):
            return
        yield parts[0] if kind == "launch" else WeftError(parts[0], origin=None, notes=parts[1], fix=parts[2])


def answer(task: io.BufferedReader, answers: io.BufferedWriter) -> None:
    """Compile what a parent process asks for. What compilers print is not an answer."""
    own = os.fdopen(os.dup(answers.fileno()), "wb")
    os.dup2(sys.stderr.fileno(), answers.fileno())
    sources, architecture = pickle.load(task)
    for source in sources:
        made = attempt(TOOLCHAINS[source.language].compile, source, architecture)
        if isinstance(made, Launch):
            pickle.dump(("launch", made), own)
        else:
            pickle.dump(("error", made.what, list(made.notes), made.fix), own)
        own.flush()
