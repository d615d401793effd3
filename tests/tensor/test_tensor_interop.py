"""Tensors of arrays of other libraries, and arrays of other libraries of tensors."""

from __future__ import annotations

import array as buffers
import gc
import re
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import weft as wf
from producers import OldProducer, Producer, whole
from weft.dlpack import borrow, to_capsule
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type

BACKENDS = ["interp", "cc"]


class Torchlike:
    """An array whose type NumPy may not know: it hands itself over by DLPack and refuses to become an ndarray."""

    def __init__(self, values: np.ndarray) -> None:
        self.values = values

    def __dlpack__(self, **options: Any) -> Any:
        return to_capsule(self.values, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return (1, 0)

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        raise TypeError("got an unsupported type")


class Arraylike:
    """What only NumPy's own protocol opens; `fresh` if it computes its values each time."""

    def __init__(self, values: np.ndarray, fresh: bool = False) -> None:
        self.values = values
        self.fresh = fresh

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        return self.values.copy() if self.fresh else self.values


def some(name: str, *shape: int) -> np.ndarray:
    """Values of any element type that are not all alike."""
    return (np.arange(int(np.prod(shape))) % 5).reshape(shape).astype(numpy_type(name))


def same(one: np.ndarray, other: np.ndarray) -> bool:
    return one.dtype == other.dtype and one.shape == other.shape and one.tobytes() == other.tobytes()


def refused(what: str, x: Any, **options: Any) -> wf.WeftError:
    with pytest.raises(wf.WeftError, match=what) as caught:
        wf.data(x, **options)
    assert caught.value.origin is not None
    return caught.value


# What data may be


@pytest.mark.parametrize("name", ELEMENT_TYPES)
def test_every_element_type_is_read_back_as_it_was(name: str) -> None:
    values = some(name, 2, 3)
    ctx = wf.Context()
    for x in (values, Torchlike(values), values.T, Torchlike(values[:, ::-1])):
        tensor = wf.data(x)
        assert tensor.dtype == name
        expected = x.values if isinstance(x, Torchlike) else x
        assert same(ctx[tensor], expected)
        assert same(np.asarray(tensor), expected)
        assert same(borrow(tensor), expected)


@pytest.mark.parametrize(
    "x",
    [
        np.array([1, 2, 3], "int16"),
        Arraylike(np.array([1, 2, 3], "int16")),
        Torchlike(np.array([1, 2, 3], "int16")),
        buffers.array("h", [1, 2, 3]),
        memoryview(buffers.array("h", [1, 2, 3])),
        OldProducer(np.array([1, 2, 3], "int64"), (3,)),
        [1, 2, 3],
        (1, 2.0, True + 2),
        [np.float32(1), 2, 3],
    ],
    ids=lambda x: type(x).__name__,
)
def test_many_things_are_arrays(x: Any) -> None:
    for copy in (None, True):
        assert wf.Context()[wf.data(x, copy=copy) * 2].tolist() == [2, 4, 6]


def test_axes_are_told_apart_whatever_the_array() -> None:
    x = Torchlike(some("float32", 2, 3, 4))
    assert str(wf.data(x, batch=1, input=1).dims) == "2|4->3"
    assert str(wf.from_dlpack(x, batch=2, label="x").dims) == "2,3|4"
    assert wf.from_dlpack(x, label="x").label == "x"


@pytest.mark.parametrize("x", [np.float32(3), np.array(3, "float32"), 3.0, Torchlike(np.array(3, "float32"))])
def test_an_array_without_axes_is_a_scalar(x: Any) -> None:
    assert str(wf.data(x).dims) == "1"
    assert wf.Context()[wf.data([1.0, 2.0]) * wf.data(x)].tolist() == [3, 6]


@pytest.mark.parametrize("backend", ["interp", "cc"])
@pytest.mark.parametrize("shape", [(0,), (2, 0), (0, 3)])
def test_an_axis_may_have_no_positions(shape: tuple[int, ...], backend: str) -> None:
    for x in (np.zeros(shape), Torchlike(np.zeros(shape))):
        t, ctx = wf.data(x), wf.Context(backend)
        assert ctx[t * 2.0 + 1.0].shape == shape
        assert ctx[wf.einsum("... => 0", t)].tolist() == [0]
        assert ctx[wf.einsum("... => 0", t, accum="max")].tolist() == [-np.inf]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_training_on_an_empty_batch_changes_nothing(backend: str) -> None:
    w, ctx = wf.param("w", o=2, init=[[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]]), wf.Context(backend)
    loss = wf.einsum("...|... => 0", w @ wf.data(np.zeros((0, 3), "float32"), batch=1))
    ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)))()
    assert ctx[loss].tolist() == [0]
    assert ctx[w].tolist() == [[1, 2, 3], [4, 5, 6]]


