"""Types made explicit: whatever is written becomes a program that `check` accepts, once and for all."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest
from hypothesis import assume, given, strategies as st

from loops.programs import ACCUMULATING, FLOATS, GIVEN, SIGNED, UNSIGNED, Sample, written
from weft.affine import Affine
from weft.loops import (
    Buffer,
    Cast,
    For,
    If,
    Local,
    MalformedLoops,
    Program,
    Read,
    Remark,
    Stmt,
    Store,
    Update,
    check,
    dtype_of,
    show,
    typed,
    walk,
)
from weft.loops.interp import run_scalar
from weft.ops import OPS, Call, Num, Scalar, call
from weft.ops.dtypes import ELEMENT_TYPES, carrier, numpy_type

EVERYTHING = tuple(name for name in OPS if name not in ("threefry4x32", "uniform", "normal"))
AT = (Affine(((1, "i"),)),)


def anything() -> st.SearchStrategy[Sample]:
    """Programs of every operation on every type that meets the others."""
    families = st.sampled_from([(*SIGNED, *FLOATS), (*UNSIGNED, *FLOATS), FLOATS, SIGNED])
    numbers = (0, 1, -2, 0.5, -1.5, True)
    return families.flatmap(lambda dtypes: written(tuple(ACCUMULATING), dtypes, operations(dtypes), numbers))


def operations(dtypes: tuple[str, ...]) -> tuple[str, ...]:
    """Those whose results meet what else there is: places are without sign, and no type holds these and signed ones."""
    return tuple(name for name in EVERYTHING if name != "order_place" or not set(SIGNED) & set(dtypes))


@given(anything())
def test_every_program_becomes_one_that_check_accepts(sample: Sample) -> None:
    check(typed(sample.program), GIVEN)


@given(anything())
def test_types_that_are_explicit_stay_as_they_are(sample: Sample) -> None:
    assume(not any(_is_converted_index(one) for scalar in _scalars(sample.program.body) for one in walk(scalar)))
    once = typed(sample.program)
    assert typed(once) == once


def _is_converted_index(scalar: Scalar) -> bool:
    """Does it say the type of an index, which is an index like others afterwards?"""
    return isinstance(scalar, Call) and scalar.op == "type_as" and isinstance(scalar.args[0], Affine)


def test_a_conversion_of_a_truth_value_goes_through_no_third_type() -> None:
    small = call("type_as", Read(Buffer(0, "x", (3,), "bool"), AT), Read(Buffer(1, "z", (3,), "int8"), AT))
    assert line("bool", call("or", small, 1)) == "y[i] = or(bool(int8(x[i])), 1)"
    program = typed(Program((For("i", 3, (Store(Buffer(9, "y", (3,), "bool"), AT, call("or", small, 1)),)),)))
    assert typed(program) == program


@given(anything())
def test_everything_is_computed_in_carriers_and_every_number_has_a_type(sample: Sample) -> None:
    for scalar in _scalars(typed(sample.program).body):
        found = list(walk(scalar))
        calls = [one for one in found if isinstance(one, Call)]
        assert {dtype_of(arg) for one in calls for arg in one.args} <= {carrier(name) for name in ELEMENT_TYPES}
        casts = sum(isinstance(one, Cast) and isinstance(one.value, Num) for one in found)
        assert casts == sum(isinstance(one, Num) for one in found)


@given(anything())
def test_nothing_but_conversions_is_added(sample: Sample) -> None:
    def bare(scalar: Scalar) -> Scalar:
        match scalar:
            case Cast(value=value) | Call(op="type_as", args=(value, _)):
                return bare(value)
            case Call(op=op, args=args):
                return Call(op, tuple(map(bare, args)))
            case Read(buffer=buffer, at=at):
                return Read(buffer, tuple(map(bare, at)))
        return scalar

    pairs = zip(_scalars(sample.program.body), _scalars(typed(sample.program).body), strict=True)
    assert all(bare(before) == bare(after) for before, after in pairs)


def test_an_untyped_program_is_refused() -> None:
    y = Buffer(0, "y", (2,), "float16")
    with pytest.raises(MalformedLoops, match="is float where float16 is needed"):
        check(Program((Store(y, (Affine((), 0),), Num(0.5)),)))


def _scalars(body: tuple[Stmt, ...]) -> Iterator[Scalar]:
    for stmt in body:
        match stmt:
            case For(body=inner) | Remark(body=inner):
                yield from _scalars(inner)
            case If(tests=tests, body=inner):
                yield from (test.index for test in tests)
                yield from _scalars(inner)
            case Store(at=at, value=value) | Update(at=at, value=value):
                yield from (*at, value)


def line(dtype: str, value: Scalar, *, op: str = "") -> str:
    """How a line over a buffer `y` of a type is printed once its types are explicit."""
    y = Buffer(9, "y", (3,), dtype)
    stmt = Update(y, AT, op, value) if op else Store(y, AT, value)
    text = show(check(typed(Program((For("i", 3, (stmt,)),)))))
    return text.splitlines()[1].strip()


def of(dtype: str, name: str = "x") -> Read:
    return Read(Buffer(ord(name), name, (3,), dtype), AT)


PRINTED = [
    # narrow floats are widened, computed in single precision and rounded once
    ("float16", of("float16") * 0.5, "y[i] = float16(float32(x[i]) * 0.5)"),
    (
        "bfloat16",
        of("bfloat16") * of("bfloat16", "w") + 1,
        "y[i] = bfloat16((float32(x[i]) * float32(w[i])) + 1)",
    ),
    ("float32", of("float16") * of("bfloat16", "w"), "y[i] = float32(x[i]) * float32(w[i])"),
    ("float8_e4m3fn", call("exp", of("float8_e4m3fn")), "y[i] = float8_e4m3fn(exp(float32(x[i])))"),
    # what is only moved is not converted on the way
    ("float16", of("float16"), "y[i] = x[i]"),
    ("float16", of("float8_e5m2"), "y[i] = float16(x[i])"),
    # whole numbers are exact until they are stored
    ("int8", of("int8") * 100 + of("uint8", "w"), "y[i] = int8((int64(x[i]) * 100) + int64(w[i]))"),
    ("int8", of("int8") / 2, "y[i] = int8(float64(x[i]) / 2)"),
    ("float32", of("int8") / of("int8", "w"), "y[i] = float32(x[i]) / float32(w[i])"),
    ("float64", of("int8") / of("int8", "w"), "y[i] = float64(x[i]) / float64(w[i])"),
    ("uint64", of("uint64") + of("uint8", "w"), "y[i] = x[i] + uint64(w[i])"),
    ("int8", call("where", of("float32"), of("int8", "w"), 300), "y[i] = int8(where(bool(x[i]), int64(w[i]), 300))"),
    # truth values are numbers where they are added, and stay truth values where they are chosen or combined
    ("bool", of("bool") + of("bool", "w"), "y[i] = bool(int64(x[i]) + int64(w[i]))"),
    ("int64", of("bool") + of("bool", "w"), "y[i] = int64(x[i]) + int64(w[i])"),
    ("bool", call("and", of("bool"), of("float32", "w")), "y[i] = and(x[i], bool(w[i]))"),
    ("bool", of("int8") < of("uint8", "w"), "y[i] = int64(x[i]) < int64(w[i])"),
    ("float32", of("int8") < 0.5, "y[i] = float32(float32(x[i]) < 0.5)"),
    # a place is a whole number like those of the program
    ("float16", of("float16") * Affine(((1, "i"),)), "y[i] = float16(float32(x[i]) * i)"),
]


@pytest.mark.parametrize(("dtype", "value", "text"), PRINTED, ids=[f"{one[0]}: {one[2]}" for one in PRINTED])
def test_how_types_are_made_explicit(dtype: str, value: Scalar, text: str) -> None:
    assert line(dtype, value) == text


UPDATES = [
    ("float16", "add", of("float16"), "y[i] += float32(x[i])"),
    ("float32", "add", of("float16"), "y[i] += float32(x[i])"),
    ("float64", "add", of("int8") / of("int8", "w"), "y[i] += float64(x[i]) / float64(w[i])"),
    ("int8", "mul", of("int8"), "y[i] *= int64(x[i])"),
    ("bool", "or", of("int8"), "y[i] or= bool(x[i])"),
    ("bool", "max", of("bool"), "y[i] max= int64(x[i])"),
]


@pytest.mark.parametrize(("dtype", "op", "value", "text"), UPDATES)
def test_how_updates_are_made_explicit(dtype: str, op: str, value: Scalar, text: str) -> None:
    assert line(dtype, value, op=op) == text


def stored(dtype: str, value: Scalar, memory: dict[Read, list[float]]) -> list[object]:
    y = Buffer(9, "y", (3,), dtype)
    arrays = {read.buffer: np.array(values).astype(numpy_type(read.buffer.dtype)) for read, values in memory.items()}
    arrays[y] = np.zeros(3, numpy_type(dtype))
    run_scalar(typed(Program((For("i", 3, (Store(y, AT, value),)),))), arrays)
    return arrays[y].tolist()


def test_whole_numbers_do_not_wrap_before_they_are_stored() -> None:
    x = of("int8")
    assert stored("int16", (x * 100) // 100, {x: [127, -128, 3]}) == [127, -128, 3]
    assert stored("int8", x * 100, {x: [127, -128, 3]}) == [-100, 0, 44]


def test_narrow_floats_are_rounded_once_for_each_assignment() -> None:
    x = of("float16")
    assert stored("float16", (x + 1.0) - x, {x: [2048, 4096, 65504]}) == [1, 1, 1]


def test_a_quotient_of_whole_numbers_is_computed_in_the_type_it_is_stored_in() -> None:
    x = of("int64")
    assert stored("float64", x / 3, {x: [1, 2, 10]}) == [1 / 3, 2 / 3, 10 / 3]
    assert stored("int64", x / 1, {x: [2**24 + 1, 2**53 - 1, -5]}) == [2**24 + 1, 2**53 - 1, -5]


def test_locals_are_converted_like_what_is_read() -> None:
    local = Local("t", "int8")
    y = Buffer(0, "y", (1,), "bool")
    once = typed(Program((Store(y, (Affine((), 0),), local),)))
    assert once.body == (Store(y, (Affine((), 0),), Cast("bool", local)),)
    assert typed(once) == once
