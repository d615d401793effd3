"""A definition's text whatever its names are: what two people write for the same comprehension is the same.

`def sum(float(N) A) -> (C) { C +=! A(i) }` becomes `def v0(float(v1) v2) -> (v3) { v3 +=! v2(v4) }`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from weft.comprehension.builtins import BUILTINS, SCALAR_TYPES
from weft.comprehension.nodes import UNWANTED, Definition, Invoke, Program
from weft.comprehension.show import show

_WORDS = re.compile(r"(?P<number>(\d+\.?\d*|\.\d+)(e[-+]?\d+)?(?!\w))|(?P<name>\d*[A-Za-z_]\w*)")
_KEPT = {"def", "where", "in", "exists", "true", "false", UNWANTED, *BUILTINS, *SCALAR_TYPES}


@dataclass(frozen=True, slots=True)
class Canonical:
    """A text with names of its own, and what each name of the original is called in it."""

    text: str
    names: dict[str, str]


def canonical(program: Program, name: str) -> Canonical:
    """A definition and those it calls."""
    names: dict[str, str] = {}

    def rename(found: re.Match[str]) -> str:
        word = found["name"]
        if word is None or word in _KEPT:
            return found[0]
        return names.setdefault(word, f"v{len(names)}")

    text = show(Program(tuple(_called(program, name))))
    return Canonical(_WORDS.sub(rename, text), names)


def _called(program: Program, name: str) -> list[Definition]:
    """A definition, and after it those it calls, each once."""
    known = {one.name.name: one for one in program.definitions}
    found, waiting = dict[str, Definition](), [name]
    while waiting:
        one = known[waiting.pop(0)]
        if one.name.name not in found:
            found[one.name.name] = one
            waiting += [call.function.name for call in one.body if isinstance(call, Invoke)]
    return list(found.values())
