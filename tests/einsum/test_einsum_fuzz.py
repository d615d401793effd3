"""Any text is a Spec or an EinsumError, and every span stays inside the text."""

from __future__ import annotations

from hypothesis import example, given, settings, strategies as st

from weft.einsum import Spec, parse_spec, show_spec
from weft.errors import EinsumError

PIECES = [
    "i",
    "j",
    "k",
    "ho",
    "_",
    "0",
    "1",
    "23",
    "2*",
    "...",
    "..v..",
    "..",
    ".",
    ",",
    "|",
    "->",
    ";",
    "=>",
    " ",
    "(",
    ")",
]
SIGNS = ["@", "@i", "+", "*", "^", "&", "<+", "=+", "<", "=", "-", ">", "\n", "é", "\0"]


def check(text: str) -> None:
    answer = read(text)
    if isinstance(answer, Spec):
        assert answer.text == text
        assert parse_spec(show_spec(answer)) == answer
    else:
        assert len(answer.text) == len(text)
        assert all(0 <= span.start <= span.end <= len(text) for span in answer.spans)
        assert f": {answer.what}\n" in str(answer)
        assert str(answer).endswith("\n  fix: " + answer.fix)


def read(text: str) -> Spec | EinsumError:
    try:
        return parse_spec(text)
    except EinsumError as error:
        return error


@settings(max_examples=600)
@given(st.lists(st.sampled_from(PIECES + SIGNS), max_size=14).map("".join))
def test_pieces_of_the_notation(text: str) -> None:
    check(text)


@settings(max_examples=300)
@given(st.text("ij_09.,|->;=+*^< ()", max_size=16).map(lambda text: text + "=>i"))
def test_characters_of_the_notation(text: str) -> None:
    check(text)


@settings(max_examples=300)
@given(st.text() | st.text(st.characters()), st.sampled_from(["", "=>", ",", ",=>"]))
@example("\ud800", "=>")
@example("\u0661*i", "=>")
@example("i\u00a0j", "=>")
def test_any_text(text: str, more: str) -> None:
    check(text + more)


@given(st.sampled_from(PIECES + SIGNS), st.integers(1, 3000), st.sampled_from(["", "=>", ",=>", "i=>"]))
@settings(max_examples=100, deadline=None)
def test_one_piece_many_times(piece: str, times: int, more: str) -> None:
    check(piece * times + more)
