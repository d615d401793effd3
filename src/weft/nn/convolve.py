"""Convolutions. The output row of an image is its places and then its channels: `height, width, channel`.

    conv2d             "...|2*h=+p, 2*w=+q, ..i..; p, q, ..i.. -> o => ...|h, w, o"
    conv_transpose2d   "...|h, w, ..i..; p, q, ..i.. -> o => ...|2*h=+p, 2*w=+q, o"

A kernel maps a window of channels to channels. Images without an axis of channels have one channel. Padded windows are
centred and meet nothing beyond the edges, so that a stride of 1 keeps the size; others stay inside.
"""

from __future__ import annotations

from typing import Any

from weft.errors import WeftError
from weft.nn.checks import channels_of, divides, of_places, whole, windows_fit
from weft.nn.shared_configuration import configured_as
from weft.tensor.einsum import contract, einsum
from weft.tensor.layers import op
from weft.tensor.params import param
from weft.tensor.tensor import Tensor

#: What places along each axis are called, and places in a window.
_PLACES, _WINDOW = "hwd", "pqr"
_BIAS = "...|..., c; c => ...|..., c"
#: What to do where there are fewer places than a window has.
_SMALLER = "take larger images, a smaller kernel_size or dilation, or pad them: padded=True"


def _convolution(
    user: str,
    axes: int,
    x: Tensor,
    *,
    out_channels: int | None = None,
    kernel_size: int = 3,
    stride: int = 1,
    dilation: int = 1,
    groups: int = 1,
    padded: bool = True,
    bias: bool = True,
) -> Tensor:
    whole(user, kernel_size=kernel_size, stride=stride, dilation=dilation, groups=groups)
    of_places(user, x, axes)
    windows_fit(user, x, axes, dilation * (kernel_size - 1) + 1, stride, padded, _SMALLER)
    moved, places, window = windows(axes, stride, dilation, padded)
    sizes = dict.fromkeys(_WINDOW[:axes], kernel_size)
    if groups == 1:
        spec = f"...|{moved}, ..i..; {window}, ..i.. -> o => ...|{places}, o"
        sizes |= _channels(user, out_channels)
    else:
        spec = f"...|{moved}, g&i; {window}, i -> g, o => ...|{places}, g&o"
        sizes |= {"g": groups, "o": _share(user, x, groups, out_channels)}
    y = contract(spec, [x, param("kernel")], sizes=sizes)
    return plus_bias(y) if bias else y


def _transposed(
    user: str,
    axes: int,
    x: Tensor,
    *,
    out_channels: int | None = None,
    kernel_size: int = 3,
    stride: int = 1,
    dilation: int = 1,
    padded: bool = True,
    bias: bool = True,
) -> Tensor:
    whole(user, kernel_size=kernel_size, stride=stride, dilation=dilation)
    of_places(user, x, axes)
    moved, places, window = windows(axes, stride, dilation, padded)
    sizes = dict.fromkeys(_WINDOW[:axes], kernel_size) | _channels(user, out_channels)
    y = contract(f"...|{places}, ..i..; {window}, ..i.. -> o => ...|{moved}, o", [x, param("kernel")], sizes=sizes)
    return plus_bias(y) if bias else y


@op
@configured_as(_convolution)
def conv1d(x: Tensor, **config: Any) -> Tensor:
    """A convolution along the first of two output axes, the last of which holds channels. See `conv2d`.

    >>> print(wf.nn.conv1d(wf.data(np.ones((5, 8, 3)), batch=1), out_channels=4, padded=False).dims)
    5|6,4
    """
    return _convolution("conv1d", 1, x, **config)


@op
@configured_as(_convolution)
def conv2d(x: Tensor, **config: Any) -> Tensor:
    """A convolution of images: height, width, channels. Without `out_channels` there are as many as its use asks for.

    Padded, there is a result for every `stride`-th place; the size is a multiple of the stride. Not padded, windows
    stay inside and tile the axis. Channels in groups are convolved apart, each group by kernels of its own.

    >>> images = wf.data(np.ones((5, 8, 8, 3)), batch=1)
    >>> print(wf.nn.conv2d(images, out_channels=16, stride=2).dims)
    5|4,4,16
    """
    return _convolution("conv2d", 2, x, **config)


@op
@configured_as(_convolution)
def conv3d(x: Tensor, **config: Any) -> Tensor:
    """A convolution of volumes: three axes of places, then channels. See `conv2d`.

    >>> print(wf.nn.conv3d(wf.data(np.ones((5, 4, 4, 4, 3)), batch=1), out_channels=2).dims)
    5|4,4,4,2
    """
    return _convolution("conv3d", 3, x, **config)


@op
@configured_as(_transposed)
def conv_transpose1d(x: Tensor, **config: Any) -> Tensor:
    """The transpose of a convolution along one axis. See `conv_transpose2d`.

    >>> print(wf.nn.conv_transpose1d(wf.data(np.ones((5, 4, 3)), batch=1), out_channels=2, stride=2).dims)
    5|8,2
    """
    return _transposed("conv_transpose1d", 1, x, **config)


