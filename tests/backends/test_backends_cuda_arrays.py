"""Arrays of other libraries in the memory of a GPU: taken and handed over where they lie, by DLPack, on a stand-in."""

from __future__ import annotations

import ctypes
import gc
from typing import Any

import numpy as np
import pytest

import weft as wf
from producers import Producer
from standins.gpu import StandIn
from weft.backends.cuda import Cuda
from weft.dlpack import DeviceArray, ExchangeError, on_device
from weft.loops import Buffer

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"


class OnGpu(Producer):
    """An array of another library on a GPU; it knows which streams it was asked for."""

    def __init__(self, cuda: Cuda, array: np.ndarray, device: int = 0, **options: Any) -> None:
        self.block = cuda.allocate(Buffer(0, "theirs", array.shape, array.dtype.name), device)
        cuda.upload(array, self.block)
        cuda.synchronize(device)
        raw = (ctypes.c_ubyte * array.nbytes).from_address(self.block.address)
        self.values = np.frombuffer(raw, array.dtype).reshape(array.shape)
        self.streams: list[object] = []
        super().__init__(self.values, array.shape, device=(2, device), **options)

    def __dlpack__(  # type: ignore[override]
        self, *, stream: object = None, max_version: tuple[int, int] | None = None, copy: bool | None = None
    ) -> Any:
        self.streams.append(stream)
        return self.capsule()


@pytest.fixture
def gpu() -> StandIn:
    return StandIn(devices=2)


@pytest.fixture
def cuda(gpu: StandIn) -> Cuda:
    return gpu.backend()


