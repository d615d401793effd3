"""How the loops of one kernel run, as a small value: what a tuner tries, a file keeps and a person reads.

    i0 on threads by 64; i1 on vectors; n0 product of left i2; right i3; sums i4 in tiles of 8 rows by 2 vectors, …
    i0 cut by 32; t0 on threads by 1; order i1 i0

Loops and variables go by the names they have in any kernel that does the same (`canonical.py`); a product goes by that
of its sum, and a loop over the tiles of `i0`, which is cut, is `t0`. `order` has the loops of perfect nests, from the
outermost in. What is not mentioned runs as it is written, and a product as loops. Annotations are spelled as the loop
language spells them. The last six passes make such decisions by rules; here they are put in place, if they are legal.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeVar

from weft.loops import Annotation, Blocks, For, Product, Staged, Stmt, Tile
from weft.loops.annotations import is_within_limits, read_annotation
from weft.loops.show import show_product
from weft.loops.walk import body_of
from weft.loops.wording import read

T = TypeVar("T")

_NAMES = r"\w+(?:, \w+)*"
_PRODUCT = re.compile(
    rf"product of (?:left (?P<left>{_NAMES}))?(?:; )?(?:right (?P<right>{_NAMES}))?(?:; )?(?:sums (?P<sums>{_NAMES}))?"
    r"(?: (?P<runs>in (?:tiles|blocks) of .*))?",
    re.ASCII,
)


@dataclass(frozen=True, slots=True)
class Decisions:
    """How loops run, by name, and products, by the name of their sum; the tiles and the order of loops in nests."""

    loops: tuple[tuple[str, tuple[Annotation, ...]], ...] = ()
    products: tuple[tuple[str, Product], ...] = ()
    tiles: tuple[tuple[str, int], ...] = ()
    order: tuple[str, ...] = ()

    def __str__(self) -> str:
        return "; ".join(f"{name} {text}" for name, text in self.texts.items()) or "as it is written"

    @property
    def texts(self) -> dict[str, str]:
        """What is decided, as text."""
        said: dict[str, list[str]] = {name: [f"cut by {size}"] for name, size in self.tiles}
        for name, how in self.loops:
            said.setdefault(name, []).extend(map(str, how))
        texts = {name: ", ".join(parts) for name, parts in said.items()}
        texts |= {name: show_product(what) for name, what in self.products}
        return {**texts, **({"order": " ".join(self.order)} if self.order else {})}

    @property
    def kinds(self) -> set[type]:
        """What a backend must be able to run."""
        return {type(one) for _, how in self.loops for one in how} | ({Product} if self.products else set())

    def how(self, loop: str) -> tuple[Annotation, ...]:
        return dict(self.loops).get(loop, ())

    def product(self, total: str) -> Product | None:
        return dict(self.products).get(total)

    def with_how(self, loop: str, how: Sequence[Annotation]) -> Decisions:
        """A loop runs so, and in no other way."""
        others = [one for one in self.loops if one[0] != loop]
        return replace(self, loops=_sorted([*others, (loop, tuple(how))] if how else others))

    def with_tiles(self, loop: str, size: int) -> Decisions:
        """A loop is cut into tiles of a size; 0 stands for none."""
        others = [one for one in self.tiles if one[0] != loop]
        return replace(self, tiles=_sorted([*others, (loop, size)] if size else others))

    def with_order(self, loops: Sequence[str], order: Sequence[str]) -> Decisions:
        """The loops of a nest run in an order; none stands for that in which they are written."""
        return replace(self, order=(*(one for one in self.order if one not in loops), *order))

    def with_product(self, total: str, what: Product | None) -> Decisions:
        """A product runs so; None stands for loops."""
        others = [one for one in self.products if one[0] != total]
        return replace(self, products=_sorted([*others, (total, what)] if what else others))


def _sorted(found: Sequence[tuple[str, T]]) -> tuple[tuple[str, T], ...]:
    return tuple(sorted(found, key=lambda one: (len(one[0]), one[0])))


def read_decisions(texts: Mapping[str, str]) -> Decisions:
    """Decisions from what is printed of them; raises a ValueError where that is none."""
    found = Decisions()
    for name, text in texts.items():
        if name == "order" and re.fullmatch(r"i\d+( i\d+)*", text, re.ASCII):
            found = replace(found, order=tuple(text.split()))
        elif re.fullmatch(r"[it]\d+", name, re.ASCII):
            first, *others = text.split(", ")
            cut = re.fullmatch(r"cut by (\d{1,12})", first, re.ASCII)
            found = found.with_tiles(name, int(cut[1]) if cut else 0)
            found = found.with_how(name, [_how(part) for part in ([] if cut else [first]) + others])
        elif re.fullmatch(r"n\d+", name, re.ASCII):
            found = found.with_product(name, _product(name, text))
        else:
            raise ValueError(f"{name!r} is no loop and no sum")
    return found


def _how(text: str) -> Annotation:
    found = read_annotation(text)
    if found is None:
        raise ValueError(f"{text!r} does not say how a loop runs")
    if not is_within_limits(found):  # whoever wrote it: it is spelled into source text
        raise ValueError(f"{text!r} is out of range")
    return found


def _product(total: str, text: str) -> Product:
    found = _PRODUCT.fullmatch(text)
    runs = found["runs"] if found else None
    tile, blocks = (read(Tile, runs), read(Blocks, runs)) if runs else (None, None)
    if found is None or not (tile or blocks or (found["sums"] and not runs)):
        raise ValueError(f"{text!r} does not say how a product runs")
    if blocks is not None and not is_within_limits(blocks):
        raise ValueError(f"{text!r} is out of range")
    left, right, sums = (tuple(part.split(", ")) if (part := found[side]) else () for side in ("left", "right", "sums"))
    return Product(left, right, sums, total, tile, blocks)


def decisions_of(body: Sequence[Stmt]) -> Decisions:
    """How the loops of a block run, which has systematic names."""
    found = Decisions()
    for stmt in outside_products(body):
        match stmt:
            case Staged(what=what):
                found = found.with_product(what.total, what)
            case For(loop=loop, how=how):
                found = found.with_how(loop, how)
    return found


def outside_products(body: Sequence[Stmt]) -> Iterator[Stmt]:
    """The statements of a block that are not inside of products."""
    waiting = list(body)
    while waiting:
        stmt = waiting.pop()
        yield stmt
        waiting += () if isinstance(stmt, Staged) else body_of(stmt)
