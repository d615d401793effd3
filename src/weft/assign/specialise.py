"""Code for given sizes: a copy of code of which the sizes of inputs were open.

    x: batch|64    h =: tanh(w @ x)        for batch=32        x': 32|64    h' =: tanh(w @ x')

What is computed from inputs is computed anew, by nodes of its own. What is not is shared by the code for all sizes:
parameters, data, the state of an optimiser. These cannot have a shape that depends on a size that is open.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass, replace
from functools import lru_cache
from typing import Any, TypeVar

from weft.assign.definitions import inputs_of
from weft.assign.dtype_inference import Precision
from weft.assign.nodes import (
    Awaited,
    Check,
    Code,
    Node,
    NodeName,
    loop_indices,
    next_id,
    node_of,
    operands_of,
    statements,
    target,
)
from weft.errors import OpenSizeError, Origin, ShapeError
from weft.shape.cells import InferenceStep, ShapeVar
from weft.shape.close import close_alone
from weft.shape.infer import Operation
from weft.shape.nodes import Dim
from weft.shape.reach import reach
from weft.shape.specialise import Specialisation, seen

T = TypeVar("T")

#: What holds no tensors, or is a tensor: it is replaced, or stays as it is.
_WHOLE = (Node, ShapeVar, Operation, InferenceStep, Precision, NodeName, Origin, type)


@dataclass(frozen=True, slots=True)
class Specialised:
    """Code for given sizes, and the nodes it has in place of others."""

    code: Code
    nodes: Mapping[Node, Node]

    def node(self, node: Node) -> Node:
        return self.nodes.get(node, node)


def specialised(code: Code, inputs: Iterable[Node], sizes: Mapping[str, Dim]) -> Specialised:
    """Completed code, with these sizes of its inputs."""
    nodes = reach((*inputs, *_nodes_in(code)), _sources)
    close_fixed(nodes)
    copied = _users(filter(_is_open, nodes), nodes)
    copying = Specialisation(sizes)
    substitution = _Substitution(copying)
    shapes = (step for node in copied for step in node.shape.steps)
    copying.repeat([*shapes, *substitution.steps([code, *(node.check for node in copied)])])
    made = {node: substitution.copy(node) for node in copied}
    for node, copy in made.items():
        if node.definition is not None:
            copy.defined(substitution(node.definition))
    return Specialised(substitution(code), made)


def _nodes_in(code: Code) -> Iterator[Node]:
    for statement in statements(code):
        yield from map(node_of, operands_of(statement))
        yield target(statement)


def _sources(node: Node) -> Iterable[Node]:
    """What a node is there for: what it is computed from, or the tensor it is a gradient of."""
    read = () if node.definition is None else inputs_of(node.definition)
    return read if node.gradient_of is None else (*read, node.gradient_of)


def _is_input(node: Node) -> bool:
    return isinstance(node.init, Awaited)


def _is_open(node: Node) -> bool:
    """May its values, its shape or how many iterations compute it depend on what calls decide?"""
    loops = () if node.definition is None else loop_indices(node.definition)
    return _is_input(node) or not all(shape.checked for shape in (node.shape, *(one.length for one in loops)))


def close_fixed(nodes: Iterable[Node]) -> None:
    """Close the shapes of what is not computed, where no open size goes into them; none may go into first values."""
    for node in nodes:
        if node.definition is None and node.gradient_of is None and not _is_input(node):
            try:
                close_alone(node.shape)
            except OpenSizeError as error:
                if node.init is not None:
                    raise _depends(node, error) from None


def _depends(node: Node, error: OpenSizeError) -> ShapeError:
    return ShapeError(
        f"the shape of `{node.label}`, which is the same at every call, depends on a size that calls decide",
        origin=node.origin,
        notes=[f"`{node.label}` is {node.shape}", error.what, *error.notes],
        fix=f"give `{node.label}` its sizes, o=…, i=…, or reduce the axis of that size before they meet",
    )


def _users(some: Iterable[Node], nodes: Iterable[Node]) -> list[Node]:
    """Some nodes, and which of others are computed from them, in the order they were made."""
    users: dict[Node, list[Node]] = {}
    for node in nodes:
        for source in _sources(node):
            users.setdefault(source, []).append(node)
    return sorted(reach(some, lambda node: users.get(node, ())), key=lambda node: node.id)


@dataclass(slots=True)
class _Substitution:
    """Replaces tensors in code, whatever it is made of; what mentions none that is replaced stays the same object."""

    copying: Specialisation
    _done: dict[int, tuple[object, Any]] = field(default_factory=dict)  # by identity, with what must stay alive

    def copy(self, node: Node) -> Node:
        """A node in place of another, whose sources were copied before."""
        shape = node.shape if node.shape.checked else self.copying.shape(node.shape)
        source = node.gradient_of and self(node.gradient_of)
        loops, check = self(node.iterations), self(node.check)
        made = replace(node, shape=shape, gradient_of=source, check=check, iterations=loops, id=next_id())
        self._done[id(node)] = (node, made)
        return made

    def steps(self, code: Iterable[Code | Check | None]) -> list[InferenceStep]:
        """The operations that are mentioned and not closed, and those that say how often loops run."""
        met: dict[int, object] = {}
        stack: list[object] = [*code]
        found: dict[InferenceStep, None] = {}
        while stack:
            one = stack.pop()
            if id(one) not in met:
                met[id(one)] = one
                if isinstance(one, Operation) and not all(slot.checked for slot in map(seen, one.slots)):
                    found[one.step] = None
                if isinstance(one, ShapeVar) and not one.checked:
                    found |= dict.fromkeys(one.steps)
                stack += _parts(one)
        return list(found)

    def __call__(self, value: T) -> T:
        stack: list[Any] = [value]
        while stack:
            one = stack[-1]
            if id(one) in self._done:
                stack.pop()
                continue
            parts = _parts(one)
            missing = [part for part in parts if id(part) not in self._done]
            if missing:
                stack += missing
            else:
                self._done[id(stack.pop())] = (one, self._replaced(one, [self._done[id(part)][1] for part in parts]))
        found: T = self._done[id(value)][1]
        return found

    def _replaced(self, one: Any, parts: Sequence[Any]) -> Any:
        if isinstance(one, Operation):
            return self.copying.operations.get(one.step, one)
        if isinstance(one, ShapeVar):
            return self.copying.shapes.get(one, one)
        if all(part is before for part, before in zip(parts, _parts(one), strict=True)):
            return one
        if isinstance(one, Mapping):
            half = len(parts) // 2
            return dict(zip(parts[:half], parts[half:], strict=True))
        if isinstance(one, tuple):
            return type(one)(*parts) if hasattr(one, "_fields") else tuple(parts)
        if isinstance(one, list):
            return list(parts)
        return type(one)(**dict(zip(_fields(type(one)), parts, strict=True)))  # type: ignore[arg-type]


@lru_cache(maxsize=256)
def _fields(kind: Hashable) -> tuple[str, ...]:
    """The fields that a value of a dataclass is made from; of other kinds, none."""
    return tuple([each.name for each in fields(kind) if each.init]) if is_dataclass(kind) else ()


def _parts(one: Any) -> Sequence[Any]:
    """What a value is made of, as far as tensors may stand there."""
    if isinstance(one, _WHOLE):
        return ()
    if isinstance(one, tuple | list):
        return one
    if isinstance(one, Mapping):
        return [*one.keys(), *one.values()]
    return [getattr(one, name) for name in _fields(type(one))]  # type: ignore[arg-type]
