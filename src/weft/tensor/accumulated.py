"""The values that an einsum accumulates, as a tensor has them: the axes of its result, and those that it leaves out.

ij; jk => ik    accumulates    ikj            2*h<+p => h    accumulates    hp            v, d; b, s|@v => b|d    b|d, s
"""

from __future__ import annotations

from collections.abc import Collection, Sequence

from weft.einsum.nodes import (
    KINDS,
    AffineAxis,
    Axis,
    ConcatAxis,
    Kind,
    Label,
    Row,
    RowVar,
    ShapeSpec,
    Spec,
    by_kind,
    labels_in,
)
from weft.errors import EinsumError
from weft.ops import Monoid


def accumulated_axes(spec: Spec, monoid: Monoid) -> ShapeSpec:
    """One axis for each loop of an einsum, those that its result leaves out behind the others, in the spec's order."""
    looked = {label.name for label in spec.positions.values()}
    read = [name for name in dict.fromkeys(name for one in spec.operands for name in one.names) if name not in looked]
    kept = [name for name in spec.result.names if name in read]
    if any(isinstance(axis, ConcatAxis) for axis in spec.axes):
        what = f"`{monoid.name}` accumulates along axes that are joined or split"
        raise EinsumError(what, text=spec.text, fix="join or split in an einsum of its own")
    left = [name for name in read if name not in kept]
    return ShapeSpec(*by_kind(lambda kind: _row(spec, kind, kept, left, monoid)))


def leaves_some_out(spec: Spec) -> bool:
    """Has an einsum places at which nothing is read, beyond the ends of an axis?"""
    windows = [axis.kernel for axis in spec.axes if isinstance(axis, AffineAxis)]
    return any(kernel is not None and kernel.padded for kernel in windows)


def _row(spec: Spec, kind: Kind, kept: Collection[str], left: Sequence[str], monoid: Monoid) -> Row:
    written = spec.result.row(kind)
    every = {row.var.name: at for shape in spec.operands for at in KINDS if (row := shape.row(at)).var}
    own = [name for name, at in every.items() if at == kind and name in left]
    if len(own) + bool(written.var) > 1 or (own and len(left) > 1 and not monoid.commutative):
        what = f"`{monoid.name}` accumulates along axes that the spec does not name"
        raise EinsumError(what, text=spec.text, fix="name each of them")
    var = RowVar(own[0]) if own else written.var
    lead, trail = (_labels(axes, kept) for axes in (written.lead, written.trail))
    added = tuple(Label(name) for name in left if name not in every) if kind == "output" else ()
    return Row(lead, var, trail + added) if var else Row((), None, lead + trail + added)


def _labels(axes: Sequence[Axis], kept: Collection[str]) -> tuple[Label, ...]:
    return tuple(dict.fromkeys(label for axis in axes for label in labels_in(axis) if label.name in kept))
