"""Kernels as text, both ways.

    kernel 1: `i` runs to 8, `j` to 2            why it is not joined to the one before
    # y =: relu(h)                               the assignments it came from
    for i in range(8) on vectors:                its statements, in the loop language
        y[i] = fmax(h[i], 0)

A buffer has one name in all kernels. Declarations of buffers may come first (`declared_kernels`): then the text says
all that there is to say, and the oracle runs it.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from itertools import pairwise, takewhile

from weft.errors import Span
from weft.loops import Buffer, Program, buffers_of, parse, show
from weft.loops.show import buffer_names, declarations
from weft.notation import Mistake, Source
from weft.schedule.nodes import Kernel, as_program

_HEAD = re.compile(r"kernel \d+(?:: (?P<why>.+))?")
_PLAIN = "in plain loops: "


def show_kernels(kernels: Sequence[Kernel]) -> str:
    """The loops of every kernel, with the assignments it came from, why it was not joined to one before, and why a
    contraction in it is none for the backend."""
    names = buffer_names(buffers_of(as_program(kernels)))
    return "\n\n".join(_shown(number, kernel, names) for number, kernel in enumerate(kernels))


def declared_kernels(kernels: Sequence[Kernel]) -> str:
    """The text of kernels below the declarations of their buffers, which is enough to read them back."""
    names = buffer_names(buffers_of(as_program(kernels)))
    return "\n".join([*declarations(names), "", show_kernels(kernels)])


def _shown(number: int, kernel: Kernel, names: Mapping[Buffer, str]) -> str:
    title = f"kernel {number}" + (f": {kernel.why}" if kernel.why else "")
    said = [*kernel.remarks, *([_PLAIN + kernel.plain] if kernel.plain else [])]
    return "\n".join([title, *(f"# {line}" for line in said), show(Program(kernel.body), names)])


def parse_kernels(text: str, buffers: Iterable[Buffer] = (), given: Iterable[str] = ()) -> tuple[Kernel, ...]:
    """The kernels that a text writes over buffers, those given and those it declares; WeftError if it is none."""
    lines, known = text.split("\n"), tuple(buffers)
    starts = [at for at, line in enumerate(lines) if _HEAD.fullmatch(line.rstrip())]
    if not starts:
        with Source(text).pointing():
            raise Mistake("no kernel begins here", Span(0, len(lines[0])), "begin each with a line such as `kernel 0`")
    declared = lines[: starts[0]]
    return tuple(
        _read(lines[:end], start, declared, known, tuple(given)) for start, end in pairwise([*starts, len(lines)])
    )


def _read(
    lines: Sequence[str], start: int, declared: Sequence[str], buffers: tuple[Buffer, ...], given: tuple[str, ...]
) -> Kernel:
    """The kernel of the lines from its title on; what it is read with has its lines where they are."""
    title = _HEAD.fullmatch(lines[start].rstrip())
    assert title is not None
    remarks = [one[1:].removeprefix(" ") for one in takewhile(lambda one: one.startswith("#"), lines[start + 1 :])]
    before = [*declared, *[""] * (start + 1 + len(remarks) - len(declared))]
    body = parse("\n".join([*before, *lines[len(before) :]]), buffers, given).body
    plain = remarks.pop().removeprefix(_PLAIN) if remarks and remarks[-1].startswith(_PLAIN) else ""
    return Kernel(tuple(remarks), body, title["why"] or "", plain)
