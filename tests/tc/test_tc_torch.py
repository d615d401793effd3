"""Comprehensions as functions of PyTorch, with a stand-in for torch: the suite needs none."""

from __future__ import annotations

import pickle
import sys
from typing import Any

import numpy as np
import pytest

import weft as wf
from standins.torch_like import Function, Tensor, standin, tensor

TEXT = """
def mm(double(M,K) A, double(K,N) B, double s) -> (C) { C(m,n) +=! A(m,k) * B(k,n)
    C(m,n) = C(m,n) * s }
def two(double(N) x, int32(N) k) -> (y, z) { y(i) = x(i) * x(i)
    z(i) = k(i) * 2 }
def cube(double(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }
def cube_grad(double(N) x, double(N) dy) -> (dx) { dx(i) = 3 * x(i) * x(i) * dy(i) }
def add(double(N) x) -> (y) { y(i) += x(i) }
def look(double(V) T, int32(B) r) -> (O) { O(b) = T(r(b)) * T(r(b)) }
"""


@pytest.fixture
def torch(monkeypatch: pytest.MonkeyPatch) -> Any:
    module = standin()
    monkeypatch.setitem(sys.modules, "torch", module)
    return module


def wrapped(name: str, **options: Any) -> Any:
    return wf.torch.wrap(wf.tc.define(TEXT, backend="interp")[name], **options)


def random(*shape: int, seed: int = 0) -> Tensor:
    return np.random.default_rng(seed).standard_normal(shape).view(Tensor)


def test_forward_and_backward_are_the_definitions(torch: Any) -> None:
    mm = wrapped("mm")
    a, b = random(3, 4), random(4, 5, seed=1)
    np.testing.assert_allclose(mm(a, B=b, s=2.0), a @ b * 2)
    known = torch.ops.weft.apply.default
    known.last.needs_input_grad = (False, False, (True, True, False))
    d = random(5, 3, seed=2).T
    da, db, ds = known.backward(known.last, d)
    np.testing.assert_allclose(da, d @ b.T * 2)
    np.testing.assert_allclose(db, a.T @ d * 2)
    assert ds is None
    assert mm.__name__ == "mm"
    assert "C(m, n) +=! A(m, k) * B(k, n)" in (mm.__doc__ or "")
    assert repr(mm) == "<torch function of <comprehension mm(A, B, s) -> (C)>>"


def test_what_needs_no_gradient_gets_none(torch: Any) -> None:
    x, k = random(4), np.arange(4, dtype="int32").view(Tensor)
    y, z = wrapped("two")(x, k)
    np.testing.assert_allclose(y, x * x)
    np.testing.assert_array_equal(z, k * 2)
    known = torch.ops.weft.apply.default
    dx, dk = known.backward(known.last, tensor(np.ones(4)), None)
    np.testing.assert_allclose(dx, 2 * x)
    assert dk is None


def test_the_gradient_of_the_gradient_and_of_that(torch: Any) -> None:
    x, d, dd, ddd = (random(3, seed=seed) for seed in range(4))
    wrapped("cube")(x)
    known = torch.ops.weft.apply.default
    np.testing.assert_allclose(known.backward(known.last, d)[0], 3 * x**2 * d)
    of_x, of_d = known.backward(known.last, dd)
    np.testing.assert_allclose(of_x, 6 * x * d * dd)
    np.testing.assert_allclose(of_d, 3 * x**2 * dd)
    third = known.backward(known.last, ddd, tensor(np.zeros(3)))
    np.testing.assert_allclose(third[0], 6 * d * dd * ddd)


