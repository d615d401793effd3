"""The one operator that PyTorch knows of weft, and its gradient.

`weft::apply(key, backward, inputs)` runs what a key says (operator.py); `backward` is the key of a definition that
somebody wrote for the gradients by all real inputs, or nothing. Its fake gives shapes without running, which is all
that compiling and exporting need. Its gradient is the same operator with another key, so that there are gradients of
gradients. PyTorch's function transforms (`torch.func`) do not take operators, so they get a function around it.
"""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from functools import cache
from types import FrameType
from typing import Any, TypeAlias

from weft.errors import Origin, WeftError
from weft.torch.operator import operator

#: `apply(key, backward, inputs)`: the results of an operator.
ApplyFunction: TypeAlias = Callable[[str, str, list[Any]], Any]

_WEFT = os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep


@cache
def operator_of(torch: Any) -> ApplyFunction:
    """`weft::apply`, made known to PyTorch."""

    def run(key: str, backward: str, inputs: Sequence[Any]) -> list[Any]:
        with _blaming(torch):
            return operator(key, _shapes(inputs))([one.detach() for one in inputs])

    def fake(key: str, backward: str, inputs: Sequence[Any]) -> list[Any]:
        with _blaming(torch):
            found = operator(key, _shapes(inputs)).results(_shapes(inputs))
            return [inputs[0].new_empty(shape, dtype=getattr(torch, dtype)) for shape, dtype in found]

    def setup(ctx: Any, inputs: Any, output: Any) -> None:
        _remember(ctx, inputs[0], inputs[1], inputs[2], output)

    def backward(ctx: Any, gradients: Any) -> Any:
        return None, None, _gradients(ctx, apply, gradients, ctx.needs_input_grad[2])

    torch.library.define("weft::apply", "(str key, str backward, Tensor[] inputs) -> Tensor[]")
    torch.library.impl("weft::apply", "CompositeExplicitAutograd")(run)
    torch.library.register_fake("weft::apply")(fake)
    torch.library.register_autograd("weft::apply", backward, setup_context=setup)
    apply: ApplyFunction = torch.ops.weft.apply.default
    return apply


@cache
def function_of(torch: Any) -> ApplyFunction:
    """The same for function transforms: it says what a gradient is, and that mapping over an axis is a run for each."""
    inside = operator_of(torch)

    class Weft(torch.autograd.Function):  # type: ignore[misc]
        @staticmethod
        def forward(key: str, backward: str, *inputs: Any) -> Any:
            return tuple(inside(key, backward, list(inputs)))

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            key, backward, *tensors = inputs
            _remember(ctx, key, backward, tensors, output)
            ctx.mark_non_differentiable(*(one for one in output if not one.is_floating_point()))

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            return None, None, *_gradients(ctx, apply, gradients, ctx.needs_input_grad[2:])

        @staticmethod
        def vmap(info: Any, in_dims: Any, key: str, backward: str, *inputs: Any) -> Any:
            places = list(zip(inputs, in_dims[2:], strict=True))
            runs = [
                apply(key, backward, [one if dim is None else one.select(dim, at) for one, dim in places])
                for at in range(info.batch_size)
            ]
            found = tuple(torch.stack(each) for each in zip(*runs, strict=True))
            return found, (0,) * len(found)

    def apply(key: str, backward: str, inputs: list[Any]) -> Any:
        return Weft.apply(key, backward, *inputs)

    return apply


def _remember(ctx: Any, key: str, backward: str, inputs: Sequence[Any], output: Sequence[Any]) -> None:
    ctx.key, ctx.own = key, backward
    ctx.save_for_backward(*inputs)
    ctx.real = [one.is_floating_point() for one in output]


def _gradients(ctx: Any, apply: ApplyFunction, gradients: Sequence[Any], needed: Sequence[bool]) -> list[Any]:
    """The gradients by the inputs that need one."""
    saved = list(ctx.saved_tensors)
    seeds = [one for one, real in zip(gradients, ctx.real, strict=True) if real]
    by = [at for at, needs in enumerate(needed) if needs]
    if ctx.own:
        real = [at for at, one in enumerate(saved) if one.is_floating_point()]
        found = dict(zip(real, apply(ctx.own, "", [*saved, *seeds]), strict=True))
    else:
        key = ctx.key + "\n" + ",".join([str(at) for at in by])
        found = dict(zip(by, apply(key, "", [*saved, *seeds]), strict=True))
    return [found[at] if at in by else None for at in range(len(saved))]


def _shapes(inputs: Sequence[Any]) -> tuple[tuple[int, ...], ...]:
    return tuple(tuple(int(size) for size in one.shape) for one in inputs)


@contextlib.contextmanager
def _blaming(torch: Any) -> Iterator[None]:
    """Errors name the user's line, not one of PyTorch's that called back."""
    try:
        yield
    except WeftError as error:
        error.origin = _user_line(torch) or error.origin
        raise


def _user_line(torch: Any) -> Origin | None:
    """The innermost line on the stack that is neither weft's nor PyTorch's."""
    homes = (_WEFT, os.path.dirname(os.path.abspath(torch.__file__)) + os.sep, "<")
    frame: FrameType | None = sys._getframe(1)
    while frame is not None:
        file = frame.f_code.co_filename
        if not file.startswith(homes) and file != contextlib.__file__:
            return Origin(file, frame.f_lineno)
        frame = frame.f_back
    return None
