"""What `check` refuses, and what it proves."""

from __future__ import annotations

import pytest
from hypothesis import given

from loops.programs import GIVEN, Sample, samples
from weft.affine import Affine
from weft.loops import (
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Inside,
    MalformedLoops,
    Program,
    Read,
    Remark,
    Stmt,
    Store,
    Update,
    check,
    parse,
    reads,
    walk,
)
from weft.ops import Call, Num, call

A = Buffer(0, "A", (3, 4), "float32")
V = Buffer(1, "V", (4,), "float32")
AT_I, AT_J, AT_S = Affine(((1, "i"),)), Affine(((1, "j"),)), Affine(((1, "s"),))
ONE = Cast("float32", Num(1))
W = Buffer(2, "W", (4,), "int64")


def nest(stmt: Stmt, i: int = 3, j: int = 4) -> Program:
    return Program((For("i", i, (For("j", j, (stmt,)),)),))


@given(samples())
def test_well_formed_programs_pass_unchanged(sample: Sample) -> None:
    assert check(sample.program, GIVEN) is sample.program


MALFORMED = {
    "a loop inside a loop of the same name": (
        Program((For("i", 3, (For("i", 3, (Fill(V, 0),)),)),)),
        "loop i inside a loop of the same name",
    ),
    "a loop named like a static index": (
        Program((For("s", 3, (Fill(V, 0),)),)),
        "loop s inside a loop of the same name",
    ),
    "a name no loop has": (
        nest(Store(A, (AT_I, Affine(((1, "k"),))), ONE)),
        r"k is not the name of a loop around A\[i, k\]",
    ),
    "a name out of its loop": (
        Program((For("i", 3, (Fill(V, 0),)), Store(V, (AT_I,), ONE))),
        r"i is not the name of a loop around V\[i\]",
    ),
    "a name in a value": (nest(Store(A, (AT_I, AT_J), Affine(((1, "k"),)))), "k is not the name of a loop around k"),
    "a name in a guard": (nest(If((Inside(Affine(((1, "k"),)), 2),), (Fill(V, 0),))), "k is not the name of a loop"),
    "too few subscripts": (nest(Store(A, (AT_I,), ONE)), r"A\[i\] needs 2 subscripts"),
    "too many subscripts in a read": (
        nest(Store(A, (AT_I, AT_J), Read(V, (AT_I, AT_J)))),
        r"V\[i, j\] needs 1 subscripts",
    ),
    "a write past the end": (nest(Store(A, (AT_I, AT_J), ONE), i=4), r"i may leave the axis of 3 in A\[i, j\]"),
    "an update past the end": (nest(Update(A, (AT_J, AT_I), "add", ONE)), r"j may leave the axis of 3 in A\[j, i\]"),
    "a write before the start": (
        nest(Store(A, (AT_I, Affine(((1, "j"),), -1)), ONE)),
        r"j - 1 may leave the axis of 4 in A\[i, j - 1\]",
    ),
    "a read past the end": (
        nest(Store(A, (AT_I, AT_J), Read(V, (Affine(((1, "i"), (1, "j"))),)))),
        r"i \+ j may leave the axis of 4 in V\[i \+ j\]",
    ),
    "a read backwards past the start": (
        nest(Store(A, (AT_I, AT_J), Read(V, (Affine(((-1, "j"),), 2),)))),
        r"-j \+ 2 may leave the axis of 4",
    ),
    "a static index past the end": (nest(Store(A, (AT_S, AT_J), ONE)), r"s may leave the axis of 3 in A\[s, j\]"),
    "a place inside a gather": (
        nest(Store(A, (AT_I, AT_J), Read(V, (call("add", Read(V, (Affine((), 9),)), 1),)))),
        r"9 may leave the axis of 4 in V\[9\]",
    ),
    "a guard that is too wide": (
        nest(If((Inside(Affine(((2, "j"),)), 5),), (Store(A, (AT_I, Affine(((2, "j"),))), ONE),))),
        r"2\*j may leave the axis of 4",
    ),
    "a guard of something else": (
        nest(If((Inside(AT_J, 4),), (Store(A, (AT_I, Affine(((2, "j"),))), ONE),))),
        r"2\*j may leave the axis of 4",
    ),
    "a guard that is over": (
        nest(
            Remark(
                "", (If((Inside(Affine(((2, "j"),)), 4),), (Fill(V, 0),)), Store(A, (AT_I, Affine(((2, "j"),))), ONE))
            )
        ),
        r"2\*j may leave the axis of 4",
    ),
    "an operation that is none": (
        nest(Store(A, (AT_I, AT_J), Call("gelu", (ONE,)))),
        "gelu of 1 operands is not a primitive",
    ),
    "an operation of other arity": (
        nest(Store(A, (AT_I, AT_J), Call("add", (ONE,)))),
        "add of 1 operands is not a primitive",
    ),
    "a value of another type": (nest(Store(A, (AT_I, AT_J), AT_J)), "j is int64 where float32 is needed"),
    "a number without a type": (nest(Store(A, (AT_I, AT_J), Num(1))), "1 is int where float32 is needed"),
    "operands of two types": (
        nest(Store(A, (AT_I, AT_J), call("add", Read(V, (AT_J,)), AT_J))),
        r"\(V\[j\] \+ j\) has operands of types float32, int64",
    ),
    "a subscript that is no whole number": (
        nest(Store(A, (AT_I, AT_J), Read(V, (Read(V, (AT_J,)),)))),
        r"V\[j\] is no whole number in V\[V\[j\]\]",
    ),
    "an update by what is no operation": (
        nest(Update(A, (AT_I, AT_J), "gelu", ONE)),
        "gelu of 2 operands is not a primitive",
    ),
    "an update by a unary operation": (
        nest(Update(A, (AT_I, AT_J), "exp", ONE)),
        "exp of 2 operands is not a primitive",
    ),
}


