"""Left sides that say by data, or by arithmetic, which cell is written: `H(I(i)) +=! X(i)`."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import weft as wf
from comprehension.running import assert_slopes, backends
from tensor.differences import Differences, check_second_order, double, total
from weft.comprehension import ComprehensionError, check, parse, show

TEXT = """
def added(int32(N) I, {t}(N) X, {t}(M) W) -> ({t}(M) H) {{ H(I(i)) +=! X(i) }}
def largest(int32(N) I, {t}(N,D) X) -> ({t}(5,D) H) {{ H(I(i), d) max=! X(i,d) }}
def smallest(int32(N) I, {t}(N,D) X) -> ({t}(5,D) H) {{ H(I(i), d) min=! X(i,d) }}
def multiplied(int32(N) I, {t}(N,D) X) -> ({t}(D,5) H) {{ H(d, I(i)) *=! X(i,d) }}
def gone_on(int32(N) I, {t}(N) X, {t}(M) W) -> (H) {{
    H(m) = W(m)
    H(I(i)) += X(i) * W(I(i))
    H(I(i)) max= X(i) }}
def given(int32(N) I, {t}(N) X) -> (H) {{ H(I(i)) += X(i) }}
def two(int32(N) I, int32(N) J, {t}(N) X) -> ({t}(5,4) H) {{ H(I(i), J(i)) +=! X(i) }}
def rows(int32(N) I, {t}(N) X, {t}(M) W) -> ({t}(2,M) H) {{ H(0, I(i)) +=! X(i) H(1, I(i)) max=! X(i) * W(I(i)) }}
def halves({t}(N) X) -> ({t}(N) H) {{ H(i / 2) +=! X(i) }}
def chosen(int32(N) I, {t}(N) X) -> ({t}(5) H) {{ H(I(i) % 5) +=! I(i) >= 0 ? X(i) : 0 }}
"""
N, M, D = 7, 6, 3
RNG = np.random.default_rng(0)
AT, TO = RNG.integers(0, 5, N).astype("int32"), RNG.integers(0, 4, N).astype("int32")


def scattered(function: np.ufunc, start: np.ndarray, at: Any, values: np.ndarray) -> np.ndarray:
    found = start.copy()
    function.at(found, at, values)
    return found


def values(dtype: str, *shape: int) -> np.ndarray:
    return RNG.integers(1, 4, shape).astype(dtype) if dtype.startswith("u") else RNG.normal(size=shape).astype(dtype)


def extreme(dtype: str, name: str) -> Any:
    if np.dtype(dtype).kind == "f":
        return {"max": -np.inf, "min": np.inf}[name]
    return getattr(np.iinfo(dtype), {"max": "min", "min": "max"}[name])


EVERY = """
def every(int32(N) I, int32(N) J, {t}(N) X, {t}(N,D) Y, {t}(M) W)
    -> ({t}(M) added, {t}(5,D) largest, {t}(5,D) smallest, {t}(D,5) product, on, {t}(5,4) two, {t}(N) halves,
        {t}(2,M) rows) {{
    added(I(i)) +=! X(i)
    largest(I(i), d) max=! Y(i,d)
    smallest(I(i), d) min=! Y(i,d)
    product(d, I(i)) *=! Y(i,d)
    on(m) = W(m)
    on(I(i)) += X(i) * W(I(i))
    on(I(i)) max= X(i)
    two(I(i), J(i)) +=! X(i)
    halves(i / 2) +=! X(i)
    rows(1, m) = W(m)
    rows(0, I(i)) +=! X(i) }}
