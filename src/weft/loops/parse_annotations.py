"""How loops run, read back from what is printed after them: `on threads by 4, on vectors of 8`, `in tiles of …`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from weft.loops.annotations import ANNOTATIONS, Annotation, Blocks, Tile, read_annotation, specimen
from weft.loops.wording import read
from weft.notation import Mistake, span_of

if TYPE_CHECKING:
    from weft.notation import Token


def parse_how(token: Token) -> tuple[Annotation, ...]:
    """How a loop runs."""
    return tuple(_one(part, token) for part in token.rstrip().split(", "))


def _one(part: str, token: Token) -> Annotation:
    if (found := read_annotation(part)) is not None:
        return found
    fix = f"write {', '.join(f'`{specimen(kind)}`' for kind in ANNOTATIONS)}"
    raise Mistake(f"`{part}` does not say how a loop runs", span_of(token), fix)


def parse_tile(token: Token) -> Tile | Blocks:
    """How a product runs."""
    text = token.rstrip()
    if (found := read(Tile, text) or read(Blocks, text)) is not None:
        return found
    fix = "for example `in tiles of 4 rows by 2 vectors of 8, then along columns`"
    raise Mistake("this does not say how a product is tiled", span_of(token), fix)
