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

from weft.affine import Affine
from weft.assign import (
    Accum,
    Arg,
    Assignment,
    Cells,
    Code,
    Direct,
    Fetch,
    Iterations,
    LoopIndex,
    Node,
    NodeName,
    Noop,
    Operand,
    Precision,
    Record,
    Repeat,
    node_of,
    operands_of,
    seq,
    statements,
    target,
)
from weft.assign.definitions import inputs_of
from weft.assign.nodes import Check, Piece, rebuilt
from weft.assign.record import assign_pointwise
from weft.einsum import parse_spec
from weft.errors import user_origin
from weft.ops import Num
from weft.shape.infer import infer
from weft.shape.logic import Einsum, Pointwise, Slice
from weft.shape.reach import parts_first
from weft.shape.subscripts import AxisPoint, SlicedRow
from weft.tensor.grad import like, pulled_back, zeros_like
from weft.tensor.positions import EachIteration
from weft.tensor.tensor import Tensor

#: A tensor for each iteration, as one.
_STACK = parse_spec("...|...->...; t => t, ...|...->...")


@dataclass(frozen=True, slots=True, eq=False)
class Carry:
    """What one iteration leaves to the next: a stand-in for what it finds, what the first finds, what it leaves."""

    before: Tensor
    start: Tensor
    after: Tensor


@dataclass(frozen=True, slots=True, eq=False)
class Recurrence:
    """What a loop does in an iteration.

    `slices` stand for what tensors with a part for every iteration hold for this one. `outputs` are wanted of
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


def loop_along(tensors: Sequence[Tensor], name: str) -> LoopIndex:
    """The index of a loop with an iteration for each position in the leftmost batch axis of some tensors."""
    read = "; ".join(f"steps, ..batch{number}..|" for number in range(len(tensors)))
    logic = Einsum(parse_spec(f"{read} => steps"))
    length = infer(logic, [one.shape for one in tensors], title="scan", origin=user_origin()).result
    return LoopIndex(name, length)


def iteration_slice(tensor: Tensor, index: LoopIndex) -> Tensor:
    """Stands for what a tensor holds for the iteration: its leftmost batch axis is the loop's."""
    shape = infer(_at(index), [tensor.shape], name="slice", title="scan", origin=user_origin()).result
    precision = Precision.from_operands()
    precision.computed_by(Arg(0), [(Arg(0), tensor.node.precision)], sums=False)
    node = Node(NodeName("slice"), shape, precision, origin=user_origin())
    return Tensor(node, differentiable=tensor.differentiable)


def _at(index: LoopIndex) -> Slice:
    """The leftmost batch axis, read where a loop stands."""
    return Slice(batch=SlicedRow((AxisPoint(Affine.of(index.symbol), looped=True),)))


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
        shape = infer(Einsum(_STACK, left=True), [tensor.shape, index.length], name=label, origin=origin).result
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


