"""The functions of the library mean what they are called: against exact values, in both precisions."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from ops.library import EDGES, VALUES, check, exact
from weft.ops import OPS
from weft.ops.library import LIBRARY


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("name", sorted({*VALUES, *EDGES}))
def test_values_are_right_to_the_last_digits(name: str, dtype: str) -> None:
    args, wanted = exact(name, dtype)
    with np.errstate(all="ignore"):
        check(name, dtype, np.asarray(OPS[name].meaning(*args)), wanted, args)


def test_every_function_of_the_library_is_tried() -> None:
    assert {op.name for op in LIBRARY} <= {*VALUES, *EDGES}


def test_the_next_number_is_that_of_the_precision() -> None:
    for dtype in (np.float32, np.float64):
        found = OPS["nextafter"].meaning(dtype(1), dtype(2))
        assert (found.dtype, found) == (dtype, np.nextafter(dtype(1), dtype(2)))
        assert OPS["nextafter"].meaning(dtype(0), dtype(-1)) == -np.finfo(dtype).smallest_subnormal


def test_the_next_of_a_number_of_few_digits_is_one_of_single_precision() -> None:
    assert OPS["nextafter"].typing("float64", "float") == (("float64", "float64"), "float64")
    assert OPS["nextafter"].typing("bfloat16", "bfloat16") == (("float32", "float32"), "float32")


@pytest.mark.parametrize("name", ["nextafter", "trigamma"])
def test_what_has_no_derivative_says_so(name: str) -> None:
    with pytest.raises(wf.WeftError, match=f"`{name}` has no derivative") as caught:
        OPS[name].gradient(*[1.0] * OPS[name].arity, 1.0)
    assert caught.value.fix == "differentiate by something else, or compute this apart and pass it in"


def test_whole_numbers_stay_whole() -> None:
    large = np.array([2**53 + 1, -5], np.int64)
    for name in ("ceil", "trunc", "round"):
        np.testing.assert_array_equal(OPS[name].meaning(large), large)
    assert OPS["fma"].meaning(np.int64(3), np.int64(4), np.int64(5)) == 17
    assert OPS["fdim"].meaning(np.uint64(3), np.uint64(4)) == 0


def test_a_product_and_a_sum_are_rounded_once() -> None:
    """Rounding twice gives another number: the product is a little more than halfway between two floats."""
    x, y, z = np.float32(1 + 2**-12), np.float32(1 + 2**-12), np.float32(2.0**-60)
    assert OPS["fma"].meaning(x, y, z) == np.float32(1 + 2**-11 + 2**-23)
    assert OPS["fma"].meaning(x, y, -z) == np.float32(1 + 2**-11)
    one = np.float64(1 + 2**-30)
    assert OPS["fma"].meaning(one, one, np.float64(-1)) == 2**-29 + 2**-60
