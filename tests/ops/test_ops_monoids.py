"""Monoids: what users declare is traced, tried on numbers and told apart."""

from __future__ import annotations

from math import inf

import numpy as np
import pytest

import weft as wf
from weft.ops import BUILTIN, OPS
from weft.ops.declare import state_types
from weft.ops.trials import check_monoid


@pytest.mark.parametrize("one", BUILTIN, ids=lambda one: one.name)
def test_what_weft_declares_stands_its_own_trials(one: wf.ops.Monoid) -> None:
    assert check_monoid(one).commutative


def declare(**changes: object) -> object:
    given = {"start": 0.0, "combine": lambda a, b: a + b, **changes}
    return wf.monoid("tried", **given)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        (
            {"combine": lambda a, b: a + 2 * b},
            "`tried` is no monoid: it is not associative\n"
            "combine(combine(a, b), c) is 16.7079, combine(a, combine(b, c)) is 29.5163, with a, b, c of x = 1.2573, "
            "1.32105, 6.40423\n"
            "they come to 16.7079 and 29.5163\n"
            "fix: define `combine` so that it does not matter which two are joined first",
        ),
        (
            {"start": 1.0},
            "`tried` is no monoid: start=1 is not neutral\ncombine(start, a) is 2.2573, a is 1.2573, with",
        ),
        (
            {"start": -inf, "combine": lambda a, b: wf.maximum(a, b) + wf.log(1 + wf.exp(-abs(a - b)))},
            "`tried` is no monoid: start=-inf is not neutral\ncombine(start, a) is nan, a is -inf, with a of `start`",
        ),
        ({"combine": 3}, "`combine` of `tried` is no function"),
        ({"combine": lambda a: a}, "`combine` of `tried` takes 1 arguments\nfix: define combine(a, b)"),
        ({"combine": lambda a, b: (a, b)}, "not one number"),
        ({"combine": lambda a, b: "a"}, "compute with the numbers given"),
        ({"start": (0.0, 0.0)}, "a state of `tried` is 2 numbers\nfix: say how a value becomes a state"),
        ({"start": "0"}, "`tried` starts from '0'"),
        ({"combine": lambda a, b: a if a > b else b}, "a number that is only known when the code runs"),
    ],
)
def test_what_is_no_monoid_is_refused_with_the_numbers_that_differ(changes: dict[str, object], said: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        declare(**changes)
    assert said in "\n".join([caught.value.what, *caught.value.notes, f"fix: {caught.value.fix}"])


def test_a_name_is_one_and_not_one_of_the_table() -> None:
    for name in ("log mean", "", "max"):
        with pytest.raises(wf.WeftError):
            wf.monoid(name, start=0.0, combine=lambda a, b: a + b)


def test_the_same_definition_is_the_same_row_and_another_is_told_apart_by_its_name() -> None:
    one, same = (wf.monoid("total", start=0.0, combine=lambda a, b: a + b) for _ in range(2))
    other = wf.monoid("total", start=1.0, combine=lambda a, b: a * b)
    assert one is same
    assert (one.name, other.name) == ("total", "total_2")
    assert OPS["total"].identity != OPS["total_2"].identity


def test_order_matters_to_what_is_not_commutative() -> None:
    assert OPS[wf.monoid("total", start=0.0, combine=lambda a, b: a + b).name].reorderable
    first = wf.monoid(
        "first",
        start=(0.0, 0),
        of=lambda x: (x, 1),
        combine=lambda a, b: (wf.where(a[1] > 0, a[0], b[0]), wf.maximum(a[1], b[1])),
        result=lambda state: state[0],
    )
    assert not OPS[first.name].reorderable


def test_states_are_carried_in_the_types_that_values_and_joins_need() -> None:
    of = {one.name: one for one in BUILTIN}
    assert state_types(of["logsumexp"], "float16", "float16") == ("float32", "float32")
    assert state_types(of["mean"], "int8", "float32") == ("int64", "float64")
    assert state_types(of["var"], "uint8", "float64") == ("float64",) * 3
    assert state_types(of["argmax"], "bool", "int32") == ("bool", "int64")
    assert state_types(of["argmax"], "float32", "int32", count=1000) == ("float32", "float32")
    assert state_types(of["argmax"], "float32", "int32", count=1 << 25) == ("float32", "int64")


def test_two_states_joined_are_a_state_in_numpy_too() -> None:
    pack, join = OPS["pack2"].meaning, OPS["argmax"].meaning
    states = pack(np.array([1.0, 5.0]), np.array([0, 1])), pack(np.array([2.0, 5.0]), np.array([3, 0]))
    assert OPS["item1"].meaning(join(*states)).tolist() == [3, 0]
