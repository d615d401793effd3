"""What weft's notations share: parsers, trees, places in a text, and mistakes said in words."""

from typing import TYPE_CHECKING

from weft.notation.diagnose import Known, Notation, Stop
from weft.notation.parser import parser
from weft.notation.source import Mistake, Source, one_line
from weft.notation.trees import by_rule, span_of, subtrees, tokens, word_of

if TYPE_CHECKING:
    from weft.notation.trees import Token, Tree

__all__ = [
    "Known",
    "Mistake",
    "Notation",
    "Source",
    "Stop",
    "Token",
    "Tree",
    "by_rule",
    "one_line",
    "parser",
    "span_of",
    "subtrees",
    "tokens",
    "word_of",
]
