"""Where names of parameters mean something: inside a layer being applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from weft.errors import WeftError, user_origin
from weft.tensor.tensor import Tensor, is_number


@dataclass(slots=True)
class Scope:
    """What one configured layer owns. Each place in its body has its own entry, counted by name along the body."""

    label: str
    owned: dict[tuple[str, int], Any] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def place(self, name: str, make: Callable[[str], Any]) -> Any:
        """What this place of the body owns, made when the body first comes by."""
        number = self.seen[name]
        self.seen[name] += 1
        if (name, number) not in self.owned:
            suffix = str(number + 1) if number else ""
            self.owned[name, number] = make(".".join(part for part in (self.label, name + suffix) if part))
        return self.owned[name, number]


_scope: ContextVar[Scope | None] = ContextVar("weft_scope", default=None)


def current_scope() -> Scope | None:
    return _scope.get()


@contextmanager
def inside(scope: Scope) -> Iterator[None]:
    """Run a layer's body: names belong to `scope`, counted from the start."""
    token = _scope.set(scope)
    scope.seen.clear()
    try:
        yield
    finally:
        _scope.reset(token)


def as_tensor(value: object, user: str = "") -> Tensor:
    """An operand as a tensor: a string inside `@wf.op` is a parameter, a number a constant."""
    from weft.tensor.leaves import constant, data
    from weft.tensor.params import param

    if isinstance(value, Tensor):
        return value
    if isinstance(value, str):
        if current_scope() is None:
            raise WeftError(
                f"the string {value!r} stands for a parameter only inside a function under @wf.op",
                origin=user_origin(),
                fix=f"write wf.param({value!r}), or move the expression into a function under @wf.op",
            )
        return param(value)
    if is_number(value):
        return constant(value)
    if isinstance(value, np.ndarray):
        return data(value)
    raise WeftError(
        f"{user or 'an operation'} takes tensors and numbers, not {type(value).__name__} {value!r}",
        origin=user_origin(),
        fix="wrap arrays with wf.data(…) and nested lists with wf.tensor(…)",
    )
