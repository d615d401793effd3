"""What must hold of operands with positions: that they name an axis of another tensor, and only they do."""

from __future__ import annotations

from weft.einsum.nodes import ConcatAxis, Label, ShapeSpec, Spec, labels_in
from weft.notation import Mistake


def check_positions(spec: Spec) -> None:
    """Refuse positions that no axis is looked up at, or that would have to be looked up themselves."""
    named = {label.name for shape in spec.shapes for label in shape.labels}
    found: dict[str, Label] = {}
    if spec.result.along is not None:
        what = "the result holds values, and no positions"
        raise Mistake(what, spec.result.along.span, f"remove `@{spec.result.along.name}`, or write it at an operand")
    for label in spec.positions.values():
        name = label.name
        if name in found:
            fix = "look up one after the other, in operations of their own"
            raise Mistake(f"`{name}` has positions in two operands", label.span, fix, also=(found[name].span,))
        if name not in named:
            fix = f"name an axis of another operand or of the result: `{name}, d; ...|@{name} => ...|d`"
            raise Mistake(f"`@{name}` names no axis", label.span, fix)
        found[name] = label
    for shape in spec.operands if found else ():
        if shape.along is not None:
            _check_own_axes(shape, shape.along, found)
    joined = [axis for axis in spec.axes if isinstance(axis, ConcatAxis)]
    if found and joined:
        what = "positions do not go together with a concatenation"
        raise Mistake(what, joined[0].span, "concatenate, or look up, in an operation of its own")


def _check_own_axes(shape: ShapeSpec, along: Label, found: dict[str, Label]) -> None:
    for axis in shape.axes:
        for label in labels_in(axis):
            if label.name in found:
                what = f"the positions along `{along.name}` have the axis `{label.name}`, which is looked up itself"
                fix = "look them up first, in an operation of their own"
                raise Mistake(what, label.span, fix, also=(along.span,))
