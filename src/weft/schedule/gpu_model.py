"""What a GPU has and does in a second, and what the passes before it is known take it for."""

from __future__ import annotations

from dataclasses import dataclass, fields
from hashlib import sha256
from typing import Any, TypeAlias

from weft.errors import WeftError
from weft.machine import Machine
from weft.optimise.summed_products import Alone
from weft.public import public_constructor

#: Rows, columns, sums, warps and stages of a program's block.
BlockShape: TypeAlias = tuple[int, int, int, int, int]


#: Of the products of two sums of three numbers each so many are more than a rounding.
_THIRDS = 6


@public_constructor
@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: how many multiprocessors run programs at once, what memory and arithmetic do in a second; else an H200.

    Its `architecture` is what its maker calls sm_90; those from `float8_from` on convert floats of eight bits, those
    from `float8_products_from` on multiply them, and those from `maps_from` on copy blocks of matrices, for products
    of `mapped_rows` or more on `mapped_warps` or several times as many. `shared_bytes` is the fast memory of a
    multiprocessor, `cache_bytes` the second cache. A launch in a graph takes `launch_ns`, a program alone on its
    multiprocessor so long at least, `program_ns`; a step of a loop of loads takes `step_ns`, and a multiply-add of a
    thread that waits for none `multiply_ns`, `across_times` as long where columns of a factor lie apart; the second
    cache is `cache_speed` times as fast as memory. A multiprocessor has so many `registers`, and a thread of a
    product `thread_registers` besides its sums.

    What registers hold well: a program has `point_lanes` where its points are alike, a row all at once up to
    `row_lanes` on up to `row_warps`, a longer one in parts of `part_lanes`; or of `row_lanes` on up to `most_warps`,
    where it is read several times and the second cache holds those of all programs then; `block_lanes` of loops inside
    each other; `square_lanes` of each of two loops along which different cells lie, `column_lanes` of columns with
    `column_rows` of each, or fewer with more of each, down to `fewest_columns`; up to `short_sums` rows of them are
    added up one by one, or up to `splits`, where columns fill all multiprocessors. A thread has about `thread_lanes`
    of them. A strip of a long sum has `strip_points`.
    A product of fewer rows or columns than `block_rows` has no blocks; sums are cut into so many `splits` at most, each
    of which takes `strip_ns` more to add up.
    Blocks are rows, columns, sums, warps and stages, for factors of two bytes, of one that are multiplied as such, of
    four that are rounded, of four, and of eight.
    With `thirds`, factors of four bytes are multiplied as sums of three of two bytes, in `third_blocks`, where that is
    quicker and there are sums enough for it to be as near: products take `third_times` as long as of factors of two
    bytes, and `third_step_ns` and `third_multiply_ns` instead of those above.
    Where what follows their sums touches up to so many tensors, a thread has so many `thread_cells` at most; from
    `parted_from` on, factors of two bytes have `parted_blocks`, where that is done for `part_cells` at a time. One
    program does `alone_points` as soon as several that wait for each other; larger products leave what they make to
    others who add it up, unless each program has `alone_points` of the sums. Products of `copied_points` are worth a
    copy of a factor that lies as they take it. Of a scatter, a program has one position and
    `owned_columns` of its cells, `owned_apart` where they do not lie side by side. It looks through `owned_block`
    positions at once for others of its cells, and takes those that it finds from `owned_part` at least at once, from
    more where columns are so few that it has not `owned_cells` then, on `owned_warps`, or twice as many where it has
    several times as many cells; so many `resident_programs` share a multiprocessor. Matrices of `swept_columns` rows
    and columns at least are swept, products of `swept_depth` numbers at most with them; a sweep has so many rows,
    columns and stages where factors have two bytes, or four; columns are fewer, down to `fewest_swept`, where a thread
    would have more than `block_cells` of what there is of a block, and warps more where it would hold `swept_cells`.
    A mask hides what it lowers by `hidden_depth`. Launches wait for each other where one takes memory of another: so
    many `own_bytes` of its smallest buffers are nobody else's in a program that the second cache holds. Against memory
    operations are `cheap_operations` times as cheap as on a processor where values are computed again, and
    `cheap_inline` times as many of them are done where such a value is read; `cheap_again` in all compute any value
    wherever it is read, if that moves fewer bytes.
    """

    architecture: int = 90
    float8_from: int = 89
    float8_products_from: int = 90
    maps_from: int = 90
    mapped_rows: int = 64
    mapped_warps: int = 4
    multiprocessors: int = 132
    shared_bytes: int = 227 << 10
    cache_bytes: int = 60 << 20
    bytes_per_s: float = 4.3e12
    flops_per_s: float = 6e13
    tensor_flops_per_s: float = 7.9e14
    double_flops_per_s: float = 5e13
    launch_ns: float = 1500.0
    program_ns: float = 1000.0
    step_ns: float = 200.0
    multiply_ns: float = 0.8
    across_times: float = 4.0
    cache_speed: float = 1.5
    strip_ns: float = 40.0
    registers: int = 1 << 16
    thread_registers: int = 64
    point_lanes: int = 1024
    row_lanes: int = 16384
    part_lanes: int = 2048
    row_warps: int = 16
    most_warps: int = 32
    block_lanes: int = 4096
    square_lanes: int = 64
    column_lanes: int = 64
    column_rows: int = 32
    fewest_columns: int = 16
    short_sums: int = 8
    thread_lanes: int = 8
    fused_points: int = 512
    strip_points: int = 4096
    block_rows: int = 4
    splits: int = 64
    narrow_blocks: tuple[BlockShape, ...] = (
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
    float8_blocks: tuple[BlockShape, ...] = (
        (128, 128, 128, 8, 4),
        (64, 128, 128, 4, 4),
        (64, 64, 128, 4, 4),
        (64, 32, 128, 4, 4),
    )
    tf32_blocks: tuple[BlockShape, ...] = (
        (128, 256, 32, 8, 3),
        (128, 128, 32, 8, 4),
        (128, 64, 32, 4, 4),
        (64, 64, 32, 4, 4),
        (64, 32, 32, 4, 4),
        (32, 32, 32, 4, 4),
        (16, 32, 32, 2, 4),
        (16, 16, 32, 1, 4),
    )
    single_blocks: tuple[BlockShape, ...] = (
        (64, 64, 32, 4, 3),
        (32, 64, 32, 4, 3),
        (32, 32, 32, 4, 3),
        (16, 32, 64, 4, 3),
        (16, 16, 64, 2, 3),
    )
    double_blocks: tuple[BlockShape, ...] = (
        (64, 64, 16, 4, 3),
        (32, 64, 16, 4, 3),
        (32, 32, 32, 4, 3),
        (16, 32, 32, 2, 3),
        (16, 16, 32, 1, 3),
    )
    third_blocks: tuple[BlockShape, ...] = (
        (128, 128, 32, 8, 3),
        (128, 64, 32, 4, 3),
        (64, 128, 32, 4, 3),
        (64, 64, 64, 4, 3),
        (64, 64, 32, 4, 3),
        (64, 32, 64, 4, 3),
        (32, 64, 32, 4, 3),
        (32, 32, 64, 4, 3),
        (32, 32, 32, 4, 3),
        (16, 32, 64, 4, 3),
    )
    parted_blocks: tuple[BlockShape, ...] = ((128, 128, 64, 8, 3),)
    parted_from: int = 4
    part_cells: int = 16
    thirds: bool = True
    third_times: float = 8.0
    third_step_ns: float = 540.0
    third_multiply_ns: float = 0.34
    thread_cells: tuple[tuple[int, int], ...] = ((3, 128), (8, 64), (1 << 20, 32))
    alone_points: int = 1 << 13
    copied_points: int = 1 << 23
    swept_columns: int = 128
    swept_depth: int = 256
    swept_narrow: tuple[tuple[int, int, int], ...] = ((64, 64, 3),)
    swept_single: tuple[tuple[int, int, int], ...] = ((64, 32, 2),)
    swept_cells: int = 192
    block_cells: int = 96
    fewest_swept: int = 32
    hidden_depth: float = 1e8
    own_bytes: int = 16 << 20
    cheap_operations: int = 4
    cheap_inline: int = 32
    cheap_again: int = 16
    owned_columns: int = 1024
    owned_apart: int = 256
    owned_block: int = 1024
    owned_part: int = 16
    owned_cells: int = 4096
    owned_warps: int = 4
    resident_programs: int = 16

    def __post_init__(self) -> None:
        for field in fields(self):
            value, usual = getattr(self, field.name), field.default
            if wanted := _unfit(value, usual):
                fix = "change what differs: wf.Gpu(multiprocessors=108)"
                raise WeftError(f"Gpu.{field.name} is {wanted}, not {value!r}", fix=fix)

    @property
    def alone(self) -> Alone:
        """What one program has to do alone, and how much is enough for all."""
        return Alone(self.alone_points, self.alone_points * self.multiprocessors)

    @property
    def bytes_per_ns(self) -> float:
        """What one multiprocessor reads and writes in a nanosecond."""
        return self.bytes_per_s / self.multiprocessors / 1e9

    @property
    def reads_float8(self) -> bool:
        """Do lanes convert floats of eight bits?"""
        return self.architecture >= self.float8_from

    @property
    def multiplies_float8(self) -> bool:
        """Do units multiply floats of eight bits, though they add with fewer digits?"""
        return self.architecture >= self.float8_products_from

    @property
    def copies_blocks(self) -> bool:
        """Does a copy engine load blocks of matrices?"""
        return self.architecture >= self.maps_from

    @property
    def programs(self) -> int:
        """How many programs keep all multiprocessors busy, though some take longer."""
        return 4 * self.multiprocessors

    def product_flops_per_s(self, width: int, precision: str) -> float:
        """What the units that multiply factors of so many bytes do at most, in a precision."""
        if width == 8:
            return self.double_flops_per_s
        if width < 4:
            return self.tensor_flops_per_s
        return {"tf32": self.tensor_flops_per_s / 2, "thirds": self.tensor_flops_per_s / _THIRDS}.get(
            precision, self.flops_per_s
        )

    def as_machine(self, like: Machine) -> Machine:
        """What passes that weigh memory against arithmetic take it for: one core that never waits for functions."""
        return Machine(
            isa=like.isa,
            cores=1,
            caches=(self.shared_bytes, self.cache_bytes),
            flops_per_s=self.flops_per_s,
            bytes_per_s=self.bytes_per_s,
            cached_bytes_per_s=2 * self.bytes_per_s,
            last_cached_bytes_per_s=2 * self.bytes_per_s,
            call_ns=self.launch_ns,
            function_ns=1e-3,
            wait_ns=1e-6,
            latency_ns=1e-3,
            scalar_function_ns=1e-3,
            vector_function_ns=1e-3,
            identity=f"{like.identity} {sha256(repr(self).encode()).hexdigest()[:16]}",
        )


def _unfit(value: object, usual: Any) -> str:
    """What a value should be, like the usual one; nothing if it is so."""
    if isinstance(usual, bool):
        return "" if isinstance(value, bool) else "True or False"
    if isinstance(usual, tuple):
        return "" if _is_table(value, len(usual[0])) else "a tuple of tuples of numbers above 0"
    return "" if _is_positive(value) else "a number above 0"


def _is_positive(value: object) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool) and value > 0


def _is_table(value: object, columns: int) -> bool:
    rows = value if isinstance(value, tuple) else ()
    return bool(rows) and all(
        isinstance(row, tuple) and len(row) == columns and all(map(_is_positive, row)) for row in rows
    )


#: What kernels are shaped for where nothing else is known: an H200.
USUAL_GPU = Gpu()
