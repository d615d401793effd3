"""What the parser stumbled over, said in words, and the text without it."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import lark

from weft.comprehension.mistakes import Mistake, meant
from weft.errors import Span

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


@dataclass(frozen=True, slots=True)
class Known:
    """A mistake people make: `pattern` matches at the place where the parser stopped."""

    pattern: str
    what: str
    fix: str


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
_KNOWN = tuple((re.compile(one.pattern), one) for one in KNOWN)

_WORDS: Mapping[str, str] = {
    "NAME": "a name",
    "NUMBER": "a number",
    "TRUE": "",
    "FALSE": "",
    "EQUAL": "`=`",
    "REDUCE": "`+=!`",
    "COMPARE": "a comparison",
    "SELECT": "",
    "OR": "an operator",
    "AND": "an operator",
    "PLUS": "an operator",
    "MINUS": "an operator",
    "STAR": "an operator",
    "SLASH": "an operator",
    "PERCENT": "an operator",
    "NOT": "",
    "QMARK": "",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
    "COMMA": "`,`",
    "COLON": "`:`",
    "_DEF": "`def`",
    "_WHERE": "`where`",
    "_IN": "`in`",
    "_EXISTS": "`exists`",
    "_ARROW": "`->`",
    "_EQUIVALENT": "",
    "$END": "",
}


def diagnose(text: str, left: str, error: lark.UnexpectedInput) -> Mistake:
    """What is wrong where the parser of `left` stopped, `left` being the text without the mistakes before this one."""
    if not isinstance(error, lark.UnexpectedToken):
        at = error.pos_in_stream or 0
        return _known(text, Span(at, at + 1), error) or _unreadable(text, at)
    if error.token.type == "$END":
        return _ended(left, error)
    at = error.token.start_pos or 0
    span = Span(at, error.token.end_pos or at + 1)
    return _known(text, span, error) or _misplaced(text, error, span)


def _accepts(error: lark.UnexpectedInput) -> set[str]:
    return set(error.accepts) if isinstance(error, lark.UnexpectedToken) else set()


def _known(text: str, span: Span, error: lark.UnexpectedInput) -> Mistake | None:
    accepts = _accepts(error)
    for special in SPECIAL:
        if mistake := special(text, span, accepts):
            return mistake
    for pattern, known in _KNOWN:
        if found := pattern.match(text, span.start):
            return Mistake(known.what, Span(*found.span()), known.fix)
    return None


def _foreign(text: str, at: int) -> Mistake | None:
    """A word of other languages in the statement before the place where the parser stopped, as in `a and b`."""
    start, _, _ = _region(_blanked(text), at)
    found = next(_FOREIGN.finditer(text, start, at), None)
    known = found and next(one for sign, one in _KNOWN if sign.fullmatch(found[0]))
    return Mistake(known.what, Span(*found.span()), known.fix) if found and known else None


def _blanked(text: str) -> str:
    """The text with spaces for its comments."""
    return _COMMENT.sub(lambda found: " " * len(found[0]), text)


def _cut(text: str, span: Span, accepts: set[str]) -> Mistake | None:
    """The end of a sign whose beginning is an operator or the end of a number: `//`, `**`, `/*`, `..`."""
    before = max(span.start - 1, 0)
    if text[before : span.start + 1] not in ("//", "**", "/*", ".."):
        return None
    known = next(one for sign, one in _KNOWN if sign.match(text, before))
    return Mistake(known.what, Span(before, span.start + 1), known.fix)


def _missing_arrow(text: str, span: Span, accepts: set[str]) -> Mistake | None:
    if accepts != {"_ARROW"}:
        return None
    return Mistake("a definition says what comes out", span, "write `-> (C)` before the `{`")


def _no_definition(text: str, span: Span, accepts: set[str]) -> Mistake | None:
    """`def` is missing, or something stands between two definitions."""
    if accepts != {"_DEF", "$END"}:
        return None
    word = text[span.start : span.end]
    fix = meant(word, ["def"], "write `def name(…) -> (…) { … }`")
    return Mistake(f"a definition begins with `def`, not `{_shown(word)}`", span, fix)


SPECIAL: tuple[Callable[[str, Span, set[str]], Mistake | None], ...] = (
    _no_definition,
    _missing_arrow,
    _cut,
)


def _unreadable(text: str, at: int) -> Mistake:
    shown = f"`{text[at]}`" if text[at].isprintable() else ascii(text[at])
    return Mistake(f"{shown} has no meaning here", Span(at, at + 1), "remove it")


def _ended(text: str, error: lark.UnexpectedToken) -> Mistake:
    end = len(_blanked(text).rstrip())
    span = Span(max(end - 1, 0), max(end, 1))
    fix = "close the definition with `}`" if "RBRACE" in error.accepts else _expected(error.accepts)
    return Mistake("the text ends too early", span, fix)


def _misplaced(text: str, error: lark.UnexpectedToken, span: Span) -> Mistake:
    what = f"`{_shown(text[span.start : span.end])}` cannot stand here"
    return _foreign(text, span.start) or Mistake(what, span, _expected(error.accepts))


def _shown(word: str) -> str:
    return word[:40] if word.isprintable() else ascii(word[:40])[1:-1]


def _expected(accepts: set[str]) -> str:
    signs = {"an operator"} if "NUMBER" in accepts else set()  # there they are signs of a number
    words = sorted({_WORDS.get(name, "") for name in accepts} - {""} - signs)
    return "write " + " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) + " here" if words else "remove it"


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
