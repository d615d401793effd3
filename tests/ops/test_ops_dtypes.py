"""Element types: what meets in what, that meeting and computing only ever raise types, what holds what."""

from __future__ import annotations

from itertools import combinations_with_replacement, permutations, product

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from weft.ops import OPS, Op
from weft.ops.dtypes import (
    ELEMENT_TYPES,
    NATURAL,
    UNKNOWN,
    WEAK_FLOAT,
    WEAK_INT,
    WHOLE,
    accumulator_type,
    carrier,
    decided,
    element_type,
    is_float,
    is_weak,
    numpy_type,
    promote,
    total,
)

SIGNED = ("int8", "int16", "int32", "int64")
UNSIGNED = ("uint8", "uint16", "uint32", "uint64")
NARROW_FLOATS = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16")
#: Types a value may have while types are inferred, those of nothing but the inference included.
NAMES = (*ELEMENT_TYPES, WEAK_INT, WEAK_FLOAT, UNKNOWN, WHOLE, NATURAL)


def meet(*names: str) -> str | None:
    """Where some types meet; None where they do not."""
    try:
        return promote(*names)
    except wf.WeftError:
        return None


def below(one: str, other: str) -> bool:
    return meet(one, other) == other


RAISED = [(one, other) for one, other in product(NAMES, repeat=2) if one != other and below(one, other)]


def test_only_signed_numbers_and_unsigned_ones_of_64_bits_do_not_meet() -> None:
    refused = {frozenset(pair) for pair in product(NAMES, repeat=2) if meet(*pair) is None}
    assert refused == {frozenset({signed, "uint64"}) for signed in SIGNED}


def test_what_does_not_meet_is_refused_with_a_way_out() -> None:
    with pytest.raises(wf.WeftError, match="no whole-number type holds both uint64 and int16") as caught:
        promote("uint64", "int16")
    assert caught.value.fix == 'convert one of them first: wf.cast(t, "int64")'


def test_beside_a_float_signed_and_unsigned_numbers_meet() -> None:
    assert promote("int8", "uint64", "float16") == "float16"


@pytest.mark.parametrize("name", NAMES)
def test_a_type_meets_itself_in_itself(name: str) -> None:
    assert promote(name) == promote(name, name) == name


def test_the_order_of_types_does_not_matter() -> None:
    for three in combinations_with_replacement(NAMES, 3):
        assert len({meet(*order) for order in permutations(three)}) == 1, three


def test_types_may_meet_one_after_the_other() -> None:
    for one, other, third in product(NAMES, repeat=3):
        first, whole = meet(one, other), meet(one, other, third)
        if first is not None:
            assert meet(first, third) == whole, (one, other, third)


def test_types_meet_in_the_least_type_above_them() -> None:
    for one, other in product(NAMES, repeat=2):
        found = meet(one, other)
        above = [name for name in NAMES if below(one, name) and below(other, name)]
        if found is not None:
            assert found in above
            assert all(below(found, name) for name in above), (one, other)


def test_what_meets_rises_with_what_it_is_made_of() -> None:
    for (low, high), third in product(RAISED, NAMES):
        before, after = meet(low, third), meet(high, third)
        if before is not None and after is not None:
            assert below(before, after), (low, high, third)


@pytest.mark.parametrize("op", OPS.values(), ids=lambda op: op.name)
def test_an_operation_of_higher_types_has_a_higher_type(op: Op) -> None:
    few = ("bool", "int8", "int64", "uint8", "uint64", "float8_e4m3fn", "float16", "float64", "int", "float", WHOLE)
    others = NAMES if op.arity < 3 else few
    for (low, high), rest in product(RAISED, product(others, repeat=op.arity - 1)):
        for at in range(op.arity):
            before, after = ((*rest[:at], one, *rest[at:]) for one in (low, high))
            try:
                found, raised = op.typing(*before)[1], op.typing(*after)[1]
            except wf.WeftError:
                continue
            assert below(found, raised), (before, after)


def test_sums_of_higher_types_have_a_higher_type() -> None:
    assert [(low, high) for low, high in RAISED if not below(total(low), total(high))] == []


MEETINGS = [
    (("bool", "bool"), "bool"),
    (("bool", "int8"), "int8"),
    (("int8", "int32"), "int32"),
    (("uint8", "uint32"), "uint32"),
    (("int8", "uint8"), "int16"),
    (("int8", "uint16"), "int32"),
    (("int64", "uint32"), "int64"),
    (("bool", "uint64"), "uint64"),
    (("int64", "float16"), "float16"),
    (("uint64", "float8_e5m2"), "float8_e5m2"),
    (("float16", "bfloat16"), "float32"),
    (("float8_e4m3fn", "float8_e5m2"), "float32"),
    (("float8_e4m3fn", "float16"), "float32"),
    (("float16", "float32"), "float32"),
    (("bfloat16", "float64"), "float64"),
    ((WEAK_INT, "int8"), "int8"),
    ((WEAK_INT, "float16"), "float16"),
    ((WEAK_FLOAT, "bfloat16"), "bfloat16"),
    ((WEAK_FLOAT, "int64"), WEAK_FLOAT),
    ((WEAK_INT, WEAK_FLOAT), WEAK_FLOAT),
]


@pytest.mark.parametrize(("names", "found"), MEETINGS)
def test_what_meets_in_what(names: tuple[str, ...], found: str) -> None:
    assert promote(*names) == found


