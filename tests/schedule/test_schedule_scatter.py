"""Writes to cells that data chooses: what each pass refuses, and what it may do all the same."""

from __future__ import annotations

import numpy as np
import pytest

from loops.written import BUFFERS, K, V, W, X, Y, program
from weft.backends.cc import Cc
from weft.loops import Annotation, Collapse, For, Jam, Parallel, Program, Vector, show
from weft.loops.interp import run, run_scalar
from weft.loops.legality import illegal
from weft.loops.nests import nests
from weft.loops.reaching_writes import covered, sites
from weft.optimise.inline_decision import decide
from weft.optimise.loop_order import is_reorderable, ordered
from weft.schedule.annotate import annotated
from weft.schedule.fusion.dead_stores import eliminate_dead_stores
from weft.schedule.fusion.forward_stores import forwarded
from weft.schedule.fusion.fuse import fused
from weft.schedule.memory.fold_storage import folded
from weft.schedule.memory.in_place import takes_over
from weft.schedule.memory.memory_plan import planned
from weft.schedule.nodes import as_kernels
from weft.schedule.products.contractions import contracting

ADDED = "for i in range(4):\n    V[K[i]] += W[i]"
ROWS = "for i in range(4):\n    for j in range(3):\n        X[K[i], j] += Y[i, j]"
#: The same row of the target in every iteration of `j`, and an axis of its own for each of `i`.
APART = "for i in range(4):\n    for j in range(3):\n        Z[i, min(K[j], 2)] += Y[i, j]"


def loop(text: str) -> For:
    (found,) = program(text).body
    assert isinstance(found, For)
    return found


@pytest.mark.parametrize(
    ("text", "how"),
    [(ADDED, Vector()), (ADDED, Parallel(2)), (ADDED.replace("+=", "="), Vector()), (ROWS, Parallel(2))],
)
def test_iterations_that_data_may_bring_to_one_cell_run_one_after_another(text: str, how: Annotation) -> None:
    target = "V" if "V" in text else "X"
    assert illegal(annotated(loop(text), how)) == f"iterations share cells of `{target}`"


def test_iterations_with_an_axis_of_their_own_may_run_at_once() -> None:
    outer = loop(APART)
    (inner,) = loop(ROWS).body
    assert isinstance(inner, For)
    assert not illegal(annotated(outer, Parallel(2)))
    assert not illegal(annotated(inner, Vector()))
    (inner,) = outer.body
    assert isinstance(inner, For)
    assert illegal(annotated(inner, Vector())) == "iterations share cells of `Z`"


def test_cells_that_data_chooses_are_not_jammed_nor_collapsed() -> None:
    assert illegal(annotated(loop(ROWS), Jam(2))) == "its cells are not indexed by one loop each"
    assert illegal(annotated(loop(ROWS), Collapse(2))) == "cells of `i` do not follow those of `j`"


@pytest.mark.parametrize("sign", ["=", "+="])
def test_cells_are_come_to_in_the_order_written(sign: str) -> None:
    """`j` could as well be the inner loop, for memory: but then the last value of a cell would be another."""
    text = f"for j in range(3):\n    for i in range(4):\n        V[K[i]] {sign} X[i, j]"
    (nest,) = nests(program(text))
    assert ordered(nest).loops == nest.loops
    assert is_reorderable(nest) == (sign == "+=")


def test_loops_that_tell_cells_apart_are_ordered_for_memory() -> None:
    (nest,) = nests(program("for j in range(3):\n    for i in range(4):\n        X[K[i], j] += Y[i, j]"))
    assert [name for name, _ in ordered(nest).loops] == ["i", "j"]


def test_a_nest_that_data_leads_may_come_to_a_cell_again() -> None:
    assert [nest.reduces for nest in nests(program(ADDED + "\n" + ADDED.replace("K[i]", "i")))] == [True, False]


def test_what_is_scattered_is_stored() -> None:
    text = f"for i in range(4):\n    V[i] = 0.0\n{ADDED}\nfor i in range(4):\n    W[i] = V[i]"
    verdicts = decide(nests(program(text.replace("+= W[i]", "+= X[i, 0]"))), {W: "kept"})
    assert verdicts[V].stored
    assert verdicts[V].why == "`W` reads it at indices that its loops cannot be solved for"


