"""The table of primitives: no row has a hole, and every fact a row claims is true."""

from __future__ import annotations

import ast
import string
from dataclasses import dataclass
from functools import partial

import numpy as np
import pytest
from hypothesis import given, strategies as st

import weft as wf
from weft.ops import OPS, Call, Num, Op, Scalar, accumulator, find, leaves, scalar, substitute, where
from weft.ops.library import LIBRARY
from weft.ops.scalar import call

ROWS = list(OPS.values())
NEUTRAL = [op for op in ROWS if op.neutral is not None]
EXPECTED = {
    1: "identity relu sat01 exp log exp2 log2 sin cos sqrt recip recip_sqrt neg tanh sigmoid erf abs floor rint sign "
    "not order_place tan acos asin atan sinpi cospi sinh cosh asinh acosh atanh exp10 expm1 log10 log1p logb cbrt "
    "rcbrt ceil trunc round erfc erfcx erfinv erfcinv normcdf normcdfinv lgamma tgamma digamma trigamma j0 j1 y0 y1 "
    "cyl_bessel_i0 cyl_bessel_i1",
    2: "arg1 arg2 type_as add sub mul div floordiv pow relu_gate sat01_gate select max min mod lt le eq ne precedes or "
    "and threefry4x32 uniform atan2 hypot rhypot fmod remainder copysign nextafter fmax fmin fdim",
    3: "normal where fma norm3d rnorm3d",
    4: "norm4d rnorm4d",
}
RANDOM = {"uniform", "normal", "threefry4x32"}
BOOLEAN = {"or", "and"}
IGNORES = {"arg1": {1}, "arg2": {0}, "type_as": {1}}
FACTS = ("commutative", "associative", "idempotent")


def names(op: Op) -> str:
    return op.name


