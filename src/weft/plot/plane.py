"""A function of two numbers over a part of the plane, in shades, with points on it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.plot.picture import Plot, PlotNumbers, checked_size

#: Left, right, bottom, top.
Frame = tuple[float, float, float, float]

_SHADES = " ░▒▓█"
_MARKS = "o#x+"
_COLOURS = ("#08519c", "#d94801", "#31a354", "#756bb1")
_BACKGROUNDS = ("#9ecae1", "#deebf7", "#fee6ce", "#fdae6b")


def function(
    of: Callable[[npt.NDArray[np.float32]], npt.ArrayLike],
    frame: Frame,
    *,
    points: npt.ArrayLike | None = None,
    classes: npt.ArrayLike | None = None,
    levels: Sequence[float] = (),
    title: str = "",
    width: int = 60,
    height: int = 22,
    pixels: int = 200,
) -> Plot:
    """Draw a function of the plane, within a frame (left, right, bottom, top): darker is greater.

    `of` is called with an array of points, a row each, and gives a number for every one, as `lambda xy: predict(xy)[:,
    0]` does. With `levels` shades change at these numbers, else they are spread over all that is found. `points` are
    drawn on top, each with the mark of its class. An image has `pixels` along each side.

        print(wf.plot.function(lambda xy: xy[:, 0] * xy[:, 1], (-1, 1, -1, 1)))
    """
    checked_size(width, height)
    plane = _Plane(of, _checked_frame(frame), tuple(sorted(map(float, levels))), title, pixels)
    if len(plane.levels) >= len(_SHADES):
        raise WeftError(f"{len(plane.levels)} levels are more than {len(_SHADES) - 1}", fix="give fewer, or none")
    marked = _marked_points(points, classes)
    cells = _shaded(plane.values(width, height), plane.levels)
    for place, mark in zip(_places(marked[0], plane.frame, width, height), marked[1], strict=True):
        if place is not None:
            cells[place] = _MARKS[mark]
    canvas = "\n".join("".join(row) for row in cells)
    left, right, bottom, top = plane.frame
    below = f"{left:g} to {right:g} across, {bottom:g} to {top:g} up"
    text = "\n".join(line.rstrip() for line in [*([title] if title else []), *canvas.split("\n"), below])
    return Plot(canvas, text, lambda axes: plane.draw(axes, *marked))


@dataclass(frozen=True, slots=True)
class _Plane:
    """A function on a part of the plane."""

    of: Callable[[npt.NDArray[np.float32]], npt.ArrayLike]
    frame: Frame
    levels: tuple[float, ...]
    title: str
    pixels: int

    def values(self, columns: int, rows: int) -> PlotNumbers:
        """What the function is on a grid, from the top left."""
        left, right, bottom, top = self.frame
        across, up = np.meshgrid(np.linspace(left, right, columns), np.linspace(top, bottom, rows))
        given = np.stack([across, up], axis=-1).reshape(-1, 2).astype(np.float32)
        try:
            found = np.asarray(self.of(given), np.float64)
        except (TypeError, ValueError) as error:
            raise WeftError(f"the function gave no numbers: {error}", fix="of takes an array of points") from None
        if found.size != len(given):
            what = f"the function was given {len(given)} points, and gave an array of shape {found.shape}"
            raise WeftError(what, fix="give a number for each point: lambda xy: predict(xy)[:, 0]")
        return found.reshape(rows, columns)

    def draw(self, axes: Any, points: PlotNumbers, marks: npt.NDArray[np.int64]) -> None:
        """Draw it on axes of matplotlib."""
        found = self.values(self.pixels, self.pixels)
        if self.levels:
            axes.contourf(
                np.clip(found, -1e30, 1e30),
                levels=[-1e31, *self.levels, 1e31],
                colors=_spread(_BACKGROUNDS, len(self.levels) + 1),
                extent=self.frame,
                origin="upper",
            )
        else:
            axes.imshow(found, extent=self.frame, origin="upper", aspect="auto", cmap="viridis")
        if len(points):
            axes.scatter(*points.T, c=[_COLOURS[mark] for mark in marks], s=6)
        axes.set(xlim=self.frame[:2], ylim=self.frame[2:], title=self.title)


def _spread(colours: Sequence[str], count: int) -> list[str]:
    """So many of some colours, from the first to the last."""
    return [colours[round(at * (len(colours) - 1) / max(count - 1, 1))] for at in range(count)]


def _checked_frame(frame: object) -> Frame:
    try:
        left, right, bottom, top = map(float, frame)  # type: ignore[call-overload]
    except (TypeError, ValueError):
        left, right, bottom, top = 0.0, 0.0, 0.0, 0.0
    if not (left < right and bottom < top and np.isfinite([left, right, bottom, top]).all()):
        raise WeftError(f"a frame is (left, right, bottom, top), not {frame!r}", fix="write (-1.0, 1.0, -1.0, 1.0)")
    return left, right, bottom, top


def _marked_points(
    points: npt.ArrayLike | None, classes: npt.ArrayLike | None
) -> tuple[PlotNumbers, npt.NDArray[np.int64]]:
    """Points, and for each the number of its mark, in the order of the classes."""
    found = np.zeros((0, 2)) if points is None else np.asarray(points, np.float64)
    if found.ndim != 2 or found.shape[1] != 2:
        raise WeftError(f"points are rows of two numbers, and this is an array of shape {found.shape}")
    kinds = np.zeros(len(found)) if classes is None else np.asarray(classes).ravel()
    if len(kinds) != len(found):
        raise WeftError(f"there are {len(found)} points and {len(kinds)} classes", fix="give each point its class")
    known, marks = np.unique(kinds, return_inverse=True)
    if len(known) > len(_MARKS):
        raise WeftError(f"there are marks for {len(_MARKS)} classes, not {len(known)}", fix="draw some of them")
    return found, marks.reshape(-1).astype(np.int64)


def _shaded(values: PlotNumbers, levels: Sequence[float]) -> npt.NDArray[np.str_]:
    """A shade for each number; what is not finite is `?`."""
    known = values[np.isfinite(values)]
    if levels:
        borders, shades = np.asarray(levels), np.array(list(_SHADES[: len(levels) + 1]))
    else:
        low, high = (known.min(), known.max()) if known.size else (0.0, 1.0)
        borders, shades = np.linspace(low, high, len(_SHADES) + 1)[1:-1], np.array(list(_SHADES))
    return np.where(np.isfinite(values), shades[np.searchsorted(borders, values, side="left")], "?")


def _places(points: PlotNumbers, frame: Frame, columns: int, rows: int) -> list[tuple[int, int] | None]:
    """Where points are on a canvas, as row and column; None outside."""
    left, right, bottom, top = frame
    across = np.round((points[:, 0] - left) / (right - left) * (columns - 1))
    down = np.round((top - points[:, 1]) / (top - bottom) * (rows - 1))
    inside = (across >= 0) & (across < columns) & (down >= 0) & (down < rows)
    return [(int(row), int(at)) if shown else None for row, at, shown in zip(down, across, inside, strict=True)]
