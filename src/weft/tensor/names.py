"""What the names in a text of the code notation stand for."""

from __future__ import annotations

import difflib
from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from weft.assign import Iterations, Node, NodeName, Precision, Slot
from weft.assign.nodes import first_number
from weft.assign.syntax import Name, Right, Statement, assigns
from weft.errors import Span, WeftError, user_origin
from weft.notation import Mistake, Source
from weft.ops import Num, Scalar
from weft.ops.dtypes import element_type
from weft.shape.infer import infer
from weft.shape.logic import Assigned, Parameter, elaborate
from weft.tensor.assignments import node
from weft.tensor.leaves import data
from weft.tensor.read_loops import TextLoops
from weft.tensor.tensor import Tensor

#: What a name in the text may stand for.
Given: TypeAlias = "Tensor | float | int | Scalar | np.ndarray[Any, Any]"

_ACCESSORS = ("value", "grad", "merge")


def checked(names: Mapping[str, Given]) -> dict[str, Tensor | Scalar]:
    """What the names of a text may stand for."""
    return {name: _entry(name, value) for name, value in names.items()}


def _entry(name: object, value: object) -> Tensor | Scalar:
    if not isinstance(name, str) or not name:
        raise WeftError(f"a name in code is text, not {name!r}")
    match value:
        case Tensor():
            return value
        case Scalar() if not isinstance(value, Slot):
            return value
        case bool() | int() | float():
            return Num(value)
        case np.integer() | np.floating():
            return Num(value.item())
        case np.ndarray():
            return data(value, label=name)
    raise WeftError(
        f"`{name}` is given as {type(value).__name__}, and code is about tensors and numbers",
        fix="give a tensor, a number or a static index",
    )


class TextNames:
    """What names mean: those given, and the nodes the text declares, known in all of it."""

    def __init__(
        self, names: Mapping[str, Tensor | Scalar], program: Sequence[Statement], declare: bool, text: Source
    ) -> None:
        self.meaning: dict[str, Tensor | Scalar] = dict(names)
        self.given = frozenset(names)
        self.exact = declare  # nodes are called just what the text calls them
        self._types: dict[str, dict[str, str]] = {}
        self.loops = TextLoops(program)
        with text.pointing():
            for statement in assigns(program):
                self._types.setdefault(statement.target.text, {}).update(_said_types(statement.right))
            for statement in assigns(program):
                self._declare(statement.target, declare)

    def __getitem__(self, name: Name) -> Tensor | Scalar:
        """What is read under a name."""
        return self._find(name)

    def target(self, name: Name) -> Tensor:
        found = self._find(name)
        if isinstance(found, Tensor):
            return found
        raise Mistake(f"`{name.text}` is a number and cannot be assigned to", name.span, "give a tensor by this name")

    def _declare(self, name: Name, undeclared: bool) -> None:
        base = name.text if name.declares else _split(name.text)[0]
        types, iterations = self._types.get(base, {}), self.loops.iterations(name.text)
        if name.declares and base in self.given and not name.described:
            fix = "leave out the quotes to assign to it, or declare another name"
            raise Mistake(f"`{base}` is given, so it cannot be declared", name.span, fix)
        if name.declares and _split(base)[1]:
            raise Mistake(
                f"a node cannot be called `{base}`", name.span, "choose a name without an accessor at its end"
            )
        found = self._resolve(name.text)
        known = found and isinstance(found[0], Tensor) and found[0].node.iterations
        if iterations is not None and iterations != known and (found or name.declares):
            what = f"`{base}` is not computed by a loop, and here one computes it for every iteration"
            raise Mistake(what, name.span, "assign to another name, without quotes or braces")
        if found is not None:
            if name.described:
                self._state(name)
        elif name.declares or (undeclared and "at_least" in types):
            o, i, b = (name.sizes.get(row) for row in "oib")
            self.meaning[base] = node(base, o=o, i=i, b=b, scalar=name.scalar, init=name.init, **types)
        elif undeclared:
            self.meaning[base] = _plain_node(base, types.get("dtype"), iterations)

    def _state(self, name: Name) -> None:
        """Let a tensor that there is have the sizes that the text says it has; it must start where the text says."""
        made = self.target(name).node
        if name.init is not None and name.init != first_number(made):
            what = f"`{name.text}` does not start at {name.init}"
            raise Mistake(what, name.span, "leave the init out, or give a node made so")
        rows = Parameter(name.sizes.get("b"), name.sizes.get("i"), name.sizes.get("o"))
        shape, also = self.target(name).shape, elaborate(rows)
        infer(Assigned(), title="sizes", origin=user_origin(), result=shape, also=also, code=True)

    def _resolve(self, text: str) -> tuple[Tensor | Scalar, tuple[str, ...]] | None:
        """The longest known name that `text` starts with, if only accessors follow."""
        parts = text.split(".")
        for end in range(len(parts), 0, -1):
            base, accessors = ".".join(parts[:end]), tuple(parts[end:])
            if base in self.meaning:
                return self.meaning[base], accessors
            if parts[end - 1] not in _ACCESSORS:
                return None
        return None

    def _find(self, name: Name) -> Tensor | Scalar:
        resolved = self._resolve(name.text)
        if resolved is None:
            raise self._unknown(name)
        found, accessors = resolved
        for accessor in accessors:
            found = _access(found, accessor, name)
        return found

    def _unknown(self, name: Name) -> Mistake:
        if name.text == "range":
            return unheld("range", name.span)
        base, accessors = _split(name.text)
        close = difflib.get_close_matches(base, self.meaning, 1)
        if close:
            fix = f"did you mean `{'.'.join((close[0], *accessors))}`?"
        else:
            fix = (
                f"the names are {', '.join(self.meaning)}"
                if self.meaning
                else "give it: parse_cd(text, {name: tensor})"
            )
        return Mistake(f"`{name.text}` is not a name", name.span, fix)

    def check_target(self, name: Name) -> None:
        """Refuse an unknown name on the left side, where quotes would declare it."""
        if self._resolve(name.text) is None:
            unknown = self._unknown(name)
            fix = unknown.fix if unknown.fix.startswith("did") else f'write `"{name.text}"` on the left side'
            raise Mistake(f"`{name.text}` is not a name: quote it to declare a node", name.span, fix)