def test_a_gradient_that_somebody_wrote(torch: Any) -> None:
    tc = wf.tc.define(TEXT, backend="interp")
    cube = wf.torch.wrap(tc.cube, backward=tc.cube_grad)
    x, d, dd = random(3), random(3, seed=1), random(3, seed=2)
    cube(x)
    known = torch.ops.weft.apply.default
    assert '"cube_grad"' in known.last.own
    np.testing.assert_allclose(known.backward(known.last, d)[0], 3 * x**2 * d)
    np.testing.assert_allclose(known.backward(known.last, dd)[0], 6 * x * d * dd)
    with pytest.raises(wf.WeftError) as raised:
        wf.torch.wrap(tc.mm, backward=tc.cube_grad)
    assert raised.value.what == (
        "the gradient of `mm` takes 4 tensors and gives 3, and `cube_grad` takes 2 and gives 1"
    )
    assert raised.value.fix == "take A, B, s, d_C, and give d_A, d_B, d_s"


def test_shapes_without_running(torch: Any) -> None:
    wrapped("mm")(random(3, 4), random(4, 5), 1.0)
    known = torch.ops.weft.apply.default
    given = [tensor(np.zeros(shape)) for shape in ((3, 4), (4, 5), ())]
    (found,) = known.fake(known.last.key, "", given)
    assert (found.shape, found.dtype, found[0, 0]) == ((3, 5), "float64", 99)
    gradients = known.fake(known.last.key + "\n0,2", "", [*given, tensor(np.zeros((3, 5)))])
    assert [one.shape for one in gradients] == [(3, 4), ()]


def test_function_transforms_get_a_function(torch: Any) -> None:
    torch.transforming = True
    x = random(3)
    np.testing.assert_allclose(wrapped("cube")(x), x**3)
    context, function = Function.last
    none, nothing, found = function.backward(context, tensor(np.ones(3)))
    assert (none, nothing) == (None, None)
    np.testing.assert_allclose(found, 3 * x**2)
    info = type("Info", (), {"batch_size": 2})
    mapped, dims = function.vmap(info, (None, None, 1), context.key, "", random(3, 2))
    np.testing.assert_allclose(mapped[0], random(3, 2).T ** 3)
    assert dims == (0,)
    _, z = wrapped("two")(x, np.arange(3, dtype="int32").view(Tensor))
    assert Function.last[0].constant[0] is z


def test_errors_name_the_users_line(torch: Any) -> None:
    for call in (
        lambda: wrapped("cube")(random(3, 2)),
        lambda: wrapped("cube")(random(3).astype("float32")),
        lambda: wrapped("look")(random(3), tensor([3], "int32")),
    ):
        with pytest.raises(wf.WeftError) as raised:
            call()
        assert raised.value.origin is not None
        assert raised.value.origin.file == __file__


def test_what_a_definition_starts_from_is_a_parameter(torch: Any) -> None:
    with pytest.raises(wf.WeftError) as raised:
        wrapped("add")(random(3))
    assert raised.value.fix == (
        "pass what it starts from, as `y` by position or by name, or write `!` after its `=` in the text"
    )
    np.testing.assert_allclose(wrapped("add")(random(3), np.ones(3)), random(3) + 1)


def test_wrapped_definitions_pickle(torch: Any) -> None:
    again = pickle.loads(pickle.dumps(wrapped("cube")))
    np.testing.assert_allclose(again(random(3)), random(3) ** 3)
    known = torch.ops.weft.apply.default
    elsewhere = known.run(known.last.key.replace("cube(", "cube( "), "", [random(3)])  # a text nobody wrapped here
    np.testing.assert_allclose(elsewhere[0], random(3) ** 3)


def test_numbers_that_do_not_fit(torch: Any) -> None:
    with pytest.raises(wf.WeftError, match=r"`k` is int32, and 1\.5 is no number of that type"):
        wf.torch.wrap(wf.tc.define("def f(int32 k, double(N) x) -> (y) { y(i) = k * x(i) }").f)(1.5, random(3))


def test_without_torch(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "torch", None)
    with pytest.raises(wf.WeftError, match="PyTorch is not installed") as caught:
        wf.torch.wrap(wf.tc.define(TEXT).mm)
    assert caught.value.fix == 'pip install "weft[torch]"'


def test_only_definitions_are_wrapped(torch: Any) -> None:
    with pytest.raises(wf.WeftError, match="wrap takes a definition, not Comprehensions"):
        wf.torch.wrap(wf.tc.define(TEXT))  # type: ignore[arg-type]
