"""How a batch is divided, and who merges whom."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from itertools import pairwise

import numpy.typing as npt

from weft.assign import Accum, Cells, Code, Fetch, Symbol
from weft.assign.nodes import Piece, rebuilt
from weft.backends import Array
from weft.data.validation import count_examples
from weft.errors import WeftError
from weft.ops import Call, Num, Scalar
from weft.tensor.leaves import numbers


def checked_batch(arrays: Sequence[npt.ArrayLike]) -> list[Array]:
    """The arrays of a batch, which all have the same number of examples."""
    if not arrays:
        raise WeftError("a training step needs arrays", fix="call it with what the loss takes")
    batch = [numbers(array) for array in arrays]
    if not count_examples(batch, batch=True):
        raise WeftError("the batch has no examples", fix="leave out empty batches")
    return batch


def shard_slices(count: int, devices: int) -> list[slice]:
    """Consecutive shards of `count` examples, as even as can be, at most one for each device and none empty."""
    used = min(count, devices)
    ends = [count * number // used for number in range(used + 1)]
    return [slice(start, end) for start, end in pairwise(ends)]


def merges(count: int) -> Iterator[tuple[int, int]]:
    """Who takes in whose sum, along a binary tree, until 0 has everything."""
    step = 1
    while step < count:
        for into in range(0, count - step, 2 * step):
            yield into, into + step
        step *= 2


def drawn_apart(code: Code, shard: Symbol) -> Code:
    """The code with every random number drawn under its key plus the number of the shard: none draws another's."""

    def change(one: Piece) -> Code:
        match one:
            case Fetch(source=Cells(value=value)):
                return replace(one, source=Cells(_apart(value, shard)))
            case Accum(value=value):
                return replace(one, value=_apart(value, shard))
        return one

    return rebuilt(code, change)


def _apart(value: Scalar, shard: Symbol) -> Scalar:
    if not isinstance(value, Call):
        return value
    args = tuple(_apart(one, shard) for one in value.args)
    if value.op == "threefry4x32" and isinstance(args[0], Num):
        key = int(args[0].value)
        signed = key - (1 << 64) if key >> 63 else key  # so that the sum is one of 64-bit whole numbers, which wrap
        args = (Num(signed) + shard, *args[1:])
    return Call(value.op, args)
