"""Ranks by sorting: which programs count ranks, before and after; scatters to them; elements of every type in order."""

from __future__ import annotations

from itertools import count
from textwrap import dedent

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from loops.written import program, text
from weft.loops import Buffer, Program
from weft.loops.interp import run
from weft.loops.walk import buffers_of
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type
from weft.optimise.ranks import ranked_by_sorting

LEAST = 3
PRECEDES = "where((o < v), not(precedes({one}, {other})), precedes({other}, {one}))"
UP, DOWN = (PRECEDES.format(one=one, other=other) for one, other in (("V[v]", "V[o]"), ("V[o]", "V[v]")))
VALUES = [0.0, -0.0, 1.5, -1.5, np.inf, -np.inf, np.nan, 1e-45, -3e38]
SORTED = """
    for v in range(4):
        keys[v] = uint32(order_place(V[v]))
        origins[v] = v
        moved_keys[v] = 0
        moved_origins[v] = 0
    for byte in range(4):
        for value in range(256):
            counts[byte, value] = 0
"""


def counting(relation: str, size: int = 4, cell: str = "K[v]", dtype: str = "int64") -> str:
    return f"for v in range(4):\n    for o in range({size}):\n        {cell} += {dtype}({relation})"


STAYS = {
    "positions are compared the other way": counting(UP.replace("o < v", "v < o")),
    "another relation": counting(UP.replace("not(", "(")),
    "not all others": counting(UP, size=3),
    "something else is counted": counting("precedes(V[o], V[v])"),
    "the row changes meanwhile": counting(UP, cell="V[v]", dtype="float32"),
    "each is counted by itself": counting(UP, cell="K[o]"),
}


def sorts(written: str, least: int = LEAST) -> tuple[Program, ...]:
    return tuple(map(Program, ranked_by_sorting(program(written).body, least, count())))


def test_a_row_is_sorted_and_ranks_are_read() -> None:
    found = sorts(f"""
        for v in range(4):
            ranks: int64 = 0
            for o in range(4):
                ranks = ranks + int64({UP})
            K[v] = ranks
        """)
    sorting, ranked, taken = (text(one.body) for one in found)
    assert sorting.startswith(dedent(SORTED))
    assert sorting.endswith("for v in range(4):\n    order[v] = origins[v]\n")
    assert ranked.endswith("for v in range(4):\n    rank[int64(order[v])] = v\n")
    assert taken == dedent("""
        for v in range(4):
            ranks: int64 = 0
            ranks = ranks + int64(rank[v])
            K[v] = ranks
        """)


def test_the_loop_over_others_may_stand_anywhere() -> None:
    *_, taken = sorts(f"for o in range(4):\n    for v in range(4):\n        K[v] += int64({UP})")
    assert text(taken.body) == dedent("""
        for v in range(4):
            K[v] += int64(rank[v])
        """)


def scattering(index: str, value: str = "float32(v)") -> str:
    """A loop that adds to the rank of each element."""
    return f"""
        for v in range(4):
            ranks: int64 = 0
            for o in range(4):
                ranks = ranks + int64({UP})
            W[{index}] += {value}
        """


def test_what_is_scattered_to_ranks_is_read_in_order() -> None:
    _, taken = sorts(scattering("max(min(ranks, 3), 0)", "V[v]"))
    assert text(taken.body) == dedent("""
        for place in range(4):
            element: int64 = int64(order[place])
            W[place] += V[element]
        """)


OTHERWISE = {
    "clipped to fewer": scattering("max(min(ranks, 2), 0)"),
    "next to the rank": scattering("min(ranks + 1, 3)"),
    "what is scattered to is read": scattering("max(min(ranks, 3), 0)", "W[v]"),
    "the rank is added": scattering("max(min(ranks, 3), 0)", "float32(ranks)"),
}


