"""Coverage: what is claimed to be written before it is read, is."""

from __future__ import annotations

import pytest
from hypothesis import given, settings

from loops.programs import GIVEN, Sample
from schedule.kernels import add, at, floats, inside, loop, plus, read, store
from schedule.rows import prefaced
from schedule.watched import watched
from weft.affine import Affine, _by_isl_covers, _plainly_covers
from weft.loops import Buffer, Cast, Fill, If, Inside, Local, Read, Remark, Stmt, Store
from weft.loops.interp import run_scalar
from weft.loops.reaching_writes import Site, _shared, covered, sites

E = floats(0, "e", 4)
R = floats(1, "r", 3, 4)
Y = floats(2, "y", 4)
W = floats(3, "w", 4)
Q = floats(4, "q", 3, 3)
GATHER = (Cast("int64", read(W, 0)),)
ZERO = Cast("float32", Affine(()))

COVERED: dict[str, list[Stmt]] = {
    "the same cell": [loop("i", 4, store(E, at("i"), 1.0), store(Y, at("i"), read(E, "i")))],
    "all cells, by a loop": [loop("i", 4, store(E, at("i"), 1.0)), loop("j", 4, store(Y, at("j"), read(E, "3-j")))],
    "all cells, by a fill": [Fill(E, 0), add(E, at(2), read(Y, 1))],
    "all cells, from two sides": [
        loop("i", 3, store(E, at("i"), 1.0)),
        loop("i", 1, store(E, at("i+3"), 1.0)),
        loop("i", 4, store(Y, at("i"), read(E, "i"))),
    ],
    "every other cell": [loop("i", 2, store(E, at("2*i"), 1.0)), store(Y, at(0), plus(read(E, 0), read(E, 2)))],
    "a sum that starts at nothing": [loop("i", 4, store(E, at("i"), 0.0), loop("j", 4, add(E, at("i"), read(Y, "j"))))],
    "a row in its turn": [
        loop("i", 3, loop("j", 4, store(R, at("i", "j"), 1.0)), loop("k", 4, store(Y, at("k"), read(R, "i", "k"))))
    ],
    "under the same test": [
        loop("i", 4, If((inside("i-1", 2),), (store(E, at("i"), 1.0), store(Y, at("i"), read(E, "i")))))
    ],
    "a test that holds wherever it is read": [
        loop("i", 4, If((inside("i", 3),), (store(E, at("i"), 1.0),))),
        loop("j", 3, store(Y, at("j"), read(E, "j"))),
    ],
    "under a remark": [Remark("first", (loop("i", 4, store(E, at("i"), 1.0)),)), store(Y, at(0), read(E, 3))],
    "gathered from all cells": [loop("i", 4, store(E, at("i"), 1.0)), store(Y, at(0), Read(E, GATHER))],
    "a static index": [store(E, at("s"), 1.0), store(Y, at(0), read(E, "s"))],
    "a diagonal of a row": [
        loop("i", 3, loop("j", 4, store(R, at("i", "j"), 1.0)), store(Y, at(0), read(R, "i", "i")))
    ],
    "only written": [store(E, at(0), 1.0)],
    "by the iteration before": [store(E, at(0), 1.0), loop("i", 3, store(E, at("i+1"), read(E, "i")))],
    "by the iteration before, backwards": [store(E, at(3), 1.0), loop("i", 3, store(E, at("2-i"), read(E, "3-i")))],
    "by an iteration of an outer loop, whole": [
        loop("j", 4, store(R, at(0, "j"), 1.0)),
        loop("i", 2, loop("j", 4, store(R, at("i+1", "j"), read(R, "i", "3-j")))),
    ],
    "by the iteration before, in each of another loop": [
        loop("j", 3, store(R, at("j", 0), 1.0), loop("i", 3, store(R, at("j", "i+1"), read(R, "j", "i")))),
        store(Y, at(0), read(R, 1, 3)),
    ],
}
OPEN: dict[str, list[Stmt]] = {
    "never written": [store(Y, at(0), read(E, 0))],
    "written afterwards": [store(Y, at(0), read(E, 0)), store(E, at(0), 1.0)],
    "its own old value": [add(E, at(0), read(Y, 0))],
    "its old value in the same statement": [loop("i", 4, store(E, at("i"), read(E, "i")))],
    "another cell": [store(E, at(1), 1.0), store(Y, at(0), read(E, 0))],
    "one cell too few": [loop("i", 3, store(E, at("i"), 1.0)), loop("i", 4, store(Y, at("i"), read(E, "i")))],
    "another turn's cell": [loop("i", 3, store(E, at("i"), 1.0), store(Y, at("i"), read(E, "i+1")))],
    "an earlier turn's cell": [loop("i", 3, store(Y, at("i"), read(E, "i")), store(E, at("i+1"), 1.0))],
    "another loop of the same name": [
        loop("i", 4, If((inside("i", 1),), (store(E, at("i"), 1.0),))),
        loop("i", 4, store(Y, at("i"), read(E, "i"))),
    ],
    "only under a test": [
        loop("i", 4, If((inside("i-1", 4),), (store(E, at("i"), 1.0),)), store(Y, at("i"), read(E, "i")))
    ],
    "under a test of values": [
        If((Inside(GATHER[0], 1),), (loop("i", 4, store(E, at("i"), 1.0)),)),
        loop("i", 4, store(Y, at("i"), read(E, "i"))),
    ],
    "the test itself": [loop("i", 4, If((inside("i", 4),), (store(E, at("i"), read(E, "i")),)))],
    "gathered": [store(E, GATHER, ZERO), store(Y, at(0), Read(E, GATHER))],
    "gathered from some cells": [loop("i", 3, store(E, at("i"), 1.0)), store(Y, at(0), Read(E, GATHER))],
    "at a number that may change": [
        Store(E, (Local("n", "int64"),), ZERO),
        store(Y, at(0), Read(E, (Local("n", "int64"),))),
    ],
    "a diagonal": [
        loop("i", 3, store(R, at("i", "i"), 1.0)),
        loop("i", 3, loop("j", 4, store(Y, at("j"), read(R, "i", "j")))),
    ],
    "a diagonal of a square": [
        loop("i", 3, store(Q, at("i", "i"), 1.0)),
        loop("i", 3, loop("j", 3, store(Y, at("j"), read(Q, "i", "j")))),
    ],
    "a diagonal and a row, by loops of one name": [
        loop("i", 3, store(Q, at("i", "i"), 1.0)),
        loop("i", 3, store(Y, at("i"), read(Q, 0, "i"))),
    ],
    "in a test": [If((Inside(Cast("int64", read(E, 0)), 1),), (store(Y, at(0), 1.0),)), store(E, at(0), 1.0)],
    "a loop that never turns": [loop("i", 0, store(E, at(0), 1.0)), store(Y, at(0), read(E, 0))],
    "two iterations before": [store(E, at(0), 1.0), loop("i", 2, store(E, at("i+2"), read(E, "i")))],
    "by the iteration behind": [store(E, at(3), 1.0), loop("i", 3, store(E, at("i"), read(E, "i+1")))],
    "by the iteration before under a test": [
        store(E, at(0), 1.0),
        loop("i", 3, If((inside("i", 1),), (store(E, at("i+1"), read(E, "i")),)), store(Y, at("i"), read(E, "i"))),
    ],
    "another static index": [store(E, at("s"), 1.0), store(Y, at(0), read(E, "t"))],
}


