"""Tokenizers: the text comes back, files are read by others, and what trains is the plain algorithm."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from itertools import pairwise
from pathlib import Path

import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from standins.data_sets import BPE, module
from weft.data.pretokenize import words

TEXT = "the theatre there, then the other: it's they'll 2024  \n\tthe end. Über naïve 東京 ½ 👍"


@pytest.fixture(autouse=True)
def no_package(monkeypatch: pytest.MonkeyPatch) -> None:
    """The package is not there, whether or not it is installed."""
    monkeypatch.setitem(__import__("sys").modules, "tokenizers.models", None)


def test_characters_come_back() -> None:
    made = wf.data.CharacterTokenizer.of("hello", "world")
    assert made.vocabulary == tuple("dehlorw")
    assert made.decode(made.encode("lord")) == "lord"
    assert len(made) == 7
    assert isinstance(made, wf.data.Tokenizer)


def test_a_tokenizer_is_saved_and_loaded(tmp_path: Path) -> None:
    for made in (wf.data.CharacterTokenizer.of(TEXT), wf.data.byte_pairs(TEXT, vocab_size=270)):
        made.save(tmp_path / "t.json")
        assert wf.data.load_tokenizer(tmp_path / "t.json") == made


def test_words_are_those_of_gpt_2() -> None:
    assert words("it's 42nd  _x_ \n\nna\u00efve½") == [
        "it",
        "'s",
        " 42",
        "nd",
        " ",
        " _",
        "x",
        "_",
        " \n",
        "\n",
        "naïve",
        "½",
    ]
    assert "".join(words(TEXT)) == TEXT


@settings(max_examples=tries(50))
@given(st.text(st.sampled_from("aZ09 '_,.\n\t-s")))
def test_a_text_of_ascii_is_split_as_any_other(text: str) -> None:
    """A sign of another script behind it, after a space, changes nothing before."""
    assert words(text + " ½")[:-1] == words(text + " 7")[:-1]


def brute_pairs(text: str, count: int) -> list[tuple[bytes, bytes]]:
    """The pairs of bytes to join, counted anew each time over the words of an ASCII text."""
    cut = [[bytes([one]) for one in word.encode()] for word in re.findall(r" ?[a-z]+|\s+(?!\S)|\s+|[^\sa-z]+", text)]
    found = []
    for _ in range(count):
        pairs = Counter(pair for word in cut for pair in pairwise(word))
        if not pairs:
            break
        most = max(pairs.values())
        ties = (pair for pair in pairs if pairs[pair] == most)
        best = min(ties, key=lambda pair: [one.replace(b" ", b"~") for one in pair])  # a space comes after all letters
        found.append(best)
        for word in cut:
            at = 0
            while at + 1 < len(word):
                if (word[at], word[at + 1]) == best:
                    word[at : at + 2] = [best[0] + best[1]]
                at += 1
    return found


@given(st.text("abc ", max_size=60))
@settings(max_examples=40)
def test_pairs_are_joined_most_frequent_first(text: str) -> None:
    made = wf.data.byte_pairs(text, vocab_size=264)
    merges = [tuple(one.replace("Ġ", " ").encode() for one in pair) for pair in made.merges]
    assert merges == brute_pairs(text, 8)


@given(st.text(max_size=30))
@settings(max_examples=50)
def test_any_text_comes_back(text: str) -> None:
    try:
        text.encode()
    except UnicodeEncodeError:
        return  # half a character
    made = wf.data.byte_pairs(TEXT, vocab_size=300)
    assert made.decode(made.encode(text)) == text


def test_the_package_joins_the_same_pairs(monkeypatch: pytest.MonkeyPatch) -> None:
    plain, other = (wf.data.byte_pairs(TEXT, vocab_size=300) for _ in range(2))
    monkeypatch.setitem(__import__("sys").modules, "tokenizers.models", module("tokenizers.models", BPE=BPE))
    assert "lambda" in other._joined.__qualname__, "the package is used"
    assert other.encode(TEXT).tolist() == plain.encode(TEXT).tolist()


def test_a_published_file_is_read(tmp_path: Path) -> None:
    made = wf.data.byte_pairs("low lower", vocab_size=258)
    numbers = {one: number for number, one in enumerate(made.vocabulary)}
    model = {"vocab": numbers, "merges": [" ".join(pair) for pair in made.merges]}
    added = [{"content": "<|endoftext|>", "id": 258}]
    (tmp_path / "tokenizer.json").write_text(json.dumps({"added_tokens": added, "model": model}))
    found = wf.data.load_tokenizer(tmp_path / "tokenizer.json")
    assert found.vocabulary == (*made.vocabulary, "<|endoftext|>")
    assert found.encode("lower").tolist() == made.encode("lower").tolist()


letters = wf.data.CharacterTokenizer.of("ab")
MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "a character": (lambda: letters.encode("abc"), "character 'c' is not in the vocabulary of 2 characters"),
    "a token": (lambda: letters.decode([0, 2]), "there is no token 2: the vocabulary has 2"),
    "bytes": (lambda: wf.data.CharacterTokenizer.of(b"a"), "a tokenizer takes text, not bytes"),  # type: ignore[arg-type]
    "no text": (lambda: wf.data.CharacterTokenizer.of(""), "there is no text"),
    "twice": (lambda: wf.data.CharacterTokenizer(("a", "a")), "a vocabulary of characters has each of them once"),
    "few": (lambda: wf.data.byte_pairs("a", vocab_size=10), "10 tokens are fewer than the 256 bytes"),
    "no bytes": (lambda: wf.data.BytePairTokenizer((), ()), "the vocabulary has no token for 256 of the 256 bytes"),
    "a pair": (
        lambda: wf.data.BytePairTokenizer(("a",), (("a", "b"),)),
        "the pair 'a', 'b' is joined to a token that the vocabulary does not have",
    ),
    "no file": (lambda: wf.data.load_tokenizer("nowhere.json"), "'nowhere.json' cannot be read as a tokenizer"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told(case: str) -> None:
    wrong, what = MISTAKES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.fix


def test_a_file_of_something_else_is_told(tmp_path: Path) -> None:
    (tmp_path / "t.json").write_text('{"model": {"type": "WordPiece"}}')
    with pytest.raises(wf.WeftError, match="holds no tokenizer of characters or byte pairs"):
        wf.data.load_tokenizer(tmp_path / "t.json")
