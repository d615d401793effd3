"""A step as a function: arrays in and out, any length, one state."""

from __future__ import annotations

import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import pytest

import weft as wf
from producers import Producer
from weft.backends.interp import Interp

Built = tuple[wf.Tensor, wf.Tensor]
WINDOWS = wf.tc.define(
    "def smooth(float(B,D) X, float(K) W) -> (Y) { Y(b,d) +=! X(b,d+k) * W(k) }\n"
    "def pick(float(B,D) X, int32(B) I) -> (Z) { Z(b) = X(b,I(b)) }"
)


def perceptron(x: wf.Tensor, y: wf.Tensor) -> Built:
    h = x
    for layer in range(2):
        h = wf.tanh(wf.param(f"w{layer}", o=5) @ h + wf.param(f"b{layer}"))
    return wf.mean((wf.param("v", o=1) @ h - y) ** 2, "...|... => 0"), h


def over_the_batch(x: wf.Tensor, y: wf.Tensor) -> Built:
    h = wf.param("w", o=5) @ (x - wf.mean(x, "b|... => ..."))
    return wf.mean((wf.sum(h) - y) ** 2, "...|... => 0") + wf.sum(h * h, "...|... => 0"), h


def random(x: wf.Tensor, y: wf.Tensor) -> Built:
    h = wf.dropout(wf.relu(wf.param("w", o=6) @ x), 0.3, step=3) + wf.random_standard_normal("noise", step=1)
    return wf.mean((wf.param("v", o=1) @ h - y) ** 2, "...|... => 0"), h


def gradient(x: wf.Tensor, y: wf.Tensor) -> Built:
    x = wf.require_grad(x)
    slope = wf.grad(wf.sum(wf.tanh(wf.param("w", o=3) @ x), "...|... => 0"), x)
    return wf.mean((wf.sum(slope) - y) ** 2, "...|... => 0"), slope


def comprehension(x: wf.Tensor, y: wf.Tensor) -> Built:
    h = wf.tanh(WINDOWS.smooth(x, wf.param("k", o=2)))
    return wf.mean((wf.sum(h) - y) ** 2, "...|... => 0"), h


def joined(x: wf.Tensor, y: wf.Tensor) -> Built:
    # The length of the batch goes into sizes that are computed: windows over it, and two batches end to end.
    pairs = wf.einsum("b<+k, |d; k => b, |d", twice(x), wf.param("k", o=2))
    return wf.mean(pairs * pairs, "...|... => 0") + wf.mean(y * y, "...|... => 0"), pairs


def recurrent(x: wf.Tensor, y: wf.Tensor) -> Built:
    w = wf.param("w", i=1, o=1)
    hs, last = wf.scan(lambda h, now: wf.tanh(w @ h + now), wf.einsum("b|d => d, b|0", x), init=0.0)
    totals = wf.cumsum(x) + wf.einsum("d, b|0 => b|d", hs)
    return wf.mean((last - y) ** 2, "...|... => 0") + wf.mean(totals * totals, "...|... => 0"), totals


def twice(x: wf.Tensor) -> wf.Tensor:
    return wf.einsum("a, |d; b, |d => a^b, |d", x, x * 2.0)


MODELS = [perceptron, over_the_batch, random, gradient, comprehension, joined, recurrent]


def seeded(build: Callable[..., Built], *given: wf.Tensor) -> Built:
    wf.seed(1)
    return build(*given)


