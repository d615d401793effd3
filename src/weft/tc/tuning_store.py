"""What tuning has found, kept in a file of JSON lines: program, shapes, kind of machine, options, seconds.

The program is the one definition with those it calls, whatever its names are (canonical.py); loops are called in the
file as they are there. Lines are only ever added, each in one write. The best line for a program, its shapes and this
kind of machine counts; lines that cannot be read, or whose options are none, are passed over.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from hashlib import sha256
from typing import Any

from weft.cache import cache_folder, opened
from weft.comprehension.canonical import Canonical, canonical
from weft.comprehension.signature import Template
from weft.config import config
from weft.errors import WeftError
from weft.schedule import Options

_FILE = "tuned.jsonl"
#: Options of another version may mean something else.
_VERSION = 2


@dataclass(frozen=True, slots=True)
class Found:
    """Options and how long a run took with them, and with none."""

    options: Options
    seconds: float
    default: float


@dataclass(frozen=True, slots=True)
class Subject:
    """What options are for: a definition on parameters of some shapes, or its gradients by some of them."""

    template: Template
    shapes: tuple[tuple[int, ...], ...]
    wrt: tuple[str, ...] = ()

    @property
    def canonical(self) -> Canonical:
        return canonical(self.template.program.program, self.template.name)

    def key(self) -> dict[str, Any]:
        """What a line is about."""
        program = self.canonical
        return {
            "version": _VERSION,
            "program": sha256(program.text.encode()).hexdigest()[:16],
            "wrt": [program.names.get(one, one) for one in self.wrt],
            "shapes": [list(shape) for shape in self.shapes],
            "machine": sha256(config.options.machine.identity.encode()).hexdigest()[:16],
        }


def keep(subject: Subject, found: Found) -> None:
    """Add a line; where nothing can be kept, nothing is."""
    options = _called(found.options, subject.canonical.names)
    what = {"options": asdict(options), "seconds": found.seconds, "default": found.default}
    line = json.dumps({"definition": subject.template.name, **subject.key(), **what}) + "\n"
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


def known(subject: Subject) -> list[Found]:
    """All that was found, the best first."""
    wanted = subject.key()
    back = {new: old for old, new in subject.canonical.names.items()}
    fitting = [found for line in _lines() if (found := _fitting(line, wanted)) is not None]
    fitting.sort(key=lambda one: one.seconds / one.default)
    return [replace(one, options=_called(one.options, back)) for one in fitting]


def best(subject: Subject) -> Options | None:
    """The best options that were found, if any were."""
    found = known(subject)
    return found[0].options if found else None


def _called(options: Options, names: Mapping[str, str]) -> Options:
    """Options with other names for loops."""
    order = tuple(names.get(one, one) for one in options.order)
    return replace(options, order=order, tiles=tuple((names.get(one, one), size) for one, size in options.tiles))


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
        found = Found(Options(**read["options"]), float(read["seconds"]), float(read["default"]))
        return found if found.seconds > 0 and found.default > 0 else None
    except (ValueError, TypeError, KeyError, AttributeError, WeftError):
        return None
