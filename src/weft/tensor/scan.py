"""`wf.scan`: a cell applied again and again, along an axis."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from contextvars import ContextVar
from dataclasses import dataclass, fields
from typing import Any

from weft.assign import LoopIndex, Node, NodeName, Precision
from weft.assign.dtype_inference import Peek
from weft.errors import Origin, ShapeError, WeftError, user_origin
from weft.ops.dtypes import is_float
from weft.shape.infer import infer
from weft.shape.logic import Assigned
from weft.tensor.grad import shaped
from weft.tensor.recurrence import Carry, Recurrence, iteration_slice
from weft.tensor.results import Path, parts
from weft.tensor.scope import as_tensor
from weft.tensor.tensor import Tensor

#: How many loops are being traced, one inside the other.
_depth: ContextVar[int] = ContextVar("weft_loops", default=0)


def scan(
    cell: Callable[[Any, Any], Any], xs: Any, init: Any, *, reverse: bool = False, recompute: bool = False
) -> tuple[Any, Any]:
    """Apply a cell along the leftmost batch axis of `xs`: `hs, last = wf.scan(cell, xs, init=h0)`.

    `cell(carry, x)` gives the next carry, or that and an output, and is called once: the loop stays a loop. The carry,
    `xs` and the output are tensors, or tuples, lists and dicts of them. `hs` has what each step gives, `last` is the
    last carry. `reverse` begins at the end. The gradient is a loop backwards; with `recompute` it computes again what a
    step computed, from the carry that the step found, rather than reading it from memory.
    """
    _check_callable(cell)
    origin = user_origin()
    sources = {path: _tensor(part, "xs", path) for path, part in parts(xs)}
    with _traced(_length(sources)) as index:
        slices = {path: iteration_slice(source, index) for path, source in sources.items()}
        found = {path: _Field.of(_name(path, cell, ""), _tensor(part, "init", path)) for path, part in parts(init)}
        starts = {path: one.start() for path, one in found.items()}
        result = cell(_formed(init, {path: one.before for path, one in found.items()}), _formed(xs, slices))
        after, outputs, shape = _split(result, init, cell, origin)
        carries = [one.carry(starts[path], after[path], origin) for path, one in found.items()]
    if shape is None:
        shape, outputs = init, {path: one.after for path, one in zip(found, carries, strict=True)}
    taken = {slices[path]: source for path, source in sources.items()}
    run = Recurrence(index, reverse, carries, taken, list(outputs.values()), recompute=recompute).run()
    stacked = {path: run.stacked(one, _name(path, cell, "s")) for path, one in outputs.items()}
    last = {path: run.last(one, _name(path, cell, "_last")) for path, one in zip(found, carries, strict=True)}
    return _formed(shape, stacked), _formed(init, last)


@contextmanager
def _traced(length: int) -> Iterator[LoopIndex]:
    """The index of a loop, inside those around it."""
    depth = _depth.get()
    token = _depth.set(depth + 1)
    try:
        yield LoopIndex(f"t_{depth + 1}" if depth else "t", length)
    finally:
        _depth.reset(token)


@dataclass(frozen=True, slots=True, eq=False)
class _Field:
    """A tensor of the carry, as the cell finds it: of a shape and type that are found with the cell."""

    label: str
    init: Tensor
    before: Tensor

    @staticmethod
    def of(label: str, init: Tensor) -> _Field:
        shape = infer(Assigned(), name=label, title="scan", origin=user_origin()).result
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


def _tensors(value: object, cell: Callable[..., Any], origin: Origin | None) -> dict[Path, Tensor]:
    found = {path: as_tensor(part, f"what `{_called(cell)}` returns") for path, part in parts(value)}
    if not found:
        raise WeftError(f"`{_called(cell)}` returns no tensors", origin=origin, fix="return what the next step finds")
    return found


def _tensor(part: object, what: str, path: Path) -> Tensor:
    return as_tensor(part, f"{what}{''.join(f'[{key!r}]' for key in path)} of wf.scan")


def _length(sources: Mapping[Path, Tensor]) -> int:
    """How many steps there are: the size of the leftmost batch axis of all that is read along it."""
    sizes: dict[int, Tensor] = {}
    for source in sources.values():
        batch = source.shape.batch
        size = next((axis.size for axis in batch.axes or batch.front), None)
        if size is None:
            lacks = "it has none" if batch.axes == () else "its size is not known"
            what = f"wf.scan runs along the leftmost batch axis of `{source.label}`, and {lacks}"
            fix = "say which axes are batch axes: wf.data(x, batch=2) of an array [steps, examples, …], or b=[…]"
            raise WeftError(what, notes=[f"{source.label} is {source.shape}"], fix=fix)
        sizes.setdefault(size, source)
    if len(sizes) > 1:
        (first, one), (second, other) = list(sizes.items())[:2]
        what = f"wf.scan would take {first} steps along `{one.label}` and {second} along `{other.label}`"
        raise WeftError(what, fix="give it tensors whose leftmost batch axes are equally long")
    if not sizes:
        raise WeftError("wf.scan is given nothing to run along", fix="give xs: wf.scan(cell, xs, init=h0)")
    return next(iter(sizes))


def _check_callable(cell: object) -> None:
    if not callable(cell):
        what = f"the cell of wf.scan is a function of a carry and a step's input, not {type(cell).__name__}"
        raise WeftError(what, fix="hs, last = wf.scan(cell, xs, init=h0)")


def _formed(like: object, tensors: Mapping[Path, Tensor], path: Path = ()) -> Any:
    """Tensors by their paths, in the form of something else."""
    if path in tensors:
        return tensors[path]
    if isinstance(like, Mapping):
        return {key: _formed(part, tensors, (*path, key)) for key, part in like.items()}
    if isinstance(like, tuple | list):
        keys = getattr(like, "_fields", range(len(like)))
        made = [_formed(part, tensors, (*path, key)) for key, part in zip(keys, like, strict=True)]
        return type(like)(*made) if hasattr(like, "_fields") else type(like)(made)
    own = {one.name: getattr(like, one.name) for one in fields(like)}  # type: ignore[arg-type]
    return type(like)(**{name: _formed(part, tensors, (*path, name)) for name, part in own.items()})


def _name(path: Path, cell: Callable[..., Any], suffix: str) -> str:
    words = [str(key) for key in path if isinstance(key, str)] or [_called(cell), *map(str, path)]
    return ".".join(words) + suffix


def _called(cell: Callable[..., Any]) -> str:
    name = getattr(cell, "label", "") or getattr(cell, "__name__", "")
    return name if isinstance(name, str) and name.isidentifier() else "step"


def _described(value: object) -> str:
    found = [".".join(map(str, path)) for path, _ in parts(value)]
    return "one tensor" if found == [""] else f"{type(value).__name__} of " + ", ".join(f"`{one}`" for one in found)
