"""Products in blocks on a GPU: how many rows and columns a program has, chosen by what fills multiprocessors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.loops import Blocks, Cast, For, Grid, Let, Read, Staged, Stmt, Store, Update
from weft.loops.folded_sums import folded_sums
from weft.loops.legality import carried
from weft.loops.nests import stride_of
from weft.loops.product_legality import SMALLEST_BLOCK, still_updates, unfit
from weft.loops.staged import Parts, every_sum, further_sums, parts_of, staged_product
from weft.loops.tensor_maps import factor_maps
from weft.loops.walk import Body, Loop, around, everything, free, own_accesses, perfect, reads
from weft.ops import Scalar
from weft.schedule.gpu_model import BlockShape, Gpu


def in_blocks(body: Sequence[Stmt], gpu: Gpu, tf32: bool) -> Body | None:
    """A launch that is a product, in blocks, the loops around it on a grid; None if it is none that runs so.

    What follows its sums may add up over a loop around it: each program runs that.
    """
    loops, inside = perfect(body)
    match inside:
        case (Staged() as staged,) if _is_blocked(staged, gpu):
            pass
        case _:
            return None
    staged = _along_columns(_with_sums_in_order(staged))
    parts = parts_of(staged)
    batch, repeated = _shared_and_repeated(loops, staged)
    blocks = _chosen(
        parts, _ProgramsAround(_points(batch), _points(repeated), len(still_updates(parts, repeated))), gpu, tf32
    )
    product = Staged(replace(staged.what, blocks=blocks, tile=None), staged.body)
    if unfit(product, repeated):
        return None
    made = around(repeated, (product,))
    for name, size in reversed(batch):
        made = (For(name, size, made, (Grid(1, blocks.warps),)),)
    return made


def _shared_and_repeated(loops: Sequence[Loop], staged: Staged) -> tuple[list[Loop], list[Loop]]:
    """The loops around a product whose iterations touch no cells of each other, for programs, and those of each.

    One whose iterations are apart, wherever the others stand, may stand outside of them.
    """
    batch = [one for one in loops if not carried([one], around([other for other in loops if other != one], (staged,)))]
    return batch, [one for one in loops if one not in batch]


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
    return min(fitting, key=lambda one: (_best(parts, _ProgramsAround(batches), one, gpu, tf32)[0], one))


def best_blocks(staged: Staged, gpu: Gpu, tf32: bool) -> tuple[int, int] | None:
    """The rows and columns for which a product does at once what follows its sums; None if it is best cut, or none."""
    parts = parts_of(staged)
    if not _is_blocked(staged, gpu) or best_splits(staged, 1, gpu, tf32) > 1:
        return None
    _, way, shape = _best(parts, _ProgramsAround(), 1, gpu, tf32)
    return _side(shape, parts, way, gpu, 0), _side(shape, parts, way, gpu, 1)


def _chosen(parts: Parts, outside: _ProgramsAround, gpu: Gpu, tf32: bool) -> Blocks:
    """The blocks that take the least time."""
    _, way, shape = _best(parts, outside, 1, gpu, tf32)
    high, wide, _, warps, stages = shape
    deep = _depth(shape, parts, 1, way)
    plain = Blocks(high, wide, deep, warps, stages, 8, _parts(shape, parts, way, gpu), way.precision)
    return replace(plain, maps=True) if gpu.copies_blocks and _is_mapped(plain, parts, gpu) else plain


def _depth(shape: BlockShape, parts: Parts, splits: int, way: _Multiplying) -> int:
    """How many sums are taken at a time: no more than there are.

    Those that are left at the end are masked. Where sums are of several loops they are as many each time, so that the
    others stand still, and where the copy engine may load them.
    """
    sums = _points(parts.sums) // splits
    deep = min(shape[2], max(SMALLEST_BLOCK, 1 << (sums - 1).bit_length()))
    while deep > SMALLEST_BLOCK and sums % deep and sums % SMALLEST_BLOCK == 0 and (way.evenly or len(parts.sums) > 1):
        deep //= 2
    return deep


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


@dataclass(frozen=True, slots=True)
class _ProgramsAround:
    """What is around a product: as many programs for each block, how often each of these runs it, and what these hold
    in registers meanwhile, besides a total."""

    batches: int = 1
    times: int = 1
    held: int = 0


@dataclass(frozen=True, slots=True)
class _Multiplying:
    """How factors are multiplied, and what takes how long: a step, a multiply-add of a thread that waits for none, and
    what a program does besides."""

    precision: str
    shapes: Sequence[BlockShape]
    flops_per_s: float
    step_ns: float
    multiply_ns: float = 0.0
    program_ns: float = 0.0
    totals: int = 1  # of each cell, in registers
    evenly: bool = True  # are as many sums taken each time?


def _ways(parts: Parts, gpu: Gpu, tf32: bool) -> Iterator[_Multiplying]:
    """The ways in which a product's factors can be multiplied as exactly as is asked for."""
    width, step = product_width(parts), gpu.step_ns
    if width == 8:
        yield _Multiplying("ieee", _light(gpu.double_blocks, parts, gpu), gpu.double_flops_per_s, step)
    elif tf32 and _is_of_eight_bits(parts, gpu):
        yield _Multiplying("float8", _in_parts(gpu.float8_blocks, parts, gpu), gpu.tensor_flops_per_s, step)
    elif width < 4:
        yield _Multiplying("tf32" if tf32 else "ieee", _narrow(parts, gpu), gpu.tensor_flops_per_s, step)
    elif tf32:
        yield _Multiplying("tf32", _light(gpu.tf32_blocks, parts, gpu), gpu.tensor_flops_per_s / 2, step)
    else:
        slower = gpu.across_times if _is_across(parts) else 1.0
        speed, multiply = gpu.flops_per_s / slower, gpu.multiply_ns * slower
        yield _Multiplying(
            "ieee", _light(gpu.single_blocks, parts, gpu), speed, step, multiply, gpu.program_ns, evenly=False
        )
        few = min(_points(one.sums) for one in every_sum(parts))
        if gpu.thirds and few >= SMALLEST_BLOCK:  # what is left out is more than fewer sums round
            shapes, speed = _in_parts(gpu.third_blocks, parts, gpu), gpu.tensor_flops_per_s / gpu.third_times
            step, multiply = gpu.third_step_ns, gpu.third_multiply_ns
            yield _Multiplying("thirds", shapes, speed, step, multiply, gpu.program_ns, totals=2, evenly=False)


