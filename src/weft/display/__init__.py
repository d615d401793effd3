"""Values and tables for people."""

from weft.display.boxes import Box
from weft.display.shown import Shown
from weft.display.values import show_values

__all__ = ["Box", "Shown", "show_values"]
