"""What can be chosen about a product: the way it is tiled, or loops instead; the shape of tiles; what threads share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace

from weft.loops import Annotation, For, Product, Staged, Stmt
from weft.loops.legality import points
from weft.loops.product_legality import shared_product
from weft.loops.staged import placed_parts
from weft.loops.walk import everything
from weft.schedule.compile_options import CompileOptions
from weft.schedule.decisions import Decisions
from weft.schedule.nests.bands import tile_loop
from weft.schedule.nests.parallelise import sides
from weft.schedule.products.packing import even
from weft.schedule.products.tile import arranged_as, retiled, tilings
from weft.schedule.tuning.knobs import Knob, chunk_sizes

#: Rows and vectors of tiles that are tried.
_ROWS, _VECTORS = (2, 3, 4, 5, 6, 7, 8, 10, 12, 14), (1, 2, 3, 4, 6, 8)


def loop_names(body: Sequence[Stmt]) -> list[str]:
    """The names of all loops of a block."""
    return [one.loop for one in everything(body) if isinstance(one, For)]


def product_knobs(staged: Staged, options: CompileOptions, rules: Decisions) -> Iterator[Knob]:
    total, ways = staged.what.total, tilings(staged, options)
    loops = {name: rules.how(name) for name in loop_names(staged.body)}
    yield _way(total, [one.what for one in ways], loops, options, staged)
    if not ways:
        return

    def shaped(what: str, values: Sequence[int], change: Callable[[Staged, int], Staged]) -> Knob:
        def write(found: Decisions, value: int) -> Decisions:
            if (product := found.product(total)) is None or product.tile is None:
                return found
            return found.with_product(total, change(arranged_as(staged, product), value).what)

        def read(found: Decisions) -> int | None:
            product = found.product(total)
            return getattr(product.tile, what) if product and product.tile else None

        return Knob(f"{total} {what}", tuple(values), read, write)

    tall = {even(one, rows) for one in {_last_rows(each) for each in ways} for rows in _ROWS}
    yield shaped("rows", sorted(tall), lambda one, rows: retiled(one, options, rows=rows))
    yield shaped("vectors", _VECTORS, lambda one, wide: retiled(one, options, vectors=wide))
    blocks = {one.what.tile.block or points(placed_parts(one).sums[:1]) for one in ways if one.what.tile}
    halves = sorted({size // part for size in blocks for part in (1, 2, 4) if size // part >= 16})
    yield shaped("block", halves, lambda one, block: retiled(one, options, block=block))
    yield _shares(total, ways, options)


def _last_rows(staged: Staged) -> int:
    """How many rows the loop has that tiles cut."""
    left = placed_parts(staged).left
    return left[-1][1] if left else 1


def _way(
    total: str,
    ways: Sequence[Product],
    loops: Mapping[str, tuple[Annotation, ...]],
    options: CompileOptions,
    staged: Staged,
) -> Knob:
    """A choice among the ways to tile a product, and the loops that it is."""

    def read(found: Decisions) -> Product | None:
        product = found.product(total)
        return next((one for one in ways if product and _same_way(one, product)), None)

    def write(found: Decisions, value: Product | None) -> Decisions:
        product = found.product(total)
        if value is None and product is None:
            return found
        found = found.with_order([*loops], ())
        for name, how in loops.items():
            found = found.with_tiles(name, 0).with_how(tile_loop(name), ()).with_how(name, () if value else how)
        if product and product.tile and value and value.tile and not (product.tile.dot or value.tile.dot):
            value = retiled(arranged_as(staged, value), options, product.tile.rows, product.tile.vectors).what
        return found.with_product(total, value)

    return Knob(f"{total} way", (None, *ways), read, write)


def _same_way(one: Product, other: Product) -> bool:
    """Do two products differ in nothing but the shape of their tiles and what is shared?"""
    assert one.tile is not None
    assert other.tile is not None
    kind = {name: getattr(other.tile, name) for name in ("dot", "panel", "strips", "interleaved", "collapse")}
    return replace(one, tile=None) == replace(other, tile=None) and one.tile == replace(one.tile, **kind)


def _shares(total: str, ways: Sequence[Staged], options: CompileOptions) -> Knob:
    """A choice of what threads share of a product: nothing, columns or rows, so many at a time."""
    sizes = {size for one in ways for _, size in sides(one)}
    chunks = sorted({chunk for size in sizes for chunk in chunk_sizes(size, options)})
    legal = [side for side in ("columns", "rows") if not all(shared_product(one, side) for one in ways)]
    values = [("", 1), *((side, chunk) for side in legal for chunk in chunks)]

    def read(found: Decisions) -> tuple[str, int] | None:
        product = found.product(total)
        return (product.tile.shared, product.tile.chunk) if product and product.tile else None

    def write(found: Decisions, value: tuple[str, int]) -> Decisions:
        product = found.product(total)
        if product is None or product.tile is None:
            return found
        tile = replace(product.tile, shared=value[0], chunk=value[1])
        return found.with_product(total, replace(product, tile=tile))

    return Knob(f"{total} threads", tuple(values), read, write)
