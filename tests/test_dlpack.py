"""Arrays in and out by DLPack: the same memory, the right type, and every capsule freed once."""

from __future__ import annotations

import gc
import re
import subprocess
import sys
import threading
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

from producers import OldProducer, Producer, Versioned, whole
from weft.dlpack import CPU, VERSION, ExchangeError, borrow, is_producer, to_capsule
from weft.errors import WeftError
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type

NUMPY_TYPES = [name for name in ELEMENT_TYPES if numpy_type(name).type.__module__ == "numpy"]
OTHER_TYPES = [name for name in ELEMENT_TYPES if name not in NUMPY_TYPES]
VERSIONS = [None, (0, 8), (1, 0), (1, 1), (2, 0)]
RELEASES = tuple(map(int, np.__version__.split(".")[:2]))
SRC = Path(__file__).resolve().parent.parent / "src"


class Lender:
    """Hands out an array by `to_capsule`, as a tensor of weft does."""

    def __init__(self, array: np.ndarray, only: tuple[int, int] | None = VERSION) -> None:
        self.array = array
        self.only = only

    def __dlpack__(self, *, max_version: tuple[int, int] | None = None, **options: Any) -> Any:
        return to_capsule(self.array, max_version=self.only and max_version, **options)

    def __dlpack_device__(self) -> tuple[int, int]:
        return CPU


@st.composite
def arrays(draw: st.DrawFn, names: list[str] = list(ELEMENT_TYPES)) -> np.ndarray:  # noqa: B006
    """Any element type, up to three axes of size 0 to 4, in any order, with steps of any sign."""
    dtype = numpy_type(draw(st.sampled_from(names)))
    shape = draw(st.lists(st.integers(0, 4), max_size=3))
    count = int(np.prod(shape)) * dtype.itemsize
    values = np.random.default_rng(draw(st.integers(0, 99))).integers(0, 2 if dtype.kind == "b" else 256, count, "u1")
    array = values.view(dtype).reshape(shape)
    array = array.transpose(draw(st.permutations(range(len(shape)))))
    steps = tuple(slice(None, None, draw(st.sampled_from([1, 2, -1, -2]))) for _ in shape)
    return array[(*steps, ...)]


def same_cells(one: np.ndarray, other: np.ndarray) -> bool:
    """The same type, shape, bytes and places in memory."""
    moved = [size > 1 for size in one.shape]
    return (
        one.dtype == other.dtype
        and one.shape == other.shape
        and one.tobytes() == other.tobytes()
        and (not one.size or one.ctypes.data == other.ctypes.data)
        and (not one.size or bool(np.all(np.equal(one.strides, other.strides) | ~np.array(moved, bool))))
    )


# Round trips


@given(arrays(), st.sampled_from(VERSIONS))
def test_what_goes_out_comes_in(array: np.ndarray, version: tuple[int, int] | None) -> None:
    back = borrow(to_capsule(array, max_version=version))
    assert same_cells(back, array)
    assert back.flags.writeable == (version is not None and version >= (1, 0) and RELEASES >= (2, 1))


@given(arrays(), st.booleans())
def test_through_an_object(array: np.ndarray, old: bool) -> None:
    assert same_cells(borrow(Lender(array, None if old else VERSION)), array)


@given(arrays())
def test_an_array_of_numpy_is_taken_too(array: np.ndarray) -> None:
    assert same_cells(borrow(array), array)


@given(arrays(NUMPY_TYPES), st.booleans())
def test_out_to_numpy(array: np.ndarray, old: bool) -> None:
    assert same_cells(np.from_dlpack(Lender(array, None if old else VERSION)), array)


@given(arrays(NUMPY_TYPES), st.booleans())
def test_in_from_numpy(array: np.ndarray, old: bool) -> None:
    old = old or RELEASES < (2, 1)
    assert same_cells(borrow(array.__dlpack__() if old else array.__dlpack__(max_version=(1, 0))), array)


@pytest.mark.parametrize("name", OTHER_TYPES)
def test_numpy_refuses_types_it_does_not_know_and_nothing_is_lost(name: str) -> None:
    """The capsule is freed while NumPy's exception is under way."""
    array = np.ones(3, numpy_type(name))
    alive = weakref.ref(array)
    with pytest.raises((RuntimeError, BufferError)):
        np.from_dlpack(Lender(array))
    del array
    gc.collect()
    assert alive() is None


