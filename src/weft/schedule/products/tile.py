"""Register tiling of contractions: which loops become rows and columns of tiles, and along which of them vectors lie.

    tile    rows of one factor, each scalar broadcast, times vectors of columns of the other
    words   the same of narrow numbers, those of several sums side by side, whose products are added up in one step
    dot     vectors along the sums, reduced across lanes at the end: where both factors are contiguous along the sums
            and there are few cells; of sums of floats alone, others are loops then

Columns that are not contiguous, fill no vector or are computed are packed into a panel first, which pays if there are
many rows. Rows of which every scalar lies in another line of the cache are packed into strips. Rows that are computed
are so again for each tile. Which way is best is estimated in steps of the machine's vector unit for each cell. A
contraction that is better left as loops becomes loops.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import permutations
from math import inf, prod

from weft.loops import Cast, Let, MalformedLoops, Product, Read, Staged, Stmt, Store, Tile, Update, dtype_of, walk
from weft.loops.interleaving import MULTIPLIED, interleaving, lies_in_words, narrow, register_type
from weft.loops.joint_sums import all_sums, joint_sums
from weft.loops.legality import follow, points
from weft.loops.nests import stride_of
from weft.loops.product_legality import (
    MOST_VECTORS,
    NARROWEST,
    WIDEST,
    at_a_point,
    lies_along,
    rest_in_order,
    turns_in_words,
    unfit,
)
from weft.loops.roundings import PARTS, ROUNDINGS
from weft.loops.semiring import asks_for_numbers, is_commutative, is_rounded
from weft.loops.show import show_product
from weft.loops.staged import Parts, collapsed_parts, parts_of, placed_parts, staged_product
from weft.loops.walk import Loop, operations_in, top_down
from weft.machine import Machine
from weft.ops import Num, Scalar
from weft.ops.dtypes import is_float, numpy_type
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.options import Options
from weft.schedule.products.packing import (
    DEPTH,
    deepest,
    even,
    lines_ahead,
    most_rows,
    panels_at_once,
    repays,
    scattered_rows,
    stride,
    vector_bytes,
    widest,
)

#: How often the widest vector is halved until it is reduced to a scalar: a rounding and a step each time.
_HALVINGS = (WIDEST // numpy_type("float32").itemsize).bit_length() - 1

#: A product with its loops in the order in which it would be tiled, and how.
_Way = tuple[Parts, Tile]


def tiled(body: Sequence[Stmt], options: CompileOptions = DEFAULTS) -> tuple[Stmt, ...]:
    """A block with its contractions in tiles, of the shape asked for where one is; or as loops."""

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Staged):
            return None
        found = best_tile(stmt, options)
        return stmt.body if found is None else (found,)

    return top_down(body, rule)


def best_tile(staged: Staged, options: CompileOptions = DEFAULTS) -> Staged | None:
    """The best way to tile a contraction; None if it is better left as loops."""
    best = _best_way(staged, options)
    return None if best is None else _in_tiles(staged, best, options)


def has_tile(staged: Staged, options: CompileOptions = DEFAULTS) -> bool:
    """Is there a way to tile a contraction that is better than to leave it as loops?"""
    return _best_way(staged, options) is not None


def _best_way(staged: Staged, options: CompileOptions) -> _Way | None:
    ways = [(way, _steps(way, options)) for way in _all_ways(staged, options)]
    best, steps = min(ways, key=lambda one: one[1], default=(None, inf))
    return None if best is None or steps == inf or not _runs_in(best) else best


def tilings(staged: Staged, options: CompileOptions = DEFAULTS) -> list[Staged]:
    """A contraction in every way it can be tiled, the best first."""
    ways = [(way, _steps(way, options)) for way in _all_ways(staged, options)]
    ways.sort(key=lambda one: one[1])
    return [_in_tiles(staged, way, options) for way, steps in ways if steps < inf and _runs_in(way)]


def retiled(
    staged: Staged, options: CompileOptions, rows: int | None = None, vectors: int | None = None, block: int = 0
) -> Staged:
    """A contraction in tiles of another shape, or with panels of at most so many iterations of its first sum."""
    found, tile = placed_parts(staged), staged.what.tile
    assert tile is not None
    high, wide = tile.rows if rows is None else rows, tile.vectors if vectors is None else vectors
    shaped = _finished(found, tile, options.but(schedule=Options(rows=high, vectors=wide)))
    if tile.dot:
        shaped = replace(shaped, vectors=wide)
    if tile.panel and block and not joint_sums(found)[0]:
        shaped = replace(shaped, block=_whole_words(found, shaped, min(block, shaped.block or found.sums[0][1])))
        shaped = _grouped(found, replace(shaped, parts=_lengths(found, shaped)), options)
    return replace(staged, what=replace(staged.what, tile=shaped))


def placed_as(staged: Staged, what: Product) -> Staged:
    """A contraction that runs as a product says, if that is legal."""
    placed = arranged_as(staged, what)
    if problem := unfit(placed):
        raise MalformedLoops(f"a product cannot run {what.tile}: {problem}")
    if what.tile and what.tile.parts != _lengths(placed_parts(placed), what.tile):
        raise MalformedLoops(f"a product cannot run {what.tile}: its sums would be rounded more often than is promised")
    return placed


def arranged_as(staged: Staged, what: Product) -> Staged:
    """A contraction with the order of loops and factors of a product, and with its tile."""
    found = parts_of(staged)
    groups = found.left, found.right, found.sums
    sizes, wanted = {loop[0]: loop for group in groups for loop in group}, (what.left, what.right, what.sums)
    own = [sorted(name for name, _ in group) for group in groups]
    asked, factors = [sorted(group) for group in wanted], found.factors
    if asked == [own[1], own[0], own[2]] != own and is_commutative(found.ops):
        factors = (factors[1], factors[0])
    elif asked != own:
        raise MalformedLoops(f"{show_product(what)} is none of its products")
    left, right, sums = (tuple(sizes[name] for name in group) for group in wanted)
    return staged_product(left, right, sums, Let(found.total, found.start), found.ops, factors, found.rest, what.tile)


def steps_of(staged: Staged, options: CompileOptions = DEFAULTS) -> float:
    """What a cell of a contraction costs, tiled the best way, in steps of a vector unit; infinite if as loops."""
    return min((_steps(one, options) for one in _all_ways(staged, options)), default=inf)


def number_of_parts(sizes: Sequence[int], most: int) -> int:
    """How many parts of at most so many iterations loops of these sizes are cut into (`loops/roundings.py`)."""
    each, cut = 1, False
    for size in reversed(sizes):
        if cut or each * size <= most:
            each *= size
        else:
            each, cut = -(-size // (most // each)), True
    return each if cut else 1


# Ways


def _runs_in(way: _Way) -> bool:
    """Does a product run in a tile? Along their sums only sums of floats do."""
    parts, tile = way
    return not tile.dot or is_rounded(parts.ops, parts.total.dtype)


def _all_ways(staged: Staged, options: CompileOptions) -> Iterator[_Way]:
    """Every way, and the same on vectors half as wide, where fewer of their lanes are beyond the last column."""
    found = parts_of(staged)
    for parts, tile in _ways(_merged(found, _runs(found)), options):
        yield parts, tile
        half, columns = tile.lanes // 2, parts.right[-1][1]
        if not tile.dot and vector_bytes(options.machine) > NARROWEST and 0 < columns % tile.lanes <= half:
            yield parts, replace(tile, lanes=half, vectors=2 * tile.vectors)


def _in_tiles(staged: Staged, chosen: _Way, options: CompileOptions) -> Staged:
    """A contraction tiled one of its ways, with each run of loops as one."""
    (way, tile), runs = chosen, _runs(parts_of(staged))
    groups = (way.left, way.right, way.sums)
    left, right, sums = (tuple(loop for one in group for loop in runs[one[0]]) for group in groups)
    rows, columns, terms = (len(runs[group[-1][0]]) if group else 1 for group in groups)
    collapse = rows, columns, terms
    tile = replace(tile, collapse=collapse)
    tile = _finished(collapsed_parts(replace(way, left=left, right=right, sums=sums), collapse), tile, options)
    return staged_product(left, right, sums, Let(way.total, way.start), way.ops, way.factors, way.rest, tile)


def _runs(parts: Parts) -> dict[str, list[Loop]]:
    """Loops that can run as one, by the innermost of them."""
    found, body = dict[str, list[Loop]](), at_a_point(parts)
    for group in (parts.left, parts.right, parts.sums):
        runs = [[one] for one in group]
        while pair := next((two for two in permutations(runs, 2) if follow(two[0][-1][0], two[1][0], body)), None):
            runs = [one for one in runs if one not in pair] + [[*pair[0], *pair[1]]]
        found |= {run[-1][0]: run for run in runs}
    return found


def _merged(parts: Parts, runs: Mapping[str, Sequence[Loop]]) -> Parts:
    """Parts with each run of loops as one, which is called as the innermost."""
    left, right, sums = (
        tuple((name, points(runs[name])) for name, _ in group if name in runs)
        for group in (parts.left, parts.right, parts.sums)
    )
    return replace(parts, left=left, right=right, sums=sums)


def _ways(parts: Parts, options: CompileOptions) -> Iterator[_Way]:
    sides, thresholds = [(parts.factors[0], parts.left), (parts.factors[1], parts.right)], options.thresholds
    plain = Tile(0, thresholds.tile_vectors, lanes_of(parts, options.machine))
    for (mine, own), (other, others) in (sides, sides[::-1]) if is_commutative(parts.ops) else (sides[::-1],):
        for loop in own:
            rows = _rows(others, other, thresholds.tile_rows)
            way = replace(parts, left=rows, right=_with_last(own, loop), factors=(other, mine))
            yield from _interleaved_ways(way, plain, options)
            if joint := joint_sums(way)[0]:
                yield from _joint_ways(way, joint, plain, options)
            elif lies_along(mine, loop, parts.total.dtype):
                blocks = replace(way, sums=_in_blocks(way.sums, options))
                packed = repays(blocks, options)
                yield (blocks, replace(plain, panel="copied")) if packed else (way, plain)
                if scattered_rows(way, options.machine):
                    yield way, replace(plain, panel="copied", strips="copied")
            else:
                inner = next((one for one in parts.sums if stride(mine, one) == 1), None)
                sums = _with_last(parts.sums, inner) if inner else parts.sums
                way = replace(way, sums=_in_blocks(sums, options))
                turned = inner and isinstance(mine, Read) and is_float(parts.total.dtype) and _is_spaced(mine, loop)
                yield way, replace(plain, panel="transposed" if turned else "copied")
                if _conversions(way.factors[0], options.machine) and not turned:
                    yield way, replace(plain, panel="copied", strips="copied")
    for loop in parts.sums:
        if _along_sums(parts, loop):
            (few, left), (many, right) = sorted(sides, key=lambda side: points(side[1]))
            if right:
                way = replace(parts, left=_largest(left), right=_largest(right), factors=(few, many))
                columns = thresholds.dot_columns if points(left) > 1 else thresholds.dot_row_columns
                yield replace(way, sums=_with_last(parts.sums, loop)), replace(plain, vectors=columns, dot=True)


def _interleaved_ways(way: Parts, plain: Tile, options: CompileOptions) -> Iterator[_Way]:
    """The way in words, if the machine multiplies such: rows are packed that do not lie in them."""
    many = interleaving(way)
    if many == 1 or MULTIPLIED[many] not in options.machine.narrow.split():
        return
    rows = narrow(way.factors[0])
    along = [one for one in way.sums if isinstance(rows, Read) and stride_of(rows, one[0]) == 1]
    way = replace(way, sums=_in_blocks(_with_last(way.sums, (along or _largest(way.sums))[-1]), options))
    tile = replace(plain, interleaved=many, panel="transposed" if turns_in_words(way, many) else "copied")
    lanes = vector_bytes(options.machine) // numpy_type(register_type(way, tile)).itemsize
    strips = "" if lies_in_words(way.factors[0], way.sums[-1], many) else "copied"
    yield way, replace(tile, lanes=lanes, strips=strips)


def _joint_ways(way: Parts, joint: Sequence[Parts], plain: Tile, options: CompileOptions) -> Iterator[_Way]:
    """The ways of a product with sums beside its own, whose columns are packed as its are: any can be copied."""
    every, last = (way, *joint), way.right[-1]
    if all(lies_along(one.factors[1], last, one.total.dtype) for one in every):
        packed = any(repays(one, options) for one in every)
        yield way, replace(plain, panel="copied" if packed else "")
    else:
        turned = all(stride(one.factors[1], one.sums[-1]) == 1 and _is_turned(one.factors[1], last) for one in every)
        yield way, replace(plain, panel="transposed" if turned else "copied")


def _is_turned(factor: Scalar, loop: Loop) -> bool:
    """Can a factor's columns be transposed into a panel, if they lie along the last sum?"""
    return isinstance(factor, Read) and is_float(factor.buffer.dtype) and _is_spaced(factor, loop)


