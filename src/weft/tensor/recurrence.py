"""Recurrences: tensors that a loop computes one iteration after another, traced once, and the loop of their gradients.

    before ──┐                                 what an iteration does, over stand-ins for what it finds
    x_t ─────┴─ tanh(w @ x_t + u @ before) ── after

is computed by a loop in which each of these tensors has a node with a value for every iteration
(`assign/iterations.py`). Its gradient is a recurrence too, the other way round: that of `before` is found from that of
`after`, which the iteration behind has found. Gradients of `w` and `u` are sums over iterations. What an iteration
computed is read where the first loop left it, or computed once more from what the iteration found.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any

import numpy.typing as npt

from weft.affine import Affine
from weft.assign import (
    Accum,
    Arg,
    Cells,
    Code,
    Comment,
    Direct,
    Fetch,
    Iterations,
    LoopIndex,
    Node,
    NodeName,
    Operand,
    Record,
    Repeat,
    Seq,
    seq,
    statements,
    target,
)
from weft.assign.definitions import inputs_of
from weft.assign.nodes import Check, Piece, rebuilt
from weft.einsum import parse_spec
from weft.errors import user_origin
from weft.ops import Num
from weft.shape.infer import Operation, infer
from weft.shape.logic import Einsum, Pointwise, Slice
from weft.shape.nodes import Dim
from weft.shape.subscripts import AxisPoint, GivenIndex, SlicedRow
from weft.tensor.grad import like, pulled_back, zeros_like
from weft.tensor.slices import apply_slice
from weft.tensor.tensor import Tensor

#: A tensor for each iteration, as one.
_STACK = parse_spec("...|...->... => t, ...|...->...")


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """What one iteration leaves to the next: a stand-in for what it finds, what the first finds, what it leaves."""

    before: Tensor
    start: Tensor
    after: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """What a loop does in an iteration.

    `slices` are tensors of an iteration that are a part each of a tensor with all iterations. `outputs` are wanted of
    every iteration, `sums` added up over all. `known` are nodes of the iteration that another loop over the same index
    has computed, `again` those that are computed again: of these there is but one value, for the iteration that runs.
    """

    index: LoopIndex
    reverse: bool
    carries: Sequence[Carry]
    slices: Mapping[Tensor, Tensor]
    outputs: Sequence[Tensor] = ()
    sums: Sequence[Tensor] = ()
    known: Mapping[Node, Node] = field(default_factory=dict)
    again: frozenset[Node] = frozenset()
    recompute: bool = False

    def run(self) -> RecurrenceLoop:
        """The loop."""
        return _LoopBuilder(self).run()


def iteration_slice(tensor: Tensor, index: LoopIndex) -> Tensor:
    """What a tensor holds for the iteration: its leftmost batch axis is the loop's."""
    return apply_slice(_at(index), tensor)


def _at(index: LoopIndex) -> Slice:
    """The leftmost batch axis, read where a loop stands."""
    given = GivenIndex(index.symbol, index.size, looped=True)
    return Slice(batch=SlicedRow((AxisPoint(Affine.of(index.symbol), (given,)),)))