def _is_of_eight_bits(parts: Parts, gpu: Gpu) -> bool:
    """Do units multiply a product's factors as floats of eight bits? They take both with sums side by side."""
    every = [(factor, one.sums) for one in every_sum(parts) for factor in one.factors]
    whole = all(sums and _points(sums) % (2 * SMALLEST_BLOCK) == 0 for _, sums in every)
    along = whole and all(stride_of(read, sums[-1][0]) == 1 for factor, sums in every for read in reads(factor))
    return along and gpu.multiplies_float8 and all(_bytes(factor) == 1 for factor, _ in every)


def _holding(way: _Multiplying, held: int, gpu: Gpu) -> _Multiplying:
    """A way to multiply where threads hold as many more numbers for each cell: in blocks of fewer cells."""
    if not held:
        return way
    totals, (_, most) = way.totals + held, gpu.thread_cells[0]
    shapes = [one for one in way.shapes if totals * _thread_cells(one) <= most]
    return replace(way, totals=totals, shapes=shapes or [min(way.shapes, key=_thread_cells)])


def _is_across(parts: Parts) -> bool:
    """Does the factor on the right lie along its sums, so that what a thread has of its columns lies apart?"""
    last = parts.sums[-1][0] if parts.sums else ""
    return any(stride_of(read, last) == 1 for read in reads(parts.factors[1]))


def _best(
    parts: Parts, outside: _ProgramsAround, splits: int, gpu: Gpu, tf32: bool
) -> tuple[float, _Multiplying, BlockShape]:
    """What a product takes, in nanoseconds, the way in which it does, and the shape of its blocks."""
    found = [
        (_ns(way, shape, parts, outside, splits, gpu), way, shape)
        for way in (_holding(one, outside.held, gpu) for one in _ways(parts, gpu, tf32))
        for shape in way.shapes
    ]
    folded = folded_sums(parts.left, parts.right, parts.rest)[1]
    whole = [
        (ns, way, shape)
        for ns, way, shape in found
        if all(_side(shape, parts, way, gpu, fold.side) % fold.run == 0 for fold in folded)
    ]
    least, way, shape = min(whole or found, key=lambda one: (one[0], one[2]))
    return least + _joining_ns(parts, outside.batches, splits, gpu), way, shape


