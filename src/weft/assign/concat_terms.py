"""Values of concatenations: what remains where only some operands are there.

a * b * c      of  a; b; c => a^b^c      is      b      in the second part
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from operator import is_

from weft.assign.nodes import Accum, Arg, Node, node_of
from weft.einsum import ConcatAxis, Spec, labels_in
from weft.einsum.nodes import Label
from weft.ops import Call, Scalar, computed, leaves
from weft.shape.logic import Einsum


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

    def present(self, operands: Collection[int]) -> Scalar | None:
        """The value with all but these operands left out; None if nothing remains."""
        positions = {position for number in operands for position in self.mentioning.get(number, ())}
        found: Scalar | None = None
        for position in sorted(positions.union(self.mentioning.get(None, ()))):
            term = _present(self.terms[position], operands)
            if term is not None:
                found = term if found is None else Call(self.ops[position], (found, term))
        return found


def together(spec: Spec) -> list[Collection[int]] | None:
    """The operands that may be there with each operand, itself among them; None if nothing is concatenated.

    Of those that have parts of one concatenation, only those that have a part in common.
    """
    axis = concatenation(spec)
    return _sharing(spec, {label.name for label in labels_in(axis)}) if axis else None


def concatenation(spec: Spec) -> ConcatAxis | None:
    """The axis of a spec that is made of parts, if there is one."""
    return next((axis for axis in spec.axes if isinstance(axis, ConcatAxis)), None)


def operation_node(code: Accum) -> Node | None:
    """The tensor that tells which operation a statement runs, where the statement does not tell its loops.

    How far a part lies from the first, a window reaches or a sum goes depends on the sizes of others, which the
    gradient of one operand may not mention.
    """
    record, logic = code.record, code.record.operation.logic
    mentioned = {record.lhs, *record.operands}
    if len(mentioned) == len(record.operation.slots) or 0 not in record.operands or not isinstance(logic, Einsum):
        return None
    shapes = logic.spec.shapes
    known = {axis.name for slot in mentioned for axis in shapes[slot].axes if isinstance(axis, Label)}
    missing = (axis for slot, one in enumerate(shapes) if slot not in mentioned for axis in one.axes)
    if all(label.name in known for axis in missing for label in labels_in(axis)):
        return None
    result = node_of(code.operands[record.operands.index(0)])
    return result.gradient_of or result


def _sharing(spec: Spec, parts: Collection[str]) -> list[Collection[int]]:
    """For each operand those that have some of its parts, or none at all."""
    named = [{label.name for label in one.labels} & set(parts) for one in spec.operands]
    without = {number for number, own in enumerate(named) if not own}
    having: dict[str, set[int]] = {}
    for number, own in enumerate(named):
        for part in own:
            having.setdefault(part, set()).add(number)
    every = range(len(named))
    return [without.union(*(having[part] for part in own)) if own else every for own in named]


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