def test_whole_numbers_of_up_to_64_bits_meet_as_in_numpy() -> None:
    for one, other in product((*SIGNED, *UNSIGNED), repeat=2):
        if meet(one, other) is not None:
            assert promote(one, other) == np.promote_types(one, other).name


def test_truth_values_and_numbers_of_the_program_meet_in_64_bits_unless_a_type_is_near() -> None:
    assert decided(promote("bool", WEAK_INT)) == "int64"
    assert promote("bool", WEAK_INT, "int8") == "int8"
    assert promote("bool", WEAK_INT, "uint64") == "uint64"
    assert promote("bool", WEAK_INT, "float16") == "float16"


TYPINGS = [
    ("add", ("bool", "bool"), "int64"),
    ("add", ("bool", "int8"), "int8"),
    ("neg", ("uint8",), "uint8"),
    ("mul", ("float8_e4m3fn", "float8_e4m3fn"), "float32"),
    ("mul", ("float16", WEAK_FLOAT), "float16"),
    ("div", ("int8", "int8"), "float32"),
    ("div", ("bfloat16", "int64"), "bfloat16"),
    ("sqrt", ("float8_e5m2",), "float32"),
    ("floordiv", ("int64", WEAK_INT), "int64"),
    ("pow", ("int16", WEAK_INT), "int16"),
    ("pow", ("int16", WEAK_FLOAT), "float32"),
    ("lt", ("float64", "int8"), "bool"),
    ("identity", ("float8_e4m3fn",), "float8_e4m3fn"),
    ("where", ("float64", "int8", "uint8"), "int16"),
    ("where", ("float64", "bool", "bool"), "bool"),
    ("max", ("bool", "bool"), "int64"),
]


@pytest.mark.parametrize(("name", "types", "value"), TYPINGS)
def test_the_types_of_operations(name: str, types: tuple[str, ...], value: str) -> None:
    assert decided(OPS[name].typing(*types)[1]) == value


TOTALS = {
    "bool": "int64",
    **dict.fromkeys(SIGNED, "int64"),
    **dict.fromkeys(UNSIGNED, "uint64"),
    "float8_e4m3fn": "float32",
    "float8_e5m2": "float32",
    "float16": "float16",
    "bfloat16": "bfloat16",
    "float32": "float32",
    "float64": "float64",
}


def test_whole_numbers_are_summed_in_64_bits() -> None:
    assert {name: decided(total(name)) for name in ELEMENT_TYPES} == TOTALS


def test_a_sum_of_unsigned_numbers_is_signed_only_if_the_numbers_become_so() -> None:
    assert total("uint8") == total(total("uint8")) == NATURAL
    assert promote(NATURAL, "int64") == "int64"
    assert promote(NATURAL, "uint64") == "uint64"


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_narrow_floats_are_summed_in_single_precision(name: str) -> None:
    assert accumulator_type(name) == ("float32" if name in NARROW_FLOATS else name)


def test_there_are_five_carriers() -> None:
    assert {carrier(name) for name in NAMES} == {"bool", "int64", "uint64", "float32", "float64"}
    assert all(carrier(carrier(name)) == carrier(name) for name in NAMES)
    assert carrier(WEAK_INT) == carrier(WHOLE) == "int64"
    assert carrier(WEAK_FLOAT) == "float32"


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_a_carrier_holds_every_value_of_its_types(name: str) -> None:
    kind = numpy_type(name)
    bits = np.arange(1 << 16, dtype=np.uint16) if kind.itemsize < 4 else np.arange(0, 1 << 16, 7, dtype=np.uint16)
    values = (bits % 2 == 1) if name == "bool" else np.repeat(bits, kind.itemsize // 2 or 1).view(kind)
    with np.errstate(invalid="ignore"):  # some bits are signalling
        back = values.astype(numpy_type(carrier(name))).astype(kind)
        np.testing.assert_array_equal(back.astype(np.float64), values.astype(np.float64))
    if not is_float(name):
        assert values.tolist() == back.tolist()


def test_nothing_decided_is_left_open() -> None:
    assert {decided(name) for name in NAMES} == set(ELEMENT_TYPES)
    assert [name for name in NAMES if is_weak(name)] == [WEAK_INT, WEAK_FLOAT]
    assert decided(WEAK_INT) == decided(WEAK_FLOAT) == decided(UNKNOWN) == "float32"


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_an_element_type_may_be_given_by_name_or_as_numpys(name: str) -> None:
    assert element_type(name) == name
    assert element_type(numpy_type(name)) == name
    assert element_type(numpy_type(name).type) == name


@pytest.mark.parametrize(
    ("given", "name"), [(float, "float64"), (bool, "bool"), ("f4", "float32"), ("half", "float16")]
)
def test_whatever_numpy_calls_an_element_type_is_one(given: object, name: str) -> None:
    assert element_type(given) == name


STRANGE = ["complex64", "float128", ">f4", "bf16", "int4", "S3", "datetime64[s]", "", None, 3, ..., "object"]
STRANGE += [
    np.longdouble,
    np.void,
    ml_dtypes.int4,
    ml_dtypes.float8_e4m3,
    ml_dtypes.float8_e4m3b11fnuz,
    np.dtype(">i4"),
]


@pytest.mark.parametrize("given", STRANGE, ids=repr)
def test_other_types_are_refused_by_name(given: object) -> None:
    with pytest.raises(wf.WeftError) as caught:
        element_type(given)
    assert caught.value.what == f"{given!r} is not an element type"
    assert caught.value.fix.startswith("use one of bool, int8, ")