@pytest.mark.parametrize("name", MALFORMED)
def test_malformed_programs_are_refused(name: str) -> None:
    program, message = MALFORMED[name]
    with pytest.raises(MalformedLoops, match=message):
        check(program, {"s": 5})


WELL_FORMED = {
    "the whole axis": nest(Store(A, (AT_I, AT_J), ONE)),
    "backwards": nest(Store(A, (AT_I, Affine(((-1, "j"),), 3)), ONE)),
    "a sum that fits": nest(Store(V, (Affine(((1, "i"), (1, "j"))),), ONE), i=2, j=3),
    "a difference that fits": nest(Store(V, (Affine(((1, "i"), (-1, "j")), 1),), ONE), i=3, j=2),
    "a guarded place": nest(If((Inside(Affine(((2, "j"),), -1), 4),), (Store(V, (Affine(((2, "j"),), -1),), ONE),))),
    "a multiple of what is guarded": nest(If((Inside(AT_J, 2),), (Store(V, (Affine(((2, "j"),)),), ONE),))),
    "backwards from what is guarded": nest(If((Inside(AT_J, 2),), (Store(V, (Affine(((-1, "j"),), 1),), ONE),))),
    "a guard around a nest": Program(
        (
            For(
                "i",
                9,
                (If((Inside(AT_I, 3),), (For("j", 4, (Store(A, (AT_I, AT_J), ONE),)),)),),
            ),
        )
    ),
    "a static index": Program((Store(V, (AT_S,), ONE),)),
    "a gather": nest(Store(A, (AT_I, AT_J), Read(V, (Read(W, (AT_J,)),)))),
    "two loops of one name, one after the other": Program(
        (For("i", 3, (Fill(V, 0),)), For("i", 4, (Store(V, (AT_I,), ONE),)))
    ),
}


@pytest.mark.parametrize("name", WELL_FORMED)
def test_well_formed_cases(name: str) -> None:
    assert check(WELL_FORMED[name], {"s": 4}) is WELL_FORMED[name]


def test_walk_sees_subscripts_and_arguments() -> None:
    inner = Read(V, (AT_I,))
    value = call("add", Read(V, (call("mul", inner, 2),)), AT_J)
    assert list(reads(value)) == [value.args[0], inner]
    assert {one for one in walk(value) if isinstance(one, Affine)} == {AT_I, AT_J}


def test_what_threads_share_is_not_written_out() -> None:
    text = "x: float32[8]\nfor i in range(8) on threads by 1, in registers of 4:\n    x[i] = 0.0"
    with pytest.raises(MalformedLoops, match="threads share its iterations, and all of them are written out"):
        check(parse(text))


@pytest.mark.parametrize(("image", "meets"), [(7, False), (6, True)])
def test_what_mirrors_itself_on_a_cell_is_touched_twice(image: int, meets: bool) -> None:
    """Cells and their mirror images: where these are an odd number apart they never meet, in whatever loop."""
    text = f"""
t: float32[8, 8]
for b in range(4):
    for i in range(8) on vectors:
        t[b, i] = t[-b + {image}, i] + 1.0
        t[-b + {image}, i] = 2.0
"""
    if not meets:
        check(parse(text))
        return
    with pytest.raises(MalformedLoops, match="an iteration may touch a cell of `t` twice"):
        check(parse(text))


def test_what_is_touched_twice_in_an_iteration_is_not_stored_on_vectors() -> None:
    """Cells of a column and of the diagonal: gcc stores two columns at once, after the diagonal that lay between."""
    text = """
x: float32[4]
t: float32[4, 4]
for i in range(4) on vectors:
    t[i, 0] = x[i]
    t[i, i] = 2.0 * x[i]
    t[i, 1] = x[i]
"""
    with pytest.raises(MalformedLoops, match="an iteration may touch a cell of `t` twice"):
        check(parse(text))
    check(parse(text.replace("t[i, i]", "t[i, 2]")))
    check(parse(text.replace("on vectors", "in lanes by 4")))  # a statement at a time, for all lanes
