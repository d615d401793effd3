"""A definition applied to tensors: every tensor it computes is a node, computed by the steps that write it."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy.typing as npt

from weft.assign import Adjoint, Cells, Code, Direct, Fetch, Node, NodeName, Operand, Precision, in_code, node_of, seq
from weft.comprehension.gather_checks import Indirect, is_indirect, is_proved, strayed, unproved, verify, watching
from weft.comprehension.gradient import Backward, backward
from weft.comprehension.mistakes import counted
from weft.comprehension.signature import Split, Template
from weft.comprehension.steps import Extents, Flat, Step, is_lost, show_step
from weft.errors import Origin, ShapeError, user_origin
from weft.lazy import lazy_property
from weft.ops import Num
from weft.shape.cells import ShapeVar
from weft.shape.close import close
from weft.shape.infer import Operation, infer
from weft.shape.logic import Literal, Stated
from weft.shape.nodes import Dim, Shape


class Application:
    """A definition on some operands, in the order of the flat definition's parameters."""

    def __init__(
        self,
        template: Template,
        operands: Sequence[Operand],
        origin: Origin | None,
        labels: Mapping[str, str],
        extents: Extents | None = None,
    ) -> None:
        """`extents` are given where they are known: then only subscripts that may leave their tensors are watched."""
        self.template = template
        self.operands: dict[str, Operand] = dict(zip(template.flat.params, operands, strict=True))
        self.sizes = Sizes(template, tuple(node_of(one).shape for one in operands))
        self._origin = origin
        flat, found = template.flat, template.indirect
        self._indirect = unproved(found, extents) if extents else found
        self._watched = {tensor: self._distances(tensor) for tensor in self._indirect}
        self.operands |= {strayed(tensor): node for tensor, node in self._watched.items()}
        self.operations: dict[str, Operation] = {}
        computed = list(dict.fromkeys(step.target for step in flat.steps))
        for tensor in computed:
            self.operands[tensor] = self._infer(tensor, labels.get(tensor, tensor))
        for tensor in computed:
            self.node(tensor).defined(seq(*map(self.assign, flat.writing(tensor))))
        for tensor, node in self._watched.items():
            steps = watching(tensor, self._indirect[tensor])
            node.defined(seq(Fetch(node, Cells(Num(0))), *map(self.assign, steps)))

    def _distances(self, tensor: str) -> Node:
        """The node that says how far the subscripts in a tensor's steps stray."""
        name, subscripts = f"{self.template.name}.{strayed(tensor)}", self._indirect[tensor]
        sizes = Shape(output=(Dim(2 * len(subscripts)),))
        shape = infer(Literal(sizes), name=name, origin=self._origin).result
        source = subscripts[0].source if len(subscripts) == 1 else None
        of = node_of(self.operands[source]) if source in self.operands else None
        check = SubscriptsInside(subscripts, self.sizes, self._origin, of)
        return Node(NodeName(name), shape, Precision.given("int64"), origin=self._origin, check=check)

    def _infer(self, tensor: str, label: str) -> Node:
        """The node of a tensor, its shape as far as the operands' shapes tell."""
        flat = self.template.flat
        operation = infer(
            Stated(len(flat.params), self.template.constraints(tensor, self.splits)),
            self.sizes.shapes,
            name=label,
            title=self.template.name,
            origin=self._origin,
            code=in_code(self.operands[one] for one in flat.params),
        )
        self.operations[tensor] = operation
        return Node(NodeName(label), operation.result, Precision.given(flat.types[tensor]), origin=self._origin)

    @lazy_property
    def splits(self) -> list[Split]:
        """How many axes of each kind the operands had when it was applied."""
        flat, found = self.template.flat, []
        for param, shape in zip(flat.params, self.sizes.shapes, strict=True):
            split = _split(shape, flat.ranks[param])
            if split is None:
                what = f"`{param}` of `{self.template.name}` has {counted(flat.ranks[param], 'axis', 'axes')}"
                fix = "pass a tensor of as many axes, of any kind"
                raise ShapeError(f"{what}, and what is given is {shape}", origin=self._origin, fix=fix)
            found.append(split)
        return found

    def node(self, tensor: str) -> Node:
        """The node of a tensor."""
        return node_of(self.operands[tensor])

    @property
    def results(self) -> tuple[Node, ...]:
        return tuple(self.node(one) for one in self.template.flat.results)

    @property
    def extents(self) -> Extents:
        return self.sizes.extents

    def backward(self, seeds: Mapping[str, Node], into: Mapping[str, Node]) -> Code:
        """The code that writes to the gradients of parameters (`into`) what those of results (`seeds`) imply."""
        flat = self.template.flat
        made = backward(flat, list(seeds), list(into), afresh=True)
        zeros = (Fetch(node, Cells(Num(0.0))) for one, node in into.items() if one not in made.found)
        known = _with_gradients(flat, made, self.operands, seeds, into)
        watched = tuple(self._watched.values())
        return seq(*zeros, *_assigned(self.sizes, flat.extended(made.like), made.steps, known, watched, self._origin))

    def assign(self, step: Step) -> Direct:
        """A step of the definition as an assignment."""
        watched = (self._watched[step.target],) if step.target in self._watched else ()
        return direct(StepDomain(self.sizes, step, self.template.flat), self.operands, watched, self._origin)


