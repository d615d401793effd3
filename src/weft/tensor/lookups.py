"""Looking up and counting: short words for einsums with positions."""

from __future__ import annotations

from collections.abc import Sequence

from weft.errors import ShapeError, WeftError, user_origin, warn
from weft.shape.logic import Outside
from weft.tensor.einsum import contract
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor, TensorLike


def take(x: TensorLike, positions: TensorLike, *, outside: Outside = "check", label: str = "") -> Tensor:
    """The parts of `x` at positions along its first axis, a batch axis if it has any: `x[positions]`.

    The axes of the positions take the place of that axis: batch axes stay what they are, and so do output axes unless
    it was a batch axis. An output axis of 1 beside batch axes is none.

    >>> table = wf.tensor([[1, 2], [3, 4], [5, 6]])
    >>> print(ctx[wf.take(table, wf.data(np.array([2, 0, 2]), batch=1))])
    [[5 6]
     [1 2]
     [5 6]]
    """
    return taken(as_tensor(x, "take"), as_tensor(positions, "take"), outside=outside, label=label)


def taken(table: Tensor, held: Tensor, *, along: str = "v", outside: Outside = "check", label: str = "") -> Tensor:
    """`take`, with a name for the axis that is looked up."""
    batch, own = position_axes(held)
    _check_examples(table, held)
    names, shown = [f"b{at}" for at in range(batch)], [f"p{at}" for at in range(own)]
    inputs = () if table.shape.input.axes == () else ("...",)
    if table.shape.batch.lo:
        spec = f"{part_of_spec([along, '...'], inputs, ['...'])}; {part_of_spec(names, (), shown)} @{along} => "
        spec += part_of_spec([*names, *shown, "..."], inputs, ["..."])
    else:
        spec = f"{part_of_spec((), inputs, [along, '...'])}; {part_of_spec(names, (), shown)} @{along} => "
        spec += part_of_spec(names, inputs, [*shown, "..."])
    return contract(spec, (table, held), label=label, outside=outside, left=True)


def _check_examples(table: Tensor, held: Tensor) -> None:
    """Warn of positions for each example that name examples: those that calls count by the same name."""
    first, own = ([str(one) for one in x.shape.batch.axes or ()][:1] for x in (table, held))
    if first == own and first and first[0].isidentifier():
        what = f"`{table.label}` is looked up along `{first[0]}`, its examples, by a number of each example"
        notes = [f"{table.label} is {table.shape}", f"{held.label} is {held.shape}"]
        pick = f'wf.einsum("...|v; ...|@v => ...|0", {table.label}, {held.label})'
        warn(WeftError(what, origin=user_origin(), notes=notes, fix=f"to pick one output of each example write {pick}"))


def bincount(
    positions: TensorLike,
    size: int,
    *,
    weights: TensorLike | None = None,
    outside: Outside = "check",
    label: str = "",
) -> Tensor:
    """How often each of so many positions occurs, in all batches together; with `weights`, their sum.

    >>> print(ctx[wf.bincount(wf.tensor([1, 3, 1]), 4)])
    [0 2 0 1]
    """
    spec = "...|...->... @v => v" if weights is None else "...|...->...; ...|...->... @v => v"
    operands = [positions] if weights is None else [weights, positions]
    return contract(spec, operands, label=label, outside=outside, sizes={"v": size})


def part_of_spec(batch: Sequence[str], inputs: Sequence[str], outputs: Sequence[str]) -> str:
    """The part of a spec that has these rows."""
    first, second, last = map(", ".join, (batch, inputs, outputs))
    return (first and f"{first}|") + (second and f"{second}->") + last


def position_axes(held: Tensor) -> tuple[int, int]:
    """How many batch and how many output axes positions have."""
    batch, inputs, outputs = held.shape.batch.axes, held.shape.input.axes, held.shape.output.axes
    if batch is None or inputs is None or outputs is None or inputs:
        raise ShapeError(
            f"take needs to know the batch and output axes of `{held.label}`, and it has no inputs",
            notes=[f"{held.label} is {held.shape}"],
            fix='say which axes are which by a spec: wf.einsum("v, d; ...|@v => ...|d", x, positions)',
        )
    alone = bool(batch) and len(outputs) == 1 and outputs[0].size == 1
    return len(batch), 0 if alone else len(outputs)
