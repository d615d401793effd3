"""Advanced indexing: tensors among other subscripts, `x[0, ids]`, `x[rows, columns]`, `x[0, t : t + 4]`.

That is one einsum with positions, of what other slices leave:

    x[0, ids]    "0, v0, ...; p0 @v0 => p0, ..."        x[0, t : t + 4]    "0, v0<+k0, ...; 0 @v0 => k0, ..."

As in NumPy, tensors of positions are read together, number for number, an axis of 1 along all of another's and fewer
axes as the last of more; their axes stand where the first of them stood, or in front of all others where whole axes lie
between them, or between them and a number.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from numbers import Integral

from weft.einsum.nodes import Kind
from weft.errors import ShapeError
from weft.ops import Scalar
from weft.shape.nodes import MEMORY_ORDER
from weft.tensor.einsum import contract
from weft.tensor.lookups import part_of_spec, position_axes
from weft.tensor.subscripts import SlicedAxis, apart, number_at, sliced_axes
from weft.tensor.tensor import Tensor
from weft.tensor.windows import window_of

#: The axes of a row before its `...`, and behind it; None for one that is read at one position.
Sides = tuple[list[str | None], list[str | None]]


def holds_positions(key: object) -> bool:
    """Does a tensor say where an axis is read, or where a slice of it begins?"""
    return isinstance(key, Tensor) or (isinstance(key, slice) and isinstance(key.start, Tensor))


def in_two(keys: Sequence[object]) -> tuple[tuple[object, ...], tuple[object, ...]]:
    """Subscripts as two: slices first, then numbers and positions of what these leave; an index slices one number."""
    pairs = [_in_two(one) for one in keys]
    return tuple(first for first, _ in pairs), tuple(then for _, then in pairs)


def _in_two(key: object) -> tuple[object, object]:
    if key is ...:
        return key, key
    if holds_positions(key) or _is_number(key):
        return slice(None), key
    return (slice(key, key + 1), 0) if isinstance(key, Scalar) else (key, slice(None))


def _are_apart(keys: Sequence[object]) -> bool:
    """Do axes that stay lie between numbers and positions?"""
    points = [at for at, one in enumerate(keys) if one is not ... and not isinstance(one, slice)]
    return bool(points) and points[-1] - points[0] >= len(points)


def _is_number(key: object) -> bool:
    return isinstance(key, Integral) and not isinstance(key, bool)


def picked(tensor: Tensor, keys: Sequence[object]) -> Tensor:
    """What numbers, positions and whole axes pick."""
    first, last = apart(tensor, keys)
    pick, axes = _Pick(tensor, _are_apart(keys)), sliced_axes(tensor, len(first), len(last))
    for number, (key, axis) in enumerate(zip([*first, *last], axes, strict=True)):
        pick.read(number, key, axis)
    return pick.made()


@dataclass(slots=True)
class _Pick:
    """The einsum of some subscripts, as far as they are read; `front`: the axes of positions come before all others."""

    tensor: Tensor
    front: bool
    operand: dict[Kind, Sides] = field(default_factory=lambda: {kind: ([], []) for kind in MEMORY_ORDER})
    result: dict[Kind, Sides] = field(default_factory=lambda: {kind: ([], []) for kind in MEMORY_ORDER})
    held: list[tuple[str, Tensor]] = field(default_factory=list)
    windows: list[tuple[str, Tensor]] = field(default_factory=list)
    sizes: dict[str, int] = field(default_factory=dict)
    #: Where in the result the first positions stand.
    spot: tuple[Kind, bool, int] | None = None

    def read(self, number: int, key: object, axis: SlicedAxis) -> None:
        behind = axis.at < 0
        operand, result = self.operand[axis.kind][behind], self.result[axis.kind][behind]
        while len(operand) < axis.at:
            name = f"{axis.kind[0]}{len(operand)}"
            operand.append(name)
            result.append(name)
        name = f"v{number}"
        match key:
            case Tensor():
                self.spot = self.spot or (axis.kind, behind, len(result))
                self.held.append((name, key))
                operand.append(name)
                result.append(None)
            case slice(start=Tensor() as start):
                moving, count = window_of(self.tensor, key)
                self.windows.append((name, start))
                self.sizes[f"k{number}"] = count
                operand.append(moving.format(start=name, k=f"k{number}"))
                result.append(f"k{number}")
            case slice():
                operand.append(f"a{number}")
                result.append(f"a{number}")
            case _:
                operand.append(str(number_at(axis, key)))
                result.append(None)

    def made(self) -> Tensor:
        names = self._placed()
        parts = [_rows(self.operand), *(f"{axes} @{name}" for axes, (name, _) in zip(names, self.held, strict=True))]
        parts += [f"0 @{name}" for name, _ in self.windows]
        spec = f"{'; '.join(parts)} => {_rows(self.result)}"
        tensors = [self.tensor, *(one for _, one in (*self.held, *self.windows))]
        return contract(spec, tensors, sizes=self.sizes, left=True)

    def _placed(self) -> list[str]:
        """Put the axes of positions into the result; which of them each tensor has."""
        if self.spot is None:
            return []
        batch, own = self._axes()
        kind, behind, at = self.spot
        if self.front:
            kind, behind, at = next(one for one in MEMORY_ORDER if self._has(one)), False, 0
        row = self.result[kind][behind]
        if kind != "batch" and batch:
            self._check_first(kind, behind, at)
            self.result["batch"][0][:0] = batch
            row[at:at] = own
        else:
            row[at:at] = [*batch, *own]
        sizes = [_sizes(one, batch, own) for _, one in self.held]
        wide = {name for known in sizes for name, size in known.items() if size != 1}
        shown = ([[_read(name, one, wide) for name in row if name in one] for row in (batch, own)] for one in sizes)
        return [part_of_spec(batch, (), own) for batch, own in shown]

    def _axes(self) -> tuple[list[str], list[str]]:
        """The batch axes of positions, of which all have as many, and the output axes of the one that has most."""
        found = {position_axes(one)[0]: one for _, one in reversed(self.held)}
        if len(found) > 1:
            one, other = list(found.values())[:2]
            raise ShapeError(
                f"`{other.label}` and `{one.label}` are read together, and do not have as many batch axes",
                notes=[f"{other.label} is {other.shape}", f"{one.label} is {one.shape}"],
                fix="give both the same axes, or look up by one after the other: x[rows][:, columns]",
            )
        most = max(position_axes(one)[1] for _, one in self.held)
        return [f"b{at}" for at in range(next(iter(found)))], [f"p{at}" for at in range(most)]

    def _has(self, kind: Kind) -> bool:
        row = self.tensor.shape.row(kind)
        return bool(row.axes or row.lo)

    def _check_first(self, kind: Kind, behind: bool, at: int) -> None:
        """Refuse batch axes of positions behind axes that stay: in an array they come first."""
        axes, (lead, trail) = self.tensor.shape.batch.axes, self.result["batch"]
        alone = axes is not None and len(lead) + len(trail) == len(axes) and not any((*lead, *trail))
        if kind != "output" or behind or not alone or any(self.result[kind][0][:at]):
            positions = self.held[0][1]
            raise ShapeError(
                f"`{positions.label}` has batch axes, which would stand behind other axes of `{self.tensor.label}`",
                notes=[f"{positions.label} is {positions.shape}", f"{self.tensor.label} is {self.tensor.shape}"],
                fix='say where they go by a spec: wf.einsum("i, v; ...|@v => ...|i", x, positions)',
            )


def _sizes(held: Tensor, batch: Sequence[str], own: Sequence[str]) -> dict[str, int | None]:
    """The sizes of the axes that a tensor of positions has of some, as far as they are known."""
    axes = [*(held.shape.batch.axes or ()), *(held.shape.output.axes or ())]
    names = [*batch, *own[len(own) - position_axes(held)[1] :]]
    return {name: axis.size for name, axis in zip(names, axes, strict=False)}


def _read(name: str, sizes: Mapping[str, int | None], wide: Collection[str]) -> str:
    """How an axis of positions is read: one of 1 stays where it is while others go on."""
    return "0" if sizes[name] == 1 and name in wide else name


def _rows(rows: dict[Kind, Sides]) -> str:
    """A shape of a spec."""
    written = {kind: [*filter(None, lead), "...", *filter(None, trail)] for kind, (lead, trail) in rows.items()}
    return part_of_spec(written["batch"], written["input"], written["output"])
