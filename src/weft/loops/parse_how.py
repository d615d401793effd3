"""How loops run, read back from what is printed after them: `on 4 threads, on vectors of 8`, `in tiles of …`."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING

from weft.loops.nodes import Collapse, How, Jam, Parallel, Tile, Unroll, Vector
from weft.notation import Mistake, span_of

if TYPE_CHECKING:
    from weft.notation import Token

_LOOP: Mapping[str, Callable[[int], How]] = {
    r"collapsed by (\d+)": Collapse,
    r"on (\d+) threads": Parallel,
    r"jammed by (\d+)": Jam,
    r"on vectors(?: of (\d+))?": Vector,
    r"unrolled by (\d+)": Unroll,
}
_TILE = re.compile(
    r"in tiles of (?:(?P<rows>\d+) rows by )?(?P<vectors>\d+) (?:vectors|columns(?P<dot>, along sums))"
    r"(?:, (?P<panel>copied|transposed) panels(?: of (?P<block>\d+))?)?(?:, parts of (?P<parts>\d+(?: by \d+)*))?"
    r"(?P<unroll>, unrolled)?, then along (?P<along>columns|rows)(?P<vector> on vectors)?"
    r"(?:, on (?P<threads>\d+) threads)?",
    re.ASCII,
)


def parse_how(token: Token) -> tuple[How, ...]:
    """How a loop runs."""
    return tuple(_one(part, token) for part in token.rstrip().split(", "))


def _one(part: str, token: Token) -> How:
    for pattern, kind in _LOOP.items():
        if found := re.fullmatch(pattern, part, re.ASCII):
            return kind(int(found[1] or 0))
    fix = "write `collapsed by 2`, `on 4 threads`, `jammed by 4`, `on vectors`, `on vectors of 8`, `unrolled by 4`"
    raise Mistake(f"`{part}` does not say how a loop runs", span_of(token), fix)


def parse_tile(token: Token) -> Tile:
    """How a product runs."""
    found = _TILE.fullmatch(token.rstrip())
    if found is None:
        fix = "for example `in tiles of 4 rows by 2 vectors, then along columns`"
        raise Mistake("this does not say how a product is tiled", span_of(token), fix)
    return Tile(
        rows=int(found["rows"] or 0),
        vectors=int(found["vectors"]),
        dot=bool(found["dot"]),
        parts=tuple(map(int, found["parts"].split(" by "))) if found["parts"] else (),
        panel=found["panel"] or "",
        block=int(found["block"] or 0),
        unroll=bool(found["unroll"]),
        along=found["along"],
        vector=bool(found["vector"]),
        threads=int(found["threads"] or 1),
    )
