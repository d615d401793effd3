"""The seam: what backends that run on the processor do with memory, and that the runtime asks for nothing else."""

from __future__ import annotations

import os

import numpy as np
import pytest

import weft as wf
from runtime.hooked import Boxed, param
from weft.backends import Backend, find_backend
from weft.backends.cc import Cc
from weft.backends.interp import Interp
from weft.loops import Buffer
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type

HOSTS = pytest.mark.parametrize("host", [Interp(), Cc()], ids=["interp", "cc"])
ROW = Buffer(0, "row", (3,), "float64")


@HOSTS
@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_allocated_memory_is_zero_and_starts_a_cache_line(host: Backend, dtype: str) -> None:
    blocks = [host.allocate(Buffer(at, "b", (at, 3), dtype), device=0) for at in range(1, 20)]
    assert all(block.shape == (at, 3) for at, block in enumerate(blocks, 1))
    assert {block.dtype for block in blocks} == {numpy_type(dtype)}
    assert {block.ctypes.data % 64 for block in blocks} == {0}
    assert not any(block.astype(bool).any() for block in blocks)
    assert all(block.flags.writeable and block.flags.c_contiguous for block in blocks)


@HOSTS
def test_memory_is_adopted_where_it_lies_in_order(host: Backend) -> None:
    array = np.arange(3.0)
    block = host.adopt(ROW, array, device=0)
    assert np.shares_memory(block, array)
    assert not block.flags.writeable
    assert array.flags.writeable
    assert host.adopt(ROW, np.arange(6.0)[::2], device=0) is None
    assert host.adopt(ROW, np.frombuffer(bytes(25), "uint8")[1:].view("float64"), device=0) is None


@HOSTS
def test_values_go_in_and_out_as_copies(host: Backend) -> None:
    block, other = (host.allocate(ROW, device) for device in range(2))
    array = np.arange(3.0)
    host.upload(array, block)
    array[:] = 9
    host.copy(block, other)
    out = host.download(other)
    out[0] = 7
    assert host.download(other).tolist() == host.download(block).tolist() == [0, 1, 2]
    host.upload(np.broadcast_to(np.float64(4), (3,)), block)
    assert host.download(block).tolist() == [4, 4, 4]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_context_s_memory_starts_cache_lines(backend: str) -> None:
    w, ctx = param(o=5), wf.Context(backend)
    ctx.compile((w * 2.0).forward)()
    assert {block.ctypes.data % 64 for block in ctx._engine.devices[0].memory.blocks.values()} == {0}


def test_a_backend_of_one_s_own() -> None:
    """The runtime never looks into a block, and copies what cannot be adopted."""
    backend = Boxed()
    ctx = wf.Context(backend, devices=2)
    one, two = ctx.devices
    x = wf.data(np.arange(3.0), label="x")
    w = param(o=3, init=2.0)

    @wf.cd
    def code() -> None:
        w[:] = w * x + 1.0

    step = ctx.compile(code())
    step()
    assert backend.calls == ["upload", "synchronize 0"]
    assert ctx[w].tolist() == [1.0, 3.0, 5.0]
    two.receive(w, one).wait()
    two.run(step).wait()
    assert two[w].tolist() == [1.0, 4.0, 11.0]
    assert two[w * 2.0].tolist() == [2.0, 8.0, 22.0]
    assert "copy 0 to 1" in backend.calls
    two[w] = 0.0
    assert (one[w].tolist(), two[w].tolist()) == ([1.0, 3.0, 5.0], [0.0, 0.0, 0.0])


def test_a_backend_may_have_only_so_many_devices() -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.Context(Boxed(), devices=3)
    assert caught.value.what == "backend 'boxed' has 2 devices here, and 3 were asked for"
    assert caught.value.fix == "use devices=2 at most"


def test_backends_are_found_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    assert find_backend("interp").name == "interp"
    boxed = Boxed()
    assert find_backend(boxed) is boxed
    monkeypatch.setitem(os.environ, "WEFT_BACKEND", "cc")
    assert find_backend(None).name == "cc"
    assert find_backend("interp").name == "interp"
    for wrong in ("tpu", 3, object(), Interp):
        with pytest.raises(wf.WeftError) as caught:
            find_backend(wrong)  # type: ignore[arg-type]
        assert caught.value.what == f"there is no backend {wrong!r}"
        assert caught.value.fix == 'use one of "interp", "cc", "cuda"'
