"""Products are told from loops, whatever form the loops have, and staged code computes what it did before."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import weft as wf
from backends.contractions import Contraction, contractions
from backends.interpreted import Fusing
from effort import tries
from schedule.kernels import add, at, floats, inside, loop, placed, plus, read, staged_in, store
from schedule.programs import numbers
from schedule.test_schedule_random import OPTIMISERS, agree
from tensor.models import Model, models
from weft.loops import (
    Buffer,
    For,
    If,
    MalformedLoops,
    Product,
    Program,
    Read,
    Staged,
    Stmt,
    check,
    show,
)
from weft.loops.interp import run
from weft.loops.parse import parse
from weft.loops.staged import description_of, mismatch, parts_of, plain
from weft.loops.walk import retargeted
from weft.ops import Scalar, call
from weft.schedule import Kernel, show_kernels
from weft.schedule.canonical import canonical_kernel
from weft.schedule.kernel_templates import with_templates
from weft.schedule.products.contractions import stage
from weft.schedule.products.tile import best_tile


class Staging(Fusing):
    """The oracle, given kernels with products staged."""

    @property
    def places(self) -> frozenset[type]:
        return frozenset([Product])


# Whatever it looks like, the numbers stay the same


@settings(max_examples=tries(12), suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from(sorted(OPTIMISERS)), st.sampled_from([1, 1, 4]))
def test_models_staged_and_interpreted(sample: tuple[Model, wf.Tensor], optimiser: str, visits: int) -> None:
    with wf.config.using(contraction_points=1):
        agree(sample, optimiser, Staging(), visits)


@settings(max_examples=40, suppress_health_check=list(HealthCheck))
@given(contractions(1 << 10))
def test_contractions_of_any_form_are_staged(sample: Contraction) -> None:
    (kernel,) = placed(sample.kernels, sample.kept, 1)  # what starts it and what follows has joined it
    assert len(staged_in(kernel.body)) == 1, kernel.plain
    ours, meant = sample.memory(), sample.memory()
    run(check(sample.program), meant)
    run(check(Program(kernel.body)), ours)
    sample.agree(ours, meant)


# What is staged


def kernels_of(code: object) -> tuple[Kernel, ...]:
    return wf.Context(Staging()).compile(code, options=wf.CompileOptions(machine=wf.Machine())).kernels


def layer() -> wf.Tensor:
    x = numbers(32, 24, batch=1)
    return wf.relu(wf.param("w", o=16) @ x + wf.param("b", o=16))


def perceptron() -> wf.Tensor:
    hidden = wf.relu(wf.param("w1", o=32) @ numbers(48, 40, batch=1) + wf.param("b1", o=32))
    error = wf.param("w2", o=16) @ hidden - numbers(48, 16, label="y", batch=1)
    return wf.einsum("...|... => 0", error * error, label="loss")


def scores() -> wf.Tensor:
    q, k = numbers(3, 20, 16, label="q", batch=2), numbers(3, 20, 16, label="k", batch=2)
    return wf.einsum("h t | d; h s | d => h t | s", q, k) * 0.25


def convolution() -> wf.Tensor:
    x, w = numbers(2, 4, 20, batch=1), wf.param("w", o=(8, 4, 3))
    return wf.relu(wf.einsum("b | c, 1*o<+k; d, c, k => b | d, o", x, w))


CODES: dict[str, tuple[Callable[[], object], int]] = {
    "a layer": (lambda: layer().forward, 1),
    "a training step": (lambda: wf.seq(wf.grad_update(loss := perceptron()), wf.optim.sgd(loss, lr=0.1)), 5),
    "scores": (lambda: scores().forward, 1),
    "a convolution": (lambda: convolution().forward, 1),
}


@pytest.mark.parametrize("name", CODES)
def test_what_is_staged(name: str, golden: Callable[..., None]) -> None:
    code, wanted = CODES[name]
    wf.seed(0)
    kernels = kernels_of(code())
    assert sum(len(staged_in(kernel.body)) for kernel in kernels) == wanted
    golden("\n\n".join(show(Program(kernel.body)) for kernel in kernels))


def test_only_where_the_backend_places_products() -> None:
    found = wf.Context(Fusing()).compile(layer().forward)
    assert not any(staged_in(kernel.body) for kernel in found.kernels)


# What is not, and why


A, B, C, D = floats(0, "a", 32, 32), floats(1, "b", 32, 32), floats(2, "c", 32, 32), floats(3, "d", 32, 32)
ONE = floats(4, "one", 1)
PLACES = Buffer(5, "places", (32,), "int64")


def times(left: Scalar, right: Scalar) -> Scalar:
    return call("mul", left, right)


def summed(*rest: Stmt, start: tuple[Stmt, ...] = ()) -> list[Kernel]:
    """c = a b, and what comes before and after it in loops of rows."""
    clear = loop("j", 32, store(C, at("i", "j"), 0.0))
    core = loop("k", 32, loop("l", 32, add(C, at("i", "l"), times(read(A, "i", "k"), read(B, "k", "l")))))
    return [Kernel((), (loop("i", 32, one),)) for one in (*start, clear, core, *rest)]


def over(value: Scalar, *places: str, buffer: Buffer = C) -> Stmt:
    return loop("i", 32, loop("j", 32, loop("k", 32, add(buffer, at(*places), value))))


PRODUCT = times(read(A, "i", "k"), read(B, "k", "j"))
PLAIN: dict[str, tuple[Stmt, str]] = {
    "a sum": (over(read(A, "i", "k"), "i", "j"), ""),
    "one number": (over(times(read(A, "i", "k"), read(B, "i", "k")), 0, buffer=ONE), ""),  # type: ignore[arg-type]
    "a diagonal": (over(PRODUCT, "i", "i"), "its cells lie on a diagonal"),
    "scattered": (over(PRODUCT, "i+j", "k"), "its cells are not indexed by one loop each"),
    "small": (loop("i", 2, loop("j", 2, loop("k", 2, add(C, at("i", "j"), PRODUCT)))), ""),
    "a loop without a factor": (
        loop("i", 32, loop("j", 32, loop("k", 32, add(C, at("i", "j"), times(read(A, "i", "k"), read(B, 0, "k")))))),
        "no factor depends on `j`",
    ),
    "long to compute": (
        over(times(call("exp", read(A, "i", "k")), read(B, "k", "j")), "i", "j"),
        "a factor takes long to compute",
    ),
    "gathered": (
        over(times(Read(A, (read(PLACES, "i"), *at("k"))), read(B, "k", "j")), "i", "j"),
        "a factor is gathered",
    ),
    "its own factor": (over(times(read(C, "i", "k"), read(B, "k", "j")), "i", "j"), "`c` is a factor, too"),
    "under tests": (
        loop("i", 32, loop("j", 32, loop("k", 32, If((inside("i+k", 32),), (add(C, at("i", "j"), PRODUCT),))))),
        "it runs under tests",
    ),
}


@pytest.mark.parametrize("name", PLAIN)
def test_what_stays_plain(name: str) -> None:
    stmt, why = PLAIN[name]
    (kernel,) = stage([Kernel((), (stmt,))], 1 << 10)
    assert kernel.body == (stmt,)
    assert kernel.plain.partition(": ")[2] == why
    assert (f": {why}\n" in show_kernels([kernel])) == bool(kernel.plain)


def test_kernels_that_are_alike_say_why_by_their_own_names() -> None:
    nest, _ = PLAIN["its own factor"]
    other = retargeted((nest,), lambda buffer, at: (D if buffer == C else buffer, at))
    kernels = with_templates([Kernel((), (nest,)), Kernel((), other)])
    assert kernels[1].template is kernels[0].template
    assert [kernel.plain.partition(": ")[2] for kernel in stage(kernels, 1 << 10)] == [
        "`c` is a factor, too",
        "`d` is a factor, too",
    ]


def test_what_is_handed_from_row_to_row_stays_in_one_loop() -> None:
    """The sum of one row goes into the next: rows cannot be taken together, so each is a product of its own."""
    carried = loop("j", 32, store(A, at("i", "j"), plus(read(A, "i", "j"), read(C, "i-1", "j"))))
    code = loop("i", 32, loop("j", 32, store(C, at("i", "j"), 0.0)), If((inside("i-1", 32),), (carried,)))
    core = loop("k", 32, loop("l", 32, add(C, at("i", "l"), times(read(A, "i", "k"), read(B, "k", "l")))))
    stmt = loop("i", 32, *code.body, core)
    (kernel,) = stage([Kernel((), (stmt,))], 1 << 10)
    (staged,) = staged_in(kernel.body)
    assert (staged.what.left, staged.what.right, staged.what.sums) in [((), ("l",), ("k",)), (("l",), (), ("k",))]


def test_other_work_in_loops_like_its_own_has_kernels_of_its_own() -> None:
    before = loop("p", 32, store(A, at("i", "p"), times(read(D, "i", "p"), read(D, "i", "p"))))
    after = loop("q", 32, loop("s", 2, store(D, at("i", "q"), read(C, "i", "s"))))
    kernels = placed(summed(after, start=(before,)), [C, D])
    assert [[type(stmt) for stmt in kernel.body] for kernel in kernels] == [[For], [Staged], [For]]
    assert kernels[2].why == "only pointwise work on its result joins a contraction"


APART = """\
product of left i; right l; sums k:
    for i in range(32):
        for l in range(32):
            c_total: float32 = c[i, l]
            for k in range(32):
                c_total = c_total + (a[i, k] * b[k, l])
            c[i, l] = c_total
