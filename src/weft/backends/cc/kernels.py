"""Kernels in C: each different one is compiled once, in a few units, and found again by its text.

A routine is a list of kernels, each with the buffers it works on; one native call plays the whole list.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256

from weft.backends.cc.emit import emit, safe, static_in
from weft.backends.seam import Call
from weft.loops import Program, Remark, Stmt, buffers_of
from weft.schedule import Kernel
from weft.schedule.anchored import anchored
from weft.schedule.canonical import canonical

#: Plays a list of kernels.
PLAYER = """\
typedef struct {
    void (*kernel)(void *const *buffers, const int64_t *given);
    void *const *buffers;
    const int64_t *given;
} weft_call;

void weft_play(const weft_call *calls, int64_t count)
{
    for (int64_t at = 0; at < count; at++) calls[at].kernel(calls[at].buffers, calls[at].given);
}
"""


@dataclass(frozen=True, slots=True)
class Piece:
    """One kernel of a program: its C function under neutral names, and how this program calls it."""

    text: str
    call: Call


@dataclass(frozen=True)
class Pieces:
    """A program as calls of kernels."""

    program: Program

    @cached_property
    def all(self) -> tuple[Piece, ...]:
        return tuple(_piece(stmt) for stmt in _steps(self.program.body))

    @cached_property
    def readable(self) -> str:
        """The kernels under the names of the program, each below the assignments it came from."""
        parts = []
        for number, stmt in enumerate(_steps(self.program.body)):
            body = stmt.body if isinstance(stmt, Remark) else (stmt,)
            text = stmt.text if isinstance(stmt, Remark) else ""
            buffers = buffers_of(Program(body))
            remarks = [f"/* {safe(line)} */" for line in dict.fromkeys(text.splitlines())]
            names = [f"/*     x{at} is {safe(one.name)} */" for at, one in enumerate(buffers)]
            parts.append("\n".join([*remarks, *names, emit(f"kernel_{number}", body, buffers, static_in(body))]))
        return "\n".join(parts)


def _piece(stmt: Stmt) -> Piece:
    body, fixed = anchored((stmt,))
    kernel, buffers, given = canonical(Kernel((), body))
    neutral = buffers_of(Program(kernel.body))
    ordered = sorted(neutral, key=lambda one: one.id)
    text = emit("NAME", kernel.body, ordered, [f"s{at}" for at in range(len(given))])
    name = f"weft_{sha256(text.encode()).hexdigest()[:32]}"
    return Piece(text.replace("NAME", name), Call(name, buffers, tuple(fixed.get(one, one) for one in given)))


def _steps(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """The kernels of a program: remarks around several of them are left out."""
    for stmt in body:
        if isinstance(stmt, Remark) and any(isinstance(one, Remark) for one in stmt.body):
            yield from _steps(stmt.body)
        else:
            yield stmt
