"""The Tensor Comprehensions language: text to nodes and back, checks, and the ranges of its indices."""

from weft.comprehension.check import CheckedProgram as CheckedProgram, check as check, read as read
from weft.comprehension.mistakes import ComprehensionError as ComprehensionError
from weft.comprehension.parse import parse as parse
from weft.comprehension.ranges import infer as infer
from weft.comprehension.show import show as show
