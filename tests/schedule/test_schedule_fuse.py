"""Fusion before and after, as loops print: what joins, in which loops, by which names, and what joins contractions."""

from __future__ import annotations

import pytest

import weft as wf
from loops.written import program, text
from weft.loops import Program, Staged, check, parse, show
from weft.schedule import Kernel
from weft.schedule.fusion.forward_stores import forwarded
from weft.schedule.fusion.fuse import fused
from weft.schedule.loop_tree import Level, bound_names, new_names, renamed, reuses
from weft.schedule.products.contractions import stage


def nests(code: str) -> list[Kernel]:
    """Every statement of a program as a kernel."""
    return [Kernel((), (stmt,)) for stmt in program(code).body]


def shown_fused(code: str, *, placing: bool = False) -> str:
    options = wf.CompileOptions(contraction_points=4)
    found = fused(nests(code), (), options, placing)
    return "\n" + "\n---\n".join(show(Program(one.body)) for one in found) + "\n"


JOINS = {
    "the same cells at the same points": (
        """
        for i in range(4):
            V[i] = W[i]
        for k in range(4):
            W[k] = V[k] * 2.0
        """,
        """
for i in range(4):
    V[i] = W[i]
    W[i] = V[i] * 2.0
""",
    ),
    "as many loops as they share": (
        """
        for i in range(4):
            for j in range(3):
                X[i, j] = Y[i, j]
        for i in range(4):
            V[i] = X[i, 2]
        """,
        """
for i in range(4):
    for j in range(3):
        X[i, j] = Y[i, j]
    V[i] = X[i, 2]
""",
    ),
    "not what would be touched too early": (
        """
        for i in range(4):
            V[i] = W[i]
        for i in range(4):
            W[i] = V[3 - i]
        """,
        """
for i in range(4):
    V[i] = W[i]
---
for i in range(4):
    W[i] = V[-i + 3]
""",
    ),
    "what clears a buffer waits for its first use": (
        """
        for i in range(4):
            V[i] = 0.0
        for i in range(4):
            for j in range(3):
                Z[i, j] = X[i, j]
        for i in range(4):
            for j in range(3):
                V[i] += Y[i, j]
        """,
        """
for i in range(4):
    for j in range(3):
        Z[i, j] = X[i, j]
---
for i in range(4):
    V[i] = 0.0
    for j in range(3):
        V[i] += Y[i, j]
""",
    ),
}

CONTRACTIONS = {
    "what starts it and what follows": (
        """
        for p in range(4):
            V[p] = K[p]
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for q in range(4):
            W[q] = relu(V[q])
        """,
        """
for i in range(4):
    V_total: float32 = float32(K[i])
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
    W[i] = relu(V[i])
""",
    ),
    "a sum of its results, cleared before it": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        W[0] = 0.0
        for q in range(4):
            W[0] += V[q]
        """,
        """
W[0] = 0.0
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
    W[0] += V[i]
""",
    ),
    "not what reads its results elsewhere": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for q in range(4):
            W[q] = V[3 - q]
        """,
        """
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
---
for q in range(4):
    W[q] = V[-q + 3]
""",
    ),
    "not what works on some of its results": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for q in range(3):
            W[q] = V[q]
        """,
        """
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
---
for q in range(3):
    W[q] = V[q]
""",
    ),
    "not what depends on the order of cells": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for q in range(4):
            W[q] = V[q] + W[3 - q]
        """,
        """
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
---
for q in range(4):
    W[q] = V[q] + W[-q + 3]
""",
    ),
    "it moves behind what must come before its consumer": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for j in range(3):
            Z[0, j] = W[j]
        for q in range(4):
            W[q] = W[q] - V[q]
        """,
        """
for j in range(3):
    Z[0, j] = W[j]
---
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
    W[i] = W[i] - V[i]
""",
    ),
    "two contractions": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for i in range(4):
            for k in range(3):
                W[i] += X[i, k] * Y[1, k]
        """,
        """
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
---
for i in range(4):
    W_total: float32 = W[i]
    for k in range(3):
        W_total = W_total + (X[i, k] * Y[1, k])
    W[i] = W_total
""",
    ),
    "it moves behind what its epilogue reads": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for j in range(3):
            for p in range(4):
                Z[p, j] = X[p, j]
        for q in range(4):
            W[q] = V[q] * Z[q, 0]
        """,
        """
