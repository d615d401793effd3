"""Code recorded under `@wf.cd`: what is recorded, how it prints, what it does."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tensor.differences import double
from weft.assign import Accum, Code, Comment, Noop, Seq, complete, show, statements

A, B = np.array([1.0, 2.0, 3.0]), np.array([4.0, -5.0, 6.0])


def node(label: str = "n") -> wf.Tensor:
    return wf.node(label)


def ran(code: Code, *wanted: wf.Tensor) -> list[list[float]]:
    """What the wanted tensors hold after the code has run."""
    ctx = wf.Context("interp")
    ctx.compile(code, keep=wanted)()
    return [ctx[one].tolist() for one in wanted]


def recorded(function: Callable[[], object]) -> Code:
    return wf.cd(function)()


def lines(code: Code) -> list[str]:
    return str(code).split(";\n")


ASSIGNMENTS = {
    "[:] =": (lambda n, x: n.__setitem__(slice(None), x), "n.x =: x", B),
    "+=": (lambda n, x: n.__iadd__(x), "n.x =+ x", A + B),
    "-=": (lambda n, x: n.__isub__(x), "n.x =- x", A - B),
    "*=": (lambda n, x: n.__imul__(x), "n.x =* x", A * B),
    "/=": (lambda n, x: n.__itruediv__(x), "n.x =/ x", A / B),
    "max": (lambda n, x: n.accumulate("max", x), "n.x =@^ x", np.maximum(A, B)),
    "min": (lambda n, x: n.accumulate("min", x), "n.x =^^ x", np.minimum(A, B)),
    "max, from the start": (lambda n, x: n.accumulate("max", x, reset=True), "n.x =:@^ x", B),
    "+, from the start": (lambda n, x: n.accumulate("+", x, reset=True), "n.x =:+ x", B),
    "power": (lambda n, x: n.accumulate("**", x), "n.x =** x", A**B),
    "gate": (lambda n, x: n.accumulate("relu_gate", x), "n.x =?/ x", B),
    "-, from the start": (lambda n, x: n.accumulate("-", x, reset=True), "n.x =:- x", -B),
    "/, from the start": (lambda n, x: n.accumulate("/", x, reset=True), "n.x =:/ x", 1 / B),
    "**, from the start": (lambda n, x: n.accumulate("**", x, reset=True), "n.x =:** x", B**0),
    "gate, from the start": (lambda n, x: n.accumulate("-?/", x, reset=True), "n.x =:?/ x", B),
    "the value": (lambda n, x: n.value.__iadd__(x.value), "n.x =+ x", A + B),
}


@pytest.mark.parametrize("name", ASSIGNMENTS)
def test_every_assignment(name: str) -> None:
    assign, text, expected = ASSIGNMENTS[name]
    n, x = node(), wf.data(B, label="x")

    @wf.cd
    def code() -> None:
        n[:] = wf.data(A, label="x")
        assign(n, x)

    code = code()
    assert lines(code)[-1].replace("x_2", "x") == text
    np.testing.assert_allclose(ran(code, n)[0], expected)


def test_assigning_numbers() -> None:
    @wf.cd
    def record(n: wf.Tensor, m: wf.Tensor) -> None:
        n[:] = wf.data(A)
        n[:] = 2.0
        n += 3
        m[:] = n * 2.0
        m /= 4.0

    n, m = node(), node("m")
    code = record(n, m)
    assert [line.split(" ", 1)[1] for line in lines(code)] == [
        "=: data",
        "=: 2.0",
        "=+ 3",
        "=: n *. 2.0",
        "=/ 4.0",
    ]
    assert ran(code, n, m) == [[5.0, 5.0, 5.0], [2.5, 2.5, 2.5]]


def test_an_operation_on_the_right_becomes_the_assignment_s_own() -> None:
    a, b = wf.data(np.arange(6.0).reshape(2, 3), input=1, label="a"), wf.data(A, label="b")

    @wf.cd
    def code(c: wf.Tensor) -> None:
        c[:] = a @ b
        c += a @ b
        c -= wf.einsum("...|i->o; ...|->i => ...|->o", a, b)

    assert lines(code(node("c"))) == [
        'c.a =:+ a * b ~logic:"@"',
        'c.a =+ a * b ~logic:"@"',
        'c.a =- a * b ~logic:"...|i->o; ...|->i => ...|->o"',
    ]
    c = node("c")
    assert ran(code(c), c) == [[8.0, 26.0]]


def test_an_operation_that_does_not_fit_is_computed_first() -> None:
    a, b, c = wf.data(np.ones((3, 3)), input=1, label="a"), wf.data(A, label="b"), node("c")

    @wf.cd
    def code(c: wf.Tensor) -> None:
        c[:] = b
        c *= a @ b

    assert lines(code(node("c")))[1] == 'c.b =* (a * b ~logic:"@")'
    assert ran(code(c), c) == [[6.0, 12.0, 18.0]]


def test_an_expression_from_before_stays_a_tensor() -> None:
    a, b, c = wf.data(A, label="a"), wf.data(B, label="b"), node("c")
    total = a + b

    @wf.cd
    def code() -> None:
        c[:] = total

    (only,) = statements(code())
    assert isinstance(only, Accum)
    assert only.operands == (total.node,)
    assert ran(code(), c) == [(A + B).tolist()]


def test_forward_code_comes_just_before_its_use_and_once() -> None:
    a = wf.data(A, label="a")
    c, d, e = node("c"), node("d"), node("e")
    shared = wf.exp(a * 2.0)

    @wf.cd
    def code() -> None:
        c[:] = a
        d[:] = shared + 1.0
        e[:] = shared * shared

    text = str(complete(code()))
    assert text.splitlines() == [
        "c.a =: a;",
        "mul =: a *. 2.0;",
        "exp =: exp(mul);",
        "d.a =: exp + 1.0;",
        "e.a =: exp *. exp",
    ]
    np.testing.assert_allclose(ran(code(), d, e), [np.exp(2 * A) + 1, np.exp(4 * A)])


def test_what_is_read_after_it_changed_is_read_anew() -> None:
    p, c = double("p", o=2, init=1.0), node("c")
    doubled = p * 2.0

    @wf.cd
    def code(c: wf.Tensor) -> None:
        c[:] = doubled
        p[:] = 5.0
        c += p

    assert ran(code(c), c, p) == [[7.0, 7.0], [5.0, 5.0]]


LOGICS = {
    "pointwise": ("+", "*", ".", True, [4.0, -10.0, 18.0], 'c.a =:+ a * b ~logic:"."'),
    "an einsum": ("+", "*", "i;i=>0", True, [12.0], 'c.a =:+ a * b ~logic:"i;i=>0"'),
    "an outer product": ("=", "*", "i;j=>ij", False, np.outer(A, B).tolist(), 'c.a =: a * b ~logic:"i;j=>ij"'),
    "tropical": ("max", "+", "i;j=>i", True, (A + 6.0).tolist(), 'c.a =:@^ a + b ~logic:"i;j=>i"'),
    "plain": ("=", "-", ".", False, (A - B).tolist(), None),
}


@pytest.mark.parametrize("name", LOGICS)
def test_assign_in_full_generality(name: str) -> None:
    accum, op, logic, init, expected, text = LOGICS[name]
    a, b, c = wf.data(A, label="a"), wf.data(B, label="b"), node("c")
    code = recorded(lambda: wf.assign(c, accum, op, a, b, init=init, logic=logic))
    if text and logic != ".":
        assert str(code) == text
    assert ran(code, c) == [expected]


def test_assign_with_composition_and_transposition() -> None:
    m = np.arange(6.0).reshape(2, 3)
    a, b, c, t = wf.data(m, input=1, label="a"), wf.data(A, label="b"), node("c"), node("t")

    @wf.cd
    def code() -> None:
        wf.assign(c, "+", "*", a, b, init=True, logic="@")
        wf.assign(t, "=", "id", a, logic="T")

    assert ran(code(), c, t) == [(m @ A).tolist(), m.T.tolist()]
    assert str(t.dims) == "2->3"


def test_assign_with_one_and_three_operands() -> None:
    a, b, c = wf.data(A, label="a"), wf.data(B, label="b"), node("c")

    @wf.cd
    def code() -> None:
        wf.assign(c, "=", "relu", b)
        wf.assign(c, "+", "where", a, b, 1.0)
        wf.assign(c, "+", "fma", a, b, 1.0)

    np.testing.assert_allclose(ran(code(), c)[0], np.maximum(B, 0) + B + A * B + 1)


def test_assign_to_blocks() -> None:
    a, b, c = wf.data(A, label="a"), wf.data(B, label="b"), node("c")
    code = recorded(lambda: wf.assign(c, "=", "*", a, b, logic="i;j=>i^j"))
    assert ran(code, c) == [[*A, *B]]


def test_assign_returns_what_it_assigns_to() -> None:
    c = node("c")

    @wf.cd
    def code() -> None:
        assert wf.assign(c, "=", "id", wf.data(A)) is c
        assert c.accumulate("max", 2.0) is c

    assert len(list(statements(code()))) == 2


@pytest.mark.parametrize(("op", "sign"), [("/", "/"), ("**", "**"), ("div", "/"), ("pow", "**")])
def test_composition_with_division_or_power_is_refused(op: str, sign: str) -> None:
    a, c = wf.data(np.ones((2, 2)), input=1), node("c")
    with pytest.raises(wf.WeftError) as caught:
        recorded(lambda: wf.assign(c, "+", op, a, a, init=True, logic="@"))
    assert caught.value.what == f"logic \"@\" with '{sign}' reads like a matrix inverse or power and computes neither"
    assert caught.value.fix == 'use logic "." for pointwise, or an explicit einsum spec'
    assert str(caught.value).startswith("test_tensor_assignments.py:")


def test_a_plain_overwrite_through_a_map_that_is_not_injective_is_refused() -> None:
    a, c = wf.data(np.ones((2, 3)), label="a"), node("c")
    code = recorded(lambda: wf.assign(c, "=", "id", a, logic="ij=>i"))
    with pytest.raises(wf.ProjectionError) as caught:
        wf.Context("interp").compile(code)
    assert caught.value.what == "`c.a =: …` would write some cells more than once: `j` would overwrite each other"
    assert caught.value.fix.startswith("say how the values combine: `+=`")
    assert str(caught.value).startswith("test_tensor_assignments.py:")


def test_a_scatter_that_does_not_cover_its_target_keeps_the_rest() -> None:
    c = node("c")

    @wf.cd
    def code() -> None:
        c[:] = wf.data(np.full(6, 9.0))
        wf.assign(c, "=", "id", wf.data(A), logic="i=>2*i")

    assert ran(code(), c) == [[1.0, 9.0, 2.0, 9.0, 3.0, 9.0]]


def test_a_reset_clears_what_is_not_written() -> None:
    c = node("c")

    @wf.cd
    def code() -> None:
        c[:] = wf.data(np.full(6, 9.0))
        wf.assign(c, "+", "id", wf.data(A), init=True, logic="i=>2*i")

    assert ran(code(), c) == [[1.0, 0.0, 2.0, 0.0, 3.0, 0.0]]


@pytest.mark.parametrize("accumulates", [True, False])
def test_a_node_starts_at_zero_however_its_update_is_written(accumulates: bool) -> None:
    x = wf.data(np.array([1.0, 2.0]), label="x")

    @wf.cd
    def code(total: wf.Tensor) -> None:
        if accumulates:
            total += x
        else:
            total[:] = total + x

    total, ctx = wf.node("total"), wf.Context("interp")
    step = ctx.compile(code(total))
    step()
    step()
    assert ctx[total].tolist() == [2.0, 4.0]


def test_a_recurrent_node_starts_at_zero_and_persists() -> None:
    x, v = wf.data(A, label="x"), node("v")

    @wf.cd
    def code() -> None:
        v[:] = 0.5 * v + x

    ctx = wf.Context("interp")
    step = ctx.compile(code())
    expected = np.zeros(3)
    for _ in range(3):
        step()
        expected = 0.5 * expected + A
        np.testing.assert_allclose(ctx[v], expected)


def test_a_node_with_init_starts_there() -> None:
    v = wf.node("v", init=3.0, dtype="float64")

    @wf.cd
    def code() -> None:
        v[:] = v * 2.0

    ctx = wf.Context("interp")
    step = ctx.compile(code())
    step()
    step()
    assert ctx[v].tolist() == [12.0]


def test_an_inline_node_is_named_after_what_it_is_computed_from() -> None:
    p = double("p", o=2)
    delta, momentum = node("sgd_delta"), node("sgd_momentum")

    @wf.cd
    def code() -> None:
        delta[:] = p.grad + 0.1 * p
        momentum[:] = 0.9 * momentum + delta
        p[:] = momentum

    assert str(code()) == (
        "sgd_delta.p =: p.grad + (0.1 *. p);\n"
        "sgd_momentum.p =: (0.9 *. sgd_momentum.p) + sgd_delta.p;\n"
        "p =: sgd_momentum.p"
    )
    assert (delta.label, momentum.label) == ("sgd_delta.p", "sgd_momentum.p")


def test_shapes_of_nodes_are_inferred() -> None:
    n = node()
    recorded(lambda: n.__setitem__(slice(None), wf.data(np.ones((2, 3)), batch=1) * wf.data(A)))
    assert str(n.dims) == "2|3"


def test_comments_name_blocks() -> None:
    n, p = node(), wf.data(A, label="p")

    @wf.cd
    def code() -> None:
        with wf.comment("update of", p.label):
            n[:] = p
        with wf.comment("nothing"):
            pass

    code = code()
    assert isinstance(code, Seq)
    assert [one.text for one in code.codes if isinstance(one, Comment)] == ["update of p", "nothing"]
    assert str(code).splitlines()[:2] == ['~~("update of p";', "  n.p =: p);"]


def test_sequences_are_flat_and_nothing_is_nothing() -> None:
    n = node()
    one = recorded(lambda: n.__setitem__(slice(None), wf.data(A)))
    assert wf.seq() == Noop()
    assert wf.seq(one) is one
    assert wf.seq(wf.seq(one, one), Noop(), one) == Seq((one, one, one))
    assert str(Noop()) == ""


def test_a_function_that_records_nothing_is_refused() -> None:
    @wf.cd
    def twice(p: wf.Tensor) -> None:
        p = p * 2

    @wf.cd
    def outer(p: wf.Tensor) -> None:
        p += 1
        twice(p)

    for code in (twice, outer):
        with pytest.raises(wf.WeftError, match="`twice` recorded no assignment") as caught:
            code(wf.param("p", o=2))
        assert caught.value.fix.startswith("assign with `t[:] = …`, `t += …`")


def test_code_called_from_code_is_recorded_there() -> None:
    n, m = node(), node("m")

    @wf.cd
    def inner() -> None:
        m[:] = wf.data(B)

    @wf.cd
    def outer() -> None:
        inner()
        n[:] = wf.data(A)

    assert len(list(statements(outer()))) == 2


def test_configuration_is_ordinary_python() -> None:
    @wf.cd
    def code(n: wf.Tensor, *, times: int) -> None:
        n[:] = wf.data(A)
        for _ in range(times):
            n += n

    n = node()
    assert ran(code(n, times=3), n) == [(8 * A).tolist()]
    assert code.__name__ == "code"


def test_nodes_of_one_label_are_told_apart() -> None:
    first, second = node(), node()

    @wf.cd
    def code() -> None:
        first[:] = 1.0
        second[:] = 2.0

    assert str(code()) == "n =: 1.0;\nn_2 =: 2.0"


def test_show_is_str() -> None:
    code = recorded(lambda: node().__setitem__(slice(None), 1.0))
    assert show(code) == str(code) == "n =: 1.0"


def test_gradients_and_data_can_be_assigned_to() -> None:
    p, x = double("p", o=2), wf.data(np.ones(2), label="x")

    @wf.cd
    def code() -> None:
        p.grad[:] = 3.0
        x[:] = 4.0

    assert ran(code(), p.grad, x) == [[3.0, 3.0], [4.0, 4.0]]


def test_merge_buffers_are_operands() -> None:
    p = double("p", o=2)

    @wf.cd
    def code() -> None:
        p.grad += p.grad.merge

    assert str(code()) == "p.grad =+ p.grad.merge"
    ctx = wf.Context("interp")
    ctx[p.grad] = 1.0
    with pytest.raises(wf.WeftError, match=r"nothing was transferred into `p\.grad\.merge`"):
        ctx.compile(code())()


def test_a_gradient_is_not_replaced() -> None:
    p = double("p", o=2)
    with pytest.raises(wf.WeftError, match=r"write `p\.grad\[:\] = …` to assign to the gradient"):
        p.grad = wf.number(1.0)


def test_python_s_own_assignment_outside_code_is_refused() -> None:
    p = double("p", o=2)
    with pytest.raises(wf.WeftError) as caught:
        p += 1.0
    assert caught.value.what == "`p` is assigned to outside a function under @wf.cd"
    assert caught.value.fix == "to compute something new write `t = t + x`; to record an assignment put it under @wf.cd"
    with pytest.raises(wf.WeftError, match="is assigned to outside"):
        p[:] = 1.0


def test_what_is_computed_cannot_be_assigned_to() -> None:
    total = double("p", o=2) * 2.0
    with pytest.raises(wf.WeftError) as caught:
        recorded(lambda: total.__setitem__(slice(None), 1.0))
    assert caught.value.what == "`mul` is computed from other tensors and cannot be assigned to"
    assert caught.value.fix == "assign to a parameter, a gradient, data, or a wf.node"
    with pytest.raises(wf.WeftError, match="cannot be assigned to"):
        recorded(lambda: wf.given(total).__iadd__(1.0))


def test_only_tensors_are_assigned_to() -> None:
    with pytest.raises(wf.WeftError, match="NoneType cannot be assigned to"):
        wf.cd(lambda: wf.Tensor.accumulate(None, "+", 1.0))()


@pytest.mark.parametrize(
    ("accum", "op", "operands", "message"),
    [
        ("foo", "*", 2, "there is no binary operation 'foo'"),
        ("+", "foo", 2, "there is no binary operation 'foo'"),
        ("+", "*", 1, "there is no unary operation '\\*'"),
        ("+", "*", 3, "there is no ternary operation '\\*'"),
    ],
)
def test_assign_with_operations_that_are_none(accum: str, op: str, operands: int, message: str) -> None:
    n = node()
    with pytest.raises(wf.WeftError, match=message):
        recorded(lambda: wf.assign(n, accum, op, *[wf.data(A)] * operands))


def test_a_reset_needs_something_to_start_from() -> None:
    n = node()
    with pytest.raises(wf.WeftError, match="an assignment with '%' has nothing to start from") as caught:
        recorded(lambda: n.accumulate("%", 1.0, reset=True))
    assert caught.value.fix.endswith("start afresh with one of add, sub, mul, div, pow, relu_gate, max, min, or, and")


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_what_starts_afresh_takes_every_value_in_turn(backend: str) -> None:
    ctx, x = wf.Context(backend), np.array([[1.0, 2.0, 4.0], [-1.0, 0.5, 2.0]])
    less, over, own = node("less"), node("over"), wf.node("own", o=3, dtype="float64")

    @wf.cd
    def code() -> None:
        wf.assign(less, "-", "id", wf.data(x), init=True, logic="ij=>i")
        wf.assign(over, "/", "id", wf.data(x), init=True, logic="ij=>i")
        own[:] = 3.0
        own.accumulate("-", own, reset=True)

    ctx.compile(code())()
    assert ctx[less].tolist() == [-7.0, -1.5]
    assert ctx[over].tolist() == [1 / 8, -1.0]
    assert ctx[own].tolist() == [-3.0] * 3


def test_a_product_and_a_sum_in_one_assignment() -> None:
    w, x, n = wf.data(np.array([[1.0, 2.0, 3.0]]), input=1, label="w"), wf.data(B, label="x"), node()
    code = recorded(lambda: wf.assign(n, "=", "fma", w, x, 0.5, logic="@"))
    assert ran(code, n) == [[4.0 - 10.0 + 18.0 + 0.5]]


def test_a_value_is_the_tensor_itself() -> None:
    p = wf.param("p", o=2, init=1.0)
    assert p.value is p
    assert p.value.grad is p.grad

    @wf.cd
    def code() -> None:
        p.value -= p.grad.value

    assert str(code()) == "p =- p.grad"
    with pytest.raises(wf.WeftError, match=r"write `p\[:\] = …` to assign to the tensor"):
        p.value = p.grad


def test_a_node_with_sizes() -> None:
    table, pixel = wf.node("table", o=(2, 3)), wf.node("pixel", b=2, o={"rgb": 3})

    @wf.cd
    def fill(table: wf.Tensor, pixel: wf.Tensor) -> None:
        table[:] = 1.5
        pixel[:] = 2.0
        pixel += 1.0

    code = fill(table, pixel)
    assert lines(code) == ["{ table; o = [2; 3] } =: 1.5", "{ pixel; b = [2]; o = [rgb = 3] } =: 2.0", "pixel =+ 1.0"]
    assert ran(code, table, pixel) == [[[1.5] * 3] * 2, [[3.0] * 3] * 2]
    with pytest.raises(wf.ShapeError, match="the output axis of `narrow` cannot be both 2 and 3"):
        recorded(lambda: wf.node("narrow", o=2).__setitem__(slice(None), wf.data(A)))


def test_a_spec_with_another_number_of_operands_is_refused() -> None:
    n = node()
    with pytest.raises(wf.ShapeError, match="takes 2 operands and was given 1"):
        recorded(lambda: wf.assign(n, "+", "id", wf.data(A), init=True, logic="i;j=>ij"))


def test_a_node_needs_a_name() -> None:
    with pytest.raises(wf.WeftError, match="a node needs a name, not ''"):
        wf.node("")


def test_code_with_a_shared_expression_is_recorded_in_time() -> None:
    """Every sharing must be looked at once: looking at each path takes longer than anyone can wait."""
    x, n, calls = wf.data(np.ones(2)), wf.node("n", dtype="float64"), 0

    @wf.cd
    def code() -> None:
        y = x
        for _ in range(18):
            y = y + y
        n[:] = y

    def count(*event: object) -> None:
        nonlocal calls
        calls += 1
        if calls > 200_000:
            sys.setprofile(None)
            raise TimeoutError("too many calls")

    sys.setprofile(count)
    try:
        recorded = code()
        wf.Context("interp").compile(recorded)()
    finally:
        sys.setprofile(None)


def test_code_with_a_long_expression_is_recorded() -> None:
    x, n, ctx = wf.data(np.zeros(2)), wf.node("n", dtype="float64"), wf.Context("interp")

    @wf.cd
    def code() -> None:
        y = x
        for _ in range(2000):
            y = y + 1.0
        n[:] = y

    ctx.compile(code())()
    assert ctx[n].tolist() == [2000.0, 2000.0]


@pytest.mark.parametrize(
    "value",
    [
        lambda x: wf.cast(wf.cast(x, "float16"), "float64") % 0.3,
        lambda x: wf.cast(x * x + 1, "float16") * 2,
        lambda x: wf.cast(10 * x, "int8") // 3,
        lambda x: wf.einsum("i => i", wf.cast(x, "float16")),
    ],
    ids=["casts", "a cast of an expression", "whole numbers", "under a spec"],
)
def test_printed_code_says_the_types_that_were_given(value: Callable[[wf.Tensor], wf.Tensor]) -> None:
    x = wf.data(np.random.default_rng(0).normal(size=6), label="x")
    n, narrow, one = wf.node("n"), wf.node("narrow", dtype="float16"), wf.node("one", dtype="float16", scalar=True)

    @wf.cd
    def code() -> None:
        target, factor, number = n, narrow, one
        factor[:] = 3 * x
        number[:] = 0.1
        target[:] = value(x)
        target *= factor
        target *= number

    text, ctx, again = str(code()), wf.Context("interp"), wf.node("again")
    ctx.compile(code())()
    assert str(wf.parse_cd(text, x=x, declare=True)) == text
    ctx.compile(wf.parse_cd(f"{text};\nagain =: {n.label}", x=x, again=again, declare=True))()
    np.testing.assert_array_equal(ctx[again], ctx[n])
    assert again.dtype == n.dtype


def test_a_type_that_a_tensor_does_not_have_is_refused() -> None:
    w = wf.param("w", o=2, dtype="float32")
    with pytest.raises(wf.WeftError, match="`w` is stored in float32, not in float16"):
        wf.parse_cd('w =: 2.0 *. w ~type:"float16"', w=w)


def test_an_expression_used_after_what_it_reads_was_written_is_refused() -> None:
    a, b = wf.param("a", o=2, init=1.0), wf.param("b", o=2, init=2.0)

    @wf.cd
    def swap() -> None:
        old = (a * 1.0).named("old")
        a[:] = b
        b[:] = old

    with pytest.raises(wf.WeftError, match="`old` reads `a`, which was written after `old` was made") as caught:
        swap()
    told = str(caught.value)
    assert "made at test_tensor_assignments.py:" in told
    assert "`a` is written at test_tensor_assignments.py:" in told
    assert caught.value.origin is not None
    assert caught.value.origin.code == "b[:] = old"

    @wf.cd
    def kept() -> None:
        old = wf.node("old")
        old[:] = a
        a[:] = b
        b[:] = old

    ctx = wf.Context("interp")
    ctx.compile(kept())()
    assert (ctx[a].tolist(), ctx[b].tolist()) == ([2.0, 2.0], [1.0, 1.0])


def test_what_was_made_before_the_recording_is_meant_as_it_is_when_used() -> None:
    p, n = wf.param("p", o=1, init=1.0, dtype="float64"), wf.node("n", dtype="float64")
    double = p * 2.0

    @wf.cd
    def code() -> None:
        p.accumulate("+", 1.0)
        n[:] = double

    ctx = wf.Context("interp")
    ctx.compile(code())()
    assert ctx[n].tolist() == [4.0]


def test_a_block_or_code_inside_does_not_hide_a_write() -> None:
    a = wf.param("a", o=2, init=1.0)

    @wf.cd
    def inner() -> None:
        a.accumulate("+", 1.0)

    @wf.cd
    def outer() -> None:
        double = a * 2.0
        with wf.comment("inside"):
            inner()
        a[:] = double

    with pytest.raises(wf.WeftError, match="which was written after"):
        outer()


def test_looking_for_stale_expressions_is_linear_in_the_code() -> None:
    """One expression of many parameters, used after the writes of as many others."""
    params = [wf.param(f"p{number}", o=1, init=1.0) for number in range(400)]
    others = [wf.param(f"q{number}", o=1, init=1.0) for number in range(400)]
    seen = 0

    def count(frame: object, event: str, arg: object) -> None:
        nonlocal seen
        seen += event == "call"

    @wf.cd
    def code() -> None:
        nonlocal seen
        total = functools.reduce(lambda left, right: left + right, params)
        others[0][:] = total
        sys.setprofile(count)
        for other in others[1:]:
            other[:] = total
        sys.setprofile(None)

    code()
    assert seen < 400 * 400


def test_an_expression_is_not_used_again_after_its_use_changed_what_it_reads() -> None:
    p = wf.param("p", o=2, init=1.0)

    @wf.cd
    def there_and_back() -> None:
        half = p * 0.5
        p.accumulate("+", half)
        p.accumulate("-", half)

    with pytest.raises(wf.WeftError, match="reads `p`, which was written after"):
        there_and_back()
