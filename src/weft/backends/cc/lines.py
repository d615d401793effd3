"""Lines of C: loops around blocks, written once for all that write them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

Lines = list[str]


def indented(lines: Sequence[str]) -> Lines:
    return [f"    {line}" for line in lines]


def loop(variable: str, start: str, end: str, body: Sequence[str]) -> Lines:
    return [
        f"for (int64_t {variable} = {start}; {variable} < {end}; {variable}++) {{",
        *indented(body),
        "}",
    ]


def steps(variable: str, start: str, end: str, step: str, body: Sequence[str]) -> Lines:
    """A loop in steps."""
    head = f"for (int64_t {variable} = {start}; {variable} < {end}; {variable} += {step}) {{"
    return [head, *indented(body), "}"]


def simd(sums: Sequence[str] = (), lanes: int = 0) -> str:
    """Asks for vectors in the loop that follows; of its sums a vector adds up several at once."""
    clause = f" reduction(+ : {', '.join(sums)})" if sums else ""
    return f"#pragma omp simd{clause}{f' simdlen({lanes})' if lanes else ''}"


def unrolled(variable: str, count: int | str, body: Callable[[str], Sequence[str]]) -> Lines:
    """A block for each of some numbers: written out where it is known how many, else a loop that the compiler unrolls.

    The compiler would find the same, and take longer for it.
    """
    if isinstance(count, int):
        return [line for at in range(count) for line in _block(body(str(at)))]
    head = f"WEFT_UNROLL for (int {variable} = 0; {variable} < {count}; {variable}++)"
    first, *rest = _block(body(variable))
    return [f"{head} {first}", *rest]


def _block(lines: Sequence[str]) -> Lines:
    return list(lines) if len(lines) == 1 else ["{", *indented(lines), "}"]


@dataclass(frozen=True, slots=True)
class CLoop:
    """A loop in C."""

    name: str
    first: str
    end: str
    unrolled: bool = False


@dataclass(frozen=True, slots=True)
class Part:
    """A part of some loops: what is done before and after it, and its most iterations, or smaller parts."""

    begin: Lines
    end: Lines
    most: int


def in_parts(loops: Sequence[tuple[CLoop, int]], body: Lines, parts: Sequence[Part]) -> Lines:
    """Loops of known trip counts around a block, in parts, and those in larger ones: the smallest come first."""
    left, each = list(parts), 1
    for one, size in reversed(loops):
        cuts, length, count = [], 1, size
        while left and each * count > left[0].most:
            length *= left[0].most // each
            each, count = 1, -(-size // length)
            cuts.append((length, left.pop(0)))
        body = _cut(one, cuts, body)
        each *= count
    for part in left:
        body = [*part.begin, *body, *part.end]
    return body


def _cut(whole: CLoop, cuts: Sequence[tuple[int, Part]], body: Lines) -> Lines:
    """A loop in parts of so many iterations, the smallest first."""
    ends = [*((f"part{n}_from", f"part{n}_to") for n in range(len(cuts))), (whole.first, whole.end)]
    lines = nested([CLoop(whole.name, *ends[0], whole.unrolled)], body)
    for (length, part), (first, end), (start, stop) in zip(cuts, ends, ends[1:], strict=False):
        inside = [f"const int64_t {end} = {stop} - {first} < {length} ? {stop} : {first} + {length};"]
        head = f"for (int64_t {first} = {start}; {first} < {stop}; {first} += {length}) {{"
        lines = [head, *indented([*inside, *part.begin, *lines, *part.end]), "}"]
    return lines


def nested(loops: Sequence[CLoop], body: Lines) -> Lines:
    """Loops around a block, the first outermost."""
    for one in reversed(loops):
        body = loop(one.name, one.first, one.end, body)
        body = [f"WEFT_UNROLL {body[0]}", *body[1:]] if one.unrolled else body
    return body
