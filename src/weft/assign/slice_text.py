"""How the notation writes subscripts: `~logic:"[2:5, :|-1]"`.

Rows stand as in a shape, `batch|input->output`, and `...` before the subscripts of the last axes of a row. Axes and
rows without subscripts stay whole and are left out. The leftmost batch axis at one position is also written `@| i`,
and `@| t'` where the loop `t` around stands.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from string import ascii_lowercase

from weft.affine import Affine
from weft.einsum.nodes import Label
from weft.shape.logic import Slice
from weft.shape.nodes import show_rows
from weft.shape.subscripts import NO_SUBSCRIPTS, AxisPoint, AxisRange, GivenIndex, SlicedRow, Subscript


def show_slice(logic: Slice) -> str:
    """The text of a slice."""
    batch, input, output = (_show_row(row) for row in (logic.batch, logic.input, logic.output))
    match logic:
        case Slice(batch=SlicedRow(lead=(AxisPoint(),), trail=())) if not input and not output:
            return f"@| {batch}"
    return f"[{show_rows(batch, input, output)}]"


def parse_slice(text: str, index: Callable[[str], GivenIndex]) -> Slice | None:
    """The slice that a text writes, static indices by name; None if it writes none."""
    rows = _BATCH.fullmatch(text) or _ROWS.fullmatch(text)
    if rows is None:
        return None
    reader = _SliceReader(index)
    try:
        read = {kind: reader.row(row or "") for kind, row in rows.groupdict().items()}
    except ValueError:
        return None
    return Slice(read.get("batch", NO_SUBSCRIPTS), read.get("input", NO_SUBSCRIPTS), read.get("output", NO_SUBSCRIPTS))


def loop_letter(number: int) -> str:
    """What the loop over an axis is called that a slice mentions."""
    letters = ascii_lowercase[8:] + ascii_lowercase[:8]
    return letters[number] if number < len(letters) else f"i{number}"


def show_subscript(one: Subscript) -> str:
    match one:
        case Label():
            return ":"
        case AxisPoint(index=index):
            return str(index)
        case AxisRange(start=start, stop=stop, step=step):
            ends = ":".join("" if end is None else str(end) for end in (start, stop))
            return ends if step == 1 else f"{ends}:{step}"


def _show_row(row: SlicedRow) -> str:
    trail = ["...", *map(show_subscript, row.trail)] if row.trail else []
    return ", ".join([*map(show_subscript, row.lead), *trail])


_BATCH = re.compile(r"@\|(?P<batch>[^|,:]*)")
_ROWS = re.compile(r"\s*\[(?:(?P<batch>[^|]*)\|)?(?:(?P<input>.*?)->)?(?P<output>[^|>]*)\]\s*", re.DOTALL)
_LOOPED = re.compile(r"[^\W\d]\w*'")
_SUMMAND = re.compile(r"\s*([-+]?)\s*(?:([0-9]{1,40})(?:\s*\*\s*([^\W\d]\w*))?|([^\W\d]\w*))\s*")


class _SliceReader:
    """Reads rows of subscripts; a ValueError says that they are none."""

    def __init__(self, index: Callable[[str], GivenIndex]) -> None:
        self.index = index
        self.axes = 0

    def row(self, text: str) -> SlicedRow:
        if not text.strip():
            return SlicedRow()
        parts = [one.strip() for one in text.split(",")]
        middle = parts.index("...") if "..." in parts else len(parts)
        return SlicedRow(*(tuple(map(self._subscript, side)) for side in (parts[:middle], parts[middle + 1 :])))

    def _subscript(self, text: str) -> Subscript:
        if _LOOPED.fullmatch(text):
            return AxisPoint(Affine.of(text), looped=True)
        if ":" not in text:
            index = _read_affine(text)
            return AxisPoint(index, self._given(index))
        label = Label(loop_letter(self.axes))
        self.axes += 1
        start, stop, *step = [None if not part.strip() else _read_affine(part) for part in text.split(":")]
        if start is None and stop is None and not step:
            return label
        by = step[0].offset if step and step[0] is not None else 1
        if len(step) > 1 or not by or not all(one is None or one.is_constant for one in step):
            raise ValueError(text)
        given = self._given(*(end for end in (start, stop) if end is not None))
        if given and (start is None or stop is None or not (stop - start).is_constant):
            raise ValueError(text)
        return AxisRange(label, start, stop, by, given)

    def _given(self, *indices: Affine) -> tuple[GivenIndex, ...]:
        return tuple(map(self.index, dict.fromkeys(name for one in indices for name in one.names)))


def _read_affine(text: str) -> Affine:
    found, at = Affine(), 0
    while at < len(text) or not at:
        term = _SUMMAND.match(text, at)
        if term is None or (at and not term[1]):
            raise ValueError(text)
        sign, number, times, alone = term.groups()
        factor = int(number or 1) * (-1 if sign == "-" else 1)
        name = times or alone
        found += Affine.of(name) * factor if name else factor
        at = term.end()
    return found
