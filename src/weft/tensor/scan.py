"""`wf.scan`: a cell applied again and again, along an axis."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from contextvars import ContextVar
from dataclasses import dataclass
from math import isqrt
from numbers import Integral
from typing import Any

from weft.assign import Cells, Fetch, Node, NodeName, Precision, in_code
from weft.assign.dtype_inference import Peek
from weft.dynamic_scope import temporarily
from weft.einsum import parse_spec
from weft.errors import Origin, ShapeError, WeftError, user_origin, warn
from weft.ops.dtypes import is_float
from weft.shape.infer import infer
from weft.shape.logic import Einsum, Stated
from weft.tensor.checkpoints import ScanNames, checkpointed, scanned
from weft.tensor.grad import shaped
from weft.tensor.nested_results import Path, parts, structured_as
from weft.tensor.recurrence import Carry, Recurrence, iteration_slice, loop_along
from weft.tensor.scan_axis import FIRST_BATCH_AXIS, ScanAxis
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor

#: How many loops are being traced, one inside the other.
_depth: ContextVar[int] = ContextVar("weft_loops", default=0)

#: A shape like another one.
_SAME = Einsum(parse_spec("...|...->... => ...|...->..."), left=True)


def scan(
    cell: Callable[[Any, Any], Any],
    xs: Any,
    init: Any,
    *,
    spec: str = FIRST_BATCH_AXIS,
    reverse: bool = False,
    recompute: bool | int = False,
) -> tuple[Any, Any]:
    """Apply a cell along the leftmost batch axis of `xs`: `hs, last = wf.scan(cell, xs, init=h0)`.

    `cell(carry, x)` gives the next carry, or that and an output, and is called once: the loop stays a loop. The carry,
    `xs` and the output are tensors, or tuples, lists and dicts of them. `hs` has what each step gives, `last` is the
    last carry. A `spec` may leave out another axis, to be run along: "b, t|d => b|d"; `hs` has it where `xs` has it.
    `reverse` begins at the end. The gradient is a loop backwards, which reads what steps computed from memory; with
    `recompute=k` only the carry of every k-th step is kept, and the steps between are computed again, k at a time;
    `recompute=True` takes k about the square root of the number of steps.

    >>> sums, last = wf.scan(lambda h, x: h + x, wf.data(np.array([1.0, 2.0, 3.0]), batch=1), init=0.0)
    >>> print(ctx[sums].ravel(), ctx[last])
    [1. 3. 6.] [6.]
    """
    _check_callable(cell)
    origin, axis = user_origin(), ScanAxis.of(spec, "wf.scan")
    sources = {path: axis.front(_tensor(part, "xs", path)) for path, part in parts(xs)}
    steps = _steps(list(sources.values()))
    every = _checked_interval(recompute, steps)
    with _named_loops() as (name, around):
        index = loop_along(list(sources.values()), name)
        slices = {path: iteration_slice(source, index) for path, source in sources.items()}
        found = {path: _Field.of(_name(path, cell, ""), _tensor(part, "init", path)) for path, part in parts(init)}
        starts = {path: one.start() for path, one in found.items()}
        before = structured_as(init, (one.before for one in found.values()))
        result = cell(before, structured_as(xs, iter(slices.values())))
        after, outputs, shape = _split(result, init, cell, origin)
        _check_apart(after, cell, origin)
        carries = [one.carry(starts[path], after[path], origin) for path, one in found.items()]
    if shape is None:
        shape, outputs = init, {path: one.after for path, one in zip(found, carries, strict=True)}
    names = ScanNames(
        [_name(path, cell, "s") for path in outputs], [_name(path, cell, "_last") for path in found], around
    )
    taken = {slices[path]: source for path, source in sources.items()}
    of = Recurrence(index, reverse, carries, taken, list(outputs.values()), recompute=every == 1)
    run = scanned(of, names) if steps is None or every < 2 else checkpointed(of, steps, every, names)
    stacked = (axis.back(one, one.label) for one in run.outputs)
    return structured_as(shape, stacked), structured_as(init, iter(run.last))


def loops_around() -> int:
    """How many loops there are around what is being built."""
    return _depth.get()


def inside_loops(count: int) -> AbstractContextManager[int]:
    """What is built here stands inside so many loops, traced before."""
    return temporarily(_depth, count)


@contextmanager
def _named_loops() -> Iterator[tuple[str, str]]:
    """What a loop is called, inside those around it, and one around it for segments."""
    depth = loops_around()
    with inside_loops(depth + 1):
        yield (f"t_{depth + 1}", f"s_{depth + 1}") if depth else ("t", "s")


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    """A tensor of the carry, as the cell finds it: of the shape that it starts with, and a type found with the cell.

    A number fits any shape: there the cell says which, and so it does where even the axes of the start are not known.
    """

    label: str
    init: Tensor
    before: Tensor

    @staticmethod
    def of(label: str, init: Tensor) -> _Field:
        exact = not _is_number(init) and all(row.axes is not None for row in init.shape.rows)
        logic, like = (_SAME, [init.shape]) if exact else (Stated(0, ()), [])
        code = in_code([init.operand])
        shape = infer(logic, like, name=label, title="scan", origin=user_origin(), code=code).result
        node = Node(NodeName(label), shape, Precision.from_operands(), origin=user_origin())
        return _Field(label, init, Tensor(node, differentiable=is_float(Peek()(init.node.precision))))

    def start(self) -> Tensor:
        """What the first step finds."""
        return self._shaped(self.init)

    def carry(self, start: Tensor, after: Tensor, origin: Origin | None) -> Carry:
        """The carry, now that it is known what the cell leaves."""
        self._check_type(after, origin)
        return Carry(self.before, start, self._shaped(after))

    def _shaped(self, value: Tensor) -> Tensor:
        node = self.before.node
        made = Node(NodeName(self.label), node.shape, node.precision, origin=user_origin())
        try:
            return shaped(value, made, "scan")
        except ShapeError as error:
            what = f"it starts as {self.init.shape}, and the cell leaves {value.shape}"
            raise ShapeError(
                f"the carry `{self.label}` changes its shape: {what}",
                origin=error.origin,
                notes=[error.what],
                fix="let the cell leave what it finds: a tensor of the same shape",
            ) from None

    def _check_type(self, after: Tensor, origin: Origin | None) -> None:
        first, peek = self.init.node.precision, Peek()
        starts, leaves = peek(first), peek(after.node.precision)
        if first.settled is not None and starts != leaves:
            raise WeftError(
                f"the carry `{self.label}` changes its type: it starts as {starts}, and the cell leaves {leaves}",
                origin=origin,
                fix=f'start it as {leaves}, or convert what the cell leaves: wf.cast(h, "{starts}")',
            )


def _is_number(tensor: Tensor) -> bool:
    return isinstance(tensor.node.definition, Fetch) and isinstance(tensor.node.definition.source, Cells)


def _split(
    result: object, init: object, cell: Callable[..., Any], origin: Origin | None
) -> tuple[dict[Path, Tensor], dict[Path, Tensor], object]:
    """What a cell leaves and gives, by their paths, and the form of what it gives, None if it gives nothing."""
    wanted = [path for path, _ in parts(init)]
    if [path for path, _ in parts(result)] == wanted:
        return _tensors(result, cell, origin), {}, None
    if isinstance(result, tuple) and len(result) == 2 and [path for path, _ in parts(result[0])] == wanted:
        return _tensors(result[0], cell, origin), _tensors(result[1], cell, origin), result[1]
    raise WeftError(
        f"`{_called(cell)}` takes a carry of {_described(init)} and gives {_described(result)}",
        origin=origin,
        fix="let the cell return the carry in the form it finds it, or a pair of that and its output",
    )


def _check_apart(after: Mapping[Path, Tensor], cell: Callable[..., Any], origin: Origin | None) -> None:
    """Warn of a cell that leaves one tensor for two parts of its carry: from then on they are the same."""
    seen: dict[Tensor, Path] = {}
    for path, tensor in after.items():
        if tensor in seen:
            both = " and ".join(f"carry{''.join(f'[{key!r}]' for key in one)}" for one in (seen[tensor], path))
            what = f"`{_called(cell)}` leaves `{tensor.label}` for two parts of its carry, {both}: one is lost"
            fix = "return each part of the carry, as (h, c); an output beside the carry is a pair: return (h, c), h"
            warn(WeftError(what, origin=origin, fix=fix))
        seen[tensor] = path


def _tensors(value: object, cell: Callable[..., Any], origin: Origin | None) -> dict[Path, Tensor]:
    found = {path: as_tensor(part, f"what `{_called(cell)}` returns") for path, part in parts(value)}
    if not found:
        raise WeftError(f"`{_called(cell)}` returns no tensors", origin=origin, fix="return what the next step finds")
    return found


def _tensor(part: object, what: str, path: Path) -> Tensor:
    return as_tensor(part, f"{what}{''.join(f'[{key!r}]' for key in path)} of wf.scan")


def _steps(sources: Sequence[Tensor]) -> int | None:
    """How many steps there are, if that is known: the size of the leftmost batch axis of all that is read along it."""
    if not sources:
        raise WeftError("wf.scan is given nothing to run along", fix="give xs: wf.scan(cell, xs, init=h0)")
    sizes: dict[int, Tensor] = {}
    for source in sources:
        batch = source.shape.batch
        if not batch.lo:
            raise _no_axis(source)
        sizes |= {axis.size: source for axis in (batch.axes or batch.front)[:1] if axis.size is not None}
    if len(sizes) > 1:
        (first, one), (second, other) = list(sizes.items())[:2]
        what = f"wf.scan would take {first} steps along `{one.label}` and {second} along `{other.label}`"
        raise WeftError(what, fix="give it tensors whose leftmost batch axes are equally long")
    return next(iter(sizes), None)


def _checked_interval(recompute: bool | int, steps: int | None) -> int:
    """How many steps lie between two carries that are kept for the gradient; 0 if all that steps compute is kept."""
    if isinstance(recompute, bool):
        every = _near_root(steps or 0) if recompute else 0
    elif isinstance(recompute, Integral) and recompute > 0:
        every = int(recompute)
    else:
        what = f"recompute= says of how many steps one carry is kept, 1 or more, or True: not {recompute!r}"
        raise WeftError(what, fix="recompute=True keeps about as many carries as there are steps between two of them")
    if steps is None and (every > 1 or recompute is True):
        what = "which carries to keep depends on how many steps there are, and each call decides that"
        raise WeftError(what, fix="recompute=1 keeps them all, and nothing else")
    return 0 if steps is not None and 1 < steps <= every else every


def _near_root(steps: int) -> int:
    """About the square root of a number: one that divides it, if there is any near."""
    root = isqrt(steps)
    near = sorted(range(root // 2 + 1, 2 * root + 1), key=lambda every: abs(every - root))
    return next((every for every in near if steps % every == 0), root)


def _no_axis(source: Tensor) -> WeftError:
    lacks = "it has none" if source.shape.batch.axes == () else "it is not known whether it has one"
    what = f"wf.scan runs along the leftmost batch axis of `{source.label}`, and {lacks}"
    fix = "say which axes are batch axes: wf.data(x, batch=2) of an array [steps, examples, …], or b=[…]"
    if _is_number(source):
        fix = "what is run along comes before what it starts from: wf.scan(cell, xs, init=0.0)"
    return WeftError(what, notes=[f"{source.label} is {source.shape}"], fix=fix)


def _check_callable(cell: object) -> None:
    if not callable(cell):
        what = f"the cell of wf.scan is a function of a carry and a step's input, not {type(cell).__name__}"
        raise WeftError(what, fix="hs, last = wf.scan(cell, xs, init=h0)")
    try:
        signature = inspect.signature(cell)
    except (TypeError, ValueError):  # what has no signature is called as it is
        return
    try:
        signature.bind(None, None)
    except TypeError:
        what = f"the cell of wf.scan is called with a carry and a step's input, and takes {signature}"
        raise WeftError(what, fix="write it as def cell(carry, x), or lambda carry, x: …") from None


def _name(path: Path, cell: Callable[..., Any], suffix: str) -> str:
    words = [str(key) for key in path if isinstance(key, str)] or [_called(cell), *map(str, path)]
    return ".".join(words) + suffix


def _called(cell: Callable[..., Any]) -> str:
    name = getattr(cell, "label", "") or getattr(cell, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else "step"


def _described(value: object) -> str:
    found = [".".join(map(str, path)) for path, _ in parts(value)]
    return "one tensor" if found == [""] else f"{type(value).__name__} of " + ", ".join(f"`{one}`" for one in found)