@pytest.mark.parametrize(
    ("backend", "build"),
    [*(("interp", build) for build in MODELS), ("cc", perceptron)],
    ids=lambda one: one if isinstance(one, str) else one.__name__,
)
def test_every_length_gives_what_a_model_written_for_it_gives(backend: str, build: Callable[..., Built]) -> None:
    rng = np.random.default_rng(0)
    x, y = wf.input("x", b="batch", o=4), wf.input("y", b="batch", o=1)
    loss, h = seeded(build, x, y)
    ctx = wf.Context(backend)
    step = ctx.function(x, y, code=wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)), returns=(loss, h))
    for length in (5, 1, 3, 5) if backend == "interp" else (3, 1):
        xb, yb = (rng.normal(size=(length, size)).astype("float32") for size in (4, 1))
        written, state = (
            seeded(build, wf.data(xb, batch=1, label="x"), wf.data(yb, batch=1, label="y")),
            wf.Context(backend),
        )
        for mine, other in zip(loss.params, written[0].params, strict=True):
            state[other] = ctx[mine]
        other = state.compile(wf.seq(wf.grad_update(written[0]), wf.optim.sgd(written[0], lr=0.1)), keep=list(written))
        other()
        for mine, theirs in zip(step(xb, yb), written, strict=True):
            np.testing.assert_array_equal(mine, state[wf.given(theirs)])
        for mine, theirs in zip(loss.params, written[0].params, strict=True):
            np.testing.assert_array_equal(ctx[mine], state[theirs])


def test_positions_may_be_inputs() -> None:
    ids, table = wf.input("ids", b="batch", dtype="int32"), wf.param("table", o=(7, 2))
    rows = wf.einsum("v, d; ...|@v => ...|d", table, ids)
    loss = wf.sum(rows, "...|... => 0")
    ctx = wf.Context("interp")
    step = ctx.function(ids, code=wf.grad_update(loss), returns=(rows, table.grad))
    for given in ([1, 5, 1], [0], [2, 2, 2, 6]):
        found, slope = step(given)
        np.testing.assert_array_equal(found, ctx[table][given])
        np.testing.assert_array_equal(slope[:, 0], np.bincount(given, minlength=7))
    with pytest.raises(wf.WeftError, match="is 9, and the positions along `v` are from 0 to 6"):
        ctx.function(ids, returns=rows)([9])


# State


def scaled(x: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
    w = wf.param("w", o=1, init=np.float32([[1.0, 2.0, -1.0]]))
    return wf.mean((w @ x) ** 2, "...|... => 0"), w


def test_lengths_share_parameters_and_the_state_of_an_optimiser() -> None:
    x = wf.input("x", b="batch", o=3)
    loss, w = scaled(x)
    ctx = wf.Context("interp")
    step = ctx.function(x, code=wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1)), returns=[loss, w])
    rng, found = np.random.default_rng(0), np.float64([1.0, 2.0, -1.0])
    mean, square = np.zeros(3), np.zeros(3)
    for count, length in enumerate((4, 2, 4, 1, 2), 1):
        xb = rng.normal(size=(length, 3))
        value = np.mean((xb @ found) ** 2)
        slope = 2 * (xb @ found) @ xb / length
        mean, square = 0.9 * mean + 0.1 * slope, 0.999 * square + 0.001 * slope**2
        found = found - 0.1 * (mean / (1 - 0.9**count)) / (np.sqrt(square / (1 - 0.999**count)) + 1e-8)
        result = step(xb)
        np.testing.assert_allclose(result[0], [value], rtol=1e-4)
        np.testing.assert_allclose(result[1].ravel(), found, rtol=1e-4)  # as the step leaves it
        np.testing.assert_array_equal(result[1], ctx[w])


def test_a_variable_of_code_keeps_its_value_whatever_the_length() -> None:
    x = wf.input("x", b="batch", o=2)
    average = wf.node("average")

    @wf.cd
    def track() -> None:
        average[:] = 0.5 * average + 0.5 * wf.mean(x, "b|... => ...")

    step = wf.Context("interp").function(x, code=track(), returns=average)
    assert step([[2.0, 4.0]]).tolist() == [1.0, 2.0]
    assert step([[1.0, 2.0], [3.0, 4.0]]).tolist() == [1.5, 2.5]
    assert step(np.zeros((3, 2))).tolist() == [0.75, 1.25]


def test_code_may_have_scratch_of_the_length_of_a_batch() -> None:
    x = wf.input("x", b="batch", o=2)
    total, scratch = wf.node("total"), wf.node("scratch")

    @wf.cd
    def add_up() -> None:
        scratch[:] = x * x
        total[:] = total + wf.sum(scratch, "b|... => ...")

    step = wf.Context("interp").function(x, code=add_up(), returns=(total, scratch))
    assert [one.tolist() for one in step([[1, 2]])] == [[1, 4], [[1, 4]]]
    assert [one.tolist() for one in step([[1, 0], [0, 1]])] == [[2, 5], [[1, 0], [0, 1]]]


