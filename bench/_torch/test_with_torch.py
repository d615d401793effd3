"""`wf.torch.wrap` with the real PyTorch: `make test-torch`."""

from __future__ import annotations

import io
import pickle
from typing import Any

import pytest
import torch

import weft as wf

TEXT = """
def cube(double(N) x) -> (y) { y(i) = x(i) * x(i) * x(i) }
def cube_grad(double(N) x, double(N) dy) -> (dx) { dx(i) = 3 * x(i) * x(i) * dy(i) }
def mm(double(M,K) A, double(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }
def conv(double(N) I, double(K) W) -> (O) { O(i) +=! I(i + k) * W(k) }
def softmax(double(N,D) x) -> (y) {
    h(n) max=! x(n,d)
    e(n,d) = exp(x(n,d) - h(n))
    s(n) +=! e(n,d)
    y(n,d) = e(n,d) / s(n)
}
def two(double(N) x, int32(N) k) -> (y, z, w) { y(i) = x(i) * x(i)  z(i) = k(i) * 2  w +=! sin(x(i)) }
def look(double(V,D) T, int32(B) r) -> (O) { O(b,d) = T(r(b), d) * T(r(b), d) }
def add(double(N) x) -> (y) { y(i) += x(i) }
def scale(double s, double(N) x) -> (y) { y(i) = s * x(i) }
"""
tc = wf.tc.define(TEXT)


def random(*shape: int) -> torch.Tensor:
    return torch.randn(shape, dtype=torch.float64, requires_grad=True)


@pytest.fixture(autouse=True)
def _seeded() -> None:
    torch.manual_seed(0)


CASES = {
    "cube": lambda: (random(4),),
    "mm": lambda: (random(3, 4), random(4, 2)),
    "conv": lambda: (random(6), random(3)),
    "softmax": lambda: (random(2, 3),),
    "look": lambda: (random(3, 2), torch.tensor([2, 0, 2], dtype=torch.int32)),
    "add": lambda: (random(4), random(4)),
    "scale": lambda: (random(), random(4)),
}


@pytest.mark.parametrize("name", CASES)
def test_gradients_and_gradients_of_gradients(name: str) -> None:
    function, args = wf.torch.wrap(tc[name]), CASES[name]()
    assert torch.autograd.gradcheck(function, args)
    assert torch.autograd.gradgradcheck(function, args)


def test_a_gradient_penalty_keeps_its_term() -> None:
    x, cube = random(4), wf.torch.wrap(tc.cube)
    y = cube(x).sum()
    (g,) = torch.autograd.grad(y, x, create_graph=True)
    (found,) = torch.autograd.grad(y + (g * g).sum(), x, create_graph=True)
    torch.testing.assert_close(found, 3 * x**2 + 36 * x**3)
    (third,) = torch.autograd.grad(found.sum(), x)
    torch.testing.assert_close(third, 6 * x + 108 * x**2)


def test_results_of_whole_numbers_beside_others() -> None:
    x, k = random(4), torch.arange(4, dtype=torch.int32)
    y, z, w = wf.torch.wrap(tc.two)(x, k)
    assert (z.dtype, z.requires_grad) == (torch.int32, False)
    (found,) = torch.autograd.grad(w * 2 + y.sum(), x, create_graph=True)
    torch.testing.assert_close(found, 2 * x + 2 * torch.cos(x))
    torch.testing.assert_close(torch.autograd.grad(found.sum(), x)[0], 2 - 2 * torch.sin(x))
    assert not wf.torch.wrap(tc.cube)(x.detach()).requires_grad


def test_a_gradient_that_somebody_wrote() -> None:
    cube, x = wf.torch.wrap(tc.cube, backward=tc.cube_grad), random(4)
    assert torch.autograd.gradcheck(cube, (x,))
    assert torch.autograd.gradgradcheck(cube, (x,))


# Compiling and exporting


def test_compile_in_one_graph() -> None:
    cube, x = wf.torch.wrap(tc.cube), random(4)
    torch.testing.assert_close(torch.compile(lambda x: cube(x) * 2, fullgraph=True)(x), 2 * x**3)
    torch.compile(lambda x: cube(x).sum(), fullgraph=True)(x).backward()
    torch.testing.assert_close(x.grad, 3 * x**2)
    any_size = torch.compile(lambda x: cube(x) + 1, fullgraph=True, dynamic=True)
    for size in (5, 7, 9):
        y = random(size)
        torch.testing.assert_close(any_size(y), y**3 + 1)
    scale = wf.torch.wrap(tc.scale)
    torch.testing.assert_close(torch.compile(lambda x: scale(2.0, x), fullgraph=True)(x), 2 * x)
    torch.testing.assert_close(torch.compile(lambda x: scale(x=x, s=x.sum()), fullgraph=True)(x), x.sum() * x)
    product = torch.compile(wf.torch.wrap(tc.mm), fullgraph=True)
    a, b = random(3, 4), random(4, 5)
    torch.testing.assert_close(product(a, b), a @ b)


