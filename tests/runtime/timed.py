"""A backend whose kernels take as long as a test says, on a clock of its own."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

from weft.backends import BoundProgram, Executable
from weft.backends.cc import Cc
from weft.backends.interp import Interp
from weft.loops.effects import effects
from weft.runtime import Routine, tune, tuner, workbench
from weft.schedule import Kernel
from weft.schedule.tuning.subjects import Subject, subjects

PLACES = Cc.places.fget(None)  # type: ignore[attr-defined]


class Timed(Interp):
    """The oracle, given kernels with all that is decided about them; a run of one takes `seconds` of it.

    What `spoils` a kernel makes its answers wrong; what is raised there, compiling it raises.
    """

    fuses = True
    places = PLACES

    def __init__(self, seconds: Callable[[Kernel], float], spoils: Callable[[Kernel], bool] = lambda kernel: False):
        super().__init__()
        object.__setattr__(self, "clock", [0.0])
        object.__setattr__(self, "seconds", seconds)
        object.__setattr__(self, "spoils", spoils)

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        spoilt = [one for one in kernels if self.spoils(one)]  # type: ignore[attr-defined]
        took = sum(map(self.seconds, kernels))  # type: ignore[attr-defined]
        return _Executable(super().compile(kernels), kernels, self, took, bool(spoilt))


class _Executable:
    def __init__(self, inner: Executable, kernels: Sequence[Kernel], backend: Any, took: float, spoilt: bool) -> None:
        self._inner, self._kernels, self._backend, self._took, self._spoilt = inner, kernels, backend, took, spoilt
        self.source = inner.source

    def bind(self, memory: Mapping[Any, np.ndarray]) -> BoundProgram:
        call = self._inner.bind(memory)

        def run(given: Mapping[str, int]) -> None:
            call(given)
            self._backend.clock[0] += self._took
            if self._spoilt:
                for buffer in effects(self._kernels[-1].body).buffers:
                    memory[buffer][...] = 7

        return run


def subjects_of(routine: Routine) -> list[Subject]:
    """What there is to tune in a routine."""
    request = routine.compiled.request
    assert request is not None
    return subjects(request.undecided()[1], request.task)


def on_clock(monkeypatch: pytest.MonkeyPatch, backend: Any) -> None:
    """Let tuning look at a backend's clock."""
    for module in (tune, tuner, workbench):
        monkeypatch.setattr(module, "perf_counter", lambda: backend.clock[0])
    monkeypatch.setattr(tuner, "perf_counter_ns", lambda: 0)
    monkeypatch.setattr(tune, "busy_cores", lambda: 0.0)