# Taking what others made


def test_the_memory_is_shared() -> None:
    memory = np.arange(6, dtype="float32")
    taken = borrow(Producer(memory, (2, 3)))
    memory[4] = 40
    taken[0, 0] = -1
    assert taken.tolist() == [[-1, 1, 2], [3, 40, 5]]
    assert memory.tolist() == [-1, 1, 2, 3, 40, 5]


@pytest.mark.parametrize(
    ("shape", "strides", "offset", "expected"),
    [
        ((2, 3), None, 0, [[0, 1, 2], [3, 4, 5]]),
        ((3, 2), (1, 3), 0, [[0, 3], [1, 4], [2, 5]]),
        ((2, 2), (6, 2), 4, [[1, 3], [7, 9]]),
        ((3,), (-2,), 20, [5, 3, 1]),
        ((2, 2), (-4, -1), 28, [[7, 6], [3, 2]]),
        ((2, 3), (0, 1), 8, [[2, 3, 4], [2, 3, 4]]),
        ((), None, 12, 3),
        ((), (), 12, 3),
        ((1, 2), (99, 1), 0, [[0, 1]]),
        ((0, 3), (3, 1), 0, []),
        ((2, 0), None, 0, [[], []]),
    ],
)
@pytest.mark.parametrize("versioned", [True, False])
def test_strides_and_offsets(
    shape: tuple[int, ...], strides: tuple[int, ...] | None, offset: int, expected: object, versioned: bool
) -> None:
    memory = np.arange(12, dtype="float32")
    taken = borrow(Producer(memory, shape, strides, byte_offset=offset, versioned=versioned))
    assert taken.dtype == np.float32
    assert taken.shape == shape
    assert taken.tolist() == expected


def test_an_empty_array_needs_no_memory() -> None:
    producer = Producer(None, (3, 0))
    taken = borrow(producer)
    assert taken.shape == (3, 0)
    assert producer.deleted == 0
    del taken
    assert producer.deleted == 1


@pytest.mark.parametrize(("name", "values"), [("bfloat16", [1.5, -2.0]), ("float8_e4m3fn", [0.5, 448.0])])
def test_types_numpy_does_not_know(name: str, values: list[float]) -> None:
    memory = np.array(values, numpy_type(name))
    taken = borrow(whole(memory))
    assert taken.dtype == getattr(ml_dtypes, name)
    assert taken.astype("float32").tolist() == values


@pytest.mark.parametrize(
    ("producer", "writable"),
    [
        (whole(np.zeros(2, "float32")), True),
        (whole(np.zeros(2, "float32"), flags=1), False),
        (whole(np.zeros(2, "float32"), flags=2), True),
        (OldProducer(np.zeros(2, "float32"), (2,)), False),
    ],
    ids=["writable", "read-only", "copied", "cannot say"],
)
def test_memory_is_written_only_if_its_owner_allows_it(producer: Producer, writable: bool) -> None:
    assert borrow(producer).flags.writeable == writable


@pytest.mark.parametrize("device", [(1, 0), (3, 0), (3, 1), (11, 0)])
def test_host_memory_is_taken(device: tuple[int, int]) -> None:
    assert borrow(whole(np.ones(2, "float32"), device=device)).tolist() == [1, 1]


def test_without_dlpack_device_the_capsule_is_asked() -> None:
    class Bare:
        def __dlpack__(self, **_: Any) -> Any:
            return whole(np.ones(2, "float32"), device=(2, 3)).capsule()

    with pytest.raises(ExchangeError, match=r"Bare lies on CUDA device 3, not in the CPU's memory"):
        borrow(Bare())


# Freed once, and not before


@pytest.mark.parametrize("versioned", [True, False])
def test_memory_is_given_back_once_after_the_last_view(versioned: bool) -> None:
    producer = whole(np.arange(6, dtype="float32"), versioned=versioned)
    taken = borrow(producer)
    views = [taken[1:], taken.reshape(2, 3).T, memoryview(taken), taken.view("int32")]
    del taken
    while views:
        gc.collect()
        assert producer.deleted == 0
        views.pop()
    gc.collect()
    assert producer.deleted == 1