class Model(torch.nn.Module):
    def __init__(self) -> None:
        super().__init__()
        self.cube = wf.torch.wrap(tc.cube)
        self.weight = torch.nn.Parameter(torch.ones(4, dtype=torch.float64))

    def forward(self, x: torch.Tensor) -> Any:
        return self.cube(x * self.weight) * 2


@pytest.mark.parametrize("strict", [False, True])
def test_export_and_back(strict: bool) -> None:
    x = random(4).detach()
    exported = torch.export.export(Model(), (x,), strict=strict)
    torch.testing.assert_close(exported.module()(x), 2 * x**3)
    stored = io.BytesIO()
    torch.export.save(exported, stored)
    stored.seek(0)
    torch.testing.assert_close(torch.export.load(stored).module()(x), 2 * x**3)


def test_models_are_saved() -> None:
    x, stored = random(4).detach(), io.BytesIO()
    torch.save(Model(), stored)
    stored.seek(0)
    for again in (torch.load(stored, weights_only=False), pickle.loads(pickle.dumps(Model()))):
        torch.testing.assert_close(again(x), 2 * x**3)


# Function transforms


def test_function_transforms() -> None:
    cube, mm, x = wf.torch.wrap(tc.cube), wf.torch.wrap(tc.mm), random(4).detach()
    total = lambda x: cube(x).sum()  # noqa: E731
    torch.testing.assert_close(torch.func.grad(total)(x), 3 * x**2)
    torch.testing.assert_close(torch.func.jacrev(torch.func.grad(total))(x), torch.diag(6 * x))
    many = torch.randn(3, 4, dtype=torch.float64)
    torch.testing.assert_close(torch.vmap(cube)(many), many**3)
    torch.testing.assert_close(torch.vmap(torch.func.grad(total))(many), 3 * many**2)
    a, b = random(5, 3, 4).detach(), random(4, 2).detach()
    torch.testing.assert_close(torch.vmap(mm, in_dims=(0, None))(a, b), a @ b)


def test_what_does_not_work_says_so() -> None:
    cube, x = wf.torch.wrap(tc.cube), random(4).detach()
    with pytest.raises(NotImplementedError, match="jvp"):
        torch.func.jvp(cube, (x,), (torch.ones_like(x),))
    with torch.autograd.forward_ad.dual_level(), pytest.raises(NotImplementedError, match="jvp"):
        cube(torch.autograd.forward_ad.make_dual(x, torch.ones_like(x)))
    with pytest.raises(RuntimeError, match="functorch transforms"):
        torch.compile(torch.func.grad(lambda x: cube(x).sum()), fullgraph=True)(x)


# Errors


def test_errors_name_the_users_line() -> None:
    cube, look = wf.torch.wrap(tc.cube), wf.torch.wrap(tc.look)
    for call in (
        lambda: cube(torch.randn(4)),
        lambda: cube(torch.randn(4, 2, dtype=torch.float64)),
        lambda: look(random(3, 2), torch.tensor([3], dtype=torch.int32)),
        lambda: wf.torch.wrap(tc.mm)(random(3, 4)),
        lambda: wf.torch.wrap(tc.add)(random(3)),
    ):
        with pytest.raises(wf.WeftError) as raised:
            call()
        assert raised.value.origin is not None
        assert raised.value.origin.file == __file__


def test_shapes_come_without_values() -> None:
    found = wf.torch.wrap(tc.mm)(
        *(torch.empty(shape, dtype=torch.float64, device="meta") for shape in ((3, 4), (4, 5)))
    )
    assert (found.shape, found.device.type) == ((3, 5), "meta")


def test_arrays_of_a_subclass_come_out_as_tensors() -> None:
    class Mine(torch.Tensor):
        pass

    given = torch.ones(2, 2, dtype=torch.float64).as_subclass(Mine)
    assert type(tc.mm(given, given)) is torch.Tensor
    assert type(tc.mm.grad(given, given)[0]) is torch.Tensor


def test_a_layer_trains_as_pytorchs_own() -> None:
    linear = wf.torch.wrap(wf.tc.define("def f(float(B,I) x, float(O,I) w) -> (y) { y(b,o) +=! x(b,i) * w(o,i) }").f)
    x, target = torch.randn(16, 5), torch.randn(16, 3)
    losses = []
    for function in (linear, torch.nn.functional.linear):
        torch.manual_seed(1)
        weight = torch.nn.Parameter(torch.randn(3, 5))
        optimiser = torch.optim.Adam([weight], lr=0.1)
        for _ in range(20):
            optimiser.zero_grad()
            loss = ((function(x, weight) - target) ** 2).mean()
            loss.backward()
            optimiser.step()
        losses.append(loss.item())
    assert losses[0] == pytest.approx(losses[1], rel=1e-5)
