"""What an accumulation by a monoid changes with: its joins as tensors, which are differentiated as all are.

    y =:{m} x    changes as    s =: of(x);  s' =: s joined along axes (`folds.py`);  y' =: result(s')

They are made when a gradient is asked for, and none is computed but for it. What is computed and accumulated at once is
computed by itself first, and where nothing is read stands the state of nothing:

    y =:{m} a * b ~logic:"ij; jk => ik"  changes as  x =: a * b ~logic:"ij; jk => ikj";  y' =:{m} x ~logic:"ikj => ik"
    y =:{m} a ~logic:"o=+k => o"         changes as  x =: a ~logic:"o=+k => ok";  s =: where(read, of(x), start)
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass
from math import inf
from typing import Concatenate

from weft.assign import Node, NodeName
from weft.einsum.nodes import KINDS, Label, ShapeSpec, Spec
from weft.einsum.show import show_spec
from weft.errors import EinsumError, WeftError
from weft.ops import Monoid, Num, Scalar, call, leaves
from weft.ops.monoid import Formal
from weft.ops.monoids import top_positions
from weft.shape.logic import Einsum
from weft.tensor.accumulated import accumulated_axes, leaves_some_out
from weft.tensor.einsum import contract
from weft.tensor.folds import States, joined_along_groups, numbers_of, over_given
from weft.tensor.functions import each_point
from weft.tensor.grad import pulled_back, shaped
from weft.tensor.groups import Groups, reduce_groups, related
from weft.tensor.scan import inside_loops, loops_around
from weft.tensor.segments import Scatter
from weft.tensor.tensor import Tensor, stop_gradient

#: The values that an einsum accumulates, as a tensor: by another spec, the names whose sizes it may say, its operands.
Values = Callable[Concatenate[str, Collection[str], Sequence[Tensor], ...], Tensor]


def differentiable_by_joins(y: Tensor, monoid: Monoid, spec: Spec, values: Values) -> Tensor:
    """A tensor that accumulates by a monoid, with a gradient: that of the same joins made one by one."""
    joins = _Joins(y, monoid, spec, values, loops_around())
    return Tensor(y.operand, operation=y.operation, children=y.children, differentiable=True, joint=joins)


@dataclass(frozen=True, slots=True, eq=False)
class _Joins:
    """The joins of an accumulation `y`, inside so many loops."""

    y: Tensor
    monoid: Monoid
    spec: Spec
    values: Values
    loops: int

    def pull_back(self, gradients: Mapping[Tensor, Tensor], wanted: Collection[Tensor]) -> dict[Tensor, Tensor]:
        """The gradients of what is accumulated."""
        (gradient,), y = gradients.values(), self.y
        with inside_loops(self.loops):
            joined = shaped(self._joined(), Node(NodeName(y.label), y.shape, y.node.precision), self.monoid.name)
            children = dict.fromkeys(child for child in y.children if child.differentiable and child in wanted)
            return pulled_back([(joined, gradient)], list(children))

    def _joined(self) -> Tensor:
        axes, y = self.spec.operands[0].axes, self.y
        plain = len(self.spec.operands) == 1 and all(isinstance(one, Label) and axes.count(one) == 1 for one in axes)
        try:
            return _joins(self.monoid, self.spec.text, y.children[0]) if plain else self._of_values()
        except WeftError as error:
            what = f"the gradient of `{y.label}` cannot be derived: {error.what}"
            raise WeftError(what, origin=y.node.origin, fix=error.fix) from None

    def _of_values(self) -> Tensor:
        """What a monoid makes of what an einsum computes, which is a tensor of its own here."""
        spec, operation = self.spec, self.y.operation
        assert operation is not None
        assert isinstance(operation.logic, Einsum)
        self._check_axes()
        element, slots = accumulated_axes(spec, self.monoid), range(1, len(spec.operands) + 1)
        if not {label.name for label in spec.positions.values()}.isdisjoint(spec.result.names):
            return self._of_scattered(Scatter(self.y, spec, element))
        x, read = self._computed(slots, element, skips=operation.logic.outside == "skip")
        return _joins(self.monoid, show_spec(Spec((element,), spec.result)), x, read)

    def _check_axes(self) -> None:
        """Refuse axes of operands that the spec does not write: what is computed by itself would add them up."""
        for shape, operand in zip(self.spec.operands, self.y.children, strict=False):
            for kind in KINDS:
                written, there = shape.row(kind), operand.shape.row(kind).axes or ()
                unwritten = () if written.var else there[: len(there) - len(written.axes)]
                if any(dim.size != 1 for dim in unwritten):
                    what = (
                        f"`{self.monoid.name}` accumulates along axes of `{operand.label}` that the spec does not write"
                    )
                    raise EinsumError(what, text=self.spec.text, fix="name each of them")

    def _of_scattered(self, scatter: Scatter) -> Tensor:
        """What a monoid makes of updates, in the cells that positions say."""
        monoid, spec = self.monoid, self.spec
        x, read = self._computed(scatter.read_slots, scatter.value_axes, skips=False)
        updates = scatter.updates(x)
        if monoid.ranks:
            names = [name for one in spec.shapes for name in one.names]
            operands = self.y.children[: len(spec.operands)]
            return updates.picked(self.values(spec.text, names, operands, accum=top_positions(monoid.ranks)))
        states = _constant_fields(monoid, _lifted(monoid, updates.groups, updates.flat))
        if read is not None:
            states = _read_only(monoid, states, scatter.updates(read).flat)
        return updates.placed(_result(monoid, updates.joined(monoid, states)))

    def _computed(self, slots: Sequence[int], axes: ShapeSpec, skips: bool) -> tuple[Tensor, Tensor | None]:
        """What an einsum of these operands computes, and where anything is read, if not everywhere."""
        spec = Spec(tuple(self.spec.operands[slot - 1] for slot in slots), axes)
        names = [name for one in spec.operands for name in one.names]
        operands, held = [self.y.children[slot - 1] for slot in slots], spec.positions
        x = self.values(show_spec(spec), names, operands)
        if not skips and not leaves_some_out(spec):
            return x, None
        ones = [one if slot in held else stop_gradient(_ones(one)) for slot, one in enumerate(operands, 1)]
        return x, self.values(show_spec(spec), names, ones, op="*")


def _ones(x: Tensor) -> Tensor:
    return each_point("ones", lambda x: Num(1.0), x)


def _joins(monoid: Monoid, spec: str, x: Tensor, read: Tensor | None = None) -> Tensor:
    """What a monoid makes of a tensor, by joins alone; of it all, or of what is `read`."""
    groups = Groups.plain(spec, monoid.name)
    if monoid.ranks:
        return _picked(monoid, groups, spec, x, read)
    states = _constant_fields(monoid, _lifted(monoid, groups, x))
    if read is not None:
        states = _read_only(monoid, states, read)
    return _result(monoid, [reduce_groups(one, spec, {}) for one in joined_along_groups(monoid, groups, states)])


def _result(monoid: Monoid, states: States) -> Tensor:
    used, value = numbers_of(monoid.result)
    return each_point("result", over_given(value), *(states[number] for number in used))


def _read_only(monoid: Monoid, states: States, read: Tensor) -> States:
    """States of what is read, and of nothing elsewhere."""
    return [_where_read(state, read, nothing) for state, nothing in zip(states, monoid.start, strict=True)]


def _where_read(x: Tensor, read: Tensor, nothing: float | int | bool) -> Tensor:
    return each_point("read", lambda one, there: call("where", there, one, Num(nothing)), x, read)


def _picked(monoid: Monoid, groups: Groups, spec: str, x: Tensor, read: Tensor | None) -> Tensor:
    """The values that are among the largest, read where they stand."""

    def found(x: Scalar, at: Scalar, position: Scalar) -> Scalar:
        return call("select", call("eq", at, position), x)

    x = x if read is None else _where_read(x, read, -inf)
    positions = contract(spec, [x], accum=top_positions(monoid.ranks))
    reads = [(groups.element, x), (groups.group, positions), groups.positions(groups.element, "int32")]
    return related("picked", found, reads, groups.group, accum="add")


def _lifted(monoid: Monoid, groups: Groups, x: Tensor) -> States:
    """The states of all values, by number."""
    whole = groups.element
    reads = [(whole, x), groups.positions(whole, "int64")]
    if monoid.positional:
        return [related("of", over_given(part), reads, whole) for part in monoid.of]
    return [each_point("of", over_given(part), x) for part in monoid.of]


def _constant_fields(monoid: Monoid, states: States) -> States:
    """States whose numbers pass no gradient on where they do not change with values, such as how many there are."""
    varying = {at for at, part in enumerate(monoid.of) if Formal(0) in set(leaves(part))}
    uses = [{number % monoid.size for number in numbers_of(part)[0]} for part in monoid.combine]
    while risen := {at for at, used in enumerate(uses) if used & varying} - varying:
        varying |= risen
    return [one if at in varying else stop_gradient(one) for at, one in enumerate(states)]
