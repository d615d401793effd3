"""Elements in order along one axis: a spec of one operand says which, by leaving it out.

An element's rank is how many come before it; scattered to their ranks, positions are the order, and elements are read
in that order. So gradients go to where the elements came from. A program compares each with all others; long rows
are sorted instead (`optimise/ranks.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from weft.arguments import whole_number
from weft.assign import Slot
from weft.einsum import parse_spec
from weft.einsum.nodes import KINDS, Axis, ConcatAxis, Label, ShapeSpec, Spec
from weft.einsum.show import show_spec
from weft.errors import EinsumError, ShapeError
from weft.naming import FreshNames
from weft.ops import Scalar
from weft.ops.monoids import MOST_RANKS, top_positions
from weft.ops.ordering import comes_before
from weft.shape.logic import Einsum
from weft.tensor.einsum import contract
from weft.tensor.groups import Groups, each_row, related
from weft.tensor.operator import Operator
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike

#: The last axis of the output row.
LAST_AXIS = "...|...->...v => ...|...->..."
_POSITION = "int32"


def sort(x: TensorLike, spec: str = LAST_AXIS, *, descending: bool = False, label: str = "") -> Tensor:
    """The elements in ascending order along the last output axis, or along the axis that the spec leaves out.

    What is not a number comes last; with `descending`, all is the other way round.

    >>> x = wf.tensor([[3, 1, 2], [0, 5, 4]])
    >>> print(ctx[wf.sort(x)], ctx[wf.sort(x, "ij => j", descending=True)])
    [[1. 2. 3.]
     [0. 4. 5.]] [[3. 5. 4.]
     [0. 1. 2.]]
    """
    x, line = as_tensor(x, "sort"), _SortedAxis.of(spec, "sort")
    return line.taken("sort", x, line.order(x, descending), label)


def argsort(x: TensorLike, spec: str = LAST_AXIS, *, descending: bool = False, label: str = "") -> Tensor:
    """The positions of the elements in order, as `wf.sort` has it; of equal ones the first comes first.

    >>> print(ctx[wf.argsort(wf.tensor([[3, 1, 2], [0, 5, 4]]))])
    [[1 2 0]
     [0 2 1]]
    """
    return _SortedAxis.of(spec, "argsort").order(as_tensor(x, "argsort"), descending, label)


def top_k(x: TensorLike, k: int, spec: str = LAST_AXIS) -> tuple[Tensor, Tensor]:
    """The `k` largest elements along the last output axis, or along the one that the spec leaves out, and where they
    are: the largest first, of equal ones the first, and what is not a number before all others.

    >>> values, positions = wf.top_k(wf.tensor([[1, 5, 2, 5], [4, 2, 0, 3]]), 2)
    >>> print(ctx[values], ctx[positions])
    [[5. 5.]
     [4. 3.]] [[1 3]
     [0 3]]
    """
    x, line = as_tensor(x, "top_k"), _SortedAxis.of(spec, "top_k")
    positions = line.first(x, k)
    return line.taken("top_k", x, positions, ""), positions


@dataclass(frozen=True, slots=True)
class _SortedAxis:
    """An axis by its label, all axes of the tensor, and these with ranks along that one, or once more."""

    label: str
    whole: ShapeSpec
    ranked: ShapeSpec
    others: ShapeSpec
    groups: Groups

    @staticmethod
    def of(spec: str, user: str) -> _SortedAxis:
        groups = Groups.plain(spec, user)
        gone = groups.left_out
        if len(gone) != 1 or gone[0] in KINDS:
            what = f"{user} works along one axis, and the spec leaves out {', '.join(gone) or 'none'}"
            raise EinsumError(what, text=groups.text, fix='name all axes and leave out one: "...|t, d => ...|t"')
        whole, names = groups.element, FreshNames(groups.element.names)
        ranked, others = (_renamed(whole, gone[0], Label(names.fresh(name))) for name in ("rank", "other"))
        along = Groups(whole, _renamed(whole, gone[0], None), groups.text)
        return _SortedAxis(gone[0], whole, ranked, others, along)

    def order(self, x: Tensor, descending: bool, label: str = "") -> Tensor:
        """The positions of elements in order."""

        def counted(x: Scalar, at: Scalar, other: Scalar, place: Scalar) -> Scalar:
            return comes_before(other, place, x, at, descending)

        reads = [(self.whole, x), self.groups.positions(self.whole, _POSITION)]
        reads += [(self.others, x), self.groups.positions(self.others, _POSITION)]
        ranks = related("ranks", counted, reads, self.whole, accum="add", dtype="int64")
        # The last is only there for its shape: there are as many ranks as elements.
        scattered = [self.groups.positions(self.whole, _POSITION), (self._held(self.whole, self.ranked), ranks)]
        scattered.append((self.ranked, x))
        spec = Spec(tuple(shape for shape, _ in scattered), self.ranked)
        logic = Einsum(parse_spec(show_spec(spec)), outside="clip")
        return _SCATTER.apply(logic, [tensor for _, tensor in scattered], label=label, dtype=_POSITION)

    def first(self, x: Tensor, k: int) -> Tensor:
        """The positions of the `k` largest: those that a state in registers keeps, or the beginning of the order."""
        ranks = whole_number(k, 1)
        if ranks is None or ranks <= MOST_RANKS:
            return contract(show_spec(Spec((self.whole,), self.ranked)), [x], accum=top_positions(k))
        (rank,) = [axis for axis in self.ranked.axes if axis not in self.whole.axes]
        assert isinstance(rank, Label)
        rest = Label(FreshNames(self.ranked.names).fresh("rest"))
        cut = Spec((_renamed(self.ranked, rank.name, ConcatAxis((rank, rest))),), self.ranked)
        try:
            return contract(show_spec(cut), [self.order(x, descending=True)], sizes={rank.name: ranks})
        except ShapeError:
            what = f"there are no {k} largest along `{self.label}` of `{x.label}`, which is {x.shape}"
            raise ShapeError(what, fix="ask for as many as there are, or fewer") from None

    def taken(self, name: str, x: Tensor, order: Tensor, label: str) -> Tensor:
        """The elements at some positions."""
        spec = Spec((self.whole, self._held(self.ranked, self.whole)), self.ranked)
        logic = Einsum(parse_spec(show_spec(spec)), outside="clip")
        return Operator(name, None, _first_operand).apply(logic, [x, order], label=label)

    def _held(self, shape: ShapeSpec, other: ShapeSpec) -> ShapeSpec:
        """A shape that holds positions along the axis by which another differs from it."""
        (along,) = [axis for axis in other.axes if axis not in shape.axes]
        assert isinstance(along, Label)
        return replace(shape, along=along)


def _renamed(shape: ShapeSpec, old: str, new: Axis | None) -> ShapeSpec:
    """A shape with another axis in place of one, or without it."""

    def axes(given: tuple[Axis, ...]) -> tuple[Axis, ...]:
        changed = (new if one == Label(old) else one for one in given)
        return tuple(one for one in changed if one is not None)

    return each_row(lambda _, row: replace(row, lead=axes(row.lead), trail=axes(row.trail)), shape)


def _added(v: Slot, v1: Slot, *held: Slot) -> None:
    v.accumulate("add", v1, reset=True)


def _first_operand(v: Slot, v1: Slot, *held: Slot) -> None:
    v[:] = v1


_SCATTER = Operator("argsort", None, _added)
