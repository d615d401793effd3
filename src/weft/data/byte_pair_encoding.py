"""Byte-pair encoding: the most frequent pair of neighbours becomes a token, again and again.

Files are those of the package `tokenizers`, and where that is installed it joins the pairs of a word. The tokens are
the same without it.
"""

from __future__ import annotations

import json
import os
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.data.characters import CharacterTokenizer, Tokenizer, checked_text, named_tokens, save_json
from weft.data.pretokenize import as_letters, byte_letters, from_letters, words
from weft.data.validation import Array, checked_path, checked_whole
from weft.errors import WeftError
from weft.lazy import lazy_property
from weft.public import public_constructor, public_methods

TokenPair: TypeAlias = tuple[str, str]

#: So many words are remembered with their tokens.
_REMEMBERED = 1 << 17


@public_constructor
@public_methods
@dataclass(frozen=True)
class BytePairTokenizer:
    """Tokens of bytes and of pairs of tokens, in the order in which they are joined; `wf.data.byte_pairs` finds them.

    Any text has tokens, and they are the text again.

    >>> pairs = wf.data.byte_pairs("low lower lowest", vocab_size=259)
    >>> pairs.merges, len(pairs.encode("lower")), pairs.decode(pairs.encode("lower"))
    ((('l', 'o'), ('lo', 'w'), ('low', 'e')), 2, 'lower')
    """

    vocabulary: tuple[str, ...]
    merges: tuple[TokenPair, ...]

    def __post_init__(self) -> None:
        known = set(self.vocabulary)
        for left, right in self.merges:
            if not {left, right, left + right} <= known:
                what = f"the pair {left!r}, {right!r} is joined to a token that the vocabulary does not have"
                raise WeftError(what, fix="wf.data.byte_pairs(text, vocab_size=…) finds pairs and vocabulary")
        if missing := [one for one in byte_letters() if one not in known]:
            what = f"the vocabulary has no token for {len(missing)} of the 256 bytes"
            raise WeftError(what, fix="wf.data.byte_pairs(text, vocab_size=…) finds pairs and vocabulary")

    @lazy_property
    def _numbers(self) -> dict[str, int]:
        return {one: number for number, one in enumerate(self.vocabulary)}

    @lazy_property
    def _joined(self) -> Callable[[str], list[int]]:
        """The tokens of a word that is written as characters."""
        return _by_package(self._numbers, self.merges) or _by_hand(self._numbers, self.merges)

    @lazy_property
    def _remembered(self) -> dict[str, list[int]]:
        return {}

    def __len__(self) -> int:
        return len(self.vocabulary)

    def encode(self, text: str) -> Array:
        """The tokens of a text."""
        known, found = self._remembered, []
        for word in words(checked_text(text)):
            ids = known.get(word)
            if ids is None:
                ids = self._joined(as_letters(word))
                if len(known) < _REMEMBERED:
                    known[word] = ids
            found += ids
        return np.array(found, np.int32)

    def decode(self, ids: npt.ArrayLike) -> str:
        """The text of tokens; bytes that are no text by themselves become �."""
        return from_letters("".join(named_tokens(self.vocabulary, ids)))

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it as a file that `wf.data.load_tokenizer` and the package `tokenizers` read."""
        model = {"type": "BPE", "vocab": self._numbers, "merges": [list(pair) for pair in self.merges]}
        level = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": True}
        save_json(
            path, {"version": "1.0", "added_tokens": [], "pre_tokenizer": level, "decoder": level, "model": model}
        )


def byte_pairs(text: str, vocab_size: int = 512) -> BytePairTokenizer:
    """A tokenizer of at most so many tokens, found in a text: the 256 bytes, and pairs, the most frequent first.

    Of pairs that are as frequent, the first in the alphabet is joined. It is plain Python, and takes seconds for a
    megabyte.

    >>> wf.data.byte_pairs("banana", vocab_size=257).merges
    (('a', 'n'),)
    """
    if checked_whole("vocab_size", vocab_size, 1) < 256:
        raise WeftError(f"{vocab_size} tokens are fewer than the 256 bytes", fix="write vocab_size=512, or more")
    counts = Counter(map(as_letters, words(checked_text(text))))
    merges = _found([list(word) for word in counts], list(counts.values()), vocab_size - 256)
    joined = (left + right for left, right in merges)
    return BytePairTokenizer((*byte_letters(), *dict.fromkeys(joined)), tuple(merges))


def load_tokenizer(path: str | os.PathLike[str]) -> Tokenizer:
    """A tokenizer that was saved, or one of byte pairs as published models have it.

    tokenizer = wf.data.load_tokenizer("tokenizer.json")
    """
    name = checked_path(path, 'wf.data.load_tokenizer("tokenizer.json")')
    try:
        with open(name, encoding="utf-8") as file:
            content = json.load(file)
    except (OSError, ValueError) as error:
        what = f"{name!r} cannot be read as a tokenizer: {error}"
        raise WeftError(what, fix="give a file that tokenizer.save wrote, or a published tokenizer.json") from None
    match content:
        case {"kind": "characters", "vocabulary": [*vocabulary]}:
            return CharacterTokenizer(tuple(vocabulary))
        case {"model": {"vocab": dict(vocabulary), "merges": [*merges]}}:
            return _read(vocabulary, merges, content.get("added_tokens") or ())
    raise WeftError(f"{name!r} holds no tokenizer of characters or byte pairs", fix="its model must be of type BPE")


def _read(vocabulary: Mapping[str, int], merges: list[Any], added: Any) -> BytePairTokenizer:
    numbers = {**vocabulary, **{one["content"]: one["id"] for one in added}}
    by_number = {number: one for one, number in numbers.items()}
    if sorted(by_number) != list(range(len(by_number))):
        raise WeftError("the tokens of the file are not numbered from 0 on", fix="its model must be of type BPE")
    pairs = (one.split(" ", 1) if isinstance(one, str) else one for one in merges)
    ordered = tuple(by_number[number] for number in range(len(by_number)))
    return BytePairTokenizer(ordered, tuple((left, right) for left, right in pairs))


def _found(written: list[list[str]], counts: list[int], most: int) -> list[TokenPair]:
    """The pairs to join, the most frequent first; words change as their pairs are joined."""
    merges: list[TokenPair] = []
    pairs, places = Counter[TokenPair](), dict[TokenPair, set[int]]()
    for at, word in enumerate(written):
        _count(word, counts[at], at, pairs, places)
    for _ in range(most):
        best = min(pairs, key=lambda pair: (-pairs[pair], pair), default=None)
        if best is None or pairs[best] < 1:
            break
        merges.append(best)
        for at in sorted(places[best]):
            _count(written[at], -counts[at], at, pairs, places)
            written[at] = _join(written[at], best)
            _count(written[at], counts[at], at, pairs, places)
        del pairs[best]
    return merges


def _count(word: list[str], count: int, at: int, pairs: Counter[TokenPair], places: dict[TokenPair, set[int]]) -> None:
    for pair in pairwise(word):
        pairs[pair] += count
        places.setdefault(pair, set()).add(at)


def _join(word: list[str], pair: TokenPair) -> list[str]:
    found, at = [], 0
    while at < len(word):
        step = 2 if tuple(word[at : at + 2]) == pair else 1
        found.append("".join(word[at : at + step]))
        at += step
    return found


def _by_hand(numbers: Mapping[str, int], merges: tuple[TokenPair, ...]) -> Callable[[str], list[int]]:
    ranks = {pair: rank for rank, pair in enumerate(merges)}

    def joined(word: str) -> list[int]:
        parts = list(word)
        while len(parts) > 1:
            best = min(pairwise(parts), key=lambda pair: ranks.get(pair, len(ranks)))
            if best not in ranks:
                break
            parts = _join(parts, best)
        return [numbers[one] for one in parts]

    return joined


def _by_package(numbers: dict[str, int], merges: tuple[TokenPair, ...]) -> Callable[[str], list[int]] | None:
    try:
        from tokenizers.models import BPE
    except ImportError:
        return None
    model = BPE(numbers, list(merges))
    return lambda word: [token.id for token in model.tokenize(word)]