@pytest.mark.parametrize(
    ("x", "name"),
    [
        (np.ones(2, "complex64"), "complex64"),
        (np.ones(2, np.longdouble), np.dtype(np.longdouble).name),
        (np.array(["a"]), "<U1"),
        (np.array([None]), "object"),
        (np.array(["2020-01-01"], "M8[D]"), r"datetime64\[D\]"),
        (np.ones(2, ml_dtypes.float8_e4m3b11fnuz), "float8_e4m3b11fnuz"),
        (np.ones(2, ml_dtypes.int4), "int4"),
        (b"abc", r"\|S3"),
    ],
)
def test_other_types_are_refused_by_name(x: Any, name: str) -> None:
    error = refused(f"data must be numbers, not {name}", x)
    assert re.fullmatch(f"data must be numbers, not {name}", error.what)
    assert error.fix.startswith("convert it first to one of bool, int8, int16, ")


def test_what_its_owner_cannot_hand_over_is_refused() -> None:
    refused("producers.Producer lies on ROCm device 1", whole(some("float32", 2), device=(10, 1)))
    refused("holds elements of complex64", whole(some("float32", 2), type=(5, 64)))
    refused("the values do not form an array of numbers", [[1.0], [1.0, 2.0]])


def test_from_dlpack_takes_capsules_and_nothing_that_does_not_speak_it() -> None:
    producer = whole(some("float32", 2, 3))
    capsule = producer.capsule()
    x = wf.from_dlpack(capsule, batch=1)
    assert str(x.dims) == "2|3"
    with pytest.raises(wf.ExchangeError, match="the DLPack capsule was used already"):
        wf.from_dlpack(capsule)
    with pytest.raises(wf.ExchangeError, match="list does not speak DLPack") as caught:
        wf.from_dlpack([1.0])
    assert caught.value.fix == "pass it to wf.data, which also takes NumPy arrays, buffers and lists"


def test_memory_is_given_back_with_the_tensor_and_its_context() -> None:
    producer = whole(some("float32", 4))
    ctx = wf.Context()
    x = wf.data(producer)
    assert ctx[x + 1].tolist() == [1, 2, 3, 4]
    del x
    gc.collect()
    assert producer.deleted == 0
    del ctx
    wf.Context()  # the context made last keeps its memory
    gc.collect()
    assert producer.deleted == 1


# Shared or copied


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("wrap", [np.asarray, Torchlike, Arraylike, memoryview], ids=lambda wrap: wrap.__name__)
@pytest.mark.parametrize("copy", [None, False])
def test_memory_in_order_is_shared(backend: str, wrap: Any, copy: bool | None) -> None:
    values = np.arange(6, dtype="float32").reshape(2, 3)
    x = wf.data(wrap(values), copy=copy)
    ctx = wf.Context(backend)
    doubled = 2 * x
    values[0, 0] = 100  # before the first run
    assert ctx[doubled].tolist() == [[200, 2, 4], [6, 8, 10]]
    values[1, 2] = 50  # and after it
    assert ctx[doubled].tolist() == [[200, 2, 4], [6, 8, 100]]
    assert ctx[x].tolist() == values.tolist()


