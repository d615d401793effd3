"""weft: a tensor compiler in which shapes and loops infer themselves."""

from weft.errors import EinsumError, ProjectionError, ShapeError, UnderdeterminedShapeError, WeftError
from weft.project import Plan, plan

__all__ = ["EinsumError", "Plan", "ProjectionError", "ShapeError", "UnderdeterminedShapeError", "WeftError", "plan"]
__version__ = "0.1.0.dev0"