for j in range(3):
    for p in range(4):
        Z[p, j] = X[p, j]
---
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
    W[i] = V[i] * Z[i, 0]
""",
    ),
    "it does not move behind what overwrites a factor": (
        """
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[0, k]
        for j in range(3):
            for p in range(4):
                X[p, j] = Z[p, j]
        for q in range(4):
            W[q] = V[q] * X[q, 0]
        """,
        """
for i in range(4):
    V_total: float32 = V[i]
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[0, k])
    V[i] = V_total
---
for j in range(3):
    for p in range(4):
        X[p, j] = Z[p, j]
---
for q in range(4):
    W[q] = V[q] * X[q, 0]
""",
    ),
    "it moves behind one whose dead variable read a factor": (
        """
        for i in range(4):
            for k in range(3):
                W[i] += Z[i, k] * Y[0, k]
        for p in range(4):
            dead: float32 = Z[p, 0]
            V[p] = K[p]
        for i in range(4):
            for k in range(3):
                V[i] += X[i, k] * Y[1, k]
        for q in range(4):
            C[q] = W[q] * V[3 - q]
        """,
        """
for i in range(4):
    V_total: float32 = float32(K[i])
    for k in range(3):
        V_total = V_total + (X[i, k] * Y[1, k])
    V[i] = V_total
---
for i in range(4):
    W_total: float32 = W[i]
    for k in range(3):
        W_total = W_total + (Z[i, k] * Y[0, k])
    W[i] = W_total
    C[i] = W[i] * V[-i + 3]
""",
    ),
    "the loops of batches are shared": (
        """
        for i in range(4):
            for j in range(2):
                for k in range(2):
                    X[i, j] += Y[i, k] * Z[i, j + k]
        for q in range(4):
            V[q] = X[q, 1]
        """,
        """
for i in range(4):
    for j in range(2):
        X_total: float32 = X[i, j]
        for k in range(2):
            X_total = X_total + (Y[i, k] * Z[i, j + k])
        X[i, j] = X_total
    V[i] = X[i, 1]
""",
    ),
}


@pytest.mark.parametrize("name", JOINS)
def test_nests_that_join(name: str) -> None:
    before, after = JOINS[name]
    assert shown_fused(before) == after


@pytest.mark.parametrize("name", CONTRACTIONS)
def test_what_joins_a_contraction(name: str) -> None:
    before, after = CONTRACTIONS[name]
    assert shown_fused(before, placing=True) == after


# Contractions in the same batch loops

DECLARED = """\
q: float32[4, 8, 6]
k: float32[4, 8, 6]
v: float32[4, 8, 5]
s: float32[4, 8, 8]
p: float32[4, 8, 8]
o: float32[4, 8, 5]
y: float32[4, 8, 5]
z: float32[4, 8]
"""
HEADS = """
for h in range(4):
    for i in range(8):
        for j in range(8):
            for d in range(6):
                s[h, i, j] += q[h, i, d] * k[h, j, d]
for h in range(4):
    for i in range(8):
        for j in range(8):
            p[h, i, j] = exp(s[h, i, 7 - j])
for h in range(4):
    for i in range(8):
        for c in range(5):
            for j in range(8):
                o[h, i, c] += p[h, i, j] * v[h, j, c]
for h in range(4):
    for i in range(8):
        for c in range(5):
            y[h, i, c] = relu(o[h, i, c])
