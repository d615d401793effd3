"""Gradients of a flat definition, as steps: reverse mode, a tensor after everything that reads it.

The gradient of `T(i) += e` by what a read `X(j)` reads is accumulated in `d_X(j)` over the same loops:
`d_X(j) += d_T(i) * ∂e/∂X(j)`. Of a maximum or minimum, all that attain it share; of a product, each gets the product of
the others, zeros included. What a step writes over gets no gradient from what was there before.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TypeAlias

from weft.comprehension.derivative import ONE, ZERO, choose, derivative, differentiable_reads, times
from weft.comprehension.nodes import Binary, Cast, Expr, Int, Read, Real
from weft.comprehension.steps import Flat, Step, cells
from weft.ops.dtypes import accumulator, is_float

#: Something made of what a tensor held before.
_OfOld: TypeAlias = Callable[[Read], Expr]


@dataclass(frozen=True, slots=True)
class Backward:
    """The steps of a gradient.

    `seeds` are the gradients of results that come in, `found` those of parameters that go out; `like` says of every
    tensor the steps add which one it is like.
    """

    steps: tuple[Step, ...]
    seeds: Mapping[str, str]
    found: Mapping[str, str]
    like: Mapping[str, str]


def backward(
    flat: Flat, of: Collection[str], wrt: Collection[str], *, afresh: bool = False, masked: bool = False
) -> Backward:
    """The gradients of the results `of` by the parameters `wrt`.

    The gradients of parameters are added to what they are, unless they too start `afresh`. `masked`: where there is no
    gradient there stays none, even if what it is multiplied with is infinite.
    """
    active = _active(flat, wrt)
    going = _Backward(flat, active, masked, {*flat.types}, started=set() if afresh else set(flat.params))
    seeds = {tensor: going.seed(tensor) for tensor in of if tensor in active}
    last = {step.target: number for number, step in enumerate(flat.steps)}
    for tensor in sorted(last, key=last.__getitem__, reverse=True):
        if tensor in going.adjoints:
            going.tensor(tensor)
    found = {tensor: going.adjoints[tensor] for tensor in wrt if tensor in going.adjoints}
    return Backward(tuple(needed(going.steps, found.values())), seeds, found, going.like)


def needed(steps: Sequence[Step], tensors: Iterable[str]) -> list[Step]:
    """The steps that some tensors depend on."""
    wanted, found = set(tensors), list[Step]()
    for step in reversed(steps):
        if step.target in wanted:
            wanted |= set(step.reads)
            found.append(step)
    return found[::-1]


def _active(flat: Flat, wrt: Collection[str]) -> set[str]:
    """The tensors that change with what is differentiated by."""
    found = {tensor for tensor in wrt if is_float(flat.types[tensor])}
    for step in flat.steps:
        reads = {read.tensor for read in differentiable_reads(step.value, flat.types)}
        if is_float(flat.types[step.target]) and reads & found:
            found.add(step.target)
    return found


@dataclass(slots=True)
class _Backward:
    flat: Flat
    active: set[str]
    masked: bool
    names: set[str]
    steps: list[Step] = field(default_factory=list)
    adjoints: dict[str, str] = field(default_factory=dict)
    like: dict[str, str] = field(default_factory=dict)
    #: The tensors whose gradients have been written to.
    started: set[str] = field(default_factory=set)

    def new(self, wanted: str, like: str) -> str:
        """A tensor of the shape and type of another."""
        name = wanted
        while name in self.names:
            name += "_"
        self.names.add(name)
        self.like[name] = like
        return name

    def adjoint(self, tensor: str) -> str:
        """The gradient of a tensor."""
        if tensor not in self.adjoints:
            self.adjoints[tensor] = self.new(f"d_{tensor}", tensor)
        return self.adjoints[tensor]

    def seed(self, tensor: str) -> str:
        """The gradient of a result as it comes in; it is copied if the steps would change it."""
        seed = self.adjoint(tensor)
        grows = any(tensor in step.reads for step in self.flat.steps)
        if grows or any(step.keeps and step.reduction != "add" for step in self.flat.writing(tensor)):
            del self.adjoints[tensor]
            every = cells(self.flat.ranks[tensor])
            self.steps.append(Step(self.adjoint(tensor), every, None, False, Read(seed, every), tensor))
        self.started.add(tensor)
        return seed

    def tensor(self, tensor: str) -> None:
        """Hand on the gradient of a tensor to what the steps that write it read."""
        for step in reversed(self.flat.writing(tensor)):
            self._step(step)

    def _step(self, step: Step) -> None:
        share, rest = self._share(step)
        gradient = Read(self.adjoint(step.target), step.at)
        for read in differentiable_reads(step.value, self.flat.types):
            if read.tensor in self.active:
                factor = times(share, derivative(step.value, read, self.flat.types))
                if factor != ZERO:
                    self._add(read, step, self._times(gradient, factor))
        if step.keeps and rest != ONE:
            value = times(gradient, rest)
            self.steps.append(Step(gradient.tensor, step.at, None, True, value, step.loops))

    def _times(self, gradient: Expr, factor: Expr) -> Expr:
        if self.masked and not isinstance(factor, Int | Real):
            return choose(Binary("!=", gradient, ZERO), times(gradient, factor), ZERO)
        return times(gradient, factor)

    def _add(self, read: Read, step: Step, value: Expr) -> None:
        keeps = read.tensor in self.started
        self.started.add(read.tensor)
        self.steps.append(Step(self.adjoint(read.tensor), read.subscripts, "add", keeps, value, step.loops))

    def _share(self, step: Step) -> tuple[Expr, Expr]:
        """How a tensor changes with the value at one point, and with what it held before the step."""
        target, value = Read(step.target, step.at), step.value
        match step.reduction:
            case None:
                return ONE, ZERO
            case "add":
                return ONE, ONE
            case "max" | "min":
                value = self._stored(value, step.target)
                ties = self._counted(
                    "ties",
                    step,
                    Binary("==", value, target),
                    lambda old: Binary("==", old, Read(step.target, old.subscripts)),
                )
                part = Binary("/", Real(1.0), ties)
                before = self._before(step, step.at)
                rest = choose(Binary("==", before, target), part, ZERO) if before else ZERO
                return choose(Binary("==", value, target), part, ZERO), rest
        zero = Binary("==", value, ZERO)
        zeros = self._counted("zeros", step, zero, lambda old: Binary("==", old, ZERO))
        others = self._collected("rest", step, "mul", _or_one(value), _or_one)
        share = _others(value, zeros, others)
        before = self._before(step, step.at)
        return share, _others(before, zeros, others) if before else ZERO

    def _stored(self, value: Expr, tensor: str) -> Expr:
        """A value as a tensor holds it: numbers of narrow types are rounded when they are stored."""
        dtype = self.flat.types[tensor]
        return value if accumulator(dtype) == dtype or isinstance(value, Read) else Cast(dtype, value)

    def _before(self, step: Step, at: tuple[Expr, ...]) -> Read | None:
        """What a tensor held before the step."""
        if not step.keeps:
            return None
        copy = self.flat.writing(step.target)[0]
        assert isinstance(copy.value, Read), "what is accumulated otherwise than by adding starts as a copy"
        return Read(copy.value.tensor, at)

    def _counted(self, name: str, step: Step, holds: Expr, held: _OfOld) -> Read:
        one, none = Real(1.0), Real(0.0)
        return self._collected(name, step, "add", choose(holds, one, none), lambda old: choose(held(old), one, none))

    def _collected(self, name: str, step: Step, reduction: str, value: Expr, of_old: _OfOld) -> Read:
        """A tensor that collects something over the step's loops, starting with what was there before, if anything."""
        tensor = self.new(f"{name}_{step.target}", step.target)
        every = cells(self.flat.ranks[step.target])
        before = self._before(step, every)
        if before is not None:
            self.steps.append(Step(tensor, every, None, False, of_old(before), step.target))
        self.steps.append(Step(tensor, step.at, reduction, before is not None, value, step.loops))
        return Read(tensor, step.at)


def _or_one(value: Expr) -> Expr:
    return choose(Binary("==", value, ZERO), Real(1.0), value)


def _others(value: Expr, zeros: Expr, product: Expr) -> Expr:
    """The product of all factors but one, given how many are zero and the product of those that are not."""
    alone = choose(Binary("==", zeros, Real(1.0)), product, ZERO)
    divided = choose(Binary("==", zeros, Real(0.0)), Binary("/", product, value), ZERO)
    return choose(Binary("==", value, ZERO), alone, divided)
