"""Values and tables for people."""

from weft.display.boxes import BoxedGrid
from weft.display.shown import Shown
from weft.display.values import show_values

__all__ = ["BoxedGrid", "Shown", "show_values"]
