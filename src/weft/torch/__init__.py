"""Comprehensions as functions of PyTorch. torch is needed only when `wrap` is called."""

from weft.torch.wrap import wrap

__all__ = ["wrap"]
