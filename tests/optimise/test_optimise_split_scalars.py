"""Scalars cut into parts of a bounded size."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import V, W, text
from weft.affine import Affine
from weft.loops import For, Let, Program, Read, Store, dtype_of
from weft.loops.nodes import DEEPEST
from weft.loops.walk import depth, everything, parts, walk
from weft.ops import Call, Scalar
from weft.optimise.split_scalars import bounded

AT = (Affine.of("i"),)


def nested(times: int, scalar: Scalar) -> Scalar:
    for _ in range(times):
        scalar = Call("tanh", (scalar,))
    return scalar


def written(value: Scalar, loop: str = "i") -> Program:
    return Program((For(loop, 4, (Store(V, (Affine.of(loop),), value),)),))


def test_a_small_scalar_stays_as_it_is() -> None:
    program = written(nested(20, Read(W, AT)))
    assert bounded(program).body is program.body


@pytest.mark.parametrize("times", [40, 100, 3000])
def test_a_deep_scalar_is_cut(times: int) -> None:
    done = bounded(written(nested(times, Read(W, AT))))
    scalars = [part for stmt in everything(done.body) for part in parts(stmt)]
    assert all(depth(one) <= DEEPEST for one in scalars)
    assert sum(isinstance(one, Call) for scalar in scalars for one in walk(scalar)) == times
    names = [stmt.local.name for stmt in everything(done.body) if isinstance(stmt, Let)]
    assert names[:2] == ["part", "part_2"][: len(names)]
    assert len(set(names)) == len(names)


def test_what_stands_in_several_places_is_computed_once() -> None:
    value = Read(W, AT)
    for _ in range(6):  # written out, it is 64 of them
        value = Call("add", (value, value))  # type: ignore[assignment]
    assert text(bounded(written(value)).body) == dedent("""
        for i in range(4):
            part: float32 = W[i]
            part_2: float32 = part + part
            part_3: float32 = part_2 + part_2
            part_4: float32 = part_3 + part_3
            part_5: float32 = part_4 + part_4
            part_6: float32 = part_5 + part_5
            V[i] = part_6 + part_6
        """)


def test_no_part_is_called_like_a_loop() -> None:
    done = bounded(written(nested(40, Read(W, (Affine.of("part"),))), "part"))
    (loop,) = done.body
    assert isinstance(loop, For)
    first = loop.body[0]
    assert isinstance(first, Let)
    assert (first.local.name, dtype_of(first.local)) == ("part_2", "float32")
