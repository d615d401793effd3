"""Products in blocks on a GPU: how many rows and columns a program has, chosen by what fills multiprocessors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod
from typing import TypeAlias

from weft.loops import Blocks, Cast, For, Grid, Let, Read, Staged, Stmt, Store, Update
from weft.loops.annotations import Parts, parts_of, staged_product
from weft.loops.legality import unfit
from weft.loops.walk import Body, Loop, everything, free, own_accesses, perfect
from weft.ops import Scalar
from weft.schedule.gpu_model import Gpu

#: Rows, columns and sums of a block, warps and stages, for factors of two bytes and of four, the largest first.
_NARROW = (
    (128, 256, 64, 8, 3),
    (128, 128, 64, 8, 4),
    (64, 128, 64, 8, 4),
    (128, 64, 64, 4, 4),
    (64, 64, 64, 4, 4),
    (64, 32, 64, 4, 4),
    (32, 32, 64, 4, 4),
    (16, 32, 64, 2, 4),
    (16, 16, 64, 1, 4),
)
_TF32 = (
    (128, 256, 32, 8, 3),
    (128, 128, 32, 8, 4),
    (128, 64, 32, 4, 4),
    (64, 64, 32, 4, 4),
    (64, 32, 32, 4, 4),
    (32, 32, 32, 4, 4),
    (16, 32, 32, 2, 4),
    (16, 16, 32, 1, 4),
)
_WIDE = (
    (64, 64, 32, 4, 3),
    (32, 64, 32, 4, 3),
    (32, 32, 32, 4, 3),
    (16, 32, 64, 4, 3),
    (16, 16, 64, 2, 3),
)
#: Into how many parts sums may be cut. A step of a loop of loads takes so long at least, and the second cache is so many
#: times as fast as memory.
_SPLITS, _STEP_NS, _NEAR = (1, 2, 4, 8, 16, 32, 64), 200.0, 1.5
#: Where what follows touches up to so many tensors, a thread has so many cells at most.
_CELLS = ((3, 128), (6, 64), (1 << 20, 32))
_Shape: TypeAlias = tuple[int, int, int, int, int]
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
    staged = _along_columns(staged)
    parts = parts_of(staged)
    blocks = _chosen(parts, prod(size for _, size in batch), gpu, tf32)
    made = Staged(replace(staged.what, blocks=blocks, tile=None), staged.body)
    if unfit(made):
        return None
    for name, size in reversed(batch):
        made = For(name, size, (made,), (Grid(1, blocks.warps),))  # type: ignore[assignment]
    return (made,)


def _along_columns(staged: Staged) -> Staged:
    """A product whose columns follow each other in memory where its results are stored, not its rows."""
    parts = parts_of(staged)
    last = next((one.at[-1] for one in parts.rest if isinstance(one, Store | Update) and one.at), None)
    if last is None or not {name for name, _ in parts.left} & set(free(last)):
        return staged
    start, factors = Let(parts.total, parts.start), parts.factors[::-1]
    return staged_product(parts.right, parts.left, parts.sums, start, parts.ops, factors, parts.rest)


def _is_blocked(staged: Staged) -> bool:
    """Has a product enough rows and columns for blocks, of types that have them?"""
    parts = parts_of(staged)
    few = min(_points(parts.left), _points(parts.right)) < _FEWEST
    return parts.total.dtype == "float32" and parts.ops == ("add", "mul") and not few


def best_splits(staged: Staged, batches: int, gpu: Gpu, tf32: bool) -> int:
    """Into how many parts the sums of a product are best cut, each a block of its own, added up afterwards."""
    parts = parts_of(staged)
    longest = max((size for _, size in parts.sums), default=1)
    fitting = [one for one in _SPLITS if longest % one == 0] if _is_blocked(staged) else [1]
    return min(fitting, key=lambda one: (_best(parts, batches, one, gpu, tf32)[0], one))


def _chosen(parts: Parts, batches: int, gpu: Gpu, tf32: bool) -> Blocks:
    """The blocks that take the least time."""
    _, (high, wide, deep, warps, stages) = _best(parts, batches, 1, gpu, tf32)
    sums, precision = _points(parts.sums), "tf32" if tf32 else "ieee"
    return Blocks(high, wide, min(deep, max(16, 1 << (sums - 1).bit_length())), warps, stages, 8, 1, precision)


def _best(parts: Parts, batches: int, splits: int, gpu: Gpu, tf32: bool) -> tuple[float, _Shape]:
    """What a product takes, in nanoseconds, and the shape of blocks in which it does."""
    width = max(map(_bytes, parts.factors))
    shapes = [one for one in (_NARROW if width < 4 else _TF32 if tf32 else _WIDE) if _is_light(one, parts)]
    speed = gpu.tensor_flops_per_s if width < 4 else gpu.tensor_flops_per_s / 2 if tf32 else gpu.flops_per_s
    rows, columns, sums = map(_points, (parts.left, parts.right, parts.sums))
    own = 0.0 if splits == 1 else gpu.launch_ns + 8 * splits * rows * columns * batches / gpu.bytes_per_s * 1e9

    def ns(shape: _Shape) -> float:
        high, wide, deep, warps, stages = shape
        programs = splits * batches * -(-rows // high) * -(-columns // wide)
        steps = -(-sums // (splits * deep))
        compute = 2 * high * wide * deep * (1 + 16 / high + 16 / wide) / speed * gpu.multiprocessors * 1e9
        load = (high + wide) * deep * width / (_NEAR * gpu.bytes_per_ns)
        resident = max(1, min(64 // warps, gpu.shared_bytes // (stages * (high + wide) * deep * width), 8))
        alone = -(-programs // (gpu.multiprocessors * resident)) * steps * _STEP_NS
        return max(alone, -(-programs // gpu.multiprocessors) * steps * max(compute, load)) + own

    return min((ns(one), one) for one in shapes)


def _is_light(shape: _Shape, parts: Parts) -> bool:
    """Do registers hold what follows the sums of a block: its cells, and those of what is read and written there?"""
    high, wide, _, warps, _ = shape
    touched = sum(len(own_accesses(one)) for one in everything(parts.rest))
    return high * wide <= 32 * warps * next(most for few, most in _CELLS if touched <= few)


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
