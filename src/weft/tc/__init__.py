"""Tensor Comprehensions: `wf.tc.define(text)` gives callables."""

from weft.comprehension import ComprehensionError
from weft.public import open_door, public_methods
from weft.schedule import Options
from weft.tc.definition import Comprehensions, Definition, define

__all__ = ["ComprehensionError", "Comprehensions", "Definition", "Options", "define"]

open_door(globals(), __all__)
public_methods(Definition)
