"""Pre-tokenization: how text is cut into words before byte pairs are merged in each, as in GPT-2.

A word is a contraction such as 's, or letters, digits or other signs, each with a space before them if there is one, or
spaces. Bytes are written as characters that print, each one of its own.
"""

from __future__ import annotations

import re
import unicodedata
from functools import lru_cache

_CONTRACTION = "'s|'t|'re|'ve|'m|'ll|'d"
#: Python takes four separators of ASCII for spaces, which Unicode does not.
_SPACE, _NO_SPACE = r"[^\S\x1c-\x1f]", r"[\S\x1c-\x1f]"
#: No character above is a number that Python's `\d` leaves out.
_LAST_NUMBER = 0x20000


def words(text: str) -> list[str]:
    """A text in words; joined they are the text."""
    return (_ascii() if text.isascii() else _unicode()).findall(text)


@lru_cache(maxsize=1)
def _ascii() -> re.Pattern[str]:
    return _pattern("[A-Za-z]", "[0-9]")


@lru_cache(maxsize=1)
def _unicode() -> re.Pattern[str]:
    """Letters and numbers of all scripts. Python's letters are what is neither a digit nor a number of another kind."""
    others = "".join(chr(at) for at in range(128, _LAST_NUMBER) if unicodedata.category(chr(at)) in ("Nl", "No"))
    return _pattern(rf"[^\W\d_{others}]", rf"[\d{others}]")


def _pattern(letter: str, number: str) -> re.Pattern[str]:
    other = rf"(?:(?!{letter}|{number}){_NO_SPACE})"
    parts = (_CONTRACTION, f" ?{letter}+", f" ?{number}+", f" ?{other}+", f"{_SPACE}+(?!{_NO_SPACE})", f"{_SPACE}+")
    return re.compile("|".join(parts))


@lru_cache(maxsize=1)
def byte_letters() -> tuple[str, ...]:
    """The character that a byte is written as: itself if it prints, else one from 256 on."""
    prints = [*range(ord("!"), ord("~") + 1), *range(ord("¡"), ord("¬") + 1), *range(ord("®"), ord("ÿ") + 1)]
    others = iter(range(256, 512))
    return tuple(chr(one if one in prints else next(others)) for one in range(256))


@lru_cache(maxsize=1)
def letter_bytes() -> dict[str, int]:
    return {letter: byte for byte, letter in enumerate(byte_letters())}


def as_letters(word: str) -> str:
    """The bytes of a word, each written as a character."""
    letters = byte_letters()
    return "".join([letters[byte] for byte in word.encode("utf-8", "surrogatepass")])


def from_letters(letters: str) -> str:
    """The text of bytes that are written as characters; what is no text becomes �."""
    back = letter_bytes()
    return bytes([back[one] for one in letters]).decode("utf-8", "replace")
