"""A definition as a function that PyTorch's autograd differentiates."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from weft.errors import WeftError, user_origin
from weft.tc import Definition


def wrap(definition: Definition) -> Callable[..., Any]:
    """A function of torch tensors that computes a definition, with the definition's gradient for its backward pass.

    mm = wf.torch.wrap(tc.mm)
    mm(A, B).sum().backward()
    """
    if not isinstance(definition, Definition):
        what = f"wrap takes a definition, not {type(definition).__name__}"
        raise WeftError(what, origin=user_origin(), fix="wrap one of the callables of wf.tc.define: wrap(tc.mm)")
    torch = _torch()

    class Wrapped(torch.autograd.Function):  # type: ignore[misc, name-defined]
        @staticmethod
        def forward(ctx: Any, *args: Any) -> Any:
            plain = [one.detach() if torch.is_tensor(one) else one for one in args]
            ctx.args = [None if torch.is_tensor(one) else one for one in args]
            ctx.save_for_backward(*(one for one in args if torch.is_tensor(one)))
            return definition(*plain)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            saved = iter(ctx.saved_tensors)
            args = [next(saved).detach() if one is None else one for one in ctx.args]
            wanted = [name for name, needs in zip(definition.params, ctx.needs_input_grad, strict=True) if needs]
            d = tuple(one if one is None else one.detach().contiguous() for one in gradients)
            found = definition.grad(*args, wrt=wanted, d=d)
            by_name = dict(zip(wanted, found if isinstance(found, tuple) else (found,), strict=True))
            return tuple(by_name.get(name) for name in definition.params)

    def function(*args: Any, **named: Any) -> Any:
        return Wrapped.apply(*definition.arguments.ordered(args, named))

    function.__name__ = function.__qualname__ = definition.name
    function.__doc__ = str(definition)
    return function


def _torch() -> Any:
    try:
        import torch
    except ImportError:
        fix = 'pip install "weft[torch]"'
        raise WeftError("PyTorch is not installed", origin=user_origin(), fix=fix) from None
    return torch
