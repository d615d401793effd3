"""What the parser of loop programs stumbled over, said in words."""

from __future__ import annotations

from weft.notation import Known, Notation

_KNOWN = (
    Known(r"==", "`==` is no operator here", "write `eq(a, b)`"),
    Known(r"!=", "`!=` is no operator here", "write `ne(a, b)`"),
    Known(r">=?", "`{all}` is no operator here", "turn it round: `b < a`, `b <= a`"),
    Known(r"\*\*", "`**` is no operator here", "write `pow(a, b)`"),
    Known(r"//", "`//` is no operator here", "write `floordiv(a, b)`"),
    Known(r"%", "`%` is no operator here", "write `mod(a, b)`"),
    Known(r";", "a line holds one statement", "write the next one on a line of its own"),
    Known(
        "",
        "a block begins after `:`",
        "write `:` at the end of the line",
        lambda stop: stop.kind == "$END" and stop.accepts <= {"COLON", "HOW"},
    ),
    Known(
        "",
        "a line holds one statement, and a block begins on the next",
        "write `{all}` on a line of its own",
        lambda stop: stop.accepts == {"$END"},
    ),
    Known(
        r"^ *(?P<at>else|elif|while|def|return|import)\b.*",
        "there is no `{at}` here",
        "there are `for i in range(n):`, `if 0 <= i < n:` and assignments",
    ),
)
NOTATION = Notation(
    room="weft.loops",
    called="the line",
    meaning="in a loop program",
    words={
        **dict.fromkeys(("NAME", "TICKED"), "a name"),
        "NUMBER": "a number",
        "LESS": "a comparison",
        "ACCUMULATE": "`+=`",
        **dict.fromkeys(("PLUS", "STAR", "SLASH"), "an operator"),
        **dict.fromkeys(("MINUS", "CALL", "RANGE", "HOW", "TILE"), ""),
        **{f"_{word.upper()}": f"`{word}`" for word in ("for", "if", "in", "and", "of")},
    },
    known=_KNOWN,
)