@pytest.mark.parametrize("written", OTHERWISE.values(), ids=OTHERWISE.keys())
def test_other_scatters_take_ranks(written: str) -> None:
    _, ranked, taken = sorts(written)
    assert "rank[int64(order[v])] = v" in text(ranked.body)
    assert "int64(rank[v])" in text(taken.body)


@pytest.mark.parametrize("written", STAYS.values(), ids=STAYS.keys())
def test_what_is_no_rank_stays(written: str) -> None:
    before = program(written).body
    assert ranked_by_sorting(before, LEAST, count()) == (before,)


def test_short_rows_are_compared() -> None:
    before = program(counting(UP)).body
    assert len(ranked_by_sorting(before, 4, count())) == 3
    assert ranked_by_sorting(before, 5, count()) == (before,)


@pytest.mark.parametrize("relation", [UP, DOWN])
@given(values=st.lists(st.sampled_from(VALUES), min_size=4, max_size=4))
def test_ranks_are_those_that_are_counted(relation: str, values: list[float]) -> None:
    written = program(counting(relation))
    found = Program(tuple(stmt for one in ranked_by_sorting(written.body, LEAST, count()) for stmt in one))
    assert _ranks(found, values).tolist() == _ranks(written, values).tolist()


def _ranks(code: Program, values: list[float]) -> np.ndarray:
    memory: dict[Buffer, np.ndarray] = {one: np.zeros(one.shape, numpy_type(one.dtype)) for one in buffers_of(code)}
    row, ranks = (next(one for one in memory if one.name == name) for name in "VK")
    memory[row][:] = values
    run(code, memory)
    return memory[ranks]


@pytest.mark.parametrize("dtype", [one for one in ELEMENT_TYPES if one != "uint64"])  # which meets no positions
@pytest.mark.parametrize("descending", [False, True])
@settings(max_examples=tries(4))
@given(st.data())
def test_elements_of_every_type_in_order(dtype: str, descending: bool, data: st.DataObject) -> None:
    """Stable, with what is not a number last, of every width and length, along either axis."""
    rng = np.random.default_rng(data.draw(st.integers(0, 999)))
    size = data.draw(st.sampled_from([63, 64, 65, 300]))
    array = _numbers(rng, (size, data.draw(st.sampled_from([3, 8, 19]))), dtype)  # rows one by one, and side by side
    x = wf.data(array, label="x")
    order = wf.argsort(x, "ij => j", descending=descending)
    wanted = _stable_order(array, descending)
    assert np.array_equal(wf.Context("cc")[order], wanted)


def _numbers(rng: np.random.Generator, shape: tuple[int, ...], dtype: str) -> np.ndarray:
    """Few numbers, many of them equal; or any bits."""
    kind = numpy_type(dtype)
    if dtype == "bool":
        return rng.integers(0, 2, shape).astype(bool)
    if rng.integers(2):
        return rng.integers(0 if kind.kind == "u" else -4, 5, shape).astype(kind) * kind.type(1)
    return np.frombuffer(rng.bytes(kind.itemsize * int(np.prod(shape))), kind).reshape(shape).copy()


def _stable_order(array: np.ndarray, descending: bool) -> np.ndarray:
    with np.errstate(invalid="ignore"):  # NaNs that signal
        wide = array.astype(np.float64) if array.dtype.kind not in "biu" else array
    if not descending:
        return np.argsort(wide, axis=0, kind="stable")
    return len(wide) - 1 - np.argsort(wide[::-1], axis=0, kind="stable")[::-1]


@pytest.mark.parametrize("spec", ["...|...->...v => ...|...->...", "b|... => ..."])
def test_sorting_is_recognised(spec: str) -> None:
    x = wf.data(np.zeros((70, 80), np.float32), batch=1, label="x")
    routine = wf.Context("cc").compile(wf.seq(), keep=[wf.sort(x, spec)])
    assert "order_place(x[" in routine.show("kernels")
    assert not [one for one in routine.show("kernels").splitlines() if "precedes(" in one and not one.startswith("#")]
