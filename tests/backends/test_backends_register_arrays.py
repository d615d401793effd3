"""What a loop accumulates in registers: arrays of a function's own, in place of cells of a buffer."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from loops.written import program, text
from weft.backends.cc.register_arrays import held_in, with_held
from weft.loops import Buffer, Program, Role
from weft.loops.interp import run, run_scalar
from weft.loops.walk import buffers_of

#: Rows that data says, added up.
SUM = """
for l in range(3):
    r: int64 = K[l]
    for d in range(40) in registers of 8:
        {}
"""
STAYS = {
    "read elsewhere": SUM.format("C[d] += A[r, d]") + "    D[0] = C[3]\n",
    "written elsewhere": SUM.format("C[d] += A[r, d]") + "    C[3] = D[0]\n",
    "each iteration has cells of its own": SUM.format("B[l, d] += A[r, d]"),
    "cells that lie apart": SUM.format("C[39 - d] += A[r, d]"),
    "on vectors": SUM.format("C[d] += A[r, d]").replace("in registers of 8", "on vectors"),
    "past the caches": SUM.format("C[d] = A[r, d]").replace("of 8", "of 16, non-temporal").replace("40", "32"),
}


def test_before_and_after() -> None:
    after = """
for d in range(40) in registers of 8:
    C_held[d] = C[d]
for l in range(3):
    r: int64 = K[l]
    for d in range(40) in registers of 8:
        C_held[d] += A[r, d]
for d in range(40) in registers of 8:
    C[d] = C_held[d]
"""
    assert text(with_held(program(SUM.format("C[d] += A[r, d]")).body)) == after


@pytest.mark.parametrize("stmt", ["C[d] += A[r, d]", "C[d] = C[d] * 2 + A[r, d]", "B[7, d] max= A[r, d]"])
def test_what_is_found_is_the_same(stmt: str) -> None:
    before = program(SUM.format(stmt))
    after = Program(with_held(before.body))
    assert [one.role for one in held_in(after.body)] == [Role.HELD]
    first, second = _memory(before), _memory(after)
    run_scalar(before, first)
    run(after, second)
    for one, values in first.items():
        np.testing.assert_array_equal(values, second[one])


@pytest.mark.parametrize("written", STAYS.values(), ids=STAYS.keys())
def test_what_is_touched_otherwise_stays_in_memory(written: str) -> None:
    before = program(written).body
    assert with_held(before) == before


def _memory(code: Program) -> dict[Buffer, np.ndarray]:
    found = {one: np.full(one.shape, 77, one.dtype) for one in buffers_of(code)}
    for one, values in found.items():
        if one.role is not Role.HELD:
            values[:] = np.random.default_rng(one.id).integers(0, 4, one.shape)
    return found


@pytest.mark.parametrize("width", [16, 48, 64, 256, 512, 40])
def test_gathered_sums_in_registers(width: int) -> None:
    rng = np.random.default_rng(width)
    table, ids = rng.integers(-9, 9, (30, width)).astype(np.float32), rng.integers(0, 30, (70, 20))
    (bag,) = wf.tc.define("def bag(float(E,D) T, int64(B,L) I) -> (O) { O(b,d) +=! T(I(b,l),d) }")
    found = bag(wf.data(table, label="t"), wf.data(ids, label="i"))
    routine = wf.Context("cc").compile(wf.seq(), keep=[found])
    machine = wf.Machine.here()
    lanes = machine.vector_bytes // 4
    written = width % lanes == 0 and width // lanes <= machine.registers // 2
    assert ("_held0[" in routine.show("source")) == written
    np.testing.assert_array_equal(wf.Context("cc")[found], table[ids].sum(1))


@pytest.mark.parametrize("spec", ["ndhw => n", "ndhw => 0"])
def test_sums_of_rows_side_by_side_in_registers(spec: str) -> None:
    numbers = np.random.default_rng(0).integers(-9, 9, (6, 3, 28, 28)).astype(np.float32)
    total = wf.einsum(spec, wf.data(numbers, label="x"), label="total")
    routine = wf.Context("cc").compile(total.forward, keep=[total])
    assert "for row in range(4) collapsed by 2, in registers of" in routine.show("kernels")
    assert "_held0[112]" in routine.show("source")
    wanted = numbers.sum((1, 2, 3)) if spec.endswith("n") else numbers.sum(keepdims=True).ravel()
    np.testing.assert_array_equal(wf.Context("cc")[total], wanted)
