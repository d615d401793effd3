"""Gradients of a flat definition, as steps: reverse mode, a tensor after everything that reads it.

The gradient of `T(i) += e` by what a read `X(j)` reads is accumulated in `d_X(j)` over the same loops:
`d_X(j) += d_T(i) * ∂e/∂X(j)`. Of a maximum or minimum, all that attain it share; of a product, each gets the product of
the others, zeros included. What a step writes over gets no gradient from what was there before.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial, reduce

from weft.affine import Affine
from weft.assign.explicit import as_affine
from weft.assign.scratch import untaken
from weft.comprehension.scalars import cell, written
from weft.comprehension.show import show_expr
from weft.comprehension.steps import Flat, Step, cells
from weft.comprehension.types import INDEX
from weft.errors import WeftError
from weft.loops import Local, Read
from weft.loops.walk import rewritten, substituted
from weft.ops import OPS, Call, Num, Scalar, call, where
from weft.ops.dtypes import is_float
from weft.tensor.derivative import Of, continuous, contribution, differentiate, share, times


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
    for tensor in reversed(flat.computed):
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
        reads = {read.buffer.name for read in _differentiable(step.value)}
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
        name = untaken(wanted, self.names)
        self.names.add(name)
        self.like[name] = like
        return name

    def adjoint(self, tensor: str) -> str:
        """The gradient of a tensor."""
        if tensor not in self.adjoints:
            self.adjoints[tensor] = self.new(f"d_{tensor}", tensor)
        return self.adjoints[tensor]

    def seed(self, tensor: str) -> str:
        """The gradient of a result as it comes in; it is copied if steps that read the result add to it."""
        seed = self.adjoint(tensor)
        if any(tensor in step.reads for step in self.flat.steps):
            self._copy_adjoint(tensor)
        self.started.add(tensor)
        return seed

    def _copy_adjoint(self, tensor: str) -> str:
        """Let the gradient of a tensor go on in a copy: what was read is not written again."""
        every, before = cells(self.flat.ranks[tensor]), self.adjoints.pop(tensor)
        after = self.adjoint(tensor)
        self.steps.append(Step(after, every, None, False, self._cell(before, every), self.flat.base(tensor)))
        return after

    def tensor(self, tensor: str) -> None:
        """Hand on the gradient of a tensor to what the steps that write it read."""
        for step in reversed(self.flat.writing(tensor)):
            self._step(step)

    def _step(self, step: Step) -> None:
        target = self._cell(step.target, step.at)
        part = share(step.reduction or "arg2", partial(self._collect, step))
        reads = _differentiable(step.value)
        own = [read for read in reads if read.buffer.name == step.target and read.at != step.at]
        if own and step.reduction is None:
            self._recur(step, own, part)
        elif own:
            self._recur_reduced(step, own, part)
        gradient = self._cell(self.adjoint(step.target), step.at)
        for read in reads:
            if read.buffer.name in self.active and read not in own:
                added = contribution(gradient, part(step.value, target), differentiate(step.value, read), self.masked)
                if added is not None:
                    self._add(read, step, added)
        if not step.keeps or step.reduction == "add":
            return
        held = self._before(step, step.at)
        rest = times(gradient, part(held, target)) if held is not None else Num(0)
        if all(isinstance(one, Num) or (isinstance(one, Affine) and one.only) for one in step.at):
            self.steps.append(Step(self._copy_adjoint(step.target), step.at, None, True, rest, step.loops))
        else:
            self._hand_on(step, rest)

    def _hand_on(self, step: Step, rest: Scalar) -> None:
        """Give every cell what the gradient leaves it. Those that a step reaches are hard to name if it computes them,
        and the others are left all of it by the same rule."""
        every = cells(self.flat.ranks[step.target])

        def anywhere(one: Scalar) -> Scalar | None:
            return replace(one, at=every) if isinstance(one, Read) and one.at == step.at else None

        del self.adjoints[step.target]
        after, base = self.adjoint(step.target), self.flat.base(step.target)
        self.steps.append(Step(after, every, None, False, rewritten(rest, anywhere), base))

    def _recur(self, step: Step, reads: Sequence[Read], part: Of) -> None:
        """The gradient of a recurrence is a recurrence, the other way round.

        h(t) = f(h(t - 1), …)      d_h2(t) = d_h(t) + (t + 1 < T ? d_h2(t + 1) * f'(h(t), …) : 0)
        """
        before = self._cell(self.adjoints.pop(step.target), step.at)
        after = self.adjoint(step.target)
        total: Scalar = before
        for read in reads:
            shift = _shift(step, read)
            there = {index.only: index - by for index, by in shift if by}
            value = self._handed_back(step, read, after, part)
            total = total + where(_inside(self.flat.base(step.target), shift), substituted(value, there), Num(0.0))
        self.steps.append(Step(after, step.at, None, False, total, step.loops))

    def _recur_reduced(self, step: Step, reads: Sequence[Read], part: Of) -> None:
        """The gradient of a recurrence that reduces is handed from cell to cell.

        h(t, i) +=! f(h(t - 1, j), …)      d_h2(t, i) = d_h(t, i);  d_h2(t - 1, j) += d_h2(t, i) * f'(h(t - 1, j), …)
        """
        if len(reads) > 1:
            both = " and ".join(f"`{show_expr(written(one))}`" for one in reads[:2])
            what = f"it reduces, and reads {both}"
            fix = "read one cell of those before, and reduce in a statement of its own; or use wf.scan"
            raise NoGradient(f"the gradient of `{step.target}` is not derived: {what}", fix=fix)
        after = self._copy_adjoint(step.target)
        value = self._handed_back(step, reads[0], after, part)
        self.steps.append(Step(after, reads[0].at, "add", True, value, step.loops))

    def _handed_back(self, step: Step, read: Read, after: str, part: Of) -> Scalar:
        """What a cell of a recurrence hands back to one that it reads, of the gradient `after`."""
        share_of = part(step.value, self._cell(step.target, step.at))
        slope = differentiate(step.value, read)
        found = contribution(self._cell(after, step.at), share_of, slope, self.masked)
        return Num(0) if found is None else found

    def _cell(self, tensor: str, at: tuple[Scalar, ...]) -> Read:
        return cell(tensor, self.flat.types[self.like.get(tensor, tensor)], at)

    def _add(self, read: Read, step: Step, value: Scalar) -> None:
        tensor = read.buffer.name
        keeps = tensor in self.started
        self.started.add(tensor)
        self.steps.append(Step(self.adjoint(tensor), read.at, "add", keeps, value, step.loops))

    def _before(self, step: Step, at: tuple[Scalar, ...]) -> Read | None:
        """What a tensor held before a step that keeps it and does not write it over."""
        if not step.keeps or step.reduction is None:
            return None
        copy = self.flat.writing(step.target)[0]
        assert isinstance(copy.value, Read), "what is accumulated otherwise than by adding starts as a copy"
        return self._cell(copy.value.buffer.name, at)

    def _collect(self, step: Step, name: str, reduction: str, of: Of) -> Scalar:
        """A tensor that collects something over the step's loops, starting with what was there before, if anything."""
        tensor = self.new(f"{name}_{step.target}", step.target)
        every = cells(self.flat.ranks[step.target])
        held = self._before(step, every)
        if held is not None:
            first = _as_number(of(held, self._cell(step.target, every)))
            self.steps.append(Step(tensor, every, None, False, first, self.flat.base(step.target)))
        value = _as_number(of(step.value, self._cell(step.target, step.at)))
        self.steps.append(Step(tensor, step.at, reduction, held is not None, value, step.loops))
        return self._cell(tensor, step.at)


class NoGradient(WeftError):
    """A definition that has a gradient, which weft does not derive."""


def _shift(step: Step, read: Read) -> list[tuple[Affine, int]]:
    """How far a cell that is read lies from the one that is written, along each index."""
    found = []
    for own, other in zip(step.at, map(as_affine, read.at), strict=True):
        apart = other - own if isinstance(own, Affine) and isinstance(other, Affine) else own
        if not isinstance(own, Affine) or not isinstance(apart, Affine) or not apart.is_constant:
            what = f"`{show_expr(written(read))}` lies at no fixed distance from what it is read for"
            fix = "read cells that lie so many before or behind, such as `h(t - 1, i)`; or use wf.scan"
            raise NoGradient(f"the gradient of `{step.target}` is not derived: {what}", fix=fix)
        found.append((own, apart.offset))
    return found


def _inside(tensor: str, shift: Sequence[tuple[Affine, int]]) -> Scalar:
    """Does the iteration that reads a cell of a recurrence lie inside it?"""
    tests = [
        call("lt", index - by, Local(f"{tensor}.{axis}", INDEX)) for axis, (index, by) in enumerate(shift) if by < 0
    ]
    tests += [call("le", Num(0), index - by) for index, by in shift if by > 0]
    return reduce(lambda one, other: call("and", one, other), tests)


def _as_number(value: Scalar) -> Scalar:
    """A truth value as what it counts for."""
    return where(value, 1.0, 0.0) if isinstance(value, Call) and OPS[value.op].truth else value


def _differentiable(value: Scalar) -> list[Read]:
    """The different reads of floating-point tensors whose values a scalar depends on continuously."""
    found, waiting = dict[Read, None](), [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, Read) and is_float(one.buffer.dtype):
            found[one] = None
        waiting += reversed(continuous(one))
    return list(found)
