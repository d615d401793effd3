"""Inference of element types: what each kind of node takes its type from, and that no order of the code matters."""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import dataclass
from functools import partial
from itertools import permutations

import pytest
from hypothesis import given, strategies as st

import weft as wf
from weft.assign import Arg
from weft.assign.dtype_inference import Precision
from weft.ops import OPS, Num, Number, call
from weft.ops.dtypes import ELEMENT_TYPES, WEAK_FLOAT, WEAK_INT, decided, promote

RANDOM_BITS = {"uniform", "threefry4x32"}


def given_as(dtype: str) -> Precision:
    return Precision.given(dtype)


def parameter() -> Precision:
    return Precision.from_use(WEAK_FLOAT)


def literal() -> Precision:
    """Whole numbers written in the program."""
    return Precision.from_use(WEAK_INT)


def computed(op: str, *args: Precision | float, sums: bool = False, into: Precision | None = None) -> Precision:
    """A node an assignment computes: the operation of others and of numbers."""
    target = into or Precision.from_operands()
    cells = list(dict.fromkeys(arg for arg in args if isinstance(arg, Precision)))
    values: list[Number] = [Arg(cells.index(arg)) if isinstance(arg, Precision) else arg for arg in args]
    target.computed_by(call(op, *values), [(Arg(at), cell) for at, cell in enumerate(cells)], sums=sums)
    return target


# Where types come from


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_a_copy_has_the_type_of_what_it_copies(dtype: str) -> None:
    assert computed("identity", given_as(dtype)).dtype == dtype


@pytest.mark.parametrize(("one", "other"), [("int8", "uint8"), ("float16", "bfloat16"), ("bool", "int32")])
@pytest.mark.parametrize("op", ["add", "where", "lt", "div"])
def test_a_computed_node_has_the_type_its_operands_meet_in(op: str, one: str, other: str) -> None:
    operands = (given_as("bool"), given_as(one), given_as(other))[-OPS[op].arity :]
    expected = {("int8", "uint8"): "int16", ("float16", "bfloat16"): "float32", ("bool", "int32"): "int32"}
    whole = "int" in one + other
    assert computed(op, *operands).dtype == ("float32" if op == "div" and whole else expected[one, other])


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_parameter_takes_the_type_of_what_it_meets(dtype: str) -> None:
    w = parameter()
    assert computed("mul", w, given_as(dtype)).dtype == dtype
    assert (w.dtype, w.origin) == (dtype, "from its use")


def test_a_parameter_that_meets_whole_numbers_is_a_float() -> None:
    w = parameter()
    assert computed("mul", w, given_as("int8")).dtype == "float32"
    assert (w.dtype, w.origin) == ("float32", "by default")


def test_a_parameter_used_twice_takes_what_both_uses_meet_in() -> None:
    w = parameter()
    first, second = computed("mul", w, given_as("float16")), computed("add", w, given_as("float64"))
    assert (w.dtype, first.dtype, second.dtype) == ("float64", "float64", "float64")


def test_parameters_that_only_meet_each_other_take_the_type_of_their_use() -> None:
    w, b = parameter(), parameter()
    h = computed("add", w, b)
    y = computed("mul", computed("tanh", h), given_as("bfloat16"))
    assert [one.dtype for one in (w, b, h, y)] == ["bfloat16"] * 4


def test_what_nothing_is_known_of_is_a_float() -> None:
    w, b = parameter(), literal()
    assert computed("add", w, b).dtype == "float32"
    assert (w.origin, b.dtype, b.origin) == ("by default", "float32", "by default")


def test_what_meets_eight_bit_floats_is_computed_wider() -> None:
    w, x = parameter(), given_as("float8_e4m3fn")
    assert computed("mul", w, x).dtype == "float32"
    assert w.dtype == "float32"


