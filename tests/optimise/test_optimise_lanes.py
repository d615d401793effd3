"""Sums and extrema in lanes, before and after."""

from __future__ import annotations

from textwrap import dedent

import numpy as np
import pytest

from loops.written import C, D, program, text
from weft.loops import Program, Role, buffers_of, check, parse
from weft.loops.interp import run
from weft.loops.nodes import Store, Update
from weft.loops.roundings import PARTS
from weft.loops.walk import mentioned, scoped
from weft.optimise.lanes import in_lanes
from weft.thresholds import Thresholds

CASES = {
    "a sum, and what is left over": (
        """
        t: float32 = 0.0
        for i in range(39):
            t = t + C[i]
        D[0] = t
        """,
        """
        t: float32 = 0.0
        for lane in range(8):
            t_part[lane] = 0
        for row in range(4):
            for lane in range(8):
                t_part[lane] += C[8*row + lane]
        for lane in range(7):
            t_part[lane] += C[lane + 32]
        for lane in range(4):
            t_part[lane] += t_part[lane + 4]
        for lane in range(4):
            t = t + t_part[lane]
        D[0] = t
        """,
    ),
    "streams": (
        """
        t: float32 = 0.0
        for i in range(1100):
            t = t + i
        D[0] = t
        """,
        """
        t: float32 = 0.0
        for lane in range(64):
            t_part[lane] = 0
        for row in range(4):
            for stream in range(4):
                for lane in range(64):
                    t_part[lane] += 64*row + 256*stream + lane
        for lane in range(64):
            t_part[lane] += lane + 1024
        for lane in range(12):
            t_part[lane] += lane + 1088
        for lane in range(32):
            t_part[lane] += t_part[lane + 32]
        for lane in range(16):
            t_part[lane] += t_part[lane + 16]
        for lane in range(8):
            t_part[lane] += t_part[lane + 8]
        for lane in range(4):
            t_part[lane] += t_part[lane + 4]
        for lane in range(4):
            t = t + t_part[lane]
        D[0] = t
        """,
    ),
    "a short loop inside another": (
        """
        t: float32 = 0.0
        for i in range(24):
            for j in range(40):
                t = t + A[i, j] * C[j]
        D[0] = t
        """,
        """
        t: float32 = 0.0
        for lane in range(40):
            t_part[lane] = 0
        for i in range(24):
            for lane in range(40):
                t_part[lane] += A[i, lane] * C[lane]
        for lane in range(20):
            t_part[lane] += t_part[lane + 20]
        for lane in range(10):
            t_part[lane] += t_part[lane + 10]
        for lane in range(5):
            t_part[lane] += t_part[lane + 5]
        for lane in range(2):
            t_part[lane] += t_part[lane + 3]
        for lane in range(3):
            t = t + t_part[lane]
        D[0] = t
        """,
    ),
    "rows that fill no vectors, side by side": (
        """
        t: float32 = 0.0
        for i in range(24):
            for j in range(40):
                t = t + A[i, j]
        D[0] = t
        """,
        """
        t: float32 = 0.0
        for lane in range(80):
            t_part[lane] = 0
        for i in range(12):
            for row in range(2):
                for lane in range(40):
                    t_part[40*row + lane] += A[2*i + row, lane]
        for lane in range(40):
            t_part[lane] += t_part[lane + 40]
        for lane in range(20):
            t_part[lane] += t_part[lane + 20]
        for lane in range(10):
            t_part[lane] += t_part[lane + 10]
        for lane in range(5):
            t_part[lane] += t_part[lane + 5]
        for lane in range(2):
            t_part[lane] += t_part[lane + 3]
        for lane in range(3):
            t = t + t_part[lane]
        D[0] = t
        """,
    ),
    "two accumulations beside a store": (
        """
        t: float32 = 0.0
        m: float32 = 0.0
        for i in range(40):
            u: float32 = C[i] * 2.0
            C[i] = u
            t = t + u
            m = max(m, u)
        D[0] = t + m
        """,
        """
        t: float32 = 0.0
        m: float32 = 0.0
        for lane in range(8):
            t_part[lane] = 0
            m_part[lane] = -inf
        for row in range(5):
            for lane in range(8):
                u: float32 = C[8*row + lane] * 2.0
                C[8*row + lane] = u
                t_part[lane] += u
                m_part[lane] max= u
        for lane in range(4):
            t_part[lane] += t_part[lane + 4]
            m_part[lane] max= m_part[lane + 4]
        for lane in range(4):
            t = t + t_part[lane]
            m = max(m, m_part[lane])
        D[0] = t + m
        """,
    ),
    "extrema in cells, and what is computed beside them": (
        """
        for i in range(40):
            A[0, i] = C[i]
            X[s, 1] max= C[i]
            X[s, 2] min= C[i] - 1
        """,
        """
        for lane in range(8):
            X_part[lane] = -inf
            X_part_2[lane] = inf
        for row in range(5):
            for lane in range(8):
                A[0, 8*row + lane] = C[8*row + lane]
                X_part[lane] max= C[8*row + lane]
                X_part_2[lane] min= C[8*row + lane] - 1
        for lane in range(4):
            X_part[lane] max= X_part[lane + 4]
            X_part_2[lane] min= X_part_2[lane + 4]
        for lane in range(4):
            X[s, 1] max= X_part[lane]
            X[s, 2] min= X_part_2[lane]
        """,
    ),
}
STAYS = {
    "extrema in cells that may be one": """
        for i in range(40):
            V[s] max= C[i]
            V[0] min= C[i]
        """,
    "extrema in a cell that loops move": """
        for i in range(24):
            for j in range(40):
                C[j] max= A[i, j]
        """,
    "an extremum in a cell that is looked at": """
        for i in range(40):
            V[0] max= C[i]
            C[i] = V[0]
        """,
    "an extremum of what the tensor itself holds": """
        for i in range(40):
            V[0] max= C[i] + V[1]
        """,
    "a few values": """
        t: float32 = 0.0
        for i in range(31):
            t = t + C[i]
        D[0] = t
        """,
    "what is looked at meanwhile": """
        t: float32 = 0.0
        for i in range(40):
            t = t + C[i]
            C[i] = t
        D[0] = t
        """,
    "one of two sums that waits for the other": """
        t: float32 = 0.0
        u: float32 = 0.0
        for i in range(40):
            t = t + C[i]
            u = u + t
        D[0] = u
        """,
    "a sum beside a recurrence": """
        t: float32 = 0.0
        for i in range(39):
            C[i + 1] = C[i] * 2.0
            t = t + C[i]
        D[0] = t
        """,
    "what does not come to the same in any order": """
        t: float32 = 0.0
        for i in range(40):
            t = arg2(t, C[i])
        D[0] = t
        """,
}


