"""Products in blocks on a GPU: how many rows and columns a program has, chosen by what fills multiprocessors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.loops import Blocks, Cast, For, Grid, Read, Staged, Stmt
from weft.loops.annotations import Parts, parts_of
from weft.loops.legality import unfit
from weft.loops.walk import Body, Loop, perfect
from weft.ops import Scalar
from weft.schedule.gpu_model import Gpu

#: Rows, columns and sums of a block, warps and stages, for factors of two bytes and of four, the largest first.
_NARROW = (
    (128, 256, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (128, 64, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 32, 64, 4, 4),
    (32, 32, 64, 4, 4),
    (16, 32, 64, 2, 4),
    (16, 16, 64, 1, 4),
)
_TF32 = (
    (128, 128, 32, 8, 4),
    (128, 64, 32, 4, 4),
    (64, 64, 32, 4, 4),
    (64, 32, 32, 4, 4),
    (32, 32, 32, 4, 4),
    (16, 32, 32, 2, 4),
    (16, 16, 32, 1, 4),
)
_WIDE = (
    (128, 128, 16, 8, 3),
    (128, 64, 16, 8, 3),
    (64, 64, 16, 4, 3),
    (32, 64, 16, 4, 3),
    (32, 32, 32, 4, 3),
    (16, 32, 32, 2, 3),
    (16, 16, 32, 1, 3),
)
#: Fewer rows or columns than these are no block: each cell is a sum of its own.
_FEWEST = 4


def in_blocks(body: Sequence[Stmt], gpu: Gpu, tf32: bool) -> Body | None:
    """A launch that is a product, in blocks, the loops around it on a grid; None if it is none that runs so."""
    batch, inside = perfect(body)
    match inside:
        case (Staged() as staged,) if _is_blocked(staged):
            pass
        case _:
            return None
    parts = parts_of(staged)
    blocks = _chosen(parts, prod(size for _, size in batch), gpu, tf32)
    made = Staged(replace(staged.what, blocks=blocks, tile=None), staged.body)
    if unfit(made):
        return None
    for name, size in reversed(batch):
        made = For(name, size, (made,), (Grid(1, blocks.warps),))  # type: ignore[assignment]
    return (made,)


def _is_blocked(staged: Staged) -> bool:
    """Has a product enough rows and columns for blocks, of types that have them?"""
    parts = parts_of(staged)
    few = min(_points(parts.left), _points(parts.right)) < _FEWEST
    return parts.total.dtype == "float32" and parts.ops == ("add", "mul") and not few


def _chosen(parts: Parts, batches: int, gpu: Gpu, tf32: bool) -> Blocks:
    """The blocks that take the least time: work that is done on multiprocessors that have some."""
    kinds = {_bytes(one) for one in parts.factors}
    shapes = _NARROW if kinds == {2} or kinds == {1} else _TF32 if tf32 else _WIDE
    rows, columns, sums = map(_points, (parts.left, parts.right, parts.sums))
    best = min(shapes, key=lambda one: _waves(rows, columns, sums, batches, one, gpu))
    high, wide, deep, warps, stages = best
    precision = "tf32" if tf32 else "ieee"
    return Blocks(high, wide, min(deep, max(16, 1 << (sums - 1).bit_length())), warps, stages, 8, 1, precision)


def _waves(rows: int, columns: int, sums: int, batches: int, shape: tuple[int, ...], gpu: Gpu) -> float:
    """What it takes, in the time of a multiply-add: blocks that multiprocessors do one after another.

    A small block reads more for what it computes.
    """
    high, wide = shape[:2]
    programs = batches * -(-rows // high) * -(-columns // wide)
    each = high * wide + 16 * (high + wide)
    waves = -(-programs // gpu.multiprocessors)
    return waves * each * sums


def _bytes(factor: Scalar) -> int:
    """The bytes of a factor as it lies in memory, if it is no more than that, converted."""
    match factor:
        case Cast(dtype="float32", value=Read(buffer=buffer)) if buffer.dtype in ("bfloat16", "float16"):
            return 2
        case Cast(dtype="float32", value=Read(buffer=buffer)) if buffer.dtype.startswith("float8"):
            return 1
    return 4


def _points(loops: Sequence[Loop]) -> int:
    return prod(size for _, size in loops)
