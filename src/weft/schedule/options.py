"""Loop orders and tiles chosen by hand, or by a tuner, in place of weft's own."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from numbers import Integral

from weft.affine import Affine
from weft.errors import WeftError
from weft.loops import Inside, Unroll, Vector
from weft.loops.effects import names
from weft.loops.nests import Nest
from weft.loops.walk import substituted
from weft.naming import FreshNames
from weft.optimise.loop_order import is_reorderable, ordered
from weft.public import public_constructor

#: What numbers may be: no tile asked for is larger than the stack of a small thread bears, whatever the machine.
RANGES = {
    "unroll": (0, Unroll.limits[1]),
    "lanes": Vector.limits,
    "threads": (0, 256),
    "rows": (0, 64),
    "vectors": (0, 64),
}
_LARGEST_TILE = 1 << 62
_SEVERAL = {"order": "a tuple of names of loops", "tiles": "a tuple of pairs of a loop's name and a size"}


@public_constructor
@dataclass(frozen=True, slots=True)
class Options:
    """How loops run, where that is not left to weft.

    `order` names loops from the outermost in, those of products too; those not named come after them. `tiles` cuts
    loops into pieces of a size; the loops over pieces are outermost. `unroll` and `lanes` are for innermost loops.
    `threads` is how many share a loop at most, in place of what `wf.config.threads` says. A product that is left to
    weft has tiles of its own: `rows` of so many `vectors`.
    What is asked for is spelled into source text: nothing but names and numbers in range is taken.
    """

    order: tuple[str, ...] = ()
    tiles: tuple[tuple[str, int], ...] = ()
    unroll: int = 0
    lanes: int = 0
    threads: int = 0
    rows: int = 0
    vectors: int = 0

    def __post_init__(self) -> None:
        for name, (least, most) in RANGES.items():
            object.__setattr__(self, name, _number(name, getattr(self, name), least, most))
        object.__setattr__(self, "order", tuple(_name("order", one) for one in _several("order", self.order)))
        object.__setattr__(self, "tiles", tuple(_tile(one) for one in _several("tiles", self.tiles)))

    @property
    def annotates(self) -> bool:
        """Is it chosen how loops run, not only their order and pieces? Then nothing that tuning found is used."""
        return any(getattr(self, name) for name in RANGES)

    def __str__(self) -> str:
        given = {
            "order": " ".join(self.order),
            "tiles": " ".join(f"{name}={size}" for name, size in self.tiles),
            "unroll": self.unroll,
            "lanes": self.lanes,
            "threads": self.threads,
            "rows": self.rows,
            "vectors": self.vectors,
        }
        return ", ".join(f"{name} {value}" for name, value in given.items() if value) or "as weft likes"


def _number(field: str, value: object, least: int, most: int) -> int:
    whole = isinstance(value, Integral) and not isinstance(value, bool)
    if not whole or not least <= int(value) <= most:  # type: ignore[call-overload]
        raise _refused(field, value, f"a whole number from {least} to {most}")
    return int(value)  # type: ignore[call-overload, no-any-return]


def _several(field: str, value: object) -> tuple[object, ...]:
    if not isinstance(value, tuple | list):
        raise _refused(field, value, _SEVERAL[field])
    return tuple(value)


def _name(field: str, value: object) -> str:
    if not isinstance(value, str) or not value.isidentifier():
        raise _refused(field, value, _SEVERAL[field])
    return value


def _tile(value: object) -> tuple[str, int]:
    pair = tuple(value) if isinstance(value, tuple | list) else ()
    if len(pair) != 2:
        raise _refused("tiles", value, _SEVERAL["tiles"])
    return _name("tiles", pair[0]), _number("tiles", pair[1], 1, _LARGEST_TILE)


def _refused(field: str, value: object, wanted: str) -> WeftError:
    shown = repr(value) if len(repr(value)) <= 40 else f"{repr(value)[:40]}…"
    return WeftError(
        f"no options for loops: {field}={shown}: it takes {wanted}",
        fix='for example Options(order=("i", "j"), tiles=(("i", 32),), unroll=4, threads=2)',
    )


def arranged(nest: Nest, options: Options) -> Nest:
    """A nest with its loops in the order asked for, cut into pieces; else in the best order for memory."""
    return _tiled(_reordered(nest, options.order), options.tiles)


def _reordered(nest: Nest, order: Sequence[str]) -> Nest:
    own = {name for name, _ in nest.own_loops}
    if not own.intersection(order) or not is_reorderable(nest):
        return ordered(nest)
    rank = {name: at for at, name in enumerate(order)}
    chosen = sorted(nest.own_loops, key=lambda loop: rank.get(loop[0], len(rank)))
    return replace(nest, loops=(*nest.loops[: len(nest.shared)], *chosen))


def _tiled(nest: Nest, tiles: Sequence[tuple[str, int]]) -> Nest:
    sizes = dict(nest.own_loops)
    cut = {name: size for name, size in tiles if 1 < size < sizes.get(name, 0)}
    if not cut or not is_reorderable(nest):
        return nest
    fresh = FreshNames([*names([nest.stmt]), *dict(nest.loops)])
    pieces = {name: fresh.fresh(f"{name}_tile") for name in cut}
    indices = {name: Affine(((size, pieces[name]), (1, name))) for name, size in cut.items()}
    shared = nest.loops[: len(nest.shared)]
    outer = [(pieces[name], -(-total // cut[name])) for name, total in nest.own_loops if name in cut]
    inner = [(name, cut.get(name, total)) for name, total in nest.own_loops]
    ends = [Inside(indices[name], sizes[name]) for name, size in cut.items() if sizes[name] % size]
    core = nest.core
    at = tuple(substituted(one, indices) for one in core.at)
    tests = tuple(Inside(substituted(test.index, indices), test.size) for test in nest.tests)
    return replace(
        nest,
        loops=(*shared, *outer, *inner),
        tests=(*ends, *tests),
        core=replace(core, at=at, value=substituted(core.value, indices)),
    )
