"""What lanes accumulate in a block of their own, until their loop is done: in which type, how often it is rounded."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from weft.backends.cuda.triton_values import Here, LaneAxes
from weft.loops import Cast, Local, Role, dtype_of
from weft.loops.roundings import PARTS
from weft.loops.walk import reads, variables
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class LaneSum:
    """A variable that lanes accumulate in a block of their own, until their loop is done: long sums in a wider type."""

    local: Local
    op: str
    name: str
    dtype: str
    here: Here
    #: How many masks there were where it is declared; and whether it takes values once, so that it starts with them.
    masks: int
    once: bool

    @property
    def axes(self) -> LaneAxes:
        return self.here.axes

    @property
    def narrow(self) -> bool:
        """Is it of a narrower type than what it is taken into?"""
        return (self.dtype, self.local.dtype) == ("float32", "float64")


def adds_few(value: Scalar, lanes: int, threads: int, accumulators: Collection[Local]) -> bool:
    """Is a number of single precision rounded seldom enough in it: as a thread adds up its own, and as all join?

    What partial sums hold was rounded before: it may be as often again as what joins them.
    """
    if not isinstance(value, Cast) or value.dtype != "float64" or dtype_of(value.value) != "float32":
        return False
    own, joined = -(-lanes // threads), threads.bit_length()
    partial = any(one.buffer.role in (Role.PARTIAL, Role.PARTS) for one in reads(value))
    if partial or any(one in accumulators for one in variables(value)):
        return own + joined <= PARTS[1]
    return own <= PARTS[0] and joined <= PARTS[1]
