"""Running means over examples, as batches of different lengths come in."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan


@dataclass(slots=True)
class Tally:
    """Sums by name, each batch counted by its examples."""

    examples: int = 0
    sums: dict[str, float] = field(default_factory=dict)

    def add(self, values: Mapping[str, float], examples: int) -> None:
        """Count a batch."""
        self.examples += examples
        for name, value in values.items():
            self.sums[name] = self.sums.get(name, 0.0) + value * examples

    def means(self) -> dict[str, float]:
        return {name: total / self.examples if self.examples else nan for name, total in self.sums.items()}
