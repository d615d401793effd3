"""How loops run, in words: printed and read back by one template; each way has limits and a rule."""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import Any, ClassVar

import pytest
from hypothesis import given, strategies as st

from weft.loops.annotations import ANNOTATIONS, EXCLUSIVE, Blocks, Grid, Tile, Vector, is_within_limits, read_annotation
from weft.loops.legality import RULES
from weft.loops.wording import Worded, read

PANELS = st.sampled_from(["", "copied", "transposed"])
NUMBERS = st.integers(1, 99)


@st.composite
def tiles(draw: st.DrawFn) -> Tile:
    """Any tile whose parts that are left out are as they are by default."""
    panel, strips, group, shared = (
        draw(PANELS),
        draw(PANELS),
        draw(st.integers(0, 9)),
        draw(st.sampled_from(["", "rows"])),
    )
    return Tile(
        *(draw(NUMBERS) for _ in range(3)),
        dot=draw(st.booleans()),
        parts=tuple(draw(st.lists(NUMBERS, max_size=2))),
        panel=panel,
        block=draw(st.integers(0, 9)) if panel else 0,
        unroll=draw(st.booleans()),
        along=draw(st.sampled_from(["columns", "rows"])),
        vector=draw(st.booleans()),
        shared=shared,
        chunk=draw(NUMBERS) if shared else 1,
        collapse=draw(st.tuples(NUMBERS, NUMBERS, NUMBERS)),
        strips=strips,
        packed=draw(NUMBERS) if strips else 1,
        group=group,
        panels=draw(NUMBERS) if group else 1,
        at_once=draw(NUMBERS) if panel else 1,
        looks=draw(st.integers(0, 9)),
        ahead=draw(st.integers(0, 9)),
    )


@given(st.sampled_from(ANNOTATIONS), st.data())
def test_every_annotation_reads_back(kind: Any, data: st.DataObject) -> None:
    how = kind(*(data.draw(st.integers(*kind.limits)) for _ in fields(kind)))
    assert read_annotation(str(how)) == how
    assert is_within_limits(how)


@given(tiles())
def test_every_tile_reads_back(tile: Tile) -> None:
    assert read(Tile, str(tile)) == tile
    assert read(Blocks, str(tile)) is None


@given(st.builds(Blocks, *[NUMBERS] * 7, precision=st.sampled_from(["ieee", "tf32"])))
def test_every_block_reads_back(blocks: Blocks) -> None:
    assert read(Blocks, str(blocks)) == blocks


def test_every_annotation_has_a_rule() -> None:
    assert tuple(RULES) == ANNOTATIONS
    assert set(EXCLUSIVE) < set(ANNOTATIONS)


@pytest.mark.parametrize("how", [Vector(65), Grid(0, 4), Grid(64, 1 << 17), Blocks(16, 16, 0)])
def test_limits(how: Any) -> None:
    assert not is_within_limits(how)


@dataclass(frozen=True, slots=True)
class Basket(Worded):
    words: ClassVar[str] = "{apples} apple(s)[ and {pears} pear(s)][, {kind:ripe|green}]{sold:|, sold}[, by {who: or }]"
    apples: int
    pears: int = 0
    kind: str = ""
    sold: bool = False
    who: tuple[int, ...] = ()


@pytest.mark.parametrize(
    ("basket", "text"),
    [
        (Basket(1), "1 apple"),
        (Basket(2, 1), "2 apples and 1 pear"),
        (Basket(10, 21, "green", True), "10 apples and 21 pears, green, sold"),
        (Basket(0, who=(1, 2, 3)), "0 apples, by 1 or 2 or 3"),
    ],
)
def test_words(basket: Basket, text: str) -> None:
    assert str(basket) == text
    assert read(Basket, text) == basket


@pytest.mark.parametrize(
    "text", ["", "apples", "x apples", "1 apple and pears", "1 apple, blue", "1 apple, by 1 and 2", "١ apple"]
)
def test_other_words(text: str) -> None:
    assert read(Basket, text) is None