@pytest.mark.parametrize("name", CASES)
def test_before_and_after(name: str) -> None:
    before, after = CASES[name]
    assert text(in_lanes(program(before).body)) == dedent(after)


@pytest.mark.parametrize("name", STAYS)
def test_what_stays_as_it_is(name: str) -> None:
    body = program(STAYS[name]).body
    assert in_lanes(body) == body


@pytest.mark.parametrize("op", ["t + ({})", "max(t, {})"])
@pytest.mark.parametrize(
    "sizes",
    [
        *((size,) for size in (32, 37, 65, 300, 1000, 3776, 3777, 4096, 5000, 9999, 40_000)),
        *((5, 16), (9, 20, 21), (100, 61), (16, 48, 48), (3, 7, 500), (2, 600), (40, 33)),
    ],
)
def test_every_value_counts_once_and_is_rounded_seldom(sizes: tuple[int, ...], op: str) -> None:
    names, lines = "hij"[: len(sizes)], ["t: float32 = 0.0"]
    for depth, (name, size) in enumerate(zip(names, sizes, strict=True)):
        lines.append(f"{'    ' * depth}for {name} in range({size}):")
    value = " + ".join(names)
    before = "\n".join([*lines, f"{'    ' * len(sizes)}t = {op.format(value)}", "D[0] = t\n"])
    for thresholds in LINES:
        _counted(check(Program(in_lanes(program(before).body, thresholds))), sizes, op)


