"""A box: a table with a corner, a head above each column and one before each row.

┌──────────────────┬──────────────┐
│ output ↓ input → │   0    1   2 │
├──────────────────┼──────────────┤
│                0 │ 0.5 -1.5   2 │
└──────────────────┴──────────────┘
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from html import escape


@dataclass(frozen=True, slots=True)
class BoxedGrid:
    """What is in a box; a row is its head and its cells. All cells are numbers, and stand to the right."""

    corner: str
    columns: tuple[str, ...]
    rows: tuple[tuple[str, tuple[str, ...]], ...]

    def __str__(self) -> str:
        heads = [self.corner, *(head for head, _ in self.rows)]
        first = max(map(len, heads))
        lines = [self.columns, *(cells for _, cells in self.rows)]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        top, *rest = (
            f"│ {head.rjust(first)} │ {_spaced(cells, widths)} │" for head, cells in zip(heads, lines, strict=True)
        )
        above, between, below = (
            f"{left}{'─' * (first + 2)}{cross}{'─' * (sum(widths) + len(widths) + 1)}{right}"
            for left, cross, right in ("┌┬┐", "├┼┤", "└┴┘")
        )
        return "\n".join([above, top, between, *rest, below])

    def html(self) -> str:
        """The box as a table of HTML."""
        head = "".join(_cell("th", text) for text in (self.corner, *self.columns))
        body = ("".join([_cell("th", name), *(_cell("td", text) for text in cells)]) for name, cells in self.rows)
        rows = "".join(f"<tr>{row}</tr>" for row in (head, *body))
        return f'<table style="text-align:right">{rows}</table>'

    @staticmethod
    def line(text: str) -> str:
        """A line of text in HTML."""
        return f"<div><code>{escape(text)}</code></div>"


def _spaced(cells: Sequence[str], widths: Sequence[int]) -> str:
    return " ".join(text.rjust(width) for text, width in zip(cells, widths, strict=True))


def _cell(tag: str, text: str) -> str:
    return f"<{tag}>{escape(text)}</{tag}>"
