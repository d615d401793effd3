"""Choices about a kernel that can be made one by one: what each may be, how it is read from decisions and written."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

from weft.loops import Annotation, For
from weft.schedule.annotate import annotated
from weft.schedule.compile_options import CompileOptions
from weft.schedule.decisions import Decisions

#: Loops are cut into so many chunks for each core; or into so many, which keeps the other cores out of it.
_CHUNKS, _FEW_CHUNKS = (1, 2, 4, 16), (2, 4)


@dataclass(frozen=True, slots=True)
class Knob:
    """One thing to decide: what it may be, how to tell what it is, and how to change it."""

    what: str
    values: tuple[Any, ...]
    read: Callable[[Decisions], Any]
    write: Callable[[Decisions, Any], Decisions]


def annotation_knob(loop: str, kinds: tuple[type, ...], values: Sequence[Annotation | None]) -> Knob:
    """A choice among annotations that exclude each other."""

    def read(found: Decisions) -> Annotation | None:
        return next((one for one in found.how(loop) if isinstance(one, kinds)), None)

    def write(found: Decisions, value: Annotation | None) -> Decisions:
        others = [one for one in found.how(loop) if not isinstance(one, kinds)]
        bare = For(loop, 1, (), tuple(others))
        return found.with_how(loop, (annotated(bare, value) if value else bare).how)

    return Knob(f"{loop} {'|'.join(one.__name__.lower() for one in kinds)}", tuple(values), read, write)


def chunk_sizes(size: int, options: CompileOptions) -> list[int]:
    """What threads may claim of a loop at a time, the least first."""
    if size == 1 or options.machine.cores == 1:
        return []
    counts = [*(each * options.machine.cores for each in _CHUNKS), *_FEW_CHUNKS]
    return sorted({-(-size // count) for count in counts if count <= size} or {1})
