"""Values of concatenations: what remains where only some operands are there.

a * b * c      of  a; b; c => a^b^c      is      b      in the second part
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import is_

from weft.assign.nodes import Arg
from weft.ops import Call, Scalar, computed, leaves


@dataclass(frozen=True, slots=True)
class Terms:
    """A value `t0 op1 t1 op2 t2 …`, grouped from the left, and which of its terms mention each operand.

    A part of a concatenation reads few of many operands. Only the terms of those are looked at, so that all parts
    together take a time linear in their number.
    """

    ops: tuple[str, ...]  # before each term; before the first, none
    terms: tuple[Scalar, ...]
    mentioning: Mapping[int | None, Sequence[int]]  # under None, terms that mention no operand

    @staticmethod
    def of(value: Scalar) -> Terms:
        ops, terms = list[str](), list[Scalar]()
        while isinstance(value, Call) and len(value.args) == 2:
            ops.append(value.op)
            terms.append(value.args[1])
            value = value.args[0]
        terms = [value, *reversed(terms)]
        mentioning: dict[int | None, list[int]] = {}
        for position, term in enumerate(terms):
            numbers: set[int | None] = {one.number for one in leaves(term) if isinstance(one, Arg)}
            for number in numbers or {None}:
                mentioning.setdefault(number, []).append(position)
        return Terms(("", *reversed(ops)), tuple(terms), mentioning)

    def present(self, operands: Collection[int]) -> Scalar:
        """The value with all but these operands left out."""
        positions = {position for number in operands for position in self.mentioning.get(number, ())}
        found: Scalar | None = None
        for position in sorted(positions.union(self.mentioning.get(None, ()))):
            term = _present(self.terms[position], operands)
            if term is not None:
                found = term if found is None else Call(self.ops[position], (found, term))
        assert found is not None, "a part of a concatenation that nothing is read from is dropped"
        return found


def _present(value: Scalar, operands: Collection[int]) -> Scalar | None:
    """A term with all but these operands left out; None if nothing remains."""

    def leaf(one: Scalar) -> Scalar | None:
        return None if isinstance(one, Arg) and one.number not in operands else one

    def call(one: Call, args: Sequence[Scalar | None]) -> Scalar | None:
        kept = [arg for arg in args if arg is not None]
        if len(kept) == len(args):
            return one if all(map(is_, kept, one.args)) else Call(one.op, tuple(kept))
        return kept[0] if kept else None

    return computed(value, leaf, call)
