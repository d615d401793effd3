"""Choices about loops: whatever is chosen, the numbers are the same."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from weft.backends import find_backend
from weft.runtime.engine import Engine
from weft.schedule.options import Options
from weft.tc.call import CompiledCall

TEXT = """
def softmax(float(M,K) A) -> (C) {
    t(m) max=! A(m,k)
    s(m) +=! exp(A(m,k) - t(m))
    C(m,k) = exp(A(m,k) - t(m)) / s(m)
}
def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def convolution(float(N,C,W) I, float(F,C,K) W1) -> (O) { O(n,f,w) +=! I(n,c,w+k) * W1(f,c,k) }
"""
SHAPES = {
    "softmax": ((70, 260),),
    "mm": ((45, 37), (37, 151)),
    "convolution": ((3, 4, 33), (6, 4, 5)),
}
LOOPS = {"softmax": "mk", "mm": "mkn", "convolution": "nfwck"}


def arrays(name: str) -> list[np.ndarray]:
    numbers = np.random.default_rng(0)
    return [numbers.standard_normal(shape).astype("float32") for shape in SHAPES[name]]


@st.composite
def options(draw: st.DrawFn, name: str) -> Options:
    loops = draw(st.permutations(LOOPS[name]))
    tiles = draw(st.dictionaries(st.sampled_from(LOOPS[name]), st.sampled_from([2, 5, 16, 64]), max_size=2))
    return Options(
        order=tuple(loops[: draw(st.integers(0, len(loops)))]),
        tiles=tuple(tiles.items()),
        unroll=draw(st.sampled_from([0, 2, 4])),
        lanes=draw(st.sampled_from([0, 4, 8])),
        threads=draw(st.sampled_from([1, 2, 3])),
        rows=draw(st.sampled_from([0, 1, 4, 12])),
        vectors=draw(st.sampled_from([0, 1, 3])),
    )


@pytest.mark.parametrize("name", SHAPES)
@settings(max_examples=tries(6))
@given(data=st.data())
def test_whatever_is_chosen_the_numbers_are_the_same(name: str, data: st.DataObject) -> None:
    template, given = wf.tc.define(TEXT)[name].template, arrays(name)
    engine = Engine(find_backend("cc"), 1)
    chosen = data.draw(options(name))
    shapes = [one.shape for one in given]
    (expected,) = CompiledCall(template, shapes, engine)(given, [None])
    (found,) = CompiledCall(template, shapes, engine, chosen)(given, [None])
    np.testing.assert_allclose(found, expected, rtol=2e-5, atol=2e-5)


def kernels(name: str, chosen: Options) -> str:
    definition = wf.tc.define(TEXT, backend="cc")[name]
    definition.options(*arrays(name), choose=chosen)
    return definition.show("kernels", *arrays(name))


def test_loops_are_cut_into_tiles() -> None:
    shown = kernels("convolution", Options(tiles=(("w", 8),)))
    assert "for w_tile in range(4):" in shown  # of 29 in 8s
    assert "if 0 <= 8*w_tile + w < 29:" in shown


def test_loops_come_in_the_order_asked_for() -> None:
    shown = kernels("convolution", Options(order=("c", "k", "n", "f", "w")))
    lines = [line.strip() for line in shown.splitlines()]
    wanted = ["for c in range(4):", "for k in range(5) jammed by 4:", "for n in range(3):", "for f in range(6):"]
    assert [line for line in lines if line in wanted] == wanted


def test_what_is_asked_of_loops_is_shown_and_emitted() -> None:
    definition = wf.tc.define(TEXT, backend="cc").softmax
    definition.options(*arrays("softmax"), choose=Options(threads=2, lanes=8))
    shown = definition.show("kernels", *arrays("softmax"))
    assert "on vectors of 8:" in shown
    source = definition.show("source", *arrays("softmax"))
    assert "simdlen(8)" in source
    definition.options(*arrays("softmax"), choose=Options(unroll=4))
    assert "#pragma GCC unroll 4" in definition.show("source", *arrays("softmax"))


def test_options_print_what_they_choose() -> None:
    assert str(Options()) == "as weft likes"
    chosen = Options(order=("m", "k"), tiles=(("m", 8), ("k", 16)), unroll=2, threads=2)
    assert str(chosen) == "order m k, tiles m=8 k=16, unroll 2, threads 2"


def test_tiles_are_as_asked() -> None:
    definition = wf.tc.define(TEXT, backend="cc").mm
    definition.options(*arrays("mm"), choose=Options(rows=4, vectors=3))
    source = definition.show("source", *arrays("mm"))
    assert f"kernel_0_product0_wide = {3 * wf.Machine.here().vector_bytes // 4}," in source
    assert "kernel_0_product0_rows = 4," in source


EVIL = '2\nfor (int q = 0; q < 1; q++) { int system(const char *); system("touch ./injected"); }\n#pragma GCC unroll 2'


@pytest.mark.parametrize(
    ("wrong", "what"),
    [
        ({"unroll": EVIL}, "unroll='2\\nfor (int q = 0; q < 1; q++) { int sy…: it takes a whole number from 0 to 256"),
        ({"vectors": 100_000}, "vectors=100000: it takes a whole number from 0 to 64"),
        ({"rows": -1}, "rows=-1: it takes a whole number from 0 to 64"),
        ({"threads": "2"}, "threads='2': it takes a whole number from 0 to 256"),
        ({"threads": True}, "threads=True: it takes a whole number from 0 to 256"),
        ({"lanes": 4.0}, "lanes=4.0: it takes a whole number from 0 to 64"),
        ({"order": 5}, "order=5: it takes a tuple of names of loops"),
        ({"order": "ij"}, "order='ij': it takes a tuple of names of loops"),
        ({"order": ("i; j",)}, "order='i; j': it takes a tuple of names of loops"),
        ({"tiles": "ij"}, "tiles='ij': it takes a tuple of pairs of a loop's name and a size"),
        ({"tiles": (("i",),)}, "tiles=('i',): it takes a tuple of pairs of a loop's name and a size"),
        ({"tiles": (("i", "8"),)}, "tiles='8': it takes a whole number from 1 to 4611686018427387904"),
    ],
)
def test_options_that_are_none_are_refused_by_name(wrong: dict[str, object], what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        Options(**wrong)  # type: ignore[arg-type]
    assert caught.value.what == f"no options for loops: {what}"
    assert caught.value.origin is not None
    assert "Options(order=" in caught.value.fix


def test_the_largest_options_compile_and_agree() -> None:
    a, b = np.ones((70, 40), "float32"), np.ones((40, 151), "float32")
    mm = wf.tc.define("def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", backend="cc").mm
    mm.options(a, b, choose=Options(unroll=256, lanes=64, threads=256, rows=64, vectors=64))
    np.testing.assert_array_equal(mm(a, b), a @ b)


def test_pieces_have_names_of_their_own() -> None:
    x = np.arange(35.0).reshape(5, 7)
    with wf.config.using(schedule=Options(tiles=(("i", 2),))):
        doubled = wf.tc.define("def f(double(N,M) x) -> (y) { y(i, i_tile) = x(i, i_tile) * 2 }", backend="cc").f
        np.testing.assert_array_equal(doubled(x), x * 2)


def test_what_depends_on_the_order_of_points_is_not_cut() -> None:
    """t = t mod x[0, 0] mod x[0, 1] …: in another order something else is left."""
    values = np.random.default_rng(0).uniform(20, 400, (4, 6))
    left = 1000.5
    for one in values.flat:
        left %= one
    t, x = wf.param("t", o=1, init=1000.5, dtype="float64"), wf.data(values, label="x")

    @wf.cd
    def code() -> None:
        wf.assign(t, "%", "identity", x, logic="kl => 0")

    ctx = wf.Context("cc")
    with wf.config.using(schedule=Options(tiles=(("l", 2),))):
        ctx.compile(code())()
    np.testing.assert_allclose(ctx[t], [left])