@op
@configured_as(_transposed)
def conv_transpose2d(x: Tensor, **config: Any) -> Tensor:
    """The transpose of a convolution: each place adds a window to the result, `stride` places further than the last.

    Padded, the result is `stride` times as long, and what windows add beyond its edges is dropped. Not padded, it has
    all of them: `(n - 1) * stride + dilation * (kernel_size - 1) + 1` places.

    >>> images = wf.data(np.ones((5, 4, 4, 3)), batch=1)
    >>> print(wf.nn.conv_transpose2d(images, out_channels=2, stride=2).dims)
    5|8,8,2
    >>> print(wf.nn.conv_transpose2d(images, out_channels=2, stride=2, padded=False).dims)
    5|9,9,2
    """
    return _transposed("conv_transpose2d", 2, x, **config)


@op
@configured_as(_transposed)
def conv_transpose3d(x: Tensor, **config: Any) -> Tensor:
    """The transpose of a convolution of volumes. See `conv_transpose2d`.

    >>> print(wf.nn.conv_transpose3d(wf.data(np.ones((5, 2, 2, 2, 3)), batch=1), out_channels=2, stride=2).dims)
    5|4,4,4,2
    """
    return _transposed("conv_transpose3d", 3, x, **config)


@op
def depthwise_conv2d(
    x: Tensor, *, kernel_size: int = 3, stride: int = 1, dilation: int = 1, padded: bool = True
) -> Tensor:
    """Each channel of images convolved by a kernel of its own.

    >>> print(wf.nn.depthwise_conv2d(wf.data(np.ones((5, 8, 8, 3)), batch=1), stride=2).dims)
    5|4,4,3
    """
    return _depthwise("depthwise_conv2d", "kernel", x, kernel_size, stride, dilation, padded)


def _depthwise(user: str, kernel: str, x: Tensor, kernel_size: int, stride: int, dilation: int, padded: bool) -> Tensor:
    whole(user, kernel_size=kernel_size, stride=stride, dilation=dilation)
    of_places(user, x, 2, 1)
    moved, places, window = windows(2, stride, dilation, padded)
    spec = f"...|{moved}, c; {window} -> c => ...|{places}, c"
    return contract(spec, [x, param(kernel)], sizes=dict.fromkeys(_WINDOW[:2], kernel_size))


@op
def depthwise_separable_conv2d(
    x: Tensor,
    *,
    out_channels: int | None = None,
    kernel_size: int = 3,
    stride: int = 1,
    dilation: int = 1,
    padded: bool = True,
    bias: bool = True,
) -> Tensor:
    """Each channel convolved by a kernel of its own, and then channels mixed at each place, plus a bias.

    >>> layer = wf.nn.depthwise_separable_conv2d(out_channels=16, label="separable")
    >>> print(layer(wf.data(np.ones((5, 8, 8, 3)), batch=1)).dims, *(p.dims for p in layer.params))
    5|8,8,16 3,3->3 3->16 16
    """
    user = "depthwise_separable_conv2d"
    deep = _depthwise(user, "dw_kernel", x, kernel_size, stride, dilation, padded)
    sizes = _channels(user, out_channels)
    mixed = contract("...|h, w, i; i -> o => ...|h, w, o", [deep, param("pw_kernel")], sizes=sizes)
    return plus_bias(mixed) if bias else mixed


def plus_bias(x: Tensor) -> Tensor:
    """Plus a number for each channel, the layer's `bias`."""
    return einsum(_BIAS, x, param("bias", init=0.0), op="+")


def windows(axes: int, stride: int, dilation: int, padded: bool) -> tuple[str, str, str]:
    """The axes that windows move along, the places they move to, and the places in a window, as parts of a spec."""
    sign = "=" if padded else "<"
    places, within = _PLACES[:axes], _WINDOW[:axes]
    by, apart = (f"{factor}*" if factor > 1 else "" for factor in (stride, dilation))
    moved = (f"{by}{place}{sign}+{apart}{at}" for place, at in zip(places, within, strict=True))
    return ", ".join(moved), ", ".join(places), ", ".join(within)


def _channels(user: str, out_channels: int | None) -> dict[str, int]:
    """The size of the axis of output channels, unless it is left to be inferred."""
    if out_channels is None:
        return {}
    whole(user, out_channels=out_channels)
    return {"o": out_channels}


def _share(user: str, x: Tensor, groups: int, out_channels: int | None) -> int:
    """How many output channels each group has."""
    if out_channels is None:
        raise WeftError(f"{user} in groups needs to know its output channels", fix=f"out_channels={groups}")
    whole(user, out_channels=out_channels)
    divides(user, groups, out_channels, "output channels")
    divides(user, groups, channels_of(x, user), "input channels")
    return out_channels // groups
