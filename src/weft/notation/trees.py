"""What a parser gives: trees named by their rules, and tokens, which are text."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeAlias

from weft.errors import Span

if TYPE_CHECKING:
    import lark

    Token: TypeAlias = lark.Token
    Tree: TypeAlias = lark.Tree[lark.Token]


def word_of(tree: Tree) -> str:
    """The first token, or all of a leaf."""
    return str(tree.children[0])


def span_of(part: Tree | Token) -> Span:
    at = part if isinstance(part, str) else part.meta
    return Span(at.start_pos or 0, at.end_pos or 0)


def subtrees(tree: Tree) -> list[Tree]:
    return [child for child in tree.children if not isinstance(child, str)]


def tokens(tree: Tree) -> list[Token]:
    return [child for child in tree.children if isinstance(child, str)]


def by_rule(tree: Tree) -> dict[str, Tree]:
    """The parts of a tree that has one of each kind at most."""
    return {child.data: child for child in subtrees(tree)}