def test_what_is_returned_is_computed_before_the_code_writes() -> None:
    x = wf.input("x", b="batch", o=3)
    loss, w = scaled(x)
    other = wf.mean(wf.abs(w @ x), "...|... => 0")  # shares nothing with the loss, and reads what is updated
    ctx = wf.Context("interp")
    step = ctx.function(
        x, code=wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=1.0)), returns={"other": other, "slope": w.grad}
    )
    assert step(np.eye(3)[:1])["other"].tolist() == [1.0]
    assert step(np.eye(3)[:1])["other"].tolist() == [1.0]  # w[0] is -1 now
    assert step(np.eye(3)[:1])["slope"].tolist() == [[2.0, 0.0, 0.0]]


# Results


class Both(NamedTuple):
    double: Any
    parts: Any


def test_results_have_the_structure_of_returns_and_belong_to_the_caller() -> None:
    x = wf.input("x", b="batch", o=2)
    ctx = wf.Context("interp")
    both = ctx.function(x, returns=Both(x * 2.0, {"sum": wf.sum(x), "all": (x, [x + 1.0])}))
    given = np.float32([[1, 2]])
    found = both(given)
    assert isinstance(found, Both)
    assert (found.double.tolist(), found.parts["sum"].tolist()) == ([[2, 4]], [[3]])
    assert found.parts["all"][1][0].tolist() == [[2, 3]]
    again = both(given + 10)
    assert (found.double.tolist(), again.double.tolist()) == ([[2, 4]], [[22, 24]])
    found.parts["all"][0][:] = 7
    assert given.tolist() == [[1, 2]]
    nothing = ctx.function(x, code=wf.seq())
    assert (nothing(given), nothing(given, wait=False).wait()) == (None, None)


def test_calls_take_what_is_obviously_an_array() -> None:
    x, n = wf.input("x", b="batch", o=2), wf.input("n", dtype="int32")
    scale = wf.Context("interp").function(x, n, returns=x * n)
    given = np.float64([[1, 2], [3, 4]])
    sealed = given.astype("float32")
    sealed.flags.writeable = False
    for array in (given, given.tolist(), given.astype("int8"), sealed, np.asfortranarray(sealed), given[::-1][::-1]):
        assert scale(array, 3).tolist() == [[3, 6], [9, 12]]
        assert scale(n=np.int64(3), x=array).tolist() == [[3, 6], [9, 12]]
    assert scale(Producer(given.astype("float32"), (2, 2)), True).tolist() == given.tolist()
    label = wf.input("label", b="batch", dtype="int32")
    plain = wf.Context("interp").function(label, returns=label)
    assert plain([1, 2]).tolist() == plain([[1], [2]]).tolist() == [[1], [2]]


def test_a_call_need_not_be_waited_for() -> None:
    x = wf.input("x", b="batch", o=2)
    total = wf.node("total", init=0.0, o=2)

    @wf.cd
    def add() -> None:
        total[:] = total + wf.sum(x, "b|... => ...")

    step = wf.Context("interp").function(x, code=add(), returns=total)
    given = np.ones((1, 2), np.float32)
    pending = []
    for _ in range(3):
        pending.append(step(given, wait=False))
        given += 1  # a call has the values of when it was made
    assert step(np.zeros((4, 2))).tolist() == [6, 6]
    assert [one.wait().tolist() for one in pending] == [[1, 1], [3, 3], [6, 6]]
    assert all(one.done for one in pending)