def row(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


# Taking


def test_an_array_of_a_gpu_is_taken_where_it_lies(cuda: Cuda) -> None:
    theirs = OnGpu(cuda, row(1, 2, 3))
    taken = on_device(theirs)
    assert isinstance(taken, DeviceArray)
    assert (taken.address, taken.shape, taken.dtype, taken.device) == (theirs.block.address, (3,), np.float32, (2, 0))
    assert (taken.ndim, taken.size, taken.nbytes) == (1, 3, 12)
    assert theirs.streams == [1], "on the default stream, which weft's own waits for"
    assert on_device(np.ones(3)) is None
    assert on_device([1, 2]) is None
    assert theirs.deleted == 0
    del taken
    gc.collect()
    assert theirs.deleted == 1


def test_data_on_a_gpu_is_used_as_it_is(gpu: StandIn, cuda: Cuda) -> None:
    ctx, theirs = wf.Context(cuda), OnGpu(cuda, row(1, 2, 3))
    x = wf.data(theirs, label="x")
    y = x * 2.0
    gpu.calls()
    assert ctx[y].tolist() == [2, 4, 6]
    assert not [one for one in gpu.calls() if one.startswith(("copy", "upload 12"))]
    theirs.values[0] = 10
    step = ctx.compile(y.forward)
    step()
    assert ctx[y].tolist() == [20, 4, 6], "each run sees what is in the array then"


def test_an_array_that_was_given_is_never_written(cuda: Cuda) -> None:
    ctx, theirs = wf.Context(cuda), OnGpu(cuda, row(1, 2, 3))
    x = wf.data(theirs, label="x")

    @wf.cd
    def add_one() -> None:
        x.accumulate("add", 1)

    ctx.compile(add_one())()
    assert ctx[x].tolist() == [2, 3, 4]
    assert theirs.values.tolist() == [1, 2, 3]


def test_what_is_not_aligned_is_copied(gpu: StandIn, cuda: Cuda) -> None:
    ctx, theirs = wf.Context(cuda), OnGpu(cuda, row(0, 1, 2, 3))
    theirs.managed.tensor.byte_offset = 4
    theirs._shape[0] = 3
    gpu.calls()
    assert ctx[wf.data(theirs) * 1.0].tolist() == [1, 2, 3]
    assert "copy 12" in gpu.calls()


def test_a_value_is_set_from_an_array_of_a_gpu(cuda: Cuda) -> None:
    ctx, w = wf.Context(cuda), wf.param("w", o=3, init=0.0)
    ctx[w] = OnGpu(cuda, row(4, 5, 6))
    assert ctx[w].tolist() == [4, 5, 6]
    with pytest.raises(ExchangeError) as caught:
        ctx[w] = OnGpu(cuda, np.arange(3.0))
    assert caught.value.what == "`w` is float32, and what is given for it on its GPU is float64"
    with pytest.raises(wf.ShapeError):
        ctx[w] = OnGpu(cuda, row(1, 2))
    assert ctx[w].tolist() == [4, 5, 6]


def test_functions_take_arrays_of_a_gpu(cuda: Cuda) -> None:
    ctx, x = wf.Context(cuda), wf.input("x", o="n")
    double = ctx.function(x, returns=x * 2.0)
    assert double(OnGpu(cuda, row(1, 2))).tolist() == [2, 4]
    assert double(OnGpu(cuda, row(1, 2, 3))).tolist() == [2, 4, 6]
    w, y = wf.param("w", o=3, init=1.0), wf.input("y", o=3)

    @wf.cd
    def code() -> None:
        w[:] = w * y

    step = ctx.function(y, code=code())
    step(OnGpu(cuda, row(1, 2, 3)))
    with pytest.raises(ExchangeError, match="`y` is float32, and what is given for it on its GPU is float64"):
        step(OnGpu(cuda, np.arange(3.0)))
    with pytest.raises(ExchangeError, match="`y` lies on CUDA device 1"):
        step(OnGpu(cuda, row(1, 2, 3), device=1))
    assert ctx[w].tolist() == [1, 2, 3], "what is refused changes nothing"
    with pytest.raises(wf.WeftError, match="lie on a GPU"):
        double(OnGpu(cuda, row(1, 2)), wait=False)


def test_strides_are_refused(cuda: Cuda) -> None:
    theirs = OnGpu(cuda, np.zeros((2, 3), np.float32), strides=(1, 2))
    with pytest.raises(ExchangeError, match=r"cannot be used on its GPU: its strides are \(4, 8\) bytes"):
        wf.data(theirs)
    wf.data(OnGpu(cuda, np.zeros((2, 3), np.float32), strides=(3, 1)))
    with pytest.raises(ExchangeError, match="where nothing copies it yet"):
        wf.data(OnGpu(cuda, row(1)), copy=True)


# The wrong device


@pytest.mark.parametrize("host", ["cc", "interp"])
def test_an_array_of_a_gpu_on_the_processor_is_an_error_that_names_both(cuda: Cuda, host: str) -> None:
    ctx, x = wf.Context(host), wf.data(OnGpu(cuda, row(1, 2)), label="x")
    with pytest.raises(ExchangeError) as caught:
        ctx[x * 2.0]
    assert caught.value.what == "what is given for `x` lies on CUDA device 0, and this context computes on the CPU"
    assert 'wf.Context("cuda")' in caught.value.fix
    w = wf.param("w", o=2, init=1.0)
    with pytest.raises(ExchangeError, match="`w` lies on CUDA device 0"):
        ctx[w] = OnGpu(cuda, row(1, 2))
    assert ctx[w].tolist() == [1, 1]
    mm = wf.tc.define(MATMUL, backend=host).mm
    with pytest.raises(ExchangeError, match="`A` lies on CUDA device 0, and this context computes on the CPU"):
        mm(OnGpu(cuda, np.ones((2, 2), np.float32)), np.ones((2, 2), np.float32))


def test_an_array_of_another_gpu_is_an_error_that_names_both(cuda: Cuda) -> None:
    ctx, x = wf.Context(cuda), wf.data(OnGpu(cuda, row(1, 2), device=1), label="x")
    with pytest.raises(ExchangeError) as caught:
        ctx[x * 2.0]
    assert (
        caught.value.what == "what is given for `x` lies on CUDA device 1, and this context computes on CUDA device 0"
    )


# Handing over


def look(array: DeviceArray) -> np.ndarray:
    raw = (ctypes.c_ubyte * array.nbytes).from_address(array.address)
    return np.frombuffer(raw, array.dtype).reshape(array.shape)


def test_a_tensor_is_handed_over_where_it_lies(cuda: Cuda) -> None:
    ctx, w = wf.Context(cuda), wf.param("w", o=3, init=2.0)
    y = w * 3.0
    assert y.__dlpack_device__() == (2, 0)
    taken = on_device(y)
    assert taken is not None
    cuda.synchronize(0)
    assert look(taken).tolist() == [6, 6, 6]
    ctx[w] = 5.0
    cuda.synchronize(0)
    assert look(taken).tolist() == [6, 6, 6], "it is the taker's own"
    assert np.asarray(y).tolist() == [15, 15, 15]
    with pytest.raises(ExchangeError, match="cannot be had without a copy"):
        y.__dlpack__(copy=False)


def test_who_asks_on_another_stream_waits(gpu: StandIn, cuda: Cuda) -> None:
    _ctx, w = wf.Context(cuda), wf.param("w", o=3, init=2.0)
    other = cuda.gpu(1).stream
    array = _export(w)
    calls: list[int] = []
    told = DeviceArray(array.address, array.shape, array.dtype, array.device, array.owner, ready=calls.append)
    for stream in (None, 1, -1, other):
        told.__dlpack__(stream=stream, max_version=(1, 0))
    assert calls == [other]
    array.__dlpack__(stream=other)


def _export(tensor: wf.Tensor) -> DeviceArray:
    found = on_device(tensor)
    assert found is not None
    return found


@pytest.mark.parametrize("version", [None, (1, 0)])
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "bool", "int64", "float8_e4m3fn"])
def test_a_capsule_says_what_and_where(cuda: Cuda, version: tuple[int, int] | None, dtype: str) -> None:
    block = cuda.allocate(Buffer(0, "b", (2, 3), dtype), 0)
    array = cuda.lend(block)

    class Asked:
        def __dlpack__(self, **_: object) -> Any:
            return array.__dlpack__(max_version=version)

        def __dlpack_device__(self) -> tuple[int, int]:
            return array.__dlpack_device__()

    taken = on_device(Asked())
    assert taken is not None
    assert (taken.address, taken.shape, taken.dtype, taken.device) == (block.address, (2, 3), array.dtype, (2, 0))
    with pytest.raises(ExchangeError, match="lies on CUDA device 0 and is handed over as it is"):
        array.__dlpack__(dl_device=(1, 0))


