"""How names, strings and numbers are spelled; what is spelled reads back."""

from __future__ import annotations

import re
from collections.abc import Mapping

NAME = re.compile(r"[^\W\d]\w*(?:\.\w+)*")
#: Words that are numbers; a tensor so called is written between backquotes.
NUMBERS: Mapping[str, float | bool] = {
    "inf": float("inf"),
    "nan": float("nan"),
    "True": True,
    "False": False,
}

_ESCAPE = re.compile(r"\\(?:x([0-9a-f]{2})|u([0-9a-f]{4})|U(000[0-9a-f]{5}|0010[0-9a-f]{4})|(.))", re.DOTALL)
_LETTERS = {"n": "\n", "r": "\r", "t": "\t"}


def spelled_name(name: str) -> str:
    """The name as written: between backquotes unless it is made of identifiers and dots."""
    return name if NAME.fullmatch(name) and name not in NUMBERS else f"`{_escaped(name, '`')}`"


def spelled_string(text: str) -> str:
    return f'"{_escaped(text, chr(34))}"'


def spelled_number(number: object) -> str:
    """A number, whatever kind holds it."""
    plain = number if type(number) in (bool, int, float) else getattr(number, "item", lambda: number)()
    return repr(plain)


def unescaped(text: str) -> str:
    """What stands between the quotes, with its escapes read."""
    return _ESCAPE.sub(_character, text)


def _character(found: re.Match[str]) -> str:
    code = found[1] or found[2] or found[3]
    return chr(int(code, 16)) if code else _LETTERS.get(found[4], found[4])


def _escaped(text: str, quote: str) -> str:
    marked = text.replace("\\", "\\\\").replace(quote, "\\" + quote)
    if marked.isprintable():
        return marked
    return "".join(char if char.isprintable() else char.encode("unicode_escape").decode() for char in marked)


def name_in(word: str) -> str:
    """The name that a word spells, between backquotes or not."""
    if not word.startswith("`"):
        return word
    quote = word.rindex("`")
    return unescaped(word[1:quote]) + word[quote + 1 :]
