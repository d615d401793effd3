"""What the parser of the code notation stumbled over, said in words."""

from __future__ import annotations

import re
from collections.abc import Mapping

import lark

from weft.errors import Span

#: Assignments as other languages write them.
_FOREIGN = re.compile(r":=|[-+*/%]=|\*\*=|<-")
_SIGNS = re.compile(r"[-+*/%<>=|&^@?:.]+|\w+|.", re.DOTALL)
_WORDS: Mapping[str, str] = {
    "NAME": "a name",
    "TICKED": "a name",
    "NUMBER": "a number",
    "STRING": "a string",
    "SIGN": "an assignment (`=:`, `=+`, `=:+` …)",
    "OP": "an operator",
    "LIFT": "`!.`",
    "OPTION": "`~logic`",
    "REMARK": "`~~`",
    "SEMICOLON": "`;`",
    "COLON": "`:`",
    "COMMA": "`,`",
    "LPAR": "`(`",
    "RPAR": "`)`",
    "LBRACE": "`{`",
    "RBRACE": "`}`",
}
_SOURCE = re.compile(r"\b(data|file)(?:\s+\w+)?\s*$")
#: A line, and the name that begins the next one, before a sign of assignment.
_NEXT_STATEMENT = re.compile(r"(?P<end>\S)[ \t]*\n\s*[\w.`]+\s*=$")


def diagnose(text: str, error: lark.UnexpectedInput) -> tuple[str, Span, str]:
    """What is wrong, where, and how to mend it."""
    if not isinstance(error, lark.UnexpectedToken):
        return _unreadable(text, error.pos_in_stream or 0)
    if error.token.type == "$END":
        end = len(text.rstrip())
        return "the code ends too early", Span(max(end - 1, 0), end), _expected(error.accepts)
    at = error.token.start_pos or 0
    span = Span(at, error.token.end_pos or at + 1)
    return _known(text, error, span) or _misplaced(text, error, span)


def _known(text: str, error: lark.UnexpectedToken, span: Span) -> tuple[str, Span, str] | None:
    """A mistake people make, recognised by the token and what could have stood there."""
    token, accepts = error.token, error.accepts
    after_operand = bool({"OPTION", "COMMA"} & accepts)
    if foreign := ("SIGN" in accepts and _FOREIGN.match(text, span.start)):
        return _foreign(foreign)
    if accepts == {"COLON"}:
        return "an option and its text are joined by `:`", span, 'write ~logic:"…"'
    if token.type == "RPAR" and "NUMBER" not in accepts:
        return "there is no `(` for this `)`", span, "remove it"
    if token.type == "COLON" and text[: span.start].endswith("="):
        before = _NEXT_STATEMENT.search(text, 0, span.start)
        if before:
            return "statements are separated by `;`", Span(*before.span("end")), "write `;` at the end of this line"
        return "`=:` assigns inside an expression", span, "end the statement before it with `;`"
    if token.type == "LSQB":
        return _source_of(text, span) or ("`[` has no meaning in code", span, "slice with `x @| i`")
    if token.type == "STRING" and "NUMBER" in accepts and not after_operand:
        fix = f"declare it on the left side of an assignment, `{token} =: …`, and use it without quotes"
        return "a string on the right side declares nothing", span, fix
    return _two_operands(text, token, span) if after_operand else None


def _two_operands(text: str, token: lark.Token, span: Span) -> tuple[str, Span, str] | None:
    """After an operand comes another, or a statement."""
    before = text[: span.start].rstrip()
    if source := _source_of(before, span):
        return source
    starts = token.type in ("NAME", "TICKED", "STRING", "LBRACE", "REMARK")
    if starts and "\n" in text[len(before) : span.start]:
        end = Span(len(before) - 1, len(before))
        return "statements are separated by `;`", end, "write `;` at the end of this line"
    if token.type in ("NAME", "TICKED", "NUMBER", "LPAR", "LIFT"):
        fix = "write one, for example `*.` for the pointwise product"
        return "there is no operator between two operands", span, fix
    return None


def _source_of(text: str, span: Span) -> tuple[str, Span, str] | None:
    """`data float32[5, 3]` is printed for values that are given."""
    found = _SOURCE.search(text, 0, span.start)
    if not found:
        return None
    what = f"`{found[1]} …` stands for values that the text does not hold"
    return what, Span(*found.span()), "give the tensor by name and leave out the statement that fills it"


def _foreign(found: re.Match[str]) -> tuple[str, Span, str]:
    sign = "=:" if found[0] in (":=", "<-") else "=" + found[0].removesuffix("=")
    return f"an assignment starts with `=`, not `{found[0]}`", Span(*found.span()), f"write `{sign}`"


def _unreadable(text: str, at: int) -> tuple[str, Span, str]:
    span = Span(at, at + 1)
    if text[at] in '"`':
        return "the quotation has no end", span, f"close it with {text[at]}"
    if foreign := _FOREIGN.match(text, at):
        return _foreign(foreign)
    shown = f"`{text[at]}`" if text[at].isprintable() else ascii(text[at])
    return _source_of(text, span) or (f"{shown} has no meaning in code", span, "remove it")


def _misplaced(text: str, error: lark.UnexpectedToken, span: Span) -> tuple[str, Span, str]:
    found = _SIGNS.match(text, span.start)
    shown = found[0] if found and error.token.type in ("OP", "SIGN") else str(error.token)
    shown = shown if shown.isprintable() else ascii(shown)
    return f"`{shown}` cannot stand here", span, _expected(error.accepts)


def _expected(accepts: set[str]) -> str:
    words = sorted({_WORDS[name] for name in accepts if name in _WORDS})
    return "write " + " or ".join(filter(None, (", ".join(words[:-1]), words[-1]))) + " here" if words else ""