@dataclass(frozen=True, slots=True, eq=False)
class RecurrenceLoop:
    """A recurrence with its loop: `nodes` are those of the loop for each node of the iteration.

    What an iteration reads: of `slices` those that it looks at, and what is `captured`, the same in every iteration.
    """

    of: Recurrence
    nodes: Mapping[Node, Node]
    totals: Mapping[Tensor, Node]
    slices: Mapping[Tensor, Tensor]
    captured: Sequence[Tensor]
    #: What each tensor is that comes of it.
    results: dict[Node, Carry | Tensor | _Stacked] = field(default_factory=dict)

    @property
    def children(self) -> tuple[Tensor, ...]:
        found = (*(one.start for one in self.of.carries), *self.slices.values(), *self.captured)
        return tuple(dict.fromkeys(found))

    @property
    def differentiable(self) -> bool:
        return any(child.differentiable for child in self.children)

    # What comes of it

    def last(self, carry: Carry, label: str) -> Tensor:
        """What the last iteration leaves."""
        return self._result(_copied(self.nodes[carry.before.node], label), carry)

    def total(self, tensor: Tensor) -> Tensor:
        """The sum over all iterations."""
        return self._result(self.totals[tensor], tensor)

    def stacked(self, tensor: Tensor, label: str) -> Tensor:
        """A tensor of the iteration for all of them: the loop is its leftmost batch axis."""
        index, origin, of = self.of.index, user_origin(), tensor.node
        sizes = {"t": Dim(index.size)}
        shape = infer(Einsum(_STACK, left=True), [tensor.shape], name=label, origin=origin, sizes=sizes).result
        slicing = infer(_at(index), [shape], origin=origin)
        node = Node(NodeName(label), shape, of.precision, origin=origin, gradient_of=of.gradient_of)
        operand = self.nodes.get(of, of) if isinstance(tensor.operand, Node) else tensor.operand
        written = Accum(node, "arg2", True, Arg(0), (operand,), Record(slicing, 1, (0,)), origin)
        return self._result(node.defined(Repeat(index, False, written)), _Stacked(tensor))

    def _result(self, node: Node, what: Carry | Tensor | _Stacked) -> Tensor:
        self.results[node] = what
        differentiable = self.differentiable
        return Tensor(
            node, children=self.children, differentiable=differentiable, joint=self if differentiable else None
        )

    # Gradients

    def pull_back(self, gradients: Mapping[Tensor, Tensor], wanted: Collection[Tensor]) -> dict[Tensor, Tensor]:
        """The gradients of what the loop is computed from, by another loop that runs the other way."""
        seeds: list[tuple[Tensor, Tensor]] = []
        ends: dict[Carry, Tensor] = {}
        found = dict(self.slices)
        for result, gradient in gradients.items():
            match self.results[result.node]:
                case Carry() as carry:
                    ends[carry] = ends[carry] + gradient if carry in ends else gradient
                case _Stacked(tensor):
                    seeds.append((tensor, iteration_slice(gradient, self.of.index)))
                    found[seeds[-1][1]] = gradient
                case Tensor() as tensor:
                    seeds.append((tensor, gradient))
        return self._by_loop(_GradientLoop(self, wanted, seeds, ends, found))

    def _by_loop(self, back: _GradientLoop) -> dict[Tensor, Tensor]:
        pulled = back.pulled
        loop = Recurrence(
            self.of.index,
            not self.of.reverse,
            [Carry(back.behind[one], back.end(one), pulled[one.before]) for one in back.carries],
            {**back.found, **{one.before: self.stacked(one.before, one.before.label) for one in self.of.carries}},
            [pulled[one] for one in back.slices],
            [pulled[one] for one in back.captured],
            {**self.of.known, **self._kept},
            self.of.again.union(self.nodes) if self.of.recompute else self.of.again,
            self.of.recompute,
        ).run()
        carries = zip(back.carries, loop.of.carries, strict=True)
        given = [(one.start, loop.last(its, "d_start")) for one, its in carries if one.start in back.wanted]
        given += [(of, loop.stacked(pulled[one], f"d_{of.label}")) for one, of in back.slices.items()]
        given += [(one, loop.total(pulled[one])) for one in back.captured]
        gradients: dict[Tensor, Tensor] = {}
        for child, gradient in given:
            gradients[child] = gradients[child] + gradient if child in gradients else gradient
        return gradients

    @property
    def _kept(self) -> Mapping[Node, Node]:
        """The nodes of this loop that the loop of its gradient reads."""
        if not self.of.recompute:
            return self.nodes
        return {one.before.node: self.nodes[one.before.node] for one in self.of.carries}


@dataclass(frozen=True, slots=True, eq=False)
class _Stacked:
    """A result that has a tensor of the iteration for all of them."""

    tensor: Tensor


