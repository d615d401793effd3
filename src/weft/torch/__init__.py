"""Comprehensions as functions of PyTorch. torch is needed only when `wrap` is called."""

from weft.public import open_door
from weft.torch.wrap import wrap

__all__ = ["wrap"]

open_door(globals(), __all__)
