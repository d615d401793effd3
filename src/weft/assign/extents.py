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
    def number(self) -> int:
        """Asking for it closes the shape of the result."""
        shape, operation = close(self.operation.result), self.operation
        if self.name in operation.labels:
            return operation.labels[self.name].dim.size
        row = operation.rows[self.name].closed if self.name in operation.rows else shape.row(cast(Kind, self.name))
        return prod(dim.size for dim in row or ())


@dataclass(frozen=True, slots=True)
class Extent(Scalar):
    label: str
    value: Scalar

    @property
    def number(self) -> float:
        """In double precision, whatever it is used in."""

        def size(leaf: Scalar) -> float:
            assert isinstance(leaf, SizeOf | Num)
            return leaf.number if isinstance(leaf, SizeOf) else leaf.value

        with np.errstate(all="ignore"):
            found = computed(self.value, size, lambda one, args: OPS[one.op].meaning(*args))
        return found if isinstance(found, int) else float(found)
