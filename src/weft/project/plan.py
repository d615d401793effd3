"""`wf.plan`: one einsum taken all the way, from its spec and the operands' shapes to its loops."""

from __future__ import annotations

import difflib
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from typing import get_args

import numpy as np
import numpy.typing as npt

from weft.einsum import parse_spec
from weft.einsum.nodes import KINDS, Spec
from weft.errors import EinsumError, Origin, ProjectionError, ShapeError, WeftError, user_origin
from weft.ops import OPS, accumulator, find
from weft.project.coverage import is_injective, is_surjective
from weft.project.evaluate import Array, evaluate
from weft.project.nodes import Factor, IndexMap, LoopVariable, Projection
from weft.project.show import RESULT, operand_names, show_nest, tensor_names
from weft.project.solve_projection import derive
from weft.public import public_methods
from weft.shape.cells import ShapeVar
from weft.shape.close import close, close_axes
from weft.shape.infer import Operation, infer
from weft.shape.logic import Einsum, Literal, Outside, demanded
from weft.shape.nodes import Shape
from weft.shape.text import ShapeLike, as_dim, as_shape


@public_methods
@dataclass(frozen=True)
class Plan:
    """How an einsum runs: every shape, every loop, and where each tensor is read or written."""

    spec: Spec
    projection: Projection

    @property
    def shapes(self) -> tuple[Shape, ...]:
        """The operands' shapes, then the result's."""
        result, *operands = self.projection.shapes
        return (*operands, result)

    @property
    def loops(self) -> tuple[Factor, ...]:
        """The loops, outermost first. Each entry is a group: one loop, or several that run one after another."""
        return self.projection.factors

    @property
    def maps(self) -> tuple[IndexMap, ...]:
        """The index of each axis, for each operand and then for the result, in memory order."""
        result, *operands = self.projection.maps
        return (*operands, result)

    @property
    def reduced(self) -> tuple[LoopVariable, ...]:
        """The loops the result forgot."""
        return self.projection.reduced

    @property
    def injective(self) -> bool:
        """No cell of the result is written twice."""
        return is_injective(self.projection)

    @property
    def surjective(self) -> bool:
        """Every cell of the result is written."""
        return is_surjective(self.projection)

    def evaluate(self, *arrays: npt.ArrayLike, accum: str = "+", op: str = "*") -> Array:
        """Run the plan on NumPy arrays by brute force; axes lie batch, output, input."""
        combine, gather = find(op, arity=2), accumulator(accum)
        checked = self._checked(arrays)
        try:
            return evaluate(self.projection, checked, gather, combine)
        except (TypeError, ValueError) as error:
            raise WeftError(f"NumPy cannot compute this: {error}") from None

    def _checked(self, given: tuple[npt.ArrayLike, ...]) -> list[Array]:
        shapes = self.shapes[:-1]
        if len(given) != len(shapes):
            raise ShapeError(f"the plan takes {len(shapes)} arrays and was given {len(given)}", text=self.spec.text)
        return [_array(*one) for one in zip(operand_names(len(shapes)), given, shapes, strict=True)]

    def __str__(self) -> str:
        result, *operands = tensor_names(self.projection)
        names = zip([*operands, result], self.shapes, strict=True)
        shapes = "   ".join(f"{name}: {shape}" for name, shape in names)
        return f"{self.spec.text}   {shapes}\n" + show_nest(self.projection, OPS["add"], OPS["mul"])


def plan(
    spec: str, /, *shapes: ShapeLike, result: ShapeLike | None = None, outside: Outside = "check", **sizes: int
) -> Plan:
    """Infer everything about one einsum from its spec and its operands' shapes.

    A shape is a string such as `"3,4|2->5"` (batch|input->output) or a tuple of output sizes. `result` gives the
    result's shape where the operands do not determine it, a keyword the size of a label: `plan("o<+k=>ok", 9, k=3)`.
    `outside` says what becomes of positions that are none, as in `wf.einsum`.
    """
    return plan_einsum(spec, shapes, result, sizes, outside)


def plan_einsum(
    spec: str,
    shapes: Sequence[ShapeLike],
    result: ShapeLike | None,
    sizes: Mapping[str, int],
    outside: Outside = "check",
) -> Plan:
    """`plan` with its arguments as values, whatever the labels are called."""
    origin = user_origin()
    parsed = parse_spec(spec)
    if len(shapes) != len(parsed.operands):
        raise EinsumError(
            f"the spec has {len(parsed.operands)} operands and was given {len(shapes)} shapes",
            text=parsed.text,
            spans=[operand.span for operand in parsed.operands],
            fix=operands_fix(parsed, len(shapes)),
        )
    names = operand_names(len(shapes))
    operands = [_given(shape, name, origin) for shape, name in zip(shapes, names, strict=True)]
    target = None if result is None else _given(result, RESULT, origin)
    dims = {label: as_dim(size, f"`{label}`") for label, size in sizes.items()}
    check_labels(parsed, dims)
    check_outside(outside, parsed)
    logic = Einsum(parsed, outside=outside)
    operation = infer(logic, operands, name=RESULT, title="plan", origin=origin, result=target, sizes=dims)
    return Plan(parsed, project(operation))


