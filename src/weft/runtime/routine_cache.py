"""Routines found again: how one ran in an earlier process, kept on disk under what its code says.

An entry lists the calls of kernels and where in the arena each buffer lies. It names buffers by the numbers that the
fingerprint gives tensors; memory that belongs to no tensor is described.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from weft.backends import KernelCall, Lasting
from weft.cache import cache_folder, opened, own_identity
from weft.loops import Buffer, Role
from weft.runtime.compiled import Compiled
from weft.schedule.hoist_checks import Checking

C = TypeVar("C")


def key_of(backend: Lasting, *parts: object) -> str:
    """What a routine is kept under: all that its calls depend on."""
    text = "\n".join([own_identity(), backend.identity, *map(str, parts)])
    return hashlib.sha256(text.encode()).hexdigest()[:40]


def remember(key: str, made: Compiled, calls: Sequence[KernelCall], tensors: Sequence[Buffer]) -> None:
    """Keep how a routine runs; what belongs to no tensor lies in the arena."""
    numbers = {buffer: number for number, buffer in enumerate(tensors)}
    touched = list(dict.fromkeys(buffer for call in calls for buffer in call.buffers))
    assert all(buffer in numbers or buffer in made.offsets for buffer in touched)
    place = {buffer: at for at, buffer in enumerate(touched)}
    entry = {
        "touched": [numbers.get(buffer, [buffer.shape, buffer.dtype]) for buffer in touched],
        "arena": made.arena.shape[0] if made.arena else 0,
        "offsets": [[place[buffer], offset] for buffer, offset in made.offsets.items() if buffer in place],
        "checking": [made.checking.kernels, [numbers[buffer] for buffer in made.checking.late]],
        "calls": [[one.kernel, [place[buffer] for buffer in one.buffers], one.given, one.threads] for one in calls],
    }
    with opened(cache_folder("routines")) as cache:
        cache.keep(key, json.dumps(entry).encode())


def recall(key: str, backend: Lasting, tensors: Sequence[Buffer], arena: Callable[[int], Buffer]) -> Compiled | None:
    """The routine kept under a key, on these tensors' buffers; None if there is none, or not all of it any more."""
    with opened(cache_folder("routines")) as cache:
        found = cache.read(key)
    if found is None:
        return None
    entry = json.loads(found)
    touched = [_buffer(place, one, tensors) for place, one in enumerate(entry["touched"])]
    calls = [
        KernelCall(kernel, tuple([touched[at] for at in on]), tuple(given), threads)
        for kernel, on, given, threads in entry["calls"]
    ]
    count, late = entry["checking"]
    first, program = (backend.recall(one) for one in halved(calls, count))
    if first is None or program is None:
        return None
    offsets = {touched[place]: offset for place, offset in entry["offsets"]}
    when = Checking(count, tuple(tensors[number] for number in late))
    place = arena(entry["arena"]) if offsets else None
    return Compiled(program, touched, place, offsets, first=first if count else None, checking=when)


def halved(calls: Sequence[C], count: int) -> tuple[Sequence[C], Sequence[C]]:
    """The first so many of some calls, and the others."""
    return calls[:count], calls[count:]


def _buffer(place: int, described: Any, tensors: Sequence[Buffer]) -> Buffer:
    if isinstance(described, int):
        return tensors[described]
    shape, dtype = described
    return Buffer(place, f"own {place}", tuple(shape), dtype, Role.RECALLED)
