"""Creation functions (`arange`, `eye`, `tril`, …): tensors whose values are a formula of their positions."""

from __future__ import annotations

from collections.abc import Callable
from numbers import Integral

from weft.einsum.nodes import Label, Row, ShapeSpec
from weft.errors import EinsumError, ShapeError, WeftError
from weft.ops import Scalar, where
from weft.shape.text import as_dim
from weft.tensor.einsum import contract
from weft.tensor.functions import cast, each_point
from weft.tensor.groups import Groups, related
from weft.tensor.leaves import offsets
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike, is_number

#: The last two output axes.
LAST_TWO = "...|...->...i, j => i, j"


def arange(n: int, *, dtype: str | None = None, label: str = "") -> Tensor:
    """0, 1, … up to but not including `n`, along an output axis; its type, unless given, comes from its use.

    >>> print(ctx[wf.arange(4)], ctx[10 + 2 * wf.arange(4, dtype="int32")])
    [0. 1. 2. 3.] [10 12 14 16]
    """
    if isinstance(n, Integral) and not isinstance(n, bool) and n == 0:
        return contract("n^1 => n", [arange(1, dtype=dtype)], label=label)
    return contract("n, => n", [offsets(dtype=dtype)], sizes={"n": _size(n)}, label=label)


def linspace(low: float, high: float, n: int, *, label: str = "") -> Tensor:
    """`n` numbers at equal distances from `low` to `high`, both included, along an output axis.

    >>> print(ctx[wf.linspace(0, 1, 5)])
    [0.   0.25 0.5  0.75 1.  ]
    """
    last = _size(n) - 1
    for end in (low, high):
        if not is_number(end) or isinstance(end, bool):
            raise WeftError(f"linspace goes from a number to a number, not {end!r}")
    if not last:
        return each_point("linspace", lambda at: at * 0.0 + low, arange(n), label=label)
    return each_point("linspace", lambda at: ((last - at) / last) * low + (at / last) * high, arange(n), label=label)


def eye(n: int, *, dtype: str | None = None, label: str = "") -> Tensor:
    """The identity from `n` inputs to `n` outputs: `wf.eye(n) @ x` is `x`.

    >>> print(ctx[wf.eye(3)])
    [[1. 0. 0.]
     [0. 1. 0.]
     [0. 0. 1.]]
    """
    made = contract("i; j => j->i", [arange(n), arange(n)], op="eq", label="" if dtype else label)
    return cast(made, dtype, label=label) if dtype else made


def tril(x: TensorLike, k: int = 0, spec: str = LAST_TWO, *, fill: float = 0.0, label: str = "") -> Tensor:
    """`x` up to its `k`-th diagonal above the main one, `fill` above that.

    The spec results in the axes of rows and columns: the last two output axes unless it says otherwise.

    >>> print(ctx[wf.tril(wf.tensor([[1, 2], [3, 4]]), fill=-np.inf)])
    [[  1. -inf]
     [  3.   4.]]
    """
    return _triangle("tril", x, k, spec, lambda row, column: column <= row + k, fill, label)


def triu(x: TensorLike, k: int = 0, spec: str = LAST_TWO, *, fill: float = 0.0, label: str = "") -> Tensor:
    """`x` from its `k`-th diagonal above the main one on, `fill` below that; axes as of `wf.tril`.

    >>> print(ctx[wf.triu(wf.tensor([[1, 2], [3, 4]]))])
    [[1. 2.]
     [0. 4.]]
    """
    return _triangle("triu", x, k, spec, lambda row, column: row + k <= column, fill, label)


def _triangle(
    name: str, x: TensorLike, k: int, spec: str, inside: Callable[[Scalar, Scalar], Scalar], fill: float, label: str
) -> Tensor:
    groups = Groups.plain(spec, name)
    if not all(isinstance(axis, Label) for axis in groups.group.axes) or len(set(groups.group.names)) != 2:
        what = f"{name} is about rows and columns, and the spec does not result in two axes"
        raise EinsumError(what, text=groups.text, fix=f'write "{LAST_TWO}", or others by name')
    if isinstance(k, bool) or not isinstance(k, Integral):
        raise WeftError(f"a diagonal is counted by a whole number, not {k!r}")
    row, column = (ShapeSpec(Row(), Row(), Row(trail=(axis,))) for axis in groups.group.axes)
    reads = [(groups.element, as_tensor(x, name)), (row, offsets(dtype="int32")), (column, offsets(dtype="int32"))]
    return related(name, lambda x, i, j: where(inside(i, j), x, fill), reads, groups.element, label=label)


def _size(n: int) -> int:
    """A size of at least 1."""
    found = as_dim(n, "`n`").size
    if not found:
        raise ShapeError("`n` must be at least 1")
    return found