def each(rows: list[Op]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("op", rows, ids=names)


def places(spelling: str) -> set[int]:
    """The operands a spelling uses; `{t}` stands for the element type."""
    fields = {field for _, field, _, _ in string.Formatter().parse(spelling) if field is not None}
    return {int(field) for field in fields - {"t"}}


@pytest.mark.parametrize("arity", [1, 2, 3, 4])
def test_the_table_has_exactly_these_operations(arity: int) -> None:
    assert [op.name for op in ROWS if op.arity == arity] == EXPECTED[arity].split()


@each(ROWS)
def test_no_row_has_a_hole(op: Op) -> None:
    assert OPS[op.name] is op
    assert op.name.isidentifier() or op.name in ("not", "or", "and")
    assert op.text
    assert op.text.strip() == op.text
    wanted = set(range(op.arity)) - IGNORES.get(op.name, set())
    assert places(op.c) == wanted
    assert places(op.triton) == wanted
    for spelling in (op.c, op.triton):
        shown = spelling.format(*("xyzw"[: op.arity]), t="f32")
        assert shown.count("(") == shown.count(")")


def test_each_operation_is_written_in_its_own_way() -> None:
    texts = [op.text for op in ROWS]
    assert len(set(texts)) == len(texts)
    assert not set(texts) & ({op.name for op in ROWS} - {op.text for op in ROWS if op.text == op.name})


def test_an_operation_is_infix_when_it_has_two_operands_and_a_sign() -> None:
    assert find("+").infix
    assert find("**").infix
    assert not find("neg").infix
    assert not find("where").infix


@each(ROWS)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_the_numpy_meaning_takes_arrays_and_scalars(op: Op, dtype: str) -> None:
    args = [np.array([0.25, 0.5, 0.75], dtype) for _ in range(op.arity)]
    if op.name in RANDOM:
        args = [np.arange(3, dtype=np.uint64) for _ in range(op.arity)]
        args[-1] = args[-1] if op.name == "threefry4x32" else np.full(3, 24, dtype)
    whole = np.asarray(op.meaning(*args))
    assert whole.shape == (3,)
    single = np.array([op.meaning(*(arg[at] for arg in args)) for at in range(3)])
    np.testing.assert_array_equal(single.astype(whole.dtype), whole)
    if whole.dtype.kind == "f":
        assert whole.dtype == dtype


@each(ROWS)
def test_the_numpy_meaning_broadcasts(op: Op) -> None:
    shapes = [(3, 1), (1, 2), (3, 2), (1, 1)][: op.arity]
    dtype = np.uint64 if op.name in RANDOM else np.float64
    args = [np.ones(shape, dtype) for shape in shapes]
    args[-1] = args[-1].astype(np.float64) if op.name in ("uniform", "normal") else args[-1]
    assert np.shape(op.meaning(*args)) == np.broadcast_shapes(*shapes)


MEANINGS = [
    ("identity", (-2.5,), -2.5),
    ("relu", (-2.0,), 0.0),
    ("relu", (2.0,), 2.0),
    ("sat01", (-2.0,), 0.0),
    ("sat01", (0.3,), 0.3),
    ("sat01", (2.0,), 1.0),
    ("exp", (1.0,), np.e),
    ("log", (np.e,), 1.0),
    ("exp2", (3.0,), 8.0),
    ("log2", (8.0,), 3.0),
    ("sin", (np.pi / 2,), 1.0),
    ("cos", (np.pi,), -1.0),
    ("sqrt", (9.0,), 3.0),
    ("recip", (4.0,), 0.25),
    ("recip_sqrt", (4.0,), 0.5),
    ("neg", (4.0,), -4.0),
    ("tanh", (1.0,), 0.7615941559557649),
    ("sigmoid", (0.0,), 0.5),
    ("sigmoid", (np.log(3),), 0.75),
    ("erf", (1.0,), 0.8427007929497149),
    ("abs", (-4.0,), 4.0),
    ("floor", (-1.5,), -2.0),
    ("rint", (0.5,), 0.0),
    ("rint", (1.5,), 2.0),
    ("rint", (-1.4,), -1.0),
    ("sign", (-0.3,), -1.0),
    ("sign", (0.0,), 0.0),
    ("sign", (7.0,), 1.0),
    ("order_place", (-0.0,), 2.0**63),
    ("order_place", (0.0,), 2.0**63),
    ("not", (0.0,), 1.0),
    ("not", (3.0,), 0.0),
    ("arg1", (2.0, 3.0), 2.0),
    ("arg2", (2.0, 3.0), 3.0),
    ("type_as", (2.5, 3.0), 2.5),
    ("add", (2.0, 3.0), 5.0),
    ("sub", (2.0, 3.0), -1.0),
    ("mul", (2.0, 3.0), 6.0),
    ("div", (3.0, 2.0), 1.5),
    ("floordiv", (-3.0, 2.0), -2.0),
    ("pow", (2.0, 3.0), 8.0),
    ("relu_gate", (2.0, 3.0), 3.0),
    ("relu_gate", (-2.0, 3.0), 0.0),
    ("sat01_gate", (0.5, 3.0), 3.0),
    ("sat01_gate", (1.5, 3.0), 0.0),
    ("sat01_gate", (-0.5, 3.0), 0.0),
    ("select", (2.0, 3.0), 3.0),
    ("select", (0.0, 3.0), 0.0),
    ("max", (2.0, 3.0), 3.0),
    ("min", (2.0, 3.0), 2.0),
    ("mod", (-1.0, 3.0), 2.0),
    ("lt", (2.0, 3.0), 1.0),
    ("lt", (3.0, 3.0), 0.0),
    ("le", (3.0, 3.0), 1.0),
    ("eq", (3.0, 3.0), 1.0),
    ("ne", (3.0, 3.0), 0.0),
    ("precedes", (2.0, 3.0), 1.0),
    ("precedes", (3.0, 3.0), 0.0),
    ("precedes", (3.0, np.nan), 1.0),
    ("precedes", (np.nan, 3.0), 0.0),
    ("precedes", (np.nan, np.nan), 0.0),
    ("or", (0.0, 3.0), 1.0),
    ("and", (0.0, 3.0), 0.0),
    ("where", (1.0, 2.0, 3.0), 2.0),
    ("where", (0.0, 2.0, 3.0), 3.0),
    ("fma", (2.0, 3.0, 4.0), 10.0),
]


@pytest.mark.parametrize(("name", "args", "value"), MEANINGS)
def test_what_each_operation_means(name: str, args: tuple[float, ...], value: float) -> None:
    assert OPS[name].meaning(*map(np.float64, args)) == pytest.approx(value, abs=1e-12)


def test_every_meaning_is_tested() -> None:
    library = {op.name for op in LIBRARY}  # test_ops_library.py
    assert {name for name, _, _ in MEANINGS} | RANDOM | library == set(OPS)


@dataclass(frozen=True)
class Variable(Scalar):
    value: float


def evaluate(value: Scalar | float) -> float:
    """What a gradient expression comes to."""
    match scalar(value):
        case Num(value=number) | Variable(value=number):
            return float(number)
        case Call(op=op, args=inner):
            return float(OPS[op].meaning(*(np.float64(evaluate(one)) for one in inner)))
    raise AssertionError(value)


# Points away from the places where a derivative jumps or an operation is not defined.
POINTS = {
    1: [(-1.7,), (-0.4,), (0.3,), (0.8,), (2.6,)],
    2: [(0.4, 1.3), (2.2, 0.7), (0.6, 0.9), (1.7, -0.6), (2.3, -1.4)],
    3: [(1.0, 0.4, 1.3), (0.0, 2.2, 0.7), (0.6, 0.9, -0.3)],
    4: [(1.0, 0.4, 1.3, -0.2), (0.0, 2.2, 0.7, 0.1)],
}
#: The first operand must lie between these.
DOMAINS = {
    **dict.fromkeys(("log", "log2", "log10", "sqrt", "recip_sqrt", "y0", "y1"), (0, np.inf)),
    **dict.fromkeys(("acos", "asin", "atanh", "erfinv"), (-1, 1)),
    **dict.fromkeys(("log1p", "digamma"), (-1, np.inf)),
    "normcdfinv": (0, 1),
    "erfcinv": (0, 2),
    "acosh": (1, np.inf),
}
UNDIFFERENTIABLE = {"nextafter", "trigamma", "order_place"}


@each([op for op in ROWS if op.name not in RANDOM | UNDIFFERENTIABLE])
def test_gradients_agree_with_finite_differences(op: Op) -> None:
    low, high = DOMAINS.get(op.name, (-np.inf, np.inf))
    inside = [point for point in POINTS[op.arity] if low < point[0] < high]
    assert inside
    for point in inside:
        args = tuple(map(np.float64, point))
        leaf = [Variable(float(arg)) for arg in args]
        partials = op.gradient(*leaf, Call(op.name, tuple(leaf)))
        assert len(partials) == op.arity
        for at in range(op.arity):
            if op.name == "where" and at == 0:
                continue  # a condition is not differentiated
            step = 1e-6
            up, down = ([arg + sign * step * (n == at) for n, arg in enumerate(args)] for sign in (1, -1))
            slope = (float(op.meaning(*up)) - float(op.meaning(*down))) / (2 * step)
            assert evaluate(partials[at]) == pytest.approx(slope, rel=2e-6, abs=1e-8), (point, at)


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, -1, 0.5, 2.5])
def test_powers_by_a_constant(exponent: float) -> None:
    for base in (0.4, 1.7):
        leaf = (Variable(base), Num(exponent))
        partials = OPS["pow"].gradient(*leaf, Call("pow", leaf))
        assert evaluate(partials[0]) == pytest.approx(exponent * base ** (exponent - 1))
    flat = (Variable(0.0), Num(exponent))
    if exponent in (0, 1, 2, 3):
        assert evaluate(OPS["pow"].gradient(*flat, Call("pow", flat))[0]) == (exponent == 1)