@dataclass(slots=True, eq=False)
class _GradientLoop:
    """What the loop of a gradient starts from: gradients of tensors of the iteration, and of what the last one left."""

    run: RecurrenceLoop
    wanted: Collection[Tensor]
    seeds: Sequence[tuple[Tensor, Tensor]]
    ends: Mapping[Carry, Tensor]
    found: Mapping[Tensor, Tensor]
    carries: Sequence[Carry] = field(init=False)
    slices: Mapping[Tensor, Tensor] = field(init=False)
    captured: Sequence[Tensor] = field(init=False)
    #: Stand-ins for the gradients of what an iteration leaves.
    behind: Mapping[Carry, Tensor] = field(init=False)
    #: The gradients of what it finds.
    pulled: Mapping[Tensor, Tensor] = field(init=False)

    def __post_init__(self) -> None:
        run, wanted = self.run, self.wanted
        self.carries = [one for one in run.of.carries if one.before.differentiable]
        self.slices = {one: of for one, of in run.slices.items() if of.differentiable and of in wanted}
        self.captured = [one for one in run.captured if one.differentiable and one in wanted]
        self.behind = {one: Tensor(like(one.before), differentiable=True) for one in self.carries}
        seeds = [*((one.after, self.behind[one]) for one in self.carries), *self.seeds]
        self.pulled = pulled_back(seeds, [*(one.before for one in self.carries), *self.slices, *self.captured])

    def end(self, carry: Carry) -> Tensor:
        return self.ends[carry] if carry in self.ends else zeros_like(carry.before)


def _copied(node: Node, label: str) -> Node:
    """A node that holds what another holds."""
    operation = infer(Pointwise(1), [node.shape], name=label, origin=user_origin())
    made = Node(NodeName(label), operation.result, node.precision, origin=user_origin(), gradient_of=node.gradient_of)
    return made.defined(Accum(made, "arg2", True, Arg(0), (node,), Record(operation, 0, (1,)), user_origin()))


@dataclass(frozen=True, slots=True)
class _EachIteration:
    """What is to hold of a node's value in every iteration."""

    check: Check

    @property
    def of(self) -> None:
        """What it would speak of is a node of the iteration."""

    def verify(self, value: npt.NDArray[Any], of: object) -> None:
        for one in value:
            self.check.verify(one, None)