"""


@backends
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "uint8", "uint32"])
def test_values_meet_in_the_cells_that_subscripts_name(dtype: str, backend: str) -> None:
    spelled = {"float32": "float", "float64": "double", "float16": "half"}.get(dtype, dtype)
    x, xs, w = values(dtype, N), values(dtype, N, D), values(dtype, M)
    found = wf.tc.define(EVERY.format(t=spelled), backend=backend).every(AT, TO, x, xs, w)
    wanted = [
        scattered(np.add, np.zeros(M, dtype), AT, x),
        scattered(np.maximum, np.full((5, D), extreme(dtype, "max"), dtype), AT, xs),
        scattered(np.minimum, np.full((5, D), extreme(dtype, "min"), dtype), AT, xs),
        scattered(np.multiply, np.ones((5, D), dtype), AT, xs).T,
        scattered(np.maximum, scattered(np.add, w, AT, x * w[AT]), AT, x),
        scattered(np.add, np.zeros((5, 4), dtype), (AT, TO), x),
        scattered(np.add, np.zeros(N, dtype), np.arange(N) // 2, x),
        np.stack([scattered(np.add, np.zeros(M, dtype), AT, x), w]),
    ]
    for one, other in zip(found, wanted, strict=True):
        assert one.dtype == dtype
        np.testing.assert_allclose(one, other, rtol=2e-2 if dtype == "float16" else 1e-5, atol=1e-2)


def test_what_the_caller_passes_is_gone_on_from_and_nothing_is_written_for_nothing() -> None:
    tc = wf.tc.define(TEXT.format(t="double"), backend="interp")
    x, start, none = values("float64", N), np.arange(6.0), np.zeros(0)
    np.testing.assert_allclose(tc.given(AT, x, H=start.copy()), scattered(np.add, start, AT, x))
    assert tc.added(none.astype("int32"), none, np.ones(3)).tolist() == [0, 0, 0]
    signed = np.array([-7, 3, 12, 4, -1, 2, 6], "int32")
    np.testing.assert_allclose(
        tc.chosen(signed, x), scattered(np.add, np.zeros(5), signed % 5, np.where(signed >= 0, x, 0))
    )


@backends
@pytest.mark.parametrize("wrong", [-3, 6, 100])
def test_positions_outside_are_told_after_the_run(wrong: int, backend: str) -> None:
    added = wf.tc.define(TEXT.format(t="float"), backend=backend).added
    at = AT.copy()
    at[4] = wrong
    with pytest.raises(wf.IndexOutOfBounds) as caught:
        added(at, np.ones(N, "float32"), np.ones(M, "float32"))
    assert caught.value.what == f"`I(4)` is {wrong}, and axis 0 of `H` is 6"
    assert caught.value.fix == "pass whole numbers from 0 to 5, or keep them there: `min(max(I(i), 0), 5)`"


def test_only_what_is_not_proved_is_watched() -> None:
    tc = wf.tc.define(TEXT.format(t="float"), backend="interp")
    x = np.ones(N, "float32")
    with pytest.raises(wf.IndexOutOfBounds, match="is 7 somewhere, and axis 1 of `H` is 6"):
        tc.rows(np.full(N, 7, "int32"), x, np.ones(M, "float32"))
    assert "strayed" in tc.added.show("loops", AT, x, np.ones(M, "float32"))
    assert "strayed" not in tc.chosen.show("loops", AT, x)
    assert "strayed" not in tc.halves.show("loops", x)


@pytest.mark.parametrize("name", ["added", "largest", "multiplied", "gone_on", "two", "halves", "rows"])
def test_gradients_against_differences_and_as_text(name: str) -> None:
    one = wf.tc.define(TEXT.format(t="double"), backend="interp")[name]
    shapes = {"X": (N, D) if name in ("largest", "multiplied") else (N,), "W": (M,)}
    given = {"I": AT, "J": TO, **{key: RNG.normal(size=shape) for key, shape in shapes.items()}}
    given = {key: given[key] for key in one.params}
    seed = RNG.normal(size=one(*given.values()).shape)
    wrt = [key for key in one.params if key in shapes]
    seed = np.where(np.isfinite(one(*given.values())), seed, 0)
    found = one.grad(*given.values(), wrt=wrt, d=seed)
    gradients = dict(zip(wrt, found if isinstance(found, tuple) else (found,), strict=True))

    def value(changed: dict[str, Any]) -> float:
        return float((np.nan_to_num(one(*({**given, **changed}[key] for key in one.params)), neginf=0) * seed).sum())

    assert_slopes(gradients, given, value, near=1e-5)
    written = list(wf.tc.define(one.show("gradient", *given.values()), backend="interp"))[-1]
    again = written(*given.values(), seed)
    for key, array in zip(wrt, again if isinstance(again, tuple) else (again,), strict=True):
        np.testing.assert_allclose(array, gradients[key], rtol=1e-12, atol=1e-12)


def test_second_order() -> None:
    tc = wf.tc.define(TEXT.format(t="double"))
    x, w, at = double("x", o=N), double("w", o=M), wf.data(AT)
    loss = total(tc.added(at, x * x, w) * w) + total(tc.gone_on(at, x * w[:1], w))
    check_second_order(Differences(loss, [x, w]))


def test_it_is_written_as_it_is_read() -> None:
    program = parse(TEXT.format(t="float"))
    assert parse(show(program)) == program
    assert "H(I(i), d) max=! X(i, d)" in show(program)
    tensors = [wf.data(AT, label="I"), wf.data(np.ones(N, "f"), label="X"), wf.data(np.ones(M, "f"), label="W")]
    text = wf.show_as(wf.tc.define(TEXT.format(t="float")).added(*tensors), "tc")
    assert "(I(i)) += X(i)" in text
    again = list(wf.tc.define(text, backend="interp"))[-1]
    np.testing.assert_allclose(again(AT, np.ones(N, "f")), np.bincount(AT, minlength=M))


UNSIZED = (
    "give the result a type, of sizes that come in or numbers: `-> (float(N) H)`; or define it in a statement before"
)
REFUSED = {
    "def f(int32(N) I, float(N) X) -> (H) { H(I(i)) +=! X(i) }": (
        "I(i)",
        "`I(i)` does not say how large axis 0 of `H` is",
        UNSIZED,
    ),
    "def f(int32(N) I, float(N) X) -> (float(K) H) { H(I(i)) +=! X(i) }": (
        "I(i)",
        "`I(i)` does not say how large axis 0 of `H` is",
        UNSIZED,
    ),
    "def f(int32(N) I, float(N) X) -> (float(N) H) { H(I(i)) = X(i) }": (
        "I(i)",
        "`I(i)` is computed, and `=` does not say what becomes of points where it is the same",
        "say how they combine: `H(I(i)) +=! …`, or `*=!`, `min=!`, `max=!`; "
        "or write an index there, and choose on the right",
    ),
    "def f(float(N) I, float(N) X) -> (float(N) H) { H(I(i)) +=! X(i) }": (
        "I(i)",
        "a subscript is a whole number, and this is float",
        "convert it: `int32(I(i))`",
    ),
    "def f(float(N) X) -> (float(N) H) { H(0.5) +=! X(i) }": (
        "0.5",
        "a subscript is a whole number, and this is float",
        "convert it: `int32(0.5)`",
    ),
    "def f(int32(N) I, float(N) X) -> (float(N) H) { H(J(i)) +=! X(i) }": (
        "J",
        "`J` is neither a tensor nor a builtin",
        "the tensors here are `I` and `X`",
    ),
    "def f(int32(N) I, float(N) X, float(N) W) -> (H) { H(n) = W(n) H(I(i)) += H(I(i)) * X(i) }": (
        "H(I(i))",
        "`H` is read while it is accumulated",
        "accumulate into a tensor of another name",
    ),
    "def f(int32(N) I, float(N) X) -> (float(N) H) { H(I(k)) +=! X(i) H(I(k + N)) += 1.0 where k in 0:1 }": (
        "k + N",
        "`k + N` leaves axis 0 of `I`, which is `N`, whatever the sizes",
        "stay in 0:N: give another range by `where`, or choose: `… ? … : …`",
    ),
}


@pytest.mark.parametrize("text", REFUSED)
def test_what_is_refused(text: str) -> None:
    with pytest.raises(ComprehensionError) as caught:
        check(parse(text))
    (one,) = caught.value.mistakes
    assert (text[one.span.start : one.span.end], one.what, one.fix) == REFUSED[text]


def test_arithmetic_that_leaves_its_axis_is_refused_for_the_sizes_at_hand() -> None:
    one = wf.tc.define("def f(float(N) X) -> (float(4) H) { H(i / 3) +=! X(i) }", backend="interp").f
    assert one(np.ones(12, "float32")).tolist() == [3, 3, 3, 3]
    with pytest.raises(ComprehensionError, match=r"`i / 3` takes the values 0 to 4, and axis 0 of `H` is 4"):
        one(np.ones(13, "float32"))
