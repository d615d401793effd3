"""threefry4x32 against the published known answers, and what is made of its bits."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, strategies as st

from weft.ops import OPS
from weft.ops.random import standard_normal, threefry4x32, unit_interval

MASK = 0xFFFFFFFF
ROTATIONS = [(10, 26), (11, 21), (13, 27), (23, 5), (6, 20), (17, 11), (25, 10), (18, 20)]

# Random123, kat_vectors: threefry4x32 with 20 rounds. Counter, key, answer.
KNOWN = [
    ([0] * 4, [0] * 4, [0x9C6CA96A, 0xE17EAE66, 0xFC10ECD4, 0x5256A7D8]),
    ([MASK] * 4, [MASK] * 4, [0x2A881696, 0x57012287, 0xF6C7446E, 0xA16A6732]),
    (
        [0x243F6A88, 0x85A308D3, 0x13198A2E, 0x03707344],
        [0xA4093822, 0x299F31D0, 0x082EFA98, 0xEC4E6C89],
        [0x59CD1DBB, 0xB8879579, 0x86B5D00C, 0xAC8B6D84],
    ),
]


def reference(counter: list[int], key: list[int], rounds: int = 20) -> list[int]:
    """Threefry-4x32 as its paper writes it, on plain integers."""
    keys = [*key, 0x1BD11BDA ^ key[0] ^ key[1] ^ key[2] ^ key[3]]
    words = [(word + keys[at]) & MASK for at, word in enumerate(counter)]
    for turn in range(rounds):
        first, second = (1, 3) if turn % 2 == 0 else (3, 1)
        for left, right, by in ((0, first, ROTATIONS[turn % 8][0]), (2, second, ROTATIONS[turn % 8][1])):
            words[left] = (words[left] + words[right]) & MASK
            words[right] = ((words[right] << by | words[right] >> (32 - by)) & MASK) ^ words[left]
        if turn % 4 == 3:
            number = turn // 4 + 1
            words = [(word + keys[(number + at) % 5]) & MASK for at, word in enumerate(words)]
            words[3] = (words[3] + number) & MASK
    return words


@pytest.mark.parametrize(("counter", "key", "answer"), KNOWN)
def test_the_reference_gives_the_known_answers(counter: list[int], key: list[int], answer: list[int]) -> None:
    assert reference(counter, key) == answer


def test_zero_key_and_counter_give_the_known_answer() -> None:
    assert int(threefry4x32(0, 0)) == 0xE17EAE66_9C6CA96A


@given(st.integers(0, 2**64 - 1), st.integers(0, 2**64 - 1))
def test_any_key_and_counter_agree_with_the_reference(key: int, counter: int) -> None:
    words = reference([counter & MASK, counter >> 32, 0, 0], [key & MASK, key >> 32, 0, 0])
    assert int(threefry4x32(key, counter)) == words[0] | words[1] << 32
    assert OPS["threefry4x32"].meaning is threefry4x32


def test_arrays_of_counters_are_taken_cell_by_cell() -> None:
    counters = np.arange(12, dtype=np.int64).reshape(3, 4)
    whole = threefry4x32(5, counters)
    assert whole.dtype == np.uint64
    assert [[int(threefry4x32(5, int(one))) for one in row] for row in counters] == whole.tolist()


@pytest.mark.parametrize(("dtype", "digits"), [("float32", 24), ("float32", 11), ("float32", 3), ("float64", 53)])
def test_the_unit_interval_is_the_top_bits(dtype: str, digits: int) -> None:
    step = 1 << (64 - digits)
    bits = np.array([0, 2**64 - 1, 1 << 63, step - 1, step], np.uint64)
    found = unit_interval(bits, np.array(digits, dtype))
    assert found.tolist() == [0.0, 1 - 2.0**-digits, 0.5, 0.0, 2.0**-digits]
    assert found.dtype == dtype


def test_uniform_numbers_are_uniform() -> None:
    numbers = unit_interval(threefry4x32(1234, np.arange(100_000)), 53.0)
    counts, _ = np.histogram(numbers, bins=20, range=(0, 1))
    assert counts.sum() == 100_000
    assert abs(numbers.mean() - 0.5) < 0.005
    assert abs(numbers.var() - 1 / 12) < 0.002
    assert ((counts - 5000) ** 2 / 5000).sum() < 43.8  # chi square of 19 degrees: one in a thousand is larger
    assert abs(np.corrcoef(numbers[:-1], numbers[1:])[0, 1]) < 0.015


@pytest.mark.parametrize(("dtype", "digits", "close"), [("float32", 24, 1e-6), ("float64", 53, 2e-15)])
def test_normal_numbers_are_those_of_box_and_muller(dtype: str, digits: int, close: float) -> None:
    ends = np.array([0, 2**64 - 1, 1 << 63, 1 << 62, 3 << 62, 1 << 61, 7 << 61], np.uint64)
    first = np.concatenate([np.repeat(ends, len(ends)), threefry4x32(1, np.arange(50_000))])
    second = np.concatenate([np.tile(ends, len(ends)), threefry4x32(2, np.arange(50_000))])
    found = standard_normal(first, second, np.array(digits, dtype))
    below, turn = (unit_interval(bits, np.array(digits, dtype)).astype(np.longdouble) for bits in (first, second))
    wanted = np.sqrt(-2 * np.log(1 - below)) * np.cos(2 * np.longdouble(np.pi) * turn)
    assert found.dtype == dtype
    assert float(np.abs(found - wanted).max()) < close * float(np.abs(wanted).max())
    assert abs(found.mean()) < 0.02
    assert abs(found.std() - 1) < 0.02


def test_neighbouring_keys_are_unrelated() -> None:
    first, second = (unit_interval(threefry4x32(key, np.arange(50_000)), 53.0) for key in (1, 2))
    assert abs(np.corrcoef(first, second)[0, 1]) < 0.015


def test_one_flipped_bit_flips_half_of_the_answer() -> None:
    base = threefry4x32(77, np.arange(500))
    for bit in (0, 17, 31, 32, 63):
        flipped = threefry4x32(77, np.arange(500).astype(np.uint64) ^ np.uint64(1 << bit))
        changed = np.array([bin(int(one)).count("1") for one in base ^ flipped]) / 64
        assert 0.48 < changed.mean() < 0.52