def said_type(right: Right) -> str | None:
    """The element type that a right side is stored in, if it says one."""
    return element_type(right.type.text) if right.type else None


def _said_types(right: Right) -> dict[str, str]:
    """What a right side says of the type of its node, by the arguments of wf.node."""
    said = {"dtype": right.type, "at_least": right.at_least}
    return {name: element_type(one.text) for name, one in said.items() if one}


def _split(text: str) -> tuple[str, tuple[str, ...]]:
    """A name and the accessors after it."""
    parts = text.split(".")
    end = len(parts)
    while end > 1 and parts[end - 1] in _ACCESSORS:
        end -= 1
    return ".".join(parts[:end]), tuple(parts[end:])


def _access(found: Tensor | Scalar, accessor: str, name: Name) -> Tensor:
    if not isinstance(found, Tensor):
        raise Mistake(f"a number has no `.{accessor}`", name.span, "give a tensor by this name")
    if accessor == "grad" and not found.differentiable:
        fix = "only parameters, wf.require_grad and what is computed from them have gradients"
        raise Mistake(f"`{found.label}` has no gradient", name.span, fix)
    return found.grad if accessor == "grad" else found.merge if accessor == "merge" else found


def _plain_node(label: str, dtype: str | None, iterations: Iterations | None) -> Tensor:
    """A node called exactly as the text says, whose gradient can be named too."""
    origin = user_origin()
    shape = infer(Assigned(), name=label, title="node", origin=origin, code=True).result
    precision = Precision.given(dtype) if dtype else Precision.from_operands()
    made = Node(NodeName(label), shape, precision, origin=origin, iterations=iterations)
    return Tensor(made, differentiable=True)


def unheld(what: str, span: Span) -> Mistake:
    """The answer to what is printed for numbers computed elsewhere."""
    return Mistake(f"`{what}` stands for numbers that the text does not hold", span, "give the tensor by name")
