"""Dependences between kernels of a graph: one waits for another that touches bytes it writes; others are concurrent.

a writes x;  b reads x, writes y;  c reads x, writes z;  d reads y and z      gives      b and c after a, d after both
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

#: Bytes from an address to before another.
ByteSpan: TypeAlias = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TouchedBytes:
    """The bytes that a kernel reads, and those that it writes."""

    reads: tuple[ByteSpan, ...]
    writes: tuple[ByteSpan, ...]


@dataclass(slots=True)
class _LastUses:
    """The last kernel that wrote some bytes, and those that read them since."""

    writer: int | None = None
    readers: list[int] = field(default_factory=list)


def waits(kernels: Sequence[TouchedBytes], at_once: int) -> list[tuple[int, ...]]:
    """For each of some kernels, in order, those before it that it waits for; none that these wait for anyway.

    So many run `at_once` at most: each waits for the one that comes so many before it.
    """
    spans = sorted({one for kernel in kernels for one in (*kernel.reads, *kernel.writes) if one[0] < one[1]})
    beside = _overlapping(spans)
    uses = {one: _LastUses() for one in spans}
    found, behind = list[tuple[int, ...]](), list[int]()  # of each kernel all that it is behind, a bit each
    for at, kernel in enumerate(kernels):
        before = {at - at_once} if at >= at_once else set[int]()
        for span in (one for one in (*kernel.reads, *kernel.writes) if one in uses):
            before.update(use.writer for other in beside[span] if (use := uses[other]).writer is not None)
        for span in (one for one in kernel.writes if one in uses):
            before.update(reader for other in beside[span] for reader in uses[other].readers)
        direct, implied = list[int](), 0
        for one in sorted(before - {at}, reverse=True):
            if not implied >> one & 1:
                direct.append(one)
                implied |= behind[one] | 1 << one
        found.append(tuple(direct))
        behind.append(implied)
        for span in (one for one in kernel.reads if one in uses):
            uses[span].readers.append(at)
        for span in (one for one in kernel.writes if one in uses):
            uses[span] = _LastUses(at)
    return found


def _overlapping(spans: Sequence[ByteSpan]) -> dict[ByteSpan, list[ByteSpan]]:
    """For each of some spans, sorted, those that share bytes with it; itself among them."""
    found: dict[ByteSpan, list[ByteSpan]] = {one: [one] for one in spans}
    still = list[ByteSpan]()
    for one in spans:
        still = [other for other in still if other[1] > one[0]]
        for other in still:
            found[one].append(other)
            found[other].append(one)
        still.append(one)
    return found
