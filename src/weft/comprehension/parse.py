"""Text to Program.

The grammar (grammar.lark) is the language and nothing more; `build` turns its trees into nodes. When the parser
stumbles, `recover` says over what, and takes the statement out so that the rest is read too: every mistake of a text is
reported at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TypeAlias

import lark

from weft.comprehension.build import MAX_DEPTH, TooDeep, build
from weft.comprehension.diagnose import diagnose, without
from weft.comprehension.mistakes import ComprehensionError, Mistake
from weft.comprehension.nodes import Program
from weft.errors import Span, WeftError, user_origin
from weft.grammar import parser

Tree: TypeAlias = lark.Tree[lark.Token]

#: After so many mistakes of syntax the rest of a text is not looked at.
_ENOUGH = 10
_EXAMPLE = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def parse(text: str) -> Program:
    """The definitions a text writes; ComprehensionError with all that is wrong with it."""
    if not issubclass(type(text), str):
        raise WeftError(
            f"comprehensions are text, not {type(text).__name__}", origin=user_origin(), fix=f'pass "{_EXAMPLE}"'
        )
    program, mistakes = parse_all(str.__str__(text))
    if mistakes:
        raise ComprehensionError(program.text, mistakes, user_origin())
    return program


@lru_cache(maxsize=1024)
def parse_all(text: str) -> tuple[Program, tuple[Mistake, ...]]:
    """What can be read of a text, and what is wrong with the rest."""
    tree, mistakes = _tree(text)
    if tree is None:
        return Program((), text), tuple(mistakes)
    try:
        definitions = build(tree, mistakes)
    except TooDeep as error:
        fix = "compute a part of it in a statement before: `t(i) = …`"
        mistakes.append(Mistake(f"the expression is nested deeper than {MAX_DEPTH} levels", error.span, fix))
        return Program((), text), tuple(mistakes)
    if not definitions and not mistakes:
        mistakes.append(Mistake("there is no definition in the text", Span(0, 0), f"write one: `{_EXAMPLE}`"))
    return Program(definitions, text), tuple(mistakes)


def _tree(text: str) -> tuple[Tree | None, list[Mistake]]:
    """The tree of what can be read of a text, and what the parser stumbled over."""
    mistakes: list[Mistake] = []
    left: str | None = text
    while left is not None and len(mistakes) < _ENOUGH:
        try:
            return parser("weft.comprehension").parse(left), mistakes
        except lark.UnexpectedInput as error:
            mistake = diagnose(text, left, error)
            mistakes.append(mistake)
            left = without(left, mistake.span.start)
    return None, mistakes
