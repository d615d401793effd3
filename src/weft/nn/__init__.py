"""Blocks of models, each a function under `@wf.op` in a few lines of specs."""

from weft.nn.mode import Training, training
from weft.public import open_door

__all__ = ["Training", "training"]

open_door(globals(), __all__)
