"""The Tensor Comprehensions language: text to nodes and back, checks, and the ranges of its indices."""

from weft.comprehension.check import CheckedProgram, check, read
from weft.comprehension.mistakes import ComprehensionError
from weft.comprehension.parse import parse
from weft.comprehension.ranges import infer
from weft.comprehension.show import show

__all__ = ["CheckedProgram", "ComprehensionError", "check", "infer", "parse", "read", "show"]
