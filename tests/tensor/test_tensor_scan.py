"""wf.scan against the same steps written one after another."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf
from backends.interpreted import OnProcessor
from generators.scans import reads_back
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type

RNG = np.random.default_rng(7)
STEPS, EXAMPLES, FEATURES, STATE = 3, 3, 2, 3


def sequence(label: str = "xs", steps: int = STEPS, **more: Any) -> wf.Tensor:
    array = np.random.default_rng(len(label)).normal(size=(steps, EXAMPLES, FEATURES))
    return wf.require_grad(wf.data(array, batch=2, label=label, **more))


def state(label: str) -> wf.Tensor:
    return wf.require_grad(wf.data(RNG.normal(size=(EXAMPLES, STATE)), batch=1, label=label))


def total(*tensors: wf.Tensor) -> wf.Tensor:
    return sum((wf.einsum("...|...->... => 0", one * wf.sin(one)) for one in tensors), wf.number(0.0))


@wf.op
def gates(x: wf.Tensor, h: wf.Tensor) -> wf.Tensor:
    return "w" @ x + "u" @ h + "b"


def lstm() -> Any:
    forget, add, give, new = (gates(label=name) for name in ("forget", "add", "give", "new"))

    def cell(carry: Any, x: wf.Tensor) -> Any:
        h, c = carry["h"], carry["c"]
        c = wf.sigmoid(forget(x, h)) * c + wf.sigmoid(add(x, h)) * wf.tanh(new(x, h))
        return {"h": wf.sigmoid(give(x, h)) * wf.tanh(c), "c": c}

    return cell


def unrolled(cell: Any, xs: wf.Tensor, init: Any, order: Any = None) -> tuple[dict[int, Any], Any]:
    found = {}
    for t in order if order is not None else range(STEPS):
        init = found[t] = cell(init, xs[t])
    return found, init


def values(backend: str, *tensors: wf.Tensor) -> list[Any]:
    """What tensors hold, all computed by one routine."""
    ctx = wf.Context(backend)
    ctx.compile(wf.seq(*(one.forward for one in tensors)))()
    return [ctx[one] for one in tensors]


def agree(found: Any, expected: Any) -> None:
    for one, other in zip(found, expected, strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("reverse", "recompute", "backend"), [(False, False, "cc"), (True, 2, "interp")])
def test_an_lstm_is_its_steps_one_after_another(reverse: bool, recompute: int, backend: str) -> None:
    cell, xs, init = lstm(), sequence(), {"h": state("h"), "c": state("c")}
    hs, last = wf.scan(cell, xs, init=init, reverse=reverse, recompute=recompute)
    steps, end = unrolled(cell, xs, init, range(STEPS)[:: -1 if reverse else 1])
    loops = total(hs["h"], hs["c"], last["h"])
    plain = total(*(one[key] for one in steps.values() for key in "hc"), end["h"])
    by = (xs, init["h"], init["c"], *plain.params)
    wanted = values("interp", *(steps[t]["h"] for t in range(STEPS)), *wf.grad(plain, by))
    found = values(backend, hs["h"], *wf.grad(loops, by))
    agree([*found[0], *found[1:]], wanted)


@pytest.mark.parametrize("recompute", [False, 1, 2])
def test_gradients_of_gradients(recompute: int) -> None:
    xs, h = sequence(), state("h")
    w = wf.param("w", i=FEATURES, o=STATE)

    def cell(h: wf.Tensor, x: wf.Tensor) -> wf.Tensor:
        return wf.tanh(w @ x + h * h)

    hs, last = wf.scan(cell, xs, init=h, recompute=recompute)
    steps, _ = unrolled(cell, xs, h)
    by = (xs, h, w)
    way = wf.data(RNG.normal(size=(STEPS, EXAMPLES, FEATURES)), batch=2)
    losses = total(hs, last), total(*steps.values(), steps[STEPS - 1])
    along = [wf.jvp(one, xs, way) for one in losses]
    second = [wf.grad(total(*wf.grad(one, by)), by) for one in losses]
    expected = values("interp", *second[1], along[1])
    agree(values("cc" if recompute == 1 else "interp", *second[0], along[0]), expected)


@pytest.mark.parametrize("ranks", [1, 2])
def test_ranks_do_not_lie_along_as_many_steps(ranks: int) -> None:
    xs, h = sequence(steps=ranks), state("h")

    def cell(h: wf.Tensor, x: wf.Tensor) -> wf.Tensor:
        return h * wf.sum(wf.einsum("...|i => ...|k", x - 5.0, accum=wf.top(ranks)) * wf.tensor([1.0, 2.0][:ranks]))

    outputs, last = wf.scan(cell, xs, init=h, recompute=True)
    given, end = unrolled(cell, xs, h, range(ranks))
    found, expected = (wf.grad(total(*one), xs) for one in ((outputs, last), (*given.values(), end)))
    agree(values("interp", found), values("interp", expected))


#: What a cell makes of what it finds and reads without differentiating it: of an `x` of its own for each step.
READ_ALONE: dict[str, Callable[[wf.Tensor, wf.Tensor], wf.Tensor]] = {
    "a constant": lambda h, x: h * wf.stop_gradient(wf.sum(wf.sin(x))),
    "the constant itself": lambda h, x: h * wf.stop_gradient(x[..., :1]),
    "a choice": lambda h, x: wf.where(wf.sum(x) > 0, h * h, wf.sin(h)),
    "a draw of each step": lambda h, x: wf.dropout(wf.sin(h), 0.5, step=wf.cast(wf.sum(x) * 100.0, "int64")),
}


@pytest.mark.parametrize("name", READ_ALONE)
@pytest.mark.parametrize("recompute", [1, 2, True])
def test_what_is_not_differentiated_is_read_again(name: str, recompute: bool | int) -> None:
    x, h = wf.stop_gradient(sequence(steps=5)), state("h")
    found = []
    for again in (recompute, False):
        wf.seed(0)
        outputs, last = wf.scan(READ_ALONE[name], x, init=h, recompute=again)
        slope = wf.grad(total(outputs, last), h)
        found.append(values("interp", slope, wf.grad(total(slope), h)))
    agree(*found)


def test_carries_of_some_steps_are_kept() -> None:
    """All that steps compute, every carry, every sixth, which does not divide the length, every eighth: less memory."""
    xs, h = wf.data(RNG.normal(size=(64, EXAMPLES, FEATURES)), batch=2), state("h")
    w, u, v = (wf.param(name, i=size, o=STATE, dtype="float64") for name, size in (("w", 2), ("u", 3), ("v", 3)))

    def cell(h: wf.Tensor, x: wf.Tensor) -> wf.Tensor:
        z = wf.sigmoid(w @ x + u @ h)
        return z * h + (1.0 - z) * wf.tanh(v @ (h * z))

    sizes: dict[str, int] = {}
    for recompute in (False, 64, 100, 1, 6, 8, True):
        _, last = wf.scan(cell, xs, init=h, recompute=recompute)
        sizes[str(recompute)] = wf.Context(OnProcessor()).compile(wf.grad_update(total(last))).memory().size
    assert max(sizes["6"], sizes["8"]) < sizes["1"] < sizes["False"] == sizes["64"] == sizes["100"]
    assert sizes["True"] == sizes["8"]


@pytest.mark.parametrize("recompute", [0, -3, 2.5, "8", None])
def test_carries_that_cannot_be_kept(recompute: Any) -> None:
    with pytest.raises(wf.WeftError, match="says of how many steps one carry is kept, 1 or more, or True: not"):
        wf.scan(lambda h, x: h + x, sequence(), init=0.0, recompute=recompute)


def test_gradient_updates() -> None:
    hs, last = wf.scan(lstm(), sequence(), init={"h": state("h"), "c": state("c")})
    loss = total(hs["h"], last["c"])
    ctx = wf.Context("interp")
    ctx.compile(wf.grad_update(loss))()
    agree([ctx[one.grad] for one in loss.params], values("interp", *wf.grad(loss, loss.params)))


def test_as_many_kernels_whatever_the_length() -> None:
    found = {}
    for steps in (10, 100, 1000):
        hs, _ = wf.scan(lstm(), sequence(steps=steps), init={"h": state("h"), "c": state("c")})
        step = wf.Context("interp").compile(wf.grad_update(total(hs["h"])))
        found[steps] = re.sub(r"\d+", "N", step.show("loops"))
        assert step.show("loops").count(f"for t in range({steps})") == 4
    assert found[10] == found[100] == found[1000]


def test_no_steps_and_one() -> None:
    for steps in (0, 1):
        xs, h = sequence(steps=steps), state("h")
        hs, last = wf.scan(lambda h, x: wf.tanh(h + wf.einsum("...|i => ...|0", x)), xs, init=h)
        for backend in ("interp", "cc"):
            expected = h if not steps else wf.tanh(h + wf.einsum("...|i => ...|0", xs[0]))
            all_, end, wanted, d = values(backend, hs, last, expected, wf.grad(total(last), h))
            assert (all_.shape, d.shape) == ((steps, EXAMPLES, STATE), (EXAMPLES, STATE))
            np.testing.assert_allclose(end, wanted)


def test_a_scan_inside_a_scan() -> None:
    xs = wf.require_grad(wf.data(RNG.normal(size=(3, 4, EXAMPLES, STATE)), batch=3, label="xs"))

    def row(h: wf.Tensor, x: wf.Tensor) -> wf.Tensor:
        _, last = wf.scan(lambda c, y: wf.tanh(c * y + h), x, init=h)
        return last

    hs, last = wf.scan(row, xs, init=0.5)
    plain = []
    h: Any = wf.constant(0.5)
    for i in range(3):
        c = h
        for j in range(4):
            c = wf.tanh(c * xs[i][j] + h)
        plain.append(h := c)
    expected = values("interp", *plain, wf.grad(total(*plain, h), xs))
    for backend in ("interp", "cc"):
        found = values(backend, hs, wf.grad(total(hs, last), xs))
        agree([*found[0], found[1]], expected)


def test_running_totals() -> None:
    array = RNG.normal(size=(4, 3, 5))
    x = wf.require_grad(wf.data(array, batch=1, label="x"))
    whole = wf.data(np.array([3, 1, 4, 1, 5], np.int32), label="whole")
    known = {wf.cumsum: np.cumsum, wf.cumprod: np.cumprod, wf.cummax: np.maximum.accumulate}
    found = [(f(x), f(x, "...|t, d => ...|d"), f(x, "b|... => ..."), f(whole)) for f in known]
    expected = [(of(array, -1), of(array, 1), of(array, 0), of(np.array([3, 1, 4, 1, 5]))) for of in known.values()]
    for backend in ("interp", "cc"):
        got = values(backend, *(one for some in found for one in some))
        agree(got, [one for some in expected for one in some])
        assert [one.dtype.name for one in got[3::4]] == ["int64", "int64", "int32"]
    wf.gradcheck(total(*(some[0] for some in found)), x)
    with pytest.raises(wf.WeftError, match="cumsum runs along one axis, and the spec leaves out 2"):
        wf.cumsum(x, "...|t, d => ...|0")


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_running_totals_end_where_sums_do(backend: str) -> None:
    """In every type: stored as the sum is, and grown as it grows, however many there are."""
    for dtype in ELEMENT_TYPES:
        array = np.full((1, 2100), 1, numpy_type(dtype))
        x = wf.data(array, label="x")
        totals, products = wf.cumsum(x), wf.cumprod(x)
        assert (totals.dtype, products.dtype) == (wf.sum(x).dtype, wf.prod(x).dtype)
        found, whole = values(backend, totals, wf.sum(x))
        assert found[0, -1] == whole[0], dtype
        assert np.array_equal(found[0].astype(float), np.arange(1, 2101).astype(found.dtype).astype(float)), dtype
    tenths, tens = wf.data(np.full(2100, 0.1, np.float32)), wf.data(np.full(9, 100, np.int8))
    found, powers = values(backend, wf.cumsum(tenths), wf.cumprod(tens))
    np.testing.assert_allclose(found, np.arange(1, 2101) * np.float64(np.float32(0.1)), rtol=1e-7)
    assert powers.tolist() == [100**n for n in range(1, 10)]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_running_totals_of_no_elements(backend: str) -> None:
    x, y = wf.data(np.zeros((2, 0)), batch=1), wf.data(np.zeros((2, 3, 0), np.int16), batch=1)
    for f in (wf.cumsum, wf.cumprod, wf.cummax):
        assert [one.shape for one in values(backend, f(x), f(y, "...|i, j => ...|j"))] == [(2, 0), (2, 3, 0)]
    rows, w = wf.input("rows", b="n", o=2), wf.param("w", o=2, init=2.0)
    slope = wf.grad(wf.sum(wf.cumprod(rows * w, "b|i => i"), "...|... => 0"), w)
    function = wf.Context(backend).function(rows, returns=[wf.cummax(rows, "b|i => i"), slope])
    assert [[one.shape for one in function(np.ones((n, 2)))] for n in (0, 3)] == [[(0, 2), (2,)], [(3, 2), (2,)]]
    assert function(np.ones((0, 2)))[1].tolist() == [0, 0]
    assert function(np.ones((3, 2)))[1].tolist() == [17, 17]


def test_any_axis_may_be_run_along() -> None:
    array = RNG.normal(size=(3, 4, 5))
    x = wf.require_grad(wf.data(array, batch=2, label="x"))
    w = wf.param("w", o=1, i=1, dtype="float64")

    def cell(h: wf.Tensor, x: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
        return wf.sin(h) + x, w @ wf.einsum("...|d => ...|0", h * x)

    found, expected = [], []
    for spec, axis, moved in (("b, t|d => b|d", 1, "b, t|d => t, b|d"), ("...|t => ...|0", 2, "b, c|t => t, b, c|0")):
        hs, last = wf.scan(cell, x, init=0.5, spec=spec)
        front, end = wf.scan(cell, wf.einsum(moved, x), init=0.5)
        assert hs.dims.array_shape[axis] == array.shape[axis]
        found += [hs, last, wf.grad(total(hs, last), x)]
        back = wf.einsum("t, b|d => b, t|d" if axis == 1 else "t, b, c|0 => b, c|t", front)
        expected += [back, end, wf.grad(total(front, end), x)]
    both = values("interp", *found, *expected)
    agree(both[: len(found)], both[len(found) :])
    for spec, said in (
        ("b, t|d => d", "wf.scan runs along one axis, and the spec leaves out 2"),
        ("b, t|d => d|b", "wf.scan leaves all axes but `t` where they are, and the spec moves some"),
        ("b, t|d => b|d; c", "a specification has one result"),
    ):
        with pytest.raises(wf.WeftError) as raised:
            wf.scan(cell, x, init=0.5, spec=spec)
        assert said in str(raised.value)
    with pytest.raises(wf.WeftError, match="`one` cannot be both 1 and 2"):
        wf.scan(lambda h, x: (h + x, h + wf.data(np.ones(2))), x, init=0.5, spec="...|t => ...|0")


def test_calls_decide_how_many_steps_there_are() -> None:
    x, y = wf.input("x", b=["time", "n"], o=2, dtype="float64"), wf.input("y", b="length", dtype="float64")
    w = wf.param("w", o=2, dtype="float64")

    def cell(carry: Any, at: Any) -> Any:
        h, count = carry
        return (wf.tanh(w @ h + at[0] * at[1]), count + 1), h

    def model(x: wf.Tensor, y: wf.Tensor) -> tuple[wf.Tensor, ...]:
        hs, (last, count) = wf.scan(cell, (x, y), init=(0.5, 0))
        return hs, last, count, total(hs, last)

    hs, last, count, loss = model(x, y)
    ctx = wf.Context("interp")
    step = ctx.function(x, y, returns=(hs, last, count, *wf.grad(loss, (w,))))
    for steps, examples in ((4, 3), (1, 2), (2, 1), (4, 3)):
        given = [RNG.normal(size=(steps, examples, 2)), RNG.normal(size=steps)]
        arrays = wf.data(given[0], batch=2), wf.data(given[1][:, None], batch=1)
        plain = wf.Context("interp")
        plain[w] = ctx[w]
        *tensors, known = model(*arrays)
        found = step(*given)
        agree(found, [plain[one] for one in (*tensors, *wf.grad(known, (w,)))])
        assert found[2] == steps
    with pytest.raises(wf.WeftError, match="`steps` cannot be both `time` = 3 and `length` = 2"):
        step(np.ones((3, 1, 2)), np.ones(2))
    with pytest.raises(wf.WeftError, match="depends on how many steps there are, and each call decides that"):
        wf.scan(cell, (x, y), init=(0.5, 0), recompute=True)


def test_printed_loops_that_look_up_read_back() -> None:
    """Positions are watched where they are: in the loop."""
    ids, table = np.array([[0], [1], [3]]), wf.data(np.arange(8.0).reshape(4, 2), batch=1, label="table")

    def cell(h: wf.Tensor, at: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
        h = h + wf.einsum("...|... => 0", wf.take(table, at))
        return h, h

    outputs, last = wf.scan(cell, wf.data(ids, batch=1, label="ids"), init=wf.data(np.zeros(1), label="h0"))
    code = wf.seq(outputs.forward, last.forward)
    reads_back(code, [outputs, last])
    given = {"ids": wf.data(ids + 1, batch=1), "table": table, "h0": wf.data(np.zeros(1))}
    again = wf.parse_cd(str(code), given, declare=True)
    with pytest.raises(wf.IndexOutOfBounds, match="`slice` holds 4 somewhere, and the positions along `v` are from 0"):
        wf.Context("cc").compile(again)()


def test_printed_loops_read_back() -> None:
    xs, h = wf.data(RNG.normal(size=(4, 2, EXAMPLES, STATE)), batch=3, label="xs"), state("h")
    u = wf.param("u", i=STATE, o=STATE, dtype="float64")

    def row(carry: Any, x: wf.Tensor) -> Any:
        hs, last = wf.scan(lambda c, y: wf.tanh(u @ c * y + carry[0]), x, init=carry[1], reverse=True)
        return (last, carry[0]), hs

    outputs, (last, _) = wf.scan(row, xs, init=(h, 0.5), recompute=2)
    reads_back(wf.seq(outputs.forward, last.forward), [outputs, last])
    reads_back(wf.seq(*(one.forward for one in wf.grad(total(outputs, last), (h, u)))))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('~for:"t" ~range:3 (y =: x ~logic:"@| t\'")', None),
        ('y =: x ~logic:"@| t\'"', "there is no loop `t` around"),
        ('~for:"t" ~range:4 (y =: x ~logic:"@| t\'")', "cannot be both 3 and 4"),
        ('~range:"t" ~range:3 (y =: x)', 'write ~for:"t" ~range:3 (…)'),
        ('~for:"t" ~range:3 ~backwards (y =: x)', 'write ~for:"t" ~range:3 (…)'),
        ('~for:"2" ~range:1.5 (y =: x)', "a name and a whole number of iterations"),
        ('~for:"t" ~range:3 (x =: 1)', "`x` is not computed by a loop, and here one computes it for every iteration"),
        (
            'y =: 1; ~for:"t" ~range:3 (~for:"s" ~range:2 (y =: x))',
            "`y` is written in loops of which none is around all others",
        ),
    ],
)
def test_loops_as_text(text: str, said: str | None) -> None:
    x = wf.data(np.ones((3, 2)), batch=1, label="x")
    if said is None:
        assert str(wf.parse_cd(text, x=x, declare=True)).replace("\n  ", "") == text
        return
    with pytest.raises(wf.WeftError) as raised:
        wf.parse_cd(text, x=x, declare=True)
    assert said in str(raised.value)


def test_positions_are_checked_in_every_step() -> None:
    table = wf.data(np.arange(4.0), label="table")
    ids = wf.data(np.array([[1], [7]]), batch=1, label="ids")
    hs, _ = wf.scan(lambda h, at: h + wf.einsum("v; @v => 0", table, wf.einsum("0 => 0", at)), ids, init=0.0)
    with pytest.raises(wf.WeftError, match=r"`einsum\[0\]` is 7, and the positions"):
        wf.Context("interp")[hs]


@pytest.mark.parametrize(
    ("cell", "init", "said"),
    [
        (lambda h, x: h + 1, wf.data(np.array([1]), label="n"), None),
        (lambda h, x: h * 0.5, wf.data(np.array([1]), label="n"), "changes its type: it starts as int64, and the cell"),
        (lambda h, x: (h, h, h), 0.0, "takes a carry of one tensor and gives tuple of `0`, `1`, `2`"),
        (lambda h, x: {"a": h["b"]}, {"b": 0.0}, "takes a carry of dict of `b` and gives dict of `a`"),
        (
            lambda h, x: wf.einsum("...|1^a => ...|a", h),
            wf.data(np.zeros(3), label="h"),
            "`step` changes its shape: it",
        ),
        (lambda h, x: "w", 0.0, "stands for a parameter only inside"),
        (lambda h, x: h + x, wf.data(np.zeros(2), label="h"), "it starts as 2, and the cell leaves 3|2"),
        (lambda h, x: h[::-1] + x, 0.0, "how many batch axes `step` has is not known here"),
        (lambda h, x: h[:, ::-1] + x, wf.data(np.zeros((3, 2)), batch=1, label="h"), None),
    ],
)
def test_a_carry_that_changes_is_refused(cell: Any, init: Any, said: str | None) -> None:
    if said is None:
        wf.scan(cell, sequence(), init=init)
        return
    with pytest.raises(wf.WeftError) as raised:
        wf.scan(cell, sequence(), init=init)
    assert said in str(raised.value)


def test_code_scans_as_a_model_does() -> None:
    x = wf.data(np.arange(6.0).reshape(3, 2), batch=1, label="x")

    @wf.cd
    def update() -> None:
        x[1:] = wf.scan(lambda h, row: h + row * row, x[:-1], init=0.0)[0]
        x[::-1] = x
        x[:] = wf.cumsum(x, "b|i => i")

    ctx = wf.Context("interp")
    ctx.compile(update())()
    expected = np.array([[0, 1], [0, 1], [4, 10]])[::-1].cumsum(0)
    np.testing.assert_array_equal(ctx[x], expected)


def test_running_totals_have_the_shape_of_what_they_are_of() -> None:
    array = np.arange(6.0).reshape(3, 2)
    ctx, x = wf.Context("interp"), wf.data(array, label="x")
    assert ctx[wf.cumsum(x)[:, -1]].tolist() == array.sum(1).tolist()
    assert ctx[wf.cumprod(x, "i, j => j")[-1] + wf.cummax(x)[0]].tolist() == (array.prod(0) + array[0]).tolist()


def test_what_there_is_to_run_along() -> None:
    def add(h: Any, x: Any) -> Any:
        return h + (x if isinstance(x, wf.Tensor) else x[0] + x[1])

    for xs, said in (
        (wf.data(np.ones(3), label="x"), "the leftmost batch axis of `x`, and it has none"),
        (wf.random_uniform("p", step=0), "axis of `p`, and it is not known whether it has one"),
        ((sequence(), sequence("ys", 7)), "would take 3 steps along `xs` and 7 along `ys`"),
        ((), "is given nothing to run along"),
        (np.ones(3), "xs of wf.scan takes tensors and numbers, not an array"),
    ):
        with pytest.raises(wf.WeftError) as raised:
            wf.scan(add, xs, init=0.0)
        assert said in str(raised.value)
    with pytest.raises(wf.WeftError, match="a function of a carry and a step's input, not int"):
        wf.scan(3, sequence(), init=0.0)  # type: ignore[arg-type]
