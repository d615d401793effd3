"""How big: shapes, constraints on them, and their solver."""

from weft.shape.cells import ShapeVar
from weft.shape.close import close
from weft.shape.infer import Operation, infer
from weft.shape.nodes import Dim, Shape
from weft.shape.text import as_shape

__all__ = ["Dim", "Operation", "Shape", "ShapeVar", "as_shape", "close", "infer"]
