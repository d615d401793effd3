"""A stand-in for torch: as much of it as weft asks for, on NumPy arrays. The suite needs no torch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np


class Tensor(np.ndarray):  # type: ignore[type-arg]
    """What a torch tensor is asked for."""

    def detach(self) -> Tensor:
        return self

    def is_floating_point(self) -> bool:
        return self.dtype.kind == "f"

    def new_empty(self, shape: Sequence[int], dtype: Any) -> Tensor:
        return np.full(shape, 99).astype(dtype).view(Tensor)

    def select(self, dim: int, at: int) -> Tensor:
        return np.take(self, at, dim).view(Tensor)


def tensor(values: Any, dtype: Any = None) -> Tensor:
    return np.asarray(values, dtype).view(Tensor)


class Context(SimpleNamespace):
    """What a gradient remembers of its forward pass."""

    def save_for_backward(self, *tensors: Any) -> None:
        self.saved_tensors = tensors

    def mark_non_differentiable(self, *tensors: Any) -> None:
        self.constant = tensors


class Operator:
    """An operator: run, fake and gradient as they were registered; `last` is what the last run remembered."""

    run: Callable[..., Any]
    fake: Callable[..., Any]
    setup: Callable[..., Any]
    gradient: Callable[..., Any]
    last: Context

    def __call__(self, *args: Any) -> Any:
        needs = tuple([isinstance(one, Tensor) and one.is_floating_point() for one in args[-1]])
        self.last = Context(needs_input_grad=(False, False, needs))
        found = [one.view(Tensor) for one in self.run(*args)]
        self.setup(self.last, args, found)
        return found

    def backward(self, context: Context, *gradients: Any) -> list[Any]:
        *none, found = self.gradient(context, list(gradients))
        assert none == [None, None]
        return list(found)


class Function:
    """A function of autograd; `last` is what the last call remembered, and its class."""

    last: Any = None

    @classmethod
    def apply(cls, *args: Any) -> Any:
        found = cls.forward(*args)  # type: ignore[attr-defined]
        needs = tuple(isinstance(one, Tensor) and one.is_floating_point() for one in args)
        context = Context(needs_input_grad=needs)
        cls.setup_context(context, args, found)  # type: ignore[attr-defined]
        Function.last = context, cls
        return found


def standin() -> Any:
    """A module like torch, with nothing registered."""
    module: Any = ModuleType("torch")
    module.__file__ = __file__
    known = Operator()
    module.is_tensor = lambda one: isinstance(one, Tensor)
    module.tensor = module.as_tensor = tensor
    module.stack = lambda each: np.stack(each).view(Tensor)
    for name in ("float32", "float64", "int32"):
        setattr(module, name, name)
    module.autograd = SimpleNamespace(Function=Function, forward_ad=SimpleNamespace(_current_level=-1))
    module._C = SimpleNamespace(_are_functorch_transforms_active=lambda: module.transforming)
    module.transforming = False
    module.compiler = SimpleNamespace(is_compiling=lambda: False)
    module.ops = SimpleNamespace(weft=SimpleNamespace(apply=SimpleNamespace(default=known)))
    module.library = SimpleNamespace(
        define=lambda name, schema: setattr(known, "schema", schema),
        impl=lambda name, where: lambda run: setattr(known, "run", run),
        register_fake=lambda name: lambda fake: setattr(known, "fake", fake),
        register_autograd=lambda name, backward, setup_context: known.__dict__.update(
            gradient=backward, setup=setup_context
        ),
    )
    return module