"""


def head_by_head(text: str = HEADS, near: int = 300, cores: int = 2) -> list[Kernel]:
    """The kernels of a program, for a second cache of which one intermediate may fill so many bytes."""
    machine = wf.Machine(caches=(64, 2 * near), cores=cores)
    body = check(parse(DECLARED + text)).body
    options = wf.CompileOptions(machine=machine, contraction_points=4, reuse=1)
    return fused([Kernel((), (stmt,)) for stmt in body], (), options, True)


def test_contractions_share_batch_loops_so_that_what_lies_between_stays_in_a_cache() -> None:
    (kernel,) = head_by_head()
    assert [line for line in show(Program(kernel.body)).splitlines() if "for" in line] == [
        "for h in range(4):",
        *("    for i in range(8):", "        for j in range(8):", "            for d in range(6):"),
        *("    for i_2 in range(8):", "        for j_2 in range(8):"),
        *("    for i_3 in range(8):", "        for c in range(5):", "            for j_3 in range(8):"),
    ]
    (heads,) = stage([kernel], 4)[0].body
    first, _, last = heads.body  # type: ignore[union-attr]
    assert isinstance(first, Staged)
    assert isinstance(last, Staged)
    assert "relu" in show(Program((last,)))  # joined as an epilogue before the two contractions met


@pytest.mark.parametrize(
    ("near", "cores", "why"),
    [
        (1100, 2, "both are contractions, and each has tiles of its own"),  # all of it stays in the cache anyway
        (200, 2, "both are contractions, and what one leaves for the other fits into no cache"),
        (300, 3, "both are contractions, and 4 batches are too few for 3 threads"),
    ],
)
def test_contractions_that_had_better_not_share_batch_loops(near: int, cores: int, why: str) -> None:
    *_, last = head_by_head(near=near, cores=cores)
    assert last.why == why


@pytest.mark.parametrize(
    ("stmts", "reused"),
    [
        (["y[i, j] += a[i, k] * b[k, j]"], True),
        (["t: float32 = a[i, k]", "y[i, j] += t * b[k, j]"], True),
        (["y[i, j] += c[i, j, k]"], False),
        (["t: float32 = a[i, 0]", "c[i, j, k] = c[i, j, k] * t"], False),  # as what a row is scaled by
        (["t: float32 = c[i, j, k]", "y[0, k] += t"], False),  # as the gradient of a bias
    ],
)
def test_what_is_reused_is_asked_of_all_statements_at_a_point(stmts: list[str], reused: bool) -> None:
    declared = "a: float32[8, 8]\nb: float32[8, 8]\ny: float32[8, 8]\nc: float32[8, 8, 8]\n"
    loops = [f"{'    ' * depth}for {name} in range(8):" for depth, name in enumerate("ijk")]
    body = check(parse(declared + "\n".join([*loops, *(" " * 12 + one for one in stmts)]))).body
    assert reuses(body, points=64, reuse=2) is reused


def test_what_is_not_placed_shares_no_loops_with_a_contraction() -> None:
    *_, last = head_by_head(HEADS.replace("p[h, i, j] * v[h, j, c]", "exp(p[h, i, j]) * v[h, j, c]"))
    assert last.why == "both reuse what they read, and each wants the caches for itself"


def test_nothing_but_batch_loops_is_shared_with_a_contraction_inside_others() -> None:
    text = HEADS + "for h in range(4):\n    for i in range(8):\n        z[h, i] = y[h, i, 1]\n"
    kernels = head_by_head(text)
    (loop,) = stage(kernels[-1:], 4)[0].body
    assert sum(isinstance(one, Staged) for one in loop.body) == 2  # type: ignore[union-attr]


def test_values_reach_what_joined_without_memory() -> None:
    before, _ = CONTRACTIONS["what starts it and what follows"]
    kernels = fused(nests(before), (), wf.CompileOptions(contraction_points=4), True)
    (kernel,) = forwarded(kernels, [stmt.buffer for stmt in kernels[0].body[0].body if hasattr(stmt, "buffer")][1:])  # type: ignore[union-attr]
    assert "W[i] = W" in show(Program(kernel.body))
    assert "V[i]" not in show(Program(kernel.body))


# The loop tree, and names


def test_a_loop_tree_is_the_code_it_was_made_of() -> None:
    body = program(JOINS["as many loops as they share"][0]).body
    level = Level.of(body)
    assert level.body == body
    assert level.sizes == {"i": 4, "j": 3}
    assert [one.name for one in level.touched] == ["Y", "X", "V"]


def test_names_that_are_taken_are_numbered() -> None:
    assert new_names(["i", "j", "t_2"], ["i", "t_2", "t_3"]) == {"i": "i_2", "j": "j", "t_2": "t_4"}


def test_loops_and_variables_are_called_differently() -> None:
    body = program(
        """
        for i in range(4):
            t: float32 = V[i]
            for j in range(3):
                t = t + X[i, j]
            W[i] = t
        """
    ).body
    assert bound_names(body) == {"i", "j", "t"}
    assert text(renamed(body, {"i": "p", "t": "u"})) == (
        """
for p in range(4):
    u: float32 = V[p]
    for j in range(3):
        u = u + X[p, j]
    W[p] = u
"""
    )