def test_memory_is_given_back_while_an_exception_is_under_way() -> None:
    producer = whole(np.arange(6, dtype="float32"))

    def fails() -> None:
        borrow(producer).reshape(4, 4)

    with pytest.raises(ValueError, match="reshape"):
        fails()
    gc.collect()
    assert producer.deleted == 1


def test_a_deleter_may_be_missing() -> None:
    producer = whole(np.ones(2, "float32"))
    producer.managed.deleter = type(producer.managed.deleter)()
    assert borrow(producer).tolist() == [1, 1]


def test_an_array_handed_over_lives_until_its_taker_is_done() -> None:
    array = np.arange(3.0)
    alive = weakref.ref(array)
    taken = borrow(to_capsule(array, max_version=VERSION))
    view = taken[1:]
    del array, taken
    gc.collect()
    assert alive() is not None
    assert view.tolist() == [1, 2]
    del view
    assert alive() is None


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("name", ["float32", "bfloat16"])
def test_a_capsule_nobody_takes_frees_its_array(version: tuple[int, int] | None, name: str) -> None:
    array = np.ones(3, numpy_type(name))
    alive = weakref.ref(array)
    capsule = to_capsule(array, max_version=version)
    del array
    assert alive() is not None
    del capsule
    assert alive() is None


def test_a_hundred_thousand_exchanges_leave_nothing_behind() -> None:
    array = np.ones(100, ml_dtypes.bfloat16)
    for _ in range(100):
        borrow(to_capsule(array, max_version=VERSION))
    gc.collect()
    references, blocks = sys.getrefcount(array), sys.getallocatedblocks()
    for _ in range(100_000):
        borrow(to_capsule(array, max_version=VERSION))
    gc.collect()
    assert sys.getrefcount(array) == references
    assert sys.getallocatedblocks() - blocks < 1000


def test_ten_thousand_capsules_nobody_takes_leave_nothing_behind() -> None:
    array = np.ones(100, ml_dtypes.bfloat16)
    references, blocks = sys.getrefcount(array), sys.getallocatedblocks()
    for number in range(10_000):
        to_capsule(array, max_version=(number % 2, 0))
    gc.collect()
    assert sys.getrefcount(array) == references
    assert sys.getallocatedblocks() - blocks < 1000


def test_every_deleter_of_many_is_called_once() -> None:
    producers = [whole(np.ones(2, "float32")) for _ in range(500)]
    taken = [borrow(producer) for producer in producers]
    del taken[::2]
    assert [producer.deleted for producer in producers] == [1, 0] * 250
    del taken
    assert {producer.deleted for producer in producers} == {1}


# Threads and exit


@pytest.fixture
def busy() -> Iterator[None]:
    """Threads take turns as often as they can."""
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(before)


@pytest.mark.usefixtures("busy")
def test_threads_take_a_capsule_once() -> None:
    producers = [whole(np.ones(2, "float32")) for _ in range(200)]
    capsules = [producer.capsule() for producer in producers]
    taken: list[np.ndarray] = []
    refused: list[WeftError] = []
    ready = threading.Barrier(4)

    def take() -> None:
        for capsule in capsules:
            ready.wait()
            try:
                taken.append(borrow(capsule))
            except WeftError as error:
                refused.append(error)

    threads = [threading.Thread(target=take) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(taken), len(refused)) == (200, 600)
    taken.clear()
    assert {producer.deleted for producer in producers} == {1}


def test_memory_may_be_given_back_on_another_thread() -> None:
    producer = whole(np.ones(2, "float32"))
    array = np.arange(3.0)
    alive = weakref.ref(array)
    held = [borrow(producer), borrow(to_capsule(array, max_version=VERSION))]
    del array
    thread = threading.Thread(target=held.clear)
    thread.start()
    thread.join()
    assert producer.deleted == 1
    assert alive() is None


def test_the_process_ends_quietly_with_loans_and_capsules_open() -> None:
    code = """
import sys, threading
import numpy as np, ml_dtypes
from producers import whole
from weft.dlpack import borrow, to_capsule
array = np.ones(3, ml_dtypes.bfloat16)
sys.loan = borrow(whole(np.ones(3, "float32")))
sys.capsule = to_capsule(array)
sys.used = to_capsule(array, max_version=(1, 0))
sys.taken = borrow(sys.used)
cycle = [borrow(whole(np.ones(3, "float32"))), borrow(to_capsule(array))]
cycle.append(cycle)
threading.Thread(target=lambda: threading.Event().wait(60), daemon=True).start()
print("done")
"""
    path = [str(SRC), str(SRC.parent / "tests")]
    done = subprocess.run(
        [sys.executable, "-c", f"import sys; sys.path[:0] = {path}\n{code}"], capture_output=True, text=True, timeout=60
    )
    assert (done.returncode, done.stdout, done.stderr) == (0, "done\n", "")


