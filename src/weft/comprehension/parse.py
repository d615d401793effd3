"""Text to Program.

The grammar (grammar.lark) is the language and nothing more; `build` turns its trees into nodes. When the parser
stumbles, `diagnose` says over what, and the statement is taken out so that the rest is read too: all mistakes of a text
are reported at once.
"""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING

from weft.comprehension.build import build
from weft.comprehension.diagnose import NOTATION, without
from weft.comprehension.mistakes import ComprehensionError
from weft.comprehension.nodes import Program
from weft.errors import Span, WeftError
from weft.notation import Mistake

if TYPE_CHECKING:
    from weft.notation import Tree

#: After so many mistakes of syntax the rest of a text is not looked at.
_ENOUGH = 10
_EXAMPLE = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


def parse(text: str) -> Program:
    """The definitions a text writes; ComprehensionError with all that is wrong with it."""
    if not issubclass(type(text), str):
        raise WeftError(f"comprehensions are text, not {type(text).__name__}", fix=f'pass "{_EXAMPLE}"')
    program, mistakes = parse_all(str.__str__(text))
    if mistakes:
        raise ComprehensionError(program.text, mistakes)
    return program


@lru_cache(maxsize=1024)
def parse_all(text: str) -> tuple[Program, tuple[Mistake, ...]]:
    """What can be read of a text, and what is wrong with the rest."""
    tree, mistakes = _tree(text)
    if tree is None:
        return Program((), text), tuple(mistakes)
    try:
        definitions = build(tree, mistakes)
    except Mistake as too_deep:
        mistakes.append(too_deep)
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
            return NOTATION.tree(left), mistakes
        except Mistake as mistake:
            mistakes.append(mistake)
            left = without(left, mistake.span.start)
    return None, mistakes
