"""A picture: text as soon as it is made, an image when it is saved."""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable
from dataclasses import dataclass
from html import escape
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import numpy.typing as npt

from weft.errors import WeftError
from weft.public import public

#: What is drawn.
PlotNumbers: TypeAlias = npt.NDArray[np.float64]


@dataclass(frozen=True, slots=True, repr=False)
class Plot:
    """A picture of numbers. Printed it is text; `save` makes an image of it.

    `canvas` is the drawing alone, `text` has the lines around it. `draw` draws on axes of matplotlib.
    """

    canvas: str
    text: str
    draw: Callable[[Any], None]

    def __str__(self) -> str:
        return self.text

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What notebooks show."""
        return f'<pre style="line-height:1.1">{escape(self.text)}</pre>'

    @public
    def save(self, path: str | os.PathLike[str], *, width: float = 7.0, height: float = 4.5) -> None:
        """Write an image, `.png`, `.svg` or `.pdf`, so many inches wide and high. It needs matplotlib.

        wf.plot.curve(losses).save("loss.png")
        """
        target = _checked(path)
        if importlib.util.find_spec("matplotlib") is None:
            raise WeftError("an image needs matplotlib, which is not installed", fix="pip install 'weft[plot]'")
        from matplotlib.backends.backend_agg import FigureCanvasAgg
        from matplotlib.figure import Figure

        figure = Figure(figsize=(width, height), layout="constrained")
        FigureCanvasAgg(figure)
        self.draw(figure.add_subplot())
        try:
            figure.savefig(target, dpi=120)
        except OSError as error:
            what = f"{os.fspath(target)!r} could not be written: {error.strerror or error}"
            raise WeftError(what, fix="choose a folder that is there and can be written in") from None


def _checked(path: object) -> Path:
    if not isinstance(path, str | os.PathLike) or isinstance(os.fspath(path), bytes):
        raise WeftError(f"an image is named by a path, not {type(path).__name__}", fix='write plot.save("loss.png")')
    target = Path(path)
    if target.suffix.lower() not in (".png", ".svg", ".pdf"):
        what = f"{os.fspath(path)!r} does not say its format: its suffix is {target.suffix!r}"
        raise WeftError(what, fix="name it ….png, ….svg or ….pdf")
    return target


def checked_size(width: int, height: int) -> None:
    """Refuse a picture that nobody can see, or that no terminal shows."""
    for name, size in (("width", width), ("height", height)):
        if not 2 <= size <= 1000:
            raise WeftError(f"{name}= is {size}, in characters", fix=f"write {name}=… from 2 to 1000")
