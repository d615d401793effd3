"""Sasha Rush's tensor puzzles, as far as the notation goes: each in a line or two, without any library function.

Counting along an axis is a constant, made with `wf.data`. Comparisons give booleans; what is to be counted is
multiplied by 1.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf


def arange(n: int) -> wf.Tensor:
    return wf.data(np.arange(float(n)), label="arange")


def ones(n: int) -> wf.Tensor:
    return wf.einsum("0 => i", wf.number(1.0), i=n)


def sum_(a: wf.Tensor) -> wf.Tensor:
    return wf.einsum("i => 0", a)


def outer(a: wf.Tensor, b: wf.Tensor) -> wf.Tensor:
    return wf.einsum("i; j => ij", a, b)


def diag(a: wf.Tensor) -> wf.Tensor:
    return wf.einsum("ii => i", a)


def eye(n: int) -> wf.Tensor:
    return wf.einsum("i => ii", ones(n))


def triu(n: int) -> wf.Tensor:
    return 1.0 * wf.einsum("i; j => ij", arange(n), arange(n), op="<=")


def cumsum(a: wf.Tensor, n: int) -> wf.Tensor:
    return wf.einsum("i; ij => j", a, triu(n))


def diff(a: wf.Tensor) -> wf.Tensor:
    return a - wf.concat(wf.number(0.0), wf.einsum("i^1 => i", a))


def vstack(a: wf.Tensor, b: wf.Tensor) -> wf.Tensor:
    return wf.tensor([a, b])


def roll(a: wf.Tensor) -> wf.Tensor:
    return wf.einsum("i^j => j^i", a, i=1)


def flip(a: wf.Tensor, n: int) -> wf.Tensor:
    mirrored = wf.equal(wf.einsum("i; j => ij", arange(n), arange(n), op="+"), n - 1)
    return wf.einsum("i; ij => j", a, mirrored)


def compress(kept: wf.Tensor, values: wf.Tensor, n: int) -> wf.Tensor:
    place = wf.einsum("i; j => ij", cumsum(kept, n) - 1.0, arange(n), op="=")
    return wf.einsum("i; i; ij => j", values, kept, place)


def pad_to(a: wf.Tensor, n: int, m: int) -> wf.Tensor:
    if m <= n:
        return wf.einsum("i^j => i", a, i=m) if m < n else a
    return wf.concat(a, wf.einsum("0 => i", wf.number(0.0), i=m - n))


def sequence_mask(values: wf.Tensor, length: wf.Tensor, n: int) -> wf.Tensor:
    return values * wf.einsum("j; i => ij", arange(n), length, op="<")


def bincount(a: wf.Tensor, n: int) -> wf.Tensor:
    return wf.einsum("ij => j", 1.0 * wf.einsum("i; j => ij", a, arange(n), op="="))


def scatter_add(values: wf.Tensor, link: wf.Tensor, n: int) -> wf.Tensor:
    return wf.einsum("i; ij => j", values, wf.einsum("i; j => ij", link, arange(n), op="="))


def flatten(a: wf.Tensor, columns: int) -> wf.Tensor:
    return wf.einsum(f"i, j => {columns}*i<+j", a)


def linspace(low: float, high: float, n: int) -> wf.Tensor:
    return low + (high - low) * arange(n) / max(1, n - 1)


def heaviside(a: wf.Tensor, b: wf.Tensor) -> wf.Tensor:
    return wf.where(wf.equal(a, 0), b, a > 0)


def repeat(a: wf.Tensor, n: int) -> wf.Tensor:
    return wf.einsum("j => ij", a, i=n)


def bucketize(values: wf.Tensor, boundaries: wf.Tensor) -> wf.Tensor:
    return wf.einsum("ji => i", 1.0 * wf.einsum("j; i => ji", boundaries, values, op="<="))


A = [3.0, 1.0, 4.0, 1.0, 5.0]
B = [2.0, 7.0, 1.0, 8.0, 2.0]
KEPT = [0.0, 1.0, 1.0, 0.0, 1.0]
TABLE = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0], [7.0, 8.0, 9.0]]


def data(values: Any) -> wf.Tensor:
    return wf.data(np.array(values))


PUZZLES: dict[str, tuple[Callable[[], wf.Tensor], Any]] = {
    "ones": (lambda: ones(4), np.ones(4)),
    "sum": (lambda: sum_(data(A)), [14]),
    "outer": (lambda: outer(data(A), data(B)), np.outer(A, B)),
    "diag": (lambda: diag(data(TABLE)), [1, 5, 9]),
    "eye": (lambda: eye(3), np.eye(3)),
    "triu": (lambda: triu(4), np.triu(np.ones((4, 4)))),
    "cumsum": (lambda: cumsum(data(A), 5), np.cumsum(A)),
    "diff": (lambda: diff(data(A)), [3, -2, 3, -3, 4]),
    "vstack": (lambda: vstack(data(A), data(B)), [A, B]),
    "roll": (lambda: roll(data(A)), np.roll(A, -1)),
    "flip": (lambda: flip(data(A), 5), A[::-1]),
    "compress": (lambda: compress(data(KEPT), data(A), 5), [1, 4, 5, 0, 0]),
    "pad_to longer": (lambda: pad_to(data(A), 5, 7), [*A, 0, 0]),
    "pad_to shorter": (lambda: pad_to(data(A), 5, 3), A[:3]),
    "sequence_mask": (lambda: sequence_mask(data(TABLE), data([1, 0, 2]), 3), [[1, 0, 0], [0, 0, 0], [7, 8, 0]]),
    "bincount": (lambda: bincount(data([2, 1, 3, 3, 0, 3]), 5), [1, 1, 1, 3, 0]),
    "scatter_add": (lambda: scatter_add(data(A), data([0, 2, 0, 1, 2]), 3), [7, 1, 6]),
    "flatten": (lambda: flatten(data(TABLE), 3), np.arange(1, 10)),
    "linspace": (lambda: linspace(1.0, 9.0, 5), [1, 3, 5, 7, 9]),
    "heaviside": (lambda: heaviside(data([-1.0, 0.0, 2.0]), data([0.5, 0.25, 0.5])), [0, 0.25, 1]),
    "repeat": (lambda: repeat(data(A), 2), [A, A]),
    "bucketize": (lambda: bucketize(data(A), data([1.0, 3.0, 5.0])), [2, 1, 2, 1, 3]),
}


@pytest.mark.parametrize("name", PUZZLES)
def test_puzzle(name: str) -> None:
    build, expected = PUZZLES[name]
    assert wf.Context()[build()].tolist() == np.asarray(expected).tolist()
