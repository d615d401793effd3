"""Parts of a scalar that its text names, so that no text is longer or deeper than what it says.

    ~let part = (s *. s) + s;
    ~let part_2 = (part *. part) + part;
    v =: (part_2 *. part_2) + part_2

Written out, twelve such steps would be four thousand operations, and a sum of some hundred terms, one inside the other,
nobody could read back.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from weft.assign.nodes import Accum, Arg, Operand, positions_of
from weft.ops import Call, Scalar, computed
from weft.shape.logic import Pointwise

#: A scalar of no more operations, written out, is written out.
_SHORT = 64
#: No text of a scalar has more operations inside one another.
DEEPEST = 32


def named(code: Accum) -> list[Call]:
    """The parts of what a statement computes that are to be named, each after those it mentions."""
    if _is_row(code):
        return []
    value = code.value
    order = _inside_out(value)
    uses = Counter(id(arg) for one in order for arg in one.args)
    long = _length(order) > _SHORT
    found: list[Call] = []
    depths: dict[int, int] = {}
    for one in order:
        depth = 1 + max((depths.get(id(arg), 0) for arg in one.args), default=0)
        if one is not value and (depth >= DEEPEST or (long and uses[id(one)] > 1)):
            found.append(one)
            depth = 0
        depths[id(one)] = depth
    return found


def text_depth(code: Accum, operands: Mapping[Operand, int]) -> int:
    """How many operations are inside one another in the text of a statement, with so many in its operands."""
    parts = {id(part) for part in named(code)}
    if _is_row(code):
        return 1 + max(operands.get(one, 0) for one in code.operands)

    def leaf(one: Scalar) -> int:
        return operands.get(code.operands[one.number], 0) if isinstance(one, Arg) else 0

    def call(one: Call, inner: Iterable[int]) -> int:
        return 0 if id(one) in parts else 1 + max(inner, default=0)

    return computed(code.value, leaf, call)


def places(code: Accum) -> list[Arg]:
    """The operands of a statement in the order its text shows them, as often as it does."""
    parts = named(code)
    known = {id(part) for part in parts}
    found: list[Arg] = []
    for one in (*parts, code.value):
        rest: list[Scalar] = [*reversed(one.args)] if isinstance(one, Call) else [one]
        while rest:
            inner = rest.pop()
            if isinstance(inner, Arg):
                found.append(inner)
            elif isinstance(inner, Call) and id(inner) not in known:
                rest += reversed(inner.args)
    return found


def needs_slots(code: Accum) -> bool:
    """Must the notation say which slots the tensors fill, because their order alone does not?"""
    record = code.record
    if isinstance(record.operation.logic, Pointwise):
        others = range(1, len(record.operation.slots))
        return record.lhs != 0 or sorted(record.operands) != list(others)
    count = len(record.operands) - len(positions_of(code))
    row = chained_operands(code.value) if count else ()
    return not record.direct or row != tuple(map(Arg, range(count)))


def chained_operands(value: Scalar) -> tuple[Scalar, ...]:
    """The operands of the assignment's own operation; one written several times in a row is undone from the left."""
    last: list[Scalar] = []
    while isinstance(value, Call):
        left, *others = value.args
        if len(others) != 1 or not isinstance(left, Call) or left.op != value.op or value.op == "pow":
            return (*value.args, *reversed(last))
        last += others
        value = left
    return (value,)


def _is_row(code: Accum) -> bool:
    """Is it one operation on operands side by side, however many?"""
    return not isinstance(code.record.operation.logic, Pointwise) and not needs_slots(code)


def _inside_out(value: Scalar) -> list[Call]:
    """Every call in a scalar, once, after those inside it."""
    found: list[Call] = []
    computed(value, lambda leaf: None, lambda one, inner: found.append(one))
    return found


def _length(order: Sequence[Call]) -> int:
    """How many operations the last of some calls is, written out; what is too long is not counted further."""
    lengths: dict[int, int] = {}
    for one in order:
        lengths[id(one)] = min(1 + sum(lengths.get(id(arg), 0) for arg in one.args), _SHORT + 1)
    return lengths[id(order[-1])] if order else 0