@pytest.mark.parametrize("op", ["t + {}", "max(t, {})"])
@pytest.mark.parametrize(
    "sizes", [(28, 28), (4, 28, 28), (2, 3, 4, 28), (4, 28), (128, 50), (64, 16), (9, 24), (24, 36), (100, 4, 100)]
)
def test_rows_side_by_side_hold_every_value_once(sizes: tuple[int, ...], op: str) -> None:
    names, lines = "ghij"[: len(sizes)], ["t: float32 = 0.0"]
    for depth, (name, size) in enumerate(zip(names, sizes, strict=True)):
        lines.append(f"{'    ' * depth}for {name} in range({size}):")
    value = f"x[{', '.join(names)}]"
    before = "\n".join([*lines, f"{'    ' * len(sizes)}t = {op.format(value)}", "d[0] = t\n"])
    code = check(parse(f"x: float32[{', '.join(map(str, sizes))}]\nd: float32[1]\n{before}"))
    (x, d), given = buffers_of(code), np.random.default_rng(0).integers(0, 64, sizes).astype("float32")
    for thresholds in LINES:
        new = check(Program(in_lanes(code.body, thresholds)))
        parts = {one: np.full(one.shape, np.nan, "float32") for one in buffers_of(new) if one.role is Role.PARTIAL}
        values = {x: given, d: np.zeros(1, "float32")}
        run(new, {**parts, **values})
        assert values[d][0] == (given.sum() if "+" in op else given.max())
        assert "+" not in op or _roundings(new) <= PARTS[0]


def test_what_does_not_follow_in_memory_does_not_run_side_by_side() -> None:
    for value in ("A[23 - i, j]", "A[i, j] * i", "A[i, j] * C[j]", "A[i, 39 - j]"):
        before = f"t: float32 = 0.0\nfor i in range(24):\n    for j in range(40):\n        t = t + {value}\nD[0] = t\n"
        assert "for row" not in text(in_lanes(program(before).body)), value


#: As they are, and in few and many lanes.
LINES = (
    Thresholds(),
    Thresholds(lanes=8, lanes_left=1, lane_terms=1, nested_lanes=2, streams=3, stream_rows=3),
    Thresholds(lanes=1024, lanes_left=4, nested_lanes=5, streams=16, stream_rows=16),
)


def _counted(new: Program, sizes: tuple[int, ...], op: str) -> None:
    values = {C: np.zeros(40, "float32"), D: np.zeros(1, "float32")}
    parts = {one: np.full(one.shape, np.nan, "float32") for one in buffers_of(new) if one.role is Role.PARTIAL}
    run(new, {**parts, **values})
    exact = np.prod(sizes) * (sum(sizes) - len(sizes)) / 2 if "+ (" in op else sum(sizes) - len(sizes)
    assert abs(values[D][0] - exact) <= 40 * 2.0**-23 * exact
    assert parts
    assert "+ (" not in op or _roundings(new) <= PARTS[0]


def _roundings(program_: Program) -> int:
    """How many terms a lane takes at most, from where it starts until it is joined."""
    times, most, start = 0, 0, 0
    for stmt, scope in scoped(program_.body):
        if isinstance(stmt, Store) and stmt.buffer.role is Role.PARTIAL:
            times, start = 0, len(scope.loops) - 1
        elif isinstance(stmt, Update):
            lane = mentioned(*stmt.at)
            times += int(np.prod([size for name, size in scope.loops[start:] if name not in lane], dtype=int))
            most = max(most, times)
    return most