product of left i; sums k:
    for i in range(32):
        v_total: float32 = 0.0
        for k in range(32):
            v_total = v_total + (a[i, k] * d[0, k])
        v[i] = v_total"""

V = floats(6, "v", 32)


@pytest.mark.parametrize("turned", [False, True])
def test_a_sum_beside_another_has_a_kernel_of_its_own(turned: bool) -> None:
    """A product and another sum over the same operand: two heads on one layer."""
    core = loop(
        "i", 32, loop("k", 32, loop("l", 32, add(C, at("i", "l"), times(read(A, "i", "k"), read(B, "k", "l")))))
    )
    beside = loop("i", 32, loop("k", 32, add(V, at("i"), times(read(A, "i", "k"), read(D, 0, "k")))))
    nests = [loop("i", 32, store(V, at("i"), 0.0)), *((beside, core) if turned else (core, beside))]
    kernels = placed([Kernel((), (one,)) for one in nests], [C, V])
    assert len(kernels) == 2
    found = [show(check(Program(one.body))) for one in kernels]
    assert "\n".join(reversed(found) if turned else found) == APART


def test_what_depends_on_a_sum_in_its_own_loops_keeps_it_from_being_staged() -> None:
    """v[k] is read by the turn of k that wrote it, before the sum of c[i, 0] goes on: the sums cannot run at once."""
    stmt = loop(
        "i",
        32,
        loop(
            "k",
            32,
            store(V, at("k"), read(C, "i", 0)),
            loop("l", 32, add(C, at("i", "l"), times(read(A, "i", "k"), read(B, "k", "l")))),
        ),
    )
    (kernel,) = stage([Kernel((), (stmt,))], 1 << 10)
    assert kernel.body == (stmt,)


def two_heads(ctx: wf.Context) -> None:
    h, policy, value = (numbers(*shape, label=name) for name, shape in HEADS.items())
    scores, worth = wf.einsum("bi; io => bo", h, policy), wf.einsum("bi; i => b", h, value)
    ctx.compile(wf.seq(scores.forward, worth.forward))()
    np.testing.assert_allclose(ctx[scores], ctx[h] @ ctx[policy], rtol=1e-4)
    np.testing.assert_allclose(ctx[worth], ctx[h] @ ctx[value], rtol=1e-4)


def update_in_place(ctx: wf.Context) -> None:
    A, C = (wf.param(name, o=shape, dtype="float64", init=0.0) for name, shape in (("A", [33, 64]), ("C", [33, 33])))
    w, v, t = wf.data(np.linspace(-1, 1, 64), label="w"), wf.node("v"), wf.node("t")

    @wf.cd
    def step() -> None:
        v[:] = wf.einsum("ij; j => i", A, w)
        A.accumulate("+", wf.einsum("ij; jk => ik", C, A))
        t[:] = wf.einsum("ij; j => i", C, v)

    rng = np.random.default_rng(0)
    a, c = ctx[A], ctx[C] = rng.uniform(-1, 1, (33, 64)), rng.uniform(-1, 1, (33, 33))
    ctx.compile(step())()
    np.testing.assert_allclose(ctx[A], a + c @ a)
    np.testing.assert_allclose(ctx[t], c @ (a @ np.linspace(-1, 1, 64)))


HEADS = {"h": (32, 64), "policy": (64, 10), "value": (64,)}


@pytest.mark.parametrize("program", [two_heads, update_in_place])
@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_products_that_share_an_operand_with_another_sum(program: Callable[[wf.Context], None], backend: str) -> None:
    program(wf.Context(backend))


def test_what_nobody_reads_is_not_stored() -> None:
    rest = loop("q", 32, store(D, at("i", "q"), call("relu", read(C, "i", "q"))))
    (kernel,) = placed(summed(rest), [D])
    assert C not in {one.buffer for one in parts_of(staged_in(kernel.body)[0]).rest if hasattr(one, "buffer")}
    (kernel,) = placed(summed(rest), [C, D])
    assert C in {one.buffer for one in parts_of(staged_in(kernel.body)[0]).rest if hasattr(one, "buffer")}


# The statement itself


def staged_one() -> Staged:
    (kernel,) = placed(summed(), [C])
    return staged_in(kernel.body)[0]


def test_a_staged_statement_means_its_body() -> None:
    one = staged_one()
    assert plain([loop("b", 3, one)]) == (loop("b", 3, *one.body),)
    assert mismatch(one.what, one.body) == ""


@pytest.mark.parametrize(
    ("what", "why"),
    [
        (Product(("l",), ("i",), ("k",), "c_total"), "its loops are not l, i"),
        (Product(("i",), ("l",), ("k",), "other"), "it does not begin with other"),
        (Product(("i",), ("l",), ("z",), "c_total"), "it does not sum over z"),
    ],
)
def test_a_description_that_does_not_fit_is_refused(what: Product, why: str) -> None:
    one = staged_one()
    assert mismatch(what, one.body) == why
    with pytest.raises(MalformedLoops, match=why):
        check(Program((Staged(what, one.body),)))


def test_canonical_names_reach_the_description() -> None:
    kernel, _, _ = canonical_kernel(Kernel((), (staged_one(),)))
    (one,) = staged_in(kernel.body)
    assert one.what == Product(("i0",), ("i1",), ("i2",), "n0")
    assert description_of(one.what, one.body) == one.what
    assert check(Program(kernel.body))


def test_memory_is_walked_forwards() -> None:
    """A loop along which everything lies backwards is turned; one along which only something does is not."""
    a, b, c = floats(0, "a", 9, 8), floats(1, "b", 9, 8), floats(2, "c", 8, 8)
    text = """\
