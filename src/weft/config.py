"""What can be set about compiling, as `wf.config.fast_math = True`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import asdict, dataclass, fields, replace
from typing import Any

from weft.errors import WeftError, user_origin


@dataclass(frozen=True, slots=True)
class Chosen:
    """How code is compiled, at one moment. Whatever is kept because it was compiled is kept under this.

    `optimise`: cut programs into fused kernels. `fast_math`: use rules that do not hold for infinities and what is not
    a number. `max_visits`: how often a value may be computed again instead of stored. `max_tracing_dim`: how far loops
    are followed where that cannot be counted. `device_only`: whether values may exist only as numbers in a kernel.
    `strict`: what is legal but hardly meant is an error, not a warning. `verify`: check the program after every pass;
    the environment variable WEFT_VERIFY=1 sets it from the start.
    """

    optimise: bool = True
    fast_math: bool = False
    max_visits: int = 1
    max_tracing_dim: int = 5
    device_only: bool = True
    strict: bool = False
    verify: bool = False


_KINDS: dict[str, Any] = {field.name: type(field.default) for field in fields(Chosen)}


class Config:
    """How code is compiled from here on: in the whole process, or inside a `with wf.config.using(…)` block.

    The settings of a block belong to the thread or task that entered it; no other sees them.
    """

    optimise: bool
    fast_math: bool
    max_visits: int
    max_tracing_dim: int
    device_only: bool
    strict: bool
    verify: bool

    __slots__ = ("_block", "_process")

    def __init__(self) -> None:
        object.__setattr__(self, "_process", Chosen(verify=os.environ.get("WEFT_VERIFY") == "1"))
        object.__setattr__(self, "_block", ContextVar("weft_config", default=None))

    @property
    def chosen(self) -> Chosen:
        """The settings as they are here and now."""
        block: Chosen | None = self._block.get()
        chosen: Chosen = block or self._process
        return chosen

    def __getattr__(self, name: str) -> Any:
        if name not in _KINDS:
            raise _no_setting(name)
        return getattr(self.chosen, name)

    def __setattr__(self, name: str, value: Any) -> None:
        changed = _changed(self.chosen, {name: value})
        if self._block.get() is not None:
            self._block.set(changed)
        else:
            object.__setattr__(self, "_process", changed)

    @contextmanager
    def using(self, **settings: Any) -> Iterator[Config]:
        """Other settings inside a `with` block, for the thread or task that runs it."""
        before, block = self._block.get(), _changed(self.chosen, settings)
        try:
            self._block.set(block)
            yield self
        finally:
            self._block.set(before)

    def __repr__(self) -> str:
        return f"Config({', '.join(f'{name}={value!r}' for name, value in asdict(self.chosen).items())})"


class _NoSetting(WeftError, AttributeError):
    pass


def _no_setting(name: str) -> WeftError:
    fix = "the settings are " + ", ".join(_KINDS)
    return _NoSetting(f"there is no setting {name!r}", origin=user_origin(), fix=fix)


def _changed(chosen: Chosen, settings: dict[str, Any]) -> Chosen:
    for name, value in settings.items():
        if name not in _KINDS:
            raise _no_setting(name)
        kind = _KINDS[name]
        if type(value) is not kind or (kind is int and value < 1):
            wanted = "True or False" if kind is bool else "a whole number from 1 on"
            raise WeftError(f"config.{name} is {wanted}, not {value!r}", origin=user_origin())
    return replace(chosen, **settings)


config = Config()
