"""Where names of parameters mean something: inside a layer being applied."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable
from contextlib import AbstractContextManager
from contextvars import ContextVar
from dataclasses import dataclass, field
from itertools import count
from typing import TYPE_CHECKING

import numpy as np

from weft.dlpack import is_producer
from weft.dynamic_scope import temporarily
from weft.errors import Origin, WeftError, said_at, user_origin
from weft.shape.inference_lock import alone
from weft.shape.nodes import Dim
from weft.tensor.tensor import Tensor, is_number

if TYPE_CHECKING:
    from weft.tensor.layers import Layer


@dataclass(slots=True)
class LayerScope:
    """What one configured layer owns: parameters by name, and the layers its body makes, counted by name along it.

    Both are in order of first use. What is made becomes owned in one go: a signal may come in the middle of making it.
    Layers that were made elsewhere, and that its body applies, are used.
    """

    label: str
    owned: dict[str | tuple[str, int], Tensor | Layer] = field(default_factory=dict)
    used: list[Layer] = field(default_factory=list)
    applied: bool = False

    @alone
    def param(self, name: str, make: Callable[[str], Tensor]) -> Tensor:
        """The parameter of a name, made when an application first asks for it."""
        found = self.owned.get(name)
        if found is None:
            found = self.owned.setdefault(name, make(self.within(name)))
        assert isinstance(found, Tensor)
        return found

    @alone
    def layer(self, name: str, number: int, make: Callable[[LayerScope], Layer]) -> Layer:
        """The layer that a place of the body owns, as this application makes it; its scope is made at the first."""
        before = self.owned.get((name, number))
        made = make(self._inner(name, number) if before is None else _scope_of(before))
        now = self.owned.setdefault((name, number), made)
        if _scope_of(now) is not made.scope:  # a signal handler came by
            made = make(_scope_of(now))
        self.owned[name, number] = made
        return made

    @alone
    def uses(self, layer: Layer) -> None:
        """The body applies a layer: one that it neither made nor has met before is used from now on."""
        here = [_scope_of(one) for one in self.owned.values() if not isinstance(one, Tensor)]
        if not any(layer.scope is one for one in (self, *here, *(one.scope for one in self.used))):
            self.used.append(layer)

    def _inner(self, name: str, number: int) -> LayerScope:
        taken = {one.label for one in self.owned.values() if not isinstance(one, Tensor)}
        labels = (self.within(f"{name}{nth}" if nth > 1 else name) for nth in count(number + 1))
        return LayerScope(next(label for label in labels if label not in taken))

    def within(self, name: str) -> str:
        return f"{self.label}.{name}" if self.label else name

    def name_of(self, key: str | tuple[str, int], owned: Tensor | Layer) -> str:
        """What is owned, by its name here: the end of its label."""
        return key if isinstance(key, str) else owned.label.removeprefix(self.within(""))


@dataclass(slots=True)
class LayerApplication:
    """A body as it runs, in one thread: where it declared which parameter, and how many layers of a name it made."""

    scope: LayerScope
    declared: dict[str, Origin | None] = field(default_factory=dict)
    seen: Counter[str] = field(default_factory=Counter)

    def named(self, name: str, make: Callable[[str], Tensor]) -> Tensor:
        """The parameter of a name, wherever in the body it stands."""
        self.declared.setdefault(name, user_origin())
        return self.scope.param(name, make)

    def declare(self, name: str, make: Callable[[str], Tensor]) -> Tensor:
        """The parameter that the body declares; a name is declared once in an application."""
        if name in self.declared:
            raise WeftError(
                f"`{self.scope.within(name)}` is declared twice in one application of `{self.scope.label}`",
                notes=said_at("first", self.declared[name]),
                fix=f'for the same parameter write the string "{name}" here; for another one, also in a loop, give it '
                f'a name of its own: wf.param(f"{name}{{k}}")',
            )
        return self.named(name, make)

    def place(self, name: str, make: Callable[[LayerScope], Layer]) -> Layer:
        """The layer that this place of the body owns."""
        self.seen[name] += 1
        return self.scope.layer(name, self.seen[name] - 1, make)


def _scope_of(owned: Tensor | Layer) -> LayerScope:
    assert not isinstance(owned, Tensor)
    return owned.scope


_application: ContextVar[LayerApplication | None] = ContextVar("weft_application", default=None)


def current_application() -> LayerApplication | None:
    return _application.get()


def inside(scope: LayerScope) -> AbstractContextManager[LayerApplication]:
    """Run a layer's body: names belong to `scope`, counted from the start."""
    return temporarily(_application, LayerApplication(scope))


def told_apart(params: Iterable[Tensor]) -> tuple[Tensor, ...]:
    """The parameters of a model; refused if two are called alike."""
    found: dict[str, Tensor] = {}
    for param in params:
        other = found.setdefault(param.label, param)
        if other is not param:
            raise WeftError(
                f"two parameters of one model are called `{param.label}`",
                notes=said_at("made", other.node.origin, param.node.origin),
                fix="give them different names: label=… where layers are configured, or make them in one function "
                "under @wf.op, which numbers its layers",
            )
    return tuple(found.values())


#: What operations are written as, by their names.
_WRITTEN = {"compose": "`@`", "add": "`+`", "sub": "`-`", "mul": "`*`", "div": "`/`", "floordiv": "`//`", "mod": "`%`"}


def as_tensor(value: object, user: str = "an operation") -> Tensor:
    """An operand as a tensor: a string inside `@wf.op` is a parameter, a number a constant."""
    from weft.tensor.leaves import constant
    from weft.tensor.params import named_param

    if isinstance(value, Tensor):
        return value
    if isinstance(value, str):
        return named_param(value)
    check_truth(value, user)
    if is_number(value):
        return constant(value)
    if isinstance(value, np.ndarray) and not value.ndim:
        return constant(value.item())
    user = _WRITTEN.get(user, user)
    raise WeftError(f"{user} takes tensors and numbers, not {_shown(value)}", fix=_instead(value, user))


def check_truth(value: object, user: str) -> None:
    """Refuse what comparing two tensors by `==` gives."""
    if isinstance(value, bool):
        raise WeftError(
            f"{user} takes tensors and numbers, not the truth value {value}",
            fix="`==` asks whether two tensors are the same object; wf.equal(a, b) compares their values",
        )


def is_array(value: object) -> bool:
    """Is it an array of some library, rather than a tensor?"""
    return not isinstance(value, Tensor) and (isinstance(value, np.ndarray) or is_producer(value))


def _shown(value: object) -> str:
    if is_array(value):
        return f"an array of shape {tuple(getattr(value, 'shape', ()))}"
    return f"{type(value).__name__} {value!r}"


def _instead(value: object, user: str) -> str:
    if is_array(value):
        return (
            "wrap it: wf.data(x, batch=1), where batch= counts the first axes that hold examples; wf.data(x) if none do"
        ) + "; a matrix to multiply by is wf.data(w, input=1)" * (user == "`@`")
    if isinstance(value, Dim):
        return "a dimension has a size and perhaps a label: write .size"
    if isinstance(value, list | tuple) and any(isinstance(one, Tensor) for one in value):
        return "take them apart, first, *others = …, or join them with wf.stack or wf.concat"
    if isinstance(value, list | tuple):
        return "write the values out: wf.tensor([1.0, 2.0]); join tensors with wf.stack or wf.concat"
    return (
        "apply it to a tensor first"
        if callable(value)
        else "wrap arrays with wf.data(…), nested lists with wf.tensor(…)"
    )