@pytest.mark.parametrize("dtype", [one for one in ELEMENT_TYPES if one != "bool"])
def test_a_literal_takes_the_type_of_what_it_meets(dtype: str) -> None:
    one = literal()
    computed("where", given_as("bool"), one, given_as(dtype))
    assert one.dtype == dtype


def test_a_literal_that_meets_truth_values_is_a_whole_number() -> None:
    one = literal()
    assert computed("add", one, given_as("bool")).dtype == "int64"
    assert (one.dtype, one.origin) == ("int64", "from its use")


def test_what_is_given_wins() -> None:
    target = given_as("int8")
    computed("mul", given_as("float64"), 0.5, into=target)
    assert (target.dtype, target.origin) == ("int8", "given")


def test_a_node_is_not_narrower_than_it_was_told() -> None:
    for at_least, operand, found in [("float32", "float16", "float32"), ("float32", "float64", "float64")]:
        node = Precision.from_operands(at_least)
        computed("mul", given_as(operand), 0.9, into=node)
        assert node.dtype == found


def test_a_node_assigned_twice_holds_both() -> None:
    node = Precision.from_operands()
    computed("identity", given_as("uint8"), into=node)
    computed("identity", given_as("int8"), into=node)
    assert node.dtype == "int16"


def test_a_recurrent_node_takes_the_type_of_what_enters() -> None:
    node = Precision.from_operands()
    computed("add", computed("mul", node, 0.9), given_as("float16"), into=node)
    assert node.dtype == "float16"


def test_a_recurrent_truth_value_stays_one() -> None:
    node = Precision.from_operands()
    computed("where", given_as("bool"), node, given_as("bool"), into=node)
    assert node.dtype == "bool"


@pytest.mark.parametrize(
    ("dtype", "found"),
    [("bool", "int64"), ("int8", "int64"), ("uint16", "uint64"), ("float16", "float16"), ("float8_e5m2", "float32")],
)
def test_sums_are_wide_enough(dtype: str, found: str) -> None:
    assert computed("identity", given_as(dtype), sums=True).dtype == found
    assert computed("mul", given_as(dtype), given_as(dtype), sums=True).dtype == found


@pytest.mark.parametrize(
    ("dtype", "found"), [("bool", "int64"), ("int8", "int64"), ("float16", "float32"), ("float64", "float64")]
)
def test_counts_of_what_holds_are_exact_for_long(dtype: str, found: str) -> None:
    assert computed("lt", given_as(dtype), 1, sums=True).dtype == found


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_a_comparison_is_a_number_like_those_compared(dtype: str) -> None:
    assert computed("lt", given_as(dtype), 0).dtype == dtype
    assert computed("and", given_as(dtype), given_as("bool")).dtype == dtype


def test_a_choice_takes_nothing_from_its_condition() -> None:
    assert computed("where", given_as("float64"), given_as("bool"), given_as("bool")).dtype == "bool"
    condition = computed("exp", given_as("int8"))
    assert computed("where", condition, given_as("int8"), given_as("int8")).dtype == "int8"
    assert condition.dtype == "float32"


def test_what_a_sum_meets_meets_its_64_bits() -> None:
    counted = computed("add", given_as("bool"), given_as("bool"))
    assert computed("mul", counted, given_as("int8")).dtype == "int64"
    summed = computed("identity", given_as("uint8"), sums=True)
    assert computed("mul", summed, given_as("uint8")).dtype == "uint64"
    also = computed("identity", given_as("uint8"), sums=True)
    with pytest.raises(wf.WeftError, match="holds both uint64 and int8"):
        computed("mul", also, given_as("int8")).dtype


@pytest.mark.parametrize(
    ("dtype", "found"),
    [("bool", "int64"), ("int8", "int64"), ("uint8", "int64"), ("uint64", "uint64"), ("float16", "float32")],
)
def test_places_are_held_by_no_narrow_type(dtype: str, found: str) -> None:
    places = Precision.from_use(WEAK_INT, wide=True)
    assert computed("eq", places, given_as(dtype)).dtype == found
    assert places.dtype == found


