"""WeftError and its kinds, and where in the user's file they came from.

Every error weft raises on purpose is a `WeftError`. It is built from parts (what went wrong, where,
what both sides were, how to mend it) and renders them the same way everywhere:

    model.py:14: `j` cannot be both 4 and 5
        c = wf.einsum("ij;jk=>ik", a, b)
        ij;jk=>ik
         ^ ^
      a is 3,4
      b is 5,6
      solved so far: i=3 k=6
      4 comes from model.py:3: a = wf.data(np.ones((3, 4)), label="a")
      5 comes from model.py:9: b = wf.data(np.ones((5, 6)), label="b")
      fix: make both 4 or both 5; only an unlabelled 1 broadcasts
"""

from __future__ import annotations

import contextlib
import copy
import dataclasses
import linecache
import os
import sys
import warnings
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from types import FrameType
from typing import Any

#: Where weft's own files are.
HOME = os.path.dirname(os.path.abspath(__file__)) + os.sep
_COMMAND = os.path.join(HOME, "cli.py")
#: Programs that users run, and start their own from.
_EXAMPLES = os.path.join(HOME, "examples", "")
#: What weft is called through, or calls itself, or what runs a module.
_THROUGH = (contextlib.__file__, copy.__file__, dataclasses.__file__, "<frozen runpy>", "<frozen importlib._bootstrap>")


@dataclass(frozen=True, slots=True)
class Origin:
    """A line of the user's code."""

    file: str
    line: int

    @property
    def code(self) -> str:
        return linecache.getline(self.file, self.line).strip()

    def __str__(self) -> str:
        return f"{os.path.basename(self.file)}:{self.line}"


def said_at(what: str, *origins: Origin | None) -> list[str]:
    """Notes of what happened at lines, as far as these are known."""
    return [f"{what} at {origin}: {origin.code}" for origin in origins if origin]


#: Stands for the line that is running: where an error is, unless it says otherwise.
HERE = Origin("", 0)


@cache
def is_own(file: str) -> bool:
    """Is a file of code weft's own? Its examples are users' programs."""
    return file.startswith(HOME) and not file.startswith(_EXAMPLES)


def user_origin() -> Origin | None:
    """The innermost line on the stack that is not weft's own; None when weft was called from its command line."""
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if file == _COMMAND:
            return None
        if not (is_own(file) or file in _THROUGH or _is_generated(frame)):
            return Origin(file, frame.f_lineno)
        frame = frame.f_back
    return None


def _is_generated(frame: FrameType) -> bool:
    """Is it code that a dataclass of weft's own has made?"""
    return frame.f_code.co_filename == "<string>" and frame.f_globals.get("__name__", "").startswith("weft.")


@dataclass(frozen=True, slots=True)
class Span:
    """Half-open range of character positions in a text."""

    start: int
    end: int


def carets(text: str, spans: Sequence[Span]) -> str:
    """`text` with a line of carets below it, one run for each span."""
    marks = [" "] * (len(text) + 1)
    for span in spans:
        for at in range(span.start, max(span.end, span.start + 1)):
            if at < len(marks):
                marks[at] = "^"
    return text + "\n" + "".join(marks).rstrip()


class WeftError(Exception):
    """What weft raises for every wrong use: what, where, both sides, and a fix."""

    def __init__(
        self,
        what: str,
        *,
        origin: Origin | None = HERE,
        text: str = "",
        spans: Sequence[Span] = (),
        notes: Sequence[str] = (),
        fix: str = "",
    ) -> None:
        super().__init__(what)
        self.what = what
        self.origin = user_origin() if origin is HERE else origin
        self.text = text
        self.spans = tuple(spans)
        self.notes = tuple(notes)
        self.fix = fix

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickled by its fields, whatever its kind is made from: what a worker process raises reaches its parent."""
        return _unpickled, (type(self), self.args, self.__dict__)

    def __str__(self) -> str:
        lines = [f"{self.origin}: {self.what}" if self.origin else self.what]
        if self.origin and self.origin.code:
            lines.append("    " + self.origin.code)
        if self.text:
            shown = carets(self.text, self.spans) if self.spans else self.text
            lines += ["    " + line for line in shown.splitlines()]
        lines += ["  " + note for note in self.notes]
        if self.fix:
            lines.append("  fix: " + self.fix)
        return "\n".join(lines)


def warn(doubt: WeftError) -> None:
    """Warn of what an error says, at the line it points to; of the same thing once, as Python's filters have it."""
    where = doubt.origin or Origin("weft", 0)
    text = str(WeftError(doubt.what, origin=None, text=doubt.text, spans=doubt.spans, notes=doubt.notes, fix=doubt.fix))
    told = globals().setdefault("__warningregistry__", {})
    warnings.warn_explicit(text, WeftWarning, where.file, where.line, registry=told)


class ArgumentError(WeftError, TypeError):
    """A function called with arguments it does not take, or without one it needs."""


class NoSuchName(WeftError, AttributeError):
    """A name that weft does not have, often one that another library has."""


def _unpickled(kind: type[WeftError], args: tuple[Any, ...], fields: dict[str, Any]) -> WeftError:
    made: WeftError = Exception.__new__(kind, *args)  # not by `kind.__new__`: MemoryError's refuses
    made.__dict__.update(fields)
    return made


class EinsumError(WeftError, ValueError):
    """An einsum specification, or a shape written as text, that cannot be read."""


class ShapeError(WeftError, ValueError):
    """Sizes or numbers of axes that cannot be made to agree."""


class UnderdeterminedShapeError(ShapeError):
    """An axis that must have a size and that nothing gives one."""


class OpenSizeError(UnderdeterminedShapeError):
    """A size that each call of a function decides, needed before one."""


class ProjectionError(WeftError, ValueError):
    """An operation whose sizes agree but whose loops do not."""


class IndexOutOfBounds(WeftError, IndexError):
    """A subscript that depends on what tensors hold left its tensor."""


class OutOfMemory(WeftError, MemoryError):
    """Memory that a device does not have."""


class WeftWarning(UserWarning):
    """What weft warns of: it goes on, but not as it would like to."""
