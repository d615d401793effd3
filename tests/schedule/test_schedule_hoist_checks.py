"""What is checked of a run is found before it writes what outlasts it."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from schedule.kernels import add, at, floats, loop, read, store
from weft.loops import Program, Stmt, parse, show
from weft.schedule.hoist_checks import Checking, checking, hoisted_checks
from weft.schedule.nodes import Kernel

X, W, LOW, Y = floats(0, "x", 3), floats(1, "w", 3), floats(2, "low", 1), floats(3, "y", 3)
CLEAR = store(W, at("i"), 0.0)
FIND = add(LOW, at(0), read(X, "i"))
COPY = store(X, at("i"), read(Y, "i"))
GROW = add(W, at("i"), read(X, "i"))
READ = store(X, at("i"), read(W, "i"))


def kernels(*stmts: Stmt) -> list[Kernel]:
    return [Kernel((), (loop("i", 3, one),)) for one in stmts]


@pytest.mark.parametrize(
    ("before", "after", "when"),
    [
        pytest.param((CLEAR, FIND, GROW), (FIND, CLEAR, GROW), Checking(1), id="moves to the front"),
        pytest.param((CLEAR, COPY, FIND), (COPY, FIND, CLEAR), Checking(2), id="with what it reads"),
        pytest.param((GROW, COPY, FIND), (GROW, COPY, FIND), Checking(0, (LOW,)), id="not past who reads what it has"),
        pytest.param((READ, FIND, GROW), (READ, FIND, GROW), Checking(2), id="stays where it may"),
        pytest.param((GROW, READ, FIND), (GROW, READ, FIND), Checking(0, (LOW,)), id="of what lasts it comes late"),
        pytest.param((COPY, FIND), (COPY, FIND), Checking(0, (LOW,)), id="and so it does if nothing lasts"),
    ],
)
def test_order(before: tuple[Stmt, ...], after: tuple[Stmt, ...], when: Checking) -> None:
    found = hoisted_checks(kernels(*before), [LOW], [W])
    assert list(found) == kernels(*after)
    assert checking(found, [LOW], [W]) == when


BEFORE = """
for i in range(3):
    w[i] = 0
for i in range(3):
    low[0] += x[i]
for i in range(3):
    w[i] += x[i]
"""
AFTER = """
for i in range(3):
    low[0] += x[i]
for i in range(3):
    w[i] = 0
for i in range(3):
    w[i] += x[i]
"""


def test_what_is_checked_is_computed_before_anything_that_lasts_is_written() -> None:
    apart = [Kernel((), (stmt,)) for stmt in parse(BEFORE, [X, W, LOW]).body]
    found = tuple(stmt for kernel in hoisted_checks(apart, [LOW], [W]) for stmt in kernel.body)
    assert show(Program(found)) == AFTER.strip()


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_step_with_an_embedding_copies_nothing(backend: str) -> None:
    """What it looks up is known before the gradients are cleared, though the loops are alike."""
    ids = wf.data(np.array([1, 0, 1], "int32"), batch=1, label="ids")
    table = wf.param("table", o=(4, 3))
    loss = wf.mean(table[ids] ** 2 + table[ids + 1], "...|... => 0")
    step = wf.Context(backend).compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1)))
    assert step.compiled.checking.kernels
    assert not step.compiled.checking.late