def test_memory_stays_as_long_as_who_took_it(cuda: Cuda) -> None:
    array = cuda.lend(cuda.allocate(Buffer(0, "b", (1024,), "uint8"), 0))
    capsule = array.__dlpack__(max_version=(1, 0))
    before = cuda.memory(0).held
    del array
    gc.collect()
    assert cuda.memory(0).held == before
    del capsule
    gc.collect()
    assert cuda.memory(0).held == before - 1024


# Comprehensions


def test_comprehensions_on_arrays_of_a_gpu(gpu: StandIn, cuda: Cuda) -> None:
    mm = wf.tc.define(MATMUL, backend=cuda).mm
    a, b = (np.random.default_rng(at).random((4, 4), np.float32) for at in range(2))
    gpu.calls()
    found = mm(OnGpu(cuda, a), OnGpu(cuda, b))
    assert isinstance(found, DeviceArray)
    calls = gpu.calls()
    assert calls[-1].startswith("copy"), "nobody waits for what stays on the GPU"
    cuda.synchronize(0)
    np.testing.assert_allclose(look(found), a @ b, rtol=1e-5)
    target = OnGpu(cuda, np.zeros((4, 4), np.float32))
    assert mm(OnGpu(cuda, a), OnGpu(cuda, b), outputs=(target,)) is target
    cuda.synchronize(0)
    np.testing.assert_allclose(target.values, a @ b, rtol=1e-5)
    grad = mm.grad(OnGpu(cuda, a), OnGpu(cuda, b), wrt="A")
    cuda.synchronize(0)
    np.testing.assert_allclose(look(grad), np.ones((4, 4)) @ b.T, rtol=1e-5)


def test_outputs_on_a_gpu_that_overlap_are_refused(cuda: Cuda) -> None:
    two = wf.tc.define("def two(float(N) A) -> (B, C) { B(n) = A(n) C(n) = A(n) }", backend=cuda).two
    target = OnGpu(cuda, row(1, 2))
    with pytest.raises(wf.WeftError, match="share memory"):
        two(row(1, 2), outputs=(target, target))
    read_only = OnGpu(cuda, row(1, 2), flags=1)
    with pytest.raises(wf.WeftError, match="its memory is read-only"):
        two(row(1, 2), outputs=(read_only, target))
