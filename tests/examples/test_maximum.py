"""Maxima: pooling, softmax by its maximum, and the tropical semiring, where + is max and * is +."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest

import weft as wf


def value_and_gradient(result: wf.Tensor, by: wf.Tensor) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.float32]]:
    """A tensor's value, and the gradient of its sum."""
    total = wf.einsum("...|...->... => 0", result)
    ctx = wf.Context()
    ctx.compile(wf.grad_update(total), keep=[by.grad, result])()
    return ctx[result], ctx[by.grad]


def test_max_pooling_routes_the_gradient_to_the_winners() -> None:
    image = wf.param("image", init=[[1, 2, 3, 4], [8, 7, 6, 5], [9, 10, 11, 12], [0, 0, 0, 20]])
    pooled = wf.einsum("2*h<+p, 2*w<+q => h, w", image, accum="max", p=2, q=2)
    value, gradient = value_and_gradient(pooled, image)
    assert value.tolist() == [[8, 6], [10, 20]]
    assert gradient.tolist() == [[0, 0, 0, 0], [1, 0, 1, 0], [0, 1, 0, 0], [0, 0, 0, 1]]


def test_overlapping_windows_add_up() -> None:
    signal = wf.param("signal", init=[0, 3, 1, 2, 5])
    value, gradient = value_and_gradient(wf.einsum("o<+k => o", signal, accum="max", k=3), signal)
    assert value.tolist() == [3, 3, 5]
    assert gradient.tolist() == [0, 2, 0, 0, 1]


def test_padding_never_wins_a_maximum() -> None:
    signal = wf.param("signal", init=[-3, -1, -2])
    value, gradient = value_and_gradient(wf.einsum("o=+k => o", signal, accum="max", k=3), signal)
    assert value.tolist() == [-1, -1, -1]
    assert gradient.tolist() == [0, 3, 0]


def test_min_pooling() -> None:
    signal = wf.param("signal", init=[4, 2, 7, 1])
    value, gradient = value_and_gradient(wf.einsum("2*o<+k => o", signal, accum="min", k=2), signal)
    assert value.tolist() == [2, 1]
    assert gradient.tolist() == [0, 1, 0, 1]


def test_tropical_product_is_the_longest_two_step_path() -> None:
    first = wf.param("first", init=[[1, 5, 2], [4, 0, 3]])
    second = wf.data(np.array([[0.0, 1.0], [2.0, 3.0], [10.0, -10.0]]))
    value, gradient = value_and_gradient(wf.einsum("ij; jk => ik", first, second, accum="max", op="+"), first)
    assert value.tolist() == [[12, 8], [13, 5]]
    assert gradient.tolist() == [[0, 1, 1], [1, 0, 1]]


def test_tropical_powers_are_all_pairs_shortest_paths() -> None:
    far = np.inf
    step = np.array([[0, 3, far, 7], [8, 0, 2, far], [5, far, 0, 1], [2, far, far, 0]])
    paths = wf.data(step)
    for _ in range(2):
        paths = wf.einsum("ij; jk => ik", paths, paths, accum="min", op="+")
    wf.Context()
    assert np.asarray(paths).tolist() == [[0, 3, 5, 6], [5, 0, 2, 3], [3, 6, 0, 1], [2, 5, 7, 0]]


def test_the_gradient_of_a_shortest_path_is_the_path() -> None:
    """Two steps through one of three places: the gradient marks the steps that were taken."""
    out, back = wf.param("out", init=[4, 1, 9]), wf.param("back", init=[2, 3, 0])
    length = wf.einsum("i; i => 0", out, back, accum="min", op="+")
    ctx = wf.Context()
    ctx.compile(wf.grad_update(length), keep=[out.grad, back.grad])()
    assert ctx[length].item() == 4
    assert ctx[out.grad].tolist() == ctx[back.grad].tolist() == [0, 1, 0]


def test_softmax() -> None:
    scores = wf.param("scores", init=[1000.0, 1001.0, 999.0])
    above = wf.exp(scores - wf.einsum("i => 0", scores, accum="max"))
    chance = above / wf.einsum("i => 0", above)
    surprise = -wf.log(wf.einsum("1 => 0", chance))
    value, gradient = value_and_gradient(surprise, scores)
    expected = np.exp([0, 1, -1]) / np.sum(np.exp([0, 1, -1]))
    assert value.item() == pytest.approx(-np.log(expected[1]), abs=1e-5)
    assert gradient == pytest.approx(expected - [0, 1, 0], abs=1e-5)
