"""What can be set about compiling, as `wf.config.fast_math = True`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, fields
from typing import Any

from weft.errors import WeftError, user_origin


@dataclass(slots=True)
class Config:
    """How code is compiled from here on.

    `optimise`: cut programs into fused kernels. `fast_math`: use rules that do not hold for infinities and what is not
    a number. `max_visits`: how often a value may be computed again instead of stored. `max_tracing_dim`: how far loops
    are followed where that cannot be counted. `device_only`: whether values may exist only as numbers in a kernel.
    `strict`: what is hardly meant is an error instead of a warning.
    """

    optimise: bool = True
    fast_math: bool = False
    max_visits: int = 1
    max_tracing_dim: int = 5
    device_only: bool = True
    strict: bool = False

    def __setattr__(self, name: str, value: Any) -> None:
        kinds: dict[str, type] = {field.name: type(field.default) for field in fields(Config)}
        if name not in kinds:
            raise WeftError(
                f"there is no setting {name!r}", origin=user_origin(), fix="the settings are " + ", ".join(kinds)
            )
        wrong = type(value) is not kinds[name]
        if wrong or (kinds[name] is int and int(value) < 1):
            wanted = "True or False" if kinds[name] is bool else "a whole number from 1 on"
            raise WeftError(f"config.{name} is {wanted}, not {value!r}", origin=user_origin())
        object.__setattr__(self, name, value)

    @contextmanager
    def using(self, **settings: Any) -> Iterator[Config]:
        """Other settings inside a `with` block."""
        before = {field.name: getattr(self, field.name) for field in fields(self)}
        try:
            for name, value in settings.items():
                setattr(self, name, value)
            yield self
        finally:
            for name, value in before.items():
                setattr(self, name, value)


config = Config()
