"""Nests that share loops, as text."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.loops import Program, check, show
from weft.loops.nests import Nest
from weft.schedule.nodes import Kernel, with_shared_loops


def shown(found: Sequence[Nest], given: Mapping[str, int] | None = None) -> str:
    shared = [tuple((number, *loop) for number, loop in zip(one.shared, one.loops, strict=False)) for one in found]
    kernels = [Kernel((), (one.stmt,), shared=around) for one, around in zip(found, shared, strict=True)]
    return show(check(Program(tuple(stmt for one in with_shared_loops(kernels) for stmt in one.body)), given))