@dataclass(slots=True, eq=False)
class _LoopBuilder:
    """A recurrence as code over nodes of its own."""

    of: Recurrence
    nodes: dict[Node, Node] = field(default_factory=dict)
    totals: dict[Tensor, Node] = field(default_factory=dict)
    #: What reads each slice that no other loop has read.
    slicing: dict[Node, Code] = field(default_factory=dict)

    def run(self) -> RecurrenceLoop:
        of, index = self.of, self.of.index
        self.nodes.update(of.known)
        self.slicing = {
            one.node: _sliced(one, source, index) for one, source in of.slices.items() if one.node not in of.known
        }
        direction = "backward" if of.reverse else "forward"
        for one in of.carries:
            self.nodes[one.before.node] = self._like(one.before.node, Iterations((index,), direction))  # type: ignore[arg-type]
        varies: dict[Node, bool] = {}
        codes = self._traced([tensor.node for tensor in self._roots], varies)
        written = dict.fromkeys(target(one) for code in codes for one in statements(code))
        direct = {one.node: one for one in of.sums if self._adds(one, codes)}
        for node in written:
            self.nodes[node] = self._total(direct[node]) if node in direct else self._like(node, self._iterations(node))
        body = [rebuilt(code, partial(self._over, direct)) for code in codes]
        body += [self._added(one) for one in of.sums if one.node not in direct]
        body += [assign_pointwise(self.nodes[one.before.node], self._operand(one.after)) for one in of.carries]
        starts = [assign_pointwise(self.nodes[one.before.node], one.start.operand) for one in of.carries]
        cleared = [Fetch(node, Cells(Num(0.0))) for node in self.totals.values()]
        code = seq(*starts, *cleared, Repeat(index, of.reverse, seq(*body)))
        for node in dict.fromkeys(target(one) for one in statements(code)):
            node.defined(code)
        return RecurrenceLoop(of, self.nodes, self.totals, *self._read(varies))

    @property
    def _roots(self) -> list[Tensor]:
        return [*(one.after for one in self.of.carries), *self.of.outputs, *self.of.sums]

    def _traced(self, wanted: Sequence[Node], varies: dict[Node, bool]) -> list[Code]:
        """The code of what differs from iteration to iteration, operands first; `varies` learns which nodes do."""
        varies |= dict.fromkeys(self.nodes, True)
        codes: dict[int, Code] = {}

        def definition_of(node: Node) -> Code | None:
            return None if node in varies else self.slicing.get(node, node.definition)

        def read(node: Node) -> list[Node]:
            definition = definition_of(node)
            return [] if definition is None else inputs_of(definition)

        for node in parts_first(wanted, read):
            definition = definition_of(node)
            if definition is None:
                varies.setdefault(node, False)
                continue
            differs = node in self.slicing or any(varies[one] for one in inputs_of(definition))
            varies |= dict.fromkeys([*map(target, statements(definition)), node], differs)
            if differs:
                codes[id(definition)] = definition
        return list(codes.values())

    def _read(self, varies: dict[Node, bool]) -> tuple[dict[Tensor, Tensor], list[Tensor]]:
        """The slices that an iteration reads, and the tensors that are the same in all.

        Children are what a tensor changes with, which is not always what it is computed from: a gradient that is masked
        changes as one that is not, and with the steps of its draws nothing random changes. Where those are computed
        again, the slices that they read are read again too.
        """
        seen = {one.before for one in self.of.carries}
        slices: dict[Tensor, Tensor] = {}
        captured: dict[Tensor, None] = {}
        rest = [*reversed(self._roots)]
        while rest:
            tensor = rest.pop()
            if tensor in seen:
                continue
            seen.add(tensor)
            if tensor.node not in varies:
                self._traced([tensor.node], varies)
            if tensor in self.of.slices:
                slices[tensor] = self.of.slices[tensor]
            elif varies[tensor.node]:
                rest += reversed(tensor.children)
            else:
                captured[tensor] = None
        again = {one: of for one, of in self.of.slices.items() if one.node in self.slicing and one.node in varies}
        return slices | again, list(captured)

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
            check=self._check(node),
            iterations=iterations,
        )

    def _check(self, node: Node) -> Check | None:
        """What is to hold of a node of the iteration, in all of them; what is computed again was checked before."""
        if node.check is None or node in self.of.again:
            return None
        return EachIteration(node.check, None if node.check.of is None else self.nodes.get(node.check.of))

    def _operand(self, tensor: Tensor) -> Operand:
        operand = tensor.operand
        return self.nodes.get(operand, operand) if isinstance(operand, Node) else operand

    def _over(self, direct: Mapping[Node, Tensor], piece: Piece) -> Code:
        """A statement of the iteration over nodes of the loop; sums go on from the iteration before."""
        match piece:
            case Fetch(node=node):
                return Noop() if node in direct else replace(piece, node=self.nodes[node])
            case Accum(lhs=lhs) | Direct(lhs=lhs):
                read = tuple(self.nodes.get(one, one) if isinstance(one, Node) else one for one in piece.operands)
                moved = replace(piece, lhs=self.nodes[lhs], operands=read)
                return replace(moved, reset=False) if isinstance(moved, Accum) and lhs in direct else moved
        return piece

    # Sums

    def _adds(self, tensor: Tensor, codes: Iterable[Code]) -> bool:
        """Is a tensor of the iteration nothing but a sum that nobody else reads, so that it can go on?"""
        node, every = tensor.node, [one for code in codes for one in statements(code)]
        own = [one for one in every if target(one) is node]
        plain = all(_starts_or_adds(one) for one in own)
        read = any(node_of(operand) is node for one in every for operand in operands_of(one))
        wanted = sum(one.node is node for one in self._roots)
        return bool(own) and plain and not read and wanted == 1

    def _total(self, tensor: Tensor) -> Node:
        self.totals[tensor] = self._like(tensor.node, None)
        return self.totals[tensor]

    def _added(self, tensor: Tensor) -> Code:
        return replace(assign_pointwise(self._total(tensor), self._operand(tensor), "add"), origin=tensor.node.origin)


def _sliced(tensor: Tensor, source: Tensor, index: LoopIndex) -> Code:
    """What a tensor stands for."""
    reading = infer(_at(index), [source.shape], result=tensor.shape, title="scan", origin=tensor.node.origin)
    return Accum(tensor.node, "arg2", True, Arg(0), (source.operand,), Record(reading, 0, (1,)), tensor.node.origin)


def _starts_or_adds(statement: Assignment) -> bool:
    match statement:
        case Fetch(source=Cells(value=Num(value=0))) | Accum(accum="add"):
            return True
    return False