def _side(shape: BlockShape, parts: Parts, way: _Multiplying, gpu: Gpu, side: int) -> int:
    """How many rows of a block, or columns, what follows the sums is done for at once."""
    return shape[1] // _parts(shape, parts, way, gpu) if side else shape[0]


def _ns(way: _Multiplying, shape: BlockShape, parts: Parts, outside: _ProgramsAround, splits: int, gpu: Gpu) -> float:
    """What the programs of a product take: alone on their multiprocessors, or as their units let several."""
    high, wide, _, warps, _ = shape
    rows, columns = map(_points, (parts.left, parts.right))
    sums = sum(_points(one.sums) for one in every_sum(parts))
    programs = splits * outside.batches * -(-rows // high) * -(-columns // wide)
    deep, width = _depth(shape, parts, splits, way), product_width(parts)
    steps = outside.times * -(-sums // (splits * deep))
    compute = 2 * high * wide * deep * (1 + 16 / high + 16 / wide) / way.flops_per_s * gpu.multiprocessors * 1e9
    load = (high + wide) * deep * width / (gpu.cache_speed * gpu.bytes_per_ns)
    waves = -(-programs // (gpu.multiprocessors * _resident(way, shape, width, gpu)))
    alone = waves * steps * (way.step_ns + high * wide * deep / (32 * warps) * way.multiply_ns)
    return waves * way.program_ns + max(alone, -(-programs // gpu.multiprocessors) * steps * max(compute, load))


def _resident(way: _Multiplying, shape: BlockShape, width: int, gpu: Gpu) -> int:
    """How many programs share a multiprocessor: its warps, its fast memory, and its registers."""
    high, wide, deep, warps, stages = shape
    registers = 32 * warps * (gpu.thread_registers + way.totals * _thread_cells(shape))
    shared = stages * (high + wide) * deep * width
    return max(1, min(64 // warps, gpu.shared_bytes // shared, gpu.registers // registers, 8))


def _joining_ns(parts: Parts, batches: int, splits: int, gpu: Gpu) -> float:
    """What adding up the parts of split sums takes: a launch, and each part, from the second cache if it holds them."""
    if splits == 1:
        return 0.0
    size = (8 if parts.total.dtype == "float64" else 4) * _points(parts.left) * _points(parts.right) * batches
    near = (splits + 1) * size <= gpu.cache_bytes
    moved = (splits + 1) * size / gpu.cache_speed if near else 2 * splits * size
    return gpu.launch_ns + gpu.program_ns + splits * gpu.strip_ns + moved / gpu.bytes_per_s * 1e9


def _light(shapes: Sequence[BlockShape], parts: Parts, gpu: Gpu) -> list[BlockShape]:
    """The shapes of which registers hold what follows the sums: their cells, and those of what is read and written."""
    touched = _touched(parts)
    most = next(most for few, most in gpu.thread_cells if touched <= few)
    return [one for one in shapes if _thread_cells(one) <= most]


def _narrow(parts: Parts, gpu: Gpu) -> list[BlockShape]:
    """The shapes for factors of two bytes.

    Where much follows the sums it is done in parts, in blocks of which two share a multiprocessor: one ends while the
    other sums.
    """
    parted = gpu.parted_blocks if _touched(parts) >= gpu.parted_from else ()
    return [*parted, *_in_parts(gpu.narrow_blocks, parts, gpu)]


def _in_parts(shapes: Sequence[BlockShape], parts: Parts, gpu: Gpu) -> list[BlockShape]:
    """The shapes of which a thread has no more cells than in two parts, where much follows the sums."""
    light = _light(shapes, parts, gpu)
    return [one for one in light if _touched(parts) < gpu.parted_from or _thread_cells(one) <= 2 * gpu.part_cells]


def _parts(shape: BlockShape, parts: Parts, way: _Multiplying, gpu: Gpu) -> int:
    """In how many parts a block does what follows its sums."""
    parted = _touched(parts) >= gpu.parted_from and (way.precision == "thirds" or shape in gpu.parted_blocks)
    most = shape[1] // SMALLEST_BLOCK
    return max(1, min(most, _thread_cells(shape) // gpu.part_cells)) if parted else 1


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