@each([op for op in ROWS if op.name in RANDOM])
def test_random_bits_have_no_gradient(op: Op) -> None:
    leaf = [Num(1)] * op.arity
    assert op.gradient(*leaf, Call(op.name, tuple(leaf))) == (0,) * op.arity


def test_the_condition_of_where_has_no_gradient() -> None:
    leaf = (Num(1.0), Num(2.0), Num(3.0))
    assert OPS["where"].gradient(*leaf, Call("where", leaf))[0] == 0


def samples(op: Op, dtype: str, count: int) -> list[np.ndarray]:
    numbers = np.random.default_rng(7)
    low, high = (0, 2) if op.name in BOOLEAN or dtype == "bool" else (-9, 10)
    return [numbers.integers(low, high, 200).astype(dtype) for _ in range(count)]


@each(NEUTRAL)
@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "bool"])
def test_neutral_elements_are_neutral(op: Op, dtype: str) -> None:
    (values,) = samples(op, dtype, 1)
    assert op.neutral is not None
    neutral = np.asarray(op.neutral(np.dtype(dtype))).astype(dtype)
    np.testing.assert_array_equal(np.asarray(op.meaning(neutral, values)).astype(dtype), values)
    if op.commutative:
        np.testing.assert_array_equal(np.asarray(op.meaning(values, neutral)).astype(dtype), values)


