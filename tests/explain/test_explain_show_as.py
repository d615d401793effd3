"""`wf.show_as`: one program as a comprehension, as einsums and as code, and what cannot be said."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from generators import draw
from generators.notations import RUN, check

TC = wf.tc.define(
    """def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
    def layer(float(B,K) X, float(N,K) W) -> (Y) { Y(b,n) +=! X(b,k) * W(n,k)  Y(b,n) = fmax(Y(b,n), 0) }
    def conv(float(N) I, float(K) W) -> (O) { O(i) +=! I(2 * i + k) * W(k) }
    def lookup(float(V,D) L, int32(B) I) -> (O) { O(b,d) = L(I(b),d) }
    def ramp(float(N) x) -> (y) { y(i) = x(i) * i }
    def half(float(N) x) -> (y) { y(i) = float(int32(x(i))) }
    def calls(float(M,K) A, float(K,N) B) -> (D) { D = mm(A, B) }""",
    backend="interp",
)


def leaf(name: str, *shape: int, batch: int = 0) -> wf.Tensor:
    return wf.data(np.arange(np.prod(shape), dtype="float32").reshape(shape), batch=batch, label=name)


def small() -> wf.Tensor:
    return wf.einsum("...|i;ki=>...|k", leaf("x", 3, 4, batch=1), leaf("w", 2, 4), label="y")


def test_a_tensor() -> None:
    y = wf.tanh(small()).named("z")
    assert wf.show_as(y, "tc") == (
        "def forward(float(3, 4) x, float(2, 4) w) -> (z) {\n"
        "    y(j, k) +=! x(j, i) * w(k, i) where j in 0:3, k in 0:2, i in 0:4\n"
        "    z(i, j) = tanh(y(i, j)) where i in 0:3, j in 0:2\n"
        "}"
    )
    assert wf.show_as(y, "einsum") == (
        'y = wf.einsum("...|i;ki=>...|k", x, w, label="y")\nz = wf.einsum("i|j=>i|j", y, op="tanh", label="z")'
    )
    assert wf.show_as(y, "cd") == 'y =:+ x * w ~logic:"...|i;ki=>...|k";\nz =: tanh(y)'


def test_a_lookup_by_brackets_is_an_einsum() -> None:
    table, ids = wf.data(np.ones((3, 2)), label="table"), wf.data(np.array([1, 2]), batch=1, label="ids")
    text = 'rows = wf.einsum("v, ...; b0| @v => b0|...", table, ids, label="rows")'
    assert wf.show_as(table[ids].named("rows"), "einsum") == text


def test_several_tensors() -> None:
    a = leaf("a", 3)
    shown = wf.show_as([(a * a).named("square"), (-a).named("minus")], "tc")
    assert shown.splitlines()[0] == "def forward(float(3) a) -> (square, minus) {"


def test_a_comprehension_for_any_sizes() -> None:
    assert wf.show_as(TC.mm, "tc") == str(TC.mm)
    assert wf.show_as(TC.mm, "einsum") == 'C = wf.einsum("ik;kj=>ij", A, B, label="C")'
    assert wf.show_as(TC.mm, "cd") == 'C =:+ A * B ~logic:"ik;kj=>ij" ~type:"float32"'
    assert wf.show_as(TC.conv, "einsum") == 'O = wf.einsum("2*i<+j;j=>i", I, W, label="O")'
    assert wf.show_as(TC.calls, "einsum") == 'mm1_C = wf.einsum("ik;kj=>ij", A, B, label="mm1_C")'
    assert "def mm(" in wf.show_as(TC.calls, "tc")


def test_a_comprehension_for_arrays() -> None:
    signal, window = np.ones(9, "float32"), np.ones(3, "float32")
    assert wf.show_as(TC.conv, "tc", signal, window) == (
        "def conv(float(9) I, float(3) W) -> (O) {\n    O(i) +=! I(2 * i + k) * W(k) where i in 0:4, k in 0:3\n}"
    )
    with pytest.raises(wf.WeftError, match="no spec has just its subscripts"):
        wf.show_as(TC.conv, "einsum", np.ones(10, "float32"), window)  # windows do not fill the axis


def test_a_comprehension_as_code_computes_the_same() -> None:
    x, w = np.random.default_rng(0).standard_normal((2, 3, 4)).astype("float32")
    text = wf.show_as(TC.layer, "cd")
    assert text.splitlines()[0] == 'Y =:+ X * W ~logic:"ik;jk=>ij" ~type:"float32";'
    found = RUN["cd"](text, {"X": wf.data(x, label="X"), "W": wf.data(w, label="W")}, {}, ["Y_2"])
    np.testing.assert_allclose(found["Y_2"], np.maximum(x @ w.T, 0), 1e-5)


def test_a_plan() -> None:
    plan = wf.plan("2*o=+k; k => o", 8, 3)
    assert wf.show_as(plan, "tc") == (
        "def plan(float(8) A, float(3) B) -> (R) {\n"
        "    R(o) +=! 0 <= 2 * o + k - 1 && 2 * o + k - 1 < 8 ? A(2 * o + k - 1) * B(k) : 0 where o in 0:4, k in 0:3\n"
        "}"
    )
    assert wf.show_as(plan, "einsum") == 'R = wf.einsum("2*o=+k; k => o", A, B, label="R")'
    assert wf.show_as(wf.plan("o<+k => ok", 9, k=3), "cd") == 'R =:+ A ~logic:"o<+k => ok" ~sizes:"k=3"'


@pytest.mark.parametrize(
    ("dtype", "accum", "neutral"),
    [
        ("float32", "max", "-(1.0 / 0.0)"),
        ("float16", "min", "1.0 / 0.0"),
        ("int16", "max", "-32768"),
        ("int64", "max", "-9223372036854775807 - 1"),
        ("uint8", "min", "255"),
        ("float32", "*", "1"),
    ],
)
def test_padding_counts_for_nothing_under_every_accumulation(dtype: str, accum: str, neutral: str) -> None:
    values = np.array([5, 3, 1, 2, 9]).astype(dtype)
    y = wf.einsum("i=+k=>i", wf.data(values, label="x"), accum=accum, label="y", k=3)
    text = wf.show_as(y, "tc")
    assert f"? x(i + k - 1) : {neutral}" in text
    found = wf.tc.define(text, backend="interp").forward(values)
    assert found.dtype == y.dtype
    np.testing.assert_array_equal(found, wf.Context("interp")[y])
    assert wf.show_as(wf.tc.define(text, backend="interp").forward, "tc", values) == text


def test_code_alone_is_enough() -> None:
    """Numbers of sizes are those that they are; a static index is given; what a text cannot hold is refused."""
    x, i = leaf("x", 4), wf.index("i", 4)
    assert wf.show_as(wf.mean(x).named("y"), "cd").splitlines()[-1] == "y =: einsum / 4.0"
    assert wf.show_as((x[i] * wf.number(i)).named("y"), "cd").endswith("y =: slice *. number")
    with pytest.raises(wf.WeftError, match=r"cannot be said as code: .*`range` stands for numbers") as told:
        wf.show_as(wf.sort(x), "cd")
    assert told.value.fix == "no notation has words for all of this program"


def test_a_size_that_only_the_program_around_it_says() -> None:
    """What is written at a position takes the size of what it meets: a text by itself must say it, or is refused."""
    placed = wf.einsum("i=>1", leaf("a", 3), label="placed")
    assert str((placed + leaf("b", 4)).dims) == "4"
    shown = wf.show_as(placed, "tc")
    assert shown.splitlines()[1:3] == [
        "    placed(i0) = 0.0 where i0 in 0:4",
        "    placed(1) += a(i) where i in 0:3",
    ]
    a = np.arange(3, dtype="float32")
    np.testing.assert_array_equal(wf.tc.define(shown, backend="interp").forward(a), [0, 3, 0, 0])
    for notation, said in (("einsum", "as einsums"), ("cd", "as code")):
        with pytest.raises(wf.WeftError) as error:
            wf.show_as(placed, notation)
        assert error.value.what == (
            f'`placed =:+ a ~logic:"i=>1"` cannot be said {said}: '
            "where that is all that is read, nothing says that `placed` is 4"
        )
        assert error.value.fix == 'say it as "tc"'


def test_a_size_that_only_the_program_around_a_gradient_says() -> None:
    """What code updates is read as something that has a gradient."""
    b = wf.param("b", init=np.arange(4.0), dtype="float64")
    first = wf.einsum("i=>i0", b, label="first")
    wf.einsum("ij;j=>i", first, b)
    loss = wf.einsum("...|...=>0", b * first, label="loss")
    with pytest.raises(wf.WeftError, match=r"cannot be said as code: .* nothing says that `first` is 4,4"):
        wf.show_as(wf.grad_update(loss), "cd")


def test_a_concatenation_is_written_part_by_part() -> None:
    joined = wf.einsum("i;j=>i^j", leaf("a", 3), leaf("b", 4), label="joined")
    assert wf.show_as(joined, "tc").splitlines()[1:4] == [
        "    joined(i0) = 0.0 where i0 in 0:7",
        "    joined(i) += a(i) where i in 0:3",
        "    joined(j) += b(j - 3) where j in 3:7",
    ]


def test_code_that_updates() -> None:
    p, g = leaf("p", 3), leaf("g", 3)

    @wf.cd
    def step() -> None:
        p[:] -= 0.1 * g

    code = step()
    assert wf.show_as(code, "tc") == (
        "def code(float(3) g, float(3) p) -> (p) {\n    p(i) += -(0.1 * g(i)) where i in 0:3\n}"
    )
    assert wf.show_as(code, "einsum").splitlines()[-1] == 'p_2 = wf.einsum("i;i=>i", p, p_by, op="-", label="p_2")'
    assert wf.show_as(code, "cd") == str(code)


def test_gradients() -> None:
    w = wf.param("w", o=3)
    loss = wf.einsum("i=>0", w * w, label="loss")
    lines = wf.show_as(wf.grad_update(loss), "tc").splitlines()
    assert lines[0] == "def code(float(3) w) -> (w_grad, loss) {"
    assert lines[-3:-1] == ["    w_grad(i) += mul_grad(i) * w(i) where i in 0:3"] * 2


@pytest.mark.parametrize(
    ("what", "notation", "said", "fix"),
    [
        (
            TC.lookup,
            "einsum",
            "`O(b, d) = L(I(b), d)` cannot be said as einsums: it has a subscript that is computed",
            '"tc"',
        ),
        (TC.lookup, "cd", "`O(b, d) = L(I(b), d)` cannot be said as code: it has a subscript that is computed", '"tc"'),
        (
            TC.ramp,
            "einsum",
            "`y(i) = x(i) * i` cannot be said as einsums: it computes with the value of an index",
            '"tc"',
        ),
        (
            TC.half,
            "cd",
            "`y(i) = float(int32(x(i)))` cannot be said as code: it converts to float32 inside an expression",
            '"tc"',
        ),
        (
            wf.einsum("o=+k=>o", wf.data(np.ones(8, "uint64"), label="x"), accum="min", k=3, label="m"),
            "tc",
            '`m =:^^ x ~logic:"o=+k=>o" ~sizes:"k=3"` cannot be said as a comprehension: '
            "18446744073709551615 is too large to be written",
            '"einsum" or "cd"',
        ),
        (
            wf.einsum("i=>i", wf.data(np.ones(4, "float32"), label="x"), accum="var", label="v"),
            "tc",
            '`v =:{var} x ~logic:"i=>i"` cannot be said as a comprehension: it accumulates with `var`',
            '"einsum" or "cd"',
        ),
        (
            wf.scan(lambda h, x: h + x, wf.data(np.ones((3, 2), "float32"), batch=1), init=0.0)[0],
            "einsum",
            "`step_2 =: step` cannot be said as einsums: `step` is computed one iteration after another, in a loop",
            '"cd"',
        ),
    ],
)
def test_what_cannot_be_said_names_the_statement_and_who_can(what: Any, notation: str, said: str, fix: str) -> None:
    with pytest.raises(wf.WeftError) as raised:
        wf.show_as(what, notation)
    assert raised.value.what == said
    assert raised.value.fix == f"say it as {fix}"


def test_random_draws_are_no_comprehension() -> None:
    wf.seed(0)  # a key that can be written, whatever ran before
    with pytest.raises(wf.WeftError, match="cannot be said as a comprehension: `threefry4x32` is no"):
        wf.show_as((wf.random_uniform("noise", step=0) * leaf("x", 3)).named("noisy"), "tc")


@pytest.mark.parametrize(
    ("what", "notation", "said"),
    [
        (small(), "latex", "there is no notation 'latex'"),
        (leaf("x", 3), "tc", "`x` is given, not computed: there is nothing to print"),
        (3.0, "tc", "3.0 is no program"),
        (wf.seq(), "cd", "this code does nothing: there is nothing to print"),
    ],
)
def test_wrong_use(what: Any, notation: str, said: str) -> None:
    with pytest.raises(wf.WeftError) as raised:
        wf.show_as(what, notation)
    assert raised.value.what == said


@pytest.mark.parametrize("number", range(25))
def test_every_notation_computes_the_same_and_is_said_again_alike(number: int) -> None:
    check(draw(5, number))


def test_what_reads_other_cells_of_what_it_writes_reads_a_copy() -> None:
    square = leaf("s", 3, 3)
    text = wf.show_as(wf.parse_cd('s =+ s ~logic:"ij=>ji"', s=square), "tc")
    assert text.splitlines()[1:3] == [
        "    s_before(i0, i1) = s(i0, i1) where i0 in 0:3, i1 in 0:3",
        "    s(j, i) += s_before(i, j) where j in 0:3, i in 0:3",
    ]
    array = np.arange(9, dtype="float32").reshape(3, 3)
    np.testing.assert_array_equal(RUN["tc"](text, {}, {"s": array}, ["s"])["s"], array + array.T)


def test_a_truth_value_is_a_number_of_its_type() -> None:
    chosen = wf.tc.define("def f(float(N) A, float(N) B) -> (C) { C(i) = true ? A(i) : B(i) }").f
    a, b = np.float32([1, 2]), np.float32([3, 4])
    text = wf.show_as(chosen, "einsum", a, b)
    assert text == 'C = wf.einsum("0;i;i=>i", wf.number(True, dtype="bool"), A, B, op="where", label="C")'
    made: dict[str, Any] = {"wf": wf, "A": wf.data(a, label="A"), "B": wf.data(b, label="B")}
    exec(text, made)
    np.testing.assert_array_equal(wf.Context("interp")[made["C"]], a)


def test_a_result_without_cells_is_defined_all_the_same() -> None:
    short, one = np.zeros(1), wf.tc.define("def f(double(N) A) -> (B) { B(i) = A(i + 1) * 2 }", backend="interp").f
    text = wf.show_as(one, "tc", short)
    assert text.splitlines()[1] == "    B(i0) = double(0.0) where i0 in 0:0"
    assert wf.tc.define(text, backend="interp").f(short).shape == (0,)