def project(operation: Operation) -> Projection:
    """The projection of an applied operation, closing its shapes if need be."""
    shapes = tuple(close(shape) for shape in operation.slots)
    labels = label_sizes(operation)
    try:
        return derive(operation.logic, shapes, labels)
    except ProjectionError as error:
        error.origin, error.text = operation.step.origin, operation.step.text
        raise


def label_sizes(operation: Operation) -> tuple[tuple[str, int], ...]:
    """The sizes of the labels of an applied operation that no operand has as an axis of its own."""
    labels = {label.name: operation.labels[label.name] for label in demanded(operation.logic)}
    if any(axis.size is None for axis in labels.values()):
        close_axes(operation.result.store, list(labels.values()))
    return tuple((name, axis.dim.size) for name, axis in labels.items())


def check_outside(outside: str, spec: Spec) -> None:
    """Refuse what `outside=` cannot say, or says of no positions."""
    known = get_args(Outside)
    if outside not in known:
        what = f"outside= says what becomes of positions outside their axis, and {outside!r} is no such thing"
        raise EinsumError(what, fix=f"say one of {', '.join(map(repr, known))}")
    if outside != "check" and not spec.positions:
        what = f"outside={outside!r} speaks of positions, and no operand of the spec has any"
        raise EinsumError(what, text=spec.text, fix="write `@v` at the end of an operand with positions along `v`")


def operands_fix(spec: Spec, given: int) -> str:
    """What to do about a number of operands that is not the spec's."""
    if len(spec.operands) == 1 and spec.text.partition("=>")[0].count(",") == given - 1 > 0:
        return f"operands are separated by `;`: {spec.text.replace(',', ';')}"
    return "give one operand for each part between `;`"


def _array(name: str, given: npt.ArrayLike, shape: Shape) -> Array:
    """What was given for an operand, as an array of its shape."""
    try:
        array = np.asarray(given)
    except ValueError as error:
        raise ShapeError(f"what is given for {name} does not form an array: {error}") from None
    if array.dtype.kind not in "biufc" and array.dtype.type.__module__ != "ml_dtypes":
        raise ShapeError(f"array {name} holds {array.dtype}, not numbers")
    if array.shape != shape.array_shape and (array.shape, shape.array_shape) != ((), (1,)):
        raise ShapeError(
            f"array {name} has shape {array.shape}, but {shape} lies in memory as {shape.array_shape}",
            fix="axes lie batch first, then output, then input",
        )
    return array.reshape(shape.array_shape)


def _given(shape: ShapeLike, name: str, origin: Origin | None) -> ShapeVar:
    return infer(Literal(as_shape(shape)), name=name, origin=origin).result


def check_labels(spec: Spec, given: Collection[str]) -> None:
    """Refuse sizes for labels the spec does not have, and labels that are several run together."""
    shapes = (*spec.operands, spec.result)
    labels = {label.name: None for shape in shapes for label in shape.labels}
    labels |= {
        row.var.name: None for shape in shapes for row in map(shape.row, KINDS) if row.var and row.var.name not in KINDS
    }
    for label in given:
        if label not in labels:
            raise EinsumError(
                f"the spec has no label `{label}`",
                text=spec.text,
                fix=_meant(label) + ("its labels are " + ", ".join(labels) if labels else "it has no labels"),
            )
    _check_run_together(spec, given)


def _check_run_together(spec: Spec, given: Collection[str]) -> None:
    """Refuse `th` for `t, h` in a spec with commas, where that leaves axes of the result that nothing speaks of."""
    read = {label.name for shape in spec.operands for label in shape.labels}
    labels = [label for shape in (*spec.operands, spec.result) for label in shape.labels]
    known = {*read, *given}
    for word in labels:
        letters = set(word.name)
        missing = {word.name} if letters <= known else letters if word.name in known else set()
        if len(word.name) > 1 and missing and missing.isdisjoint(known) and missing <= {one.name for one in labels}:
            sizes = ", ".join(f"{name}=…" for name in sorted(missing))
            raise EinsumError(
                f"`{word.name}` is one axis: in a spec with commas, names have several letters",
                text=spec.text,
                spans=[word.span],
                fix=f"write `{', '.join(word.name)}`, or give the size: {sizes}",
            )


def _meant(label: str) -> str:
    """The option of an einsum that a word that is no label stands for."""
    meant = {"reduce": "accum", "reduction": "accum"}.get(label)
    near = [meant] if meant else difflib.get_close_matches(label, ("accum", "op", "label"), 1, 0.7)
    return f"did you mean {near[0]}=…? " if near else ""
