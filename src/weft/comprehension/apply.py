"""A definition applied to tensors: every tensor it computes is a node, computed by the steps that write it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

import numpy.typing as npt

from weft.assign import Cells, Code, Direct, Fetch, Node, Operand, Precision, in_code, node_of, seq
from weft.comprehension.gather_checks import is_indirect, is_proved, strayed, unproved, verify, watching
from weft.comprehension.gradient import backward
from weft.comprehension.mistakes import counted
from weft.comprehension.signature import Split, Template
from weft.comprehension.steps import Extents, Step, is_lost, show_step
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
        self.operations: dict[str, Operation] = {}
        self._origin = origin
        flat, found = template.flat, template.indirect
        self._indirect = unproved(found, flat, extents) if extents else found
        self._watched = {tensor: self._distances(tensor) for tensor in self._indirect}
        self.operands |= {strayed(tensor): node for tensor, node in self._watched.items()}
        computed = list(dict.fromkeys(step.target for step in flat.steps))
        for tensor in computed:
            self.operands[tensor] = self._infer(tensor, labels.get(tensor, tensor))
        for tensor in computed:
            self.node(tensor).definition = seq(*(self.assign(step) for step in flat.writing(tensor)))
        self._watching = {one: tuple(watching(one, found, flat.types)) for one, found in self._indirect.items()}
        for tensor, node in self._watched.items():
            node.definition = seq(Fetch(node, Cells(Num(0))), *map(self.assign, self._watching[tensor]))

    def _distances(self, tensor: str) -> Node:
        """The node that says how far the subscripts in a tensor's steps stray."""
        name, count = f"{self.template.name}.{strayed(tensor)}", 2 * len(self._indirect[tensor])
        shape = infer(Literal(Shape(output=(Dim(count),))), name=name, origin=self._origin).result
        node = Node(name, shape, Precision.given("int64"), origin=self._origin)
        node.verify = partial(self._verify, tensor)
        return node

    def _verify(self, tensor: str, distances: npt.NDArray[Any]) -> None:
        shapes, subscripts = self.extents.shapes, self._indirect[tensor]
        sizes = [shapes[one.tensor][one.axis] for one in subscripts]
        verify(subscripts, sizes, distances, self._origin or user_origin())

    def _infer(self, tensor: str, label: str) -> Node:
        """The node of a tensor, its shape as far as the operands' shapes tell."""
        flat = self.template.flat
        shapes = [self.node(one).shape for one in flat.params]
        constraints = self.template.constraints(tensor, self.splits)
        logic = Stated(len(shapes), constraints)
        operation = infer(
            logic,
            shapes,
            name=label,
            title=self.template.name,
            origin=self._origin,
            code=in_code(self.operands[one] for one in flat.params),
        )
        self.operations[tensor] = operation
        return Node(label, operation.result, Precision.given(flat.types[tensor]), origin=self._origin)

    @lazy_property
    def needless(self) -> set[Step]:
        """The steps that need not run: copies that are written over, and those that watch what cannot stray."""
        flat = self.template.flat
        found = {step for step in flat.steps if is_lost(step, flat, self.extents)}
        for tensor, ones in self._indirect.items():
            proved = [is_proved(one, flat, self.extents) for one in ones]
            found |= {step for at, step in enumerate(self._watching[tensor]) if proved[at // 2]}
        return found

    def _splits(self, shapes: Sequence[ShapeVar]) -> list[Split]:
        """How many axes of each kind the parameters have."""
        flat, found = self.template.flat, []
        for param, shape in zip(flat.params, shapes, strict=True):
            split = _split(shape, flat.ranks[param])
            if split is None:
                what = f"`{param}` of `{self.template.name}` has {counted(flat.ranks[param], 'axis', 'axes')}"
                fix = "pass a tensor of as many axes, of any kind"
                raise ShapeError(f"{what}, and what is given is {shape}", origin=self._origin, fix=fix)
            found.append(split)
        return found

    @lazy_property
    def splits(self) -> list[Split]:
        """How many axes of each kind the operands had when it was applied."""
        return self._splits([self.node(one).shape for one in self.template.flat.params])

    def node(self, tensor: str) -> Node:
        """The node of a tensor."""
        return node_of(self.operands[tensor])

    @property
    def results(self) -> tuple[Node, ...]:
        return tuple(self.node(one) for one in self.template.flat.results)

    @lazy_property
    def extents(self) -> Extents:
        """Everything about sizes; asking closes the shapes of the operands."""
        ranks = self.template.flat.ranks
        shapes = {one: close(self.node(one).shape).array_shape for one in self.template.flat.params}
        return self.template.extents([shape[: ranks[one]] for one, shape in shapes.items()])

    def backward(
        self, seeds: Mapping[str, Node], into: Mapping[str, Node], *, afresh: bool = False, masked: bool = False
    ) -> Code:
        """The code that adds to the gradients of parameters (`into`) what those of results (`seeds`) imply.

        With `afresh` it writes them instead.
        """
        flat = self.template.flat
        made = backward(flat, list(seeds), list(into), afresh=afresh, masked=masked)
        others = {made.seeds[one]: node for one, node in seeds.items() if one in made.seeds}
        others |= {made.found[one]: node for one, node in into.items() if one in made.found}
        for name, like in made.like.items():
            if name not in others:
                node = self.node(like)
                others[name] = Node(name, node.shape, Precision.given(flat.types[like]), origin=self._origin)
        untouched = [node for one, node in into.items() if afresh and one not in made.found]
        zeros = (Fetch(node, Cells(Num(0.0))) for node in untouched)
        return seq(*zeros, *(self.assign(step, others) for step in made.steps))

    def assign(self, step: Step, others: Mapping[str, Node] | None = None) -> Direct:
        """A step as an assignment; `others` are tensors of the step that the definition does not have."""
        known: dict[str, Operand] = {**self.operands, **(others or {})}
        read = tuple(one for one in step.reads if one != step.target)
        operands = [known[one] for one in read]
        if step.target in self._watched:
            operands.append(self._watched[step.target])
        elif others and is_indirect(step):
            operands += self._watched.values()
        return Direct(
            node_of(known[step.target]),
            step.reduction or "arg2",
            step.keeps,
            step.at,
            step.value,
            tuple(operands),
            (step.target, *read),
            StepDomain(self, step),
            self._origin,
        )


@dataclass(frozen=True, slots=True)
class StepDomain:
    """The loops of a step, for an application."""

    application: Application
    step: Step

    @property
    def ranges(self) -> Mapping[str, tuple[int, int]]:
        found = self.application.extents.ranges(self.step)
        return {index: (extent.low, extent.high) for index, extent in found.items()}

    def number(self, size: str) -> int:
        return self.application.extents.number(size)

    @property
    def idle(self) -> bool:
        return self.step in self.application.needless

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
