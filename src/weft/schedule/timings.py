"""Where compile time goes."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from time import perf_counter

from weft.columns import table


@dataclass(slots=True)
class Clock:
    """The seconds each stage took, in the order they ran."""

    seconds: dict[str, float] = field(default_factory=dict)

    @contextmanager
    def __call__(self, stage: str) -> Iterator[None]:
        """Time a stage."""
        start = perf_counter()
        try:
            yield
        finally:
            self.seconds[stage] = self.seconds.get(stage, 0.0) + perf_counter() - start

    def __str__(self) -> str:
        rows = [(stage, f"{seconds:.3f}") for stage, seconds in self.seconds.items()]
        return table(("stage", "seconds"), [*rows, ("all", f"{sum(self.seconds.values()):.3f}")])
