"""How mistakes in a text are said: all of them at once, each with its place and a fix.

line 2, column 10: `Bb` is neither a tensor nor a builtin
    C(i) = Bb(i) + 1
           ^^
  fix: did you mean `B`?
"""

from __future__ import annotations

import difflib
import warnings
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from weft.errors import Origin, Span, WeftError, WeftWarning, carets, user_origin

#: As much of a long line as an error shows, and as many mistakes of one text.
_SHOWN = 160
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Mistake:
    """What is wrong with a part of a text, and how to mend it."""

    what: str
    span: Span
    fix: str = ""
    notes: tuple[str, ...] = ()


class ComprehensionError(WeftError, ValueError):
    """A text of the comprehension language that is wrong, in one way or in several."""

    def __init__(self, text: str, mistakes: Sequence[Mistake], origin: Origin | None = None) -> None:
        self.mistakes = tuple(sorted(dict.fromkeys(mistakes), key=lambda one: (one.span.start, one.span.end)))
        first = self.mistakes[0]
        line, shown, marked = _place(text, first.span)
        what = f"line {line}, column {first.span.start - _start(text, first.span) + 1}: {first.what}"
        super().__init__(what, origin=origin, text=shown, spans=[marked], notes=first.notes, fix=first.fix)
        self.source = text

    def __str__(self) -> str:
        if len(self.mistakes) == 1:
            return super().__str__()
        head = f"{len(self.mistakes)} mistakes in the comprehensions"
        lines = [f"{self.origin}: {head}" if self.origin else head]
        lines += [render(self.source, one) for one in self.mistakes[:_LISTED]]
        if len(self.mistakes) > _LISTED:
            lines.append(f"and {len(self.mistakes) - _LISTED} more")
        return "\n".join(lines)


def fail(text: str, mistakes: Sequence[Mistake]) -> None:
    """Raises the mistakes, if there are any."""
    if mistakes:
        raise ComprehensionError(text, mistakes, user_origin())


def warn(text: str, doubts: Sequence[Mistake]) -> None:
    """Warns of what may be meant and probably is not, at the user's line."""
    origin = user_origin()
    for one in doubts:
        file, line = (origin.file, origin.line) if origin else ("weft", 1)
        warnings.warn_explicit(render(text, one), WeftWarning, file, line)


def render(text: str, mistake: Mistake) -> str:
    """One mistake with its line of the text."""
    line, shown, marked = _place(text, mistake.span)
    lines = [f"line {line}, column {mistake.span.start - _start(text, mistake.span) + 1}: {mistake.what}"]
    lines += ["    " + one for one in carets(shown, [marked]).splitlines()]
    lines += ["  " + note for note in mistake.notes]
    return "\n".join([*lines, "  fix: " + mistake.fix] if mistake.fix else lines)


def _start(text: str, span: Span) -> int:
    return text.rfind("\n", 0, span.start) + 1


def _place(text: str, span: Span) -> tuple[int, str, Span]:
    """The line a span begins in, as it can be shown, and what to mark of it."""
    start = _start(text, span)
    line = text[start:].split("\n", 1)[0].rstrip()
    number, at = text.count("\n", 0, start) + 1, span.start - start
    left = max(0, at - _SHOWN // 2) if len(line) > _SHOWN else len(line) - len(line.lstrip())
    left = min(left, at)
    shown = "".join(char if char.isprintable() else " " if char.isspace() else "?" for char in line)
    shown = shown[left : left + _SHOWN]
    end = max(at - left + 1, min(span.end - start - left, len(shown)))
    return number, shown, Span(at - left, end)


def meant(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean …?` with the closest of the known names, else something to say instead."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, 1, 0.6)
    same = [one for one in names if one.lower() == name.lower() and one != name]
    best = same or close
    return f"did you mean `{best[0]}`?" if best else otherwise


def listed(names: Iterable[str]) -> str:
    """`a`, `b` and `c`."""
    shown = [f"`{name}`" for name in names]
    return " and ".join(filter(None, (", ".join(shown[:-1]), shown[-1]))) if shown else "none"


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 subscript`, `2 subscripts`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
