"""Text as tokens: what every tokenizer does, and the one that takes characters as they are."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt

from weft.data.files import written_whole
from weft.data.validation import Array, checked_path, token_ids
from weft.errors import WeftError
from weft.lazy import lazy_property
from weft.public import public_constructor, public_methods


@runtime_checkable
class Tokenizer(Protocol):
    """Text to tokens and back; `wf.data.load_tokenizer` reads what `save` wrote."""

    @property
    def vocabulary(self) -> tuple[str, ...]:
        """Each token as text, by its number."""
        ...

    def __len__(self) -> int: ...
    def encode(self, text: str) -> Array: ...
    def decode(self, ids: npt.ArrayLike) -> str: ...
    def save(self, path: str | os.PathLike[str]) -> None: ...


@public_constructor
@public_methods
@dataclass(frozen=True)
class CharacterTokenizer:
    """A token for each character of a text, in the order of the alphabet.

    >>> letters = wf.data.CharacterTokenizer.of("banana.")
    >>> letters.vocabulary, letters.encode("ban.").tolist(), letters.decode([1, 3, 1])
    (('.', 'a', 'b', 'n'), [2, 1, 3, 0], 'ana')
    """

    vocabulary: tuple[str, ...]

    def __post_init__(self) -> None:
        given = self.vocabulary
        listed = isinstance(given, tuple | list) and all(isinstance(one, str) and len(one) == 1 for one in given)
        if not listed or len(set(given)) != len(given):
            what = "a vocabulary of characters has each of them once"
            raise WeftError(what, fix="wf.data.CharacterTokenizer.of(text) makes one of a text")
        object.__setattr__(self, "vocabulary", tuple(given))

    @classmethod
    def of(cls, *texts: str) -> CharacterTokenizer:
        """The tokenizer of the characters that are in some texts."""
        for text in texts:
            checked_text(text)
        if not any(texts):
            raise WeftError("there is no text", fix="wf.data.CharacterTokenizer.of(text)")
        return cls(tuple(sorted(set().union(*texts))))

    @lazy_property
    def _numbers(self) -> dict[str, int]:
        return {one: number for number, one in enumerate(self.vocabulary)}

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Array:
        """The tokens of a text."""
        numbers = self._numbers
        try:
            return np.array([numbers[one] for one in checked_text(text)], np.int32)
        except KeyError as missing:
            what = f"character {missing.args[0]!r} is not in the vocabulary of {len(self)} characters"
            raise WeftError(what, fix="make the tokenizer of all texts: CharacterTokenizer.of(text, other)") from None

    def decode(self, ids: npt.ArrayLike) -> str:
        """The text of tokens."""
        return "".join(named_tokens(self.vocabulary, ids))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a file that `wf.data.load_tokenizer` reads."""
        save_json(path, {"kind": "characters", "vocabulary": list(self.vocabulary)})


def checked_text(text: object) -> str:
    if not isinstance(text, str):
        raise WeftError(f"a tokenizer takes text, not {type(text).__name__}", fix="decode bytes first: raw.decode()")
    return text


def named_tokens(vocabulary: tuple[str, ...], ids: npt.ArrayLike) -> Iterable[str]:
    """Tokens as text; refused if there is none of such a number."""
    row = token_ids(ids)
    if row.size and (row.min() < 0 or row.max() >= len(vocabulary)):
        wrong = row[(row < 0) | (row >= len(vocabulary))][0]
        raise WeftError(f"there is no token {wrong}: the vocabulary has {len(vocabulary)}", fix="tokens count from 0")
    return [vocabulary[one] for one in row]


def save_json(path: str | os.PathLike[str], content: dict[str, Any]) -> None:
    name = checked_path(path, 'tokenizer.save("tokenizer.json")')
    written_whole(name, json.dumps(content, ensure_ascii=False, indent=1).encode())
