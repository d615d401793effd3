"""What an accumulation by a monoid changes with: its joins as tensors, two by two, which are differentiated as all are.

    y =:{m} x    changes as    s0 =: of(x);  s1[i] =: combine(s0[2 i], s0[2 i + 1]);  s2 =: …;  y' =: result(s_last)

There are as many levels as the number of values has binary digits, and all of them together as many cells as twice the
values. None is computed but for a gradient. What stands at the end where a number is odd is joined last.

What is computed and accumulated at once is computed by itself first:

    y =:{m} a * b ~logic:"ij; jk => ik"  changes as  x =: a * b ~logic:"ij; jk => ikj";  y' =:{m} x ~logic:"ikj => ik"
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from functools import partial

from weft.assign import Adjoint, Code, Slot, recording
from weft.einsum.nodes import KINDS, AffineAxis, Axis, ConcatAxis, Kind, Label, Row, ShapeSpec, Skip, Spec
from weft.einsum.show import show_spec
from weft.errors import WeftError, user_origin
from weft.ops import Monoid, Scalar, call, leaves
from weft.ops.monoid import Formal, over_numbers
from weft.ops.monoids import top_positions
from weft.shape.infer import Operation, infer
from weft.shape.logic import Einsum, Pointwise
from weft.tensor.accumulated import accumulated_axes, axis_names
from weft.tensor.einsum import contract
from weft.tensor.functions import each_point
from weft.tensor.groups import Groups, reduce_groups, related
from weft.tensor.tensor import Tensor, stop_gradient

#: The values that an einsum accumulates, as a tensor: by another spec, and the names whose sizes it may say.
Values = Callable[[str, Collection[str]], Tensor]
#: The numbers of states, a tensor each.
States = list[Tensor]


def differentiable_by_joins(y: Tensor, monoid: Monoid, spec: Spec, values: Values) -> Tensor:
    """A tensor that accumulates by a monoid, with a gradient: that of the same joins made one by one."""
    axes = spec.operands[0].axes
    plain = len(spec.operands) == 1 and all(isinstance(axis, Label) and axes.count(axis) == 1 for axis in axes)
    try:
        joined = _joins(y, monoid, spec.text) if plain else _of_values(y, monoid, spec, values)
    except WeftError as error:
        return Tensor(
            y.operand, operation=y.operation, children=y.children, differentiable=True, pullback=partial(_refuse, error)
        )
    operation = infer(
        Pointwise(1), [joined.shape], name=y.label, title=monoid.name, origin=user_origin(), result=y.shape
    )
    pullback = partial(_passed_on, operation)
    return Tensor(y.operand, operation=y.operation, children=(joined,), differentiable=True, pullback=pullback)


def _passed_on(operation: Operation, tensor: Tensor, adjoint: Adjoint) -> Code:
    (into,) = adjoint.into
    with recording(operation) as backward:
        Slot(1, into, operation).__iadd__(Slot(0, adjoint.gradient, operation))
    return backward.code


def _refuse(why: WeftError, tensor: Tensor, adjoint: Adjoint) -> Code:
    raise WeftError(
        f"the gradient of `{tensor.label}` cannot be derived: {why.what}", origin=tensor.node.origin, fix=why.fix
    )


def _joins(y: Tensor, monoid: Monoid, spec: str) -> Tensor:
    """What a monoid makes of a tensor, by joins alone."""
    (x,), groups = y.children, Groups.plain(spec, monoid.name)
    if "?" in str(x.shape) or "..." in str(x.shape):
        what = f"how many values are joined is not known yet: `{x.label}` is {x.shape}"
        raise WeftError(what, fix="build it from tensors whose sizes are given")
    if monoid.ranks:
        return _picked(monoid, groups, spec, x)
    states = _constant_fields(monoid, _lifted(monoid, groups, x))
    axes = _Axes.of(x)
    for at in reversed(axes.reduced(groups)):
        states = _Joining(monoid, axes, at).joined(states)
    ends = [reduce_groups(one, spec, {}) for one in states]
    used, value = _used(monoid.result)
    return each_point("result", _function(value), *(ends[number] for number in used))


def _of_values(y: Tensor, monoid: Monoid, spec: Spec, values: Values) -> Tensor:
    """What a monoid makes of what an einsum computes, which is a tensor of its own here."""
    assert y.operation is not None
    logic = y.operation.logic
    assert isinstance(logic, Einsum)
    element = accumulated_axes(spec, monoid, skips=logic.outside == "skip")
    x = values(show_spec(Spec(spec.operands, element)), [name for one in spec.operands for name in axis_names(one)])
    sizes = {name: dim.size for name, dim in y.operation.sizes.items() if name in axis_names(spec.result)}
    return contract(show_spec(Spec((element,), spec.result)), [x], accum=monoid, sizes=sizes)


def _picked(monoid: Monoid, groups: Groups, spec: str, x: Tensor) -> Tensor:
    """The values that are among the largest, read where they stand."""

    def found(x: Scalar, at: Scalar, position: Scalar) -> Scalar:
        return call("select", call("eq", at, position), x)

    positions = contract(spec, [x], accum=top_positions(monoid.ranks))
    reads = [(groups.element, x), (groups.group, positions), groups.positions(groups.element, "int32")]
    return related("picked", found, reads, groups.group, accum="add")


def _lifted(monoid: Monoid, groups: Groups, x: Tensor) -> States:
    """The states of all values, by number."""
    whole = groups.element
    reads = [(whole, x), groups.positions(whole, "int64")]
    if monoid.positional:
        return [related("of", _function(part), reads, whole) for part in monoid.of]
    return [each_point("of", _function(part), x) for part in monoid.of]


def _constant_fields(monoid: Monoid, states: States) -> States:
    """States whose numbers pass no gradient on where they do not change with values, such as how many there are."""
    varying = {at for at, part in enumerate(monoid.of) if Formal(0) in set(leaves(part))}
    uses = [{leaf.number % monoid.size for leaf in _formals(part)} for part in monoid.combine]
    while risen := {at for at, used in enumerate(uses) if used & varying} - varying:
        varying |= risen
    return [one if at in varying else stop_gradient(one) for at, one in enumerate(states)]


def _formals(value: Scalar) -> list[Formal]:
    return [leaf for leaf in leaves(value) if isinstance(leaf, Formal)]


def _function(value: Scalar) -> Callable[..., Scalar]:
    return lambda *numbers: over_numbers((value,), numbers)[0]


def _used(value: Scalar) -> tuple[list[int], Scalar]:
    """Which numbers a traced value mentions, and the value over these alone."""
    used = sorted({leaf.number for leaf in _formals(value)})
    places = [Formal(used.index(number) if number in used else 0) for number in range(max(used, default=0) + 1)]
    return used, over_numbers((value,), places)[0]


@dataclass(frozen=True, slots=True)
class _Axes:
    """The axes of a tensor: of each its row and its size."""

    kinds: tuple[Kind, ...]
    sizes: tuple[int, ...]

    @staticmethod
    def of(x: Tensor) -> _Axes:
        rows = [(kind, getattr(x.dims, kind)) for kind in KINDS]
        kinds = tuple(kind for kind, dims in rows for _ in dims)
        return _Axes(kinds, tuple(dim.size for _, dims in rows for dim in dims))

    def reduced(self, groups: Groups) -> list[int]:
        """The axes along which values belong to one group."""
        kept, found = groups.names(groups.group), list[int]()
        for kind in KINDS:
            mine, row = [at for at, one in enumerate(self.kinds) if one == kind], groups.operand.row(kind)
            between = len(mine) - len(row.axes)
            same = row.var is not None and row.var.name in kept
            names = [*row.lead, *[None] * between, *row.trail]
            gone = [not same if one is None else isinstance(one, Label) and one.name not in kept for one in names]
            found += [at for at, reduced in zip(mine, gone, strict=True) if reduced]
        return found

    def read(self, at: int, axis: Axis) -> ShapeSpec:
        """All axes by name, one of them read in its own way."""
        axes = [axis if number == at else Label(f"a{number}") for number in range(len(self.kinds))]
        rows = (tuple(axes[number] for number, one in enumerate(self.kinds) if one == kind) for kind in KINDS)
        batch, input, output = (Row((), None, row) for row in rows)
        return ShapeSpec(batch, input, output)


@dataclass(frozen=True, slots=True)
class _Joining:
    """Values along one axis, which are joined to one."""

    monoid: Monoid
    axes: _Axes
    at: int

    def joined(self, states: States) -> States:
        count, last = self.axes.sizes[self.at], list[States]()
        label = Label(f"a{self.at}")
        while count > 1:
            if count % 2:
                last.append(self._part(states, ConcatAxis((Skip(count - 1), label))))
                states = self._part(states, ConcatAxis((label, Skip(1))))
            states = self._joined(states, states, AffineAxis(2, label, None, 0), AffineAxis(2, label, None, 1))
            count //= 2
        for rest in reversed(last):
            states = self._joined(states, rest, label, label)
        return states

    def _part(self, states: States, axis: Axis) -> States:
        whole = self.axes.read(self.at, Label(f"a{self.at}"))
        return [related("part", lambda x: x, [(self.axes.read(self.at, axis), one)], whole) for one in states]

    def _joined(self, left: States, right: States, *read: Axis) -> States:
        whole = self.axes.read(self.at, Label(f"a{self.at}"))
        shapes = [self.axes.read(self.at, axis) for axis in read]
        reads = [(shape, one) for shape, states in zip(shapes, (left, right), strict=True) for one in states]
        parts = map(_used, self.monoid.combine)
        return [related("join", _function(value), [reads[at] for at in used], whole) for used, value in parts]
