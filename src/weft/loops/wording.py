"""Values in words: one template says how a value is printed, and how it is read back.

on threads by {chunk}          a number
{parts: by }                   numbers, with that between them
{panel:copied|transposed}      one of these words; of what holds or not, the first where it does not
{rows} row(s)                  in the plural, unless the number before it is one
on vectors[ of {lanes}]        a part that is left out where its first field is as it is by default
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, fields
from functools import cache
from typing import Any, ClassVar, NamedTuple, TypeVar

_PIECE = re.compile(r"\{(\w+)(?::([^}]*))?\}|(\[)|(\])|([^][{}]+)")
_PLURAL = re.compile(r"(\d+)(\D*?)\(s\)", re.ASCII)


@dataclass(frozen=True, slots=True)
class Worded:
    """A frozen dataclass of numbers, words, and what holds or not, which prints as its `words` say."""

    words: ClassVar[str]

    def __str__(self) -> str:
        spelled = _spelled(_pieces(_key(type(self))), self)
        return _PLURAL.sub(lambda found: f"{found[1]}{found[2]}{'s' * (found[1] != '1')}", spelled)


W = TypeVar("W", bound=Worded)


def read(kind: type[W], text: str) -> W | None:
    """The value of a kind that a text says; None if it does not say any."""
    found = _pattern(_key(kind)).fullmatch(text)
    if found is None:
        return None
    slots = {one.name: one for one in _slots(_pieces(_key(kind)))}
    return kind(**{name: slots[name].value(said) for name, said in found.groupdict().items() if said is not None})


class _Slot(NamedTuple):
    """A field: its name, what stands behind its colon, its type, and what it is by default."""

    name: str
    form: str
    kind: str
    default: object

    def text(self, value: Any) -> str:
        if self.kind == "bool":
            return self.form.split("|")[int(value)]
        return self.form.join(map(str, value)) if isinstance(value, tuple) else str(value)

    def value(self, text: str) -> object:
        if self.kind == "bool":
            return re.fullmatch(_escaped(self.form.split("|")[1]), text) is not None
        if self.kind.startswith("tuple"):
            return tuple(map(int, text.split(self.form)))
        return int(text) if self.kind == "int" else text

    @property
    def pattern(self) -> str:
        if self.kind in ("bool", "str"):
            return "|".join(map(_escaped, self.form.split("|")))
        if self.kind == "int":
            return r"\d+"
        more = "*" if "..." in self.kind else f"{{{self.kind.count('int') - 1}}}"
        return rf"\d+(?:{re.escape(self.form)}\d+){more}"


class _Option(NamedTuple):
    """A part that may be left out."""

    pieces: Sequence[str | _Slot | _Option]


_Pieces = Sequence[str | _Slot | _Option]


def _key(kind: type[Worded]) -> Any:
    """A class as what is kept for it is found by: mypy does not know that classes can be hashed."""
    return kind


@cache
def _pieces(kind: type[Worded]) -> _Pieces:
    """The template of a kind, taken apart."""
    known = {one.name: one for one in fields(kind)}
    stack: list[list[str | _Slot | _Option]] = [[]]
    for name, form, begin, end, text in _PIECE.findall(kind.words):
        if begin:
            stack.append([])
        elif end:
            option = _Option(stack.pop())
            stack[-1].append(option)
        else:
            stack[-1].append(_Slot(name, form, str(known[name].type), known[name].default) if name else text)
    return stack[0]


def _slots(pieces: _Pieces) -> list[_Slot]:
    inner = [_slots(one.pieces) if isinstance(one, _Option) else [one] for one in pieces]
    return [one for some in inner for one in some if isinstance(one, _Slot)]


def _spelled(pieces: _Pieces, value: Worded) -> str:
    texts = []
    for one in pieces:
        match one:
            case _Slot(name=name):
                texts.append(one.text(getattr(value, name)))
            case _Option(pieces=inner):
                first = _slots(inner)[0]
                texts.append("" if getattr(value, first.name) == first.default else _spelled(inner, value))
            case text:
                texts.append(text)
    return "".join(texts)


@cache
def _pattern(kind: type[Worded]) -> re.Pattern[str]:
    def pattern(pieces: _Pieces) -> str:
        return "".join(
            f"(?P<{one.name}>{one.pattern})"
            if isinstance(one, _Slot)
            else f"(?:{pattern(one.pieces)})?"
            if isinstance(one, _Option)
            else _escaped(one)
            for one in pieces
        )

    return re.compile(pattern(_pieces(_key(kind))), re.ASCII)


def _escaped(text: str) -> str:
    return re.escape(text).replace(re.escape("(s)"), "s?")
