"""Folding: smaller buffers, the same values."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings

from loops.programs import GIVEN
from schedule.kernels import Sample, add, at, buffers_in, floats, inside, loop, model_samples, plus, read, store
from schedule.rows import Turns, turns
from weft.loops import Buffer, Cast, Fill, If, Program, Read, Role, Stmt, check, show
from weft.loops.interp import run, run_scalar
from weft.loops.reaching_writes import covered, sites
from weft.schedule import Kernel
from weft.schedule.memory.fold_storage import folded

E = floats(0, "e", 3, 4)
X = floats(1, "x", 3, 4)
Y = floats(2, "y", 3, 4)
S = floats(-1, "s", 3)
W = floats(3, "w", 3)
V = floats(4, "v", 4)


def row(*after: Stmt) -> Kernel:
    """e[i, j] is written in a row, then used."""
    return Kernel((), (loop("i", 3, loop("j", 4, store(E, at("i", "j"), read(X, "i", "j"))), *after),))


USE = loop("k", 4, store(Y, at("i", "k"), plus(read(E, "i", "k"), read(E, "i", 0))))


def is_folded(buffer: Buffer) -> bool:
    return buffer.role is Role.FOLDED


def shown(kernels: list[Kernel]) -> str:
    return "\n".join(show(Program(kernel.body)) for kernel in kernels)


def test_a_row_is_used_again_in_every_turn() -> None:
    kernels = folded([row(USE)], [Y])
    assert shown(kernels) == (
        "for i in range(3):\n"
        "    for j in range(4):\n"
        "        e[j] = x[i, j]\n"
        "    for k in range(4):\n"
        "        y[i, k] = e[k] + e[0]"
    )
    (new,) = [one for one in buffers_in(kernels) if is_folded(one)]
    assert new == Buffer(0, "e", (4,), "float32", Role.FOLDED, E)
    assert not any(map(is_folded, (E, X, Y, S)))


def test_what_an_inner_loop_carries_is_folded() -> None:
    steps = loop("j", 3, store(E, at("i", "j+1"), read(E, "i", "j")))
    kernels = folded([Kernel((), (loop("i", 3, store(E, at("i", 0), 1.0), steps),))], [Y])
    assert shown(kernels) == "for i in range(3):\n    e[0] = 1.0\n    for j in range(3):\n        e[j + 1] = e[j]"


def test_what_an_outer_loop_carries_is_not_folded() -> None:
    """Iterations of j share no memory: what each writes is read in the next one of i, after all others have written."""
    start = If((inside("i", 1),), (store(E, at("j", 0), 1.0),))
    body = loop("i", 3, loop("j", 3, start, store(E, at("j", "i+1"), read(E, "j", "i"))))
    assert covered(sites((body,))[E])
    assert not any(is_folded(one) for one in buffers_in(folded([Kernel((), (body,))], [Y])))


def test_a_number_keeps_an_axis_and_its_id() -> None:
    body = loop("i", 3, store(S, at("i"), 0.0), loop("j", 4, add(S, at("i"), read(X, "i", "j"))), USE_S)
    kernels = folded([Kernel((), (body,))], [Y])
    (new,) = [one for one in buffers_in(kernels) if is_folded(one)]
    assert new == Buffer(S.id, "s", (1,), "float32", Role.FOLDED, S)
    check(Program(kernels[0].body))


USE_S = loop("k", 4, store(Y, at("i", "k"), read(S, "i")))


def test_several_axes_go_at_once() -> None:
    big = floats(7, "big", 2, 3, 4)
    body = loop(
        "o",
        2,
        loop("i", 3, loop("j", 4, store(big, at("o", "i", "j"), 1.0)), store(W, at("i"), read(big, "o", "i", 0))),
    )
    (new,) = [one for one in buffers_in(folded([Kernel((), (body,))], [W])) if is_folded(one)]
    assert new.shape == (4,)


def test_a_gather_through_a_folded_buffer() -> None:
    whole = Buffer(8, "n", (3,), "int64")
    found = store(whole, at("i"), Cast("int64", read(W, "i")))
    used = store(Y, at("i", 0), Read(X, (*at("i"), read(whole, "i"))))
    kernels = folded([Kernel((), (loop("i", 3, found, used),))], [Y])
    assert "y[i, 0] = x[i, n[0]]" in shown(kernels)


STAYS: dict[str, tuple[list[Kernel], list[Buffer]]] = {
    "it is kept": ([row(USE)], [E, Y]),
    "another kernel reads it": ([row(USE), Kernel((), (loop("k", 4, store(Y, at(0, "k"), read(E, 2, "k"))),))], [Y]),
    "a read outside the loop": ([Kernel((), (*row().body, loop("i", 3, USE)))], [Y]),
    "another turn's row": ([row(loop("k", 4, store(Y, at("i", "k"), read(E, "2-i", "k"))))], [Y]),
    "its old value": ([Kernel((), (loop("i", 3, USE, *row().body[0].body),))], [Y]),  # type: ignore[union-attr]
    "only some cells": (
        [Kernel((), (loop("i", 3, loop("j", 3, store(E, at("i", "j"), read(X, "i", "j"))), USE),))],
        [Y],
    ),
    "only under a test": (
        [Kernel((), (loop("i", 3, If((inside("i-1", 3),), row().body[0].body), USE),))],  # type: ignore[union-attr]
        [Y],
    ),
    "filled as a whole": ([Kernel((), (loop("i", 3, Fill(E, 0), USE),))], [Y]),
    "given": ([Kernel((), (loop("i", 3, USE),))], [Y]),
    "two rows in each turn": (
        [
            Kernel((), (
                loop(
                    "i", 3,
                    loop("j", 4, store(E, at(0, "j"), 1.0), store(E, at(1, "j"), 2.0)),
                    loop("k", 4, store(Y, at("i", "k"), plus(read(E, 0, "k"), read(E, 1, "k")))),
                ),
            ))
        ],
        [Y],
    ),
    "two loops of one name": (
        [Kernel((), (loop("j", 4, store(V, at("j"), 1.0)), loop("j", 4, store(Y, at(0, "j"), read(V, "j")))))],
        [Y],
    ),
}  # fmt: skip


@pytest.mark.parametrize("why", STAYS)
def test_what_must_not_be_folded(why: str) -> None:
    kernels, kept = STAYS[why]
    assert folded(kernels, kept) == kernels


@given(turns())
def test_folding_changes_no_value(case: Turns) -> None:
    kernels = folded([case.kernel], case.others)
    check(Program(kernels[0].body), GIVEN)
    new = [one for one in buffers_in(kernels) if one.name == "T"]
    memory, other = case.memory(), case.memory()
    other |= {one: np.full(one.shape, 7, one.dtype) for one in new if is_folded(one)}
    run_scalar(Program(case.kernel.body), memory, dict.fromkeys(GIVEN, 1))
    run_scalar(Program(kernels[0].body), other, dict.fromkeys(GIVEN, 1))
    for one in case.others:
        np.testing.assert_array_equal(other[one], memory[one])


@given(turns())
def test_what_can_be_folded_is(case: Turns) -> None:
    own = sites(case.kernel.body).get(case.buffer, [])
    found = [one for one in buffers_in(folded([case.kernel], case.others)) if one.name == "T"]
    possible = bool(own) and covered(own) and all(site.access.at is not None for site in own)
    assert [is_folded(one) for one in found] == [possible] * len(found)


@settings(max_examples=15)
@given(model_samples())
def test_folded_models_compute_the_same(sample: Sample) -> None:
    kernels = folded(sample.kernels, sample.kept)
    sizes = [sum(int(np.prod(one.shape)) for one in buffers_in(some)) for some in (kernels, sample.kernels)]
    assert sizes[0] <= sizes[1]
    memory = sample.memory(kernels)
    for found, wanted in zip(sample.run(kernels, memory), sample.expected(), strict=True):
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14)


def test_both_walks_agree_on_a_folded_kernel() -> None:
    kernels = folded([row(USE)], [Y])
    new = buffers_in(kernels)
    results = []
    for walk in (run, run_scalar):
        memory = {one: np.arange(np.prod(one.shape), dtype="float32").reshape(one.shape) for one in new}
        walk(Program(kernels[0].body), memory)
        results.append(memory[Y])
    np.testing.assert_array_equal(results[0], results[1])
    np.testing.assert_array_equal(results[0][1], np.arange(4, 8) + 4)
