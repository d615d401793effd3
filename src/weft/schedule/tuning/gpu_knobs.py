"""What can be chosen about a launch of a GPU: how many lanes, warps, rows, columns, sums and stages there are, and how
the factors of a product are loaded."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import Any

from weft.loops import Annotation, Blocks, For, Grid, Lanes, Owners, Product, Role, Staged, Stmt
from weft.loops.effects import effects
from weft.loops.legality import collapsed_loops, points
from weft.loops.product_legality import SMALLEST_BLOCK
from weft.loops.staged import parts_of
from weft.loops.tensor_maps import factor_maps
from weft.loops.walk import everything, perfect
from weft.schedule.decisions import Decisions
from weft.schedule.gpu_model import Gpu
from weft.schedule.tuning.knobs import Knob

_WARPS = (1, 2, 4, 8, 16, 32)
_STAGES = (1, 2, 3, 4, 5)
_GROUPS = (1, 4, 8, 16)
_PARTS = (1, 2, 4, 8)
#: Rows and columns of blocks, and sums taken at a time.
_SIDES, _SUMS = (16, 32, 64, 128, 256), (16, 32, 64, 128)
#: So many times as many lanes, or as few, are tried.
_FARTHEST = 8
_MOST_LANES = 1 << 15


def gpu_knobs(body: Sequence[Stmt], gpu: Gpu) -> list[Knob]:
    """What can be chosen about a launch of systematic names."""
    found = list[Knob]()
    _, alone = perfect(body)
    held = any(one.role is Role.PRIVATE for one in effects(body).buffers)
    for stmt in everything(body):
        match stmt:
            case For(loop=loop, how=how):
                size = points(collapsed_loops(stmt)[0])
                kinds = [one for one in how if isinstance(one, Grid | Owners) or (isinstance(one, Lanes) and not held)]
                found += [knob for one in kinds for knob in _of_loop(loop, size, one)]
            case Staged(what=Product(total=total, blocks=Blocks())):
                found += _of_blocks(total)
                if gpu.copies_blocks and alone == (stmt,) and factor_maps(parts_of(stmt)) is not None:
                    found.append(_of_block(total, "maps", (False, True)))
    return [one for one in found if len(one.values) > 1]


def _of_loop(loop: str, size: int, how: Annotation) -> Iterator[Knob]:
    match how:
        case Grid(block=block):
            yield _numbers(loop, Grid, "block", _near(block, size))
            yield _numbers(loop, Grid, "warps", _WARPS)
        case Lanes(block=block):
            yield _numbers(loop, Lanes, "block", _near(block, size))
        case Owners(block=block, part=part):
            yield _numbers(loop, Owners, "block", _near(block, _MOST_LANES))
            yield _numbers(loop, Owners, "part", _near(part, block))
            yield _numbers(loop, Owners, "warps", _WARPS)


def _near(block: int, size: int) -> list[int]:
    """Powers of two around a number of lanes, no more than hold all iterations."""
    most = min(_MOST_LANES, 1 << (size - 1).bit_length(), _FARTHEST * block)
    least = max(1, block // _FARTHEST)
    return [1 << at for at in range(most.bit_length()) if least <= 1 << at <= most]


def _numbers(loop: str, kind: type[Annotation], name: str, values: Sequence[int]) -> Knob:
    """A number of an annotation."""

    def read(found: Decisions) -> Any:
        return next((getattr(one, name) for one in found.how(loop) if isinstance(one, kind)), None)

    def write(found: Decisions, value: int) -> Decisions:
        changed = [_with_number(one, name, value) if isinstance(one, kind) else one for one in found.how(loop)]
        return found.with_how(loop, changed)

    return Knob(f"{loop} {kind.__name__.lower()} {name}", tuple(values), read, write)


def _of_blocks(total: str) -> Iterator[Knob]:
    sides = tuple(one for one in _SIDES if one >= SMALLEST_BLOCK)
    values = {"rows": sides, "columns": sides, "sums": _SUMS, "warps": _WARPS[:4], "stages": _STAGES}
    values |= {"group": _GROUPS, "parts": _PARTS}
    for name, some in values.items():
        yield _of_block(total, name, some)


def _of_block(total: str, name: str, values: Sequence[int]) -> Knob:
    """A number of a product's blocks."""

    def read(found: Decisions) -> Any:
        product = found.product(total)
        return getattr(product.blocks, name) if product and product.blocks else None

    def write(found: Decisions, value: int) -> Decisions:
        product = found.product(total)
        if product is None or product.blocks is None:
            return found
        return found.with_product(total, replace(product, blocks=_with_number(product.blocks, name, value)))

    return Knob(f"{total} {name}", tuple(values), read, write)


def _with_number(worded: Any, name: str, value: int) -> Any:
    """How something runs, with another number."""
    return replace(worded, **{name: value})