# What cannot be taken


def test_a_capsule_is_taken_once() -> None:
    for versioned in (True, False):
        producer = whole(np.ones(2, "float32"), versioned=versioned)
        capsule = producer.capsule()
        taken = borrow(capsule)
        assert f'"used_dltensor{"_versioned" * versioned}"' in repr(capsule)
        with pytest.raises(ExchangeError, match="the DLPack capsule was used already; it can be taken once"):
            borrow(capsule)
        del taken
        assert producer.deleted == 1


def float_tensor(**options: Any) -> Producer:
    return whole(np.ones(4, "float32"), **options)


@pytest.mark.parametrize(
    ("producer", "what"),
    [
        (float_tensor(device=(2, 1)), "Producer lies on CUDA device 1, not in the CPU's memory"),
        (float_tensor(device=(10, 0)), "Producer lies on ROCm device 0, not in the CPU's memory"),
        (float_tensor(device=(77, 0)), "Producer lies on device type 77 device 0, not in the CPU's memory"),
        (float_tensor(type=(5, 64)), "Producer holds elements of complex64, which weft does not have"),
        (float_tensor(type=(2, 128)), "Producer holds elements of float128, which weft does not have"),
        (float_tensor(type=(0, 4)), "Producer holds elements of int4, which weft does not have"),
        (float_tensor(type=(6, 1)), "Producer holds elements of bool1, which weft does not have"),
        (float_tensor(type=(11, 8)), "Producer holds elements of float8_e4m3fnuz, which weft does not have"),
        (float_tensor(type=(17, 4)), "Producer holds elements of float4_e2m1fn, which weft does not have"),
        (float_tensor(type=(99, 8)), "Producer holds elements of type code 99, bits 8, which weft does not have"),
        (float_tensor(lanes=4), "Producer holds elements of float32 in groups of 4, which weft does not have"),
        (float_tensor(version=(2, 0)), "the array is of DLPack 2.0; weft reads 1.x and older"),
        (float_tensor(ndim=-1), "Producer says it has -1 axes"),
        (float_tensor(ndim=65), "Producer says it has 65 axes"),
        (Producer(np.ones(4, "float32"), (), ndim=2), "Producer says it has 2 axes"),
        (Producer(np.ones(4, "float32"), (2, -2)), "Producer says its shape is (2, -2)"),
        (Producer(None, (2, 2)), "Producer of shape (2, 2) has no memory"),
    ],
)
def test_what_is_refused_stays_with_its_owner(producer: Producer, what: str) -> None:
    with pytest.raises(ExchangeError, match=re.escape(what)) as caught:
        borrow(producer)
    assert caught.value.what.removeprefix("producers.") == what
    capsule = producer.capsule()
    with pytest.raises(ExchangeError) as caught:
        borrow(capsule)
    assert caught.value.what == what.replace("Producer", "the capsule")
    assert '"dltensor_versioned"' in repr(capsule)
    assert producer.deleted == 0


def test_fixes() -> None:
    with pytest.raises(ExchangeError) as caught:
        borrow(float_tensor(device=(2, 0)))
    assert caught.value.fix == "move it to the CPU first: x.cpu() in PyTorch, jax.device_get(x) in JAX"
    with pytest.raises(ExchangeError) as caught:
        borrow(float_tensor(type=(5, 64)))
    assert caught.value.fix == "convert it first to one of " + ", ".join(ELEMENT_TYPES)
    assert caught.value.origin is not None
    assert caught.value.origin.code == "borrow(float_tensor(type=(5, 64)))"


def test_what_is_no_capsule() -> None:
    class Odd:
        def __dlpack__(self, **_: Any) -> Any:
            return 3

    with pytest.raises(ExchangeError, match=r"Odd gave 3, which is not a DLPack capsule"):
        borrow(Odd())
    with pytest.raises(ExchangeError, match=r'the capsule gave <capsule object "other" .*, which is not a DLPack'):
        borrow(float_tensor().capsule(b"other"))
    with pytest.raises(ExchangeError, match=r"list does not speak DLPack: it has no __dlpack__"):
        borrow([1.0])
    assert [is_producer(one) for one in (float_tensor(), np.ones(2), Producer, [1.0])] == [True, False, False, False]


