"""The door between a user's code and weft's.

What is called from outside goes through `public`. A `WeftError` that leaves there has lost weft's own frames, so that
its traceback ends at the user's line; `WEFT_TRACEBACK=full` keeps them. Wrong arguments are such an error too.
"""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Callable, Iterable
from functools import wraps
from types import FrameType, FunctionType, TracebackType
from typing import Any, TypeVar

from weft.arguments import calling, excerpt, misuse, other_kind, simple_parameters
from weft.errors import ArgumentError, WeftError, is_own

F = TypeVar("F", bound=Callable[..., Any])
C = TypeVar("C", bound=type)

_UNTOUCHED = ("__repr__", "__str__", "__eq__", "__ne__", "__hash__", "__getattr__", "__setattr__")


def public(function: F, *, checks_kinds: bool = False) -> F:
    """The function as it is called from outside; it may check itself of what kind its arguments are."""
    simple = () if checks_kinds else simple_parameters(function)

    @wraps(function)
    def called(*args: Any, **kwargs: Any) -> Any:
        try:
            try:
                for place, name, kinds in simple:
                    if place < len(args):
                        _expect(function, name, args[place], kinds)
                    elif name in kwargs:
                        _expect(function, name, kwargs[name], kinds)
                return function(*args, **kwargs)
            except WeftError:
                raise
            except Exception as error:
                mistake = misuse(function, args, kwargs, error)
                if mistake is None and isinstance(error, _OtherKind):
                    mistake = ArgumentError(f"`{function.__name__}` takes {error}", fix=error.fix)
                if mistake is None:
                    raise
                raise mistake from None
        except WeftError as error:
            # Raised again bare, an exception goes on with the traceback it has: this frame does not come back.
            error.__traceback__ = theirs(error.__traceback__)
            raise

    return called  # type: ignore[return-value]


class _OtherKind(TypeError):
    """An argument of another kind, and what to write instead."""

    def __init__(self, what: str, fix: str) -> None:
        super().__init__(what)
        self.fix = fix


def _expect(function: Callable[..., Any], name: str, value: object, kinds: tuple[type, ...]) -> None:
    if not isinstance(value, kinds):
        what = f"{' or '.join(one.__name__ for one in kinds)} for `{name}`, not {excerpt(value)}"
        raise _OtherKind(what, other_kind(name, value) or calling(function))


def public_methods(kind: C) -> C:
    """A class whose methods and operators are called from outside; properties that raise say so themselves."""
    for name, method in list(vars(kind).items()):
        hidden = name.startswith("_") and not name.endswith("__")
        if isinstance(method, FunctionType) and not hidden and name not in _UNTOUCHED:
            if method.__name__ == "<lambda>":  # made for several operators alike: `help` calls each by its name
                method.__name__, method.__qualname__ = name, f"{kind.__qualname__}.{name}"
            setattr(kind, name, public(method))
    return kind


def public_constructor(kind: C) -> C:
    """A dataclass that is made outside; what its fields may be it checks itself."""
    kind.__init__ = public(kind.__init__, checks_kinds=True)  # type: ignore[misc]
    return kind


def open_door(package: dict[str, Any], names: Iterable[str]) -> None:
    """Let the functions of a package by these names be called from outside, and `dir` list these names alone."""
    listed = sorted(names)
    for name in listed:
        package[name] = exported(package["__name__"], name, package[name])
    package["__dir__"] = lambda: list(listed)


def exported(package: str, name: str, found: Any) -> Any:
    """What a package has by a name; a function is as it is called from outside, and is pickled by that name."""
    if isinstance(found, FunctionType):
        found = public(found)
        found.__module__, found.__name__, found.__qualname__ = package, name, name
    return found


def theirs(trace: TracebackType | None) -> TracebackType | None:
    """The traceback without weft's frames. What must not cost a call more than it does uses this by itself."""
    if os.environ.get("WEFT_TRACEBACK") == "full":
        return trace
    kept: list[TracebackType] = []
    while trace is not None:
        if not _is_between(trace.tb_frame):
            kept.append(trace)
        trace = trace.tb_next
    found: TracebackType | None = None
    for one in reversed(kept):
        one.tb_next = found
        found = one
    return found


def _is_between(frame: FrameType) -> bool:
    """Is it weft's, or of what weft is made with: a `with` block, or what a dataclass had written for it?"""
    file = frame.f_code.co_filename
    written = file == "<string>" and str(frame.f_globals.get("__name__")).startswith("weft.")
    return is_own(file) or written or file in (contextlib.__file__, dataclasses.__file__)
