"""Numbers computed from sizes, which are known once shapes are closed."""

from __future__ import annotations

from dataclasses import dataclass
from math import prod
from typing import cast

import numpy as np

from weft.einsum.nodes import Kind
from weft.ops import OPS, Num, Scalar, computed
from weft.shape.close import close
from weft.shape.infer import Operation


@dataclass(frozen=True, slots=True)
class SizeOf(Scalar):
    """The size of an operation's label, of all axes of one of its row variables, or of a row of its result."""

    operation: Operation
    name: str

    @property
    def value(self) -> int:
        """Asking for it closes the shape of the result."""
        shape, operation = close(self.operation.result), self.operation
        if self.name in operation.labels:
            return operation.labels[self.name].dim.size
        row = operation.rows[self.name].closed if self.name in operation.rows else shape.row(cast(Kind, self.name))
        return prod(dim.size for dim in row or ())


@dataclass(frozen=True, slots=True)
class Extent(Scalar):
    """A number computed from sizes and others like it, and what printed code calls it."""

    label: str
    value: Scalar

    @property
    def number(self) -> float:
        """In double precision, whatever it is used in."""
        with np.errstate(all="ignore"):
            found = computed(self.value, _value, lambda one, args: OPS[one.op].meaning(*args))
        return found if isinstance(found, int) else float(found)


def _value(leaf: Scalar) -> float:
    assert isinstance(leaf, SizeOf | Num | Extent)
    return leaf.number if isinstance(leaf, Extent) else leaf.value
