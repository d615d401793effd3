"""The runtime of the CUDA backend on a real GPU: memory, graphs, static indices, streams, memory that runs out."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import weft as wf
from weft.backends.cuda import Cuda
from weft.loops import Buffer
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type


def backend(ctx: wf.Context) -> Cuda:
    found = ctx._engine.backend
    assert isinstance(found, Cuda)
    return found


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_memory_is_zero_and_comes_back_as_it_went(ctx: wf.Context, dtype: str) -> None:
    cuda = backend(ctx)
    block = cuda.allocate(Buffer(0, "b", (33, 5), dtype), 0)
    assert block.address % 256 == 0
    assert not cuda.download(block).astype(bool).any()
    given = np.random.default_rng(0).integers(0, 2, (33, 5)).astype(numpy_type(dtype))
    cuda.upload(given, block)
    assert cuda.download(block).tobytes() == given.tobytes()
    cuda.upload(given[::-1], block)
    assert cuda.download(block).tobytes() == given[::-1].tobytes()
    other = cuda.allocate(Buffer(0, "b", (33, 5), dtype), 0)
    cuda.copy(block, other)
    assert cuda.download(other).tobytes() == given[::-1].tobytes()


def test_an_array_may_change_once_it_is_uploaded(ctx: wf.Context) -> None:
    cuda = backend(ctx)
    for size in (1 << 10, 1 << 16, 1 << 20, 1 << 26):
        block = cuda.allocate(Buffer(0, "b", (size,), "uint8"), 0)
        given = np.full(size, 7, np.uint8)
        cuda.upload(given, block)
        given[:] = 9
        assert (cuda.download(block) == 7).all()


def test_a_view_is_the_same_memory(ctx: wf.Context) -> None:
    cuda = backend(ctx)
    whole = cuda.allocate(Buffer(0, "arena", (1024,), "uint8"), 0)
    part = cuda.view(whole, Buffer(1, "part", (4,), "float32"), 256)
    cuda.upload(np.arange(4, dtype=np.float32), part)
    assert cuda.download(whole)[256:272].view("float32").tolist() == [0, 1, 2, 3]


def test_memory_that_runs_out_is_refused_and_changes_nothing(ctx: wf.Context) -> None:
    cuda = backend(ctx)
    w = wf.param("w", o=1 << 20, init=1.0)
    assert ctx[w].sum() == 1 << 20
    with pytest.raises(MemoryError):
        cuda.allocate(Buffer(0, "huge", (2 * cuda.memory(0).total,), "uint8"), 0)
    cuda.release(0)
    hog = cuda.allocate(Buffer(0, "hog", (cuda.memory(0).free - (64 << 20),), "uint8"), 0)
    v = wf.param("v", o=1 << 26, init=1.0)
    with pytest.raises(wf.OutOfMemory, match="there is no memory for") as caught:
        ctx[v]
    assert any("`w` 4 MiB" in one for one in caught.value.notes)
    assert ctx[w].sum() == 1 << 20
    assert ctx.memory().devices[0].tensors["w"] == 4 << 20
    del hog
    assert ctx[v][-1] == 1, "what was not there is there again"


def test_memory_is_given_back(ctx: wf.Context) -> None:
    cuda = backend(ctx)
    cuda.release(0)
    before = cuda.memory(0)
    for _ in range(20):
        cuda.allocate(Buffer(0, "large", (1 << 30,), "uint8"), 0)
    assert cuda.memory(0).pool <= before.pool + (3 << 30), "what is let go of is used again"
    cuda.release(0)
    assert cuda.memory(0).pool <= before.pool + (64 << 20)


def test_a_routine_runs_again_and_again(ctx: wf.Context) -> None:
    w, x = wf.param("w", o=1000, init=1.0), wf.data(np.linspace(0, 1, 1000, dtype=np.float32), label="x")

    @wf.cd
    def code() -> None:
        w[:] = w * x + 1.0

    step, expected = ctx.compile(code()), np.ones(1000, np.float32)
    for _ in range(50):
        step()
        expected = expected * np.linspace(0, 1, 1000, dtype=np.float32) + np.float32(1)
    np.testing.assert_allclose(ctx[w], expected, rtol=1e-6)


def test_static_indices(ctx: wf.Context) -> None:
    w, i = wf.param("w", o=7, init=0.0), wf.index("i", 100)

    @wf.cd
    def code() -> None:
        w[:] = w * 3.0 + i

    step, expected = ctx.compile(code(), bindings=[i]), 0.0
    for at in (0, 5, 5, 99, 1):
        step(i=at)
        expected = expected * 3 + at
    assert ctx[w].tolist() == [expected] * 7


def test_two_routines_and_streams(ctx: wf.Context) -> None:
    w, x = wf.param("w", o=64, init=1.0), wf.data(np.arange(64, dtype=np.float32), label="x")

    @wf.cd
    def add() -> None:
        w[:] = w + x

    @wf.cd
    def double() -> None:
        w[:] = w * 2.0

    first, second, device = ctx.compile(add()), ctx.compile(double()), ctx.devices[0]
    one, two = device.stream(), device.stream()
    for _ in range(3):
        one.run(first)
        two.run(second)
    ctx.synchronize()
    expected = np.ones(64, np.float32)
    for _ in range(3):
        expected = (expected + np.arange(64, dtype=np.float32)) * 2
    np.testing.assert_allclose(ctx[w], expected)


def test_a_model_learns_as_on_the_processor() -> None:
    """The same steps on both: parameters stay close."""
    rng = np.random.default_rng(0)
    images, labels = rng.normal(size=(64, 16)).astype(np.float32), rng.normal(size=(64, 3)).astype(np.float32)

    x, y = wf.data(images, batch=1, label="x"), wf.data(labels, batch=1, label="y")
    hidden = wf.tanh(wf.param("w1", o=8) @ x + wf.param("b1", o=8))
    loss = wf.mean((wf.param("w2", o=3) @ hidden - y) ** 2, "...|... => 0")

    def trained(backend: str) -> dict[str, Any]:
        with wf.Context(backend) as ctx:
            step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)))
            for _ in range(3):
                step()
            return {one.label: ctx[one] for one in loss.params}

    found, expected = trained("cuda"), trained("cc")
    for name, array in expected.items():
        np.testing.assert_allclose(found[name], array, rtol=1e-3, atol=1e-4)


def test_a_function_of_arrays(ctx: wf.Context) -> None:
    x = wf.input("x", o=100)
    double = ctx.function(x, returns=x * 2.0)
    for start in range(5):
        given = np.arange(start, start + 100, dtype=np.float32)
        assert double(given).tolist() == (given * 2).tolist()


def test_a_second_process_compiles_nothing() -> None:
    program = """
import sys
import numpy as np
import weft as wf
ctx = wf.Context("cuda")
w = wf.param("w", o=128, init=1.0)
step = ctx.compile(wf.exp(w * 3.0).forward)
step()
print(sorted(one for one in ("triton", "cuda.bindings.nvrtc") if one in sys.modules))
"""
    env = {**os.environ, "PYTHONPATH": os.pathsep.join([str(Path(wf.__file__).parent.parent), *sys.path])}
    outputs = [
        subprocess.run([sys.executable, "-c", program], env=env, capture_output=True, text=True, check=True).stdout
        for _ in range(2)
    ]
    assert outputs[1].strip() == "[]"


def test_what_the_profile_times_is_done(ctx: wf.Context) -> None:
    w = wf.param("w", o=(4096, 4096), init=1.0)

    @wf.cd
    def code() -> None:
        w[:] = w * 1.5

    profile = ctx.compile(code()).profile(times=3)
    assert profile.seconds > 128e6 / 10e12, "64 MiB are read and written: no GPU moves that much in less"