OUT_OF_ORDER = {
    "a step": lambda: np.arange(8, dtype="float32")[::2],
    "backwards": lambda: np.arange(4, dtype="float32")[::-1],
    "another order": lambda: np.arange(6, dtype="float32").reshape(2, 3).T,
    "repeated": lambda: np.broadcast_to(np.float32(2), (2, 2)),
    "byte order": lambda: np.arange(4, dtype=np.dtype("f4").newbyteorder()),
    "alignment": lambda: np.frombuffer(bytearray(17), "u1")[1:].view("float32"),
}


@pytest.mark.parametrize("make", OUT_OF_ORDER.values(), ids=OUT_OF_ORDER)
@pytest.mark.parametrize("backend", BACKENDS)
def test_any_other_memory_is_copied_when_the_tensor_is_made(make: Any, backend: str) -> None:
    values = make()
    before = values.tolist()
    x = wf.data(values)
    if values.flags.writeable:
        values[...] = 77
    assert wf.Context(backend)[x + 0].tolist() == before


@pytest.mark.parametrize("wrap", [np.asarray, Torchlike, Arraylike], ids=lambda wrap: wrap.__name__)
def test_a_copy_that_was_asked_for_does_not_see_later_changes(wrap: Any) -> None:
    values = np.arange(4, dtype="float32")
    x = wf.data(wrap(values), copy=True)
    values += 10
    assert wf.Context()[x].tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    ("x", "what"),
    [
        ([1.0, 2.0], "list of shape (2,) cannot be used without a copy: its values do not lie in memory as an array"),
        (3.0, "float of shape () cannot be used without a copy: its values do not lie in memory as an array"),
        (Arraylike(np.ones(2), fresh=True), "its values do not lie in memory as an array"),
        (np.ones((2, 3)).T, "its strides are (8, 24) bytes, not those of the order of its axes"),
        (np.ones(4)[::-1], "numpy.ndarray of shape (4,) cannot be used without a copy: its strides are (-8,) bytes"),
        (Producer(some("float32", 4), (2,), (2,)), "producers.Producer of shape (2,) cannot be used without a copy"),
        (OUT_OF_ORDER["byte order"](), "its byte order, >f4, is not this machine's"),
        (OUT_OF_ORDER["alignment"](), "its memory is not aligned to 4 bytes"),
    ],
)
def test_a_copy_that_was_forbidden_is_refused_with_the_reason(x: Any, what: str) -> None:
    error = refused(re.escape(what), x, copy=False)
    assert isinstance(error, wf.ExchangeError)
    assert isinstance(error, ValueError)
    assert error.fix == "leave out copy=False, or give an array whose memory lies in the order of its axes"


@given(st.lists(st.integers(1, 4), max_size=3), st.data())
def test_any_strides(shape: list[int], draw: st.DataObject) -> None:
    name = draw.draw(st.sampled_from(ELEMENT_TYPES))
    values = some(name, *shape).transpose(draw.draw(st.permutations(range(len(shape)))))
    steps = [slice(None, None, draw.draw(st.sampled_from([1, -1, 2, -2]))) for _ in shape]
    values = values[(*steps, ...)]
    expected = np.array(values).reshape(values.shape or (1,))
    for x in (values, Torchlike(values)):
        assert same(wf.Context()[wf.data(x)], expected)


# What is given is never written


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("read_only", [True, False])
@pytest.mark.parametrize("wrap", [np.asarray, Torchlike], ids=lambda wrap: wrap.__name__)
def test_code_that_assigns_to_data_leaves_the_array_alone(backend: str, read_only: bool, wrap: Any) -> None:
    values = np.arange(4, dtype="float32")
    values.flags.writeable = not read_only
    x = wf.data(wrap(values), label="x")

    @wf.cd
    def step() -> None:
        x.accumulate("add", 1)

    ctx = wf.Context(backend)
    run = ctx.compile(step())
    run()
    run()
    assert ctx[x].tolist() == [2, 3, 4, 5]
    assert values.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize("backend", BACKENDS)
