"""Reductions and their relatives: against NumPy, with batch and input axes, by specs, on both backends."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import reduce
from operator import add
from typing import Any

import numpy as np
import pytest

import weft as wf
from tensor.differences import Differences, check_gradient, double, total
from tensor.together import together

BACKENDS = pytest.mark.parametrize("backend", ["interp", "cc"])
DTYPES = pytest.mark.parametrize("dtype", ["float32", "float64"])
IDS_TYPES = ("int8", "uint8", "int32", "int64")

Reduction = Callable[..., Any]
Found = dict[str, np.ndarray]


def logsumexp(x: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    top = x.max(axis, keepdims=True)
    return np.log(np.exp(x - top).sum(axis)) + np.squeeze(top, axis)


def log_softmax(x: np.ndarray, axis: tuple[int, ...]) -> np.ndarray:
    return x - np.expand_dims(logsumexp(x, axis), axis)


REDUCTIONS: dict[str, tuple[Reduction, Reduction]] = {
    "sum": (wf.sum, np.sum),
    "prod": (wf.prod, np.prod),
    "max": (wf.max, np.max),
    "min": (wf.min, np.min),
    "mean": (wf.mean, np.mean),
    "var": (wf.var, np.var),
    "var of a sample": (lambda x, *spec: wf.var(x, *spec, ddof=1), lambda x, axis: np.var(x, axis, ddof=1)),
    "std": (wf.std, np.std),
    "norm": (wf.norm, lambda x, axis: np.sqrt((x * x).sum(axis))),
    "logsumexp": (wf.logsumexp, logsumexp),
}
WEIGHTS: dict[str, tuple[Reduction, Reduction]] = {
    "softmax": (wf.softmax, lambda x, axis: np.exp(log_softmax(x, axis))),
    "log_softmax": (wf.log_softmax, log_softmax),
}
POSITIONS: dict[str, tuple[Reduction, Reduction]] = {"argmax": (wf.argmax, np.argmax), "argmin": (wf.argmin, np.argmin)}


@dataclass(frozen=True)
class Layout:
    """An array as a tensor, a spec, the axes of the array that it leaves out, and the shape of what it results in."""

    shape: tuple[int, ...]
    batch: int
    input: int
    spec: tuple[str, ...]
    axes: tuple[int, ...]
    result: tuple[int, ...]

    def tensor(self, array: np.ndarray) -> wf.Tensor:
        return wf.data(array, batch=self.batch, input=self.input, label="x")

    def param(self, name: str) -> wf.Tensor:
        rank = len(self.shape)
        sizes = self.shape[: self.batch], self.shape[rank - self.input :], self.shape[self.batch : rank - self.input]
        return double(name, b=list(sizes[0]), i=list(sizes[1]), o=list(sizes[2]))


LAYOUTS = {
    "a vector": Layout((5,), 0, 0, (), (0,), (1,)),
    "a matrix": Layout((3, 4), 0, 0, (), (0, 1), (1,)),
    "examples": Layout((3, 4), 1, 0, (), (1,), (3, 1)),
    "maps": Layout((3, 4), 0, 1, (), (0,), (1, 4)),
    "all rows": Layout((2, 3, 2, 4), 1, 1, (), (1, 2), (2, 1, 4)),
    "the last axis": Layout((2, 3, 4), 1, 0, ("...|t, d => ...|t",), (2,), (2, 3)),
    "the first axis": Layout((2, 3, 4), 1, 0, ("...|t, d => ...|d",), (1,), (2, 4)),
    "the inputs": Layout((2, 3, 4), 1, 1, ("...|i->o => ...|o",), (2,), (2, 3)),
    "the batch": Layout((2, 3, 4), 1, 1, ("b|...->... => ...->...",), (0,), (3, 4)),
    "everything": Layout((2, 3, 4), 1, 1, ("...|...->... => 0",), (0, 1, 2), (1,)),
    "what is not written": Layout((3, 4), 0, 0, ("i => i",), (0,), (4,)),
    "nothing": Layout((3, 4), 1, 0, ("...|i => ...|i",), (), (3, 4)),
}
EACH_LAYOUT = pytest.mark.parametrize("layout", LAYOUTS.values(), ids=LAYOUTS)


def values(layout: Layout, dtype: str = "float64") -> np.ndarray:
    return np.random.default_rng(0).normal(size=layout.shape).astype(dtype)


def computed(functions: Mapping[str, Callable[..., wf.Tensor]], layout: Layout, x: np.ndarray, backend: str) -> Found:
    """What functions make of an array, by their names: one routine computes them all."""
    return together(backend, {name: function(layout.tensor(x), *layout.spec) for name, function in functions.items()})


def changing(layout: Layout) -> dict[str, Any]:
    """The reductions that are there: of one element, nothing is left to vary."""
    return {
        name: one for name, one in REDUCTIONS.items() if layout.axes or name not in ("var", "std", "var of a sample")
    }


@BACKENDS
@DTYPES
@EACH_LAYOUT
def test_reductions(layout: Layout, dtype: str, backend: str) -> None:
    x = values(layout, dtype)
    there = {name: one for name, one in REDUCTIONS.items() if layout.axes or name != "var of a sample"}
    for name, found in computed({name: one for name, (one, _) in there.items()}, layout, x, backend).items():
        assert (found.dtype, found.shape) == (dtype, layout.result), name
        wanted = np.asarray(there[name][1](x.astype("float64"), layout.axes)).reshape(layout.result)
        tolerance = 2e-5 if dtype == "float32" else 1e-12
        np.testing.assert_allclose(found, wanted, rtol=tolerance, atol=1e-6, err_msg=name)


@BACKENDS
@EACH_LAYOUT
def test_weights_have_the_shape_of_their_operand(layout: Layout, backend: str) -> None:
    x = values(layout)
    for name, found in computed({name: one for name, (one, _) in WEIGHTS.items()}, layout, x, backend).items():
        np.testing.assert_allclose(found, WEIGHTS[name][1](x, layout.axes), rtol=1e-12, atol=1e-14, err_msg=name)


@BACKENDS
@EACH_LAYOUT
def test_positions_count_along_the_axes_left_out(layout: Layout, backend: str) -> None:
    x = np.random.default_rng(1).integers(0, 4, layout.shape).astype("float32")  # there are ties
    kept = [axis for axis in range(x.ndim) if axis not in layout.axes]
    flat = x.transpose(*kept, *layout.axes).reshape(*(x.shape[axis] for axis in kept), -1)
    for name, found in computed({name: one for name, (one, _) in POSITIONS.items()}, layout, x, backend).items():
        assert found.dtype == "int32"
        np.testing.assert_array_equal(found, POSITIONS[name][1](flat, axis=-1).reshape(layout.result), name)


@EACH_LAYOUT
def test_gradients(layout: Layout) -> None:
    x = layout.param("x")
    losses = [total(function(x, *layout.spec)) for function, _ in {**changing(layout), **WEIGHTS}.values()]
    Differences(reduce(add, losses), [x], {x: values(layout)}).check(12)


@pytest.mark.parametrize("name", [*REDUCTIONS, *WEIGHTS])
def test_the_gradient_of_each(name: str) -> None:
    layout = LAYOUTS["the last axis"]
    function, _ = {**REDUCTIONS, **WEIGHTS}[name]
    x = layout.param("x")
    check_gradient(function(x, *layout.spec), values={x: values(layout)})


@EACH_LAYOUT
def test_the_gradient_of_cross_entropy(layout: Layout) -> None:
    classes = int(np.prod([layout.shape[axis] for axis in layout.axes]))
    x, ids = layout.param("x"), np.arange(int(np.prod(layout.result))).reshape(layout.result) % min(3, classes + 1) - 1
    loss = wf.cross_entropy(x, as_result(layout, ids), *layout.spec, ignore_index=-1)
    check_gradient(loss, values={x: values(layout)})


def as_result(layout: Layout, array: np.ndarray) -> wf.Tensor:
    """An array of the shape that the spec of a layout results in, its axes of the same kinds."""
    dims = wf.sum(layout.tensor(values(layout)), *layout.spec).dims
    return wf.data(array, batch=len(dims.batch), input=len(dims.input), label="ids")


@BACKENDS
@EACH_LAYOUT
def test_cross_entropy(layout: Layout, backend: str) -> None:
    x = values(layout)
    kept = [axis for axis in range(x.ndim) if axis not in layout.axes]
    flat = log_softmax(x, layout.axes).transpose(*kept, *layout.axes).reshape(int(np.prod(layout.result)), -1)
    ids = np.random.default_rng(2).integers(0, flat.shape[1], len(flat))
    wanted = -flat[np.arange(len(flat)), ids].reshape(layout.result)
    typed = {name: as_result(layout, ids.reshape(layout.result).astype(name)) for name in IDS_TYPES}
    costs = {name: wf.cross_entropy(layout.tensor(x), one, *layout.spec) for name, one in typed.items()}
    for name, found in together(backend, costs).items():
        np.testing.assert_allclose(found, wanted, rtol=1e-12, atol=1e-14, err_msg=name)


@BACKENDS
@pytest.mark.parametrize("ignored", [-1, 7, 0])
def test_an_id_that_is_ignored_costs_nothing_and_moves_nothing(backend: str, ignored: int) -> None:
    """Also where it names a class."""
    x = wf.param("x", o=3, b=4, init=np.random.default_rng(0).normal(size=(4, 3)))
    ids = wf.data(np.array([2, ignored, 1, ignored]), batch=1)
    loss = wf.cross_entropy(x, ids, ignore_index=ignored)
    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(loss, sum=True), keep=[x.grad, loss])()
    assert (ctx[loss][[1, 3]] == 0).all()
    assert (ctx[loss][[0, 2]] > 0).all()
    assert (ctx[x.grad][[1, 3]] == 0).all()
    assert (ctx[x.grad][[0, 2]] != 0).all()


@BACKENDS
@pytest.mark.parametrize("classes", [(6,), (2, 3)])
def test_an_id_of_no_class_is_refused_and_changes_nothing(backend: str, classes: tuple[int, ...]) -> None:
    """Whatever axes the classes lie along, also if others are ignored."""
    ctx, w = wf.Context(backend), wf.param("w", o=classes, init=0.0)
    x, ids = wf.input("x", b="batch", o=1), wf.input("ids", b="batch", dtype="int32")
    loss = wf.mean(wf.cross_entropy(w @ x, ids, ignore_index=-1), "...|... => 0")
    step = ctx.function(x, ids, code=wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)), returns=loss)
    step(np.ones((3, 1), np.float32), np.array([0, -1, 5], np.int32))
    before = ctx[w].copy()
    for stray in (6, -2):
        with pytest.raises(wf.IndexOutOfBounds) as refused:
            step(np.ones((4, 1), np.float32), np.array([0, 1, stray, -1], np.int32))
        assert refused.value.what == f"`ids[2]` is {stray}, and cross_entropy has 6 classes, 0 to 5"
        assert f"ignore_index={stray} if it stands for no class" in refused.value.fix
        assert "loss = wf.mean(wf.cross_entropy(" in str(refused.value)
    np.testing.assert_array_equal(ctx[w], before)


@BACKENDS
@DTYPES
def test_large_and_infinite_logits(backend: str, dtype: str) -> None:
    rows = [[1e4, 1e4, 0], [-1e4, -1e4, -1e4], [-np.inf, 0, 0], [-np.inf] * 3, [np.inf, 0, 0], [np.nan, 0, 0]]
    x = wf.data(np.array(rows, dtype), batch=1)
    ctx = wf.Context(backend)
    with np.errstate(invalid="ignore"):
        sums = ctx[wf.logsumexp(x)].ravel()
        weights, logs = ctx[wf.softmax(x)], ctx[wf.log_softmax(x)]
        costs = ctx[wf.cross_entropy(x, wf.data(np.array([0, 0, 1, 0, 0, 0]), batch=1))].ravel()
    two, three = np.log(2), np.log(3)
    np.testing.assert_allclose(sums, [1e4 + two, -1e4 + three, two, -np.inf, np.inf, np.nan], rtol=1e-6)
    np.testing.assert_allclose(weights[:3], [[0.5, 0.5, 0], [1 / 3] * 3, [0, 0.5, 0.5]], rtol=1e-6)
    np.testing.assert_allclose(logs[:3], [[-two, -two, -1e4 - two], [-three] * 3, [-np.inf, -two, -two]], rtol=1e-6)
    np.testing.assert_allclose(costs[:3], [two, three, two], rtol=1e-6)
    assert np.isnan(weights[3:]).any(axis=1).all()
    assert np.isnan(costs[3:]).all()


@BACKENDS
def test_the_first_of_ties_and_what_is_not_a_number(backend: str) -> None:
    x = np.array([[1, 3, 3, 0], [np.nan, 5, np.nan, 1], [2, np.nan, 9, 1], [-np.inf] * 4, [np.inf, 1, np.inf, 2]])
    ctx, tensor = wf.Context(backend), wf.data(x, batch=1)
    assert ctx[wf.argmax(tensor)].ravel().tolist() == np.argmax(x, 1).tolist() == [1, 0, 1, 0, 0]
    assert ctx[wf.argmin(tensor)].ravel().tolist() == np.argmin(x, 1).tolist() == [3, 0, 1, 0, 1]
    whole = wf.data(np.array([[5, 9, 9], [-(2**40), 0, 2**40]]), batch=1)
    assert ctx[wf.argmax(whole)].ravel().tolist() == [1, 2]


def test_positions_have_no_gradient() -> None:
    x = double("x", o=3)
    with pytest.raises(wf.WeftError, match="`argmax` does not depend on any parameter"):
        wf.grad_update(wf.argmax(x))


@BACKENDS
def test_windows(backend: str) -> None:
    image = np.random.default_rng(0).normal(size=(2, 6, 4, 3))
    spec = "...|2*h<+p, 2*w<+q, c => ...|h, w, c"
    blocks = image.reshape(2, 3, 2, 2, 2, 3)
    ctx, x = wf.Context(backend), wf.data(image, batch=1)
    for function, expected in ((wf.mean, np.mean), (wf.max, np.max), (wf.var, np.var), (wf.std, np.std)):
        np.testing.assert_allclose(ctx[function(x, spec, p=2, q=2)], expected(blocks, axis=(2, 4)), rtol=1e-12)
    np.testing.assert_allclose(ctx[wf.mean(x, "...|_, w, c => ...|w, c")], image.mean(1), rtol=1e-12)
    np.testing.assert_allclose(ctx[wf.mean(x, "b|h, 2*w+1, c => b|c")], image[:, :, 1::2].mean((1, 2)), rtol=1e-12)
    line = np.random.default_rng(1).normal(size=7)
    overlapping = np.lib.stride_tricks.sliding_window_view(line, 3)
    np.testing.assert_allclose(ctx[wf.var(wf.data(line), "o<+k => o", k=3)], overlapping.var(1), rtol=1e-12)
    np.testing.assert_allclose(
        ctx[wf.logsumexp(wf.data(line), "o<+k => o", k=3)], np.log(np.exp(overlapping).sum(1)), rtol=1e-12
    )


@BACKENDS
def test_the_mean_of_whole_numbers_has_fractions(backend: str) -> None:
    x = wf.data(np.array([[1, 2, 4], [5, 5, 6]], "int32"), batch=1)
    ctx = wf.Context(backend)
    np.testing.assert_allclose(ctx[wf.mean(x)].ravel(), [7 / 3, 16 / 3], rtol=1e-6)
    np.testing.assert_allclose(ctx[wf.var(x)].ravel(), [14 / 9, 2 / 9], rtol=1e-5)
    assert ctx[wf.sum(x)].ravel().tolist() == [7, 16]


def test_lengths_and_deviations_of_nothing_have_a_gradient_of_zero() -> None:
    for function in (wf.norm, wf.std):
        x = double("x", o=3, init=0.0)
        ctx = wf.Context("interp")
        ctx.compile(wf.grad_update(function(x)), keep=[x.grad])()
        assert ctx[x.grad].tolist() == [0, 0, 0]


@BACKENDS
def test_one_hot(backend: str) -> None:
    ctx = wf.Context(backend)
    ids = np.array([[2, 0, 7], [1, -1, 3]])
    wanted = (ids[..., None] == np.arange(4)).astype("int64")
    np.testing.assert_array_equal(ctx[wf.one_hot(wf.data(ids, batch=2), 4)], wanted)
    np.testing.assert_array_equal(ctx[wf.one_hot(wf.data(ids, batch=1), 4, "...|t, c => ...|t")], wanted)
    np.testing.assert_array_equal(ctx[wf.one_hot(wf.data(ids), 4, "i, j, c => i, j")], wanted)
    np.testing.assert_array_equal(ctx[wf.one_hot(wf.data(ids), 4, "c, i, j => i, j")], wanted.transpose(2, 0, 1))
    hot = ctx[wf.one_hot(wf.data(ids, batch=2), 4, dtype="float32")]
    assert hot.dtype == "float32"
    np.testing.assert_array_equal(hot, wanted)
    narrow = wf.one_hot(wf.data(np.array([255, 3], "uint8"), batch=1), 300)
    assert [row.argmax() for row in ctx[narrow]] == [255, 3]


@BACKENDS
def test_one_hot_undoes_argmax(backend: str) -> None:
    x = np.random.default_rng(0).normal(size=(2, 3, 4))
    tensor, spec = wf.data(x, batch=1, input=1), "...|i->o => ...|o"
    found = wf.Context(backend)[wf.one_hot(wf.argmax(tensor, spec), 4, spec)]
    np.testing.assert_array_equal(found, x == x.max(2, keepdims=True))


def test_classes_take_no_memory_of_their_own() -> None:
    x = wf.param("x", o=1000, b=8)
    ids = wf.data(np.arange(8) * 100, batch=1)
    loss = wf.mean(wf.cross_entropy(x, ids), "...|... => 0")
    step = wf.Context("cc").compile(wf.grad_update(loss), keep=[x.grad])
    assert "offsets" not in str(step.memory())
    assert "1000×1000" not in str(step.memory())
    assert "256 bytes; 256 are alive at once" in str(step.memory())  # the largest so far, of each lane


def test_a_softmax_is_a_few_lines(golden: Callable[..., None]) -> None:
    x = wf.data(np.ones((2, 3, 4), "float32"), batch=1, label="x")
    ctx = wf.Context("interp")
    names = {"softmax": wf.softmax, "log_softmax": wf.log_softmax, "var": wf.var, "logsumexp": wf.logsumexp}
    for name, function in names.items():
        golden(ctx.compile(function(x, "...|t, d => ...|t", label="y").forward).show("assign"), name=name)


# Wrong use

X = wf.data(np.ones((2, 3, 4), "float32"), batch=1, label="x")
IDS = wf.data(np.zeros((2, 3), "int64"), batch=1, label="ids")

MISTAKES: dict[str, tuple[Callable[[], object], str, str]] = {
    "an axis by number": (
        lambda: wf.softmax(X, axis=-1),
        "a reduction has no argument `axis`: a spec says what is kept",
        'name the axes, and leave out the reduced ones: wf.sum(x, "...|i, j => ...|i") sums over j, and '
        'wf.softmax(x, "...|i, j => ...|i") comes to 1 over j; "...|i, j => ...|i, 0" keeps j as 1',
    ),
    "kept dimensions": (lambda: wf.mean(X, keepdims=True), "a reduction has no argument `keepdims`", "name the axes"),
    "a size of nothing": (lambda: wf.sum(X, "...|t, d => ...|t", k=3), "the spec has no label `k`", "its labels are t"),
    "two operands": (
        lambda: wf.softmax(X, "i; j => i"),
        "softmax reads one tensor, and the spec has 2 operands",
        'write one: "...|t, d => ...|t"',
    ),
    "windows that are kept": (
        lambda: wf.softmax(X, "...|t, 2*d<+k => ...|t", k=2),
        "softmax is about each element of its operand, and `2*d<+k` does not name an axis of it",
        "give each axis of the operand a name of its own",
    ),
    "a diagonal": (
        lambda: wf.argmax(X, "ii => 0"),
        "argmax is about each element of its operand, and `i` does not name an axis of it",
        "give each axis",
    ),
    "a concatenation": (
        lambda: wf.mean(X, "...|t, a^b => ...|t", a=1),
        "mean takes no concatenation",
        "join or split in an einsum of its own",
    ),
    "ids of fractions": (
        lambda: wf.cross_entropy(X, wf.data(np.ones((2, 1)), batch=1, label="ids")),
        "cross_entropy takes whole numbers as ids, and `ids` is float64",
        'convert them: wf.cast(ids, "int32"), or wf.argmax(ids) of one-hot ones',
    ),
    "ids with an axis of their own": (
        lambda: wf.cross_entropy(X, IDS),
        "cross_entropy takes ids of the shape that its spec results in",
        'say which axes ids have, and which is that of classes: wf.cross_entropy(…, "...|t, c => ...|t")',
    ),
    "one-hot ids": (
        lambda: wf.cross_entropy(X, wf.data(np.zeros((2, 3, 4), int), batch=1, label="ids")),
        "cross_entropy takes ids of the shape that its spec results in",
        "they have the shape of `x`: if they are one-hot, wf.argmax(ids) has their ids",
    ),
    "ids of another size": (
        lambda: wf.cross_entropy(X, wf.data(np.zeros((2, 4), int), batch=1), "...|t, c => ...|t"),
        "cross_entropy takes ids of the shape that its spec results in",
        "say which axes ids have",
    ),
    "ids of more axes": (
        lambda: wf.cross_entropy(X, wf.data(np.zeros((2, 5, 3), int), batch=1), "...|t, c => ...|t"),
        "cross_entropy takes ids of the shape that its spec results in",
        "say which axes ids have",
    ),
    "hot ids with an axis of their own": (
        lambda: wf.one_hot(IDS, 3),
        "one_hot takes ids of the shape that its spec results in",
        'say which axes ids have, and which is that of classes: wf.one_hot(…, "...|t, c => ...|t")',
    ),
    "two new axes": (
        lambda: wf.one_hot(IDS, 3, "...|t, c, d => ...|t"),
        "one_hot makes one axis, and the spec leaves out 2",
        'name one: "...|t, c => ...|t"',
    ),
    "as many classes as a fraction": (
        lambda: wf.one_hot(IDS, 2.5, "...|t, c => ...|t"),  # type: ignore[arg-type]
        "the size of `num_classes` must be a whole number, not 2.5",
        "",
    ),
    "a spec that is a number": (lambda: wf.max(X, 1), "`max` takes text for `spec`, not 1", ""),  # type: ignore[arg-type]
    "a list": (lambda: wf.var([1, 2]), "var takes tensors and numbers, not list [1, 2]", "write the values out"),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("name", MISTAKES)
def test_wrong_use(name: str) -> None:
    mistake, what, fix = MISTAKES[name]
    with pytest.raises(wf.WeftError) as caught:
        mistake()
    assert caught.value.what.startswith(what), caught.value.what
    assert (caught.value.fix or "").startswith(fix), caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_shapes_are_named_where_ids_do_not_fit() -> None:
    with pytest.raises(wf.ShapeError) as caught:
        wf.cross_entropy(X, IDS)
    assert list(caught.value.notes) == ["ids is 2|3", "x is 2|3,4, and results in 2|1"]
    x, ids = wf.input("x", b="batch", o=(5, 4)), wf.input("ids", b="batch", o=5, dtype="int32")
    with pytest.raises(wf.ShapeError, match="takes ids of the shape that its spec results in") as open_sizes:
        wf.cross_entropy(x, ids)
    assert open_sizes.value.notes[0] == "ids is batch|5"


@pytest.mark.parametrize("name", [*REDUCTIONS, *POSITIONS])
def test_what_is_reduced_to_a_number_is_one_wherever_it_is_used(name: str) -> None:
    """It broadcasts where numbers do, and is refused where two of a kind are asked for: no zeros stand beside it."""
    function, numpy = (REDUCTIONS | POSITIONS)[name]
    array = np.array([3.0, 5.0, 4.0])
    one, pair = function(wf.data(array)), wf.data(np.array([1.0, 2.0]))
    meant = np.broadcast_to(numpy(array, 0) if name in POSITIONS else numpy(array, (0,)), 2)
    target, again = (wf.param(label, o=2, init=1.0, dtype="float64") for label in ("target", "again"))

    @wf.cd
    def code() -> None:
        target[:] = function(wf.data(array))
        again.accumulate("+", function(wf.data(array)))

    ctx = wf.Context("interp")
    ctx.compile(code())()
    np.testing.assert_allclose(ctx[target], meant, rtol=1e-12)
    np.testing.assert_allclose(ctx[again], 1 + meant, rtol=1e-12)
    np.testing.assert_allclose(ctx[one * pair], meant * [1, 2], rtol=1e-12)
    for use in (lambda: wf.einsum("i; i => i", one, pair), lambda: one[..., 1], lambda: wf.stack(one, pair)):
        with pytest.raises(wf.WeftError):
            use()
