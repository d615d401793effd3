"""Rows of tokens in files and windows, and sequences in buckets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize(("most", "dtype"), [(65535, "uint16"), (65536, "uint32")])
def test_a_file_of_tokens_is_read_where_it_is_used(tmp_path: Path, most: int, dtype: str) -> None:
    ids = np.array([3, most, 0, 7])
    assert wf.data.write_tokens(tmp_path / "t.bin", ids) == dtype
    found = wf.data.mapped(tmp_path / "t.bin", dtype)
    assert isinstance(found, np.memmap)
    assert (found.dtype, found.tolist()) == (dtype, ids.tolist())
    assert [one.name for one in tmp_path.iterdir()] == ["t.bin"]


def test_a_file_without_tokens_has_none(tmp_path: Path) -> None:
    assert wf.data.write_tokens(tmp_path / "none.bin", np.zeros(0, "int64")) == "uint16"
    assert wf.data.mapped(tmp_path / "none.bin", "uint16").shape == (0,)


@pytest.mark.parametrize("order", ["random", "shuffled", "sequential"])
def test_windows_hold_what_follows(order: str, tmp_path: Path) -> None:
    wf.data.write_tokens(tmp_path / "t.bin", np.arange(100))
    row = wf.data.mapped(tmp_path / "t.bin", "uint16")
    made = wf.data.windows(row, 8, batch_size=5, order=order, seed=2, last="keep")  # type: ignore[arg-type]
    starts = []
    for x, y in made.epoch(1):
        assert (x.dtype, x.flags.c_contiguous, y.flags.c_contiguous) == (np.int32, True, True)
        assert (x == x[:, :1] + np.arange(8)).all()
        assert (y == x + 1).all()
        starts += x[:, 0].tolist()
    side_by_side = [8 * at for at in range(12)]
    assert len(starts) == 12
    assert (sorted(starts) == side_by_side) == (order != "random")
    assert (starts == side_by_side) == (order == "sequential")
    again = np.concatenate([x[:, 0] for x, _ in made.epoch(1, start=1)])
    assert again.tolist() == starts[5:]


def test_random_windows_reach_both_ends() -> None:
    made = wf.data.windows(np.arange(9), 7, batch_size=1)
    first = {int(x[0, 0]) for epoch in range(40) for x, _ in made.epoch(epoch)}
    assert first == {0, 1}


def test_wide_tokens_stay_whole() -> None:
    x, _ = next(iter(wf.data.windows(np.array([0, 2**32 - 1, 5], np.uint32), 2, batch_size=1, order="sequential")))
    assert x.tolist() == [[0, 2**32 - 1]]


def test_buckets_pad_to_their_edge() -> None:
    sequences = [np.arange(1, length + 1) for length in (3, 9, 4, 1, 8, 2, 5, 7)]
    labels = np.array([len(one) for one in sequences])
    made = wf.data.buckets(sequences, labels, batch_size=3, edges=[4, 9], fill=-1, shuffle=True, seed=5)
    seen: list[int] = []
    orders = set()
    for epoch in range(3):
        found = list(made.epoch(epoch))
        orders.add(tuple(tuple(lengths) for _, lengths, _ in found))
        for values, lengths, label in found:
            assert values.shape[1] == (4 if lengths.max() <= 4 else 9)
            assert (lengths == label).all()
            is_there = wf.data.mask(lengths, values.shape[1], "bool")
            assert (values == np.where(is_there, np.arange(1, values.shape[1] + 1), -1)).all()
            seen += lengths.tolist()
    assert sorted(seen) == sorted(labels.tolist() * 3)
    assert len(orders) == 3
    assert len(made) == 4


def test_buckets_without_edges_are_powers_of_two() -> None:
    made = wf.data.buckets([np.ones((length, 2)) for length in (1, 2, 3, 5, 8)], batch_size=2)
    assert [values.shape for values, _ in made] == [(1, 1, 2), (1, 2, 2), (1, 4, 2), (2, 8, 2)]


MISTAKES: dict[str, tuple[Callable[[], object], str]] = {
    "too few": (lambda: wf.data.windows([1, 2, 3], 3), "3 tokens hold no window of 3 and the token after it"),
    "an order": (
        lambda: wf.data.windows([1, 2, 3], 1, order="any"),  # type: ignore[arg-type]
        "there is no order 'any'",
    ),
    "fractions": (lambda: wf.data.windows([0.5, 1.0], 1), "tokens are a row of whole numbers, not float64 of shape"),
    "too large": (lambda: wf.data.write_tokens("t.bin", [70000], "uint16"), "uint16 does not hold tokens from 70000"),
    "negative": (lambda: wf.data.write_tokens("t.bin", [-1]), "uint16 does not hold tokens from -1 to 0"),
    "nowhere": (lambda: wf.data.write_tokens("no/where/t.bin", [1]), "'no/where/t.bin' cannot be written: No such"),
    "a type": (lambda: wf.data.write_tokens("t.bin", [1], "int8"), "tokens are written as uint16 or uint32"),
    "text": (lambda: wf.data.buckets("abc"), "sequences are a list of arrays, not str"),
    "nothing": (lambda: wf.data.buckets([]), "the data has no examples"),
    "shapes": (
        lambda: wf.data.buckets([np.ones(2), np.ones((2, 2))]),
        "sequence 1 is float64 of shape (2, 2), and the first float64 of shape (2,)",
    ),
    "labels": (lambda: wf.data.buckets([[1]], [1, 2]), "the arrays have different numbers of examples: 1, 2"),
    "edges": (lambda: wf.data.buckets([[1]], edges=[4, 4]), "edges of buckets grow from one to the next, not [4, 4]"),
    "too long": (
        lambda: wf.data.buckets([[1, 2]], edges=[1]),
        "a sequence has 2 elements, and the last bucket holds 1",
    ),
    "lengths": (lambda: wf.data.mask([5], 4), "lengths are whole numbers from 0 to `seq_len` 4, not [5]"),
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told(case: str) -> None:
    wrong, what = MISTAKES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_files_that_do_not_fit_are_told(tmp_path: Path) -> None:
    (tmp_path / "t.bin").write_bytes(b"abc")
    with pytest.raises(wf.WeftError, match="does not hold a whole number of uint16: 1 bytes are left over"):
        wf.data.mapped(tmp_path / "t.bin", "uint16")
    with pytest.raises(wf.WeftError, match="cannot be mapped as"):
        wf.data.mapped(tmp_path / "t.bin")
    np.savez(tmp_path / "t.npz", a=np.ones(2))
    with pytest.raises(wf.WeftError, match="holds several arrays"):
        wf.data.mapped(tmp_path / "t.npz")
