"""What kernels are said to cost against what running them does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings

from loops.programs import GIVEN, Sample
from schedule.kernels import add, at, floats, inside, loop, plus, read, store
from schedule.rows import prefaced
from schedule.watched import watched
from weft.affine import Affine
from weft.loops import Buffer, Cast, Fill, For, If, Let, Local, Program, Read, Remark, Set, Stmt, Store, Update
from weft.loops.interp import run_scalar, values
from weft.loops.reaching_writes import covered, sites
from weft.machine import Machine
from weft.ops import OPS, Num, call
from weft.schedule import Kernel
from weft.schedule.cost import Cost, computing_seconds, cost, roofline, show_costs

A, B, C = floats(0, "a", 5, 6), floats(1, "b", 6, 7), floats(2, "c", 5, 7)
V, W = floats(3, "v", 8), floats(4, "w", 9)


def kernel(*body: Stmt) -> Kernel:
    return Kernel((), body)


def product() -> Kernel:
    term = call("mul", read(A, "i", "k"), read(B, "k", "j"))
    return kernel(
        loop("i", 5, loop("j", 7, store(C, at("i", "j"), 0.0), loop("k", 6, add(C, at("i", "j"), term)))),
    )


def test_a_matrix_product() -> None:
    found = cost(product())
    assert found.flops == 2 * 5 * 6 * 7
    assert found.read == 4 * (5 * 6 + 6 * 7)  # the sums start here, so they are not read from memory
    assert found.written == 4 * 5 * 7
    assert found.loads == 4 * 3 * 5 * 6 * 7
    assert found.stores == 4 * (5 * 6 * 7 + 5 * 7)
    assert found.exact
    assert found.intensity == pytest.approx(420 / (4 * 107))


def test_adding_to_what_is_there_reads_it() -> None:
    found = cost(kernel(loop("i", 8, add(V, at("i"), read(W, "i")))))
    assert (found.flops, found.read, found.written) == (8, 4 * (8 + 8), 4 * 8)


def one_value(value: object) -> Cost:
    return cost(kernel(Store(V, at(0), value)))  # type: ignore[arg-type]


def test_what_counts_as_a_flop() -> None:
    x, y = read(W, 0), read(W, 1)
    assert one_value(call("exp", call("neg", x))).flops == 2
    assert one_value(call("fma", x, y, x)).flops == 2
    assert [one_value(call(name, x)).functions for name in ("exp", "neg", "sqrt")] == [1, 0, 0]
    assert one_value(call("arg2", x, y)).flops == 0
    chosen = one_value(call("where", call("lt", x, y), x, y))
    assert (chosen.flops, chosen.others) == (0, 2)
    converted = one_value(Cast("float32", Cast("float64", x)))
    assert (converted.flops, converted.others) == (0, 2)
    assert one_value(call("mul", Cast("float32", Num(2)), x)).others == 0  # a constant is no conversion
    gathered = one_value(Read(W, (call("add", Cast("int64", x), Cast("int64", y)),)))
    assert (gathered.flops, gathered.others) == (1, 2)
    assert cost(kernel(Store(V, (call("add", Cast("int64", x), Cast("int64", y)),), x))).flops == 1


def test_numbers_under_a_test_are_bounded() -> None:
    t = Local("t", "float32")
    tested = loop("i", 8, If((inside("i", 4),), (Set(t, plus(t, t)),)))
    found = cost(kernel(Let(t, Cast("float32", Num(1))), tested, store(V, at(0), t)))
    assert (found.flops, found.exact) == (8, False)


FOOTPRINTS: dict[str, tuple[Stmt, int, bool]] = {
    "a window": (loop("i", 6, loop("k", 3, add(V, at("i"), read(W, "i+k")))), 8 + 6, True),
    "a window with gaps": (loop("i", 3, loop("k", 2, add(V, at("i"), read(W, "3*i+k")))), 6 + 3, False),
    "every other cell": (loop("i", 4, add(V, at("i"), read(W, "2*i"))), 4 + 4, True),
    "backwards": (loop("i", 8, add(V, at("i"), read(W, "8-i"))), 8 + 8, True),
    "one cell again and again": (loop("i", 8, add(V, at("i"), read(W, 3))), 1 + 8, True),
    "two cells": (loop("i", 8, add(V, at("i"), plus(read(W, 3), read(W, 5)))), 2 + 8, True),
    "one read inside another": (loop("i", 8, add(V, at("i"), plus(read(W, "i"), read(W, 5)))), 8 + 8, True),
    "neighbours": (loop("i", 8, add(V, at("i"), plus(read(W, "i"), read(W, "i+1")))), 9 + 8, False),
    "between others": (loop("i", 4, add(V, at("i"), plus(read(W, "2*i"), read(W, 3)))), 5 + 4, False),
    "out of reach": (loop("i", 8, If((inside("-2", 9),), (add(V, at("i"), read(W, "-2")),))), 0 + 8, False),
    "a gather": (loop("i", 2, add(V, at("i"), Read(W, (Cast("int64", read(V, "i")),)))), 9 + 2, False),
    "a static index": (loop("i", 2, add(V, at("i"), read(W, "s"))), 1 + 2, True),
    "two static indices": (loop("i", 2, add(V, at("i"), plus(read(W, "s"), read(W, "t")))), 2 + 2, False),
    "padding": (
        loop("i", 8, loop("k", 3, If((inside("i+k-1", 9),), (add(V, at("i"), read(W, "i+k-1")),)))), 9 + 8, False,
    ),
    "a diagonal": (loop("i", 5, add(V, at("i"), read(A, "i", "i"))), 5 + 5, False),
    "the same diagonal": (loop("i", 5, add(V, at("i"), plus(read(A, "i", "i"), read(A, "i", "i")))), 5 + 5, False),
    "two diagonals": (loop("i", 5, add(V, at("i"), plus(read(A, "i", "i"), read(A, "i", "4-i")))), 10 + 5, False),
}  # fmt: skip


@pytest.mark.parametrize("name", FOOTPRINTS)
def test_footprints(name: str) -> None:
    stmt, cells, exact = FOOTPRINTS[name]
    found = cost(kernel(stmt))
    assert (found.read, found.exact) == (4 * cells, exact)


def test_a_fill_writes_every_cell() -> None:
    found = cost(kernel(Fill(A, 0)))
    assert found == Cost(0, 0, 0, 4 * 30, 0, 4 * 30, True)


@settings(max_examples=60)
@given(prefaced())
def test_costs_against_a_run(case: tuple[Sample, Buffer]) -> None:
    sample, _ = case
    assume(not gathering_updates(sample.program.body))  # the walk looks up where they are twice
    found = cost(Kernel((), sample.program.body))
    memory = watched(sample.memory())
    counted, functions = counting(lambda: run_scalar(sample.program, memory, dict.fromkeys(GIVEN, 1)))
    made = {one for one, own in sites(sample.program.body).items() if covered(own) and memory[one].written}
    seen = Cost(
        counted,
        found.others,
        8 * sum(len(one.read) for buffer, one in memory.items() if buffer not in made),
        8 * sum(len(one.written) for one in memory.values()),
        8 * sum(one.loads for one in memory.values()),
        8 * sum(one.stores for one in memory.values()),
        found.exact,
        functions,
    )
    if found.exact:
        assert found == seen
    for name in ("flops", "functions", "read", "written", "loads", "stores"):
        assert getattr(found, name) >= getattr(seen, name), name


def gathering_updates(body: Sequence[Stmt]) -> bool:
    return any(
        not all(isinstance(place, Affine) for place in stmt.at)
        if isinstance(stmt, Update)
        else isinstance(stmt, For | If | Remark) and gathering_updates(stmt.body)
        for stmt in body
    )


def counting(work: Callable[[], None]) -> tuple[int, int]:
    """How many flops work does, those operations that are no comparison and hand nothing on, a fused one twice; and how
    many functions."""
    count = functions = 0
    moves = ("identity", "arg1", "arg2", "where", "lt", "le", "eq", "ne", "precedes", "and", "or", "not")

    def counted(name: str) -> Callable[..., Any]:
        def meaning(*args: Any) -> Any:
            nonlocal count, functions
            functions += OPS[name].function
            count += 0 if name in moves else 2 if name == "fma" else 1
            return OPS[name].meaning(*args)

        return meaning

    table = {name: replace(op, meaning=counted(name)) for name, op in OPS.items()}
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(values, "OPS", table)
        work()
    return count, functions


def test_a_machine_is_as_slow_as_its_slower_half() -> None:
    machine = Machine(flops_per_s=100.0, bytes_per_s=10.0, cached_bytes_per_s=20.0, caches=(8, 16))
    assert roofline(Cost(flops=200, read=5, written=5), machine) == 2.0
    assert roofline(Cost(flops=200, read=25, written=5), machine) == 3.0
    assert roofline(Cost(read=10, written=5), machine) == 0.75
    assert roofline(Cost(flops=200), replace(machine, cores=4)) == 0.5
    last = replace(machine, caches=(4, 8, 16), last_cached_bytes_per_s=15.0)
    assert roofline(Cost(read=10, written=5), last) == 1.0
    assert roofline(Cost(read=10, written=5), replace(last, cores=3)) == 0.25  # a part of it is near each core
    assert roofline(Cost(read=8), last) == 0.4
    assert roofline(Cost(read=8), last, held=16) == 8 / 15
    assert roofline(Cost(read=8), last, held=17) == 0.8
    assert computing_seconds(Cost(flops=200, functions=6), replace(machine, function_ns=1e9)) == 8.0
    assert roofline(Cost(flops=200), Machine.here()) > 0


def test_costs_are_shown_as_a_table() -> None:
    first = replace(product(), remarks=("a comment", 'c =:+ a * b ~logic:"@"'))
    tested = loop("i", 8, If((inside("i", 4),), (add(V, at("i"), read(W, "i")),)))
    many = ("v =+ w", "one = two", "three =: four " + "+ five " * 9)
    assert show_costs([first, Kernel(many, (tested,))]) == (
        "kernel  flops  bytes  flops/byte     assignments\n"
        '0         420    428        0.98     c =:+ a * b ~logic:"@"\n'
        "1           8     96        0.08  ≤  v =+ w, one = two and 1 more\n"
        "all       428    524        0.82  ≤"
    )
    assert "c =:+ a" in show_costs([first])
    assert show_costs([Kernel(many[2:3], (tested,))]).count("…") == 1


def test_updates_count_their_operation() -> None:
    body = loop("i", 8, Update(V, at("i"), "max", read(W, "i")), Update(V, at("i"), "arg2", read(W, "i")))
    assert cost(kernel(body)).flops == 8
    memory = {V: np.zeros(8, "float32"), W: np.ones(9, "float32")}
    assert counting(lambda: run_scalar(Program((body,)), memory)) == (8, 0)
