"""What the parser stumbled over, said in words, and the text without it."""

from __future__ import annotations

import re
from dataclasses import replace

from weft.comprehension.mistakes import meant
from weft.errors import Span
from weft.notation import Known, Mistake, Notation, Stop

_NAME = r"[0-9]*[A-Za-z_]\w*"
_ASSIGN = r"(?:=(?![=<>])|[-+*/]=|min=|max=)"
#: Where a statement begins: its left side and the sign. A name a `where` gives to a value looks the same.
_STATEMENT = re.compile(
    rf"(?<![\w.])(?!where\b|exists\b|def\b)(?:{_NAME}(?:\s*,\s*{_NAME}){{0,20}})\s*(?:\([^()]*\)\s*)?{_ASSIGN}",
    re.ASCII,
)
_CLAUSE = re.compile(r"(?:\bwhere|,)\s*$")
_FOREIGN = re.compile(r"\b(?:and|or|not|if|for)\b")
_COMMENT = re.compile(r"#[^\n]*")
_DEF = re.compile(r"\bdef\b")


KNOWN: tuple[Known, ...] = (
    Known(r";", "statements are not separated by `;`", "remove it; a statement ends where the next begins"),
    Known(r"//", "a comment begins with `#`", "write `#` for `//`"),
    Known(r"/\*", "a comment begins with `#`", "write `#` before each line of it"),
    Known(r"\*\*", "there is no operator `**`", "write `pow(x, y)`, or `x * x`"),
    Known(r"\^", "there is no operator `^`", "write `pow(x, y)` for a power"),
    Known(r"-=", "there is no `-=`", "accumulate the negative: `+= -(…)`"),
    Known(r"/=", "there is no `/=`", "accumulate with `*=` and `1 / (…)`"),
    Known(r":=", "an assignment is `=`, not `:=`", "write `=`"),
    Known(r"==", "`==` compares", "write `=` to assign"),
    Known(r"\[", "subscripts are written in round brackets", "write `A(i, j)` for `A[i, j]`"),
    Known(r"\]", "subscripts are written in round brackets", "write `A(i, j)` for `A[i, j]`"),
    Known(r"&(?!&)", "there is no operator `&`", "write `&&`"),
    Known(r"\|(?!\|)", "there is no operator `|`", "write `||`"),
    Known(r"and\b", "there is no operator `and`", "write `&&`"),
    Known(r"or\b", "there is no operator `or`", "write `||`"),
    Known(r"not\b", "there is no operator `not`", "write `!`"),
    Known(r"if\b", "there is no `if`", "choose with `condition ? yes : no`"),
    Known(r"for\b", "there are no loops: each index runs by itself", "give its range by `where i in 0:N`"),
    Known(r"=<", "there is no operator `=<`", "write `<=`"),
    Known(r"=>", "there is no operator `=>`", "write `>=`"),
    Known(r"\.\.", "a range is written with `:`", "write `0:N`"),
    Known(r"(?:sum|prod)\s*=", "that reduction is `+=` or `*=`", "write `+=!` to sum from 0, `*=!` to multiply from 1"),
    Known(r"[\"']", "there are no strings", "remove it"),
)


def _foreign(stop: Stop) -> Mistake | None:
    """A word of other languages in the statement before the place where the parser stopped, as in `a and b`."""
    start, _, _ = _region(_blanked(stop.text), stop.span.start)
    found = _FOREIGN.search(stop.text, start, stop.span.start) if stop.kind not in ("", "$END") else None
    return _as_known(replace(stop, span=Span(*found.span()))) if found else None


def _as_known(stop: Stop) -> Mistake | None:
    return next(filter(None, (known(stop) for known in KNOWN)), None)


def _blanked(text: str) -> str:
    """The text with spaces for its comments."""
    return _COMMENT.sub(lambda found: " " * len(found[0]), text)


def _no_definition(stop: Stop) -> Mistake | None:
    """`def` is missing, or something stands between two definitions."""
    if stop.accepts != {"_DEF", "$END"}:
        return None
    fix = meant(stop.text[stop.span.start : stop.span.end], ["def"], "write `def name(…) -> (…) { … }`")
    return Mistake(f"a definition begins with `def`, not `{stop.word}`", stop.span, fix)


def _ended(stop: Stop) -> Mistake | None:
    if stop.kind != "$END" or "RBRACE" not in stop.accepts:
        return None
    return Mistake("the text ends too early", stop.span, "close the definition with `}`")


NOTATION = Notation(
    room="weft.comprehension",
    called="the text",
    meaning="here",
    words={
        "NAME": "a name",
        "NUMBER": "a number",
        "EQUAL": "`=`",
        "REDUCE": "`+=!`",
        "COMPARE": "a comparison",
        **dict.fromkeys(("OR", "AND", "PLUS", "STAR", "SLASH", "PERCENT"), "an operator"),
        "MINUS": "",  # of a number, or an operator where others are
        **{f"_{word.upper()}": f"`{word}`" for word in ("def", "where", "in", "exists")},
        **dict.fromkeys(("_EQUIVALENT", "QMARK"), ""),
    },
    known=(
        _no_definition,
        Known(
            "",
            "a definition says what comes out",
            "write `-> (C)` before the `{{`",
            lambda stop: stop.accepts == {"_ARROW"},
        ),
        _ended,
        *KNOWN,
        _foreign,
    ),
)


# The text without a mistake


#: The shortest head a definition can have: it replaces one that cannot be read, so that its body is read.
_HEAD = "def _()->_{"


def without(text: str, at: int) -> str | None:
    """The text with spaces for the statement around a place; in the head of a definition, with another head."""
    start, end, stand_in = _region(_blanked(text), min(at, max(len(text) - 1, 0)))
    if not text[start:end].strip():
        return None
    return text[:start] + stand_in.ljust(end - start) + text[end:]


def _region(text: str, at: int) -> tuple[int, int, str]:
    heads = [found.start() for found in _DEF.finditer(text)]
    begin = max((head for head in heads if head <= at), default=0)
    finish = min((head for head in heads if head > at), default=len(text))
    opening = text.find("{", begin, finish)
    closing = text.find("}", max(opening, at), finish)
    head = text[begin : opening + 1]
    if opening >= 0 and at <= opening and len(_HEAD) <= len(head) and not head.startswith(_HEAD[:-1]):
        return begin, opening + 1, _HEAD[:-1].ljust(len(head) - 1) + "{"
    if at <= opening or opening < 0 or closing < 0:
        return begin, finish, ""
    starts = [
        found.start()
        for found in _STATEMENT.finditer(text, opening + 1, closing)
        if not _CLAUSE.search(text, max(opening, found.start() - 200), found.start())
    ]
    # A mistake at the first word of a statement is that the one before has no end.
    start = max((one for one in starts if one < at), default=opening + 1)
    end = min((one for one in starts if one >= at), default=closing)
    if text[start:end].strip():
        return start, end, ""
    return at, min((one for one in starts if one > at), default=closing), ""
