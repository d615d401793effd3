"""Pictures of numbers, in the terminal and as images."""

from weft.plot.curve import curve
from weft.plot.picture import Plot
from weft.plot.plane import function
from weft.public import open_door

__all__ = ["Plot", "curve", "function"]

open_door(globals(), __all__)