# What does not fit


def test_types_given_that_do_not_meet_are_refused_where_they_meet() -> None:
    with pytest.raises(wf.WeftError, match="no whole-number type holds both uint64 and int64") as caught:
        computed("add", given_as("int64"), given_as("uint64"))
    assert caught.value.origin is not None
    assert caught.value.origin.code.startswith("target.computed_by(")


def test_what_is_found_not_to_meet_is_refused_at_its_own_line() -> None:
    signed, unsigned = (computed("mul", given_as(dtype), 2) for dtype in ("int8", "uint64"))
    both = computed("add", signed, unsigned)
    with pytest.raises(wf.WeftError, match="holds both uint64 and int8") as caught:
        signed.dtype
    assert caught.value.origin is not None
    assert caught.value.origin.code.startswith("target.computed_by(")
    with pytest.raises(wf.WeftError, match="holds both uint64 and int8"):
        both.dtype


def test_a_node_of_both_signs_is_refused() -> None:
    node = Precision.from_operands()
    for dtype in ("int64", "uint64"):
        computed("identity", given_as(dtype), into=node)
    with pytest.raises(wf.WeftError, match="holds both uint64 and int64"):
        node.dtype


def test_a_float_reconciles_what_would_not_meet() -> None:
    one = literal()
    for dtype in ("int64", "uint64", "float16"):
        computed("add", one, given_as(dtype))
    assert one.dtype == "float16"


# The order of the code


@dataclass(frozen=True)
class Graph:
    """Nodes by the kind of their type, and assignments between them."""

    kinds: tuple[tuple[str, str | None], ...]
    rules: tuple[tuple[int, str, tuple[int | Num, ...], bool], ...]

    def infer(self, order: Iterable[int], asked: Iterable[int]) -> list[tuple[str | None, str]] | str:
        """Every type, with the assignments made and the types asked for in some order."""
        make = {
            "given": Precision.given,
            "use": Precision.from_use,
            "places": partial(Precision.from_use, wide=True),
            "operands": Precision.from_operands,
        }
        cells = [make[kind](dtype) for kind, dtype in self.kinds]  # type: ignore[operator]
        try:
            for at in order:
                target, op, args, sums = self.rules[at]
                values = [cells[arg] if isinstance(arg, int) else arg.value for arg in args]
                computed(op, *values, sums=sums, into=cells[target])
            for at in asked:
                cells[at].dtype
        except wf.WeftError:
            return "refused"
        return [(cell.settled, cell.origin) for cell in cells]


KINDS = st.one_of(
    st.sampled_from([("given", dtype) for dtype in ELEMENT_TYPES]),
    st.sampled_from([("use", WEAK_INT), ("use", WEAK_FLOAT), ("places", WEAK_INT)]),
    st.sampled_from([("operands", None), ("operands", None), ("operands", "float32"), ("operands", "int8")]),
)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    kinds = draw(st.lists(KINDS, min_size=2, max_size=9))
    nodes = st.integers(0, len(kinds) - 1)
    operand = st.one_of(nodes, nodes, st.sampled_from([Num(2), Num(0.5), Num(True)]))
    rules = []
    for _ in range(draw(st.integers(1, 9))):
        op = draw(st.sampled_from([op for op in OPS.values() if op.name not in RANDOM_BITS]))
        rules.append((draw(nodes), op.name, tuple(draw(operand) for _ in range(op.arity)), draw(st.booleans())))
    return Graph(tuple(kinds), tuple(rules))


@given(graphs(), st.data())
def test_the_order_of_assignments_and_questions_does_not_matter(graph: Graph, data: st.DataObject) -> None:
    order = data.draw(st.permutations(range(len(graph.rules))))
    asked = data.draw(st.permutations(range(len(graph.kinds))))
    assert graph.infer(order, asked) == graph.infer(range(len(graph.rules)), range(len(graph.kinds)))


