"""What weft's notations share: parsers, trees, places in a text, and mistakes said in words."""

from typing import TYPE_CHECKING

from weft.notation.diagnose import Known as Known
from weft.notation.diagnose import Notation as Notation
from weft.notation.diagnose import Stop as Stop
from weft.notation.parser import parser as parser
from weft.notation.source import Mistake as Mistake
from weft.notation.source import Source as Source
from weft.notation.source import one_line as one_line
from weft.notation.trees import by_rule as by_rule
from weft.notation.trees import span_of as span_of
from weft.notation.trees import subtrees as subtrees
from weft.notation.trees import tokens as tokens
from weft.notation.trees import word_of as word_of

if TYPE_CHECKING:
    from weft.notation.trees import Token as Token
    from weft.notation.trees import Tree as Tree
