"""Writes nobody reads: they go, and with them what only they needed."""

from __future__ import annotations

from weft.affine import Affine
from weft.loops import Buffer, For, If, Inside, Let, Local, Read, Set, Stmt, Store
from weft.schedule.fusion.dead_stores import eliminate_dead_stores

X, Y, *HIDDEN = (Buffer(number, f"b{number}", (4,), "float32") for number in range(5))
HERE = (Affine(((1, "i"),)),)


def copy(target: Buffer, source: Buffer) -> tuple[Stmt, ...]:
    return (For("i", 4, (Store(target, HERE, Read(source, HERE)),)),)


def test_a_chain_of_kernels_that_ends_nowhere_goes_from_its_end() -> None:
    chain = [copy(one, other) for one, other in zip(HIDDEN, [X, *HIDDEN], strict=False)]
    needed = copy(Y, X)
    assert eliminate_dead_stores([*chain, needed], [Y]) == [(), (), (), needed]


def test_what_somebody_reads_stays_the_very_same() -> None:
    bodies = [copy(HIDDEN[0], X), copy(Y, HIDDEN[0])]
    assert all(new is old for new, old in zip(eliminate_dead_stores(bodies, [Y]), bodies, strict=True))


def test_a_variable_goes_with_what_sets_it() -> None:
    dead = Local("t", "float32")
    test = If((Inside(HERE[0], 2),), (Set(dead, Read(X, HERE)),))
    body = (For("i", 4, (Let(dead, Read(Y, HERE)), test, Store(HIDDEN[0], HERE, dead))),)
    assert eliminate_dead_stores([body, copy(Y, X)], [Y]) == [(), copy(Y, X)]
