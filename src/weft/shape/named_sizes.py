"""Sizes that know what they are called: `s = wf.sizes(batch=32, d=64)`, then `s.d`, `4 * s.d`, `s.d // s.heads`.

A named size is a whole number like any other: inference compares numbers alone, so sizes of two names fit each other if
they are equal. The name is for who reads an error: "`4*d` = 256 of wf.sizes at model.py:3".
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from keyword import iskeyword
from numbers import Integral
from typing import Any, NoReturn

from weft.errors import NoSuchName, Origin, ShapeError, WeftError, user_origin
from weft.notation.words import meant
from weft.public import public, public_methods

#: Operations on sizes: how they are written, and how tightly they bind; a name binds tighter.
_SIGNS: Mapping[str, tuple[str, int]] = {
    "add": (" + ", 1),
    "sub": (" - ", 1),
    "mul": ("*", 2),
    "floordiv": ("//", 2),
    "mod": ("%", 2),
}
_NAME = 3
#: What is computed in many steps is a number without a name: nobody would read it.
_LONGEST_NAME = 40


def _operation(name: str) -> tuple[Callable[[Any, Any], Any], Callable[[Any, Any], Any]]:
    """An operation of Python between a named size and a number, with the size on the left and on the right."""
    return lambda size, other: _computed(name, size, other), lambda size, other: _computed(name, other, size)


class NamedSize(int):
    """A number with a name, and the lines where the sizes in its name were stated."""

    name: str
    origins: tuple[Origin, ...]
    binding: int

    def __new__(cls, size: int, name: str, origins: tuple[Origin, ...] = (), binding: int = _NAME) -> NamedSize:
        made = super().__new__(cls, size)
        made.__dict__.update(name=name, origins=origins, binding=binding)
        return made

    __add__, __radd__ = _operation("add")
    __sub__, __rsub__ = _operation("sub")
    __mul__, __rmul__ = _operation("mul")
    __floordiv__, __rfloordiv__ = _operation("floordiv")
    __mod__, __rmod__ = _operation("mod")

    @property
    def spelled(self) -> str:
        return f"`{self.name}` = {self}"

    @property
    def source(self) -> str:
        """Where an error says it comes from."""
        lines = " and ".join(f"{origin}: {origin.code}" for origin in self.origins)
        return f"{self.spelled} of wf.sizes at {lines}" if lines else f"{self.spelled} of wf.sizes"

    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise WeftError(f"the size `{self.name}` is a number, and cannot be changed")

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedSize, (int(self), self.name, self.origins, self.binding)

    def __str__(self) -> str:
        return int.__repr__(self)

    def __repr__(self) -> str:
        return f"<{self.name}: {self}>"


class CallSize(NamedSize):
    """The size of an axis of an input, as one call decides it."""

    @property
    def source(self) -> str:
        return f"{self.spelled} in this call"


def _computed(operation: str, left: Any, right: Any) -> Any:
    """What an operation on sizes gives; only whole numbers keep a name."""
    number = getattr(int, f"__{operation}__")(left, right) if isinstance(left, int) else NotImplemented
    if number is NotImplemented or isinstance(left, bool) or isinstance(right, bool):
        return number
    sign, binding = _SIGNS[operation]
    name = _part(left, binding) + sign + _part(right, binding if operation == "add" else binding + 1)
    origins = dict.fromkeys(origin for one in (left, right) if isinstance(one, NamedSize) for origin in one.origins)
    return NamedSize(number, name, tuple(origins), binding) if len(name) <= _LONGEST_NAME else number


def _part(number: int, binding: int) -> str:
    """A number as a part of a name, in brackets if it does not bind as tightly as it must."""
    if isinstance(number, NamedSize):
        return number.name if number.binding >= binding else f"({number.name})"
    return str(number) if number >= 0 else f"({number})"


@public_methods
class NamedSizes:
    """The sizes of a model, each stated once: `s.d` is one."""

    __slots__ = ("_sizes",)

    _sizes: Mapping[str, NamedSize]

    def __init__(self, named: Mapping[str, NamedSize]) -> None:
        object.__setattr__(self, "_sizes", dict(named))

    @public
    def __getattr__(self, name: str) -> NamedSize:
        if name.startswith("_"):
            raise AttributeError(name)
        if name not in self._sizes:
            notes = [f"{self} at {origin}" for origin in self._origins()]
            fix = meant(name, self._sizes, f"state it: wf.sizes({name}=…)")
            raise NoSuchName(f"there is no size `{name}`", notes=notes, fix=fix)
        return self._sizes[name]

    @public
    def __setattr__(self, name: str, value: object) -> NoReturn:
        raise WeftError("sizes cannot be changed", fix=f"state it: wf.sizes({name}={value!r})")

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NamedSizes) and self._sizes == other._sizes

    def __hash__(self) -> int:
        return hash(tuple(sorted(self._sizes.items())))

    def __dir__(self) -> list[str]:
        return list(self._sizes)

    def __reduce__(self) -> tuple[Any, ...]:
        return NamedSizes, (self._sizes,)

    def __repr__(self) -> str:
        return f"wf.sizes({', '.join(f'{name}={size}' for name, size in self._sizes.items())})"

    def _origins(self) -> dict[Origin, None]:
        return dict.fromkeys(origin for one in self._sizes.values() for origin in one.origins)


def sizes(**given: int) -> NamedSizes:
    """Sizes by name: `s = wf.sizes(batch=32, d=64)` states each once, and an error about `s.d` names it.

    >>> s = wf.sizes(heads=2, d=6)
    >>> print(s.d // s.heads, wf.param("w", o=s.d, i=4 * s.d).dims)
    3 24->6
    """
    origin = user_origin()
    if not given:
        raise WeftError("wf.sizes names no size", fix="write wf.sizes(batch=32, d=64)")
    for name, size in given.items():
        if not name.isidentifier() or iskeyword(name) or name.startswith("_"):
            what = f"{name!r} cannot be the name of a size"
            raise WeftError(what, fix="name it by a word that does not begin with `_`")
        if isinstance(size, bool) or not isinstance(size, Integral):
            what = f"the size `{name}` must be a whole number, not {size!r}"
            raise ShapeError(what, fix="sizes are whole numbers from 1 on")
        if not 1 <= int(size) < 1 << 63:
            what = f"the size `{name}` cannot be {int(size)}"
            raise ShapeError(what, fix="sizes are whole numbers from 1 on")
    origins = (origin,) if origin else ()
    return NamedSizes({name: NamedSize(int(size), name, origins) for name, size in given.items()})
