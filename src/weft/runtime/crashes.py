"""Kernels that a backend's compiler breaks down on: they run in plain loops, everything else as it was scheduled."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.backends import Backend, CompilerCrash, Executable
from weft.errors import WeftError, user_origin, warn
from weft.schedule import Kernel, Schedule, in_plain_loops
from weft.schedule.cost import assignments
from weft.schedule.gpu.simt import is_on_gpu, on_simt


def compiled(backend: Backend, kernels: Sequence[Kernel]) -> tuple[tuple[Kernel, ...], Executable]:
    """Kernels as they were compiled in the end: in plain loops where the compiler broke down, of which is warned.

    Raises what it said if it breaks down on plain loops as well.
    """
    try:
        return tuple(kernels), backend.compile(kernels)
    except CompilerCrash as crash:
        plain = {at: _plain(kernels[at], f"otherwise {why.what}") for at, why in crash.kernels.items()}
        if any([one.template for one in found] == [kernels[at].template] for at, found in plain.items()):
            raise
        found = compiled(backend, [made for at, one in enumerate(kernels) for made in plain.get(at, (one,))])
        for why in dict.fromkeys(crash.kernels.values()):
            _warn([kernels[at] for at, one in crash.kernels.items() if one is why], why, crash)
        return found


def _plain(kernel: Kernel, why: str) -> tuple[Kernel, ...]:
    """A kernel in plain loops: where it runs on a GPU, as launches that each of many threads runs a point of."""
    plain = in_plain_loops(kernel, why)
    return on_simt(plain) if is_on_gpu(kernel) else (plain,)


def as_compiled(planned: Schedule, kernels: tuple[Kernel, ...]) -> Schedule:
    """A schedule with kernels as they were compiled in the end."""
    return replace(planned, kernels=kernels, plan=planned.plan.with_private(kernels))


def _warn(kernels: Sequence[Kernel], why: WeftError, crash: CompilerCrash) -> None:
    """Say which kernels run in plain loops; they are alike."""
    first, *others = kernels
    more = f", and {len(others)} more that {'are' if len(others) > 1 else 'is'} like it" if others else ""
    warn(
        WeftError(
            f"{crash.compiler} breaks down on a kernel, which runs in plain loops instead: {assignments(first)}{more}",
            origin=user_origin(),
            notes=[why.what, *why.notes],
            fix=crash.mending,
        )
    )
