"""Something to look at: text in a terminal, HTML in a notebook."""

from __future__ import annotations

from dataclasses import dataclass

from weft.display.boxes import BoxedGrid


@dataclass(frozen=True, slots=True, repr=False)
class Shown:
    """Lines and boxes from top to bottom. `print` and a terminal show its text, a notebook its HTML."""

    parts: tuple[str | BoxedGrid, ...]

    def __str__(self) -> str:
        return "\n".join(map(str, self.parts))

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return "\n".join(map(_html, self.parts))


def _html(part: str | BoxedGrid) -> str:
    return part.html() if isinstance(part, BoxedGrid) else BoxedGrid.line(part)
