"""`accum=` of any monoid: against NumPy on both backends, printed and read back, differentiated."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, nan
from typing import Any

import numpy as np
import pytest

import weft as wf

RNG = np.random.default_rng(7)


def log_mean_exp() -> Any:
    return wf.monoid(
        "logmeanexp",
        start=(-inf, 0.0, 0),
        of=lambda x: (x, 1.0, 1),
        combine=lambda a, b: (*joined(a, b), a[2] + b[2]),
        result=lambda state: state[0] + wf.log(state[1] / state[2]),
    )


def joined(a: Any, b: Any) -> Any:
    top = wf.maximum(a[0], b[0])
    return top, a[1] * below(a[0], top) + b[1] * below(b[0], top)


def below(x: Any, top: Any) -> Any:
    return wf.where(wf.equal(x, top), 1.0, wf.exp(x - top))


LENGTH = wf.monoid("length", start=0.0, of=lambda x: x * x, combine=lambda a, b: a + b, result=wf.sqrt)
LAST = wf.monoid(
    "last",
    start=(0.0, -1),
    of=lambda x, position: (x, position),
    combine=lambda a, b: (wf.where(b[1] < 0, a[0], b[0]), wf.where(b[1] < 0, a[1], b[1])),
    result=lambda state: state[0],
)


def np_logsumexp(x: Any, axis: int) -> Any:
    with np.errstate(divide="ignore"):
        return np.log(np.exp(x - x.max(axis, keepdims=True, initial=-1e9)).sum(axis)) + x.max(axis, initial=-1e9)


MEANINGS: dict[Any, Callable[..., Any]] = {
    "logsumexp": np_logsumexp,
    "mean": np.mean,
    "var": np.var,
    "argmax": np.argmax,
    "argmin": np.argmin,
    log_mean_exp: lambda x, axis: np_logsumexp(x, axis) - np.log(x.shape[axis]),
    LENGTH: lambda x, axis: np.sqrt((x * x).sum(axis)),
    LAST: lambda x, axis: np.take(x, -1, axis),
}
TYPES = ("float64", "float32", "float16", "bfloat16", "int32", "int8", "uint8", "bool")


def computed(tensors: list[wf.Tensor], backend: str) -> list[np.ndarray]:
    """The values of tensors that one routine computes."""
    ctx = wf.Context(backend)
    ctx.compile(wf.seq(*(one.forward for one in tensors)))()
    return [np.asarray(ctx[one]) for one in tensors]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_monoids_give_what_numpy_gives_along_any_axis_in_any_type(backend: str) -> None:
    tensors, wanted, names = list[wf.Tensor](), list[Any](), list[str]()
    for dtype in TYPES:
        array = RNG.integers(0, 100, (3, 70)).astype(np.float64) / (1 if dtype[0] in "iub" else 16)
        x = wf.data(array.astype(wf.ops.dtypes.numpy_type(dtype)), label="x")
        stored = np.asarray(x.node.init.array).astype(np.float64)
        for accum, meaning in MEANINGS.items():
            for axis, spec in enumerate(("ij => j", "ij => i")):
                if axis == 0 and dtype not in ("float32", "int8"):
                    continue
                made = accum() if accum is log_mean_exp else accum
                tensors.append(wf.einsum(spec, x, accum=made))
                wanted.append(meaning(stored, axis=axis))
                names.append(f"{made} {dtype} {spec}")
    for name, found, value in zip(names, computed(tensors, backend), wanted, strict=True):
        narrow = 2e-2 if "bfloat16" in name else 2e-3 if "float16" in name else 2e-5
        whole = found.dtype.kind in "iu"
        np.testing.assert_allclose(
            found.astype(np.float64), np.floor(value) if whole else value, rtol=narrow, atol=narrow, err_msg=name
        )


def test_of_nothing_there_is_what_a_start_comes_to_or_an_error() -> None:
    x = wf.data(np.ones((3, 0), np.float32), label="x")
    tensors = [wf.einsum("ij => i", x, accum=accum) for accum in ("logsumexp", "mean", "var", LENGTH)]
    found = computed(tensors, "cc")
    assert [one.tolist() for one in found[:1]] == [[-inf] * 3]
    assert [np.isnan(one).all() for one in found[1:3]] == [True, True]
    assert found[3].tolist() == [0.0] * 3
    with pytest.raises(wf.ProjectionError, match="`argmax` of no values: there are no more along `j`"):
        wf.Context("interp")[wf.einsum("ij => i", x, accum="argmax")]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_infinities_and_nans_are_what_numpy_makes_of_them(backend: str) -> None:
    rows = [[1, nan, 3], [inf, inf, 1], [-inf, -inf, -inf], [2, 5, 5], [nan, nan, 0], [-inf, 3, -inf]]
    x = wf.data(np.repeat(np.array(rows, np.float32), [1, 20, 40], axis=1), label="x")
    sums, most, least = computed(
        [wf.einsum("ij => i", x, accum=one) for one in ("logsumexp", "argmax", "argmin")], backend
    )
    array = np.repeat(np.array(rows), [1, 20, 40], axis=1)
    with np.errstate(all="ignore"):
        wanted = np.logaddexp.reduce(array, axis=1)
    np.testing.assert_allclose(sums, wanted, rtol=1e-5)
    assert most.tolist() == array.argmax(1).tolist()
    assert least.tolist() == array.argmin(1).tolist()


def test_positions_count_the_reduced_labels_in_order() -> None:
    array = RNG.standard_normal((2, 3, 4, 5)).astype(np.float32)
    x = wf.data(array, label="x")
    specs = {
        "abcd => a": (0, 1, 2, 3),
        "abcd => b": (1, 0, 2, 3),
        "abcd => 0": (0, 1, 2, 3),
        "abcd => cb": (2, 1, 0, 3),
    }
    found = computed([wf.einsum(spec, x, accum="argmax") for spec in specs], "cc")
    for (spec, axes), positions in zip(specs.items(), found, strict=True):
        kept = len(spec.split(" => ")[1].replace("0", ""))
        moved = array.transpose(axes)
        assert positions.ravel().tolist() == moved.reshape(*moved.shape[:kept], -1).argmax(-1).ravel().tolist()


def test_windows_and_padding_accumulate_what_is_there() -> None:
    array = RNG.standard_normal(9).astype(np.float32)
    x = wf.data(array, label="x")
    found = computed([wf.einsum(spec, x, accum="mean", w=3) for spec in ("2*o<+w => o", "o=+w => o")], "cc")
    np.testing.assert_allclose(found[0], [array[at : at + 3].mean() for at in range(0, 8, 2)], rtol=1e-5)
    wanted = [array[max(at - 1, 0) : at + 2].mean() for at in range(9)]
    np.testing.assert_allclose(found[1], wanted, rtol=1e-5)


def test_code_prints_and_reads_back(golden: Any) -> None:
    x = wf.data(np.ones((3, 200), np.float32), batch=1, label="x")
    y = wf.einsum("...|i => ...|0", x, accum=log_mean_exp(), label="y")
    ctx = wf.Context("cc")
    routine = ctx.compile(y.forward)
    text = str(y.forward)
    assert text == 'y =:{logmeanexp} x ~logic:"...|i => ...|0"'
    assert "=:{logmeanexp} x ~logic" in str(wf.parse_cd(text, x=x, y=wf.node("y", b=[3], o=[1])))
    golden(f"{routine.show('loops')}\n\n{routine.show('kernels')}")


def test_a_monoid_goes_on_only_if_its_state_is_its_result() -> None:
    x = wf.data(np.arange(6, dtype=np.float32), label="x")
    total, y = wf.monoid("total", start=0.0, combine=lambda a, b: a + b), wf.node("y", o=[1])

    @wf.cd
    def twice() -> None:
        y.accumulate(total, wf.einsum("i => 0", x, accum=total), reset=True)
        y.accumulate(total, wf.einsum("i => 0", x, accum="max"))

    ctx = wf.Context("cc")
    ctx.compile(twice())()
    assert ctx[y].tolist() == [20.0]

    @wf.cd
    def wrong() -> None:
        y.accumulate("mean", x)

    with pytest.raises(wf.WeftError, match="`mean` cannot go on from a result"):
        wrong()


def test_what_computes_another_thing_under_the_same_name_is_compiled_anew() -> None:
    x = wf.data(np.arange(1, 5, dtype=np.float32), label="x")
    found = []
    for start, combine in ((0.0, lambda a, b: a + b), (1.0, lambda a, b: a * b)):
        one = wf.monoid("folded", start=start, combine=combine)
        found.append(float(wf.Context("cc")[wf.einsum("i => 0", x, accum=one)][0]))
    assert found == [10.0, 24.0]


@pytest.mark.parametrize("accum", ["logsumexp", "mean", "var"])
def test_gradients_of_first_and_second_order(accum: str) -> None:
    x = wf.require_grad(wf.data(RNG.standard_normal((3, 4)), label="x"))
    y = wf.einsum("...|... => 0", wf.sin(wf.einsum("ij => i", x * x, accum=accum)))
    wf.gradcheck(y, x)
    wf.gradcheck(wf.einsum("...|... => 0", wf.sin(wf.grad(y, x))), x)


ROTATED = wf.monoid(
    "rotated",
    start=(1.0, 0.0),
    of=lambda x: (wf.cos(x), wf.sin(x)),
    combine=lambda a, b: (a[0] * b[0], a[1] * b[0] + b[1]),
    result=lambda state: state[0] + state[1],
)


def test_any_monoid_is_differentiated_by_what_it_is_made_of() -> None:
    """By joins of odd and even numbers of values, of one, over several axes, where their order matters and not."""
    for shape, spec in (((2, 5), "...|i => ...|0"), ((2, 1, 3), "...|... => 0")):
        x = wf.require_grad(wf.data(RNG.standard_normal(shape), batch=1, label="x"))
        results = [wf.einsum(spec, x, accum=one) for one in (log_mean_exp(), LENGTH, LAST, ROTATED)]
        y = sum(wf.einsum("...|... => 0", wf.sin(one)) for one in results)
        wf.gradcheck(y, x)
        wf.gradcheck(wf.einsum("...|... => 0", wf.sin(wf.grad(y, x))), x)


def test_a_step_descends_by_the_gradient_of_a_monoid() -> None:
    w = wf.param("w", o=5, init=[0.0, 1.0, 2.0, 3.0, 4.0])
    ctx = wf.Context("cc")
    ctx.compile(wf.grad_update(wf.einsum("i => 0", w, accum=log_mean_exp())))()
    weights = np.exp(np.arange(5.0))
    np.testing.assert_allclose(ctx[w.grad], weights / weights.sum(), rtol=1e-5)


def test_gradients_of_what_is_computed_and_accumulated_at_once() -> None:
    """Products, lookups, windows, axes in one, diagonals: against differences of the accumulation itself."""
    table, line, both = (
        wf.require_grad(wf.data(RNG.standard_normal(shape), label="x")) for shape in ((3, 2), (5,), (2, 3, 2))
    )
    ids = wf.data(np.array([[2, 0, 2]]), batch=2, label="ids")
    y = wf.number(0.0)
    for one in (ROTATED, wf.top(2)):
        k = ", k" * (one is wf.top(2))
        parts = [
            wf.einsum(f"v, d; b, s|@v => b|d{k}", table, ids, accum=one),
            wf.einsum(f"2*h<+p => h{k}", line, p=3, accum=one),
            wf.einsum(f"i, j, m; j, m => i{k}", both, table, accum=one, op="+"),
            wf.einsum(f"a&b => b{k}", line[:4], b=2, accum=one),
            wf.einsum(f"i, i, j => j{k}", both[:, :2], accum=one),
        ]
        y = sum((wf.sum(wf.sin(part), "...|... => 0") for part in parts), y)
    wf.gradcheck(y, (table, line, both), context=wf.Context("interp"))


def test_a_gradient_that_cannot_be_derived_says_why() -> None:
    x = wf.require_grad(wf.data(np.ones((3, 4), np.float32), label="x"))
    ids, more = wf.data(np.array([0, 2, 0]), label="ids"), wf.data(np.ones((2, 4)), label="more")
    for y, why, fix in (
        (wf.einsum("i, j; i@v => v<+j", x, ids, v=3, accum=LENGTH), "where a position and a window say", "of its own"),
        (wf.einsum("i, a^b => i", x, a=1, accum=LENGTH), "axes that are joined or split", "einsum of its own"),
        (wf.einsum("i, j; j => i", x, more, accum=LENGTH), "along axes of `more` that no part writes", "name"),
    ):
        with pytest.raises(wf.WeftError, match=why) as refused:
            wf.grad(wf.einsum("...|... => 0", y), x)
        assert fix in refused.value.fix


def _scattered(spec: str, sizes: tuple[int, ...], ids: Any, *more: Any, batch: int = 1, **given: Any) -> Any:
    """A scatter by any monoid of learned values: what it gives, and the values."""
    x = wf.require_grad(wf.data(RNG.standard_normal(sizes) + 0.1, batch=batch, label="x"))
    held = [wf.data(np.array(one), batch=np.ndim(one), label="ids") for one in (ids, *more)]
    return lambda monoid: (wf.einsum(spec, x, *held, accum=monoid, **given), x)


_IDS, _STRAYS = [2, 0, 2, 2, 0, 4], [2, -1, 9, 2, 0, 4]
SCATTERS = {
    "rows": _scattered("...|d; ...|@v => v, d", (6, 2), _IDS, v=5),
    "numbers": _scattered("n|0; n|@v => v", (6,), _IDS, v=5),
    "in each of a batch": _scattered("b, n|d; b, n|@v => b|v, d", (2, 3, 4), [[2, 0, 2], [1, 1, 4]], batch=2, v=5),
    "several axes at once": _scattered("b, n|d; b, n|@v => v, d", (2, 3, 4), [[2, 0, 2], [1, 1, 4]], batch=2, v=5),
    "along more than positions": _scattered("b, n|d; n|@v => d, v", (2, 3, 4), [2, 0, 2], batch=2, v=3),
    "along positions alone": _scattered("d; n|@v => v, d", (4,), _IDS, batch=0, v=5),
    "none": _scattered("n|d; n|@v => v, d", (6, 2), _STRAYS, v=5, outside="skip"),
    "the nearest": _scattered("n|d; n|@v => v, d", (6, 2), _STRAYS, v=5, outside="clip"),
    "two axes": _scattered("n|d; n|@v; n|@w => v, w, d", (6, 2), _STRAYS, [1, 1, 1, 1, 0, 3], v=3, w=3, outside="skip"),
    "two axes as one": _scattered("n|d; n|@v; n|@w => v&w, d", (4, 2), [2, 1, 2, 0], [1, 0, 1, 2], v=3, w=3),
    "looked up there too": _scattered("v, d; n|@v => v, d", (5, 2), _IDS, batch=0),
    "one to a cell": _scattered("n|d; n|@v => n|v, d", (6, 2), _IDS, v=5),
    "spread": _scattered("n|d; n|@v => 2*v, d", (6, 2), _IDS, v=5),
    "padded windows": _scattered("n|d=+k; n|@v => v, d", (6, 4), _IDS, v=5, k=3),
}


@pytest.mark.parametrize("backend", ["interp", "cc"])
@pytest.mark.parametrize("name", SCATTERS)
def test_gradients_of_what_is_scattered_by_a_monoid(name: str, backend: str) -> None:
    """Where positions repeat, where none is, in order: against differences, of cells that have a finite result."""
    ctx = wf.Context(backend)
    for monoid in (LENGTH, LAST, log_mean_exp(), ROTATED):
        y, x = SCATTERS[name](monoid)
        values = ctx[y]
        there = wf.data(np.isfinite(values) & (values != 0), batch=len(y.dims.batch), label="there")
        loss = wf.sum(wf.sin(wf.where(there, y, 0.0)), "...|... => 0")
        wf.gradcheck(loss, x, context=ctx)
        if name == "rows":
            wf.gradcheck(wf.sum(wf.sin(wf.grad(loss, x)), "...|... => 0"), x, context=ctx)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_gradients_of_the_largest_of_what_is_scattered(backend: str) -> None:
    ids = wf.data(np.array([2, 0, 2, 2, 0, 4]), batch=1, label="ids")
    x = wf.require_grad(wf.data(np.array([3.0, 1.0, 5.0, 4.0, 2.0, 6.0]), batch=1, label="x"))
    best = wf.einsum("n|0; n|@v => v, k", x, ids, v=5, accum=wf.top(2))
    weights = wf.data(np.arange(10.0).reshape(5, 2), label="weights")
    found = wf.Context(backend)[wf.grad(wf.sum(best * weights, "...|... => 0"), x)]
    assert found.ravel().tolist() == [0, 1, 4, 5, 0, 8]


def test_gradients_of_a_scatter_whose_sizes_a_call_decides() -> None:
    xs, ids = wf.input("xs", b="batch", o=2), wf.input("ids", b="batch", dtype="int32")
    p = wf.param("p", o=2, init=1.0)
    y = wf.einsum("...|d; ...|@v => v, d", xs * p, ids, v=3, accum=LENGTH)
    taken = wf.einsum("v, d; b|@v => b|d", y, ids)
    slope = wf.Context("cc").function(xs, ids, returns=wf.grad(wf.sum(taken, "...|... => 0"), p))
    for count in (1, 4):
        values, at = RNG.standard_normal((count, 2)), np.arange(count, dtype=np.int32) % 3
        lengths = np.sqrt([(values[at == one] ** 2).sum(0) for one in at])  # which grow with p as it does
        np.testing.assert_allclose(slope(values, at), lengths.sum(0), rtol=1e-5)


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_the_largest_few_in_order(backend: str) -> None:
    array = RNG.integers(0, 40, (4, 70)).astype(np.float32)
    array[1, 5], array[1, 2], array[1, 9], array[2, :], array[3, 7] = nan, inf, nan, 1, -inf
    whole = RNG.integers(-100, 100, (4, 40)).astype(np.int8)
    x, y, tensors = wf.data(array, label="x"), wf.data(whole, label="y"), list[wf.Tensor]()
    order = np.lexsort((-array, ~np.isnan(array)), axis=1)
    least = np.argsort(-whole.astype(int), axis=1, kind="stable")
    wanted = list[np.ndarray]()
    for k in (1, 5):
        tensors += [*wf.top_k(x, k), *wf.top_k(y, k), wf.einsum("bv => kb", y, accum=wf.top(k))]
        tensors.append(wf.einsum("bv => bk", x, accum=wf.top(k)))
        first, values = np.take_along_axis(array, order[:, :k], 1), np.take_along_axis(whole, least[:, :k], 1)
        wanted += [first, order[:, :k], values, least[:, :k], values.T, first]
    for found, value in zip(computed(tensors, backend), wanted, strict=True):
        np.testing.assert_array_equal(found, value)


def test_top_says_what_it_needs() -> None:
    x = wf.data(np.ones((2, 3), np.float32), label="x")
    with pytest.raises(wf.WeftError, match="the 1 to 32 largest, not 0"):
        wf.top(0)
    with pytest.raises(wf.EinsumError, match="`top2` makes 2 numbers, along a label of the result"):
        wf.einsum("bv => b", x, accum=wf.top(2))
    with pytest.raises(wf.ProjectionError, match="`top4` of 3 values"):
        wf.Context("interp")[wf.einsum("bv => bk", x, accum=wf.top(4))]


def test_a_position_has_no_gradient() -> None:
    x = wf.require_grad(wf.data(np.ones(3, np.float32), label="x"))
    assert not wf.einsum("i => 0", x, accum="argmax").differentiable


def test_unknown_accumulations_say_what_there_is() -> None:
    x = wf.data(np.ones(3, np.float32), label="x")
    with pytest.raises(wf.WeftError, match=r"logsumexp, mean, var, argmax, argmin.*or declare another"):
        wf.einsum("i => 0", x, accum="median")
    with pytest.raises(wf.WeftError, match="there is no"):
        wf.einsum("i; i => 0", x, x, op="logsumexp")


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_values_are_scattered_into_states(backend: str) -> None:
    values, ids = RNG.standard_normal(20), RNG.integers(0, 4, 20)
    x, places = wf.require_grad(wf.data(values, label="x")), wf.data(ids, label="ids")
    means, sums = (wf.einsum("b; b@v => v", x, places, accum=one, v=5) for one in ("mean", "logsumexp"))
    found = computed([means, sums], backend)
    np.testing.assert_allclose(found[0][:4], [values[ids == at].mean() for at in range(4)])
    np.testing.assert_allclose(found[1], [np.logaddexp.reduce(values[ids == at], initial=-inf) for at in range(5)])


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_positions_of_what_is_scattered_are_those_of_the_updates(backend: str) -> None:
    """The first of equal ones, counted along all labels left out; -1 where nothing comes to, also if all is skipped."""
    values, ids = RNG.integers(0, 4, (4, 5, 2)).astype(np.float32), RNG.integers(-1, 4, (4, 5))
    x, places = wf.data(values, batch=2, label="x"), wf.data(ids, batch=2, label="ids")
    spec = "b, s|d; b, s|@v => v, d"
    most, least, best = (
        wf.einsum(spec + r, x, places, accum=one, v=5, outside="skip")
        for one, r in (("argmax", ""), ("argmin", ""), (wf.top(2), ", k"))
    )
    found = computed([most, least, best], backend)
    flat, place = values.reshape(-1, 2), ids.ravel()
    for v, d in np.ndindex(5, 2):
        (there,) = np.nonzero(place == v)
        own = flat[there, d]
        assert found[0][v, d] == (there[own.argmax()] if len(own) else -1)
        assert found[1][v, d] == (there[own.argmin()] if len(own) else -1)
        assert [*found[2][v, d]] == [*sorted(own, reverse=True), -inf, -inf][:2]


def test_ranks_of_what_is_scattered_are_no_axis_that_positions_say() -> None:
    """Also where that is as long, and values do not differ along what positions lie along."""
    x, places = wf.data(np.array([3.0, 5.0]), label="x"), wf.data(np.array([1, 1, 0]), batch=1, label="ids")
    y = wf.einsum("d; b|@v => v, d, k", x, places, v=2, accum=wf.top(2))
    assert wf.Context("interp")[y].tolist() == [[[3, -inf], [5, -inf]], [[3, 3], [5, 5]]]


def test_parts_of_a_concatenation_have_no_positions() -> None:
    x = wf.data(np.ones((3, 4), np.float32), label="x")
    for spec, operands in (("i, a^b => i", [x]), ("i, a; i, b => a^b", [x, x])):
        with pytest.raises(wf.EinsumError, match="`argmax` asks where values stand") as refused:
            wf.einsum(spec, *operands, accum="argmax", a=1)
        assert "in an einsum of its own" in refused.value.fix
    assert wf.Context("interp")[wf.einsum("i, 1^a => i", x, accum="argmax")].tolist() == [0, 0, 0]
