"""Which context gives a tensor its value when no context is named: the one that holds it, else the newest in use."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from weft.backends import Array, Backend
from weft.dlpack import CPU, DeviceArray
from weft.errors import WeftError
from weft.runtime.weak import Weak
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.runtime.context import Context


class DefaultContext:
    """The contexts that can be asked, whichever thread made them, without keeping any alive.

    Where none is left, it makes one for the occasion.
    """

    __slots__ = ("_backend", "_contexts", "_make")

    def __init__(self, make: Callable[[Backend], Context]) -> None:
        self._contexts: Weak[Context, None] = Weak()
        self._backend: Backend | None = None  # of the newest there was
        self._make = make

    def add(self, context: Context) -> None:
        """Let a context be asked."""
        self._contexts.put(context, None)
        self._backend = context._engine.backend

    def holder(self, params: Sequence[Tensor], user: str) -> Context | None:
        """The one context that holds values of a model's parameters; the newest, if any, where none does."""
        holding = [one for one in self._alive if any(map(one._holds, params))]
        if len(holding) > 1:
            notes = [f"{one!r} was made at {one._origin}" for one in holding]
            what = f"{len(holding)} contexts hold parameters of {user}"
            raise WeftError(what, notes=notes, fix="give the one that is meant: context=ctx")
        return next(iter(holding or self._alive), None)

    @property
    def _alive(self) -> list[Context]:
        """The newest first."""
        return [one for one in reversed(list(self._contexts)) if not one._engine.closed]

    def __call__(self, tensor: Tensor) -> Array:
        """The value of a tensor."""
        able, asked = self._asked(tensor)
        return _agreed(tensor, able) if len(able) > 1 else asked[tensor]

    def export(self, tensor: Tensor) -> DeviceArray:
        """The value of a tensor where whoever is asked has it, if that is not the processor's memory."""
        able, asked = self._asked(tensor)
        if len(able) > 1:
            _agreed(tensor, able)
        return asked._export(tensor)

    def place(self, tensor: Tensor) -> tuple[int, int]:
        """Where whoever is asked has it."""
        return CPU if self._backend is None else self._asked(tensor)[1]._place

    def _asked(self, tensor: Tensor) -> tuple[list[Context], Context]:
        """The contexts that hold it and can compute it, and the one to ask."""
        if self._backend is None:
            raise WeftError(f"no context can compute `{tensor.label}`", fix="create a wf.Context")
        alive = self._alive
        if not alive and tensor.params:
            what = f"no context can compute `{tensor.label}`: the one that held its parameters is gone"
            raise WeftError(what, fix="keep the context in a variable")
        if not alive:
            return [], self._make(self._backend)
        holding = [one for one in alive if one._holds(tensor)]
        able = [one for one in holding if tensor in one]
        return able, (able or holding or alive)[0]


def _agreed(tensor: Tensor, contexts: list[Context]) -> Array:
    """The value of a tensor that several contexts hold; refused where they differ."""
    first, *others = contexts
    value = first[tensor]
    for other in others:
        if other[tensor].tobytes() != value.tobytes():
            notes = [f"{one!r} was made at {one._origin}" for one in (other, first)]
            raise WeftError(
                f"two contexts hold different values of `{tensor.label}`", fix="say which: ctx[t]", notes=notes
            )
    return value
