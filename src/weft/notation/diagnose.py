"""What a parser stumbled over, said in words.

A notation is two tables: words for the kinds of its tokens, and the mistakes that people make in it.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from weft.errors import Span
from weft.notation.parser import parser
from weft.notation.source import Mistake, one_line
from weft.notation.words import joined_words

if TYPE_CHECKING:
    from lark import Lark, UnexpectedInput

    from weft.notation.trees import Tree

#: How far around the stop a mistake is looked for; keeps the patterns cheap on absurdly long texts.
_REACH = 200
#: As much of a long word as an error shows.
_SHOWN = 40


@dataclass(frozen=True, slots=True)
class Stop:
    """Where a parser stopped: at a token of some kind, at `$END`, or where no token begins; and what it would take."""

    text: str
    span: Span
    kind: str
    accepts: frozenset[str]

    @property
    def word(self) -> str:
        found = self.text[self.span.start : self.span.end][:_SHOWN]
        return found if found.isprintable() else ascii(found)[1:-1]


@dataclass(frozen=True, slots=True)
class Known:
    """A known way to go wrong: `pattern` covers the place where the parser stopped, its group `at` gets the carets.

    In its texts a group stands by its name in braces, and `{all}` for the whole. No pattern matches the stop itself.
    """

    pattern: str
    what: str
    fix: str
    when: Callable[[Stop], bool] = lambda stop: True

    def __call__(self, stop: Stop) -> Mistake | None:
        at = stop.span.start
        if not self.when(stop):
            return None
        if not self.pattern:
            return Mistake(self.what.format(all=stop.word), stop.span, self.fix.format(all=stop.word))
        for found in re.compile(self.pattern, re.DOTALL).finditer(stop.text, max(at - _REACH, 0), at + _REACH):
            if found.start() <= at < found.end():
                words = {name: one_line(word or "") for name, word in {**found.groupdict(), "all": found[0]}.items()}
                marked = Span(*found.span("at" if "at" in words else 0))
                return Mistake(self.what.format(**words), marked, self.fix.format(**words))
        return None


@dataclass(frozen=True, slots=True)
class Notation:
    """The grammar of a room, and how its mistakes are said.

    `words` has the tokens that are not called by what they are spelled; an empty word is never advised.
    """

    room: str
    called: str
    meaning: str
    words: Mapping[str, str]
    known: tuple[Callable[[Stop], Mistake | None], ...]
    readable: str = ""
    marked_at_end: int = 1  # characters, where a text ends too early; none marks the place after them
    sign: re.Pattern[str] = re.compile(r"(?!)")  # what people see as one word, where it is several tokens

    def tree(self, text: str, start: str = "start") -> Tree:
        """The tree of a text; raises the Mistake that it has."""
        from lark import UnexpectedInput

        grammar = parser(self.room, start)
        try:
            return grammar.parse(text)
        except UnexpectedInput as error:
            raise self._diagnose(self._stop(text, error), grammar) from None

    def _stop(self, text: str, error: UnexpectedInput) -> Stop:
        from lark import UnexpectedToken

        if not isinstance(error, UnexpectedToken):
            at = error.pos_in_stream or 0
            return Stop(text, Span(at, at + 1), "", frozenset())
        kind, accepts = error.token.type, frozenset(error.accepts)
        if kind == "$END":
            end = len(text.rstrip())
            return Stop(text, Span(max(end - self.marked_at_end, 0), end), kind, accepts)
        at = error.token.start_pos or 0
        sign = self.sign.match(text, at)
        end = sign.end() if sign else error.token.end_pos or at + 1
        return Stop(text, Span(at, end), kind, accepts)

    def _diagnose(self, stop: Stop, grammar: Lark) -> Mistake:
        for known in self.known:
            if mistake := known(stop):
                return mistake
        if stop.kind == "$END":
            return Mistake(f"{self.called} ends too early", stop.span, self._go_on(stop, grammar))
        if stop.kind:
            return Mistake(f"`{stop.word}` cannot stand here", stop.span, self._go_on(stop, grammar))
        char = stop.text[stop.span.start]
        shown = f"`{char}`" if char.isprintable() else ascii(char)
        fix = f"remove it; {self.readable}" if self.readable else "remove it"
        return Mistake(f"{shown} has no meaning {self.meaning}", stop.span, fix)

    def _go_on(self, stop: Stop, grammar: Lark) -> str:
        """What could come next, in words."""
        literals = {name: grammar.get_terminal(name).pattern for name in stop.accepts - {"$END"}}
        spelled = {name: f"`{one.value}`" if one.type == "str" else "" for name, one in literals.items()}
        words = sorted({self.words.get(name, spelled[name]) for name in spelled} - {""})
        return f"write {joined_words(words, ' or ')} here" if words else "remove it"