def test_what_accumulates() -> None:
    assert [op.name for op in NEUTRAL] == ["add", "mul", "max", "min", "or", "and"]


@each([op for op in ROWS if op.commutative])
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_commutative_operations_commute(op: Op, dtype: str) -> None:
    assert op.arity == 2
    x, y = samples(op, dtype, 2)
    np.testing.assert_array_equal(op.meaning(x, y), op.meaning(y, x))


@each([op for op in ROWS if op.associative])
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_associative_operations_associate(op: Op, dtype: str) -> None:
    assert op.arity == 2
    x, y, z = samples(op, dtype, 3)
    np.testing.assert_array_equal(op.meaning(op.meaning(x, y), z), op.meaning(x, op.meaning(y, z)))


@each([op for op in ROWS if op.arity == 2 and op.reorderable])
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_reorderable_accumulations_take_values_in_any_order(op: Op, dtype: str) -> None:
    start, x, y = samples(op, dtype, 3) if op.name != "sub" else samples(op, "int64", 3)
    np.testing.assert_array_equal(op.meaning(op.meaning(start, x), y), op.meaning(op.meaning(start, y), x))


def test_which_accumulations_are_reorderable() -> None:
    known = ["add", "sub", "mul", "max", "min", "or", "and"]
    assert [op.name for op in ROWS if op.begins is not None and op.reorderable] == known


def test_functions_cost_more_than_instructions_and_these_more_than_arithmetic() -> None:
    prices = [OPS[name].price for name in ("arg2", "add", "where", "div", "exp", "threefry4x32")]
    assert prices == [0, 1, 1, 8, 64, 128]
    assert [op.name for op in ROWS if op.instruction] == ["sqrt", "recip", "recip_sqrt", "div", "copysign"]
    assert not OPS["div"].function
    assert OPS["tanh"].function
    assert all(op.function for op in ROWS if op.vectorised)


@each([op for op in ROWS if op.idempotent])
@pytest.mark.parametrize("dtype", ["int64", "bool"])
def test_idempotent_operations_do_nothing_twice(op: Op, dtype: str) -> None:
    (x,) = samples(op, dtype, 1)
    once = op.meaning(x) if op.arity == 1 else x
    again = op.meaning(once) if op.arity == 1 else op.meaning(x, x)
    np.testing.assert_array_equal(again, once)


#: What a conversion does shows between types only, and a choice is made by a truth value.
OF_TYPES = {"type_as", "select"}


@each([op for op in ROWS if op.arity == 2 and op.name not in {*RANDOM, *OF_TYPES} and not op.name.endswith("_gate")])
def test_facts_that_integers_refute_are_not_claimed_and_others_are(op: Op) -> None:
    """The table claims a fact of a binary operation exactly if random integers do not refute it."""
    x, y, z = (np.abs(one) % 4 + 1.0 if op.name == "pow" else one * 1.0 for one in samples(op, "int64", 3))
    with np.errstate(all="ignore"):
        holds = (
            np.array_equal(op.meaning(x, y), op.meaning(y, x), equal_nan=True),
            np.array_equal(op.meaning(op.meaning(x, y), z), op.meaning(x, op.meaning(y, z)), equal_nan=True),
            np.array_equal(op.meaning(x, x), x, equal_nan=True),
        )
    assert dict(zip(FACTS, holds, strict=True)) == {fact: getattr(op, fact) for fact in FACTS}


def test_find_takes_a_name_or_how_it_is_written() -> None:
    assert find("mul") is find("*") is OPS["mul"]
    assert find("?/", arity=1) is OPS["relu"]


