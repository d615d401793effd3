"""What a definition computes, or a gradient of it of any order, told by a text.

PyTorch's graphs hold tensors and constants. So an operator travels through them as a text: the definition's own, and
then for each order of a gradient a line with the numbers of the inputs it is by. What it says is looked up again when
the operator runs, in this process or another.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, TypeAlias
from weakref import WeakValueDictionary

from weft.ops.dtypes import is_float
from weft.tc import Definition
from weft.tc.definition import restored

OperandShapes: TypeAlias = Sequence[tuple[int, ...]]

#: The definitions of this process by their keys: an operator uses the very one that was wrapped, and what it compiled.
_wrapped: WeakValueDictionary[str, Definition] = WeakValueDictionary()


@dataclass(frozen=True, slots=True)
class TorchOperator:
    """A definition, or its gradients by some parameters: then the gradients of its real results come in last."""

    definition: Definition
    wrt: tuple[str, ...] | None = None

    @property
    def inputs(self) -> tuple[str, ...]:
        seeds = [] if self.wrt is None else [f"d_{one}" for one in self._real]
        return (*self.definition.params, *seeds)

    @property
    def _real(self) -> list[str]:
        flat = self.definition.template.flat
        results = zip(self.definition.results, flat.results, strict=True)
        return [name for name, one in results if is_float(flat.types[one])]

    def __call__(self, given: Sequence[Any]) -> list[Any]:
        """The results, of the kind that is given."""
        if self.wrt is None:
            return _several(self.definition(*given))
        count = len(self.definition.params)
        seeds = dict(zip(self._real, given[count:], strict=True))
        d = tuple(seeds.get(one) for one in self.definition.results)
        return _several(self.definition.grad(*given[:count], wrt=list(self.wrt), d=d))

    def results(self, shapes: OperandShapes) -> list[tuple[tuple[int, ...], str]]:
        """The shapes and types of the results."""
        flat = self.definition.template.flat
        found = self.definition.template.extents(shapes[: len(flat.params)]).shapes
        names = flat.results if self.wrt is None else self.wrt
        return [(found[one], flat.types[one]) for one in names]

    def derivative(self, by: Sequence[int], shapes: OperandShapes) -> TorchOperator:
        """The gradients of the results by some inputs, for inputs of these shapes."""
        if self.wrt is None:
            return TorchOperator(self.definition, tuple(self.inputs[at] for at in by))
        gradient = self.definition.derived(shapes[: len(self.definition.params)], self.wrt)
        return TorchOperator(gradient, tuple(gradient.params[at] for at in by))


def operator_key(definition: Definition) -> str:
    """The text of a definition's operator."""
    key = json.dumps(definition.source)
    _wrapped[key] = definition
    return key


@lru_cache(maxsize=1024)
def operator(key: str, shapes: tuple[tuple[int, ...], ...]) -> TorchOperator:
    """The operator of a text, for inputs of these shapes."""
    base, *orders = key.split("\n")
    found = TorchOperator(_wrapped.get(base) or restored(*json.loads(base)))
    for by in orders:
        found = found.derivative([int(one) for one in by.split(",")], shapes)
    return found


def _several(found: Any) -> list[Any]:
    return list(found) if isinstance(found, tuple) else [found]