def _along_sums(parts: Parts, loop: Loop) -> bool:
    """Do both factors lie along a sum; and those of sums beside it along their last?"""
    joint = joint_sums(parts)[0]
    pairs = [(parts, loop), *((one, one.sums[-1]) for one in joint)]
    return all(lies_along(factor, last, one.total.dtype) for one, last in pairs for factor in one.factors)


def _rows(loops: Sequence[Loop], factor: Scalar, tall: int) -> tuple[Loop, ...]:
    """Loops with that of rows last: of those that fill a tile the one whose rows lie closest together."""
    whole = [one for one in loops if one[1] >= tall]
    return _with_last(loops, min(whole, key=lambda one: abs(stride(factor, one)))) if whole else _largest(loops)


def _strips(parts: Parts) -> str:
    """How rows are packed that are: row by row where they lie along the last sum, else sum by sum."""
    last, _ = parts.sums[-1]
    found = (one for one in walk(parts.factors[0]) if isinstance(one, Read))
    return "transposed" if all(stride_of(one, last) == 1 for one in found) else "copied"


def _in_blocks(sums: tuple[Loop, ...], options: CompileOptions) -> tuple[Loop, ...]:
    """Sums, all but the last in any order, of which a panel holds those of an iteration of the first, if it can."""
    most = deepest(options)
    if points(sums[1:]) <= most:
        return sums
    first = next((one for one in sums[:-1] if points(sums) <= most * one[1]), sums[0])
    return (first, *(one for one in sums if one != first))


