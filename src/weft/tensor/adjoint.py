"""The gradient of an assignment: assignments over the same loops, that add to the gradients of what it reads.

v =: w * x    of    ij; jk => ik        gives        g_w =+ g * x,  g_x =+ g * w        each with the slots of its own
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.assign import (
    Accum,
    Adjoint,
    Arg,
    Assignment,
    Code,
    Direct,
    Lookups,
    Operand,
    Slot,
    intermediate,
    recording,
    seq,
)
from weft.assign.concat_terms import Terms, together
from weft.ops import Call, Num, Scalar, computed, substitute
from weft.shape.logic import Einsum, position_slots
from weft.tensor.derivative import Of, contribution, differentiate, share


def pull_back(
    forward: Accum, value: Slot, gradient: Slot, operands: Sequence[Slot], into: Sequence[Slot], masked: bool
) -> None:
    """Record what adds to the gradient of each operand (`into`) what that of the assignment's target implies."""
    over_slots = _over_slots(operands)
    whole = over_slots(forward.value)
    lies_like = f"rhs{forward.record.lhs}" if forward.record.lhs else "lhs"

    def collect(name: str, accum: str, of: Of) -> Scalar:
        return intermediate(f"{name}_{lies_like}").accumulate(accum, of(whole, value), reset=True)

    part = Num(-1) if forward.accum == "sub" else share(forward.accum, collect)(whole, value)
    for number, seen in _seen_by_operands(forward).items():
        here = whole if seen is forward.value else over_slots(seen)
        partial = differentiate(here, operands[number])
        if forward.accum == "arg2" and isinstance(here, Call):
            partial = _reusing(partial, here, value)
        target, added = into[number], contribution(gradient, part, partial, masked)
        if target.operand is not None and added is not None:
            target += added


def pull_back_all(body: Sequence[Assignment], read: Sequence[Operand], tensor: object, adjoint: Adjoint) -> Code:
    """The gradients of a tensor that several assignments compute, by the operands that they read.

    What adds is differentiated by itself; other assignments of a comprehension together, as one builds on the other.
    """
    values, into = dict(zip(read, adjoint.operands, strict=True)), dict(zip(read, adjoint.into, strict=True))
    direct = [one for one in body if isinstance(one, Direct)]
    groups = [[one] for one in direct] if all(one.accum == "add" for one in direct) else [direct]
    codes = [group[0].domain.pull_back(group, values, into, adjoint) for group in groups if group]
    for forward in body:
        if isinstance(forward, Accum):
            operation = forward.record.operation
            slots = list(zip(forward.record.operands, forward.operands, strict=False))
            held = position_slots(operation.logic)
            positions = {slot: values[one] for slot, one in slots if slot in held}
            watched = tuple(values[one] for one in forward.operands[len(slots) :])
            with recording(operation, Lookups(positions, watched)) as backward:
                pull_back(
                    forward,
                    Slot(forward.record.lhs, adjoint.value, operation),
                    Slot(forward.record.lhs, adjoint.gradient, operation),
                    [Slot(slot, values[one], operation) for slot, one in slots],
                    [Slot(slot, into[one], operation) for slot, one in slots],
                    adjoint.masked,
                )
            codes.append(backward.code)
    return seq(*codes)


def _over_slots(operands: Sequence[Slot]) -> Callable[[Scalar], Scalar]:
    """Writes slots for the operands in a value."""
    return lambda value: substitute(value, lambda leaf: operands[leaf.number] if isinstance(leaf, Arg) else leaf)


def _seen_by_operands(forward: Accum) -> Mapping[int, Scalar]:
    """The value where each operand is there: other parts of a concatenation are not."""
    record, logic = forward.record, forward.record.operation.logic
    numbers = sorted(range(len(record.operands)), key=record.operands.__getitem__)
    groups = together(logic.spec) if isinstance(logic, Einsum) else None
    if groups is None:
        return dict.fromkeys(numbers, forward.value)
    terms, found = Terms.of(forward.value), dict[int, Scalar]()
    for number in numbers:
        part = record.lhs or record.operands[number]
        there = {0, *(slot + 1 for slot in groups[part - 1])} if part else set(record.operands)
        seen = terms.present({one for one in numbers if record.operands[one] in there})
        if record.operands[number] in there and seen is not None:
            found[number] = seen
    return found


def _reusing(partial: Scalar, value: Call, v: Scalar) -> Scalar:
    """A derivative that reads the value computed before instead of computing it again."""
    return computed(
        partial,
        lambda one: one,
        lambda one, args: v if _alike(one, value) else Call(one.op, tuple(args)),
    )


def _alike(one: Call, value: Call) -> bool:
    """Is it the same operation on the same arguments? Only leaves are compared: calls are as deep as they are."""
    return one.op == value.op and all(
        arg is other or (not isinstance(arg, Call) and arg == other)
        for arg, other in zip(one.args, value.args, strict=True)
    )
