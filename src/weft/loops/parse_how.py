"""How loops run, read back from what is printed after them: `on threads by 4, on vectors of 8`, `in tiles of …`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from weft.loops.nodes import (
    Ahead,
    Blocks,
    Collapse,
    Grid,
    How,
    Jam,
    Lanes,
    Owners,
    Parallel,
    Registers,
    Simt,
    Tile,
    Unroll,
    Vector,
)
from weft.notation import Mistake, span_of

if TYPE_CHECKING:
    from weft.notation import Token

_LOOP: Mapping[str, Callable[..., How]] = {
    r"collapsed by (\d+)": Collapse,
    r"on threads by (\d+)": Parallel,
    r"jammed by (\d+)": Jam,
    r"on vectors(?: of (\d+))?": Vector,
    r"unrolled by (\d+)": Unroll,
    r"on a grid by (\d+) with (\d+) warps?": Grid,
    r"in lanes by (\d+)": Lanes,
    r"by owners in blocks of (\d+) by (\d+) with (\d+) warps?": Owners,
    r"on simt threads by (\d+)": Simt,
    r"in registers of (\d+)": Registers,
    r"fetching (\d+) ahead": Ahead,
}
_TILE = re.compile(
    r"in tiles of (?P<rows>\d+) rows? by (?P<vectors>\d+) (?:vectors?|columns?(?P<dot>, along sums on vectors)) of "
    r"(?P<lanes>\d+)(?:, (?P<panel>copied|transposed) panels(?: of (?P<block>\d+))?)?"
    r"(?:, (?P<strips>copied|transposed) strips of rows by (?P<packed>\d+))?"
    r"(?:, groups of (?P<group>\d+) tiles?(?: by (?P<panels>\d+) panels)?)?"
    r"(?:, parts of (?P<parts>\d+(?: by \d+)*))?(?:, looking through (?P<looks>\d+))?(?P<unroll>, unrolled)?"
    r", then along (?P<along>columns|rows)(?P<vector> on vectors)?"
    r"(?:, (?P<shared>columns|rows) on threads by (?P<chunk>\d+))?"
    r"(?:, loops collapsed by (?P<left>\d+) and (?P<right>\d+) and (?P<sums>\d+))?",
    re.ASCII,
)
_BLOCKS = re.compile(
    r"in blocks of (?P<rows>\d+) rows? by (?P<columns>\d+) columns? by (?P<sums>\d+) sums?, (?P<warps>\d+) warps?, "
    r"(?P<stages>\d+) stages?, groups of (?P<group>\d+)(?:, (?P<splits>\d+) splits)?(?:, as (?P<precision>tf32))?",
    re.ASCII,
)


def parse_how(token: Token) -> tuple[How, ...]:
    """How a loop runs."""
    return tuple(_one(part, token) for part in token.rstrip().split(", "))


def _one(part: str, token: Token) -> How:
    if (found := how_of(part)) is not None:
        return found
    fix = "write `collapsed by 2`, `on threads by 64`, `jammed by 4`, `on vectors`, `on vectors of 8`, `unrolled by 4`"
    raise Mistake(f"`{part}` does not say how a loop runs", span_of(token), fix)


def how_of(text: str) -> How | None:
    """One way in which a loop runs; None if a text does not say any."""
    for pattern, kind in _LOOP.items():
        if found := re.fullmatch(pattern, text, re.ASCII):
            return kind(*(int(one or 0) for one in found.groups()))
    return None


def parse_tile(token: Token) -> Tile | Blocks:
    """How a product runs."""
    if (found := tile_of(token.rstrip()) or blocks_of(token.rstrip())) is not None:
        return found
    fix = "for example `in tiles of 4 rows by 2 vectors of 8, then along columns`"
    raise Mistake("this does not say how a product is tiled", span_of(token), fix)


def blocks_of(text: str) -> Blocks | None:
    """How a product runs on a GPU; None if a text does not say it."""
    if (found := _BLOCKS.fullmatch(text)) is None:
        return None
    numbers = {name: int(one) for name, one in found.groupdict().items() if one and name != "precision"}
    return Blocks(**numbers, precision=found["precision"] or "ieee")


def tile_of(text: str) -> Tile | None:
    """How a product runs on a processor; None if a text does not say it."""
    if (found := _TILE.fullmatch(text)) is None:
        return None
    return Tile(
        rows=int(found["rows"]),
        vectors=int(found["vectors"]),
        lanes=int(found["lanes"]),
        dot=bool(found["dot"]),
        parts=tuple(map(int, found["parts"].split(" by "))) if found["parts"] else (),
        panel=found["panel"] or "",
        block=int(found["block"] or 0),
        unroll=bool(found["unroll"]),
        strips=found["strips"] or "",
        packed=int(found["packed"] or 1),
        group=int(found["group"] or 0),
        panels=int(found["panels"] or 1),
        looks=int(found["looks"] or 0),
        along=found["along"],
        vector=bool(found["vector"]),
        shared=found["shared"] or "",
        chunk=int(found["chunk"] or 1),
        collapse=(int(found["left"] or 1), int(found["right"] or 1), int(found["sums"] or 1)),
    )
