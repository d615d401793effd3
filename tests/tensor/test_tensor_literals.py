"""Tensors that are given: literals, blocks of tensors, data, numbers, constants."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf


def value(tensor: wf.Tensor) -> np.ndarray:
    return wf.Context("interp")[tensor]


LITERALS = [
    ([1, 2, 3], "3", [1, 2, 3]),
    ((1, 2, 3), "3->1", [[1, 2, 3]]),
    (wf.batch(1, 2), "2|1", [[1], [2]]),
    (wf.batch([1, 2]), "2|1", [[1], [2]]),
    (wf.batch([1, 2], [3, 4]), "2|2", [[1, 2], [3, 4]]),
    ([(1, 2, 3), (4, 5, 6)], "3->2", [[1, 2, 3], [4, 5, 6]]),
    ([[1, 2], [3, 4]], "2,2", [[1, 2], [3, 4]]),
    (wf.batch([(1, 2)], [(3, 4)]), "2|2->1", [[[1, 2]], [[3, 4]]]),
    (wf.batch(wf.batch(1, 2), wf.batch(3, 4)), "2,2|1", [[[1], [2]], [[3], [4]]]),
    (wf.labelled("rgb", [1, 2, 3]), "rgb=3", [1, 2, 3]),
    (wf.labelled("rgb", [(1, 2), (3, 4), (5, 6)]), "2->rgb=3", [[1, 2], [3, 4], [5, 6]]),
    ([wf.labelled("xy", (1, 2))], "xy=2->1", [[1, 2]]),
    (wf.labelled("time", wf.batch([1], [2])), "time=2|1", [[1], [2]]),
    ([[-4.0]], "1,1", [[-4.0]]),
    (5, "1", [5]),
    ([True, False], "2", [1, 0]),
    ([np.float32(1.5), np.int64(2)], "2", [1.5, 2]),
]


@pytest.mark.parametrize(("items", "shape", "values"), LITERALS)
def test_literals(items: object, shape: str, values: list[object]) -> None:
    tensor = wf.tensor(items)
    assert str(tensor.dims) == shape
    np.testing.assert_array_equal(value(tensor), values)
    assert tensor.dtype == "float32"


def test_a_literal_of_other_precision() -> None:
    tensor = wf.tensor([0.1, 0.2], dtype="float64", label="weights")
    assert (tensor.dtype, tensor.label) == ("float64", "weights")
    assert value(tensor).tolist() == [0.1, 0.2]


BLOCKS = [
    (lambda x, y: [x, y], "2,2", [[1, 2], [3, 4]]),
    (lambda x, y: (x, y), "2->2", [[1, 3], [2, 4]]),
    (lambda x, y: wf.batch(x, y), "2|2", [[1, 2], [3, 4]]),
    (lambda x, y: [[x, y], [y, x]], "2,2,2", [[[1, 2], [3, 4]], [[3, 4], [1, 2]]]),
    (lambda x, y: [(x, y)], "2->1,2", [[[1, 3], [2, 4]]]),
    (lambda x, y: wf.batch([x], [y]), "2|1,2", [[[1, 2]], [[3, 4]]]),
    (lambda x, y: [x + y, x * y], "2,2", [[4, 6], [3, 8]]),
    (lambda x, y: [x], "1,2", [[1, 2]]),
]


@pytest.mark.parametrize(("block", "shape", "values"), BLOCKS)
def test_blocks_of_tensors_stack(block: object, shape: str, values: list[object]) -> None:
    x, y = wf.tensor([1, 2]), wf.tensor([3, 4])
    tensor = wf.tensor(block(x, y))  # type: ignore[operator]
    assert str(tensor.dims) == shape
    np.testing.assert_array_equal(value(tensor), values)


def test_numbers_beside_tensors_in_a_block() -> None:
    tensor = wf.tensor([wf.number(1.0), 2.0, wf.number(3.0)])
    assert value(tensor).ravel().tolist() == [1.0, 2.0, 3.0]


CONCATENATED = [
    ("output", "2|3->4", (2, 4, 3)),
    ("batch", "4|3->2", (4, 2, 3)),
    ("input", "2|6->2", (2, 2, 6)),
]


@pytest.mark.parametrize(("kind", "shape", "memory"), CONCATENATED)
def test_concatenation_along_each_kind(kind: str, shape: str, memory: tuple[int, ...]) -> None:
    first, second = np.arange(12.0).reshape(2, 2, 3), np.arange(12.0, 24.0).reshape(2, 2, 3)
    tensor = wf.concat(*(wf.data(one, batch=1, input=1) for one in (first, second)), kind=kind)
    assert str(tensor.dims) == shape
    axis = {"batch": 0, "output": 1, "input": 2}[kind]
    np.testing.assert_array_equal(value(tensor), np.concatenate([first, second], axis))
    assert value(tensor).shape == memory


@pytest.mark.parametrize("kind", ["batch", "output", "input"])
def test_stacking_along_each_kind(kind: str) -> None:
    first, second = np.arange(12.0).reshape(2, 2, 3), np.arange(12.0, 24.0).reshape(2, 2, 3)
    tensor = wf.stack(*(wf.data(one, batch=1, input=1) for one in (first, second)), kind=kind)
    axis = {"batch": 0, "output": 1, "input": 2}[kind]
    np.testing.assert_array_equal(value(tensor), np.stack([first, second], axis))


def test_concatenation_of_parts_of_different_lengths() -> None:
    tensor = wf.concat(wf.tensor([1, 2]), wf.tensor([3]), wf.tensor([4, 5, 6]))
    assert value(tensor).tolist() == [1, 2, 3, 4, 5, 6]


def test_splitting_undoes_concatenation() -> None:
    whole = wf.tensor([1, 2, 3, 4, 5])
    assert value(wf.einsum("2^a=>a", whole)).tolist() == [3, 4, 5]
    assert value(wf.einsum("a^3=>a", whole)).tolist() == [1, 2]


def test_interleaving_and_its_inverse() -> None:
    ctx = wf.Context("interp")
    even, odd = wf.tensor([1, 3, 5]), wf.tensor([2, 4, 6])
    both = wf.einsum("i=>2*i", even) + wf.einsum("i=>2*i+1", odd)
    assert ctx[both].tolist() == [1, 2, 3, 4, 5, 6]
    assert ctx[wf.einsum("2*i=>i", both)].tolist() == [1, 3, 5]
    assert ctx[wf.einsum("2*i+1=>i", both)].tolist() == [2, 4, 6]


@pytest.mark.parametrize(
    ("batch", "input", "shape"),
    [(0, 0, "2,3,4"), (1, 0, "2|3,4"), (1, 1, "2|4->3"), (2, 1, "2,3|4->1"), (3, 0, "2,3,4|1")],
)
def test_data_axes(batch: int, input: int, shape: str) -> None:
    array = np.arange(24.0).reshape(2, 3, 4)
    tensor = wf.data(array, batch=batch, input=input)
    assert str(tensor.dims) == shape
    assert value(tensor).ravel().tolist() == array.ravel().tolist()


@pytest.mark.parametrize("dtype", ["float32", "float64", "int32", "int64", "uint8", "bool"])
def test_data_keeps_its_type(dtype: str) -> None:
    array = np.array([0, 1, 2], dtype)
    tensor = wf.data(array)
    assert tensor.dtype == dtype
    assert value(tensor).dtype == dtype
    np.testing.assert_array_equal(value(tensor), array)


def test_data_takes_any_memory_layout() -> None:
    array = np.arange(12.0).reshape(3, 4).T[::2]
    np.testing.assert_array_equal(value(wf.data(array) + 0.0), array)


def test_counted_data_takes_its_axes_from_its_use() -> None:
    tensor = wf.counted(np.arange(6.0))
    product = wf.einsum("ij;j=>i", tensor, wf.tensor([1.0, 0.0, 0.0], dtype="float64"))
    assert value(product).tolist() == [0.0, 3.0]
    assert str(tensor.dims) == "2,3"


def test_a_number_is_one_output_axis() -> None:
    tensor = wf.number(2.5)
    assert (str(tensor.dims), value(tensor).tolist(), tensor.label) == ("1", [2.5], "2.5")


def test_a_number_with_a_basis_does_not_broadcast() -> None:
    two = wf.number(2.0, basis="q")
    assert str(two.dims) == "q=1"
    with pytest.raises(wf.ShapeError):
        two + wf.tensor([1.0, 2.0])


def test_bases_spread_through_expressions() -> None:
    y = wf.param("hey", init=1.0) * wf.number(2.0, basis="q")
    assert str(y.dims) == "q=1"
    with pytest.raises(wf.ShapeError):
        y + wf.number(1.0, basis="p")


def test_a_constant_fits_any_shape() -> None:
    ones = wf.constant(1.0)
    summed = wf.einsum("ij;j=>i", wf.tensor([[1, 2, 3], [4, 5, 6]]), ones)
    assert value(summed).tolist() == [6.0, 15.0]
    assert str(ones.dims) == "3"


def test_prefix_sums_by_a_triangular_constant() -> None:
    triangle = wf.data(np.tril(np.ones((4, 4))), input=1)
    assert value(triangle @ wf.tensor([1, 2, 3, 4])).tolist() == [1, 3, 6, 10]


REFUSED = [
    ([], "an axis of a literal cannot be empty", "write at least one number"),
    ([1, []], "an axis of a literal cannot be empty, and its item [1] is", "write at least one number"),
    ([1, [2]], "the items of a literal have different shapes", "make them alike"),
    ([[1, 2], [3]], "the items of a literal have different shapes", "make them alike"),
    ([1, "a"], "a literal holds numbers or tensors, and its item [1] is 'a'", "leave it out, or write a number"),
    (
        [[1], [None]],
        "a literal holds numbers or tensors, and its item [1][0] is None",
        "leave it out, or write a number",
    ),
    (
        [[1, 2], np.ones(2)],
        "a literal holds numbers or tensors, and its item [1] is an array of shape (2,)",
        "wrap it: wf.data(x)",
    ),
    (range(3), "a literal holds numbers or tensors, not range(0, 3)", "write a list: [*x]"),
    (
        ([1, 2], [3, 4]),
        "an output axis cannot lie inside the axes around it",
        "nest batch axes outermost, then lists (output), then tuples (input)",
    ),
    (
        [wf.batch(1, 2)],
        "a batch axis cannot lie inside the axes around it",
        "nest batch axes outermost, then lists (output), then tuples (input)",
    ),
]


@pytest.mark.parametrize(("items", "what", "fix"), REFUSED)
def test_literals_that_are_refused(items: object, what: str, fix: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.tensor(items)
    assert (caught.value.what, caught.value.fix) == (what, fix)
    assert str(caught.value).startswith("test_tensor_literals.py:")


def test_a_list_beside_a_tensor_is_the_literal_it_looks_like() -> None:
    a = wf.data(np.array([1.0, 2.0, 3.0]), label="a")
    assert value(wf.tensor([a, [4.0, 5, 6]])).tolist() == [[1, 2, 3], [4, 5, 6]]
    assert value(wf.tensor([[[4, 5, 6], a], [a, a]])).tolist() == [[[4, 5, 6], [1, 2, 3]], [[1, 2, 3], [1, 2, 3]]]
    assert str(wf.tensor(wf.batch(a, [1, 2, 3])).dims) == "2|3"
    assert str(wf.tensor([a, wf.labelled("rgb", [1, 2, 3])]).dims) == "2,rgb=3"
    assert wf.tensor([a, [1, 2, 3]], dtype="float16").dtype == "float16"


@pytest.mark.parametrize(
    ("others", "what", "notes"),
    [
        ([[1.0, 2]], "the items of a literal must have one shape", ["its item [0] is 3", "its item [1] is 2"]),
        ([[[1.0, 2, 3]]], "the items of a literal must have one shape", ["its item [0] is 3", "its item [1] is 1,3"]),
        ([[1.0, 2, 3], 4, (1, 2, 3)], "the items of a literal must have one shape", ["its item [0] is 3", None]),
        ([None], "a literal holds numbers or tensors, and its item [1] is None", []),
        ([[]], "an axis of a literal cannot be empty, and its item [1] is", []),
        ([[1, [2], 3]], "the items of a literal have different shapes", ["its item [1][0] is a number", None]),
        ([np.ones(3)], "a literal holds numbers or tensors, and its item [1] is an array of shape (3,)", []),
        ([True], "a literal takes tensors and numbers, not the truth value True", []),
    ],
)
def test_what_does_not_fit_beside_a_tensor_is_named(others: list[object], what: str, notes: list[str | None]) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.tensor([wf.data(np.ones(3), label="a"), *others])
    assert caught.value.what == what
    assert all(note in (None, found) for note, found in zip(notes, caught.value.notes, strict=False))
    assert str(caught.value).startswith("test_tensor_literals.py:")
    assert "einsum" not in str(caught.value)
    assert caught.value.fix


def test_tensors_that_do_not_fit_together_are_shown() -> None:
    a, m = wf.data(np.ones(3), label="a"), wf.data(np.ones((2, 4)), label="m")
    for join, what in ((wf.stack, "stacked tensors must have one shape"), (wf.concat, "tensors joined along their")):
        with pytest.raises(wf.ShapeError, match=what) as caught:
            join(a, m, a)
        assert caught.value.notes == ("a is 3", "m is 2,4")
    with pytest.raises(wf.ShapeError, match="must agree in its label and in all other axes") as caught:
        wf.concat(wf.tensor(wf.labelled("x", [1, 2])), wf.tensor(wf.labelled("y", [1, 2, 3])))
    assert caught.value.notes == ("literal is x=2", "literal is y=3")


def test_a_labelled_axis_of_tensors_is_refused() -> None:
    with pytest.raises(wf.WeftError, match="an axis of stacked tensors cannot be labelled"):
        wf.tensor(wf.labelled("rgb", [wf.number(1.0), wf.number(2.0)]))


@pytest.mark.parametrize("join", [wf.concat, wf.stack])
def test_joining_nothing_or_along_nothing_is_refused(join: Callable[..., wf.Tensor]) -> None:
    with pytest.raises(wf.WeftError, match="needs at least one tensor"):
        join()
    with pytest.raises(wf.WeftError) as caught:
        join(wf.number(1.0), kind="rows")
    assert caught.value.what == "there is no kind of axis 'rows'"
    assert caught.value.fix == "use batch, input or output"
    with pytest.raises(wf.WeftError, match=rf"{join.__name__} takes tensors and numbers, not an array of shape \(3,\)"):
        join(wf.number(1.0), np.ones(3))


@pytest.mark.parametrize(
    ("array", "options", "message"),
    [
        (np.ones((2, 3)), {"batch": 3}, r"3 batch and 0 input axes do not fit an array of shape \(2, 3\)"),
        (np.ones((2, 3)), {"batch": 1, "input": 2}, "1 batch and 2 input axes do not fit"),
        (np.array(["a"]), {}, "data must be numbers, not <U1"),
        ([[1, 2], [3]], {}, "the values do not form an array"),
    ],
)
def test_data_that_is_refused(array: object, options: dict[str, int], message: str) -> None:
    with pytest.raises(wf.WeftError, match=message):
        wf.data(array, **options)  # type: ignore[arg-type]
