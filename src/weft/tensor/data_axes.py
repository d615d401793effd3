"""Which axes of an array are which, and how big they are said to be."""

from __future__ import annotations

from collections.abc import Mapping
from numbers import Integral
from typing import TypeAlias

from weft.einsum.nodes import KINDS, Kind
from weft.errors import ShapeError
from weft.shape.nodes import Dim, Shape
from weft.shape.text import RowSizes, given_dims

#: The sizes that are said of rows of axes; of a row that is not there, nothing.
Said: TypeAlias = Mapping[Kind, tuple[Dim, ...]]


def said_sizes(b: RowSizes | None, i: RowSizes | None, o: RowSizes | None) -> Said:
    """What `b=`, `i=` and `o=` say."""
    if b is None and i is None and o is None:
        return {}
    rows: tuple[tuple[Kind, RowSizes | None], ...] = (("batch", b), ("input", i), ("output", o))
    dims = {kind: given_dims(sizes, kind[0]) for kind, sizes in rows}
    return {kind: row for kind, row in dims.items() if row is not None}


def data_shape(found: tuple[int, ...], label: str, batch: int, input: int, said: Said) -> Shape:
    """The shape of an array whose first axes are batch axes and whose last are input axes, if it is as said."""
    rank = len(found)
    if said:
        batch, input = _count("batch", batch, said), _count("input", input, said)
    for name, count in (("batch", batch), ("input", input)):
        if not isinstance(count, Integral):
            what = f"{name}= counts axes of the array, and is {count!r}"
            raise ShapeError(what, fix=f"write {name}=1 for one axis; a size is said by {name[0]}=")
    if min(batch, input) < 0 or batch + input > rank:
        raise ShapeError(
            f"{batch} batch and {input} input axes do not fit an array of shape {found}",
            fix=f"batch + input must be at most {rank}",
        )
    dims = tuple(Dim(size) for size in found)
    shape = Shape(dims[:batch], dims[rank - input :], dims[batch : rank - input] or (Dim(1),))
    if not said:
        return shape
    for kind, row in said.items():
        _check(kind, shape.row(kind), row, label)
    first, last, between = (said.get(kind, shape.row(kind)) for kind in KINDS)
    return Shape(first, last, between)


def _count(kind: Kind, counted: int, said: Said) -> int:
    """How many axes a row has: as counted, or as many as there are sizes."""
    if kind not in said or counted == len(said[kind]):
        return counted
    if counted:
        raise ShapeError(
            f"{kind}={counted} counts the {kind} axes, and {kind[0]}= has {len(said[kind])}",
            fix=f"leave out {kind}=: {kind[0]}= says how many there are, and their sizes",
        )
    return len(said[kind])


def _check(kind: Kind, found: tuple[Dim, ...], said: tuple[Dim, ...], label: str) -> None:
    if len(said) != len(found):
        raise ShapeError(
            f"{kind[0]}= has {len(said)} sizes, and `{label}` has {len(found)} {kind} axes",
            fix="b= gives the sizes of the first axes and i= of the last, o= of all between",
        )
    for at, (there, dim) in enumerate(zip(found, said, strict=True)):
        if there.size != dim.size:
            spelled = dim.size if dim.named is None else dim.named.spelled
            raise ShapeError(
                f"{kind} axis {at} of `{label}` has size {there.size}, not {spelled}",
                notes=[] if dim.named is None else [dim.named.source],
                fix=f"give an array of size {dim.size} there, or say {there.size}",
            )
