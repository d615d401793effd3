"""Arrays of other libraries: taken by DLPack, given back as arrays of the same library, written in place."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from comprehension.running import assert_near, backends, definition
from producers import OldProducer, Producer, whole
from weft.dlpack import borrow

MM = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
A, B = np.arange(6, dtype="float32").reshape(2, 3), np.arange(12, dtype="float32").reshape(3, 4)


class Foreign(Producer):
    """An array of a library called `foreign`."""


class Taken:
    """What that library makes of an array it is handed."""

    def __init__(self, source: Any) -> None:
        self.array = borrow(source)


@pytest.fixture
def foreign(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    library = ModuleType("foreign")
    library.from_dlpack = Taken  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "foreign", library)
    monkeypatch.setattr(Foreign, "__module__", "foreign.arrays")
    return library


def of(array: np.ndarray, **options: Any) -> Foreign:
    return Foreign(array, array.shape, **options)


@backends
def test_the_same_kind_comes_out(foreign: ModuleType, backend: str) -> None:
    mm = definition(MM, backend)
    found = mm(of(A), of(B))
    assert isinstance(found, Taken)
    assert_near(found.array, A @ B)
    for gradient, wanted in zip(mm.grad(of(A), of(B)), (np.ones((2, 4)) @ B.T, A.T @ np.ones((2, 4))), strict=True):
        assert isinstance(gradient, Taken)
        assert_near(gradient.array, wanted)


def test_the_first_array_says_which_kind(foreign: ModuleType) -> None:
    f = definition("def f(float a, float(N) x) -> (y) { y(i) = a * x(i) }")
    assert isinstance(f(2.0, of(A[0])), Taken)
    assert isinstance(f(np.array(2, "float32"), of(A[0])), np.ndarray)
    assert isinstance(f(2.0, A[0].copy()), np.ndarray)


def test_a_class_made_of_the_librarys_and_one_that_says_its_namespace(foreign: ModuleType) -> None:
    class Mine(Foreign):
        """As torch.Tensor may be subclassed anywhere."""

    class Elsewhere(Producer):
        """As the arrays of jax are of a class of jaxlib."""

        def __array_namespace__(self) -> ModuleType:
            return foreign

    f = definition("def f(float(N) x) -> (y) { y(i) = 2 * x(i) }")
    for kind in (Mine, Elsewhere):
        assert isinstance(f(kind(A[0], (3,))), Taken)
        assert isinstance(f.grad(kind(A[0], (3,))), Taken)


def test_types_that_numpy_does_not_hand_over(foreign: ModuleType) -> None:
    f = definition("def f(bfloat16(N) x) -> (y) { y(i) = x(i) + x(i) }")
    found = f(of(np.arange(3).astype(ml_dtypes.bfloat16)))
    assert found.array.dtype == ml_dtypes.bfloat16
    assert found.array.astype("float32").tolist() == [0, 2, 4]


def test_numpy_comes_out_of_a_library_that_takes_nothing() -> None:
    assert_near(definition(MM)(whole(A), whole(B)), A @ B)


def test_any_strides() -> None:
    memory = np.arange(12, dtype="float32")
    turned = Producer(memory, (3, 4), (1, 3))
    assert_near(definition(MM)(A, turned), A @ memory.reshape(4, 3).T)


def test_outputs_are_written_in_their_own_memory() -> None:
    memory = np.zeros(8, "float32")
    target = Producer(memory, (2, 4), (1, 2))
    assert definition(MM)(A, B, outputs=(target,)) is target
    assert_near(memory.reshape(4, 2).T, A @ B)


def test_accumulating_into_an_array_of_another_library() -> None:
    memory = np.ones((2, 4), "float32")
    definition(MM.replace("+=!", "+="))(A, B, outputs=(whole(memory),))
    assert_near(memory, 1 + A @ B)


@pytest.mark.parametrize(
    ("output", "said"),
    [
        (whole(np.zeros((2, 4), "float32"), flags=1), "its memory is read-only"),
        (OldProducer(np.zeros((2, 4), "float32"), (2, 4)), "its memory is read-only"),
        (whole(np.zeros((2, 4), "float32"), device=(2, 0)), "lies on CUDA device 0"),
        (
            np.lib.stride_tricks.as_strided(np.zeros(16, "float32"), (2, 4), (8, 4)),
            "cells of it lie in the same memory",
        ),
        (
            np.lib.stride_tricks.as_strided(np.zeros(16, "float32"), (2, 4), (0, 4)),
            "cells of it lie in the same memory",
        ),
        ([[0.0] * 4] * 2, "it gives no memory"),
        (None, "it gives no memory"),
    ],
)
def test_outputs_that_cannot_be_written(output: object, said: str) -> None:
    with pytest.raises(wf.WeftError) as error:
        definition(MM)(A, B, outputs=(output,))
    assert said in error.value.what
    assert "`C`" in error.value.what
    assert error.value.fix


def test_outputs_whose_cells_are_interleaved_can_be_written() -> None:
    memory = np.zeros(16, "float32")
    for strides in ((12, 8), (4, 8), (4, 16), (-4, 8)):  # of the first, cells lie at 0 2 4 6 and at 3 5 7 9
        start = memory[1:] if strides[0] < 0 else memory
        target = np.lib.stride_tricks.as_strided(start, (2, 4), strides)
        definition(MM)(A, B, outputs=(target,))
        assert_near(target, A @ B)


def test_arrays_that_lie_elsewhere() -> None:
    with pytest.raises(wf.WeftError, match="`B` lies on CUDA device 0, and this context computes on the CPU"):
        definition(MM)(A, whole(B, device=(2, 0)))


def test_tensors_of_weft_are_arrays_to_gradients_and_stages() -> None:
    mm, _ctx = definition(MM), wf.Context("interp")
    assert_near(np.asarray(mm.grad(A, B, wrt="A")), np.ones((2, 4)) @ B.T)
    assert "m in 0:2" in mm.show("ranges", wf.data(A), wf.data(B))
