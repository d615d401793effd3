"""Checkpoints: of a recurrence the carry of every k-th iteration is kept, and what lies between is computed again.

    for t in range(T): h = cell(h, x[t])      becomes      for s in range(T // k):
                                                               for t in range(k): h = cell(h, x[k * s + t])

and what is left of T after that. The outer loop is one that computes an iteration again, so all it keeps is what its
iterations found; the inner one, computed again for one segment at a time, has memory for one (Griewank).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.assign import Node, NodeName
from weft.einsum.nodes import Label
from weft.errors import user_origin
from weft.shape.logic import Slice
from weft.shape.subscripts import AxisRange, SlicedRow
from weft.tensor.einsum import contract
from weft.tensor.recurrence import Carry, Recurrence, iteration_slice, loop_along
from weft.tensor.slices import apply_slice
from weft.tensor.tensor import Tensor

_CUT = "s&t, ...|...->... => s, t, ...|...->..."
_JOINED = "s, t, ...|...->... => s&t, ...|...->..."
_BEHIND = "a, ...|...->...; b, ...|...->... => a^b, ...|...->..."


@dataclass(frozen=True, slots=True)
class Scanned:
    """What comes of a recurrence: its outputs of all iterations, and what the last one leaves."""

    outputs: Sequence[Tensor]
    last: Sequence[Tensor]


@dataclass(frozen=True, slots=True)
class ScanNames:
    """What all that is called, and the loop over segments."""

    outputs: Sequence[str]
    last: Sequence[str]
    segments: str


def scanned(of: Recurrence, names: ScanNames) -> Scanned:
    """What comes of a recurrence as it is."""
    run = of.run()
    outputs = [run.stacked(one, name) for one, name in zip(of.outputs, names.outputs, strict=True)]
    return Scanned(outputs, [run.last(one, name) for one, name in zip(of.carries, names.last, strict=True)])


def checkpointed(of: Recurrence, steps: int, every: int, names: ScanNames) -> Scanned:
    """The same, of which only every so many carries are kept; what is left of the iterations comes last."""
    rest = steps % every
    if not rest:
        return _in_segments(of, every, names)
    cut = rest if of.reverse else steps - rest
    left, right = _over(of, 0, cut), _over(of, cut, steps)
    first, second = (right, left) if of.reverse else (left, right)
    whole = _in_segments(first, every, names)
    carries = [replace(one, start=start) for one, start in zip(of.carries, whole.last, strict=True)]
    behind = scanned(replace(second, carries=carries), names)
    pairs = zip(whole.outputs, behind.outputs, names.outputs, strict=True)
    outputs = [contract(_BEHIND, (b, a) if of.reverse else (a, b), label=name) for a, b, name in pairs]
    return Scanned(outputs, behind.last)


def _over(of: Recurrence, begin: int, end: int) -> Recurrence:
    """A recurrence over some of its iterations."""
    positions = AxisRange(Label("t"), Affine((), begin), Affine((), end))
    read = {one: apply_slice(Slice(batch=SlicedRow((positions,))), source) for one, source in of.slices.items()}
    return replace(of, slices=read, index=loop_along(list(read.values()), of.index.name))


def _in_segments(of: Recurrence, every: int, names: ScanNames) -> Scanned:
    """A recurrence as one over segments, in each of which there is one over its iterations."""
    cut = {one: contract(_CUT, [source], sizes={"t": every}) for one, source in of.slices.items()}
    index = loop_along(list(cut.values()), names.segments)
    own = {one: iteration_slice(source, index) for one, source in cut.items()}
    found = [_standing_for(one) for one in of.carries]
    inner = replace(
        of,
        index=loop_along(list(own.values()), of.index.name),
        carries=[replace(one, start=start) for one, start in zip(of.carries, found, strict=True)],
        slices=own,
    )
    segment = scanned(inner, names)
    carries = [
        Carry(before, one.start, after) for one, before, after in zip(of.carries, found, segment.last, strict=True)
    ]
    slices = {own[one]: source for one, source in cut.items()}
    whole = scanned(Recurrence(index, of.reverse, carries, slices, segment.outputs, recompute=True), names)
    outputs = [contract(_JOINED, [one], label=name) for one, name in zip(whole.outputs, names.outputs, strict=True)]
    return Scanned(outputs, whole.last)


def _standing_for(carry: Carry) -> Tensor:
    """Stands for what a segment finds."""
    node = carry.before.node
    made = Node(NodeName(node.label), node.shape, node.precision, origin=user_origin())
    return Tensor(made, differentiable=carry.before.differentiable)