def test_training_on_arrays_of_another_library(backend: str) -> None:
    points = np.random.default_rng(0).uniform(-1, 1, (32, 2)).astype("float32")
    labels = points @ np.array([[2.0], [-1.0]], "float32")

    def train(x: Any, y: Any) -> tuple[float, np.ndarray]:
        w = wf.param("w", o=1, init=0.0)
        off = w @ wf.data(x, batch=1) - wf.data(y, batch=1)
        loss = wf.einsum("...|... => 0", off * off) / 32
        ctx = wf.Context(backend)
        step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.3)))
        for _ in range(60):
            step()
        return float(ctx[loss][0]), ctx[w]

    loss, w = train(Torchlike(points), Torchlike(labels))
    plain_loss, plain_w = train(points, labels)
    assert loss == plain_loss < 1e-4
    assert w.tolist() == plain_w.tolist()
    np.testing.assert_allclose(w, [[2, -1]], atol=0.02)


def test_a_parameter_is_set_from_an_array_of_another_library() -> None:
    w = wf.param("w", o=2, i=2)
    ctx = wf.Context()
    source = np.arange(4, dtype="float32").reshape(2, 2)
    ctx[w] = Torchlike(source.T)
    source[...] = 9
    assert ctx[w].tolist() == [[0, 2], [1, 3]]
    ctx[w] = Torchlike(np.array(7, ml_dtypes.bfloat16))
    assert ctx[w].tolist() == [[7, 7], [7, 7]]


# Tensors as arrays


def computed() -> wf.Tensor:
    return (wf.data(np.arange(3, dtype="float32"), label="x") * 2).named("doubled")


def test_numpy_takes_a_tensor() -> None:
    wf.Context()
    t = computed()
    for array in (np.asarray(t), np.array(t), np.array(t, copy=True), np.asarray(t, dtype="float32")):
        assert array.dtype == np.float32
        assert array.tolist() == [0, 2, 4]
        array[0] = 9  # it is the taker's own
    assert np.asarray(t, dtype="int8").dtype == np.int8
    assert np.asarray(t).tolist() == [0, 2, 4]
    assert t.__array__(np.dtype("float64"), copy=True).dtype == np.float64


@pytest.mark.parametrize(
    "take",
    [
        lambda t: t.__array__(copy=False),
        lambda t: t.__dlpack__(copy=False),
        lambda t: wf.data(t, copy=False),
        lambda t: wf.from_dlpack(t, copy=False),
    ],
    ids=["__array__", "__dlpack__", "wf.data", "wf.from_dlpack"],
)
def test_a_value_cannot_be_had_without_a_copy(take: Any) -> None:
    wf.Context()
    t = computed()
    with pytest.raises(
        ValueError, match="`doubled` is a tensor to be computed: its value cannot be had without a copy"
    ):
        take(t)
    with pytest.raises(BufferError):
        take(t)


def test_other_libraries_take_a_tensor() -> None:
    wf.Context()
    t = computed()
    assert t.__dlpack_device__() == (1, 0)
    taken = np.from_dlpack(t)
    assert taken.dtype == np.float32
    assert taken.tolist() == [0, 2, 4]
    for options in ({}, {"max_version": (1, 0)}, {"dl_device": (1, 0), "copy": True, "stream": None}):
        assert borrow(t.__dlpack__(**options)).tolist() == [0, 2, 4]
    assert '"dltensor"' in repr(t.__dlpack__())
    assert '"dltensor_versioned"' in repr(t.__dlpack__(max_version=(1, 1)))
    with pytest.raises(BufferError, match="the CPU has no streams"):
        t.__dlpack__(stream=2)


def test_a_value_handed_over_stays_while_the_context_computes_on() -> None:
    values = np.arange(3, dtype="float32")
    x = wf.data(values)
    ctx = wf.Context()
    taken = borrow(x)
    taken[0] = 50
    values[1] = 70
    assert taken.tolist() == [50, 1, 2]
    assert values.tolist() == [0, 70, 2]
    assert ctx[x].tolist() == [0, 70, 2]


def test_a_tensor_that_cannot_be_computed_says_why() -> None:
    i = wf.index("i", 2)
    sliced = wf.data(np.ones((2, 3)), batch=1, label="x")[i]
    wf.Context()
    for take in (np.asarray, borrow, wf.data):
        with pytest.raises(wf.WeftError, match="depends on static index `i`"):
            take(sliced)
