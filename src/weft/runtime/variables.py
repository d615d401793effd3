"""The variables of a step: what a run finds in memory and a later one goes on from.

These are parameters, what an optimiser keeps, nodes that code builds on, values read as stored, and counters; not data,
which the program gives, nor inputs, which calls give, nor what is written before it is read. All of it is read off code
as it was written: it depends neither on how that is compiled nor on the lengths that calls had.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Protocol, TypeAlias, runtime_checkable

from weft.assign import (
    Assignment,
    Awaited,
    Code,
    Data,
    File,
    Keep,
    Node,
    Stored,
    complete,
    operands_of,
    statements,
    symbols,
    target,
)
from weft.assign.definite_assignment import written_part
from weft.assign.definitions import nodes_read
from weft.assign.nodes import keeps
from weft.assign.specialise import close_fixed
from weft.errors import Origin, ShapeError, WeftError, said_at
from weft.runtime.fork import LOWERING
from weft.runtime.function import Function
from weft.runtime.routine import Routine
from weft.shape.close import close
from weft.tensor.layers import Layer
from weft.tensor.slices import StaticIndex
from weft.tensor.tensor import Tensor

if TYPE_CHECKING:
    from weft.runtime.engine import Engine

#: What has state.
Stateful: TypeAlias = "Routine | Function | StepCode | Code | Layer | Tensor | Composed | Sequence[Stateful]"


@dataclass(frozen=True, slots=True)
class StepCode:
    """What several routines of an engine do together, in one step: their state is that of this code, run at once."""

    engine: Engine
    code: Code
    bindings: Collection[str] = ()


@runtime_checkable
class Composed(Protocol):
    """A step that is made of others: its state is theirs."""

    def made_of(self) -> Stateful:
        """What runs in a step."""


@dataclass(frozen=True, slots=True)
class Variables:
    """What outlives runs, by label: nodes and counters. Those `from_zero` begin there, if nothing else is said."""

    nodes: Mapping[str, Node]
    counters: Mapping[str, StaticIndex]
    from_zero: Collection[Node] = ()

    def begins(self, node: Node) -> bool:
        """Has it a value before anything ran?"""
        return node.init is not None or node in self.from_zero


def variables_of(what: Stateful, engine: Engine) -> Variables:
    """The variables of steps of an engine, of layers, of tensors; the shapes of nodes are closed."""
    found = list(_uses(what, engine))
    with LOWERING:
        nodes = dict.fromkeys(node for one in found for node in one.lasting())
        close_fixed(nodes)
        for node in nodes:
            if node.definition is not None:
                close(node.shape)
    lasting = [node for node in nodes if node.shape.checked]  # what is open still is refused by the first call
    counters = {one: line for each in found for one, line in each.counters.items()}
    _check_apart([*((node.label, node.origin) for node in lasting), *((one.name, at) for one, at in counters.items())])
    return Variables(
        {node.label: node for node in lasting},
        {one.name: one for one in counters},
        frozenset(node for one in found for node in one.from_zero()),
    )


def _uses(what: object, engine: Engine) -> Iterator[_Use]:
    """What whatever has state does to memory."""
    match what:
        case Routine() | Function() | StepCode():
            if what.engine is not engine:
                told = "the step" if isinstance(what, StepCode) else repr(what)
                raise WeftError(f"{told} was made for another context", fix="ask the context that it was made for")
            yield _Use.of(what.code, () if isinstance(what, Function) else what.bindings)
        case Tensor():
            yield _Use.of(complete(Keep((what.node,))))
        case Layer():
            yield _Use.of(Keep(tuple([one.node for one in (*what.params, *what.statistics)])))
        case _ if isinstance(what, Code):
            yield _Use.of(complete(what))
        case tuple() | list():
            for one in what:
                yield from _uses(one, engine)
        case Composed():
            yield from _uses(what.made_of(), engine)
        case _:
            given = f"state is that of steps, layers or tensors, not of {type(what).__name__}"
            raise WeftError(given, fix="give what is run, step = ctx.function(…) or ctx.compile(…), or a list of these")


@dataclass(slots=True)
class _Use:
    """What complete code does to nodes: those it finds values in, because it reads them as `stored` or writes them only
    in `part` too; those it writes; and the counters it uses, with a line where it does."""

    finds: dict[Node, None] = field(default_factory=dict)
    stored: set[Node] = field(default_factory=set)
    part: set[Node] = field(default_factory=set)
    written: dict[Node, None] = field(default_factory=dict)
    counters: dict[StaticIndex, Origin | None] = field(default_factory=dict)

    @staticmethod
    def of(code: Code, bound: Collection[str] = ()) -> _Use:
        """What code does; runs are given the static indices that are `bound`, even if they count."""
        use = _Use()
        for statement in statements(code):
            use._add(statement)
        kept = (node for keep in keeps(code) for node in keep.nodes)
        use.finds |= dict.fromkeys(node for node in kept if node not in use.written)
        for one, line in symbols(code):
            if one.counts and one.name not in bound:
                use.counters.setdefault(StaticIndex(one.name, one.size, True), line)
        return use

    def _add(self, statement: Assignment) -> None:
        stored = [one.node for one in operands_of(statement) if isinstance(one, Stored)]
        self.stored.update(stored)
        self.finds |= dict.fromkeys(stored)
        self.finds |= dict.fromkeys(node for node in nodes_read(statement) if node not in self.written)
        written = target(statement)
        if written not in self.written and written not in self.finds and _writes_part(statement):
            self.part.add(written)
            self.finds[written] = None
        self.written[written] = None

    def lasting(self) -> Iterator[Node]:
        """The nodes that outlive runs, in the order they are met."""
        return filter(self._lasts, dict.fromkeys([*self.finds, *self.written]))

    def _lasts(self, node: Node) -> bool:
        if node.definition is not None:
            return node in self.stored
        if node.iterations is not None or isinstance(node.init, Awaited):
            return False
        if isinstance(node.init, Data | File) and not node.learned:
            return node in self.written
        return node.init is not None or node in self.finds

    def from_zero(self) -> Iterator[Node]:
        """The nodes of code's own that it reads and then writes."""
        own = (node for node in self.finds if node.definition is None and node.gradient_of is None)
        return (node for node in own if node in self.written and node not in self.part)


def _writes_part(statement: Assignment) -> bool:
    """Does it leave some cells of its left side as they were? Where sizes are open, it may."""
    if target(statement).definition is not None:
        return False
    try:
        return written_part(statement) is not None
    except ShapeError:
        return True


def _check_apart(labelled: Iterable[tuple[str, Origin | None]]) -> None:
    """Refuse two things of one label."""
    seen: dict[str, Origin | None] = {}
    for label, origin in labelled:
        if label in seen:
            raise WeftError(
                f"two things that outlive a run are called `{label}`",
                notes=said_at("one", seen[label], origin),
                fix="give them different names: label=… where layers are configured, or names of their own to nodes, "
                "parameters and counters",
            )
        seen[label] = origin