def test_every_device_and_stream_runs_a_function() -> None:
    x, w, i = wf.input("x", b="batch", o=2), wf.param("w", o=2, init=1.0), wf.index("i", 3)

    @wf.cd
    def grow() -> None:
        w[:] = w + 1.0

    ctx = wf.Context("interp", devices=2)
    one, two = ctx.devices
    step = ctx.function(x, code=grow(), returns={"scaled": x * w + i})
    given = np.ones((1, 2), np.float32)
    pending = [two.run(step, given, i=0), two.stream().run(step, x=given, i=1), one.run(step, [[3, 3]], i=2)]
    given += 1  # a call has the values of when it was made
    assert [one.wait()["scaled"].tolist() for one in pending] == [[[1, 1]], [[3, 3]], [[5, 5]]]
    assert (one[w].tolist(), two[w].tolist()) == ([2, 2], [3, 3])
    assert step(given, i=0)["scaled"].tolist() == [[4, 4]]  # on device 0
    with pytest.raises(wf.WeftError, match="the function was compiled for another context than that of device 0"):
        wf.Context("interp").device(0).run(step, given, i=0)
    with pytest.raises(wf.WeftError, match="the call gives no static index `i`"):
        two.run(step, given)
    with pytest.raises(wf.WeftError, match=r"static indices are given by name\n.*\n  fix: device.run\(step, i=…\)"):
        two.run(ctx.compile((wf.number(2.0) + i).forward, bindings=[i]), 2)


def test_threads_call_one_function_at_once() -> None:
    x = wf.input("x", b="batch", o=2)
    double = wf.Context("interp").function(x, returns=x * 2.0)
    wrong: list[float] = []

    def work(start: int) -> None:
        for number in range(start, start + 60):
            given = np.full((1 + number % 3, 2), number, np.float32)
            if not np.array_equal(double(given), given * 2):
                wrong.append(number)

    threads = [threading.Thread(target=work, args=(1000 * at,)) for at in range(4)]
    for one in threads:
        one.start()
    for one in threads:
        one.join()
    assert not wrong


def test_static_indices_are_keywords_of_the_call() -> None:
    x, i = wf.input("x", b=("rows", "batch"), o=1), wf.index("i", 3)
    pick = wf.Context("interp").function(x, returns=x[i] * i)
    assert pick(np.arange(6).reshape(3, 2, 1), i=2).tolist() == [[8], [10]]
    with pytest.raises(wf.WeftError, match="the call gives no static index `i`"):
        pick(np.zeros((3, 2, 1)))


# Compiling


def test_each_length_is_compiled_once() -> None:
    made = []

    class Counting(Interp):
        def compile(self, kernels: Any) -> Any:
            made.append(len(kernels))
            return super().compile(kernels)

    x = wf.input("x", b="batch", o=2)
    double = wf.Context(Counting()).function(x, returns=x * 2.0)
    for length in (1, 2, 1, 3, 2, 1):
        double(np.ones((length, 2)))
    assert len(made) == 3


