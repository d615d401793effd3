"""What Python asks of numbers and containers, and a tensor has no answer to: it says what to write instead."""

from __future__ import annotations

from abc import abstractmethod
from typing import NoReturn

from weft.errors import WeftError
from weft.migration_hints import without_bits
from weft.public import public_methods

_VALUE = "its value is ctx[t]"


def _to_be_computed(tensor: Refusing, also: str = "", fix: str = _VALUE) -> WeftError:
    return WeftError(f"`{tensor.label}` is a tensor to be computed{also}", fix=fix)


@public_methods
class Refusing:
    """Operators and functions of Python that a tensor lacks."""

    __slots__ = ()

    @property
    @abstractmethod
    def label(self) -> str:
        """What it is called."""

    __and__ = __rand__ = without_bits("&", "wf.logical_and(a, b)")
    __or__ = __ror__ = without_bits("|", "wf.logical_or(a, b)")
    __xor__ = __rxor__ = without_bits("^", "wf.not_equal(a, b)")
    __invert__ = without_bits("~", "wf.logical_not(a)")

    def __divmod__(self, other: object) -> NoReturn:
        raise _to_be_computed(self, ", which divmod does not", fix="write a // b, a % b")

    __rdivmod__ = __divmod__

    def __bool__(self) -> bool:
        fix = "wf.where chooses by a tensor, wf.logical_and and wf.maximum combine two; ctx[t] is its value"
        raise _to_be_computed(self, ": it is neither true nor false", fix=fix)

    def __float__(self) -> float:
        raise _to_be_computed(self)

    def __int__(self) -> int:
        raise _to_be_computed(self)

    def __complex__(self) -> complex:
        raise _to_be_computed(self)

    def __round__(self, digits: int = 0) -> NoReturn:
        fix = f"write wf.round(t * {10**digits}) / {10**digits}" if digits > 0 else "write wf.round(t)"
        raise _to_be_computed(self, ", which Python does not round", fix=fix)

    def __floor__(self) -> NoReturn:
        raise _to_be_computed(self, ", which Python does not round", fix="write wf.floor(t)")

    def __ceil__(self) -> NoReturn:
        raise _to_be_computed(self, ", which Python does not round", fix="write wf.ceil(t)")

    def __trunc__(self) -> NoReturn:
        raise _to_be_computed(self, ", which Python does not round", fix='write wf.cast(t, "int32")')

    def __format__(self, spec: str) -> str:
        if not spec:
            return str(self)
        raise _to_be_computed(
            self, fix=f"its value is ctx[t]: one number is ctx[t].item(), written as {{ctx[t].item():{spec}}}"
        )

    def __iter__(self) -> None:
        raise WeftError(
            f"`{self.label}` cannot be iterated over",
            fix="t[0] is a slice of it, wf.sum(t) adds it up, wf.max(t) is its greatest element",
        )

    def __contains__(self, value: object) -> bool:
        fix = "whether a value is among those of a tensor is np.isin(value, ctx[t])"
        raise _to_be_computed(self, ", and `in` does not", fix=fix)

    def __len__(self) -> int:
        raise WeftError(f"`{self.label}` has no length", fix="t.dims has its sizes")
