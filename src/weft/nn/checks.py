"""What configures a layer, checked where the layer is applied."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from weft.arguments import whole_number
from weft.errors import ShapeError, WeftError, user_origin, warn
from weft.shape.text import as_dim
from weft.tensor.tensor import Tensor

#: So many channels at most an image may have for its sizes to say that they come last.
_CHANNELS = 4

#: What places are along.
_PLACES = ("depth", "height", "width")


def whole(user: str, **given: Any) -> None:
    """Refuse what is no whole number from 1 on."""
    for name, value in given.items():
        if whole_number(value, 1) is None:
            several = isinstance(value, list | tuple) and len(set(value)) == 1 and whole_number(value[0], 1)
            fix = f"{name}={value[0]}, the same along every axis" if several else f"{name}=1"
            raise WeftError(f"{user} takes a whole number from 1 on for `{name}`, not {value!r}", fix=fix)


def positive(user: str, **given: Any) -> None:
    """Refuse what is no number above 0."""
    _check_numbers(user, given, "a number above 0", lambda value: value > 0)


def fraction(user: str, **given: Any) -> None:
    """Refuse what is no number from 0 to 1."""
    _check_numbers(user, given, "a number from 0 to 1", lambda value: 0 <= value <= 1)


def below_one(user: str, **given: Any) -> None:
    """Refuse what is no number from 0 on and below 1."""
    _check_numbers(user, given, "a number from 0 on and below 1", lambda value: 0 <= value < 1)


def _check_numbers(user: str, given: Mapping[str, Any], wanted: str, fits: Callable[[Any], bool]) -> None:
    for name, value in given.items():
        if isinstance(value, bool) or not isinstance(value, int | float | np.number) or not fits(value):
            raise WeftError(f"{user} takes {wanted} for `{name}`, not {value!r}")


def one_of(user: str, known: Sequence[str], **given: Any) -> None:
    """Refuse what is not among the words known."""
    for name, value in given.items():
        if value not in known:
            raise WeftError(f"{user} knows no {name}={value!r}", fix=f"say one of {', '.join(map(repr, known))}")


def several(user: str, **given: Any) -> None:
    """Refuse what is no list of sizes."""
    for name, value in given.items():
        if not isinstance(value, list | tuple):
            raise WeftError(f"{user} takes a list for `{name}`, not {value!r}", fix=f"{name}=[{value}]")
        for size in value:
            as_dim(size, f"`{name}`")


def divides(user: str, groups: int, channels: int, which: str = "channels") -> None:
    """Refuse channels that groups do not share evenly."""
    if channels % groups:
        below = channels - channels % groups
        near = " or ".join(str(size) for size in (below, below + groups) if size)
        raise ShapeError(
            f"{user} cannot share {channels} {which} among {groups} groups: {channels} is not a multiple of {groups}",
            fix=f"have {near} {which}, or other groups",
        )


def of_places(user: str, x: Tensor, axes: int, least: int = 0) -> None:
    """Refuse what is known not to have so many axes of places for each example, and then those of channels.

    There are as many of channels as there may be, if any is batch; of examples without one, not even two.
    """
    there, examples = x.shape.output.axes, x.shape.batch
    if there is None:
        return
    if axes == 2 and x.node.definition is None and _channels_first([one.size for one in there]):
        what = f"{user} takes height, width and channels, and `{x.label}` is {x.shape}: its channels seem to come first"
        fix = "move them to the end: np.moveaxis(array, 1, -1), before wf.data"
        warn(WeftError(what, origin=user_origin(), fix=fix))
    what = f"{user} takes {', '.join(_PLACES[-axes:])} and channels, and `{x.label}` is {x.shape}"
    if len(there) < axes + least:
        fix = "give it an axis of channels, also if there is one: array[..., None], before wf.data"
        raise ShapeError(what, fix=fix)
    if len(there) > axes + 1 and examples.axes == ():
        raise ShapeError(what, fix="say which axes hold examples: wf.data(array, batch=1) has the first as its batch")


def windows_fit(user: str, x: Tensor, axes: int, window: int, stride: int, padded: bool, smaller: str) -> None:
    """Refuse places, as far as they are known, that windows of so many do not fit into, or do not tile.

    `smaller` says what to do where there are too few.
    """
    there = (x.shape.output.axes or ())[:axes]
    for place, size in zip(_PLACES[-axes:], (axis.size for axis in there), strict=False):
        if size is None:
            continue
        where, notes = f"the {place} of `{x.label}` is {size}", [f"{x.label} is {x.shape}"]
        if size < window and not padded:
            raise ShapeError(f"{user} has windows of {window}, and {where}", notes=notes, fix=smaller)
        first = 0 if padded else window
        if (size - first) % stride:
            below = size - (size - first) % stride
            what = f"{user} moves {'padded windows' if padded else f'windows of {window}'} by {stride}, and {where}"
            rest = f"{size} - {first}" if first else f"{size}"
            near = " or ".join(str(one) for one in (below, below + stride) if one)
            fix = f"make it {near}, leaving out its end or adding to it; or take another stride"
            raise ShapeError(f"{what}: {rest} is not a multiple of {stride}", notes=notes, fix=fix)


def _channels_first(sizes: Sequence[int | None]) -> bool:
    """Are these the sizes of an image whose channels, one or three, come before places?"""
    match sizes:
        case [1 | 3, int(height), int(width)]:
            return height == width > _CHANNELS
    return False


def along_time(user: str, x: Tensor) -> None:
    """Refuse a sequence whose only batch axis is how many examples there are: it has no time to run along."""
    axes = x.shape.batch.axes
    if axes == ():
        raise ShapeError(
            f"{user} runs along the last batch axis of `{x.label}`, and it has none",
            notes=[f"{x.label} is {x.shape}"],
            fix="say which axes are batch axes: wf.data(x, batch=2) of an array [examples, time, features]",
        )
    if axes is not None and [str(one) for one in axes] == ["batch"]:
        raise ShapeError(
            f"{user} runs along the last batch axis of `{x.label}`, and that is `batch`, its examples",
            notes=[f"{x.label} is {x.shape}"],
            fix='have a batch axis of time as well: batch_axes=2 of wf.train.fit, b=("batch", "time") of wf.input',
        )


def of_tokens(user: str, ids: Tensor) -> None:
    """Refuse ids with axes in their output row: each token is an example of its own, so that time is a batch axis."""
    axes = ids.shape.output.axes
    if axes is not None and [one.size for one in axes] not in ([1], [None], []):
        raise ShapeError(
            f"{user} takes one token in each example, `batch,time|1`, and `{ids.label}` is {ids.shape}",
            fix='make time a batch axis: wf.data(ids, batch=2), b=("batch", "time") of wf.input, or batch_axes=2 of '
            "wf.train.fit",
        )


def one_rank(user: str, w: Tensor, x: Tensor) -> None:
    """Warn of a map of whole rows that is applied to rows of another number of axes: it grows, others broadcast."""
    known, there = w.shape.input.lo, x.shape.output.axes
    if known and there and len(there) != known:
        axes = f"{known} {'axis' if known == 1 else 'axes'}"
        what = f"{user} maps the whole output row, {axes} until now, and `{x.label}` is {x.shape}"
        fix = "apply it to one number of axes, wf.data(array, batch=2) has more of examples; or make another layer"
        notes = [f"`{w.label}` is {w.shape}: one of both would be broadcast"]
        warn(WeftError(what, origin=user_origin(), notes=notes, fix=fix))


def channels_of(x: Tensor, user: str) -> int:
    """How many channels there are: the size of the last output axis."""
    axes = x.shape.output.axes
    size = axes[-1].size if axes else None
    if size is None:
        raise ShapeError(
            f"{user} needs to know how many channels `{x.label}` has, the size of its last output axis",
            notes=[f"{x.label} is {x.shape}"],
            fix="give the layer before it its size: out_channels=…",
        )
    return size
