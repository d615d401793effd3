"""The code notation: what is printed reads back, what people write runs, what is wrong is pointed at."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import weft as wf
from assign.samples import MODELS, NA, NB, NX, by_label, matrices, perceptron
from weft.assign import Code, Node, complete, statements
from weft.assign.nodes import first_number
from weft.assign.show import target
from weft.shape import Dim
from weft.shape.close import close


def reread(code: Code, names: dict[str, Any], *, declare: bool = True) -> Code:
    """Print and read; what was read must print the same."""
    text = str(code)
    again = wf.parse_cd(text, names, declare=declare)
    assert str(again) == text
    return again


# What people write runs

LISTING = """\
{ sgd_delta } =: p.grad + (!.weight_decay *. p);
{ sgd_momentum } =: (!.momentum *. sgd_momentum) + sgd_delta;
p =- learning_rate *. sgd_delta
"""

RATES = {"learning_rate": 0.1, "momentum": 0.9, "weight_decay": 0.01}


def run_steps(text: str, steps: int) -> np.ndarray[Any, Any]:
    """Run code on `p` that often, on gradients 1, 2, 3, …"""
    p = wf.param("p", init=[1.0, -2.0, 3.0])
    ctx = wf.Context()
    step = ctx.compile(wf.parse_cd(text, p=p, **RATES))
    for number in range(steps):
        ctx[p.grad] = np.full(3, number + 1.0, "float32")
        step()
    return np.array(ctx[p])


def test_listing_of_gradient_descent() -> None:
    p, momentum = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    for number in range(3):
        delta = number + 1.0 + 0.01 * p
        momentum = 0.9 * momentum + delta
        p = p - 0.1 * delta
    np.testing.assert_allclose(run_steps(LISTING, 3), p, rtol=1e-5)


@pytest.mark.parametrize("nesterov", [False, True])
def test_gradient_descent_with_momentum(nesterov: bool) -> None:
    update = "sgd_delta =+ !.momentum *. sgd_momentum" if nesterov else "sgd_delta =: sgd_momentum"
    text = f"""
        "sgd_delta" =: p.grad + (!.weight_decay *. p);
        "sgd_momentum" =: (!.momentum *. sgd_momentum) + sgd_delta;
        {update};
        p =- learning_rate *. sgd_delta"""
    p, momentum = np.array([1.0, -2.0, 3.0]), np.zeros(3)
    for number in range(3):
        delta = number + 1.0 + 0.01 * p
        momentum = 0.9 * momentum + delta
        p = p - 0.1 * (delta + 0.9 * momentum if nesterov else momentum)
    np.testing.assert_allclose(run_steps(text, 3), p, rtol=1e-5)


@pytest.mark.parametrize("text", ['p =+ learning_rate * p.grad ~logic:"."', "p =+ learning_rate *. p.grad"])
def test_two_ways_to_scale(text: str) -> None:
    np.testing.assert_allclose(run_steps(text, 1), [1.1, -1.9, 3.1], rtol=1e-5)


def test_gradient_descent_without_momentum() -> None:
    text = '"sgd_delta" =: p.grad + (!.weight_decay *. p); p =- learning_rate *. sgd_delta'
    start = np.array([1.0, -2.0, 3.0])
    np.testing.assert_allclose(run_steps(text, 1), start - 0.1 * (1 + 0.01 * start), rtol=1e-5)


def value(text: str, **names: Any) -> np.ndarray[Any, Any]:
    """What the text leaves in `c`."""
    c = wf.node("c")
    ctx = wf.Context()
    bindings = {name: one for name, one in names.items() if isinstance(one, wf.StaticIndex)}
    routine = ctx.compile(wf.parse_cd(text, c=c, **names), bindings=list(bindings.values()))
    routine(**dict.fromkeys(bindings, 1))
    return np.array(ctx[c])


MEANINGS: list[tuple[str, Callable[[], Any]]] = [
    ('c =:+ a * b ~logic:"@"', lambda: NA @ NB),
    ('c =:+ a * b ~logic:"i->j; j->k => i->k"', lambda: (NA.T @ NB.T).T),
    ('c =:@^ a ~logic:"... => 0"', lambda: None),
    ('c =: a ~logic:"T"', lambda: NA.T),
    ("c =: a + b * a", lambda: NA + NB @ NA),
    ("c =: a + b *. a", lambda: NA + NB * NA),
    ("c =: (a * b) + 1", lambda: NA @ NB + 1),
    ("c =: a / b", lambda: NA / NB),
    ("c =: a - b /. a", lambda: NA - NB / NA),
    ("c =: a ** 2", lambda: NA**2),
    ("c =: (a + 2) **. 3 - 1", lambda: (NA + 2) ** 3 - 1),
    ("c =: -a", lambda: -NA),
    ("c =: - a ** 2", lambda: NA**2),
    ("c =: 2 ** 3 ** 2 *. a", lambda: 512 * NA),
    ("c =: a - b - 1", lambda: NA - NB - 1),
    ("c =: relu(a - b)", lambda: np.maximum(NA - NB, 0)),
    ("c =: ?/(a - b)", lambda: np.maximum(NA - NB, 0)),
    ("c =: a -?/ b", lambda: np.where(NA > 0, NB, 0)),
    ("c =: a @^ b", lambda: np.maximum(NA, NB)),
    ("c =: max(a, b ^^ 0)", lambda: np.maximum(NA, np.minimum(NB, 0))),
    ("c =: where(a < b && 0 < b, a, 2.5)", lambda: np.where((NA < NB) & (NB > 0), NA, 2.5)),
    ("c =: fma(a, b, a)", lambda: NA * NB + NA),
    ("c =: !.half *. a", lambda: 0.5 * NA),
    ("c =: a /. !..two", lambda: NA / 2),
    ("c =: a; c =+ b; c =- a", lambda: NA + NB - NA),
    ("c =: a; c =* b", lambda: NA * NB),
    ("c =: a; c =@^ b", lambda: np.maximum(NA, NB)),
    ("c =: a; c =?/ b", lambda: np.where(NA > 0, NB, 0)),
    ("c =: a; c =-?/ b", lambda: np.where(NA > 0, NB, 0)),
    ("c =:?/ a", lambda: NA),
    ("c =:- a", lambda: -NA),
    ("c =:/ a", lambda: 1 / NA),
    ("c =:** a", lambda: np.ones_like(NA)),
    ('c =:- a ~logic:"i->j => j"', lambda: -NA.sum(1)),
    ('c =:/ a ~logic:"i->j => j"', lambda: 1 / NA.prod(1)),
    ("c =: a; c =:- c", lambda: -NA),
    ("c =: max a b", lambda: np.maximum(NA, NB)),
    ("c =: max (a + b) (-b) + relu a", lambda: np.maximum(NA + NB, -NB) + np.maximum(NA, 0)),
    ("c =: where (a < b) a 2.5", lambda: np.where(NA < NB, NA, 2.5)),
    ("c =: fma a b (max a (relu b))", lambda: NA * NB + np.maximum(NA, np.maximum(NB, 0))),
    ("c =: max (a, b)", lambda: np.maximum(NA, NB)),
    ("c =: given a + b", lambda: NA + NB),
    ('c =: fma a b a ~logic:"@"', lambda: NA @ NB + NA),
    ('c =: a; c =- fma(a, b, c) ~logic:"@"', lambda: NA - (NA @ NB + NA)),
    ('c =:+ where a b a ~logic:"i->j; i->j; i->j => j"', lambda: np.where(NA != 0, NB, NA).sum(1)),
    ('c =: relu a ~logic:"i->j => j->i"', lambda: np.maximum(NA, 0).T),
    ("c =: a // b", lambda: NA // NB),
    ("c =: 7.0; c =// 2.0", lambda: 3.0),
    ("c =: x @| i", lambda: NX[1]),
    ("c =: a + x @| 0 *. b", lambda: NA + NX[0] * NB),
    ('c =: x ~logic:"@| i"', lambda: NX[1]),
    ('c =: a +* "i->j; j->k => i->k" b', lambda: (NA.T @ NB.T).T),
    ('c =: a *+ "i->j; j->k => i->k" b', lambda: (NA.T @ NB.T).T),
    ('c =: (a ++ "i->j => j->i") + a', lambda: NA.T + NA),
    ('c =: a + (=:@^ a + b ~logic:"i->j; j->k => i->k")', lambda: NA + (NA.T[:, :, None] + NB.T).max(1).T),
    ('c =: a *. (a * b ~logic:".") + b', lambda: NA * (NA * NB) + NB),
    ("c =: a.value + b", lambda: NA + NB),
    ("c =: inf *. a = a", lambda: np.inf * NA == NA),
    ("c =: 1.5e1 + i", lambda: np.float32(16)),
    ("c =: a *. array", lambda: NA * np.arange(3.0)[:, None]),
]


@pytest.mark.parametrize(("text", "expected"), MEANINGS, ids=[text for text, _ in MEANINGS])
def test_meaning(text: str, expected: Callable[[], Any]) -> None:
    names = by_label(*matrices(), half=0.5, two=np.int32(2), i=wf.index("i", 2), array=np.arange(3.0))
    found, wanted = value(text, **names), expected()
    if wanted is not None:
        np.testing.assert_allclose(found, np.broadcast_to(wanted, found.shape), rtol=1e-5)


def test_longest_name_wins() -> None:
    net, w = wf.data(NA, label="net"), wf.param("w")
    code = wf.parse_cd("net.w =+ net.w.grad; net.w =- net", {"net": net, "net.w": w})
    assert str(code) == "w =+ w.grad;\nw =- net"


def test_declared_nodes_take_the_type_of_what_they_hold() -> None:
    p = wf.param("p", init=[1.0, 2.0], dtype="float64")
    code = wf.parse_cd('"d" =: 0.5 *. p; "m" =: m + d', p=p)
    kinds = {node.label: node.dtype for node in written(code)}
    assert kinds == {"d.p": "float64", "m.p": "float64"}


def test_a_node_declared_with_sizes() -> None:
    code = wf.parse_cd("{ t; o = [3; rgb = 4]; b = 2 } =: 1.5; t =+ 1")
    (t,) = written(code)
    assert str(t.shape) == "2|...->3,rgb=4"
    assert str(code) == "{ t; b = [2]; o = [3; rgb = 4] } =: 1.5;\nt =+ 1"
    reread(code, {})
    reread(code, {"t": wf.node("t", b=2, o=(3, Dim(4, "rgb")))})
    with pytest.raises(wf.ShapeError, match="cannot be both 5 and 4"):
        wf.parse_cd(str(code), t=wf.node("t", o=(3, 5)))


def test_what_is_accumulated_prints_as_the_seeds_write_it() -> None:
    a, b, _ = matrices()
    p = wf.param("p", o=3, i=3)

    @wf.cd
    def code() -> None:
        wf.assign(p, "relu_gate", "+", a, b)
        wf.assign(p, "-", "+", a, b, init=True)
        p.accumulate("/", a, reset=True)
        p.accumulate("**", a, reset=True)
        p.accumulate("-?/", a, reset=True)
        p.accumulate("floordiv", a)

    assert str(code()) == "p =?/ a + b;\np =:- a + b;\np =:/ a;\np =:** a;\np =:?/ a;\np =// a"
    reread(code(), by_label(a, b, p))


def test_declaration_holds_before_it_is_written() -> None:
    p = wf.param("p", init=[1.0, 2.0])
    ctx = wf.Context()
    step = ctx.compile(wf.parse_cd('p =+ m; "m" =: p', p=p))
    step()
    step()
    np.testing.assert_allclose(ctx[p], [2.0, 4.0])


def written(code: Code) -> list[Node]:
    return list(dict.fromkeys(map(target, statements(code))))


def test_expressions_are_not_differentiable() -> None:
    p = wf.param("p", o=3, i=3)
    code = wf.parse_cd("c =: (p * p) + 1", p=p, c=wf.node("c"))
    assert str(code) == 'c.p =: (p * p ~logic:"@") + 1'


# Block comments


def test_comment() -> None:
    p = wf.param("p", init=1.0)
    code = wf.parse_cd('~~("step" "of" p p.grad; p =- p.grad; ~~("empty"); )', p=p)
    assert str(code) == '~~("step of p p.grad";\n  p =- p.grad;\n  ~~("empty"))'
    reread(code, {"p": p})


@given(st.text())
def test_comment_of_any_text(text: str) -> None:
    p = wf.param("p", init=1.0)

    @wf.cd
    def code() -> None:
        with wf.comment(text):
            p[:] = 1.0

    reread(code(), {"p": p})


@given(st.text(min_size=1).filter(lambda label: label.split(".")[-1] not in ("grad", "merge", "value")))
def test_tensor_of_any_name(label: str) -> None:
    p = wf.param(label, init=1.0)

    @wf.cd
    def code() -> None:
        p[:] = p.grad + p

    again = reread(code(), {label: p})
    assert written(again) == [p.node]


# Printed code reads back


def same_gradients(
    code: Code, again: Code, params: Sequence[wf.Tensor], indices: Sequence[wf.StaticIndex] = ()
) -> None:
    """Both codes compute the same gradients, and not just zeros."""
    gradients = [p.grad for p in params]
    first, second = wf.Context(), wf.Context()
    for ctx, one in ((first, code), (second, again)):
        ctx.compile(one, bindings=indices, keep=gradients)(**{index.name: 1 for index in indices})
    for gradient in gradients:
        assert np.abs(np.array(first[gradient])).max() > 0
        np.testing.assert_allclose(second[gradient], first[gradient], rtol=1e-5)


@pytest.mark.parametrize("model", MODELS)
def test_gradients_read_back(model: str) -> None:
    wf.seed(0)  # under some, the perceptron is flat where it starts
    loss, names = MODELS[model]()
    indices = [one for one in names.values() if isinstance(one, wf.StaticIndex)]
    code = wf.grad_update(loss)
    same_gradients(code, reread(code, names), loss.params, indices)


@pytest.mark.parametrize("model", MODELS)
def test_pieces_of_code_read_back(model: str) -> None:
    loss, names = MODELS[model]()
    for code in (loss.forward, loss.backprop, loss.zero_grads):
        reread(code, names)


@pytest.mark.parametrize(
    "optimiser",
    [
        lambda loss: wf.optim.sgd(loss, lr=0.1),
        lambda loss: wf.optim.sgd(loss, lr=0.1, momentum=0.9, weight_decay=1e-4),
        lambda loss: wf.optim.sgd(loss, lr=0.1, momentum=0.9, nesterov=True),
        lambda loss: wf.optim.adam(loss),
        lambda loss: wf.optim.adam(loss, weight_decay=0.1),
    ],
)
def test_optimisers_read_back(optimiser: Callable[[wf.Tensor], Code]) -> None:
    loss, names = perceptron()
    update = optimiser(loss)
    again = reread(update, names)
    for one, other in zip(written(update), written(again), strict=True):
        assert (one.dtype, str(close(one.shape)), first_number(one)) == (
            other.dtype,
            str(close(other.shape)),
            first_number(other),
        )
    whole = wf.seq(wf.grad_update(loss), update)
    reread(complete(whole), names)
    starts = {p: np.linspace(-1, 1, p.dims.count).reshape(p.dims.array_shape).astype("float32") for p in loss.params}
    found = []
    for code in (whole, wf.seq(wf.grad_update(loss), again)):
        ctx = wf.Context("interp")
        for p, start in starts.items():
            ctx[p] = start
        step = ctx.compile(code)
        for _ in range(3):
            step()
        found.append([np.array(ctx[p]) for p in loss.params])
    for one, other, start in zip(*found, starts.values(), strict=True):
        assert np.abs(one - start).max() > 0
        np.testing.assert_array_equal(one, other)


def test_the_state_of_an_optimiser_reads_back_in_its_type() -> None:
    w = wf.param("w", o=2, dtype="float16", init=1.0)
    loss = wf.einsum("i; i => 0", w, w)
    for update in (wf.optim.adam(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9)):
        again = reread(update, {"w": w})
        assert [node.dtype for node in written(again)] == [node.dtype for node in written(update)]
        assert "float32" in [node.dtype for node in written(again)]


def test_what_is_computed_once_is_stated_where_it_is_computed() -> None:
    p, n = wf.param("p", o=2, init=[1.0, 2.0]), wf.node("n")
    h = wf.tanh(p)

    @wf.cd
    def code(p: wf.Tensor, n: wf.Tensor) -> None:
        n[:] = h
        p += 1
        n += h

    text = "tanh =: tanh(p);\nn.p =: tanh;\np =+ 1;\nn.p =+ tanh"
    recorded = code(p, n)
    assert str(recorded) == text
    again = wf.parse_cd(text, {"p": p}, declare=True)
    ctx = wf.Context("interp")
    for one in (recorded, again):
        ctx[p] = np.array([1.0, 2.0], "float32")
        ctx.compile(one, keep=[wf.Tensor(written(one)[-2 if one is recorded else 1])])()
        held = next(node for node in written(one) if node.label == "n.p")
        np.testing.assert_allclose(ctx[wf.Tensor(held)], 2 * np.tanh([1.0, 2.0]), rtol=1e-6)


def test_what_is_used_twice_is_printed_once() -> None:
    x = wf.data(np.ones(3, "float32"), label="x")
    deep = x
    for _ in range(40):
        deep = deep * deep

    @wf.cd
    def code(n: wf.Tensor) -> None:
        n[:] = deep

    assert str(code(wf.node("n"))).count("*.") == 40


def test_a_tensor_with_a_name_is_stated_if_it_is_computed_from_what_the_text_computes() -> None:
    p, n = wf.param("p", o=2, init=[1.0, 2.0]), wf.node("n")
    h = wf.tanh(p)
    t, other = (h + h).named("t"), wf.exp(p).named("e")

    @wf.cd
    def code(p: wf.Tensor, n: wf.Tensor) -> None:
        n[:] = h
        p += 1
        n += t * other

    text = "tanh =: tanh(p);\nn.p =: tanh;\np =+ 1;\nt =: tanh + tanh;\nn.p =+ t *. e"
    assert str(code(p, n)) == text


def test_what_wraps_around_inside_an_expression_is_seen_to_be_stored() -> None:
    a, b, c = (
        wf.data(np.array(v, "int8"), label=k) for k, v in {"a": [100, 50], "b": [100, 3], "c": [100, 100]}.items()
    )

    @wf.cd
    def code(n: wf.Tensor) -> None:
        n[:] = ((a * b) * c) // 2

    n, other = wf.node("n"), wf.node("n.a")
    recorded = code(n)
    assert str(recorded) == "n.a =: (=: (=: a *. b) *. c) // 2"
    ctx = wf.Context("interp")
    ctx.compile(recorded)()
    ctx.compile(wf.parse_cd(str(recorded), {"n.a": other}, a=a, b=b, c=c))()
    np.testing.assert_array_equal(ctx[other], ctx[n])


def test_what_nodes_and_sizes_were_given_is_printed() -> None:
    x = wf.data(np.ones(3, "float16"), label="x")
    s = wf.node("s", scalar=True, init=-0.5)
    n, m = wf.node("n", at_least="float32"), wf.node("m")

    @wf.cd
    def code() -> None:
        s[:] = s * 0.5
        n[:] = x
        n.accumulate("max", 1)
        m[:] = wf.einsum("i => ik", x, k=Dim(2, "rgb"))
        m[:] = m + wf.number(2.0, dtype="float64")

    recorded = code()
    assert str(recorded).splitlines() == [
        "{ s; scalar; init = -0.5 } =: s *. 0.5;",
        'n.x =: x ~at_least:"float32";',
        "n.x =@^ 1;",
        'm.x =:+ x ~logic:"i => ik" ~sizes:"k=rgb=2";',
        'm.x =: m.x + (=: 2.0 ~type:"float64")',
    ]
    again = reread(recorded, {"x": x})
    for one, other in zip(written(recorded), written(again), strict=True):
        assert (one.dtype, str(close(one.shape)), first_number(one)) == (
            other.dtype,
            str(close(other.shape)),
            first_number(other),
        )
    reread(recorded, {"x": x, "s": s, "n.x": n, "m.x": m})


def test_a_labelled_number_reads_back_labelled() -> None:
    @wf.cd
    def code(n: wf.Tensor) -> None:
        n[:] = wf.number(2.0, basis="q")

    recorded = code(wf.node("n"))
    assert str(recorded) == "{ `2`; o = [q = 1] } =: 2.0;\nn =: `2`"
    assert str(close(written(reread(recorded, {}))[-1].shape)) == "q=1"


def test_printed_routine_reads_back() -> None:
    loss, names = perceptron()
    ctx = wf.Context()
    routine = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)))
    text = routine.show("assign")
    assert str(wf.parse_cd(text, names, declare=True)) == text


@wf.cd
def every_kind(a: wf.Tensor, b: wf.Tensor, x: wf.Tensor, c: wf.Tensor, i: Any) -> None:
    c[:] = a @ b
    c += wf.einsum("i->j;j->k=>i->k", a, b)
    c.accumulate("max", wf.einsum("i->j;j->k=>i->k", a, b, accum="max", op="+"), reset=True)
    c[:] = a.T
    c += wf.relu(c).T
    c += (c + a).T
    c[:] = wf.exp(a + b * 2 - 1)
    c[:] = 3
    c += np.float64(0.5)
    c[:] = a + float("-inf")
    c *= wf.where(a < b, a, -1)
    c[:] = i
    c[:] = c.merge
    c += wf.given(a)
    c += wf.number(2.0) + a
    c[:] = a + (a @ b)
    c[:] = a - (-b)
    c[:] = a * x[i]
    c[:] = wf.einsum("i;j;k=>ijk", a, b, a, accum="min", op="+")
    c[:] = a + wf.einsum("i=>0", a, accum="max")
    wf.assign(c, "+", "*", 2.0, a, logic="i->j;j->k=>i->k", init=True)
    wf.assign(c, "+", "relu", a, logic="i->j=>j->i", init=True)
    wf.assign(c, "=", "where", a, b, a)
    wf.assign(c, "min", "**", a, b)
    wf.node("w")[:] = wf.einsum("2*o<+k->i => o->i", a, k=1)
    wf.node("w")[:] = wf.einsum("2*o<+k->i => o->i", a, k=1) + 1
    c.accumulate("arg2", a)


def test_every_kind_of_statement_reads_back() -> None:
    i = wf.index("i", 2)
    a, b, x = matrices()
    reread(every_kind(a, b, x, wf.node("c"), i), by_label(a, b, x, i=i))


def test_slots_of_one_tensor_in_several() -> None:
    @wf.operator("i;i;i=>i")
    def odd(v: Any, v1: Any, v2: Any, v3: Any) -> None:
        v.accumulate("add", v1 * v2 + v1 / v3 + v2, reset=True)

    p = wf.param("p", o=3, init=[1.0, 2.0, 3.0])
    loss = wf.einsum("i=>0", odd(p, p, p))
    code = wf.grad_update(loss)
    assert 'odd =:+ ((p *. p) + (p / p)) + p ~logic:"i;i;i=>i" ~slots:"1,2,1,3,2=>0"' in str(code)
    same_gradients(code, reread(code, {"p": p}), [p])
    reread(loss.backprop, {"p": p})


def test_intermediates_of_operators_read_back() -> None:
    @wf.operator("i->j => i")
    def largest(v: Any, v1: Any) -> None:
        v.accumulate("max", v1, reset=True)

    @largest.gradient
    def _(v: Any, v1: Any, g: Any, g1: Any) -> None:
        won = wf.intermediate("won_rhs1")
        won[:] = wf.equal(v1, v)
        g1 += won * g

    p = wf.param("p", o=3, i=3)
    code = wf.grad_update(wf.einsum("i => 0", largest(p)))
    assert 'won_rhs1 =: p = largest ~logic:"i->j => i" ~slots:"1,0=>1"' in str(code)
    same_gradients(code, reread(code, {"p": p}), [p])
