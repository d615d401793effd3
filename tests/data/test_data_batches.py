"""Batches: every example once, in an order that (seed, epoch) decides, from any position on."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from weft.data.shuffling import draws


def philox(count: int, stream: int, seed: int, epoch: int) -> list[int]:
    """A block of Philox 4x64 of ten rounds, as its paper has it."""
    block, key, words = [count, 0, 0, stream], [seed, epoch], 1 << 64
    for _ in range(10):
        high0, low0 = divmod(0xD2E7470EE14C6C93 * block[0], words)
        high1, low1 = divmod(0xCA5A826395121157 * block[2], words)
        block = [high1 ^ block[1] ^ key[0], low1, high0 ^ block[3] ^ key[1], low0]
        key = [(key[0] + 0x9E3779B97F4A7C15) % words, (key[1] + 0xBB67AE8584CAA73B) % words]
    return block


@given(st.integers(1, 50), st.integers(0, 2**64 - 1), st.integers(0, 2**40))
@settings(max_examples=30)
def test_a_permutation_has_every_number_once(count: int, seed: int, epoch: int) -> None:
    found = wf.data.permutation(count, seed=seed, epoch=epoch)
    assert sorted(found) == list(range(count))
    assert (found == wf.data.permutation(count, seed=seed, epoch=epoch)).all()


def test_orders_are_drawn_evenly() -> None:
    seen = Counter(tuple(wf.data.permutation(3, seed=7, epoch=epoch)) for epoch in range(3000))
    assert len(seen) == 6
    assert all(400 < count < 600 for count in seen.values())
    first = {tuple(wf.data.permutation(20, seed=seed, epoch=epoch)) for seed in range(10) for epoch in range(10)}
    assert len(first) == 100, "neither the seed nor the epoch alone decides"


def test_draws_are_those_of_philox_on_every_machine() -> None:
    assert draws(8, 3, 5, stream=2).tolist() == [*philox(1, 2, 3, 5), *philox(2, 2, 3, 5)]
    assert (draws(4, 3, 5) != draws(4, 3, 5, stream=1)).all()
    assert (draws(4, 3, 5) == draws(9, 3, 5)[:4]).all()


@given(st.integers(1, 20), st.integers(1, 9), st.sampled_from(["keep", "drop", "wrap"]), st.booleans())
@settings(max_examples=60)
def test_an_epoch_has_every_example_but_for_the_last_batch(count: int, size: int, last: str, shuffle: bool) -> None:
    x = np.arange(count) * 10
    if last == "drop" and count < size:
        return
    made = wf.data.batches(x, x + 1, batch_size=size, shuffle=shuffle, seed=3, last=last)  # type: ignore[arg-type]
    found = list(made.epoch(4))
    assert len(found) == len(made)
    assert all((b == a + 1).all() for a, b in found)
    sizes, rows = [len(a) for a, _ in found], np.concatenate([a for a, _ in found])
    whole, rest = divmod(count, size)
    expected = {"keep": [size] * whole + [rest] * bool(rest), "drop": [size] * whole}
    assert sizes == expected.get(last, [size] * -(-count // size))
    assert len(set(rows[:count])) == min(count, len(rows)), "none twice before all were there"
    if last == "wrap":
        assert rows[count:].tolist() == np.resize(rows[:count], len(rows))[count:].tolist()


def test_each_loop_is_the_next_epoch_and_any_position_is_found_again() -> None:
    x = np.arange(10)
    made = wf.data.batches(x, batch_size=3, shuffle=True, seed=1)
    first, second = ([batch.tolist() for batch in made] for _ in range(2))
    assert first != second
    assert [batch.tolist() for batch in made.epoch(0)] == first
    again = wf.data.batches(x, batch_size=3, shuffle=True, seed=1, prefetch=2)
    assert [batch.tolist() for batch in again.epoch(1, start=2)] == second[2:]
    assert repr(made) == "<4 batches: examples=10, batch_size=3, shuffle=True, seed=1, last='keep'>"


def test_files_stay_on_disk(tmp_path: Path) -> None:
    np.save(tmp_path / "x.npy", np.arange(12.0).reshape(6, 2))
    x = wf.data.mapped(tmp_path / "x.npy")
    assert isinstance(x, np.memmap)
    assert not x.flags.writeable
    found = list(wf.data.batches(x, batch_size=4))
    assert [type(one) for one in found] == [np.ndarray] * 2
    assert np.concatenate(found).tolist() == x.tolist()


def test_split_leaves_no_example_out() -> None:
    x = np.arange(20)
    (first, twice), (second, _) = wf.data.split(x, 2 * x, part=0.25, seed=4)
    assert sorted([*first, *second]) == x.tolist()
    assert (len(second), (twice == 2 * first).all()) == (5, True)


MISTAKES: dict[str, tuple[Callable[[], object], str, str]] = {
    "no data": (lambda: wf.data.batches(), "there is no data", "give arrays: wf.data.batches(x, y, batch_size=32)"),
    "a number": (lambda: wf.data.batches(3.0), "array 0 of the data is a single number", "the first axis"),
    "no examples": (lambda: wf.data.batches(np.ones((0, 2))), "the data has no examples", "give arrays with examples"),
    "unequal": (
        lambda: wf.data.batches(np.ones(3), np.ones(2)),
        "the arrays have different numbers of examples: 3, 2",
        "the first axis of each array counts examples",
    ),
    "text": (lambda: wf.data.batches(np.array(["a"])), "data must be numbers, not <U1", "convert it first"),
    "no size": (
        lambda: wf.data.batches([1], batch_size=0),
        "batch_size is a whole number from 1 on, not 0",
        "write batch_size=1",
    ),
    "a seed": (lambda: wf.data.batches([1], seed=-1), "seed is a whole number from 0 on, not -1", "write seed=1"),
    "a long seed": (lambda: wf.data.permutation(3, seed=1 << 64), "a seed has 64 bits", "write seed=0"),
    "last": (
        lambda: wf.data.batches([1], last="pad"),  # type: ignore[arg-type]
        "there is no last batch 'pad'",
        'last="keep" leaves it shorter, "drop" leaves it out',
    ),
    "all dropped": (
        lambda: wf.data.batches([1, 2], batch_size=3, last="drop"),
        '2 examples fill no batch of 3, and last="drop" leaves out the rest',
        'write batch_size=2 or less, or last="keep"',
    ),
    "a start": (lambda: wf.data.batches([1]).epoch(0, start=2), "there is no batch 2: an epoch has 1", "start is the"),
    "a split": (lambda: wf.data.split([1, 2], part=0.9), "part=0.9 of 2 examples is 2 of them", "part= is a share"),
    "no file": (lambda: wf.data.mapped("nowhere.npy"), "there is no file 'nowhere.npy'", "np.save writes .npy"),
    "no path": (lambda: wf.data.mapped(3), "a file is named by a path, not int", "write wf.data.mapped"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes_are_told(case: str) -> None:
    wrong, what, fix = MISTAKES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what)
    assert caught.value.fix.startswith(fix)
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
