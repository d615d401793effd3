"""Loop programs written as they print."""

from __future__ import annotations

from textwrap import dedent

from weft.loops import Buffer, Program, Stmt, check, parse, show

X, Y, Z = (Buffer(at, name, (4, 3), "float32") for at, name in enumerate("XYZ"))
V, W = (Buffer(3 + at, name, (4,), "float32") for at, name in enumerate("VW"))
H = Buffer(5, "H", (4,), "float16")
K = Buffer(6, "K", (4,), "int64")
#: Long enough for vectors.
A, B = (Buffer(7 + at, name, (24, 40), "float32") for at, name in enumerate("AB"))
C, D = Buffer(9, "C", (40,), "float32"), Buffer(10, "D", (1,), "float32")
BUFFERS = {one.name: one for one in (X, Y, Z, V, W, H, K, A, B, C, D)}
#: The range of the static index.
GIVEN = {"s": 4}


def program(text: str) -> Program:
    """A typed program from its text."""
    return check(parse(dedent(text), BUFFERS.values(), GIVEN), GIVEN)


def text(body: tuple[Stmt, ...]) -> str:
    """How a block that must be well formed prints."""
    return "\n" + show(check(Program(body), GIVEN)) + "\n"