def test_a_length_is_found_on_disk(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    x = wf.input("x", b="batch", o=2)
    for at in range(2):
        double = wf.Context("cc").function(x, returns=x * 2.0)
        assert double(np.ones((3, 2))).tolist() == [[2, 2]] * 3
        recalled = "recall" in str(double.timings(batch=3)) and "compile" not in str(double.timings(batch=3))
        assert recalled == bool(at)


def test_stages_can_be_seen_for_a_length() -> None:
    x = wf.input("x", b="batch", o=2)
    double = wf.Context("cc").function(x, returns=(x * 2.0).named("double"))
    assert "for i in range(3)" in double.show("loops", batch=3).replace("i0", "i")
    with pytest.raises(wf.WeftError, match=r"what runs depends on batch=…"):
        double.show("loops")
    assert repr(double) == "<function(x: float32[batch, 2])>"


def test_a_call_of_no_examples_computes_what_there_is_of_none() -> None:
    x, at = wf.input("x", b="batch", o=2), wf.input("at", b="batch", dtype="int32")
    w = wf.param("w", o=1, init=2.0)
    returns = [w @ x, wf.sum(x, "b|i => i"), wf.einsum("b|i; b|@v => v, i", x, at, v=2)]
    returns += [wf.einsum("v|i; b|@v => b|i", x, at), {}, ()]
    function = wf.Context("interp").function(x, at, returns=returns)
    y, total, counts, found, *empty = function(np.zeros((0, 2)), [])
    assert (y.shape, total.tolist(), counts.tolist(), found.shape) == ((0, 1), [0, 0], [[0, 0], [0, 0]], (0, 2))
    assert empty == [{}, ()]
    assert function(np.ones((1, 2)), [0])[0].tolist() == [[4.0]]
    assert wf.Context("interp").function(x, returns=())([[1, 2]]) == ()


# Mistakes


def mistakes() -> dict[str, tuple[Callable[[Any], object], list[str]]]:
    return {
        "too many": (lambda f: f([[1, 2]], [1], 3), ["takes 2 inputs, and was given 3", "y: int32[batch]"]),
        "none": (lambda f: f([[1, 2]]), ["the call gives no input `y`", "fix: call it with x: float32[batch, 2]"]),
        "unknown": (lambda f: f([[1, 2]], [1], z=2), ["the function takes no `z`"]),
        "twice": (lambda f: f([[1, 2]], [1], x=2), ["input `x` is given twice: by position and by name"]),
        "rank": (
            lambda f: f([1, 2], [1]),
            ["input `x` has 2 axes, and was given an array of shape (2,)", "[batch, 2]"],
        ),
        "size": (
            lambda f: f([[1, 2, 3]], [1]),
            ["was given an array of shape (1, 3): declared is 2, not 3", "fix: give it an array of [batch, 2]"],
        ),
        "fractions": (lambda f: f([[1, 2]], [1.0]), ["`y` is int32, and was given float64", 'astype("int32")']),
        "large": (lambda f: f([[1, 2]], [1 << 40]), ["int32, which does not hold 1099511627776\n"]),
        "range": (lambda f: f([[1, 2]], [-5, 1 << 40]), ["which does not hold -5 to 1099511627776"]),
        "words": (lambda f: f([["a", "b"]], [1]), ["`x` was given no array of numbers: data must be numbers"]),
        "ragged": (lambda f: f([[1, 2], [1]], [1, 1]), ["the values do not form an array of numbers"]),
        "lengths": (
            lambda f: f([[1, 2]], [1, 2]),
            ["`batch` cannot be both 1 and 2 in one call", "y: int32[batch] was given an array of shape (2,)"],
        ),
    }


@pytest.mark.parametrize("case", mistakes())
def test_a_wrong_call_is_told_at_its_line(case: str) -> None:
    x, y = wf.input("x", b="batch", o=2), wf.input("y", b="batch", dtype="int32")
    function = wf.Context("interp").function(x, y, returns=x * y)
    call, texts = mistakes()[case]
    with pytest.raises(wf.WeftError) as caught:
        call(function)
    assert str(caught.value).startswith("test_runtime_function.py:")
    for text in texts:
        assert text in str(caught.value)
    assert function([[1, 2]], [3]).tolist() == [[3, 6]]


def test_an_input_has_no_value_outside_a_call() -> None:
    x, fixed = wf.input("x", b="batch", o=2), wf.input("fixed", o=2)
    ctx = wf.Context("interp")
    for ask in (
        lambda: ctx[x],
        lambda: ctx[fixed],
        lambda: ctx[x * 2.0],
        lambda: ctx[fixed * 2.0],
        lambda: ctx.compile((x * 2.0).forward),
        lambda: ctx.__setitem__(fixed, 3.0),
    ):
        with pytest.raises(
            wf.WeftError, match=r"is an input: it has values only in a call.*\n(.*\n)*.*ctx\.function\("
        ):
            ask()
    assert x not in ctx
    assert fixed * 2.0 not in ctx
    doubled = x * 2.0
    with pytest.raises(wf.ShapeError, match="the size `batch` of input `x` is decided by each call") as caught:
        doubled.dims
    assert caught.value.origin is not None
    assert caught.value.origin.code.startswith("doubled.dims"), "the line that needs the size"
    (note,) = caught.value.notes
    assert "`x` was made at" in note
    assert 'wf.input("x"' in note, "and the line of the input"


def test_nothing_that_stays_depends_on_the_length() -> None:
    x = wf.input("x", b="batch", o="n")
    ctx = wf.Context("interp")
    loss = wf.sum(wf.param("w") * x, "...|... => 0")
    with pytest.raises(wf.ShapeError, match="the shape of `w`, which is the same at every call, depends on a size"):
        ctx.function(x, returns=loss)(np.ones((2, 3)))
    last = wf.node("last")

    @wf.cd
    def keep() -> None:
        last[:] = 0.5 * last + x

    with pytest.raises(wf.WeftError, match=r"`last.x` keeps its value from call to call, and its shape 2\|3 is"):
        ctx.function(x, code=keep())(np.ones((2, 3)))


def test_a_length_that_does_not_fit_is_told_at_the_line_of_the_model() -> None:
    x = wf.input("x", b="batch", o=2)
    sums = x + wf.data(np.ones((3, 2), np.float32), batch=1, label="table")
    function = wf.Context("interp").function(x, returns=sums)
    assert function(np.ones((3, 2))).tolist() == [[2, 2]] * 3
    assert function(np.ones((1, 2))).tolist() == [[2, 2]] * 3  # a 1 broadcasts, as it would in a model written so
    with pytest.raises(wf.ShapeError, match=r"cannot be both .*`batch` = 4") as caught:
        function(np.ones((4, 2)))
    assert "table" in str(caught.value)
    assert "`batch` = 4 in this call" in str(caught.value)


def test_a_function_is_made_from_inputs_code_and_tensors() -> None:
    x, ctx = wf.input("x", b="batch"), wf.Context("interp")
    for made, text in (
        (lambda: ctx.function(x), "a function needs code to run, or something to return"),
        (lambda: ctx.function(wf.data(np.ones(2)), returns=x), "`data` is not an input of a function"),
        (lambda: ctx.function(3, returns=x), "3 is not an input of a function"),
        (lambda: ctx.function(x, x, returns=x), "input `x` is listed twice"),
        (lambda: ctx.function(x, wf.input("x"), returns=x), "two inputs are called `x`"),
        (lambda: ctx.function(wf.input("z"), returns=x), "uses input `x`, which is not among its inputs"),
        (lambda: ctx.function(x, code=x), "code= takes code, not Tensor"),
        (lambda: ctx.function(x, returns=(x, 3)), "a function returns tensors, not int"),
        (lambda: wf.input("2x"), "an input needs a name that is an identifier"),
        (lambda: wf.input("x", b="2*n"), "b='2\\*n' is not a size"),
        (lambda: wf.input("x", o={"rgb": "n"}), "the axis 'rgb' of o= has a label"),
        (lambda: wf.input("x", o=0), "an axis cannot have size 0"),
        (lambda: wf.input("wait"), "an input cannot be called `wait`"),
    ):
        with pytest.raises(wf.WeftError, match=text):
            made()


@pytest.mark.parametrize("shape", [(1, 4, 2), (2, 3, 3), (3, 0, 0), (0, 3, 3)])
def test_a_size_that_one_input_has_twice_is_one(shape: tuple[int, ...]) -> None:
    cube = wf.input("cube", o=["n", "n", "n"])
    function = wf.Context("interp").function(cube, returns=cube * 1.0)
    assert function(np.ones((3, 3, 3))).shape == (3, 3, 3)
    with pytest.raises(wf.ShapeError, match=f"`n` cannot be both {shape[0]} and {shape[1]} in one call") as caught:
        function(np.ones(shape))
    assert caught.value.notes == (f"cube: float32[n, n, n] was given an array of shape {shape}",)


def test_who_waits_catches_what_who_calls_would() -> None:
    ids = wf.input("ids", b="n", dtype="int32")
    rows = wf.Context("interp").function(ids, returns=wf.take(wf.data(np.eye(3), label="table"), ids))
    given = np.array([0, 7], np.int32)
    for call in (lambda: rows(given), lambda: rows(given, wait=False).wait()):
        with pytest.raises(wf.IndexOutOfBounds, match=r"`ids\[1\]` is 7"):
            call()
