"""Pools: windows of places made one, each channel by itself. Nothing is learned."""

from __future__ import annotations

from weft.nn.checks import of_places, whole, windows_fit
from weft.nn.convolve import windows
from weft.tensor.einsum import contract, dim, einsum
from weft.tensor.layers import op
from weft.tensor.reductions import mean
from weft.tensor.tensor import Tensor

_ALL_PLACES = "...|..., c => ...|c"
#: What to do where there are fewer places than a window has.
_SMALLER = "take larger images, fewer pools before it, or a smaller kernel_size; wf.nn.global_avg_pool takes all places"


@op
def max_pool1d(x: Tensor, *, kernel_size: int = 2, stride: int | None = None, padded: bool = False) -> Tensor:
    """The largest of each window along an axis, channel by channel. See `max_pool2d`.

    >>> print(ctx[wf.nn.max_pool1d(wf.tensor([[1], [3], [2], [0]]))].ravel())
    [3. 2.]
    """
    return _pool("max_pool1d", x, 1, "max", kernel_size, stride, padded)


@op
def max_pool2d(x: Tensor, *, kernel_size: int = 2, stride: int | None = None, padded: bool = False) -> Tensor:
    """The largest of each window of images, channel by channel; without `stride` windows lie side by side.

    Windows stay inside and tile the axes, or padded, are centred and meet nothing beyond the edges.

    >>> print(wf.nn.max_pool2d(wf.data(np.ones((5, 8, 8, 3)), batch=1)).dims)
    5|4,4,3
    >>> print(wf.nn.max_pool2d(wf.data(np.ones((5, 8, 8, 3)), batch=1), kernel_size=3, stride=2, padded=True).dims)
    5|4,4,3
    """
    return _pool("max_pool2d", x, 2, "max", kernel_size, stride, padded)


@op
def max_pool3d(x: Tensor, *, kernel_size: int = 2, stride: int | None = None, padded: bool = False) -> Tensor:
    """The largest of each window of volumes, channel by channel. See `max_pool2d`.

    >>> print(wf.nn.max_pool3d(wf.data(np.ones((5, 4, 4, 4, 3)), batch=1)).dims)
    5|2,2,2,3
    """
    return _pool("max_pool3d", x, 3, "max", kernel_size, stride, padded)


@op
def avg_pool1d(x: Tensor, *, kernel_size: int = 2, stride: int | None = None, padded: bool = False) -> Tensor:
    """The mean of each window along an axis, channel by channel. See `avg_pool2d`.

    >>> print(ctx[wf.nn.avg_pool1d(wf.tensor([[1], [3], [2], [0]]))].ravel())
    [2. 1.]
    """
    return _pool("avg_pool1d", x, 1, "+", kernel_size, stride, padded)


@op
def avg_pool2d(x: Tensor, *, kernel_size: int = 2, stride: int | None = None, padded: bool = False) -> Tensor:
    """The mean of each window of images, channel by channel; without `stride` windows lie side by side.

    Of a padded window, places beyond the edges count as 0.

    >>> print(wf.nn.avg_pool2d(wf.data(np.ones((5, 8, 8, 3)), batch=1), kernel_size=4).dims)
    5|2,2,3
    """
    return _pool("avg_pool2d", x, 2, "+", kernel_size, stride, padded)


@op
def avg_pool3d(x: Tensor, *, kernel_size: int = 2, stride: int | None = None, padded: bool = False) -> Tensor:
    """The mean of each window of volumes, channel by channel. See `avg_pool2d`.

    >>> print(wf.nn.avg_pool3d(wf.data(np.ones((5, 4, 4, 4, 3)), batch=1)).dims)
    5|2,2,2,3
    """
    return _pool("avg_pool3d", x, 3, "+", kernel_size, stride, padded)


@op
def global_avg_pool(x: Tensor) -> Tensor:
    """The mean of each channel over all places, however many axes they have.

    >>> print(ctx[wf.nn.global_avg_pool(wf.tensor([[1, 2], [3, 6]]))])
    [2. 4.]
    """
    return mean(x, _ALL_PLACES)


@op
def global_max_pool(x: Tensor) -> Tensor:
    """The largest of each channel over all places, however many axes they have.

    >>> print(ctx[wf.nn.global_max_pool(wf.tensor([[1, 2], [3, 6]]))])
    [3. 6.]
    """
    return einsum(_ALL_PLACES, x, accum="max")


@op
def global_avg_pool2d(x: Tensor) -> Tensor:
    """The mean over height and width, which stay as axes of size 1.

    >>> print(wf.nn.global_avg_pool2d(wf.data(np.ones((5, 8, 8, 3)), batch=1)).dims)
    5|1,1,3
    """
    of_places("global_avg_pool2d", x, 2, 1)
    total = einsum("...|h, w, c => ...|0, 0, c", x)
    return total / dim(total, "h") / dim(total, "w")


def _pool(user: str, x: Tensor, axes: int, accum: str, kernel_size: int, stride: int | None, padded: bool) -> Tensor:
    stride = kernel_size if stride is None else stride
    whole(user, kernel_size=kernel_size, stride=stride)
    of_places(user, x, axes)
    windows_fit(user, x, axes, kernel_size, stride, padded, _SMALLER)
    moved, places, window = windows(axes, stride, 1, padded)
    sizes = dict.fromkeys(window.split(", "), kernel_size)
    y = contract(f"...|{moved}, ..c.. => ...|{places}, ..c..", [x], accum=accum, sizes=sizes, left=True)
    return y if accum == "max" else y / kernel_size**axes