def direct(
    domain: StepDomain, known: Mapping[str, Operand], watched: Sequence[Operand], origin: Origin | None
) -> Direct:
    """A step as an assignment to and from tensors that are known by name; what is watched must be there before."""
    step = domain.step
    read = tuple(one for one in step.reads if one != step.target)
    return Direct(
        node_of(known[step.target]),
        step.reduction or "arg2",
        step.keeps,
        step.at,
        step.value,
        (*(known[one] for one in read), *watched),
        (step.target, *read),
        domain,
        origin,
    )


def _assigned(
    sizes: Sizes,
    flat: Flat,
    steps: Sequence[Step],
    known: Mapping[str, Operand],
    watched: Sequence[Operand],
    origin: Origin | None,
) -> Iterator[Direct]:
    """Steps of a gradient as assignments."""
    for step in steps:
        yield direct(StepDomain(sizes, step, flat), known, watched if is_indirect(step) else (), origin)


def _with_gradients(
    flat: Flat, made: Backward, known: Mapping[str, Operand], seeds: Mapping[str, Operand], into: Mapping[str, Node]
) -> Mapping[str, Operand]:
    """The tensors that steps of a gradient speak of, by name: those known, gradients, and what it adds besides."""
    found: dict[str, Operand] = {**known, **{made.seeds[one]: seed for one, seed in seeds.items() if one in made.seeds}}
    found |= {made.found[one]: node for one, node in into.items() if one in made.found}
    for name, like in made.like.items():
        if name not in found or name in known:
            node = node_of(known[like])
            found[name] = Node(NodeName(name), node.shape, Precision.given(flat.types[like]), origin=node.origin)
    return found


@dataclass(frozen=True, eq=False)
class Sizes:
    """All that is known of sizes of a definition, on tensors of these shapes."""

    template: Template
    shapes: tuple[ShapeVar, ...]

    @lazy_property
    def extents(self) -> Extents:
        """Asking closes the shapes."""
        flat = self.template.flat
        closed = zip(flat.params, self.shapes, strict=True)
        return self.template.extents([close(shape).array_shape[: flat.ranks[one]] for one, shape in closed])


@dataclass(frozen=True, slots=True)
class SubscriptsInside:
    """That subscripts stay inside their tensors, seen from how far they strayed."""

    subscripts: tuple[Indirect, ...]
    sizes: Sizes
    origin: Origin | None

    of: Node | None

    def verify(self, value: npt.NDArray[Any], of: Callable[[], npt.NDArray[Any]] | None) -> None:
        verify(self.subscripts, self.sizes.extents.shapes, value, self.origin or user_origin(), of)


@dataclass(frozen=True)
class StepDomain:
    """The loops of a step, for some sizes."""

    sizes: Sizes
    step: Step
    flat: Flat = field(compare=False)

    @property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        found = self.sizes.extents.ranges(self.step)
        return {index: (extent.low, extent.high) for index, extent in found.items()}

    def number(self, size: str) -> int:
        return self.sizes.extents.number(size)

    @lazy_property
    def idle(self) -> bool:
        flat, extents, watched = self.sizes.template.flat, self.sizes.extents, self.step.watches
        return is_proved(watched, extents) if watched else is_lost(self.step, flat, extents)

    def pull_back(
        self,
        body: Sequence[Direct],
        values: Mapping[Operand, Operand],
        into: Mapping[Operand, Node | None],
        adjoint: Adjoint,
    ) -> Code:
        """The gradients of what assignments of this definition add up to."""
        target, steps = self.step.target, [one.domain.step for one in body if isinstance(one.domain, StepDomain)]
        read = {name: operand for one in body for name, operand in zip(one.names[1:], one.operands, strict=False)}
        watched = [values[operand] for one in body for operand in one.operands[len(one.names) - 1 :]]
        flat = self.flat.only(target, steps)
        wanted = {name: node for name, operand in read.items() if (node := into[operand]) is not None}
        made = backward(flat, [target], list(wanted), masked=adjoint.masked)
        known = {name: values[operand] for name, operand in read.items()} | {target: adjoint.value}
        every = _with_gradients(flat, made, known, {target: adjoint.gradient}, wanted)
        origin = body[0].origin
        return seq(*_assigned(self.sizes, flat.extended(made.like), made.steps, every, watched, origin))

    def show(self, names: Sequence[str]) -> str:
        own = (self.step.target, *(one for one in self.step.reads if one != self.step.target))
        return show_step(self.step, dict(zip(own, names, strict=False)))


def _split(shape: ShapeVar, rank: int) -> Split | None:
    """How many axes of each kind a tensor with so many axes has; None if it has not so many.

    Where that is still open, it has as many batch and input axes as are known so far, and the rest are output axes. A
    tensor that has only batch axes in the text has an output axis of 1 besides.
    """
    batch, input, output = (shape.row(kind) for kind in ("batch", "input", "output"))
    if batch.axes is None or input.axes is None or output.axes is None:
        rest = rank - batch.lo - input.lo
        return (batch.lo, input.lo, rest) if rest >= 0 else None
    counts = len(batch.axes), len(input.axes), len(output.axes)
    alone = counts[1:] == (0, 1) and output.axes[0].size == 1
    if alone and counts[0] == rank:
        return (rank, 0, 0)
    return counts if sum(counts) == rank else None
