"""Phrases that errors are made of."""

from __future__ import annotations

import difflib
from collections.abc import Iterable, Sequence


def meant(name: str, known: Iterable[str], otherwise: str = "") -> str:
    """`did you mean …?` with the closest of the known names, else something to say instead."""
    names = list(dict.fromkeys(known))
    close = difflib.get_close_matches(name, names, 1, 0.6)
    same = [one for one in names if one.lower() == name.lower() and one != name]
    best = same or close
    return f"did you mean `{best[0]}`?" if best else otherwise


def listed(names: Iterable[str]) -> str:
    """`a`, `b` and `c`."""
    return joined_words([f"`{name}`" for name in names], " and ") or "none"


def joined_words(words: Sequence[str], last: str) -> str:
    """Words with commas between them, and something else before the last."""
    return last.join(filter(None, (", ".join(words[:-1]), *words[-1:])))


def counted(number: int, noun: str, plural: str = "") -> str:
    """`1 subscript`, `2 subscripts`."""
    return f"{number} {noun if number == 1 else plural or noun + 's'}"
