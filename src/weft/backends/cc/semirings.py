"""Accumulations and combinations on vectors in C (`loops/semiring.py`).

Of floats, `max` and `min` take one comparison where both are numbers and three where either may not be. So a tile first
looks whether any of its terms may not be a number; only then it is found by all three.
"""

from __future__ import annotations

from dataclasses import dataclass

from weft.backends.c_family.types import c_type, literal
from weft.backends.cc.lines import Lines, unrolled
from weft.loops.constants import constant_value, neutral_of
from weft.loops.semiring import Semiring
from weft.ops import OPS, Num, Scalar
from weft.ops.dtypes import numpy_type

#: What C writes between vectors; other operations are functions of the prelude.
_SIGNS = {"add": "+", "sub": "-", "mul": "*", "and": "&", "or": "|"}
#: What choices are called where both are numbers.
_OF_NUMBERS = {"max": "larger", "min": "smaller"}

#: What is added up of each factor (`WEFT_LOOK` in the prelude), by how they are combined: if any term is not a number,
#: neither are the sums of both taken together.
_LOOKED_AT = {"add": "plain", "sub": "plain", "mul": "finite", "max": "number", "min": "number"}


@dataclass(frozen=True, slots=True)
class VectorOps:
    """The operations of a contraction, of a type, on its vectors of so many lanes; `asks`: do tiles look first whether
    all terms are numbers?
    """

    ops: Semiring
    dtype: str
    lanes: int
    asks: bool

    @property
    def vector(self) -> str:
        return f"weft_{self._kind}"

    @property
    def _kind(self) -> str:
        """What vectors are called: by their type and their bytes."""
        return f"{self.dtype}v{self.lanes * numpy_type(self.dtype).itemsize}"

    def function(self, name: str) -> str:
        """A function of the prelude on such vectors."""
        return f"weft_{name}_{self._kind}"

    @property
    def lane(self) -> str:
        """The C type of one lane."""
        return "uint8_t" if self.dtype == "bool" else c_type(self.dtype)

    @property
    def neutral(self) -> str:
        """A vector of what an accumulation starts from."""
        value = neutral_of(self.ops[0], self.dtype).value
        assert isinstance(value, Num)
        return f"({self.vector}){{0}}{f' + {literal(value.value, self.dtype)}' if value.value else ''}"

    def joined(self, start: Scalar, start_text: str, found: str) -> str:
        """What an accumulation comes to that starts from something."""
        known, neutral = constant_value(start), constant_value(neutral_of(self.ops[0], self.dtype))
        if known is not None and known == neutral:
            return found
        sign = _SIGNS.get(self.ops[0])
        return f"{start_text} {sign} {found}" if sign else OPS[self.ops[0]].c.format(start_text, found, t=self.dtype)

    def row_step(self, r: str, value: str, in_memory: bool, vectors: int | str, fused: bool) -> Lines:
        """A row of a tile: its sums take in what the scalar of the row and the vectors of columns make.

        Where products are fused, the scalar is spread over a vector first.
        """
        if fused:
            taking, each = self.function("taking"), f"{self.function('each')}({value})"
            return [
                f"const {self.vector} left = {each};",
                *unrolled("v", vectors, lambda v: [f"sum[{r}][{v}] = {taking}(sum[{r}][{v}], left, right[{v}]);"]),
            ]
        if self.asks and self.ops[1] == "add":  # a scalar that is in memory need not be loaded before
            named = f"*const left = &{value}" if in_memory else f"made = {value}, *const left = &made"
            begin, combined = f"const {self.lane} {named};", self._added
        else:
            begin, combined = f"const {self.lane} left = {value};", self._combined
        return [
            begin,
            *unrolled("v", vectors, lambda v: self._taken(f"sum[{r}][{v}]", combined(f"right[{v}]"))),
        ]

    def _added(self, right: str) -> str:
        return f"{self.function('plus')}(left, {right})"

    def _combined(self, right: str) -> str:
        combine = self.ops[1]
        if combine in _SIGNS:
            return f"left {_SIGNS[combine]} {right}"
        return self._chosen(combine, f"{self.function('each')}(left)", right)

    def _taken(self, total: str, term: str) -> Lines:
        accumulate = self.ops[0]
        if accumulate in _SIGNS:
            return [f"{total} {_SIGNS[accumulate]}= {term};"]
        return [f"const {self.vector} term = {term};", f"{total} = {self._chosen(accumulate, total, 'term')};"]

    def _chosen(self, op: str, one: str, other: str) -> str:
        """The larger or smaller of two vectors; the first stays what is not a number, whatever the second."""
        found = f"{self.function(op)}({one}, {other})"
        return f"exact ? {found} : {self.function(_OF_NUMBERS[op])}({other}, {one})" if self.asks else found

    def looked_at(self, value: str) -> str:
        """What a value adds to a sum that shows whether all terms are numbers."""
        return f"weft_{_LOOKED_AT[self.ops[1]]}_{self.dtype}({value})"

    def vector_looked_at(self, value: str) -> str:
        """The same of a vector."""
        return f"{self.function(_LOOKED_AT[self.ops[1]])}({value})"

    def look_through(self, first: str, count: str) -> str:
        """The sum of that over so many values in a row."""
        return f"weft_look_{_LOOKED_AT[self.ops[1]]}_{self.dtype}({first}, {count})"

    def together(self, rows: str, columns: str) -> str:
        """The sums over both factors, in one."""
        return f"{rows} {'-' if self.ops[1] == 'sub' else '+'} {columns}"
