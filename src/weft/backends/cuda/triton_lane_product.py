"""Products of what lanes hold: a block of the lanes' rows times a block of columns, in the loops of a launch.

    product of right s; sums e:  for s: { a = 0;  for e: a = a + q[e] * k[64 block + s, e];  x[s] = a }

in lanes of 128 rows, where `q` is in registers, is one `tl.dot` of 128 by 64 numbers; both loops run all at once.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.backends.cuda.triton_product import multiplied, stored_factor
from weft.backends.cuda.triton_types import triton_type
from weft.backends.cuda.triton_values import Here, LaneAxes, LaneValue, LaneValues
from weft.loops import Read, Role, Staged, Stmt, dtype_of
from weft.loops.constants import constant_value
from weft.loops.nests import stride_of
from weft.loops.nodes import Blocks
from weft.loops.staged import Parts, parts_of
from weft.loops.walk import Loop, free
from weft.ops import Scalar

_ROWS, _COLUMNS = frozenset([0]), frozenset([1])


@dataclass(frozen=True, slots=True)
class LaneProductText:
    """A product whose rows are lanes along the first axis."""

    values: LaneValues
    staged: Staged

    @property
    def parts(self) -> Parts:
        return parts_of(self.staged)

    @property
    def blocks(self) -> Blocks:
        assert self.staged.what.blocks is not None
        return self.staged.what.blocks

    def write(self, here: Here, block: Callable[[Sequence[Stmt], Here], None]) -> None:
        """The lines of it; `block` writes statements."""
        parts, lines, blocks = self.parts, self.values.lines, self.blocks
        (right,), (sums,) = parts.right, parts.sums
        assert here.sizes[0] == blocks.rows
        assert len(here.sizes) == 2
        even = [one for one in here.masks if not one.axes]
        first = self._along(replace(here, sizes=(blocks.rows, blocks.sums)), sums, blocks.sums, 1)
        dtype = multiplied(parts)
        one, other = parts.factors if right[0] in free(parts.factors[1]) else parts.factors[::-1]
        turned = self._is_turned(other, right[0], sums[0])
        second = Here({name: one for name, one in here.indices.items() if not one.axes}, tuple(even), (1, 1))
        second = self._along(second, sums, blocks.sums, int(turned))
        second = self._along(second, right, blocks.columns, int(not turned))
        left, columns = (
            self._factor(one, dtype, first, _COLUMNS),
            self._factor(other, dtype, second, _COLUMNS if turned else _ROWS),
        )
        columns = f"tl.trans({columns})" if turned else columns
        there = self._along(here, right, blocks.columns, 1)
        total = f"{parts.total.name}_"
        start = "" if constant_value(parts.start) == 0 else f", {self._broadcast(parts.start, there)}"
        precision = f', input_precision="{blocks.precision}"' if dtype == "float32" else ""
        lines.add(f"{total} = tl.dot({left}, {columns}{start}{precision})")
        self.values.locals[parts.total] = LaneValue(total, _ROWS | _COLUMNS)
        block(parts.rest, there)

    @staticmethod
    def _is_turned(factor: Scalar, right: str, sums: str) -> bool:
        """Do sums lie side by side in memory, not columns? Then it is loaded so, as for who multiplies it otherwise."""
        plain = stored_factor(factor)
        return isinstance(plain, Read) and stride_of(plain, sums) == 1 and stride_of(plain, right) != 1

    def _along(self, here: Here, loop: Loop, block: int, axis: int) -> Here:
        """Where the iterations of a loop lie along an axis, all at once."""
        (name, size), lines = loop, self.values.lines
        index = f"{name}_{('down', 'across')[axis]}{block}"
        lines.add(f"{index} = {self.values.numbers(block)}[{('None, :', ':, None')[1 - axis]}]")
        masks = here.masks
        if size < block:
            lines.add(f"{index}_in = {index} < {size}")
            masks = (*masks, LaneValue(f"{index}_in", frozenset([axis])))
        sizes = tuple(block if at == axis else one for at, one in enumerate(here.sizes))
        return Here({**here.indices, name: LaneValue(index, frozenset([axis]))}, masks, sizes)

    def _factor(self, factor: Scalar, dtype: str, here: Here, summed: LaneAxes) -> str:
        """The block of a factor, in the type it is multiplied in; 0 where there are no sums."""
        tests = [
            self.values.named(LaneValue(text, index.axes), "inside")
            for test in self.parts.tests
            if isinstance(test.index, Affine) and all(name in here.indices for name in test.index.names)
            for index in [self.values.affine(test.index, here)]
            for text in [f"({index.text} < {test.size})"]
        ]
        here = replace(here, masks=(*here.masks, *tests))
        plain = stored_factor(factor) if dtype != "float32" else factor
        value = self.values.value(plain, here)
        text = value.text
        if dtype_of(plain) != dtype:
            text = f"tl.cast({text}, {triton_type(dtype)})"
        both = _ROWS | _COLUMNS
        if value.axes != both:
            text = f"tl.broadcast_to({text}, {here.shape(both)})"
        loaded = isinstance(plain, Read) and plain.buffer.role is not Role.PRIVATE and value.axes == both
        masked = [one.text for one in here.masks if one.axes & summed]
        return text if loaded or not masked else f"tl.where({' & '.join(masked)}, {text}, 0.0)"

    def _broadcast(self, scalar: Scalar, here: Here) -> str:
        value, both = self.values.value(scalar, here), _ROWS | _COLUMNS
        return value.text if value.axes == both else f"tl.broadcast_to({value.text}, {here.shape(both)})"
