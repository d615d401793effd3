"""Arrays of PyTorch and CuPy on a real GPU: taken and handed over where they lie. What is not installed fails here."""

from __future__ import annotations

from typing import Any

import cupy
import numpy as np
import pytest
import torch

import weft as wf
from weft.dlpack import ExchangeError

MATMUL = "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }"
LIBRARIES = pytest.mark.parametrize("library", [torch, cupy], ids=["torch", "cupy"])


def gpu_array(library: Any, values: np.ndarray) -> Any:
    return torch.from_numpy(values).cuda() if library is torch else cupy.asarray(values)


def values_of(array: Any) -> np.ndarray:
    return array.cpu().numpy() if isinstance(array, torch.Tensor) else cupy.asnumpy(array)


@LIBRARIES
def test_data_on_the_gpu_is_used_as_it_is(ctx: wf.Context, library: Any) -> None:
    theirs = gpu_array(library, np.arange(1000, dtype=np.float32))
    y = wf.data(theirs, label="x") * 2.0
    step = ctx.compile(y.forward)
    step()
    np.testing.assert_array_equal(ctx[y], 2 * np.arange(1000))
    theirs += 1
    step()
    np.testing.assert_array_equal(ctx[y], 2 * np.arange(1000) + 2)


@LIBRARIES
def test_work_of_others_is_waited_for(ctx: wf.Context, library: Any) -> None:
    """Much is asked of the default stream before; weft reads what it leaves."""
    theirs = gpu_array(library, np.ones((2048, 2048), np.float32))
    other = theirs / 2048
    y = wf.data(theirs, label="x") * 1.0
    step = ctx.compile(y.forward)
    step()
    for _ in range(20):
        theirs[:] = theirs @ other + 1
    step()
    np.testing.assert_allclose(ctx[y], values_of(theirs), rtol=1e-3)


@LIBRARIES
def test_values_are_set_and_handed_over_on_the_gpu(ctx: wf.Context, library: Any) -> None:
    w = wf.param("w", o=512, init=0.0)
    ctx[w] = gpu_array(library, np.arange(512, dtype=np.float32))
    taken = library.from_dlpack(w * 3.0)
    assert (taken.device.type == "cuda") if library is torch else isinstance(taken, cupy.ndarray)
    np.testing.assert_array_equal(values_of(taken), 3 * np.arange(512))
    ctx[w] = 0.0
    taken += 1
    np.testing.assert_array_equal(values_of(taken), 3 * np.arange(512) + 1)
    assert np.asarray(w).sum() == 0


def test_bfloat16_comes_and_goes(ctx: wf.Context) -> None:
    theirs = torch.arange(64, device="cuda", dtype=torch.bfloat16)
    found = torch.from_dlpack(wf.data(theirs, label="x") + wf.data(theirs, label="y"))
    assert found.dtype == torch.bfloat16
    assert torch.equal(found, theirs + theirs)


def test_a_stream_of_pytorch_waits_and_is_waited_for(ctx: wf.Context) -> None:
    with torch.cuda.stream(torch.cuda.Stream()):
        theirs = torch.ones(2048, 2048, device="cuda")
        for _ in range(20):
            theirs = theirs @ theirs / 2048
        found = torch.from_dlpack(wf.data(theirs, label="x") * 2.0) + 1
        assert torch.allclose(found, theirs * 2 + 1)


def test_the_wrong_device_is_an_error_that_names_both(ctx: wf.Context) -> None:
    x = wf.data(torch.ones(3, device="cuda"), label="x")
    with (
        wf.Context("cc") as other,
        pytest.raises(ExchangeError, match="`x` lies on CUDA device 0, and this context"),
    ):
        other[x * 2.0]
    assert ctx[x * 2.0].tolist() == [2, 2, 2]


def test_comprehensions_give_what_they_are_given() -> None:
    mm = wf.tc.define(MATMUL, backend="cuda").mm
    a, b = torch.rand(128, 64, device="cuda"), torch.rand(64, 32, device="cuda")
    found = mm(a, b)
    assert found.device.type == "cuda"
    assert torch.allclose(found, a @ b, rtol=1e-4)
    target = torch.zeros(128, 32, device="cuda")
    assert mm(a, b, outputs=(target,)) is target
    assert torch.allclose(target, a @ b, rtol=1e-4)
    np.testing.assert_allclose(mm(a.cpu().numpy(), b.cpu().numpy()), (a @ b).cpu().numpy(), rtol=1e-4)


def test_autograd_on_the_gpu() -> None:
    mm = wf.torch.wrap(wf.tc.define(MATMUL, backend="cuda").mm)
    a = torch.rand(16, 8, device="cuda", requires_grad=True)
    b = torch.rand(8, 4, device="cuda", requires_grad=True)
    mm(a, b).square().sum().backward()
    found = a.grad, b.grad
    a.grad = b.grad = None
    (a @ b).square().sum().backward()
    for one, other in zip(found, (a.grad, b.grad), strict=True):
        assert torch.allclose(one, other, rtol=1e-4)


def test_functions_take_arrays_of_the_gpu(ctx: wf.Context) -> None:
    x = wf.input("x", b="batch", o=8)
    total = ctx.function(x, returns=wf.einsum("...|i => 0", x))
    given = torch.rand(10, 8, device="cuda")
    np.testing.assert_allclose(total(given), given.sum().item(), rtol=1e-5)
