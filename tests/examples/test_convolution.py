"""Convolutions that count, so that every number can be checked by hand or by brute force."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import weft as wf

Array = npt.NDArray[np.float64]


def neighbours(board: Array) -> wf.Tensor:
    """How many of the eight cells around each cell are alive; cells off the board are not."""
    cells = wf.data(board, label="board")
    around = wf.data(np.array([[1.0, 1.0, 1.0], [1.0, 0.0, 1.0], [1.0, 1.0, 1.0]]), label="around")
    return wf.einsum("h=+p, w=+q; p, q => h, w", cells, around)


def step(board: Array) -> Array:
    """One generation of the game of life."""
    count, alive = neighbours(board), wf.data(board)
    lives = wf.logical_or(wf.equal(count, 3), wf.logical_and(wf.equal(count, 2), alive))
    return np.asarray(lives * 1.0)


def test_neighbours_of_a_corner_a_side_and_the_middle() -> None:
    counted = np.asarray(neighbours(np.ones((3, 4))))
    assert counted.tolist() == [[3, 5, 5, 3], [5, 8, 8, 5], [3, 5, 5, 3]]


def test_neighbours_by_brute_force() -> None:
    board = (np.random.default_rng(1).random((6, 7)) < 0.4).astype(float)
    padded = np.pad(board, 1)
    expected = sum(
        padded[1 + up : 7 + up, 1 + across : 8 + across]
        for up in (-1, 0, 1)
        for across in (-1, 0, 1)
        if (up, across) != (0, 0)
    )
    assert np.asarray(neighbours(board)).tolist() == expected.tolist()


def test_a_blinker_blinks() -> None:
    wf.Context()
    upright = np.zeros((5, 5))
    upright[1:4, 2] = 1
    lying = upright.T
    assert step(upright).tolist() == lying.tolist()
    assert step(lying).tolist() == upright.tolist()


def test_a_kernel_of_ones_counts_what_each_pixel_takes_part_in() -> None:
    """The gradient of the sum of a convolution by an image is the number of windows each pixel lies in."""
    image = wf.param("image", o=(4, 4), init=1.0)
    total = wf.einsum("hw => 0", wf.einsum("h<+p, w<+q; p, q => h, w", image, wf.data(np.ones((2, 2)))))
    ctx = wf.Context()
    ctx.compile(wf.grad_update(total), keep=[image.grad])()
    assert ctx[total].item() == 36
    assert ctx[image.grad].tolist() == [[1, 2, 2, 1], [2, 4, 4, 2], [2, 4, 4, 2], [1, 2, 2, 1]]


@pytest.mark.parametrize(("stride", "dilation", "size"), [(1, 1, 8), (2, 1, 9), (1, 2, 9), (2, 2, 9), (3, 1, 9)])
def test_strides_and_dilations_in_one_dimension(stride: int, dilation: int, size: int) -> None:
    signal, kernel = np.arange(float(size)) ** 2, np.array([1.0, -2.0, 1.0])
    spec = f"{stride}*o<+{dilation}*k; k => o"
    starts = range(0, size - 2 * dilation, stride)
    expected = [sum(kernel[k] * signal[at + dilation * k] for k in range(3)) for at in starts]
    wf.Context()
    assert np.asarray(wf.einsum(spec, wf.data(signal), wf.data(kernel))).tolist() == expected
