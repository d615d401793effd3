"""Tensors computed by one routine: what many small tests would compile one by one is compiled at once."""

from __future__ import annotations

from collections.abc import Hashable, Mapping
from typing import TypeVar

import numpy as np

import weft as wf

K = TypeVar("K", bound=Hashable)


def together(backend: str, tensors: Mapping[K, wf.Tensor]) -> dict[K, np.ndarray]:
    """What tensors hold, by what they are called."""
    ctx = wf.Context(backend)
    ctx.compile(wf.seq(*(one.forward for one in tensors.values())), keep=list(tensors.values()))()
    return {name: ctx[one] for name, one in tensors.items()}
