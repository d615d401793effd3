"""What weft's notations share: parsers, trees, places in a text, and mistakes said in words."""

from typing import TYPE_CHECKING

from weft.notation.diagnose import Known as Known, Notation as Notation, Stop as Stop
from weft.notation.parser import parser as parser
from weft.notation.source import Mistake as Mistake, Source as Source, one_line as one_line
from weft.notation.trees import (
    by_rule as by_rule,
    span_of as span_of,
    subtrees as subtrees,
    tokens as tokens,
    word_of as word_of,
)

if TYPE_CHECKING:
    from weft.notation.trees import Token as Token, Tree as Tree
