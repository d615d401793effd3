"""Moving elements: interleaving, diagonals, prefix sums, block literals, memory-mapped data."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import weft as wf


@pytest.fixture(autouse=True)
def ctx() -> wf.Context:
    return wf.Context()


def gradient(result: wf.Tensor, by: wf.Tensor) -> list[float]:
    """The gradient of the elements' sum, each weighed by its place from 1 on, in memory order."""
    places = 1.0 + np.arange(result.dims.count, dtype="float32").reshape(result.dims.array_shape)
    total = wf.einsum("...|...->... => 0", result * wf.data(places))
    ctx = wf.Context()
    ctx.compile(wf.grad_update(total), keep=[by.grad])()
    found: list[float] = ctx[by.grad].tolist()
    return found


def test_interleave() -> None:
    even, odd = wf.param("even", init=[1, 2, 3]), wf.param("odd", init=[10, 20, 30])
    both = wf.einsum("i => 2*i", even) + wf.einsum("i => 2*i+1", odd)
    assert np.asarray(both).tolist() == [1, 10, 2, 20, 3, 30]
    assert gradient(both, even) == [1, 3, 5]
    assert gradient(both, odd) == [2, 4, 6]


def test_de_interleave() -> None:
    both = wf.param("both", init=[1, 10, 2, 20, 3, 30])
    even, odd = wf.einsum("2*i => i", both), wf.einsum("2*i+1 => i", both)
    assert np.asarray(even).tolist() == [1, 2, 3]
    assert np.asarray(odd).tolist() == [10, 20, 30]
    assert gradient(even, both) == [1, 0, 2, 0, 3, 0]
    assert gradient(odd, both) == [0, 1, 0, 2, 0, 3]


def test_interleaving_three_ways_and_back() -> None:
    parts = [wf.data(np.arange(3.0) + 10 * part) for part in range(3)]
    braid = sum((wf.einsum(f"i => 3*i+{part}", one) for part, one in enumerate(parts)), start=wf.constant(0))
    assert np.asarray(braid).tolist() == [0, 10, 20, 1, 11, 21, 2, 12, 22]
    for part, one in enumerate(parts):
        assert np.asarray(wf.einsum(f"3*i+{part} => i", braid)).tolist() == np.asarray(one).tolist()


def test_diagonal() -> None:
    square = wf.param("square", init=[[1, 2, 3], [4, 5, 6], [7, 8, 9]])
    diagonal = wf.einsum("ii => i", square)
    assert np.asarray(diagonal).tolist() == [1, 5, 9]
    assert gradient(diagonal, square) == [[1, 0, 0], [0, 2, 0], [0, 0, 3]]
    assert np.asarray(wf.einsum("ii => 0", square)).tolist() == [15]
    assert np.asarray(wf.einsum("i => ii", diagonal)).tolist() == [[1, 0, 0], [0, 5, 0], [0, 0, 9]]


def test_prefix_sums_by_a_triangular_constant() -> None:
    values = wf.param("values", init=[3, 1, 4, 1, 5])
    lower = wf.data(np.tril(np.ones((5, 5), "float32")), label="lower")
    sums = wf.einsum("ij; j => i", lower, values)
    assert np.asarray(sums).tolist() == [3, 4, 8, 9, 14]
    assert gradient(sums, values) == [15, 14, 12, 9, 5]


def test_split_and_join() -> None:
    whole = wf.param("whole", init=[1, 2, 3, 4, 5])
    head, tail = wf.einsum("a^b => a", whole, a=2), wf.einsum("a^b => b", whole, a=2)
    assert np.asarray(head).tolist() == [1, 2]
    assert np.asarray(tail).tolist() == [3, 4, 5]
    swapped = wf.concat(tail, head)
    assert np.asarray(swapped).tolist() == [3, 4, 5, 1, 2]
    assert gradient(swapped, whole) == [4, 5, 1, 2, 3]


def test_block_literals_stack_along_each_kind_of_axis() -> None:
    row = wf.data(np.array([1.0, 2.0, 3.0]))
    assert str(wf.tensor([row, row]).dims) == "2,3"
    assert str(wf.tensor((row, row)).dims) == "2->3"
    assert str(wf.tensor(wf.batch(row, row)).dims) == "2|3"
    assert np.asarray(wf.tensor([row, 10 * row])).tolist() == [[1, 2, 3], [10, 20, 30]]
    assert np.asarray(wf.tensor((row, 10 * row))).tolist() == [[1, 10], [2, 20], [3, 30]]


def test_block_literals_nest() -> None:
    one, two = wf.param("one", init=[1, 2]), wf.data(np.array([3.0, 4.0]))
    blocks = wf.tensor([[one, two], [two, 2 * one]])
    assert str(blocks.dims) == "2,2,2"
    assert np.asarray(blocks).tolist() == [[[1, 2], [3, 4]], [[3, 4], [2, 4]]]
    assert gradient(blocks, one) == [1 + 2 * 7, 2 + 2 * 8]


def test_a_rotation_is_a_literal_of_tensors() -> None:
    """Numbers of one output axis each, stacked as rows of inputs; the axis of size 1 stays."""
    angle = wf.number(np.pi / 2)
    turn = wf.tensor([(wf.cos(angle), -wf.sin(angle)), (wf.sin(angle), wf.cos(angle))])
    assert str(turn.dims) == "2->2,1"
    turned = turn @ wf.tensor([1, 0])
    assert np.asarray(turned)[:, 0] == pytest.approx([0, 1], abs=1e-6)


def test_data_mapped_from_a_file_takes_its_axes_from_its_use(tmp_path: Path, ctx: wf.Context) -> None:
    path = tmp_path / "weights.bin"
    np.arange(12, dtype="float32").tofile(path)
    weights = wf.from_file(path)
    result = wf.einsum("ij; j => i", weights, wf.data(np.ones(3, "float32")))
    assert str(weights.dims) == "4,3"
    assert ctx[result].tolist() == [3, 12, 21, 30]
    (memory,) = [array for array in ctx._engine.devices[0].memory.blocks.values() if array.size == 12]
    base = memory
    while not isinstance(base, np.memmap):
        assert base.base is not None, "the file was copied into memory"
        base = base.base


def test_a_mapped_array_is_used_as_it_is(tmp_path: Path) -> None:
    path = tmp_path / "table.bin"
    np.arange(6, dtype="float32").tofile(path)
    table = np.memmap(path, dtype="float32", mode="r", shape=(2, 3))
    assert np.asarray(wf.einsum("ij => j", wf.data(table))).tolist() == [3, 5, 7]
    del table


def test_training_does_not_write_to_mapped_data(tmp_path: Path) -> None:
    path = tmp_path / "x.bin"
    np.array([1, 2, 3], "float32").tofile(path)
    x = wf.from_file(path)
    w = wf.param("w", o=3, init=1.0)
    loss = wf.einsum("i; i => 0", w, x)
    ctx = wf.Context()
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.5)))
    step()
    assert ctx[w].tolist() == [0.5, 0, -0.5]
    assert np.fromfile(path, "float32").tolist() == [1, 2, 3]


def test_a_file_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(wf.WeftError, match="there is no file"):
        wf.from_file(tmp_path / "none.bin")
