"""The walk over the loop language against a plain recursion over the fields of its nodes."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass
from itertools import count
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings

from loops.blocks import MIXED, Numbers, blocks
from loops.programs import GIVEN
from loops.written import program, text
from weft.affine import Affine
from weft.loops import Buffer, Fill, For, If, Inside, Let, Local, Program, Read, Remark, Set, Stmt, Store, Update, check
from weft.loops.interp import run_scalar
from weft.loops.walk import (
    Renaming,
    Scope,
    accesses,
    around,
    body_of,
    bottom_up,
    buffers_of,
    children,
    everything,
    free,
    map_scalars,
    parts,
    perfect,
    rename,
    retargeted,
    rewritten,
    scoped,
    substituted,
    top_down,
    variables,
    walk,
    with_body,
    with_children,
    with_parts,
)
from weft.ops import Scalar

SAMPLES = blocks(MIXED)


def fields_of(node: Any) -> Iterator[Any]:
    """Everything in a node, itself first, as its fields are written."""
    yield node
    if is_dataclass(node) and not isinstance(node, Buffer):
        for field in fields(node):
            yield from fields_of(getattr(node, field.name))
    elif isinstance(node, tuple):
        for one in node:
            yield from fields_of(one)


def scalars_of(body: tuple[Stmt, ...]) -> list[Scalar]:
    return [part for stmt in everything(body) for part in parts(stmt)]


@given(SAMPLES)
def test_everything_is_found(sample: Numbers) -> None:
    body = sample.program.body
    found = list(fields_of(body))
    assert everything(body) == [one for one in found if isinstance(one, Stmt)]
    inside = [one for scalar in scalars_of(body) for one in walk(scalar)]
    targets = [stmt.local for stmt in everything(body) if isinstance(stmt, Let | Set)]
    kinds = [one for one in found if isinstance(one, Scalar)]
    assert len(inside) + len(targets) == len(kinds)
    assert {*inside, *targets} == set(kinds)
    assert set(buffers_of(sample.program)) == {one for one in found if isinstance(one, Buffer)}


@given(SAMPLES)
def test_what_a_rule_leaves_alone_is_the_very_same(sample: Numbers) -> None:
    body = sample.program.body
    assert bottom_up(body, lambda stmt: (stmt,)) is body
    assert top_down(body, lambda stmt: None) is body
    for stmt in everything(body):
        assert map_scalars(stmt, lambda scalar: scalar) is stmt
        assert with_parts(stmt, parts(stmt)) is stmt
        assert not body_of(stmt) or with_body(stmt, (*body_of(stmt),)) is stmt
    for scalar in scalars_of(body):
        assert rewritten(scalar, lambda one: None) is scalar
        assert substituted(scalar, {}) is scalar
        for one in walk(scalar):
            assert with_children(one, (*children(one),)) is one


@given(SAMPLES)
def test_a_rebuilt_node_is_equal(sample: Numbers) -> None:
    def copied(scalar: Scalar) -> Scalar:
        return Local(scalar.name, scalar.dtype) if isinstance(scalar, Local) else with_children(scalar, made(scalar))

    def made(scalar: Scalar) -> tuple[Scalar, ...]:
        return tuple(copied(one) for one in children(scalar))

    for stmt in everything(sample.program.body):
        new = map_scalars(stmt, copied)
        assert new == stmt
        assert (new is stmt) == (not any(variables(part) for one in everything((stmt,)) for part in parts(one)))


def plainly(body: tuple[Stmt, ...], loops: dict, tests: tuple, known: set) -> Iterator[tuple[Stmt, dict, tuple, set]]:
    """What is around each statement, told by a recursion of its own."""
    known = set(known)
    for stmt in body:
        yield stmt, loops, tests, set(known)
        if isinstance(stmt, For):
            yield from plainly(stmt.body, {**loops, stmt.loop: stmt.size}, tests, known)
        elif isinstance(stmt, If):
            yield from plainly(stmt.body, loops, (*tests, *stmt.tests), known)
        elif isinstance(stmt, Remark):
            yield from plainly(stmt.body, loops, tests, known)
        elif isinstance(stmt, Let):
            known.add(stmt.local)


def place(body: tuple[Stmt, ...], scope: Scope) -> Stmt:
    """The statement that the steps of a scope lead to."""
    *outer, last = [step.position for step in scope.steps]
    for number in outer:
        body = body_of(body[number])
    return body[last]


@given(SAMPLES)
def test_a_scope_is_what_is_around(sample: Numbers) -> None:
    body = (Remark("a remark", sample.program.body),)
    found = [(stmt, dict(scope.loops), scope.tests, set(scope.variables)) for stmt, scope in scoped(body)]
    assert found == list(plainly(body, {}, (), set()))
    assert all(place(body, scope) is stmt for stmt, scope in scoped(body))


@given(SAMPLES)
def test_accesses_are_all_reads_and_writes(sample: Numbers) -> None:
    body = sample.program.body
    writes = [stmt for stmt in everything(body) if isinstance(stmt, Store | Update | Fill)]
    assert [one.buffer for one in accesses(body) if one.writes] == [stmt.buffer for stmt in writes]
    reads = [(one.buffer, one.at) for one in fields_of(body) if isinstance(one, Read)]
    reads += [(one.buffer, one.at) for one in writes if isinstance(one, Update)]
    found = [(one.buffer, one.at) for one in accesses(body) if not one.writes]
    assert sorted(map(repr, found)) == sorted(map(repr, reads))


def result(sample: Numbers, body: tuple[Stmt, ...], static: dict[str, int]) -> list[np.ndarray]:
    memory = sample.memory()
    run_scalar(check(Program(body), static), memory, {name: size - 1 for name, size in static.items()})
    return [memory[one] for one in sample.buffers]


@settings(deadline=None)
@given(SAMPLES)
def test_renaming_changes_no_meaning(sample: Numbers) -> None:
    numbers, body = count(), sample.program.body

    def bound(stmt: For | Let) -> str:
        return f"n{next(numbers)}"

    def static_too(index: Affine, known: Renaming) -> Affine:
        return Affine(tuple((factor, known.get(name, f"static {name}")) for factor, name in index.terms), index.offset)

    renamed = rename(body, bound, index=static_too)
    binders = [one for one in everything(renamed) if isinstance(one, For | Let)]
    names = [one.loop if isinstance(one, For) else one.local.name for one in binders]
    assert len(set(names)) == len(names)
    static = {f"static {name}": size for name, size in GIVEN.items()}
    for one, other in zip(result(sample, body, GIVEN), result(sample, renamed, static), strict=True):
        np.testing.assert_array_equal(one, other)


def test_names_that_change_places_are_not_captured() -> None:
    body = program("""
    for i in range(4):
        for j in range(3):
            t: float32 = X[i, j]
            Y[i, j] = t
            for k in range(3):
                Z[i, k] += t
    """).body
    others = {"i": "j", "j": "k", "k": "i", "t": "X"}
    swapped = rename(body, lambda stmt: others[stmt.loop if isinstance(stmt, For) else stmt.local.name])
    assert text(swapped) == (
        "\nfor j in range(4):\n"
        "    for k in range(3):\n"
        "        X_: float32 = X[j, k]\n"
        "        Y[j, k] = X_\n"
        "        for i in range(3):\n"
        "            Z[j, i] += X_\n"
    )


def test_each_use_is_called_after_what_binds_it() -> None:
    body = program("""
    t: float32 = V[0]
    for i in range(4):
        W[i] = t
        t: float32 = V[i]
        W[i] = t
    W[0] = t
    """).body
    numbers = count()
    assert text(rename(body, lambda stmt: f"{'i' if isinstance(stmt, For) else 't'}{next(numbers)}")) == (
        "\nt0: float32 = V[0]\n"
        "for i1 in range(4):\n"
        "    W[i1] = t0\n"
        "    t2: float32 = V[i1]\n"
        "    W[i1] = t2\n"
        "W[0] = t0\n"
    )


@given(SAMPLES)
def test_cells_can_be_moved(sample: Numbers) -> None:
    """Each buffer under another name: the same program, on other memory."""
    others = {one: Buffer(one.id + 10, f"{one.name}.other", one.shape, one.dtype) for one in sample.buffers}
    moved = retargeted(sample.program.body, lambda buffer, at: (others[buffer], at))
    assert set(buffers_of(Program(moved))) <= set(others.values())
    memory = {others[one]: array for one, array in sample.memory().items()}
    run_scalar(check(Program(moved), GIVEN), memory, {name: size - 1 for name, size in GIVEN.items()})
    for one, array in zip(sample.buffers, result(sample, sample.program.body, GIVEN), strict=True):
        np.testing.assert_array_equal(memory[others[one]], array)


def test_a_rule_sees_the_outer_or_the_inner_first() -> None:
    body = program("""
    for i in range(4):
        for j in range(3):
            X[i, j] = 0.0
    """).body
    seen: list[str] = []

    def rule(stmt: Stmt) -> tuple[Stmt, ...]:
        seen.append(type(stmt).__name__ + getattr(stmt, "loop", ""))
        return (stmt,)

    bottom_up(body, rule)
    top_down(body, lambda stmt: rule(stmt) and None)
    assert seen == ["Store", "Forj", "Fori", "Fori", "Forj", "Store"]
    assert top_down(body, lambda stmt: ()) == ()
    assert bottom_up(body, lambda stmt: () if isinstance(stmt, Store) else (stmt, stmt))[0].body[0].body == ()  # type: ignore[union-attr]


@pytest.mark.parametrize("most", [None, 0, 1, 2, 3])
def test_loops_are_put_around_and_taken_away(most: int | None) -> None:
    core = (Store(Buffer(0, "x", (2, 3), "int64"), (Affine.of("i"), Affine.of("j")), Affine.of("i")),)
    loops = (("i", 2), ("j", 3))
    nested = around(loops, core)
    taken, inner = perfect(nested, most)
    assert taken == loops[:most]
    assert around(taken, inner) == nested


def test_a_test_is_part_of_its_statement() -> None:
    stmt = If((Inside(Affine.of("i"), 3),), ())
    assert with_parts(stmt, (Affine.of("j"),)) == If((Inside(Affine.of("j"), 3),), ())
    assert free(parts(stmt)[0]) == ["i"]