@pytest.mark.parametrize("name", COVERED)
def test_covered(name: str) -> None:
    found = sites(COVERED[name])
    assert all(covered(found[one]) for one in (E, R, Q) if one in found)


@pytest.mark.parametrize("name", OPEN)
def test_not_covered(name: str) -> None:
    found = sites(OPEN[name])
    assert not any(covered(found[one]) for one in (E, R, Q) if one in found)


@given(prefaced())
def test_nothing_covered_is_read_before_it_is_written(case: tuple[Sample, Buffer]) -> None:
    sample, _ = case
    memory = watched(sample.memory())
    run_scalar(sample.program, memory, dict.fromkeys(GIVEN, 1))
    for buffer, own in sites(sample.program.body).items():
        assert not (covered(own) and memory[buffer].stale), buffer.name


@settings(max_examples=60)
@given(prefaced())
def test_what_is_plain_is_also_proved(case: tuple[Sample, Buffer]) -> None:
    for own in sites(case[0].program.body).values():
        for one, other, shared in pairs(own):
            region, shape = one.map(len(one.steps)), one.access.buffer.shape
            if other.is_affine(shared) and _plainly_covers(other.map(shared), region, shape):
                assert _by_isl_covers([other.map(shared)], region, shape)


def pairs(own: list[Site]) -> list[tuple[Site, Site, int]]:
    """Reads with writes that come before them."""
    found = [
        (one, other, _shared(other, one)) for one in own for other in own if other.access.writes > one.access.writes
    ]
    return [(one, other, shared) for one, other, shared in found if shared is not None]
