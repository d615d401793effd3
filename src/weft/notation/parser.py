"""Parsers of weft's notations, from a room's `grammar.lark`.

A grammar is loaded by the first text that is parsed. Making the tables of a parser takes some 50 ms, so they are kept
from one process to the next.
"""

from __future__ import annotations

import sys
from functools import cache
from hashlib import sha256
from importlib.resources import files
from io import BytesIO
from typing import TYPE_CHECKING

from weft.cache import cache_folder, opened
from weft.gc_pause import gc_paused
from weft.lazy import LOADING

if TYPE_CHECKING:  # lark takes as long to import as the rooms that use it
    from lark import Lark


@cache
def parser(room: str, start: str = "start") -> Lark:
    """The LALR(1) parser of a room's grammar from a start rule; trees know their positions."""
    with LOADING:
        import lark
    text = files(room).joinpath("grammar.lark").read_text(encoding="utf-8")
    name = sha256("\0".join([sys.version, lark.__version__, start, text]).encode()).hexdigest()[:40]
    return gc_paused(lambda: _made(name, text, start), lasting=True)


def _made(name: str, text: str, start: str) -> Lark:
    from lark import Lark

    with opened(cache_folder("grammars")) as kept:
        tables = kept.read(name)
        if tables is not None:
            return Lark.load(BytesIO(tables))
        made = Lark(text, parser="lalr", start=start, propagate_positions=True, maybe_placeholders=False)
        written = BytesIO()
        made.save(written)
        kept.keep(name, written.getvalue())
        return made
