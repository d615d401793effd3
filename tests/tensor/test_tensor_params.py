"""Parameters: how big they are, what they start with."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.tensor.params import random_key


@pytest.fixture(autouse=True)
def _seeded() -> Iterator[None]:
    wf.seed(0)
    yield
    wf.seed(0)


def value(tensor: wf.Tensor) -> np.ndarray:
    return wf.Context("interp")[tensor]


SIZES = [
    ({"o": 3}, "3"),
    ({"o": (3, 4)}, "3,4"),
    ({"o": [3, 4]}, "3,4"),
    ({"i": 2, "o": 3}, "2->3"),
    ({"b": 5, "i": 2, "o": 3}, "5|2->3"),
    ({"b": (5, 6), "i": (2, 1), "o": 3}, "5,6|2,1->3"),
    ({"o": {"rgb": 3}}, "rgb=3"),
    ({"o": {"x": 3, "y": 4}}, "x=3,y=4"),
    ({"o": wf.Dim(3, "rgb")}, "rgb=3"),
    ({"i": {"hid": 2}, "o": (wf.Dim(3, "rgb"), 4)}, "hid=2->rgb=3,4"),
]


@pytest.mark.parametrize(("sizes", "shape"), SIZES)
def test_sizes_that_are_given(sizes: dict[str, object], shape: str) -> None:
    param = wf.param("w", **sizes)  # type: ignore[arg-type]
    assert str((param * 1.0).dims) == shape
    assert str(param.dims) == shape
    assert value(param).shape == param.dims.array_shape


def test_sizes_that_are_inferred() -> None:
    w, b = wf.param("w"), wf.param("b", o=4)
    y = w @ wf.data(np.ones((5, 3)), batch=1) + b
    assert [str(one.dims) for one in (y, w, b)] == ["5|4", "3->4", "4"]


def test_labels_of_axes_are_inferred_and_clash() -> None:
    w = wf.param("w", o={"rgb": 3})
    x = wf.param("x", o=3)
    y = w + x
    assert str(y.dims) == "rgb=3"
    with pytest.raises(wf.ShapeError):
        y * wf.param("v", o={"hsv": 3})


def test_a_parameter_nothing_determines_is_an_error() -> None:
    w = wf.param("w")
    x = wf.einsum("ij=>i", w) * wf.data(np.ones(2))
    with pytest.raises(wf.UnderdeterminedShapeError, match="`w`"):
        value(x)


def test_init_by_number_and_by_list() -> None:
    assert value(wf.param("a", o=3, init=0.5)).tolist() == [0.5, 0.5, 0.5]
    assert value(wf.param("a", init=[1, 2, 3])).tolist() == [1.0, 2.0, 3.0]
    assert value(wf.param("a", init=[[1, 2], [3, 4]], i=2, o=2)).tolist() == [[1, 2], [3, 4]]
    assert value(wf.param("a", init=np.arange(4.0))).tolist() == [0, 1, 2, 3]
    assert value(wf.param("a", o=2, init=1)).dtype == np.float32
    assert value(wf.param("a", o=2, init=0.1, dtype="float64")).tolist() == [0.1, 0.1]


def test_init_by_list_gives_the_shape() -> None:
    a, b = wf.param("a", init=[-4.0]), wf.param("b", init=[2.0])
    assert value(a + b).tolist() == [-2.0]


LITERALS = {
    "rows of tuples": ([(1, 2, 3), (4, 5, 6)], "3->2", [[1, 2, 3], [4, 5, 6]]),
    "a tuple": ((1, 2), "2->1", [[1, 2]]),
    "a batch": (wf.batch([1, 2], [3, 4]), "2|2", [[1, 2], [3, 4]]),
    "labels": (wf.labelled("rgb", [1, 2, 3]), "rgb=3", [1, 2, 3]),
    "a labelled axis inside": ([wf.labelled("q", (1, 2))], "q=2->1", [[1, 2]]),
    "a literal tensor": (wf.tensor([(1, 2), (3, 4)]), "2->2", [[1, 2], [3, 4]]),
    "an expression": (wf.tensor([1, 2]) * 3 + 1, "2", [4, 7]),
    "a product": (wf.tensor([(1, 2), (3, 4)]) @ wf.tensor([1, 1]), "2", [3, 7]),
    "data": (wf.data(np.array([[1.0], [2.0]]), batch=1) + 1, "2|1", [[2], [3]]),
    "tensors inside": ([wf.data(np.array([1.0, 2.0])), wf.tensor([5, 6])], "2,2", [[1, 2], [5, 6]]),
    "an array": (np.array([[1, 2], [3, 4]]), "2,2", [[1, 2], [3, 4]]),
}


@pytest.mark.parametrize("name", LITERALS)
def test_init_is_the_literal_it_looks_like(name: str) -> None:
    init, shape, values = LITERALS[name]
    w = wf.param("w", init=init)
    assert value(w).tolist() == values
    assert str(w.dims) == shape
    assert value(wf.param("w", init=init) * 2).tolist() == (2 * np.array(values)).tolist()


LYING = [
    ({"o": 2}, "3->2"),
    ({"i": 3}, "3->2"),
    ({"b": 2}, "2|3"),
    ({"o": 2, "i": 3}, "3->2"),
    ({"b": 2, "i": 3}, "2|3->1"),
    ({"o": (2, 3)}, "2,3"),
    ({"o": {"rgb": 2}}, "3->rgb=2"),
    ({"b": 2, "square": True}, "2|3->3"),
]


@pytest.mark.parametrize(("rows", "shape"), LYING)
@pytest.mark.parametrize("kind", [np.array, list])
def test_beside_given_rows_arrays_and_lists_lie_as_in_memory(kind: type, rows: dict[str, Any], shape: str) -> None:
    numbers = [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]
    if shape == "2|3->1":
        numbers = [[[1.0, 2.0, 3.0]], [[4.0, 5.0, 6.0]]]
    if shape == "2|3->3":
        numbers = [[[1.0, 2.0, 3.0]] * 3, [[4.0, 5.0, 6.0]] * 3]
    w = wf.param("w", init=kind(numbers), **rows)
    assert str(w.dims) == shape
    assert value(w).tolist() == numbers


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_first_value_may_be_computed_from_data(backend: str) -> None:
    """Also where the parameter is only read inside a routine, and set before, and trained."""
    start = wf.data(np.array([1.0, 2.0]), label="start")
    w, v = wf.param("w", init=2 * start), wf.param("v", init=start + wf.number(1.0))
    ctx, loss = wf.Context(backend), wf.einsum("i;i=>0", w, v)
    ctx[v] = [10.0, 20.0]
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.5)))
    step()
    assert ctx[loss].tolist() == [2 * 10 + 4 * 20]
    assert ctx[w].tolist() == [2 - 5, 4 - 10]
    assert ctx[v].tolist() == [10 - 1, 20 - 2]


INITIALISERS = {
    "kaiming, scaled": (wf.kaiming(scale=3.0), 0.0, 9 * 2 / 50),
    "kaiming, normal": (wf.kaiming(distribution="normal"), 0.0, 2 / 50),
    "xavier, normal and scaled": (wf.xavier(scale=0.5, distribution="normal"), 0.0, 0.25 * 2 / (50 + 400)),
    "uniform": (wf.uniform(-1, 3), 1.0, 16 / 12),
    "uniform, by name": (wf.uniform, 0.5, 1 / 12),
    "normal": (wf.normal(2.0, 0.5), 2.0, 0.25),
    "normal, by name": (wf.normal, 0.0, 1.0),
    "kaiming": (wf.kaiming(), 0.0, 2 / 50),
    "kaiming, by name": (wf.kaiming, 0.0, 2 / 50),
    "xavier": (wf.xavier(), 0.0, 2 / (50 + 400)),
    "nothing said": (None, 0.0, 1 / 50),
}


@pytest.mark.parametrize("name", INITIALISERS)
def test_initialisers(name: str) -> None:
    init, mean, variance = INITIALISERS[name]
    numbers = value(wf.param("w", i=50, o=400, init=init))
    assert abs(numbers.mean() - mean) < 5 * np.sqrt(variance / numbers.size)
    assert numbers.var() == pytest.approx(variance, rel=0.05)
    assert len(np.unique(numbers)) > 0.95 * numbers.size


def test_uniform_numbers_stay_inside() -> None:
    numbers = value(wf.param("w", o=10_000, init=wf.uniform(-1, 3)))
    assert -1 <= numbers.min() < -0.99
    assert 2.99 < numbers.max() <= 3


def test_normal_numbers_are_normal() -> None:
    numbers = value(wf.param("w", o=40_000, init=wf.normal))
    shares = [np.mean(np.abs(numbers) < bound) for bound in (1, 2, 3)]
    np.testing.assert_allclose(shares, [0.6827, 0.9545, 0.9973], atol=0.01)


def test_init_by_a_function_of_one_s_own() -> None:
    doubled = value(wf.param("w", o=5, init=lambda cell: cell.uniform() * 2.0))
    wf.seed(0)
    np.testing.assert_array_equal(doubled, 2 * value(wf.param("w", o=5, init=wf.uniform)))


def test_a_parameter_without_inputs_starts_small() -> None:
    numbers = value(wf.param("b", o=1000))
    assert 0.09 < np.abs(numbers).max() <= 0.1


def test_the_same_seed_gives_the_same_numbers() -> None:
    first = value(wf.param("w", o=8))
    wf.seed(1)
    other = value(wf.param("w", o=8))
    assert (other != first).all()
    wf.seed(0)
    np.testing.assert_array_equal(value(wf.param("w", o=8)), first)


def test_the_seed_is_that_of_the_process() -> None:
    """A thread sees the seed that another set, and what one drew the other does not draw again."""
    wf.seed(7)
    first, second = value(wf.param("w", o=8)), value(wf.param("w", o=8))
    wf.seed(7)
    with ThreadPoolExecutor(1) as pool:
        np.testing.assert_array_equal(pool.submit(lambda: value(wf.param("w", o=8))).result(), first)
        np.testing.assert_array_equal(value(wf.param("w", o=8)), second)
        pool.submit(wf.seed, 7).result()
        np.testing.assert_array_equal(value(wf.param("w", o=8)), first)


def test_threads_that_draw_at_once_never_draw_the_same() -> None:
    def draw(_: int) -> list[int]:
        return [random_key("w") for _ in range(200)]

    before = sys.getswitchinterval()
    try:
        sys.setswitchinterval(1e-6)
        with ThreadPoolExecutor(4) as pool:
            keys = [key for some in pool.map(draw, range(4)) for key in some]
    finally:
        sys.setswitchinterval(before)
    assert len(set(keys)) == 800
    wf.seed(0)
    assert set(keys) == {random_key("w") for _ in range(800)}


def test_two_parameters_of_one_name_differ() -> None:
    first, second = wf.param("w", o=8), wf.param("w", o=8)
    assert (value(first) != value(second)).all()


def test_different_names_differ() -> None:
    assert (value(wf.param("w", o=8)) != value(wf.param("v", o=8))).all()


def test_known_numbers() -> None:
    """The numbers every backend must give."""
    wf.seed(42)
    numbers = value(wf.param("w", o=4, init=wf.uniform))
    assert (numbers * 2**24).astype(int).tolist() == [4412848, 14133371, 13418640, 14123293]


def test_seeding_after_a_parameter_was_made_does_not_change_it() -> None:
    w = wf.param("w", o=8)
    wf.seed(1)
    first = value(w)
    wf.seed(0)
    np.testing.assert_array_equal(first, value(wf.param("w", o=8)))
    np.testing.assert_array_equal(value(w), first)


def test_contexts_agree_and_are_independent() -> None:
    w = wf.param("w", o=3)
    first, second = wf.Context("interp"), wf.Context("interp")
    np.testing.assert_array_equal(first[w], second[w])
    first[w] = [1.0, 2.0, 3.0]
    assert second[w].tolist() != [1.0, 2.0, 3.0]


def test_layers_name_the_randomness_of_their_parameters() -> None:
    @wf.op
    def layer(x: wf.Tensor) -> wf.Tensor:
        return "w" * x

    def start(label: str) -> np.ndarray:
        made = layer(label=label)
        made(wf.data(np.ones(5)))
        return value(made.params[0])

    first, second = start("A"), start("B")
    assert (first != second).all()
    wf.seed(0)
    np.testing.assert_array_equal(start("B"), second)
    np.testing.assert_array_equal(start("A"), first)


REFUSED = [
    ({"name": ""}, "a parameter needs a name, not ''"),
    ({"name": 3}, "`param` takes text for `name`, not 3"),
    ({"o": 0}, "an axis cannot have size 0"),
    ({"o": -1}, "an axis cannot have size -1"),
    ({"o": "three"}, "the size of o= must be a whole number, not 'three'"),
    ({"i": (2, True)}, "the size of i= must be a whole number, not True"),
    ({"o": 2, "init": "zeros"}, "`init` of parameter `w` is 'zeros'"),
    ({"o": 2, "init": True}, "`init` of parameter `w` is True"),
    ({"o": 2, "init": lambda cell: None}, "the initialiser of parameter `w` returned NoneType"),
    ({"o": 2, "init": lambda shape: np.ones(shape)}, "the initialiser of parameter `w` raised TypeError: "),
    ({"o": 2, "init": lambda shape: np.ones(3)}, "the initialiser of parameter `w` returned ndarray"),
    ({"o": 3, "init": [(1, 2, 3)]}, "the literal is 3->1, which is not what `o=` says"),
    ({"init": [(1, 2), (3,)]}, "the items of a literal have different shapes"),
    ({"init": wf.param("v", o=2) * 2}, "`init` of parameter `w` depends on `v`, which changes while code runs"),
    ({"init": wf.constant(wf.index("n", 3))}, "`init` of parameter `w` depends on `n`, which changes while code runs"),
    ({"init": wf.node("m") + 1}, "`init` of parameter `w` depends on `m`, which changes while code runs"),
    ({"init": wf.given(wf.data([1.0], label="d"))}, "`init` of parameter `w` depends on `d`, which changes"),
]


@pytest.mark.parametrize(("options", "message"), REFUSED)
def test_parameters_that_are_refused(options: dict[str, object], message: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.param(**{"name": "w", **options})  # type: ignore[arg-type]
    assert caught.value.what.startswith(message)
    assert str(caught.value).startswith("test_tensor_params.py:")


def test_a_list_of_the_wrong_length_is_refused() -> None:
    with pytest.raises(wf.ShapeError, match=r"`w` is 3, in memory .3,., and cannot be set to an array of .2,."):
        value(wf.param("w", o=3, init=[1, 2]))


@pytest.mark.parametrize("seed", ["a", 1.5, True, None])
def test_seeds_that_are_refused(seed: object) -> None:
    with pytest.raises(wf.WeftError, match="a seed is a whole number, not "):
        wf.seed(seed)  # type: ignore[arg-type]


def test_distributions_that_are_refused() -> None:
    with pytest.raises(wf.WeftError, match="there is no distribution 'cauchy' to draw from"):
        wf.kaiming(distribution="cauchy")  # type: ignore[arg-type]
    with pytest.raises(wf.WeftError, match="takes a number for `scale`, not 'large'"):
        wf.xavier("large")  # type: ignore[arg-type]


def test_what_is_drawn_around_zero_is_drawn_from_what_was_asked() -> None:
    normal = value(wf.param("w", i=50, o=400, init=wf.kaiming(distribution="normal")))
    uniform = value(wf.param("w", i=50, o=400, init=wf.kaiming()))
    assert np.abs(uniform).max() <= np.sqrt(6 / 50) < np.abs(normal).max()