@given(graphs())
def test_every_node_is_at_least_what_is_computed_into_it(graph: Graph) -> None:
    found = graph.infer(range(len(graph.rules)), range(len(graph.kinds)))
    if found == "refused":
        return
    for target, op, args, sums in graph.rules:
        if graph.kinds[target][0] != "operands":
            continue
        final = [Precision.given(str(found[arg][0])) if isinstance(arg, int) else arg.value for arg in args]
        (rule,) = computed(op, *final, sums=sums).rules
        own, stored = rule.result(rule.meeting({})), str(found[target][0])
        assert promote(own, stored) == stored


@given(graphs())
def test_nothing_stays_open(graph: Graph) -> None:
    found = graph.infer(range(len(graph.rules)), range(len(graph.kinds)))
    if found != "refused":
        assert all(decided(str(dtype)) == dtype for dtype, _ in found)


OPEN = ("operands", None)
ORDERS = {
    "a copy of a copy of truth values": Graph(
        (("given", "bool"), OPEN, OPEN), ((1, "identity", (0,), False), (2, "identity", (1,), False))
    ),
    "a truth value added to what is computed": Graph(
        (("given", "int8"), ("given", "bool"), OPEN, OPEN), ((2, "mul", (0, 0), False), (3, "add", (2, 1), False))
    ),
    "a literal with truth values and with whole numbers": Graph(
        (("use", WEAK_INT), ("given", "bool"), ("given", "int8"), OPEN, OPEN),
        ((3, "add", (0, 1), False), (4, "add", (0, 2), False)),
    ),
    "the sum of a literal that becomes signed": Graph(
        (("use", WEAK_INT), ("given", "uint8"), ("given", "int8"), OPEN, OPEN, OPEN),
        ((3, "add", (0, 1), False), (4, "identity", (0,), True), (5, "add", (0, 2), False)),
    ),
    "places among unsigned numbers, narrow and wide": Graph(
        (("places", WEAK_INT), ("given", "uint8"), ("given", "uint64"), OPEN, OPEN),
        ((3, "add", (0, 1), False), (4, "add", (0, 2), False)),
    ),
}


@pytest.mark.parametrize("name", ORDERS)
def test_orders_that_must_not_matter(name: str) -> None:
    graph = ORDERS[name]
    rules, nodes = range(len(graph.rules)), range(len(graph.kinds))
    ways = [graph.infer(order, [first, *nodes]) for order in permutations(rules) for first in nodes]
    assert ways[0] != "refused"
    assert all(way == ways[0] for way in ways)


# Size


def timed(cell: Precision) -> tuple[str, float]:
    start = time.process_time()
    return cell.dtype, time.process_time() - start


def test_a_deep_chain_settles_at_once() -> None:
    cell = first = parameter()
    for _ in range(2000):
        cell = computed("tanh", computed("mul", cell, parameter()))
    found = computed("add", cell, given_as("float16"))
    dtype, seconds = timed(found)
    assert (dtype, first.dtype) == ("float16", "float16")
    assert seconds < 2


def test_a_chain_that_rises_step_by_step_settles_at_once() -> None:
    rising = Precision.from_operands()
    cell = rising
    for _ in range(2000):
        cell = computed("add", cell, literal())
    for dtype in ("uint8", "int8", "int32", "float16", "float64"):
        computed("identity", given_as(dtype), into=rising)
    dtype, seconds = timed(cell)
    assert dtype == "float64"
    assert seconds < 2


def test_a_tensor_used_everywhere_settles_at_once() -> None:
    shared = parameter()
    cells = [computed("mul", shared, parameter()) for _ in range(2000)]
    computed("add", cells[0], given_as("bfloat16"))
    dtype, seconds = timed(cells[-1])
    assert dtype == "bfloat16"
    assert seconds < 2
