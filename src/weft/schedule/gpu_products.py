"""Products in blocks on a GPU: how many rows and columns a program has, chosen by what fills multiprocessors."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from math import prod

from weft.loops import Blocks, Cast, For, Grid, Let, Read, Staged, Stmt, Store, Update
from weft.loops.annotations import Parts, every_sum, further_sums, parts_of, staged_product
from weft.loops.folded_sums import folded_sums
from weft.loops.nests import stride_of
from weft.loops.product_legality import SMALLEST_BLOCK, unfit
from weft.loops.tensor_maps import factor_maps
from weft.loops.walk import Body, Loop, everything, free, own_accesses, perfect, reads
from weft.ops import Scalar
from weft.schedule.gpu_model import BlockShape, Gpu


def in_blocks(body: Sequence[Stmt], gpu: Gpu, tf32: bool) -> Body | None:
    """A launch that is a product, in blocks, the loops around it on a grid; None if it is none that runs so."""
    batch, inside = perfect(body)
    match inside:
        case (Staged() as staged,) if _is_blocked(staged, gpu):
            pass
        case _:
            return None
    staged = _along_columns(_with_sums_in_order(staged))
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
    return staged_product(parts.right, parts.left, parts.sums, start, parts.ops, factors, parts.rest, tests=parts.tests)


def _with_sums_in_order(staged: Staged) -> Staged:
    """A product whose last sum fills steps, so that the others stand still in each, and lies along memory if it can."""
    found = parts_of(staged)

    def fills(loop: Loop) -> tuple[bool, int, int]:
        cells = [read for factor in found.factors for read in reads(factor)]
        along = sum(stride_of(cell, loop[0]) == 1 for cell in cells)
        return loop[1] % SMALLEST_BLOCK == 0, along, loop[1]

    if len(found.sums) < 2 or fills(found.sums[-1])[0]:
        return staged
    last = max(found.sums, key=fills)
    sums = (*(one for one in found.sums if one != last), last)
    start = Let(found.total, found.start)
    return staged_product(found.left, found.right, sums, start, found.ops, found.factors, found.rest, tests=found.tests)


def _is_blocked(staged: Staged, gpu: Gpu) -> bool:
    """Has a product enough rows and columns for blocks, of types that have them?"""
    parts = parts_of(staged)
    few = min(_points(parts.left), _points(parts.right)) < gpu.block_rows
    return parts.total.dtype in ("float32", "float64") and parts.ops == ("add", "mul") and not few


def best_splits(staged: Staged, batches: int, gpu: Gpu, tf32: bool) -> int:
    """Into how many parts the sum of a product is best cut, each a block of its own, added up afterwards.

    Sums that go on in one variable are not cut, nor those of what is added up further.
    """
    parts = parts_of(staged)
    if further_sums(parts)[0] or folded_sums(parts.left, parts.right, parts.rest)[1]:
        return 1
    longest = max((size for _, size in parts.sums), default=1)
    fitting = [one for one in range(1, gpu.splits + 1) if longest % one == 0] if _is_blocked(staged, gpu) else [1]
    whole = [one for one in fitting if longest // one % SMALLEST_BLOCK == 0]
    fitting = whole or fitting
    return min(fitting, key=lambda one: (_best(parts, batches, one, gpu, tf32)[0], one))


def best_blocks(staged: Staged, gpu: Gpu, tf32: bool) -> tuple[int, int] | None:
    """The rows and columns for which a product does at once what follows its sums; None if it is best cut, or none."""
    parts = parts_of(staged)
    if not _is_blocked(staged, gpu) or best_splits(staged, 1, gpu, tf32) > 1:
        return None
    shape = _best(parts, 1, 1, gpu, tf32)[1]
    return _side(shape, parts, gpu, 0), _side(shape, parts, gpu, 1)


def _chosen(parts: Parts, batches: int, gpu: Gpu, tf32: bool) -> Blocks:
    """The blocks that take the least time."""
    _, shape = _best(parts, batches, 1, gpu, tf32)
    high, wide, deep, warps, stages = shape
    sums, precision = _points(parts.sums), _precision(parts, gpu, tf32)
    deep = min(deep, max(SMALLEST_BLOCK, 1 << (sums - 1).bit_length()))
    while deep > SMALLEST_BLOCK and sums % deep and sums % SMALLEST_BLOCK == 0:
        deep //= 2
    plain = Blocks(high, wide, deep, warps, stages, 8, _parts(shape, parts, gpu), precision)
    return replace(plain, maps=True) if gpu.copies_blocks and _is_mapped(plain, parts, gpu) else plain


def _is_mapped(blocks: Blocks, parts: Parts, gpu: Gpu) -> bool:
    """Is a product in single precision quicker if the copy engine loads its factors, for whole warp groups?

    Tensor cores take both with sums side by side, threads the one on the right with columns. Of two bytes, factors are
    loaded as quickly one way as the other.
    """
    single = not parts.tests and not further_sums(parts)[0]
    found = factor_maps(parts) if single and _points(parts.sums) % blocks.sums == 0 else None
    if found is None or found[0].buffer.dtype != "float32":
        return False
    whole = blocks.precision != "thirds" and blocks.rows >= gpu.mapped_rows and blocks.warps % gpu.mapped_warps == 0
    return whole and [one.sums_inside for one in found] == [True, blocks.precision == "tf32"]


def _precision(parts: Parts, gpu: Gpu, tf32: bool) -> str:
    """What factors in single precision are multiplied as."""
    if parts.total.dtype != "float32":
        return "ieee"
    single = max(map(_bytes, parts.factors)) == 4
    return "tf32" if tf32 else "thirds" if single and gpu.multiplies_thirds else "ieee"


def _best(parts: Parts, batches: int, splits: int, gpu: Gpu, tf32: bool) -> tuple[float, BlockShape]:
    """What a product takes, in nanoseconds, and the shape of blocks in which it does."""
    double = parts.total.dtype == "float64"
    width, tf32 = product_width(parts), tf32 and not double
    single = gpu.third_blocks if gpu.multiplies_thirds else gpu.single_blocks
    wide = gpu.double_blocks if double else gpu.tf32_blocks if tf32 else single
    shapes = _light(wide, parts, gpu) if width >= 4 else _narrow(parts, gpu)
    speed = gpu.product_flops_per_s(width, tf32)
    rows, columns = map(_points, (parts.left, parts.right))
    sums = sum(_points(one.sums) for one in every_sum(parts))
    multiply = gpu.multiply_ns if speed == gpu.flops_per_s else 0.0
    partial = (16 if double else 8) * splits * rows * columns * batches / gpu.bytes_per_s * 1e9
    own = 0.0 if splits == 1 else gpu.launch_ns + gpu.program_ns + partial

    def ns(shape: BlockShape) -> float:
        high, wide, deep, warps, stages = shape
        programs = splits * batches * -(-rows // high) * -(-columns // wide)
        steps = -(-sums // (splits * deep))
        compute = 2 * high * wide * deep * (1 + 16 / high + 16 / wide) / speed * gpu.multiprocessors * 1e9
        load = (high + wide) * deep * width / (gpu.cache_speed * gpu.bytes_per_ns)
        resident = max(1, min(64 // warps, gpu.shared_bytes // (stages * (high + wide) * deep * width), 8))
        alone = (
            -(-programs // (gpu.multiprocessors * resident))
            * steps
            * (gpu.step_ns + high * wide * deep / (32 * warps) * multiply)
        )
        return max(alone, -(-programs // gpu.multiprocessors) * steps * max(compute, load)) + own

    folded = folded_sums(parts.left, parts.right, parts.rest)[1]
    whole = [one for one in shapes if all(_side(one, parts, gpu, fold.side) % fold.run == 0 for fold in folded)]
    return min((ns(one), one) for one in whole or shapes)


def _side(shape: BlockShape, parts: Parts, gpu: Gpu, side: int) -> int:
    """How many rows of a block, or columns, what follows the sums is done for at once."""
    return shape[1] // _parts(shape, parts, gpu) if side else shape[0]


def _light(shapes: Sequence[BlockShape], parts: Parts, gpu: Gpu) -> list[BlockShape]:
    """The shapes of which registers hold what follows the sums: their cells, and those of what is read and written."""
    touched = _touched(parts)
    most = next(most for few, most in gpu.thread_cells if touched <= few)
    return [one for one in shapes if _thread_cells(one) <= most]


def _narrow(parts: Parts, gpu: Gpu) -> list[BlockShape]:
    """The shapes for factors of two bytes.

    Where much follows the sums it is done in parts, in blocks of which two share a multiprocessor: one ends while the
    other sums. In others a thread has no more cells than in two such parts.
    """
    light = _light(gpu.narrow_blocks, parts, gpu)
    if _touched(parts) < gpu.parted_from:
        return light
    return [*gpu.parted_blocks, *(one for one in light if _thread_cells(one) <= 2 * gpu.part_cells)]


def _parts(shape: BlockShape, parts: Parts, gpu: Gpu) -> int:
    """In how many parts a block does what follows its sums."""
    parted = _touched(parts) >= gpu.parted_from and shape in gpu.parted_blocks
    return max(1, _thread_cells(shape) // gpu.part_cells) if parted else 1


def _touched(parts: Parts) -> int:
    """How many cells what follows the sums reads and writes at a point."""
    rest, folded = folded_sums(parts.left, parts.right, further_sums(parts)[1])
    return sum(len(own_accesses(one)) for one in everything(rest)) + len(folded)


def _thread_cells(shape: BlockShape) -> int:
    """How many sums of a block a thread has."""
    high, wide, _, warps, _ = shape
    return high * wide // (32 * warps)


def product_width(parts: Parts) -> int:
    """The bytes of the wider factor as it lies in memory, or of a sum that is wider than both."""
    every = [factor for one in every_sum(parts) for factor in one.factors]
    return 8 if parts.total.dtype == "float64" else max(map(_bytes, every))


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