def lanes_of(parts: Parts, machine: Machine) -> int:
    """How many sums of a product a vector of a machine holds."""
    return vector_bytes(machine) // numpy_type(parts.total.dtype).itemsize


def _most_lanes(way: _Way, machine: Machine) -> int:
    """How many sums of a product a vector of a machine holds as its tile adds them up."""
    return vector_bytes(machine) // numpy_type(register_type(*way)).itemsize


def _steps_of_sums(parts: Parts, tile: Tile) -> list[Loop]:
    """The loops over sums, of which the last one takes a word in an iteration."""
    *outer, (last, size) = parts.sums
    return [*outer, (last, -(-size // tile.interleaved))]


def _whole_words(parts: Parts, tile: Tile, block: int) -> int:
    """So many iterations of the first sum, or more, that end with a word."""
    many = tile.interleaved if len(parts.sums) == 1 else 1
    return -(-block // many) * many


def _largest(loops: Sequence[Loop]) -> tuple[Loop, ...]:
    return _with_last(loops, max(loops, key=lambda one: one[1])) if loops else ()


def _with_last(loops: Sequence[Loop], last: Loop) -> tuple[Loop, ...]:
    return (*(one for one in loops if one != last), last)


def _is_spaced(factor: Read, loop: Loop) -> bool:
    """Is a factor's tensor as far from one iteration of a loop to the next, each time?"""
    return stride_of(factor, loop[0]) is not None


def _steps(way: _Way, options: CompileOptions) -> float:
    """The cost of a cell, in steps of a vector unit; infinite where it cannot be done."""
    parts, tile = way
    several = all_sums(parts)
    if len(several) > 1 and (tile.strips or any(_block(one, tile, deepest(options)) for one in several)):
        return inf
    strided = float(_row_major(parts, parts.right) < 0)  # a store for each cell is a step
    return sum(_sum_steps((one, tile), options) for one in several) + strided


def _sum_steps(way: _Way, options: CompileOptions) -> float:
    """The same of one sum, up to its total."""
    (parts, tile), machine = way, options.machine
    lanes, depth = tile.lanes, points(parts.sums)
    if tile.dot:
        outer, inner = points(parts.sums[:-1]), parts.sums[-1][1]
        return machine.load_steps * outer * -(-inner // lanes) + _HALVINGS
    columns = parts.right[-1][1]
    steps = points(_steps_of_sums(parts, tile)) * -(-columns // lanes) / columns
    if lanes < _most_lanes(way, machine):
        steps *= machine.narrow_steps / 2
    reused = points(parts.right) if tile.strips else min(columns, tile.vectors * lanes)
    rows = narrow(parts.factors[0]) if tile.interleaved > 1 else parts.factors[0]
    computed = _operations(rows) + _conversions(rows, machine)
    steps += machine.scalar_steps * depth * computed / reused
    if tile.panel:
        if points(parts.sums[1:]) > (DEPTH if tile.strips else deepest(options)):
            return inf
        transposed = tile.panel == "transposed" or stride(parts.factors[1], parts.right[-1]) != 1
        steps += (machine.transpose_steps if transposed else machine.copy_steps) * (depth / points(parts.left))
    if tile.strips:
        steps += machine.transpose_steps * depth / points(parts.right)
    elif scattered_rows(parts, machine):
        steps += machine.line_steps * depth / min(columns, tile.vectors * lanes)
    return steps


def _operations(factor: Scalar) -> int:
    """What computing a factor takes, in operations."""
    return 0 if isinstance(factor, Read) else operations_in(factor)


def _conversions(factor: Scalar, machine: Machine) -> float:
    """What converting a factor takes, in operations: from bfloat16 nothing, its bits are those of the wider type."""
    if isinstance(factor, Read):  # what says which row it is is known before the sums
        return 0.0
    found = [dtype_of(one.value) for one in walk(factor) if isinstance(one, Cast) and not isinstance(one.value, Num)]
    wide = [one for one in found if one != "bfloat16"]
    return sum(machine.half_operations if one == "float16" else machine.convert_operations for one in wide)


def _row_major(parts: Parts, loops: Sequence[Loop]) -> int:
    """How many of the buffers written are contiguous along the last of some loops, less those that are not."""
    cells = [one for one in parts.rest if isinstance(one, Store | Update)]
    return sum(1 if stride_of(Read(one.buffer, one.at), loops[-1][0]) == 1 else -1 for one in cells)


# Shapes


def _finished(parts: Parts, tile: Tile, options: CompileOptions) -> Tile:
    """The tile with all that is left to say: where columns lie in memory, or one tile has all rows, it is wide."""
    thresholds, size = options.thresholds, parts.left[-1][1] if parts.left else 1
    vectors, parted = -(-parts.right[-1][1] // tile.lanes), _most_lanes((parts, tile), options.machine) // tile.lanes
    own = thresholds.interleaved_vectors if tile.interleaved > 1 else thresholds.tile_vectors
    usual = min(own * parted, vectors)
    most = most_rows(options, usual, 0 if tile.dot else size)
    tall = options.schedule.rows or most // (2 if tile.dot else 1) or 1
    rows = even(size, tall)
    if not tile.dot and (not tile.panel or points(parts.left) <= tall):
        usual = widest(rows, parts.right, tile.lanes, options)
    depth = DEPTH * 2 // usual // 2 if tile.strips else deepest(options) * thresholds.tile_vectors // usual
    several = bool(joint_sums(parts)[0])
    tile = replace(tile, block=_block(parts, tile, depth) if tile.panel and not several else 0)
    wide = min(options.schedule.vectors or min(usual, vectors), MOST_VECTORS)
    looped = parts.sums[:-1] if tile.dot else parts.sums
    by_rows = bool(parts.left) and _row_major(parts, parts.left) > _row_major(parts, parts.right)
    tile = replace(
        tile,
        rows=even(size, min(rows, MOST_VECTORS // max(wide, tile.vectors if tile.dot else 1))),
        vectors=tile.vectors if tile.dot else wide,
        strips=_strips(parts) if tile.strips else "",
        parts=_lengths(parts, tile),
        unroll=len(looped) > 1 and looped[-1][1] <= options.short_loop,
        along="rows" if by_rows else "columns",
        vector=not rest_in_order(parts, parts.left if by_rows else parts.right),
    )
    return _grouped(parts, replace(tile, ahead=lines_ahead(parts, tile, options)), options)


def _grouped(parts: Parts, tile: Tile, options: CompileOptions) -> Tile:
    """The tile with what is done at once: for a block of sums, for rows that are packed, and to look at terms.

    All rows of several loops, if they are few, share a panel for a block of their sums.
    """
    thresholds, rows = options.thresholds, points(parts.left)
    if joint_sums(parts)[0]:
        return replace(tile, group=thresholds.joint_tiles, panels=1, packed=1, looks=0)
    grouped = bool(tile.block or tile.strips)
    whole = len(parts.left) > 1 and rows <= thresholds.group_rows and not tile.strips
    asks = asks_for_numbers(parts.ops, parts.total.dtype) and rows >= thresholds.look_rows
    at_once = 1 if tile.block and whole else panels_at_once(parts, tile, options)
    return replace(
        tile,
        group=thresholds.group_tiles if grouped and not whole else 0,
        panels=thresholds.group_panels if tile.strips else at_once if grouped else 1,
        packed=thresholds.packed_strips if tile.strips else 1,
        looks=(1 if grouped else thresholds.look_tiles) if asks else 0,
        at_once=at_once,
    )


def _block(parts: Parts, tile: Tile, depth: int) -> int:
    """How many iterations of the first sum a panel takes, about the same each time; 0 if all fit into one.

    One panel that is a little deeper is better than two.
    """
    if points(sums := _steps_of_sums(parts, tile)) <= depth * 7 // 5:
        return 0
    most = max(1, depth // points(sums[1:]))
    return even(sums[0][1], most) * (tile.interleaved if len(sums) == 1 else 1)


def _nests(parts: Parts, tile: Tile) -> list[list[int]]:
    """The sizes of the loops that one register adds up in, one nest after another."""
    sizes = [size for _, size in _steps_of_sums(parts, tile)]
    if not tile.dot:
        return [sizes]
    *outer, last = sizes  # as if vectors were narrow; their lanes are added up across at the end
    return [[*outer, last // (16 // numpy_type(parts.total.dtype).itemsize)], *([outer] if last % 16 else [])]


def _lengths(parts: Parts, tile: Tile) -> tuple[int, ...]:
    """How many products a register adds up at most, and others of those sums; about as many each time."""
    if not is_rounded(parts.ops, parts.total.dtype):
        return ()
    if tile.block:
        return PARTS
    found, together = [_nests(one, tile) for one in all_sums(parts)], tile.interleaved
    most = ROUNDINGS - (_HALVINGS if tile.dot else 0)
    if max(sum(map(prod, nests)) for nests in found) * together < most:
        return ()  # the last time is where it is added to what it starts from

    def count(each: int) -> int:
        return max(sum(number_of_parts(one, each) for one in nests) for nests in found)

    fewest = next((many for many in range(2, most // 2) if count((most - many) // together) <= many), 0)
    return (next(each for each in range(1, most) if count(each) <= fewest) * together,) if fewest else PARTS
