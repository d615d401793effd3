"""The options that code is compiled with where none are given, as `wf.config.fast_math = True`."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

from weft.dynamic_scope import temporarily
from weft.public import public
from weft.schedule.compile_options import KINDS, CompileOptions, no_option


class Config:
    """How code is compiled from here on: in the whole process, or inside a `with wf.config.using(…)` block.

    Every option is an attribute. The settings of a block belong to the thread or task that entered it; no other sees
    them.
    """

    __slots__ = ("_block", "_process")

    def __init__(self) -> None:
        object.__setattr__(self, "_process", None)
        object.__setattr__(self, "_block", ContextVar("weft_config", default=None))

    @property
    def options(self) -> CompileOptions:
        """The options as they are here and now."""
        found: CompileOptions | None = self._block.get() or self._process
        if found is None:  # not made before it is asked for: importing weft looks at no machine
            found = CompileOptions(verify=os.environ.get("WEFT_VERIFY") == "1")
            object.__setattr__(self, "_process", found)
        return found

    def __getattr__(self, name: str) -> Any:
        if name not in KINDS:
            raise no_option(name)
        return getattr(self.options, name)

    @public
    def __setattr__(self, name: str, value: Any) -> None:
        changed = self.options.but(**{name: value})
        if self._block.get() is not None:
            self._block.set(changed)
        else:
            object.__setattr__(self, "_process", changed)

    @contextmanager
    def using(self, **settings: Any) -> Iterator[Config]:
        """Other settings inside a `with` block, for the thread or task that runs it."""
        with temporarily(self._block, self.options.but(**settings)):
            yield self

    def __repr__(self) -> str:
        return repr(self.options).replace("CompileOptions", "Config", 1)


config = Config()
