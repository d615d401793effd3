"""Shapes written by people: `"3,4|2->5"`, `"(3 4)|2->5"`, `"rgb=3"`, or a tuple of output sizes."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import replace
from keyword import iskeyword
from numbers import Integral
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import EinsumError, ShapeError, Span
from weft.shape.named_sizes import NamedSize
from weft.shape.nodes import MAX_RANK, Dim, OpenSize, Shape

#: Sizes of a row of axes: one, several, or `{"label": size}`.
RowSizes: TypeAlias = int | Dim | Sequence[int | Dim] | Mapping[str, int]
#: The same of an input, where a name is a size that each call decides.
OpenRowSizes: TypeAlias = int | Dim | str | Sequence[int | Dim | str] | Mapping[str, int]
ShapeLike: TypeAlias = Shape | str | int | Sequence[int] | npt.NDArray[np.integer[Any]]

_DIM = re.compile(r"\s*(?:([A-Za-z]\w*)\s*=\s*)?([0-9]{1,18})\s*", re.ASCII)
_ROW = re.compile(r"\s*\((?P<axes>[^()]*)\)\s*")
_BETWEEN = re.compile(r",|(?<=[0-9])\s+(?=\w)")
_SHAPE = re.compile(r"(?:(?P<batch>[^|>]*)\|)?(?:(?P<input>[^|>]*)->)?(?P<output>[^|>]*)")


def as_shape(given: ShapeLike) -> Shape:
    """The shape a person wrote. One with no output axes gets one of size 1: scalars are output-only."""
    if isinstance(given, Shape):
        return given
    if isinstance(given, str):
        return _parse(given)
    if isinstance(given, Integral | Sequence | np.ndarray) and not isinstance(given, bool | bytes | bytearray):
        sizes: list[Any] = list(given) if isinstance(given, Sequence) else np.atleast_1d(np.asarray(given)).tolist()
        if all(isinstance(size, Integral) and not isinstance(size, bool) for size in sizes):
            return _shape((), (), tuple(_dim(int(size)) for size in sizes))
    fix = 'write a string such as "3,4|2->5" (batch|input->output) or a tuple of output sizes such as (3, 4)'
    raise ShapeError(f"{given!r} is not a shape", fix=fix)


def as_dim(given: Dim | int, what: str) -> Dim:
    """A size a person gave for `what`."""
    basis = given.basis if isinstance(given, Dim) else None
    size = given.size if isinstance(given, Dim) else given
    if isinstance(given, Dim) and not isinstance(size, NamedSize):
        return given
    if isinstance(size, bool) or not isinstance(size, Integral):
        raise ShapeError(f"the size of {what} must be a whole number, not {size!r}")
    return _dim(int(size), basis, named=size if isinstance(size, NamedSize) else None)


def given_dims(sizes: RowSizes | None, row: str) -> tuple[Dim, ...] | None:
    """What `o=`, `i=` or `b=` says of a row."""
    match sizes:
        case None:
            return None
        case Mapping():
            return tuple(replace(as_dim(size, f"{row}="), basis=basis) for basis, size in sizes.items())
        case Sequence() if not isinstance(sizes, str):
            return tuple(as_dim(size, f"{row}=") for size in sizes)
    return (as_dim(sizes, f"{row}="),)


def open_dims(sizes: OpenRowSizes | None, row: str) -> tuple[Dim | OpenSize, ...] | None:
    """What `o=`, `i=` or `b=` says of a row of an input: a size may be a name, and is decided by each call."""
    if isinstance(sizes, Mapping):
        named = [(label, size) for label, size in sizes.items() if isinstance(size, str)]
        for label, size in named:
            what = f"the axis {label!r} of {row}= has a label, and its size {size!r} is decided by each call"
            raise ShapeError(what, fix=f"write {row}={size!r}, without a label, or give the label its size")
        return given_dims(dict(sizes), row)
    several = sizes if isinstance(sizes, Sequence) and not isinstance(sizes, str) else (sizes,)
    return None if sizes is None else tuple([_open_dim(one, row) for one in several])


def _open_dim(given: Dim | int | str | None, row: str) -> Dim | OpenSize:
    if not isinstance(given, str):
        return as_dim(given, f"{row}=")  # type: ignore[arg-type]
    if not given.isidentifier() or iskeyword(given):
        what = f"{row}={given!r} is not a size: it is a whole number, or a name for one that each call decides"
        raise ShapeError(what, fix=f'write {row}="batch", or {row}=64')
    return OpenSize(given)


def _parse(text: str) -> Shape:
    rows = _SHAPE.fullmatch(text)
    if rows is None:
        at = next((i for i, char in enumerate(text) if char in "|>"), 0)
        raise _malformed("a shape is written batch|input->output", text, Span(at, at + 1))
    batch, input, output = (_row(text, *rows.span(kind)) for kind in ("batch", "input", "output"))
    return _shape(batch, input, output)


def _row(text: str, start: int, end: int) -> tuple[Dim, ...]:
    """The sizes of a row, between commas or spaces; brackets may enclose them."""
    if bracketed := _ROW.fullmatch(text, max(start, 0), max(end, 0)):
        start, end = bracketed.span("axes")
    if start < 0 or not text[start:end].strip():
        return ()
    dims: list[Dim] = []
    ends = [found.span() for found in _BETWEEN.finditer(text, start, end)]
    for stop, after in [*ends, (end, end)]:
        span = Span(start, stop)
        part, start = text[start:stop], after
        found = _DIM.fullmatch(part)
        if found is None:
            if not part.strip() and stop == end and dims:
                break  # a trailing comma
            raise _malformed(f"{part.strip()!r} is not a size", text, Span(span.start, max(stop, span.start + 1)))
        dims.append(_dim(int(found[2]), found[1], text, span))
    return tuple(dims)


def _dim(
    size: int, basis: str | None = None, text: str = "", span: Span | None = None, named: NamedSize | None = None
) -> Dim:
    if not 1 <= size < 1 << 63:
        raise ShapeError(
            f"an axis cannot have size {size if named is None else named.spelled}",
            text=text,
            spans=[span] if span else [],
            notes=[] if named is None else [named.source],
            fix="sizes are whole numbers from 1 on",
        )
    return Dim(size, basis, named=named)


def _shape(batch: tuple[Dim, ...], input: tuple[Dim, ...], output: tuple[Dim, ...]) -> Shape:
    for row in (batch, input, output):
        if len(row) > MAX_RANK:
            raise ShapeError(f"a row cannot have {len(row)} axes", fix=f"use at most {MAX_RANK}")
    return Shape(batch, input, output or (Dim(1),))


def _malformed(what: str, text: str, span: Span) -> EinsumError:
    return EinsumError(f"cannot read the shape: {what}", text=text, spans=[span], fix='write it like "3,4|2->5"')
