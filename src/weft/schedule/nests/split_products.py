"""Long sums of products with few cells, in strips that threads share (split-K): a partial product for each strip.

    product of left i; right j; sums k: { t = c[i, j];  for k in range(100000): t = t + a[i, k] * b[k, j];  … }

    becomes

    for strip in range(32): product of left i; right j; sums k:
        { own = 0;  for k in range(3125): own = own + a[i, 3125 strip + k] * …;  part[strip, i, j] = own }
    for i: for j: all[i, j] = float64(part[0, i, j])
    for strip in range(31): for i: for j: all[i, j] += float64(part[strip + 1, i, j])
    for i: for j: { t = float32(c[i, j] + all[i, j]);  … }

What no strip has, where they do not come out even, is added to `all` before. How many strips there are follows from
sizes and options alone, and they are added up in order: what is computed does not depend on how many threads there are.
Sums of single precision are joined in double precision: a term is rounded no more than is promised
(`loops/roundings.py`).

Tiles share rows or columns of a product among threads as well (`parallelise.py`), and leave no partial products behind.
Strips are worth these where there are too few tiles for all cores, or where each core would read or pack what the
others do: with strips, every number is read by one core.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from math import inf

from weft.affine import Affine
from weft.loops import Buffer, Cast, Let, Local, Read, Role, Staged, Stmt, Store, Update
from weft.loops.constants import constant_value, neutral_of
from weft.loops.joint_sums import joint_sums
from weft.loops.legality import carried, points
from weft.loops.names import BlockNames, fresh_ids
from weft.loops.nodes import Inside
from weft.loops.semiring import is_rounded
from weft.loops.staged import Parts, parts_of, placed_parts, staged_product
from weft.loops.walk import Body, Loop, around, free, perfect, reads, substituted
from weft.machine import Machine
from weft.ops import Call, Scalar
from weft.ops.dtypes import numpy_type
from weft.schedule.compile_options import CompileOptions
from weft.schedule.nests.parallelise import alone_steps, shared_ways
from weft.schedule.nests.partition import strips_in
from weft.schedule.products.tile import best_tile
from weft.schedule.work_estimate import work_ns


def with_split_products(body: Sequence[Stmt], options: CompileOptions) -> Body:
    """A kernel with the long sums of its products in strips, where that is quicker for all cores together."""
    names, ids = BlockNames(body), fresh_ids(body, Role.PARTIAL)

    def split(stmt: Stmt) -> Sequence[Stmt]:
        batch, inside = perfect((stmt,))
        match inside:
            case (Staged() as staged,):
                strips = best_strips(batch, staged, options)
                if strips > 1 and not carried(batch, inside):
                    return joined_strips(batch, staged, strips, names, ids)
        return (stmt,)

    return tuple(one for stmt in body for one in split(stmt))


# Strips


@dataclass(frozen=True, slots=True)
class SplitProduct:
    """The strips of a product: the loop over them, the nest that leaves their partial products, and how to read one.

    `cells` are the loops of a partial product, in the order of its axes; the `last` of them lies side by side.
    """

    strip: Loop
    cells: tuple[Loop, ...]
    nest: Body
    part: Buffer

    def at(self, strip: Affine) -> Read:
        """The partial product of a strip, at a cell."""
        return Read(self.part, (strip, *(Affine.of(name) if many > 1 else Affine(()) for name, many in self.cells)))


def in_strips(
    batch: Sequence[Loop], staged: Staged, strips: int, names: BlockNames, ids: Iterator[int]
) -> SplitProduct:
    """So many strips of a product's longest sum, each as long; what that leaves over is in none of them."""
    found, (longest, size) = parts_of(staged), longest_sum(staged)
    strip, cells = (names.fresh("strip"), strips), _as_stored([*batch, *found.left, *found.right], found.rest)
    sizes, dtype = (strips, *(many for _, many in cells)), found.total.dtype
    part = Buffer(next(ids), names.fresh(f"{found.total.name}_part"), sizes, dtype, Role.PARTIAL)
    own = Local(names.fresh(f"{found.total.name}_own"), dtype)
    made = SplitProduct(strip, tuple(cells), (), part)
    here = made.at(Affine.of(strip[0]))
    index = Affine(((size // strips, strip[0]), (1, longest)))
    rest = (Store(part, here.at, own),)
    return replace(made, nest=around([strip, *batch], (_strip(found, (longest, size // strips), index, own, rest),)))


def longest_sum(staged: Staged) -> Loop:
    """The loop that strips cut."""
    return max(parts_of(staged).sums, key=lambda one: one[1], default=("", 1))


def _strip(found: Parts, loop: Loop, index: Affine, own: Local, rest: Body) -> Staged:
    """A product whose longest sum is so long, and stands at an index."""

    def moved(scalar: Scalar) -> Scalar:
        return substituted(scalar, {loop[0]: index})

    one, other = map(moved, found.factors)
    tests = tuple(Inside(moved(test.index), test.size) for test in found.tests)
    sums = tuple(loop if name == loop[0] else (name, many) for name, many in found.sums)
    start = Let(own, neutral_of(found.ops[0], own.dtype))
    return staged_product(found.left, found.right, sums, start, found.ops, (one, other), rest, tests=tests)


def _as_stored(cells: Sequence[Loop], rest: Sequence[Stmt]) -> list[Loop]:
    """Loops in the order of the axes of what is stored first."""
    first = next((one for one in rest if isinstance(one, Store | Update)), None)
    names = [name for index in first.at for name in free(index)] if first else []
    return sorted(cells, key=lambda one: names.index(one[0]) if one[0] in names else -1)


# Joining


def joined_strips(batch: Sequence[Loop], staged: Staged, strips: int, names: BlockNames, ids: Iterator[int]) -> Body:
    """A product in so many strips, whose partial products are added up in order, each with all its cells."""
    found, made, (longest, size) = parts_of(staged), in_strips(batch, staged, strips, names, ids), longest_sum(staged)
    narrow, wide = found.total.dtype, "float64" if is_rounded(found.ops, found.total.dtype) else found.total.dtype
    shape = made.part.shape[1:]
    total = Buffer(next(ids), names.fresh(f"{found.total.name}_all"), shape, wide, Role.PARTIAL)
    cell = Read(total, made.at(Affine(())).at[1:])

    def taken(loop: Loop, value: Scalar) -> Body:
        """Values that every cell takes in, at each iteration of a loop."""
        update = Update(total, cell.at, found.ops[0], _cast(value, narrow, wide))
        return around([loop, *made.cells], (update,)) if loop[1] else ()

    strip, end = made.strip[0], size // strips * strips
    beyond = substituted(Call(found.ops[1], found.factors), {longest: Affine(((1, longest),), end)})
    sums = [one for one in found.sums if one[0] != longest]
    left_over = taken((longest, size - end), beyond)
    first = Store(total, cell.at, _cast(made.at(Affine(())), narrow, wide))
    return (
        *made.nest,
        *around(made.cells, (first,)),
        *taken((strip, strips - 1), made.at(Affine(((1, strip),), 1))),
        *(around(sums, left_over) if left_over else ()),
        *around(made.cells, (Let(found.total, _cast(_from_start(found, cell, wide), wide, narrow)), *found.rest)),
    )


def _from_start(found: Parts, cell: Read, wide: str) -> Scalar:
    """All strips together with what the sum starts from."""
    neutral = neutral_of(found.ops[0], found.total.dtype)
    if constant_value(found.start) is not None and constant_value(found.start) == constant_value(neutral):
        return cell
    return Call(found.ops[0], (_cast(found.start, found.total.dtype, wide), cell))


def _cast(value: Scalar, old: str, new: str) -> Scalar:
    return value if old == new else Cast(new, value)


# Whether it pays


def best_strips(batch: Sequence[Loop], staged: Staged, options: CompileOptions) -> int:
    """Into how many strips the sums of a product are best cut; 1 if threads do as well without.

    Of about as good numbers it is the largest, so that a core that is late does not keep the others waiting.
    """
    found, ns, cores = parts_of(staged), work_ns(around(batch, (staged,)), options.machine), options.machine.cores
    fewest = options.thresholds.few_iterations * _joining_ns(found, points(batch), options.machine)
    if found.tests or joint_sums(found)[0] or ns < 2 * options.chunk_ns or fewest > ns * (1 - 1 / cores):
        return 1
    whole = best_tile(staged, options)
    return 1 if whole is None else _SplitCost(whole, points(batch), ns, options).best()


def _joining_ns(found: Parts, batches: int, machine: Machine) -> float:
    """What it takes to add the cells of a strip to what is added up, and to have them from the core that wrote them."""
    size = points((*found.left, *found.right)) * batches * numpy_type(found.total.dtype).itemsize
    return 2 * size * 1e9 * (1 / machine.bytes_per_s + 2 / machine.cached_bytes_per_s)


@dataclass(frozen=True, slots=True)
class _SplitCost:
    """What a product in tiles takes with strips and without, in steps of a vector unit: so many batches of it, which
    take so long."""

    staged: Staged
    batches: int
    ns: float
    options: CompileOptions

    def best(self) -> int:
        thresholds, once = self.options.thresholds, self._alone(self.staged) * self.batches
        least = self._unsplit() / (1 + thresholds.joining_share)
        if once >= least * self.options.machine.cores:
            return 1
        most = min(thresholds.most_chunks, int(self.ns // self.options.chunk_ns))
        counts = {strips_in(longest_sum(self.staged)[1], most >> log) for log in range(most.bit_length())}
        steps = {one: self._split(one) for one in counts if one >= thresholds.few_iterations}
        best = min(steps.values(), default=inf)
        good = (one for one, found in steps.items() if found <= best * (1 + thresholds.claiming_share))
        return max(good) if best < least else 1

    def _unsplit(self) -> float:
        """When the last core is done, where threads share batches, or rows or columns of each."""
        rows, columns = self._reading(self.staged)
        reading = {"rows": self._shared(rows) + columns, "columns": rows + self._shared(columns)}
        ways = shared_ways(self.staged, self.ns, self.options)
        shared = [self.batches * (steps + reading[side]) for steps, _, side, _ in ways]
        return min([self._rounds(self.batches) * self._alone(self.staged), *shared])

    def _split(self, strips: int) -> float:
        """The same where they share strips, which are joined at the end."""
        found, (longest, size) = parts_of(self.staged), longest_sum(self.staged)
        strip = _strip(found, (longest, size // strips), Affine.of(longest), found.total, found.rest)
        one = best_tile(strip, self.options)
        joining = self._steps(_joining_ns(found, self.batches, self.options.machine))
        return inf if one is None else self._rounds(strips * self.batches) * self._alone(one) + strips * joining

    def _alone(self, staged: Staged) -> float:
        """What one core takes for a product, or a strip of it."""
        return alone_steps(staged, self.options) + sum(self._reading(staged))

    def _reading(self, staged: Staged) -> tuple[float, float]:
        """What it takes to read the rows and the columns of a product once, wherever those of all strips lie."""
        found, machine = placed_parts(staged), self.options.machine
        rows, columns = (_factor_bytes(found, side) for side in (0, 1))
        all_bytes = sum(_factor_bytes(placed_parts(self.staged), side) for side in (0, 1)) * self.batches
        each = self._steps(machine.transfer_ns(all_bytes) / all_bytes)
        return each * rows, each * columns

    def _rounds(self, pieces: int) -> int:
        return -(-pieces // self.options.machine.cores)

    def _shared(self, steps: float) -> float:
        return steps / self.options.machine.cores

    def _steps(self, ns: float) -> float:
        """The steps of a vector unit in so many nanoseconds."""
        assert self.staged.what.tile is not None
        return ns * self.options.machine.flops_per_s / (2 * self.staged.what.tile.lanes * 1e9)


def _factor_bytes(found: Parts, side: int) -> int:
    """The bytes of a factor's numbers that a product reads."""
    own, tensors = (found.left, found.right)[side], reads(found.factors[side])
    return points((*own, *found.sums)) * max(numpy_type(one.buffer.dtype).itemsize for one in tensors)
