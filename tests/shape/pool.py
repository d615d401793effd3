"""What the tests of shapes share: short ways to write terminals and operations, and what became of them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from weft.assign.slice_text import parse_slice
from weft.einsum import KINDS, parse_spec
from weft.errors import Origin, ShapeError, UnderdeterminedShapeError
from weft.shape import Dim, Operation, ShapeVar, as_shape, close, infer
from weft.shape.cells import ConstraintStore, TensorRole
from weft.shape.logic import (
    Compose,
    Constant,
    Counted,
    Einsum,
    Literal,
    Parameter,
    Pointwise,
    Slice,
    Transpose,
    Varying,
)
from weft.shape.nodes import Constraint
from weft.shape.subscripts import GivenIndex


def blank(name: str = "t", role: TensorRole = "inner", marks: tuple[int, int, int] = (0, 0, 0)) -> ShapeVar:
    """A shape of which nothing is known."""
    shape = ShapeVar(name, role, ConstraintStore(), marks)
    shape.store.rows += [shape.row(kind) for kind in KINDS]
    return shape


def known(text: str | int | Sequence[int], name: str = "x", origin: Origin | None = None) -> ShapeVar:
    return infer(Literal(as_shape(text)), name=name, origin=origin).result


def number(name: str = "n") -> ShapeVar:
    """A scalar, which makes no claim by its size of 1."""
    return infer(Literal(as_shape(1), claims=False), name=name).result


def varying(name: str = "c") -> ShapeVar:
    return infer(Varying(), name=name).result


def constant(name: str = "c") -> ShapeVar:
    return infer(Constant(), name=name).result


def counted(count: int, name: str = "d", origin: Origin | None = None) -> ShapeVar:
    return infer(Counted(count), name=name, origin=origin).result


def param(name: str = "w", *, origin: Origin | None = None, square: bool = False, **rows: str | None) -> ShapeVar:
    """`param("w", output="3,4")`: rows not given are inferred, but for the batch row, which is then empty."""
    given = {kind: text if text is None else dims(text) for kind, text in rows.items()}
    return infer(Parameter(**given, input_equals_output=square), name=name, origin=origin).result


def dims(text: str) -> tuple[Dim, ...]:
    return as_shape(text).output if text else ()


def first_at(index: str, size: int = 0) -> Slice:
    """The leftmost batch axis at a number, or at a static index of this many values."""
    return sliced(f"@| {index}", size)


def sliced(text: str, size: int = 0) -> Slice:
    """The slice that a text writes; static indices in it have this many values."""
    found = parse_slice(text, lambda name: GivenIndex(name, size))
    assert found is not None
    return found


def pointwise(*operands: ShapeVar, result: ShapeVar | None = None, origin: Origin | None = None) -> ShapeVar:
    return infer(Pointwise(len(operands)), operands, result=result, origin=origin, title="pointwise").result


def compose(left: ShapeVar, right: ShapeVar, result: ShapeVar | None = None, origin: Origin | None = None) -> ShapeVar:
    return infer(Compose(), (left, right), result=result, origin=origin, title="compose").result


def transpose(shape: ShapeVar, result: ShapeVar | None = None) -> ShapeVar:
    return infer(Transpose(), (shape,), result=result).result


def einsum(
    spec: str,
    *operands: ShapeVar,
    result: ShapeVar | None = None,
    sizes: Mapping[str, int] | None = None,
    also: Sequence[Constraint] = (),
    origin: Origin | None = None,
) -> Operation:
    given = {label: Dim(size) for label, size in (sizes or {}).items()}
    return infer(
        Einsum(parse_spec(spec)), operands, result=result, sizes=given, also=also, origin=origin, title="einsum"
    )


def labels(operation: Operation) -> dict[str, int | None]:
    return {label: axis.size for label, axis in operation.labels.items()}


def closed(*shapes: ShapeVar) -> list[str]:
    return [str(close(shape)) for shape in shapes]


def kind_of(run: Callable[[], object]) -> str:
    """What `run` raises of shape inference's errors; anything else escapes and fails the test."""
    try:
        run()
    except UnderdeterminedShapeError:
        return "underdetermined"
    except ShapeError:
        return "conflict"
    return "fine"
