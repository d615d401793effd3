"""What a context returns is never out of date.

A draw is a graph of tensors over some leaves, routines that compute and update in any order, and a history: values are
set, routines run, on two devices and enqueued, values are transferred. The model is plain NumPy: it runs assignments
one by one, and knows for each value a run left behind whether anything it was computed from was written since. Then
reading must give the value anew, and before that the very value the run saw.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field

import numpy as np

import weft as wf

Array = np.ndarray
SIZE = 2


@dataclass(eq=False)
class Leaf:
    """A parameter, data, or a node that code assigns to."""

    tensor: wf.Tensor
    start: Array


@dataclass(eq=False)
class Computed:
    """An operation on two earlier tensors; `indexed` ones depend on a static index too."""

    tensor: wf.Tensor
    op: str
    operands: tuple[Leaf | Computed, Leaf | Computed]
    indexed: bool

    @property
    def leaves(self) -> set[Leaf]:
        return {leaf for one in self.operands for leaf in ({one} if isinstance(one, Leaf) else one.leaves)}

    @property
    def depends_on_index(self) -> bool:
        return self.indexed or any(isinstance(one, Computed) and one.depends_on_index for one in self.operands)


@dataclass(eq=False)
class Routine:
    """Steps: a tensor to compute and keep, or a leaf to overwrite or add to."""

    steps: list[tuple[str, Leaf | Computed, Leaf | Computed | None]]
    keep: list[Computed]
    routine: wf.Routine
    takes_index: bool


@dataclass(eq=False)
class Device:
    """What one device holds, by the model: leaves, and what runs left with whether it is up to date."""

    leaves: dict[Leaf, Array] = field(default_factory=dict)
    left: dict[Computed, Array] = field(default_factory=dict)
    current: dict[Computed, bool] = field(default_factory=dict)

    def write(self, leaf: Leaf, value: Array) -> None:
        self.leaves[leaf] = value
        for one in self.left:
            if leaf in one.leaves:
                self.current[one] = False

    def run(self, routine: Routine, index: int) -> None:
        """What code reads is computed once, where it is first needed; `t.forward` computes `t` from the leaves there.

        What the run itself writes makes nothing old.
        """
        values: dict[Computed, Array] = {}
        written: dict[Leaf, None] = {}
        kept: set[Computed] = set()
        for kind, target, source in routine.steps:
            if isinstance(target, Computed):
                forward: dict[Computed, Array] = {}
                compute(target, self.leaves, index, forward)
                values |= forward
                kept.add(target)
            elif source is not None:
                value = compute(source, self.leaves, index, values)
                self.leaves[target] = value.copy() if kind == "set" else self.leaves[target] + value
                written[target] = None
        for one in routine.keep:
            compute(one, self.leaves, index, values)
            kept.add(one)
        for leaf in written:
            self.write(leaf, self.leaves[leaf])
        for one, value in values.items():
            self.left.pop(one, None)
            if one in kept:
                self.left[one], self.current[one] = value, True


def compute(
    one: Leaf | Computed, leaves: dict[Leaf, Array], index: int, values: dict[Computed, Array] | None = None
) -> Array:
    values = {} if values is None else values
    if isinstance(one, Leaf):
        return leaves[one]
    if one not in values:
        a, b = (compute(operand, leaves, index, values) for operand in one.operands)
        found = {"add": a + b, "sub": a - b, "max": np.maximum(a, b), "twice": 2 * a + b}[one.op]
        values[one] = found + index if one.indexed else found
    return values[one]


def refusal(act: Callable[[], object]) -> wf.WeftError | None:
    """What is said against it, if anything."""
    try:
        act()
    except wf.WeftError as error:
        return error
    return None


class Program:
    """A drawn graph, its routines and its history."""

    def __init__(self, rng: np.random.Generator) -> None:
        self.rng = rng
        self.ctx = wf.Context("cc" if rng.random() < 0.05 else "interp", devices=2)
        self.index = wf.index("n", 8)
        self.leaves = [self.leaf(number) for number in range(rng.integers(2, 5))]
        self.computed: list[Computed] = []
        for number in range(rng.integers(2, 7)):
            self.computed.append(self.operation(number))
        self.routines = [self.routine() for _ in range(rng.integers(2, 5))]
        self.devices = [Device({leaf: leaf.start for leaf in self.leaves}) for _ in range(2)]
        self.history: list[str] = []

    def chance(self, probability: float) -> bool:
        return bool(self.rng.random() < probability)

    def pick(self, items: Sequence[object]) -> object:
        return items[int(self.rng.integers(len(items)))]

    def array(self) -> Array:
        return self.rng.integers(-4, 5, SIZE).astype("float64")

    def leaf(self, number: int) -> Leaf:
        start = self.array()
        kind = self.pick(["param", "data", "node"])
        if kind == "data":
            return Leaf(wf.data(start, label=f"d{number}"), start)
        if kind == "param":
            return Leaf(wf.param(f"p{number}", init=start.tolist(), dtype="float64"), start)
        node = wf.node(f"m{number}", init=float(start[0]), dtype="float64")

        @wf.cd
        def never_run() -> None:  # an assignment says how big it is
            node[:] = wf.data(start)

        never_run()
        return Leaf(node, np.full(SIZE, start[0]))

    def operation(self, number: int) -> Computed:
        known = [*self.leaves, *self.computed]
        a, b = (known[int(self.rng.integers(len(known)))] for _ in range(2))
        op, indexed = str(self.pick(["add", "sub", "max", "twice"])), self.chance(0.15)
        x, y = a.tensor, b.tensor
        # The data of zeros keeps the size even where only nodes are combined.
        made: Callable[[], wf.Tensor] = {
            "add": lambda: x + y,
            "sub": lambda: x - y,
            "max": lambda: wf.maximum(x, y),
            "twice": lambda: 2.0 * x + y,
        }[op]
        tensor = made() + wf.data(np.zeros(SIZE))
        if indexed:
            tensor = tensor + self.index
        return Computed(tensor.named(f"t{number}"), op, (a, b), indexed)

    def routine(self) -> Routine:
        steps: list[tuple[str, Leaf | Computed, Leaf | Computed | None]] = []
        for _ in range(self.rng.integers(1, 5)):
            if self.chance(0.5):
                steps.append(("keep", self.computed[int(self.rng.integers(len(self.computed)))], None))
            else:
                target = self.leaves[int(self.rng.integers(len(self.leaves)))]
                steps.append((str(self.pick(["set", "add"])), target, self.pick(self.computed)))  # type: ignore[arg-type]

        @wf.cd
        def assign(kind: str, target: wf.Tensor, source: wf.Tensor) -> None:
            if kind == "set":
                target[:] = source
            else:
                target.accumulate("+", source)

        codes = [
            target.tensor.forward if source is None else assign(kind, target.tensor, source.tensor)
            for kind, target, source in steps
        ]
        used = [target for _, target, _ in steps if isinstance(target, Computed)]
        used += [source for _, _, source in steps if isinstance(source, Computed)]
        keep = [one for one in self.computed if self.chance(0.15)]
        takes = any(one.depends_on_index for one in (*used, *keep))
        bindings = [self.index] if takes else []
        routine = self.ctx.compile(wf.seq(*codes), bindings=bindings, keep=[one.tensor for one in keep])
        return Routine(steps, keep, routine, takes)

    # The history

    def act(self) -> None:
        at = int(self.rng.integers(2)) if self.chance(0.4) else 0
        real, model = self.ctx.device(at), self.devices[at]
        getattr(self, str(self.pick(["set", "run", "feed", "read", "read", "send"])))(at, real, model)

    def feed(self, at: int, real: wf.Device, model: Device) -> None:
        """As in training: what ran last runs again on new data."""
        self.run(at, real, model)
        for _ in range(2):
            self.set(at, real, model)
            self.run(at, real, model, self.last)
        self.read(at, real, model)

    def set(self, at: int, real: wf.Device, model: Device) -> None:
        leaf, value = self.pick(self.leaves), self.array()
        assert isinstance(leaf, Leaf)
        self.history.append(f"device {at}: set {leaf.tensor.label} to {value}")
        real[leaf.tensor] = value
        model.write(leaf, value)

    def run(self, at: int, real: wf.Device, model: Device, again: Routine | None = None) -> None:
        routine, index = again or self.pick(self.routines), int(self.rng.integers(8))
        assert isinstance(routine, Routine)
        self.last = routine
        given = {"n": index} if routine.takes_index else {}
        shown = [(kind, a.tensor.label, b.tensor.label if b else "") for kind, a, b in routine.steps]
        self.history.append(f"device {at}: run {shown}, keep {[one.tensor.label for one in routine.keep]} at {given}")
        times = int(self.rng.integers(1, 4))
        for _ in range(times):
            if at == 0 and self.chance(0.6):
                routine.routine(**given)
            else:
                real.run(routine.routine, **given)
            model.run(routine, index)

    def send(self, at: int, real: wf.Device, model: Device) -> None:
        tensor = self.pick([*self.leaves, *self.computed])
        other, source = self.devices[1 - at], self.ctx.device(1 - at)
        assert isinstance(tensor, Leaf | Computed)
        self.history.append(f"device {at}: receive {tensor.tensor.label}")
        fresh = isinstance(tensor, Leaf) or (tensor in other.left and other.current[tensor])
        if isinstance(tensor, Leaf):
            source[tensor.tensor]
        refused = refusal(lambda: real.receive(tensor.tensor, source))
        assert (refused is None) == fresh, f"is {tensor.tensor.label} up to date? {refused}"
        if refused is not None:
            return
        if isinstance(tensor, Leaf):
            model.write(tensor, other.leaves[tensor])
        else:
            model.left[tensor], model.current[tensor] = other.left[tensor], True

    def read(self, at: int, real: wf.Device, model: Device) -> None:
        one = self.pick([*self.leaves, *self.computed])
        assert isinstance(one, Leaf | Computed)
        self.history.append(f"device {at}: read {one.tensor.label}")
        wanted = self.wanted(one, model)
        assert (one.tensor in real) == (wanted is not None), f"is {one.tensor.label} there?"
        if wanted is None:
            refused = refusal(lambda: real[one.tensor])
            assert refused is not None, f"{real[one.tensor]}, and it cannot be known"
            assert "static index `n`" in refused.what
            return
        found = real[one.tensor]
        assert found.tolist() == wanted.tolist(), f"{found}, not {wanted}"
        if isinstance(one, Computed) and one in model.left:
            assert real[wf.given(one.tensor)].tolist() == model.left[one].tolist()

    def wanted(self, one: Leaf | Computed, model: Device) -> Array | None:
        """What reading must give; None if it must be refused."""
        if isinstance(one, Leaf):
            return model.leaves[one]
        if one in model.left and model.current[one]:
            return model.left[one]
        return None if one.depends_on_index else compute(one, model.leaves, 0)


def check(rng: np.random.Generator) -> None:
    """Draw a program and its history, and look at every step."""
    program = Program(rng)
    try:
        for _ in range(12):
            program.act()
        for at, (real, model) in enumerate(zip(program.ctx.devices, program.devices, strict=True)):
            for one in [*program.leaves, *program.computed]:
                program.history.append(f"device {at}: read {one.tensor.label} at the end")
                wanted = program.wanted(one, model)
                if wanted is not None:
                    assert real[one.tensor].tolist() == wanted.tolist(), f"{real[one.tensor]}, not {wanted}"
    except AssertionError as error:
        raise AssertionError("\n".join([*program.history, str(error)])) from error
