"""Shifts and repetition (`roll`, `flip`, `pad`, …) along the first axis of a row; for other axes there is einsum."""

from __future__ import annotations

from collections.abc import Sequence
from numbers import Integral

from weft.einsum.nodes import Kind
from weft.errors import ShapeError, WeftError
from weft.tensor.concat import ROWS, check_kind, named_parts, stacked
from weft.tensor.einsum import contract
from weft.tensor.leaves import constant
from weft.tensor.scope import as_tensor
from weft.tensor.slices import apply_slice, first_axis
from weft.tensor.tensor import Tensor, TensorLike


def interleave(*tensors: TensorLike, kind: Kind = "output", label: str = "") -> Tensor:
    """The first element of each, then the second of each, and so on.

    >>> print(ctx[wf.interleave(wf.tensor([1, 2]), wf.tensor([10, 20]))])
    [ 1. 10.  2. 20.]
    """
    parts = named_parts(tensors, kind, "interleave")
    made = stacked(parts, kind, "", "interleaved tensors", [one.label for one in parts])
    return _moved(made, "k, i", "i&k", kind, label)


def repeat(x: TensorLike, n: int, *, kind: Kind = "output", label: str = "") -> Tensor:
    """Each element `n` times in a row.

    >>> print(ctx[wf.repeat(wf.tensor([1, 2]), 3)])
    [1. 1. 1. 2. 2. 2.]
    """
    return _moved(x, "i", "i&k", kind, label, k=_count(n, "n", 1))


def split(x: TensorLike, sizes: int | Sequence[int | None], *, kind: Kind = "output") -> tuple[Tensor, ...]:
    """Parts of these sizes, one of which may be None for what is left; or so many of equal size.

    >>> first, rest = wf.split(wf.tensor([1, 2, 3, 4]), [1, None])
    >>> print(ctx[first], ctx[rest], *wf.split(rest, 3))
    [1.] [2. 3. 4.] <einsum: 1> <einsum: 1> <einsum: 1>
    """
    x = as_tensor(x, "split")
    check_kind(kind)
    parts = _parts(sizes) if isinstance(sizes, Sequence) else _equal_parts(x, sizes, kind)
    names = [f"part{number}" for number in range(len(parts))]
    given = {name: size for name, size in zip(names, parts, strict=True) if size is not None}
    return tuple(_moved(x, "^".join(names), name, kind, "", **given) for name in names)


def flip(x: TensorLike, *, kind: Kind = "output", label: str = "") -> Tensor:
    """The last element first.

    >>> print(ctx[wf.flip(wf.tensor([1, 2, 3]))])
    [3. 2. 1.]
    """
    check_kind(kind)
    made = apply_slice(first_axis(kind, step=-1), as_tensor(x, "flip"))
    return made.named(label) if label else made


def roll(x: TensorLike, k: int, *, kind: Kind = "output", label: str = "") -> Tensor:
    """Elements moved `k` positions on, those at the end to the beginning; a negative `k` moves them back.

    >>> x = wf.tensor([1, 2, 3, 4])
    >>> print(ctx[wf.roll(x, 1)], ctx[wf.roll(x, -1)])
    [4. 1. 2. 3.] [2. 3. 4. 1.]
    """
    x = as_tensor(x, "roll")
    steps = _count(k, "k", None)
    size = _first_size(x, kind)
    steps = steps % size if size else steps
    if not steps:
        return _moved(x, "a", "a", kind, label)
    return _moved(x, "a^b", "b^a", kind, label, **({"b": steps} if steps > 0 else {"a": -steps}))


def pad(x: TensorLike, before: int, after: int, *, fill: float = 0.0, kind: Kind = "output", label: str = "") -> Tensor:
    """So many elements of one value before the first and after the last.

    >>> x = wf.tensor([1, 2])
    >>> print(ctx[wf.pad(x, 1, 2)], ctx[wf.pad(x, 0, 1, fill=9)])
    [0. 1. 2. 0. 0.] [1. 2. 9.]
    """
    check_kind(kind)
    sizes = {"before": _count(before, "before", 0), "after": _count(after, "after", 0)}
    names = [name for name in ("before", "x", "after") if sizes.get(name, 1)]
    operands = [as_tensor(x, "pad") if name == "x" else constant(fill) for name in names]
    spec = "; ".join(ROWS[kind].format(axis=name) for name in names)
    spec += f" => {ROWS[kind].format(axis='^'.join(names))}"
    given = {name: size for name, size in sizes.items() if size}
    return contract(spec, operands, label=label, sizes=given, left=True)


def _moved(x: TensorLike, axes: str, to: str, kind: Kind, label: str, **sizes: int) -> Tensor:
    """The first axes of a row, read as one thing and written as another."""
    check_kind(kind)
    spec = f"{ROWS[kind].format(axis=axes)} => {ROWS[kind].format(axis=to)}"
    return contract(spec, [x], label=label, sizes=sizes, left=True)


def _parts(sizes: Sequence[int | None]) -> list[int | None]:
    given = list(sizes)
    if not given or given.count(None) > 1 or isinstance(sizes, str):
        what = f"parts are split off by their sizes, of which one may be None, not by {sizes!r}"
        raise WeftError(what, fix="write wf.split(x, [3, None])")
    return [None if one is None else _count(one, "a part", 1) for one in given]


def _equal_parts(x: Tensor, count: int, kind: Kind) -> list[int | None]:
    size, number = _first_size(x, kind), _count(count, "sizes", 1)
    if size is None or size % number:
        known = "is not known yet" if size is None else f"has {size} elements"
        raise ShapeError(
            f"`{x.label}` cannot be split into {number} equal parts: its first {kind} axis {known}",
            notes=[f"{x.label} is {x.shape}"],
            fix="give the sizes of the parts: wf.split(x, [3, None])",
        )
    return [size // number] * number


def _first_size(x: Tensor, kind: Kind) -> int | None:
    """How many elements the first axis of a row has, as far as that is known."""
    row = x.shape.row(kind)
    return next((axis.size for axis in row.axes or row.front), None)


def _count(value: object, what: str, least: int | None) -> int:
    if isinstance(value, bool) or not isinstance(value, Integral) or (least is not None and int(value) < least):
        kind = "a whole number" if least is None else f"a whole number from {least} on"
        raise WeftError(f"`{what}` is {kind}, not {value!r}")
    return int(value)
