"""wf.scan against the same steps written one after another."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

import weft as wf

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


@pytest.mark.parametrize(("reverse", "recompute", "backend"), [(False, False, "cc"), (True, True, "interp")])
def test_an_lstm_is_its_steps_one_after_another(reverse: bool, recompute: bool, backend: str) -> None:
    cell, xs, init = lstm(), sequence(), {"h": state("h"), "c": state("c")}
    hs, last = wf.scan(cell, xs, init=init, reverse=reverse, recompute=recompute)
    steps, end = unrolled(cell, xs, init, range(STEPS)[:: -1 if reverse else 1])
    loops = total(hs["h"], hs["c"], last["h"])
    plain = total(*(one[key] for one in steps.values() for key in "hc"), end["h"])
    by = (xs, init["h"], init["c"], *plain.params)
    wanted = values("interp", *(steps[t]["h"] for t in range(STEPS)), *wf.grad(plain, by))
    found = values(backend, hs["h"], *wf.grad(loops, by))
    agree([*found[0], *found[1:]], wanted)


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_of_gradients(recompute: bool) -> None:
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
    agree(values("cc" if recompute else "interp", *second[0], along[0]), expected)


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
        assert [one.dtype.name for one in got[3::4]] == ["int32"] * 3
    wf.gradcheck(total(*(some[0] for some in found)), x)
    with pytest.raises(wf.WeftError, match="cumsum runs along one axis, and the spec leaves out 2"):
        wf.cumsum(x, "...|t, d => ...|0")


def test_positions_are_checked_in_every_step() -> None:
    table = wf.data(np.arange(4.0), label="table")
    ids = wf.data(np.array([[1], [7]]), batch=1, label="ids")
    hs, _ = wf.scan(lambda h, at: h + wf.einsum("v; @v => 0", table, wf.einsum("0 => 0", at)), ids, init=0.0)
    with pytest.raises(wf.WeftError, match="holds 7 somewhere"):
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
    ],
)
def test_a_carry_that_changes_is_refused(cell: Any, init: Any, said: str | None) -> None:
    if said is None:
        wf.scan(cell, sequence(), init=init)
        return
    with pytest.raises(wf.WeftError) as raised:
        wf.scan(cell, sequence(), init=init)
    assert said in str(raised.value)


def test_what_there_is_to_run_along() -> None:
    def add(h: Any, x: Any) -> Any:
        return h + (x if isinstance(x, wf.Tensor) else x[0] + x[1])

    for xs, said in (
        (wf.data(np.ones(3), label="x"), "the leftmost batch axis of `x`, and it has none"),
        ((sequence(), sequence("ys", 7)), "would take 3 steps along `xs` and 7 along `ys`"),
        ((), "is given nothing to run along"),
        (np.ones(3), "xs of wf.scan takes tensors and numbers, not an array"),
    ):
        with pytest.raises(wf.WeftError) as raised:
            wf.scan(add, xs, init=0.0)
        assert said in str(raised.value)
    with pytest.raises(wf.WeftError, match="a function of a carry and a step's input, not int"):
        wf.scan(3, sequence(), init=0.0)  # type: ignore[arg-type]
