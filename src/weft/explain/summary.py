"""`wf.summary`: the parameters of a model layer by layer, and what a step costs, as a table."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from html import escape
from typing import TypeAlias

from weft.assign import Node
from weft.assign.dtype_inference import Peek
from weft.cache.limit import amount
from weft.columns import table
from weft.errors import ShapeError, WeftError
from weft.ops.dtypes import numpy_type
from weft.runtime import Function, Routine
from weft.runtime.variables import variables_of
from weft.shape.close import peek
from weft.tensor.layers import Layer
from weft.tensor.tensor import Tensor

#: What can be summed up.
Summable: TypeAlias = Layer | Tensor | Routine | Function


@dataclass(frozen=True, slots=True)
class ParameterLine:
    """A parameter: its layer and its name there, its shape, its type, how many numbers it is. None: not known yet."""

    layer: str
    name: str
    shape: str
    dtype: str
    count: int | None

    @property
    def bytes(self) -> int | None:
        return None if self.count is None else self.count * numpy_type(self.dtype).itemsize


@dataclass(frozen=True, slots=True)
class RunCost:
    """What one run of a step takes: arithmetic operations, bytes moved, bytes of what is computed in between."""

    flops: int
    moved: int
    scratch: int


@dataclass(frozen=True, slots=True, repr=False)
class Summary:
    """The parameters of a model, and of a step what it keeps beside them and what a run costs, as far as is known.

    Printed it is a table; a notebook shows one too.
    """

    lines: tuple[ParameterLine, ...]
    kept: int | None = None
    run: RunCost | None = None
    note: str = ""

    @property
    def parameters(self) -> int:
        """How many numbers are learned, of what is known."""
        return sum(line.count or 0 for line in self.lines)

    @property
    def bytes(self) -> int:
        """The memory of the parameters."""
        return sum(line.bytes or 0 for line in self.lines)

    def __str__(self) -> str:
        header, *rows = self._table()
        return "\n".join([table(header, rows), *self._below()])

    __repr__ = __str__

    def _repr_html_(self) -> str:
        """What notebooks show."""
        header, *rows = self._table()
        head = "".join(f"<th>{escape(text)}</th>" for text in header)
        body = "".join(f"<tr>{''.join(f'<td>{escape(text)}</td>' for text in row)}</tr>" for row in rows)
        below = "".join(f"<div>{escape(line)}</div>" for line in self._below())
        return f"<table><tr>{head}</tr>{body}</table>{below}"

    def _table(self) -> Iterator[tuple[str, ...]]:
        yield "layer", "parameter", "shape", "type", "numbers", "memory"
        before = None
        for line in self.lines:
            size = "?" if line.bytes is None else amount(line.bytes)
            layer = "" if line.layer == before else line.layer
            yield layer, line.name, line.shape, line.dtype, _spelled(line.count), size
            before = line.layer
        yield "all", "", "", "", _spelled(self.parameters), amount(self.bytes)

    def _below(self) -> Iterator[str]:
        if self.kept is not None:
            yield f"kept between runs beside these: {amount(self.kept)}"
        if self.run is not None:
            yield (
                f"a run: {_spelled(self.run.flops)} flops, {amount(self.run.moved)} moved, "
                f"{amount(self.run.scratch)} of values in between"
            )
        if self.note:
            yield self.note


def summary(what: Summable, **sizes: int) -> Summary:
    """The parameters of a layer, of what a tensor is computed from, or of a step, by layer, with shapes and memory.

    Of a routine, or a function for some sizes, it says as well what it keeps between runs, such as the state of an
    optimiser, and what a run costs: `print(wf.summary(step, batch=32))`. Nothing is decided by asking of a layer or a
    tensor; a function is compiled for the sizes.
    """
    if sizes and not isinstance(what, Function):
        named = ", ".join(sizes)
        raise WeftError(f"{named} is a size of a function alone", fix="leave it out, or give what ctx.function made")
    match what:
        case Layer() | Tensor():
            return Summary(tuple(map(_line, (one.node for one in what.params))))
        case Routine() | Function():
            return _of_step(what, sizes)
    fix = "give a layer, a loss, or what ctx.compile or ctx.function made"
    raise WeftError(f"there is no summary of {type(what).__name__}", fix=fix)


def _of_step(step: Routine | Function, sizes: Mapping[str, int]) -> Summary:
    found = variables_of(step, step.engine).nodes.values()
    lines = tuple(_line(node) for node in found if node.learned)
    kept = sum(_line(node).bytes or 0 for node in found if not node.learned)
    if isinstance(step, Function) and step.signature.open_sizes and not sizes:
        said = ", ".join(f"{name}=…" for name in step.signature.open_sizes)
        return Summary(lines, kept, note=f"what a run costs depends on its sizes: wf.summary(step, {said})")
    routine = step.routine_for(sizes) if isinstance(step, Function) else step
    if routine.compiled.stages.schedule is None:
        return Summary(lines, kept, note="what a run costs is not counted where code is not cut into kernels")
    total = routine.cost().total
    return Summary(lines, kept, RunCost(total.flops, total.footprint, routine.memory().size))


def _line(node: Node) -> ParameterLine:
    layer, _, name = node.label.rpartition(".")
    dtype = Peek()(node.precision)
    try:
        shape = peek(node.shape)
    except ShapeError:
        return ParameterLine(layer, name, str(node.shape), dtype, None)
    return ParameterLine(layer, name, str(shape), dtype, shape.count)


def _spelled(count: int | None) -> str:
    """A number with its thousands apart; a question mark if it is not known."""
    return "?" if count is None else f"{count:,}".replace(",", " ")