for i in range(8):
    for j in range(8):
        for k in range(9):
            c[i, -j + 7] += a[-k + 8, i] * b[-k + 8, j]"""
    (kernel,) = stage([Kernel((), parse(text, (a, b, c)).body)], 1)
    turned = "c_total = c_total + (a[k, i] * b[k, j])"
    assert turned in show(Program(kernel.body))
    assert "c[i, -j + 7] = c_total" in show(Program(kernel.body))


# Other semirings

MATRIX = """
a: float32[32, 24]
b: float32[24, 40]
c: float32[32, 40]
for i in range(32):
    for j in range(40):
        for k in range(24):
            c[i, j] max= a[i, k] - b[k, j]
"""
VECTOR = """
a: float32[32, 64]
b: float32[64]
c: float32[32]
for i in range(32):
    for k in range(64):
        c[i] max= a[i, k] + b[k]
"""
STAGED = """
product of left i; right j; sums k:
    for i in range(32):
        for j in range(40):
            c_total: float32 = c[i, j]
            for k in range(24):
                c_total = max(c_total, (a[i, k] - b[k, j]))
            c[i, j] = c_total
"""


def test_other_semirings_are_staged_where_a_tile_fits() -> None:
    """A product of matrices is; one of a matrix and a vector is not, whose vectors would lie along the sums."""
    kernels = [Kernel((), check(parse(one)).body) for one in (MATRIX, VECTOR)]
    product, plain = stage(kernels, 1 << 10, lambda one: best_tile(one) is not None)
    assert show(check(Program(product.body))) == STAGED.strip()
    assert plain.body == kernels[1].body
    assert plain.plain == "left i; sums k: no tile fits it"
