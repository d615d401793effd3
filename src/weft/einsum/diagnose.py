"""What the parser of specifications stumbled over, said in words."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import replace

from weft.errors import Span
from weft.notation import Known, Mistake, Notation, Stop, one_line

_SHAPE_FIX = "a shape is `batch|input->output`, the operands are separated by `;`, and `=>` comes before the result"
_ROW_WHAT = "brackets enclose a whole row"
_ROW_FIX = "write them around all axes of the row or leave them out; `a&b` is one axis of `a` and `b`"
_FLAT_FIX = "its parts are labels: `a&b`"
_PART_FIX = "concatenate labels (`a^b`) or sizes to skip (`3^a`)"

_KNOWN: tuple[Known, ...] = (
    Known(r"=>.*(?P<at>=>)", "a specification has one `=>`", "separate the operands with `;`, as in `a;b=>c`"),
    Known(r"=>.*(?P<at>;)", "a specification has one result", "write all operands before `=>`, as in `a;b=>c`"),
    Known(r"\|SHAPE(?P<at>\|)", "a shape has at most one `|`", _SHAPE_FIX),
    Known(r"->SHAPE(?P<at>\|)", "the batch row and its `|` come before `->`", _SHAPE_FIX),
    Known(r"->SHAPE(?P<at>->)", "a shape has at most one `->`", _SHAPE_FIX),
    Known(r"VARROW(?P<at>VAR)", "a row has at most one row variable", "remove this `{at}`"),
    Known(r"(?P<at>NOPART) \^", "`{at}` cannot be a part of a concatenation", _PART_FIX),
    Known(r"\^ (?P<at>NOPART)", "`{at}` cannot be a part of a concatenation", _PART_FIX),
    Known(r"(?P<at>NOPART|INT) &", "`{at}` cannot be a part of a flattened axis", _FLAT_FIX),
    Known(r"& (?P<at>NOPART|INT)", "`{at}` cannot be a part of a flattened axis", _FLAT_FIX),
    Known(r"(?P<at>[&^] NAME [&^])", "an axis is flattened or concatenated, not both", "do it in two einsums"),
    Known(r"[<=] \+ TERM (?P<at>[<=]? \+ TERM)", "an axis has at most one kernel", "remove `{at}`"),
    Known(
        r"(?P<at>(?P<a>TERM) \+ (?P<b>TERM))",
        "`{a}+{b}` does not say what happens at the edge",
        "say `{a}<+{b}` (stay inside) or `{a}=+{b}` (pad)",
    ),
    Known(r"(?P<at>(?P<a>NAME) \* (?P<n>INT))", "a coefficient comes before its label", "write `{n}*{a}`"),
    Known(r"NAME (?P<at>\*) (?P<b>NAME)", "a coefficient is a number", "write a number before `*`: `2*{b}`"),
    Known(r"(?P<at>\([^()]*\)?|\))", _ROW_WHAT, _ROW_FIX),
    Known(r"(?P<at>\([^()]*\)) [\w.]", _ROW_WHAT, _ROW_FIX),
    Known(r", (?P<at>,)", "there is nothing between two commas", "remove one, or write `_` for an unnamed axis"),
    Known(r"(?:^|[|;>]) (?P<at>,)", "a row cannot begin with a comma", "remove it, or write `_` before it"),
    Known(
        r"(?<!\w)(?P<at>[0-9_]+(?P<rest>NAME))",
        "a name begins with a letter",
        "rename it, for example `{rest}`",
    ),
    Known(
        r"(?P<at>(?P<a>\w+)\s+(?P<b>\w+))",
        "two axes need a comma between them",
        "write `{a}, {b}`, or take the space out of the name",
    ),
    Known(r"(?P<at>\.+)", "a row variable is `...` or `..name..`", "write `...`"),
    Known(
        r"(?P<at>=)(?!>| \+)", "`=` alone means nothing", "write `=>` before the result, `=+` before a padded kernel"
    ),
    Known(r"(?P<at><)(?! \+)", "`<` alone means nothing", "write `<+` before a kernel that stays inside"),
    Known(r"(?P<at>-)(?!>)", "`-` alone means nothing", "write `->` between the input and the output row"),
)

# What stands for what in a pattern, later ones perhaps in earlier ones. A space stands for any whitespace or none.
_PARTS: tuple[tuple[str, str], ...] = (
    ("NOPART", r"_|VAR|INT \* NAME(?: [<=]? \+ (?:TERM|INT))*|NAME(?: [<=]? \+ (?:TERM|INT))+"),
    ("VAR", r"(?:\.\.\.|\.\. [A-Za-z]\w* \.\.)"),
    ("SHAPE", r"(?:(?!;|=>).)*"),
    ("ROW", r"(?:(?![|;]|->|=>).)*"),
    ("TERM", r"(?:INT \* )?NAME"),
    ("INT", r"[0-9]+"),
    (" ", r"\s*"),
)
_NAMES: Mapping[str, str] = {"letters": "[A-Za-z]", "names": "[A-Za-z][A-Za-z0-9_]*"}
_WORDS: Mapping[str, str] = {
    **dict.fromkeys(("LETTER", "NAME"), "a label"),
    **dict.fromkeys(("DIGIT", "INT", "COEFFICIENT", "SIZE"), "a number"),
    "INSIDE": "`<+`",
    "PADDED": "`=+`",
}

# Axes set side by side in brackets, as einops writes one axis made of several.
GROUP = re.compile(r"\(\s*(?P<parts>[A-Za-z]\w*(?:\s+[A-Za-z]\w*)+)\s*\)", re.ASCII)
_NUMPY = re.compile(r"(?P<operands>[A-Za-z.,;\s]*)(?P<arrow>->)(?P<result>[A-Za-z.\s]*)")


def grouped(found: re.Match[str]) -> Mistake:
    parts = found["parts"].split()
    fix = (
        f"write `{'&'.join(parts)}`: it splits an operand's axis and joins in the result"
        f"; brackets around a whole row have commas in them: `({', '.join(parts)})`"
    )
    return Mistake("brackets do not make one axis of several", Span(*found.span()), fix)


def _from_numpy(stop: Stop) -> Mistake | None:
    found = _NUMPY.fullmatch(stop.text)
    if found is None:
        return None
    weft = found["operands"].replace(",", ";") + "=>" + found["result"]
    what = "the result comes after `=>`; `->` stands between the input and the output row of one shape"
    return Mistake(what, Span(*found.span("arrow")), f"write `{one_line(weft).strip()}`")


def _no_result(stop: Stop) -> Mistake | None:
    if stop.kind != "$END" or "ARROW" not in stop.accepts:
        return None
    fix = f"end with `=>` and the axes of the result, for example `{one_line(stop.text).strip()}=>...`"
    return Mistake("there is no `=>`, so nothing says what comes out", stop.span, fix)


def _spelled_out(known: Known, mode: str) -> Known:
    pattern = known.pattern
    for part, meaning in (*_PARTS, ("NAME", _NAMES[mode])):
        pattern = pattern.replace(part, meaning)
    return replace(known, pattern=pattern)


#: The notation of each mode: labels are letters, or names with commas between them.
NOTATION: Mapping[str, Notation] = {
    mode: Notation(
        room="weft.einsum",
        called="the specification",
        meaning="in a specification",
        words=_WORDS,
        known=(_from_numpy, _no_result, *(_spelled_out(one, mode) for one in _KNOWN)),
        readable="a label is made of the letters a-z and A-Z, a number of the digits 0-9",
        marked_at_end=0,
        sign=re.compile(r"=>|->|<\+|=\+|\.\.\.?|[0-9]+|.", re.DOTALL),
    )
    for mode in _NAMES
}
