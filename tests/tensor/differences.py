"""Gradients against finite differences, in double precision."""

from __future__ import annotations

import warnings
from collections.abc import Mapping, Sequence

import numpy as np

import weft as wf

EVERYTHING = "...|...->... => 0"


def total(tensor: wf.Tensor) -> wf.Tensor:
    """A loss that depends on every element of a tensor, on each in its own way."""
    return wf.einsum(EVERYTHING, wf.sin(tensor * 0.7 + 0.3))


def double(name: str, **sizes: object) -> wf.Tensor:
    return wf.param(name, dtype="float64", **sizes)  # type: ignore[arg-type]


class Differences:
    """A loss in a context of its own, with its gradients and its slopes."""

    def __init__(
        self,
        loss: wf.Tensor,
        params: Sequence[wf.Tensor],
        values: Mapping[wf.Tensor, object] | None = None,
        bound: Mapping[wf.StaticIndex, int] | None = None,
        seed: int = 0,
    ) -> None:
        self.loss, self.params, self.ctx = loss, params, wf.Context("interp")
        self.numbers = np.random.default_rng(seed)
        self.bound = {index.name: at for index, at in (bound or {}).items()}
        for param in params:
            given = (values or {}).get(param)
            shape = param.dims.array_shape
            self.ctx[param] = self.numbers.normal(0, 0.8, shape) if given is None else np.broadcast_to(given, shape)
        indices = list(bound or {})
        step = self.ctx.compile(wf.grad_update(loss), bindings=indices, keep=[param.grad for param in params])
        step(**self.bound)
        self.gradients = {param: self.ctx[param.grad] for param in params}
        self.forward = self.ctx.compile(loss.forward, bindings=indices)

    def value(self) -> float:
        self.forward(**self.bound)
        return float(self.ctx[self.loss].sum())

    def slope(self, param: wf.Tensor, direction: np.ndarray, step: float) -> float:
        """The slope along a direction: two central differences, combined so that the third derivative drops out."""
        coarse, fine = (self._difference(param, direction, size) for size in (step, step / 2))
        return (4 * fine - coarse) / 3

    def _difference(self, param: wf.Tensor, direction: np.ndarray, step: float) -> float:
        here = self.ctx[param]
        self.ctx[param] = here + step * direction
        above = self.value()
        self.ctx[param] = here - step * direction
        below = self.value()
        self.ctx[param] = here
        return (above - below) / (2 * step)

    def directions(self, param: wf.Tensor, cells: int) -> list[np.ndarray]:
        """A random direction, and some single cells."""
        shape = self.ctx[param].shape
        chosen = self.numbers.permutation(int(np.prod(shape)))[:cells]
        units = [np.eye(1, int(np.prod(shape)), at).reshape(shape) for at in chosen]
        return [self.numbers.normal(size=shape), *units]

    def smooth(self) -> bool:
        """Does every slope stay the same at another step? If not, a kink is near."""
        return all(
            np.isclose(self.slope(param, way, 1e-5), self.slope(param, way, 2e-6), rtol=1e-4, atol=1e-6)
            for param in self.params
            for way in self.directions(param, 0)
        )

    def check(self, cells: int = 4) -> None:
        for param in self.params:
            assert np.isfinite(self.gradients[param]).all()
            for way in self.directions(param, cells):
                expected = self.slope(param, way, 1e-5)
                np.testing.assert_allclose(
                    (self.gradients[param] * way).sum(),
                    expected,
                    rtol=2e-5,
                    atol=2e-7,
                    err_msg=f"gradient of {param.label} in\n{self.forward.show('assign')}",
                )


def check_gradient(
    tensor: wf.Tensor,
    *params: wf.Tensor,
    values: Mapping[wf.Tensor, object] | None = None,
    bound: Mapping[wf.StaticIndex, int] | None = None,
) -> Differences:
    """Compare the gradients of a loss of `tensor` with its slopes, and gradients of gradients with theirs."""
    params = params or tensor.params
    found = Differences(total(tensor), params, values, bound)
    found.check()
    check_second_order(found, values, bound)
    return found


def check_second_order(
    first: Differences,
    values: Mapping[wf.Tensor, object] | None = None,
    bound: Mapping[wf.StaticIndex, int] | None = None,
) -> None:
    """Compare the gradients as tensors with those of backpropagation, and a loss of theirs with its slopes."""
    loss, params = first.loss, tuple(first.params)
    with warnings.catch_warnings():
        warnings.filterwarnings("ignore", ".* is zero: nothing passes it on", wf.WeftWarning)
        gradients = wf.grad(loss, params)
    directions = [wf.data(first.numbers.normal(size=first.ctx[one].shape), **_rows(one)) for one in params]
    moved = wf.jvp(loss, params, tuple(directions))
    first.ctx.compile(wf.seq(*(one.forward for one in (*gradients, moved))), bindings=list(bound or {}))(**first.bound)
    for param, one in zip(params, gradients, strict=True):
        np.testing.assert_allclose(first.ctx[one], first.gradients[param], rtol=1e-12, atol=1e-14)
    along = sum((first.gradients[one] * first.ctx[way]).sum() for one, way in zip(params, directions, strict=True))
    np.testing.assert_allclose(first.ctx[moved].sum(), along, rtol=1e-10, atol=1e-10)
    changing = [total(one) for one in (*gradients, *params)]
    second = Differences(sum(changing[1:], changing[0]), params, values, bound)
    second.check(1)


def _rows(tensor: wf.Tensor) -> dict[str, int]:
    """How many axes of data that is like a tensor are batch and input axes."""
    return {"batch": len(tensor.dims.batch), "input": len(tensor.dims.input)}
