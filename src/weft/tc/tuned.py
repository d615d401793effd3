"""What tuning has found, kept in a file of JSON lines: program, shapes, kind of machine, options, seconds.

Lines are only ever added, each in one write. The best line for a program, its shapes and this kind of machine counts;
lines that cannot be read are passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Sequence
from dataclasses import asdict, dataclass
from hashlib import sha256
from typing import Any

from weft.backends.cc.compiler import machine
from weft.cache import cache_folder, opened
from weft.comprehension.show import show
from weft.comprehension.template import Template
from weft.schedule import Options

_FILE = "tuned.jsonl"


@dataclass(frozen=True, slots=True)
class Found:
    """Options and how long a run took with them, and with none."""

    options: Options
    seconds: float
    default: float


def key_of(template: Template, shapes: Sequence[tuple[int, ...]]) -> dict[str, Any]:
    """What a line is about."""
    text = show(template.program.program)
    return {
        "program": sha256(text.encode()).hexdigest()[:16],
        "definition": template.name,
        "shapes": [list(shape) for shape in shapes],
        "machine": sha256(machine().encode()).hexdigest()[:16],
    }


def keep(template: Template, shapes: Sequence[tuple[int, ...]], found: Found) -> None:
    """Add a line; where nothing can be kept, nothing is."""
    what = {"options": asdict(found.options), "seconds": found.seconds, "default": found.default}
    line = json.dumps({**key_of(template, shapes), **what}) + "\n"
    with opened(cache_folder("tc")) as cache:
        if cache.place is None:
            return
        try:
            handle = os.open(cache.place / _FILE, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_NOFOLLOW, 0o600)
        except OSError:
            return
        try:
            os.write(handle, line.encode())
        finally:
            os.close(handle)


def best(template: Template, shapes: Sequence[tuple[int, ...]]) -> Found | None:
    """The best that was found, if anything was."""
    wanted = key_of(template, shapes)
    fitting = [found for line in _lines() if (found := _fitting(line, wanted)) is not None]
    return min(fitting, key=lambda one: one.seconds / one.default, default=None)


def _lines() -> Iterator[str]:
    with opened(cache_folder("tc")) as cache:
        if cache.place is None:
            return
        try:
            with open(cache.place / _FILE, encoding="utf-8", errors="replace") as file:
                yield from file
        except OSError:
            return


def _fitting(line: str, wanted: dict[str, Any]) -> Found | None:
    try:
        read = json.loads(line)
        if any(read[name] != value for name, value in wanted.items()):
            return None
        given = read["options"]
        tiles = tuple((str(name), int(size)) for name, size in given.pop("tiles"))
        order = tuple(map(str, given.pop("order")))
        options = Options(order=order, tiles=tiles, **{name: int(value) for name, value in given.items()})
        return Found(options, float(read["seconds"]), float(read["default"]))
    except (ValueError, TypeError, KeyError, AttributeError):
        return None
