"""Which context gives a tensor its value when no context is named: the newest that is still in use."""

from __future__ import annotations

import weakref
from collections.abc import Callable
from typing import TYPE_CHECKING

from weft.backends import Array, Backend
from weft.errors import WeftError, user_origin
from weft.tensor.tensor import Tensor
from weft.tensor.values import evaluator

if TYPE_CHECKING:
    from weft.runtime.context import Context


class Newest:
    """Finds the newest context without keeping any alive. Where none is left, it makes one for the occasion."""

    __slots__ = ("_backend", "_before", "_context", "_make")

    def __init__(self, context: Context, backend: Backend, make: Callable[[Backend], Context]) -> None:
        before = evaluator.get()
        self._before = before._living() if isinstance(before, Newest) else None
        self._context = weakref.ref(context)
        self._backend = backend
        self._make = make

    def __call__(self, tensor: Tensor) -> Array:
        living = self._living()
        context = living._context() if living is not None else None
        if context is not None:
            return context[tensor]
        if tensor.params:
            raise WeftError(
                f"no context can compute `{tensor.label}`: the one that held its parameters is gone",
                origin=user_origin(),
                fix="keep the context in a variable",
            )
        return self._make(self._backend)[tensor]

    def _living(self) -> Newest | None:
        """The newest whose context is alive, from this one back."""
        one: Newest | None = self
        while one is not None and one._context() is None:
            one = one._before
        return one
