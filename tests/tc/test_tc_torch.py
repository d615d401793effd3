"""Comprehensions as functions of PyTorch, with a stand-in for torch: the suite needs none."""

from __future__ import annotations

import sys
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import weft as wf

TEXT = """
def mm(double(M,K) A, double(K,N) B, double s) -> (C) { C(m,n) +=! A(m,k) * B(k,n)
    C(m,n) = C(m,n) * s }
def two(double(N) x, int32(N) k) -> (y, z) { y(i) = x(i) * x(i)
    z(i) = k(i) * 2 }
"""


class Tensor(np.ndarray):  # type: ignore[type-arg]
    """What a torch tensor is asked for."""

    def detach(self) -> Tensor:
        return self

    def contiguous(self) -> Tensor:
        return np.ascontiguousarray(self).view(Tensor)


class Function:
    """Calls forward, and remembers what backward needs."""

    last: Any = None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        ctx = SimpleNamespace(needs_input_grad=tuple(isinstance(one, Tensor) and one.dtype.kind == "f" for one in args))
        ctx.save_for_backward = lambda *tensors: setattr(ctx, "saved_tensors", tensors)
        Function.last = ctx, cls
        return cls.forward(ctx, *args)  # type: ignore[attr-defined]


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("torch")
    module.is_tensor = lambda one: isinstance(one, Tensor)  # type: ignore[attr-defined]
    module.autograd = SimpleNamespace(Function=Function)  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def tensor(*shape: int, seed: int = 0) -> Tensor:
    return np.random.default_rng(seed).standard_normal(shape).view(Tensor)


def test_forward_and_backward_are_the_definitions(torch: ModuleType) -> None:
    definition = wf.tc.define(TEXT, backend="interp").mm
    mm = wf.torch.wrap(definition)
    a, b = tensor(3, 4), tensor(4, 5, seed=1)
    np.testing.assert_allclose(mm(a, B=b, s=2.0), a @ b * 2)
    ctx, function = Function.last
    d = tensor(5, 3, seed=2).T
    da, db, ds = function.backward(ctx, d)
    np.testing.assert_allclose(da, d @ b.T * 2)
    np.testing.assert_allclose(db, a.T @ d * 2)
    assert ds is None
    assert mm.__name__ == "mm"
    assert "C(m, n) +=! A(m, k) * B(k, n)" in (mm.__doc__ or "")


def test_what_needs_no_gradient_gets_none(torch: ModuleType) -> None:
    two = wf.torch.wrap(wf.tc.define(TEXT, backend="interp").two)
    x, k = tensor(4), np.arange(4, dtype="int32").view(Tensor)
    y, z = two(x, k)
    np.testing.assert_allclose(y, x * x)
    np.testing.assert_array_equal(z, k * 2)
    ctx, function = Function.last
    dx, dk = function.backward(ctx, np.ones(4).view(Tensor), None)
    np.testing.assert_allclose(dx, 2 * x)
    assert dk is None


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(wf.WeftError, match="PyTorch is not installed") as caught:
        wf.torch.wrap(wf.tc.define(TEXT).mm)
    assert caught.value.fix == 'pip install "weft[torch]"'


def test_only_definitions_are_wrapped(torch: ModuleType) -> None:
    with pytest.raises(wf.WeftError, match="wrap takes a definition, not Comprehensions"):
        wf.torch.wrap(wf.tc.define(TEXT))  # type: ignore[arg-type]
