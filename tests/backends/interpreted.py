"""Backends that interpret kernels, as far as passes make them: for what is compiled in C, and on GPUs see `OnGrid`."""

from __future__ import annotations

from weft.backends.cc import Cc
from weft.backends.interp import Interp


class Fusing(Interp):
    """The oracle, given kernels instead of nests."""

    @property
    def fuses(self) -> bool:
        return True


class OnProcessor(Fusing):
    """The oracle on kernels that went through every pass for a processor."""

    places = Cc.places
