"""A text that somebody wrote, and mistakes in it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass

from weft.errors import Span, WeftError

#: As much of a long line as an error shows.
_SHOWN = 160


@dataclass(unsafe_hash=True)
class Mistake(Exception):
    """What is wrong with a part of a text, and how to mend it. Raised, or collected with others."""

    what: str
    span: Span
    fix: str = ""
    notes: tuple[str, ...] = ()
    also: tuple[Span, ...] = ()


@dataclass(frozen=True, slots=True)
class Source:
    """The text; an error may show its lines without their indentation."""

    text: str
    dedented: bool = False

    def where(self, at: int) -> str:
        return f"line {self.text.count(chr(10), 0, at) + 1}, column {at - self._line(at) + 1}"

    def window(self, span: Span) -> tuple[str, Span]:
        """As much as can be shown of the line that a span begins in, and what to mark of it."""
        start = self._line(span.start)
        line, at = self.text[start:].split("\n", 1)[0].rstrip(), span.start - start
        indent = len(line) - len(line.lstrip()) if self.dedented else 0
        left = min(at, max(0, at - _SHOWN // 2) if len(line) > _SHOWN else indent)
        shown = one_line(line)[left : left + _SHOWN]
        return shown, Span(at - left, max(at - left + 1, min(span.end - start - left, len(shown))))

    def error(self, mistake: Mistake) -> WeftError:
        """The error that points at a mistake: its line, with carets."""
        shown, marked = self.window(mistake.span)
        what = f"{self.where(mistake.span.start)}: {mistake.what}"
        return WeftError(what, text=shown, spans=[marked], notes=mistake.notes, fix=mistake.fix)

    @contextmanager
    def pointing(self) -> Iterator[None]:
        """Mistakes found inside are errors that point into the text."""
        try:
            yield
        except Mistake as mistake:
            raise self.error(mistake) from None

    def _line(self, at: int) -> int:
        return self.text.rfind("\n", 0, at) + 1


def one_line(text: str) -> str:
    """`text` with a space or a question mark for each character that would move the carets below it."""
    return "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in text)