@dataclass(slots=True, eq=False)
class _LoopBuilder:
    """A recurrence as code over nodes of its own."""

    of: Recurrence
    nodes: dict[Node, Node] = field(default_factory=dict)
    totals: dict[Tensor, Node] = field(default_factory=dict)

    def run(self) -> RecurrenceLoop:
        of, index = self.of, self.of.index
        self.nodes.update(of.known)
        direction = "backward" if of.reverse else "forward"
        for one in of.carries:
            self.nodes[one.before.node] = self._like(one.before.node, Iterations((index,), direction))  # type: ignore[arg-type]
        varying, codes = self._traced([tensor.node for tensor in self._roots])
        written = dict.fromkeys(target(one) for code in codes for one in statements(code))
        direct = {one.node: one for one in of.sums if self._adds(one, codes)}
        for node in written:
            self.nodes[node] = self._total(direct[node]) if node in direct else self._like(node, self._iterations(node))
        body = [rebuilt(code, partial(self._over, direct)) for code in codes]
        body += [self._added(one) for one in of.sums if one.node not in direct]
        body += [_written(self.nodes[one.before.node], self._operand(one.after)) for one in of.carries]
        starts = [_written(self.nodes[one.before.node], one.start.operand) for one in of.carries]
        cleared = [Fetch(node, Cells(Num(0.0))) for node in self.totals.values()]
        code = seq(*starts, *cleared, Repeat(index, of.reverse, seq(*body)))
        for node in dict.fromkeys(target(one) for one in statements(code)):
            node.defined(code)
        return RecurrenceLoop(of, self.nodes, self.totals, *self._read(varying))

    @property
    def _roots(self) -> list[Tensor]:
        return [*(one.after for one in self.of.carries), *self.of.outputs, *self.of.sums]

    def _traced(self, wanted: Sequence[Node]) -> tuple[dict[Node, bool], list[Code]]:
        """Which nodes differ from iteration to iteration, and the code that computes those, operands first."""
        varies: dict[Node, bool] = dict.fromkeys(self.nodes, True)
        codes: dict[int, Code] = {}
        rest = list(reversed(wanted))
        while rest:
            node = rest[-1]
            definition = None if node in varies else node.definition
            if definition is None:
                varies.setdefault(node, False)
                rest.pop()
                continue
            inputs = inputs_of(definition)
            missing = [one for one in inputs if one not in varies]
            rest += reversed(missing)
            if missing:
                continue
            differs = any(varies[one] for one in inputs) or self._slices(definition)
            varies |= dict.fromkeys([*map(target, statements(definition)), node], differs)
            if differs:
                codes[id(definition)] = definition
        return varies, list(codes.values())

    def _slices(self, code: Code) -> bool:
        """Does it read what a tensor holds for the iteration, outside the loop itself?"""
        index, rest = self.of.index, [code]
        while rest:
            match rest.pop():
                case Seq(codes=codes):
                    rest += codes
                case Comment(body=body):
                    rest.append(body)
                case Repeat(index=other, body=body) if other.symbol != index.symbol:
                    rest.append(body)
                case Accum(record=Record(operation=Operation(logic=Slice() as logic))) if logic == _at(index):
                    return True
        return False

    def _read(self, varies: Mapping[Node, bool]) -> tuple[dict[Tensor, Tensor], list[Tensor]]:
        """The slices that an iteration reads, and the tensors that are the same in all."""
        seen = {one.before for one in self.of.carries}
        slices: dict[Tensor, Tensor] = {}
        captured: dict[Tensor, None] = {}
        rest = [*reversed(self._roots)]
        while rest:
            tensor = rest.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            if tensor in self.of.slices:
                slices[tensor] = self.of.slices[tensor]
            elif varies.get(tensor.node):
                rest += reversed(tensor.children)
            else:
                captured[tensor] = None
        return slices, list(captured)

    def _iterations(self, node: Node) -> Iterations | None:
        if node in self.of.again:
            return node.iterations
        return node.iterations.inside(self.of.index) if node.iterations else Iterations((self.of.index,))

    def _like(self, node: Node, iterations: Iterations | None) -> Node:
        return Node(
            NodeName(node.label),
            node.shape,
            node.precision,
            origin=node.origin,
            gradient_of=node.gradient_of,
            check=_EachIteration(node.check) if node.check is not None and node not in self.of.again else None,
            iterations=iterations,
        )

    def _operand(self, tensor: Tensor) -> Operand:
        operand = tensor.operand
        return self.nodes.get(operand, operand) if isinstance(operand, Node) else operand

    def _over(self, direct: Mapping[Node, Tensor], piece: Piece) -> Code:
        """A statement of the iteration over nodes of the loop; sums go on from the iteration before."""
        match piece:
            case Fetch(node=node):
                return replace(piece, node=self.nodes[node])
            case Accum(lhs=lhs) | Direct(lhs=lhs):
                read = tuple(self.nodes.get(one, one) if isinstance(one, Node) else one for one in piece.operands)
                moved = replace(piece, lhs=self.nodes[lhs], operands=read)
                return replace(moved, reset=False) if isinstance(moved, Accum) and lhs in direct else moved
        return piece

    # Sums

    def _adds(self, tensor: Tensor, codes: Iterable[Code]) -> bool:
        """Is a tensor of the iteration nothing but a sum that nobody else reads, so that it can go on?"""
        own = [one for code in codes for one in statements(code) if target(one) is tensor.node]
        plain = all(isinstance(one, Accum) and one.accum == "add" for one in own)
        read = any(tensor.node in inputs_of(code) for code in codes)
        wanted = sum(one.node is tensor.node for one in self._roots)
        return bool(own) and plain and not read and wanted == 1

    def _total(self, tensor: Tensor) -> Node:
        self.totals[tensor] = self._like(tensor.node, None)
        return self.totals[tensor]

    def _added(self, tensor: Tensor) -> Code:
        total, shape = self._total(tensor), tensor.shape
        record = Record(infer(Pointwise(1), [shape], result=total.shape), 0, (1,))
        return Accum(total, "add", False, Arg(0), (self._operand(tensor),), record, tensor.node.origin)


def _written(node: Node, operand: Operand) -> Code:
    """What is carried."""
    shape = operand.shape if isinstance(operand, Node) else operand.node.shape
    record = Record(infer(Pointwise(1), [shape], result=node.shape), 0, (1,))
    return Accum(node, "arg2", True, Arg(0), (operand,), record, user_origin())
