"""Numbers in order: how a loss went."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.plot.picture import Plot, PlotNumbers, checked_size

#: The dots of a character of Braille, by row and column, and the character without any.
_DOTS = np.array([[0x01, 0x08], [0x02, 0x10], [0x04, 0x20], [0x40, 0x80]])
_BLANK = 0x2800
#: How several curves are told apart.
_MARKS = "•×+o*#%@"


def curve(
    values: npt.ArrayLike | Mapping[str, npt.ArrayLike],
    *,
    title: str = "",
    width: int = 60,
    height: int = 12,
    log: bool = False,
) -> Plot:
    """Draw numbers in order, or several such curves by name: `print(wf.plot.curve(losses))`.

    Each curve goes over the whole width; where there are more numbers than columns, a column shows their mean. With
    `log` heights are logarithms. Numbers that are not finite, and with `log` those that are not positive, are left out.

        wf.plot.curve({"train": losses, "test": others}, title="loss", log=True).save("loss.png")
    """
    checked_size(width, height)
    given = {name: _numbers(name, one) for name, one in _by_name(values).items()}
    curves = {name: np.where(_usable(one, log), one, np.nan) for name, one in given.items()}
    scale = _Scale.of(list(curves.values()), log)
    draw = _braille if len(curves) == 1 else _marked
    rows = draw(list(curves.values()), scale, width, height)
    lines = [f"{label:>10} ┤{row}" for label, row in zip(scale.labels(height), rows, strict=True)]
    below = [f"{'':>12}{line}" for line in _below(curves, width, log)]
    whole = [*([title] if title else []), *lines, f"{'':>10} └{'─' * width}", *below]
    text = "\n".join(line.rstrip() for line in whole)
    return Plot("\n".join(rows), text, lambda axes: _draw(axes, curves, title, log))


@dataclass(frozen=True, slots=True)
class _Scale:
    """Which number is how high, from 0 to 1."""

    low: float
    high: float
    log: bool

    @staticmethod
    def of(curves: Sequence[PlotNumbers], log: bool) -> _Scale:
        """The scale on which curves fill the height."""
        seen = np.concatenate(curves)
        seen = seen[np.isfinite(seen)]
        low, high = (float(seen.min()), float(seen.max())) if seen.size else (1.0, 1.0)
        return _Scale(low, high, log)

    def heights(self, values: PlotNumbers) -> PlotNumbers:
        """Those of numbers; where all are the same, they lie in the middle."""
        ends = np.array([self.low, self.high])
        if self.log:
            values, ends = np.log(values), np.log(ends)
        largest = np.abs(ends).max() or 1.0  # the difference of the largest numbers would not be finite
        low, high = ends / largest
        if high == low:
            return np.full(values.shape, 0.5)
        found: PlotNumbers = (values / largest - low) / (high - low)
        return found

    def at(self, height: float) -> float:
        """The number that lies so high."""
        if self.log:
            return float(np.exp(np.log(self.low) * (1 - height) + np.log(self.high) * height))
        return self.low * (1 - height) + self.high * height

    def labels(self, rows: int) -> list[str]:
        """The numbers at the top, in the middle and at the bottom of so many rows."""
        if self.low == self.high:
            return [f"{self.low:.4g}" if row == round((rows - 1) / 2) else "" for row in range(rows)]
        labelled = {0, rows // 2, rows - 1} if rows > 4 else {0, rows - 1}
        return [f"{self.at(1 - row / (rows - 1)):.4g}" if row in labelled else "" for row in range(rows)]


def _by_name(values: Any) -> Mapping[str, npt.ArrayLike]:
    if not isinstance(values, Mapping):
        return {"": values}
    if not 1 <= len(values) <= len(_MARKS):
        raise WeftError(f"a plot shows 1 to {len(_MARKS)} curves, not {len(values)}", fix="draw some of them")
    return {str(name): one for name, one in values.items()}


def _numbers(name: str, values: npt.ArrayLike) -> PlotNumbers:
    called = f"curve {name!r}" if name else "a curve"
    try:
        found = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise WeftError(f"{called} is numbers in order: {error}", fix="wf.plot.curve([1.0, 0.5, 0.25])") from None
    if not found.size or found.size != max(found.shape, default=0):
        what = f"{called} is numbers in order, and this is an array of shape {found.shape}"
        raise WeftError(what, fix="give a list of numbers, such as the loss of every step")
    return found.ravel()


def _usable(values: PlotNumbers, log: bool) -> npt.NDArray[np.bool_]:
    return np.isfinite(values) & (values > 0 if log else np.isfinite(values))


def _places(values: PlotNumbers, scale: _Scale, columns: int, rows: int) -> list[tuple[int, int]]:
    """Where the means of numbers in order are, as column and row from the top."""
    at = np.round(np.arange(values.size) * ((columns - 1) / max(values.size - 1, 1)))
    known = ~np.isnan(values)
    inside, heights = at[known].astype(np.int64), scale.heights(values[known])
    counts, totals = (np.bincount(inside, weights, columns) for weights in (None, heights))
    return [(int(one), round((1.0 - totals[one] / counts[one]) * (rows - 1))) for one in np.flatnonzero(counts)]


def _joined(places: Sequence[tuple[int, int]]) -> list[tuple[int, int]]:
    """Dots, with those on the way from each to the next."""
    found = list(places[:1])
    for (left, start), (right, end) in pairwise(places):
        steps = max(right - left, abs(end - start))
        across, down = ((right - left) / steps, (end - start) / steps)
        found += [(left + round(across * at), start + round(down * at)) for at in range(1, steps + 1)]
    return found


def _braille(curves: Sequence[PlotNumbers], scale: _Scale, width: int, height: int) -> list[str]:
    """One curve as a line of dots, two by four in a character."""
    (values,) = curves
    cells = np.full((height, width), _BLANK)
    for column, row in _joined(_places(values, scale, 2 * width, 4 * height)):
        cells[row // 4, column // 2] |= _DOTS[row % 4, column % 2]
    return ["".join(chr(cell) if cell != _BLANK else " " for cell in row) for row in cells.tolist()]


def _marked(curves: Sequence[PlotNumbers], scale: _Scale, width: int, height: int) -> list[str]:
    """Several curves, each with a mark of its own; the last is on top."""
    cells = np.full((height, width), " ")
    for mark, values in zip(_MARKS, curves, strict=False):
        for column, row in _places(values, scale, width, height):
            cells[row, column] = mark
    return ["".join(row) for row in cells]


def _below(curves: Mapping[str, PlotNumbers], width: int, log: bool) -> Iterator[str]:
    """The positions of the first and the last number, which curve has which mark, how many numbers are not shown."""
    last = max(one.size for one in curves.values()) - 1
    yield f"0{last:>{width - 1}}" if last else "0"
    if len(curves) > 1:
        yield "   ".join(f"{mark} {name}" for mark, name in zip(_MARKS, curves, strict=False))
    lost = sum(int(np.isnan(one).sum()) for one in curves.values())
    if lost:
        yield f"{lost} not shown: not {'positive' if log else 'finite'}"


def _draw(axes: Any, curves: Mapping[str, PlotNumbers], title: str, log: bool) -> None:
    last = max(one.size for one in curves.values()) - 1
    for name, values in curves.items():
        axes.plot(
            np.linspace(0, last, values.size),
            values,
            label=name or None,
            linewidth=1.2,
            marker="." if values.size < 30 else None,
        )
    axes.set(title=title, yscale="log" if log else "linear")
    axes.grid(visible=True, alpha=0.3)
    if len(curves) > 1:
        axes.legend()
