"""What the parser of the code notation stumbled over, said in words."""

from __future__ import annotations

import re
from collections.abc import Mapping

from weft.errors import Span
from weft.notation import Known, Mistake, Notation, Stop

_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("NAME", "TICKED"), "a name"),
    "NUMBER": "a number",
    "STRING": "a string",
    "SIGN": "an assignment (`=:`, `=+`, `=:+` …)",
    "OP": "an operator",
    "LIFT": "`!.`",
    "OPTION": "`~logic`",
    **dict.fromkeys(("LET", "LSQB", "RSQB", "EQUAL"), ""),
}
_SEPARATED = "statements are separated by `;`", "write `;` at the end of this line"
#: What is printed for values that are given: `data float32[5, 3]`.
_SOURCE = re.compile(r"\b(data|file)(?:\s+\w+)?\s*$")


def _assigns(stop: Stop) -> bool:
    return "SIGN" in stop.accepts or not stop.kind


def _follows_operand(stop: Stop) -> bool:
    return not stop.accepts.isdisjoint(("OPTION", "COMMA"))


def _source(stop: Stop) -> Mistake | None:
    if stop.kind == "LSQB" or not stop.kind or _follows_operand(stop):
        if found := _SOURCE.search(stop.text[: stop.span.start].rstrip()):
            what = f"`{found[1]} …` stands for values that the text does not hold"
            fix = "give the tensor by name and leave out the statement that fills it"
            return Mistake(what, Span(*found.span()), fix)
    return None


def _next_statement(stop: Stop) -> Mistake | None:
    """After an operand, on another line, something begins that can begin a statement."""
    before = stop.text[: stop.span.start].rstrip()
    starts = stop.kind in ("NAME", "TICKED", "STRING", "LBRACE", "REMARK") and _follows_operand(stop)
    if not starts or "\n" not in stop.text[len(before) : stop.span.start]:
        return None
    what, fix = _SEPARATED
    return Mistake(what, Span(len(before) - 1, len(before)), fix)


_KNOWN = (
    Known(":=|<-", "an assignment starts with `=`, not `{all}`", "write `=:`", _assigns),
    Known(r"(?P<op>\*\*|[-+*/%])=", "an assignment starts with `=`, not `{all}`", "write `={op}`", _assigns),
    Known('["`]', "the quotation has no end", "close it with {all}", lambda stop: not stop.kind),
    Known(
        "",
        "an option and its text are joined by `:`",
        'write ~logic:"…"',
        lambda stop: stop.accepts == {"COLON"},
    ),
    Known(
        "",
        "there is no `(` for this `)`",
        "remove it",
        lambda stop: stop.kind == "RPAR" and "NUMBER" not in stop.accepts,
    ),
    Known(r"(?P<at>\S)[ \t]*\n\s*[\w.`]+\s*=:", *_SEPARATED, lambda stop: stop.kind == "COLON"),
    Known(
        r"=(?P<at>:)",
        "`=:` assigns inside an expression",
        "end the statement before it with `;`",
        lambda stop: stop.kind == "COLON",
    ),
    _source,
    Known(r"\[", "`[` has no meaning in code", "slice with `x @| i`", lambda stop: stop.kind == "LSQB"),
    Known(
        "",
        "a string on the right side declares nothing",
        "declare it on the left side of an assignment, `{all} =: …`, and use it without quotes",
        lambda stop: stop.kind == "STRING" and "NUMBER" in stop.accepts and not _follows_operand(stop),
    ),
    _next_statement,
    Known(
        "",
        "there is no operator between two operands",
        "write one, for example `*.` for the pointwise product",
        lambda stop: stop.kind in ("NAME", "TICKED", "NUMBER", "LPAR", "LIFT") and _follows_operand(stop),
    ),
)

NOTATION = Notation(room="weft.assign", called="the code", meaning="in code", words=_WORDS, known=_KNOWN)
