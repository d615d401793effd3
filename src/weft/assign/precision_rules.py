"""How assignments take part in the inference of element types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import reduce

from weft.assign.dtype_inference import Precision
from weft.assign.nodes import Accum, Arg, node_of, positions_of
from weft.einsum.nodes import ConcatAxis, labels_in
from weft.ops import OPS, Num, Scalar, where
from weft.shape.logic import Einsum


def infer_precision(code: Accum) -> None:
    """Let an assignment take part in the inference of precisions. A gradient is stored as its tensor is."""
    if code.lhs.gradient_of is None:
        valued = code.operands[: len(code.record.operands) - len(positions_of(code))]
        operands = [(Arg(number), node_of(one).precision) for number, one in enumerate(valued)]
        value = _one_of([arg for arg, _ in operands]) if _joins(code) else code.value
        monoid = OPS[code.accum].monoid
        if monoid and monoid.dtype:
            value, operands = Arg(0), [(Arg(0), Precision.given(monoid.dtype))]
        elif monoid:
            state = monoid.lifted(value, Num(0), Num(0))
            value = monoid.finished(monoid.joined(state, state), Num(0), Num(0))
        code.lhs.precision.computed_by(value, operands, sums=_sums(code), origin=code.origin)


def _sums(code: Accum) -> bool:
    """Does it add or multiply several values up? An einsum that forgets no axis only moves them."""
    logic = code.record.operation.logic
    if code.accum not in ("add", "sub", "mul"):
        return False
    if not isinstance(logic, Einsum):
        return True
    kept = {*logic.spec.result.names, *(label.name for label in logic.spec.positions.values())}
    return any(not kept.issuperset(operand.names) for operand in logic.spec.operands)


def _joins(code: Accum) -> bool:
    """Does it lay its operands end to end? Each cell then is one of them, though written as if they were multiplied."""
    logic = code.record.operation.logic
    if not isinstance(logic, Einsum) or not code.record.direct or len(code.operands) < 2:
        return False
    concatenations = (axis for axis in logic.spec.result.axes if isinstance(axis, ConcatAxis))
    parts = [{label.name for label in labels_in(axis)} for axis in concatenations]
    own = [[labels.intersection(operand.names) for operand in logic.spec.operands] for labels in parts]
    return any(all(each) and sum(map(len, each)) == len(set().union(*each)) for each in own)


def _one_of(values: Sequence[Scalar]) -> Scalar:
    *others, last = values
    return reduce(lambda rest, value: where(True, value, rest), reversed(others), last)
