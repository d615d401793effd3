"""Whatever the text, the answer is a program or a WeftError, and errors can be printed."""

from __future__ import annotations

import re

import numpy as np
from hypothesis import example, given, strategies as st

from comprehension.corpus import CORPUS
from weft.comprehension import check, infer, parse, show
from weft.errors import WeftError

SIGNS = "( ) -> { } , : ? = += +=! min=! max= * + - / % < <= == != && || ! . # ; // ** [ ] @ ' \" é"
WORDS = "def where in exists true float int32 half exp fmax acos f A B C N M i j k A(i) B(i,j) C(i) f(A)"
NUMBERS = "0 1 2 3.5 1e9 .0 .1 0x1F"
TOKENS = [*SIGNS.split(), *WORDS.split(), *NUMBERS.split(), "\n", "\t", "\0"]
MUTATION = re.compile(r"\s+|\w+|[-+*/%<>=!&|?:]+|.", re.DOTALL)


def printed(error: WeftError) -> None:
    assert str(error)


def attempt(text: str, size: int = 3) -> None:
    """Reads a text as far as it goes: nodes, checks, ranges."""
    try:
        program = parse(text)
        assert parse(show(program)) == program
        checked = check(program)
        for name, one in checked.definitions.items():
            infer(checked, name, {param.name.name: (size,) * len(param.type.dims) for param in one.definition.params})
    except WeftError as error:
        printed(error)


@given(st.text(max_size=200))
def test_any_text(text: str) -> None:
    attempt(text)


@given(st.lists(st.sampled_from(TOKENS), max_size=40))
@example(["def", "f", "(", ")", "->", "{", "}"])
def test_any_tokens(tokens: list[str]) -> None:
    attempt(" ".join(tokens))
    attempt("def f(float(N,M) A, int32(N) B) -> (C) { C(i) = " + " ".join(tokens) + " }")


@given(st.lists(st.sampled_from(TOKENS), max_size=15), st.integers(0, 4))
def test_any_statements(tokens: list[str], size: int) -> None:
    attempt("def f(float(N,M) A, int32(N) B, float N2) -> (C) { C(i) +=! A(i,j) " + " ".join(tokens) + "\n}", size)


@given(st.data())
def test_programs_with_something_changed(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(CORPUS))
    tokens = MUTATION.findall(entry.text)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(tokens) - 1))
        other = data.draw(st.sampled_from([*TOKENS, *tokens]))
        match data.draw(st.sampled_from(["drop", "insert", "replace", "double"])):
            case "drop":
                tokens[at] = ""
            case "insert":
                tokens.insert(at, other)
            case "replace":
                tokens[at] = other
            case "double":
                tokens.insert(at, tokens[at])
    attempt("".join(tokens), data.draw(st.integers(0, 5)))


@given(st.data())
def test_programs_on_other_shapes(data: st.DataObject) -> None:
    entry = data.draw(st.sampled_from(CORPUS))
    checked = check(parse(entry.text))
    inputs = entry.make(np.random.default_rng(0), 0)
    shapes = {name: tuple(data.draw(st.integers(0, 6)) for _ in one.shape) for name, one in inputs.items()}
    try:
        infer(checked, entry.definition, shapes)
    except WeftError as error:
        printed(error)
