"""How mistakes in a text are said: all of them at once, each with its place and a fix.

line 2, column 10: `Bb` is neither a tensor nor a builtin
    C(i) = Bb(i) + 1
           ^^
  fix: did you mean `B`?
"""

from __future__ import annotations

import warnings
from collections.abc import Sequence

from weft.errors import WeftError, WeftWarning, carets, user_origin
from weft.notation import Mistake as Mistake, Source
from weft.notation.words import counted as counted, listed as listed, meant as meant

#: As many mistakes of one text as an error shows.
_LISTED = 20


class ComprehensionError(WeftError, ValueError):
    """A text of the comprehension language that is wrong, in one way or in several."""

    def __init__(self, text: str, mistakes: Sequence[Mistake]) -> None:
        self.mistakes = tuple(sorted(dict.fromkeys(mistakes), key=lambda one: (one.span.start, one.span.end)))
        first = self.mistakes[0]
        source = Source(text, dedented=True)
        shown, marked = source.window(first.span)
        what = f"{source.where(first.span.start)}: {first.what}"
        super().__init__(what, text=shown, spans=[marked], notes=first.notes, fix=first.fix)
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
        raise ComprehensionError(text, mistakes)


def warn(text: str, doubts: Sequence[Mistake]) -> None:
    """Warns of what may be meant and probably is not, at the user's line."""
    origin = user_origin()
    for one in doubts:
        file, line = (origin.file, origin.line) if origin else ("weft", 1)
        warnings.warn_explicit(render(text, one), WeftWarning, file, line)


def render(text: str, mistake: Mistake) -> str:
    """One mistake with its line of the text."""
    source = Source(text, dedented=True)
    shown, marked = source.window(mistake.span)
    lines = [f"{source.where(mistake.span.start)}: {mistake.what}"]
    lines += ["    " + one for one in carets(shown, [marked]).splitlines()]
    lines += ["  " + note for note in mistake.notes]
    return "\n".join([*lines, "  fix: " + mistake.fix] if mistake.fix else lines)
