"""Is it worth it to run two nests in the same loops? What that saves against what it costs, in nanoseconds.

Saved are a pass over the memory both touch, and a call. Lost are vectors, where a function that could run on vectors
comes to stand beside an inner loop and runs one number at a time; and threads, where only one of the two can have them.
Two products of large matrices are never joined: each wants the caches for itself.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

from weft.loops import For, walk
from weft.loops.effects import everything, parts
from weft.ops import Call
from weft.ops.dtypes import numpy_type
from weft.schedule.independent import independent
from weft.schedule.levels import Level, Shared

#: Functions that compilers run on vectors, being written out in C, and what a number costs alone and among others.
_ON_VECTORS = {"erf", "exp", "sigmoid", "tanh"}
_ALONE_NS, _TOGETHER_NS = 8.0, 1.0
_CALL_NS = 15.0
#: Bytes in a nanosecond: from memory, and from a cache that holds all of it.
_BYTES, _CACHED_BYTES, _CACHE = 15.0, 100.0, 1 << 18
#: With fewer points a loop is run by one thread.
_WORTH_A_THREAD = 1 << 14


@dataclass(frozen=True, slots=True)
class Scales:
    """Weighs joining nests, for so many threads."""

    threads: int = 1

    def obstacle(self, mine: Level, theirs: Level, shared: Shared) -> str:
        """Why two nests are better not joined in the loops they could share; empty if they are better joined."""
        if not shared:
            return ""
        loop, both = shared[-1][0], ((mine, theirs), (theirs, mine))
        if self.threads > 1 and any(_is_long(one) and _divides(one, other) for one, other in both):
            return f"sharing `{shared[0][0]}` would leave both to one thread"
        saved, lost = _saved(mine, theirs), _lost(mine, theirs, shared)
        if lost > saved:
            return f"sharing `{loop}` would save {saved:.0f} ns of memory and lose {lost:.0f} ns of vectors"
        return ""


def _saved(mine: Level, theirs: Level) -> float:
    """What one pass less over the memory of both takes."""
    size = sum(prod(one.shape) * numpy_type(one.dtype).itemsize for one in mine.touched if one in theirs.touched)
    return _CALL_NS + size / (_CACHED_BYTES if size <= _CACHE else _BYTES)


def _lost(mine: Level, theirs: Level, shared: Shared) -> float:
    """What functions take longer that no longer run on vectors."""
    points = prod(mine.sizes[loop] for loop, _ in shared)
    own, other = _deepest(mine, [loop for loop, _ in shared]), _deepest(theirs, [loop for _, loop in shared])
    alone = [one for one, beside in ((own, other), (other, own)) if not _has_loops(one) and _has_loops(beside)]
    return sum(map(_functions, alone)) * points * (_ALONE_NS - _TOGETHER_NS)


def _deepest(level: Level, loops: Sequence[str]) -> Level:
    """The level inside some loops."""
    for loop in loops:
        level = next(item for item in level.items if isinstance(item, Level) and item.loop == loop)
    return level


def _has_loops(level: Level) -> bool:
    return any(isinstance(item, Level) for item in level.items)


def _functions(level: Level) -> int:
    """How many functions that could run on vectors a point of a level computes."""
    stmts = everything([item for item in level.items if not isinstance(item, Level)])
    scalars = (one for stmt in stmts for part in parts(stmt) for one in walk(part))
    return sum(isinstance(one, Call) and one.op in _ON_VECTORS for one in scalars)


def _is_long(level: Level) -> bool:
    return prod(level.sizes.values()) >= _WORTH_A_THREAD


def _divides(level: Level, other: Level) -> bool:
    """Could threads share the points of a nest, but not those of the other?"""
    return _is_free(level) and not _is_free(other)


def _is_free(level: Level) -> bool:
    first, *others = level.body
    return not others and isinstance(first, For) and independent(first)