def test_what_its_owner_will_not_hand_over() -> None:
    class Unwilling:
        def __dlpack__(self, **_: Any) -> Any:
            raise BufferError("it requires a gradient")

    with pytest.raises(ExchangeError, match="Unwilling cannot be handed over by DLPack: it requires a gradient"):
        borrow(Unwilling())


# What cannot be handed over, and what is copied


def header(capsule: Any) -> Versioned:
    from weft.dlpack import _pointer

    return Versioned.from_address(_pointer(capsule, b"dltensor_versioned"))


def test_the_header() -> None:
    array = np.ones((2, 3), "float32")
    capsule = to_capsule(array, max_version=(1, 3))
    if RELEASES < (2, 1):  # NumPy makes no other
        assert '"dltensor"' in repr(capsule)
        return
    assert (header(capsule).major, header(capsule).minor, header(capsule).flags) == (1, 1, 0)
    capsule = to_capsule(array, max_version=(1, 0), copy=True)
    assert header(capsule).flags == 2
    assert header(capsule).tensor.data != array.ctypes.data
    array.flags.writeable = False
    capsule = to_capsule(array, max_version=(1, 0))
    assert header(capsule).flags == 1
    assert header(capsule).tensor.data == array.ctypes.data
    assert (header(capsule).tensor.code, header(capsule).tensor.bits, header(capsule).tensor.lanes) == (2, 32, 1)


def test_who_cannot_be_told_that_memory_is_read_only_gets_a_copy() -> None:
    array = np.arange(3, dtype="float32")
    array.flags.writeable = False
    taken = borrow(to_capsule(array))
    assert taken.tolist() == [0, 1, 2]
    assert not np.shares_memory(taken, array)
    with pytest.raises(BufferError, match="cannot be handed over without a copy: it is read-only, and the one who"):
        to_capsule(array, copy=False)
    assert not borrow(to_capsule(array, max_version=(1, 0))).flags.writeable


def test_strides_that_are_no_multiple_of_the_element() -> None:
    records = np.zeros(3, np.dtype([("flag", "u1"), ("value", "<f4")]))
    records["value"] = [1, 2, 3]
    assert borrow(to_capsule(records["value"], max_version=VERSION)).tolist() == [1, 2, 3]
    with pytest.raises(BufferError, match=r"its strides of \(5,\) bytes are no multiples of its elements' 4"):
        to_capsule(records["value"], max_version=VERSION, copy=False)


def test_copies_are_made_where_asked_and_not_elsewhere() -> None:
    array = np.arange(6, dtype="float32").reshape(2, 3)[:, ::-1]
    for copy in (None, False):
        assert np.shares_memory(borrow(to_capsule(array, max_version=VERSION, copy=copy)), array)
    taken = borrow(to_capsule(array, max_version=VERSION, copy=True))
    assert taken.tolist() == array.tolist()
    assert not np.shares_memory(taken, array)


@pytest.mark.parametrize(
    ("array", "options", "what"),
    [
        (np.ones(2), {"stream": 1}, "the CPU has no streams, and stream 1 was asked for"),
        (np.ones(2), {"dl_device": (2, 0)}, "DLPack device (1, 0), and was asked for on (2, 0)"),
        (np.ones(2, "complex64"), {}, "DLPack cannot tell of elements of dtype('complex64')"),
        (np.ones(2, np.dtype("f4").newbyteorder()), {}, "DLPack cannot tell of elements of dtype('>f4')"),
        (np.array(["a"]), {}, "DLPack cannot tell of elements of dtype('<U1')"),
    ],
)
def test_what_cannot_be_handed_over(array: np.ndarray, options: dict[str, Any], what: str) -> None:
    with pytest.raises(BufferError, match=re.escape(what)) as caught:
        to_capsule(array, **options)
    assert isinstance(caught.value, WeftError)


def test_the_device_asked_for_may_be_the_cpu() -> None:
    assert borrow(to_capsule(np.ones(2), dl_device=CPU)).tolist() == [1, 1]