def test_find_says_what_there_is() -> None:
    with pytest.raises(wf.WeftError) as caught:
        find("matmul", arity=2)
    assert caught.value.what == "there is no binary operation 'matmul'"
    assert caught.value.fix == "use one of " + ", ".join(EXPECTED[2].split())
    assert str(caught.value).startswith("test_ops_table.py:")


def test_find_minds_the_arity() -> None:
    with pytest.raises(wf.WeftError, match="there is no unary operation 'add'"):
        find("add", arity=1)
    with pytest.raises(wf.WeftError, match="there is no ternary operation 'add'"):
        find("add", arity=3)
    with pytest.raises(wf.WeftError, match="there is no operation 'nothing'"):
        find("nothing")


def test_only_operations_with_a_neutral_element_accumulate() -> None:
    assert accumulator("+") is OPS["add"]
    with pytest.raises(wf.WeftError) as caught:
        accumulator("-")
    assert caught.value.what == "'-' cannot accumulate: it has no neutral element"
    assert caught.value.fix.startswith("accumulate with one of +, *, max, min, or, and, logsumexp, mean")


BINARY = {
    "add": lambda x, y: x + y,
    "sub": lambda x, y: x - y,
    "mul": lambda x, y: x * y,
    "div": lambda x, y: x / y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
}


@pytest.mark.parametrize("name", BINARY)
def test_python_operators_build_scalars(name: str) -> None:
    x, y = Num(2.0), Num(3.0)
    assert BINARY[name](x, y) == Call(name, (x, y))
    assert BINARY[name](x, 3.0) == Call(name, (x, y))
    if name not in ("lt", "le"):
        assert BINARY[name](2.0, y) == Call(name, (x, y))


def test_the_other_python_operators_build_scalars() -> None:
    x, y = Num(2.0), Num(3.0)
    assert (x**y, x % y, -x) == (Call("pow", (x, y)), Call("mod", (x, y)), Call("neg", (x,)))
    assert (x > y, x >= y) == (Call("lt", (y, x)), Call("le", (y, x)))
    assert (y < 2.0) == Call("lt", (y, x))
    assert where(x, y, 1) == Call("where", (x, y, Num(1)))


@given(st.recursive(st.integers(-3, 3).map(Num), lambda inner: st.builds(lambda x, y: x * y, inner, inner)))
def test_leaves_and_substitution_see_every_leaf_in_order(expression: Scalar) -> None:
    seen: list[Scalar] = []

    def note(leaf: Scalar) -> Scalar:
        seen.append(leaf)
        return call("neg", leaf)

    changed = substitute(expression, note)
    assert seen == list(leaves(expression))
    assert list(leaves(changed)) == seen
    assert substitute(expression, lambda leaf: leaf) == expression


class Name(Scalar):
    def __str__(self) -> str:
        return "n"


N = Name()
NUMBERS = st.sampled_from([0, 1, -3, 0.5, -0.1, 1e-30, 2**40])


@given(
    st.recursive(
        st.just(N) | NUMBERS.map(Num),
        lambda inner: st.one_of(
            st.builds(
                lambda op, x, y: call(op, x, y), st.sampled_from([*BINARY, "floordiv", "mod", "pow"]), inner, inner
            ),
            st.builds(lambda op, x: call(op, x), st.sampled_from(["neg", "abs", "exp"]), inner),
            st.builds(where, inner, inner, inner),
        ),
        max_leaves=12,
    )
)
def test_an_expression_prints_as_python_that_builds_it(expression: Scalar) -> None:
    def positive(leaf: Scalar) -> Scalar:
        return call("neg", -leaf.value) if isinstance(leaf, Num) and leaf.value < 0 else leaf

    tree = ast.fix_missing_locations(_Numbers().visit(ast.parse(str(expression), mode="eval")))
    functions = {name: partial(call, name) for name in ("where", "abs", "exp")}
    found = eval(compile(tree, "", "eval"), {"n": N, "Num": Num, **functions})
    assert found == substitute(expression, positive), str(expression)


class _Numbers(ast.NodeTransformer):
    def visit_Constant(self, node: ast.Constant) -> ast.Call:
        return ast.Call(ast.Name("Num", ast.Load()), [node], [])


def test_an_expression_that_is_long_prints_its_outside() -> None:
    one: Scalar = N
    for _ in range(1000):
        one = one * one + 1
    assert len(str(one)) < 600