FUSED = {
    "not with what reads the cells": (f"{ADDED}\nfor i in range(4):\n    X[i, 0] = V[i]", 2),
    "not with what reads them through the same data": (f"{ADDED}\nfor i in range(4):\n    X[i, 0] = V[K[i]]", 2),
    "not with what changes the data": (
        "for i in range(4):\n    K[i] = i\nfor i in range(4):\n    V[K[3 - i]] = 1.0",
        2,
    ),
    "with what only reads the same": (f"{ADDED}\nfor i in range(4):\n    X[i, 0] = W[i]", 1),
    "with what computes the data, point by point": (
        "for i in range(4):\n    K[i] = 3 - i\nfor i in range(4):\n    V[K[i]] += W[i]",
        1,
    ),
    "with what has an axis of its own": (f"{APART}\nfor i in range(4):\n    V[i] += Z[i, 2]", 1),
}


@pytest.mark.parametrize("case", FUSED)
def test_fusion(case: str) -> None:
    text, count = FUSED[case]
    assert len(fused(list(as_kernels(program(text))))) == count


def test_stores_are_forwarded_as_long_as_neither_cell_nor_data_change() -> None:
    text = """
        for i in range(4):
            V[K[i]] = W[i] * 2
            X[i, 0] = V[K[i]]
            V[i] = 1.0
            X[i, 1] = V[K[i]]
        """
    (kernel,) = forwarded(list(as_kernels(program(text))), [X, V])
    assert [line.strip() for line in show(Program(kernel.body)).splitlines()[2:]] == [
        "V[K[i]] = V_",
        "X[i, 0] = V_",
        "V[i] = 1.0",
        "X_: float32 = V[K[i]]",
        "X[i, 1] = X_",
    ]


def test_what_an_iteration_leaves_to_the_next_is_read_until_then() -> None:
    text = """
        for j in range(3):
            V[0] = 1.0
            for i in range(3):
                V[i + 1] = V[i] * 2
                X[i, j] = V[i]
        """
    (kernel,) = forwarded(list(as_kernels(program(text))), [V, X])
    assert [line.strip() for line in show(Program(kernel.body)).splitlines()[4:]] == [
        "V_2: float32 = V_",
        "V_ = V_ * 2",
        "V[i + 1] = V_",
        "X[i, j] = V_2",
    ]


def test_a_store_is_dead_if_the_next_goes_to_the_same_cell_for_sure() -> None:
    same = program("for i in range(4):\n    V[K[i]] = 1.0\n    V[K[i]] = 2.0")
    between = program("for i in range(4):\n    V[K[i]] = 1.0\n    K[i] = 0\n    V[K[i]] = 2.0")
    (shorter,), (kept,) = (eliminate_dead_stores([one.body], BUFFERS.values()) for one in (same, between))
    assert "1.0" not in show(Program(shorter))
    assert kept is between.body


def test_what_data_chooses_is_not_sure_to_be_written() -> None:
    found = sites(program("for i in range(4):\n    V[K[i]] = 1.0\nfor i in range(4):\n    W[i] = V[i]").body)
    assert not covered(found[V])
    assert (
        "may be read before it is written"
        in planned(as_kernels(program("for i in range(4):\n    V[K[i]] = 1.0\nW[0] = V[0]")), [W]).apart.values()
    )


def test_memory_is_not_taken_over_by_what_data_leads() -> None:
    """`W` is read at `i` after `V` was written at any cell."""
    found = sites(program("for i in range(4):\n    V[K[i]] = W[i]").body)
    assert not takes_over(found[V], found[W], private=False)


def test_an_axis_that_data_chooses_is_not_folded() -> None:
    text = "for i in range(4):\n    V[K[i]] = 1.0\n    W[i] = V[K[i]]"
    kernels = list(as_kernels(program(text)))
    assert folded(kernels, [W]) == kernels


def test_a_product_into_cells_that_data_chooses_is_no_contraction_to_be_placed() -> None:
    loops = "for i in range(4):\n    for j in range(3):\n        for k in range(4):\n            "
    text = f"{loops}X[K[i], j] += Y[i, j] * Z[k, j]"
    found = contracting(program(text).body[0])
    assert found is not None
    assert found.what.why


@pytest.mark.parametrize("sign", ["=", "+=", "max=", "*="])
def test_repeated_cells_are_written_in_order_everywhere(sign: str) -> None:
    made = program(ROWS.replace("+=", sign))
    values = np.random.default_rng(0).uniform(0.5, 1.5, (4, 3)).astype("float32")
    found = []
    for how in (run_scalar, run, lambda one, memory: Cc().compile(as_kernels(one)).bind(memory)({})):
        memory = {X: np.ones((4, 3), "float32"), Y: values.copy(), K: np.array([2, 0, 2, 2])}
        how(made, memory)
        found.append(memory[X])
    assert all(np.array_equal(one, found[0]) for one in found)
    assert (found[0][[1, 3]] == 1).all()
