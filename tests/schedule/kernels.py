"""Code of tensors cut into kernels, and memory to run them on."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
from hypothesis import strategies as st

import weft as wf
from tensor.differences import total
from tensor.models import models
from weft.affine import Affine
from weft.assign import Code, Node, Operand, closed_buffer, complete, lower, node_of
from weft.loops import Buffer, Cast, For, Inside, Program, Read, Staged, Stmt, Store, Update, buffers_of
from weft.loops.interp import run
from weft.loops.nests import nests
from weft.loops.walk import everything
from weft.ops import Num, Scalar, call
from weft.ops.dtypes import numpy_type
from weft.optimise.inline import inlined
from weft.optimise.inline_decision import decide
from weft.optimise.loop_order import ordered
from weft.optimise.rewrite import rewrite
from weft.runtime.footprint import footprint_of, nodes_in
from weft.schedule import Kernel
from weft.schedule.fusion.forward_stores import forwarded
from weft.schedule.fusion.fuse import fused
from weft.schedule.nodes import as_kernels
from weft.schedule.products.contractions import stage
from weft.shape.close import close


@dataclass(frozen=True)
class Sample:
    """Kernels, the buffers that must be in memory afterwards, those that are there before, and static indices."""

    kernels: list[Kernel]
    kept: tuple[Buffer, ...]
    given: tuple[Buffer, ...]
    bound: Mapping[str, int] = field(default_factory=dict)

    @property
    def outside(self) -> set[Buffer]:
        return {*self.kept, *self.given}

    def memory(self, kernels: Iterable[Kernel] | None = None, seed: int = 0) -> dict[Buffer, np.ndarray]:
        """Memory for all buffers: what is given is the same for any version of the kernels."""
        found = dict.fromkeys([*self.kept, *self.given, *buffers_in(self.kernels if kernels is None else kernels)])
        numbers = np.random.default_rng(seed)
        return {one: numbers.uniform(0.2, 1.5, one.shape).astype(numpy_type(one.dtype)) for one in found}

    def run(self, kernels: Sequence[Kernel], memory: Mapping[Buffer, np.ndarray], times: int = 1) -> list[np.ndarray]:
        """What the kept buffers hold after some runs."""
        for _ in range(times):
            run(Program(tuple(stmt for kernel in kernels for stmt in kernel.body)), memory, self.bound)
        return [memory[one].copy() for one in self.kept]

    def expected(self, times: int = 1) -> list[np.ndarray]:
        return self.run(self.kernels, self.memory(), times)


def buffers_in(kernels: Iterable[Kernel]) -> tuple[Buffer, ...]:
    return buffers_of(Program(tuple(stmt for kernel in kernels for stmt in kernel.body)))


def scheduled(code: Code, sizes: Mapping[str, int] | None = None, bound: Mapping[str, int] | None = None) -> Sample:
    """Code cut into kernels, not yet rewritten or folded."""
    full = complete(code)
    for node in nodes_in(full):
        close(node.shape)
    footprint = footprint_of(full)
    buffers: dict[Node, Buffer] = {}

    def buffer(operand: Operand) -> Buffer:
        node = node_of(operand)
        if node not in buffers:
            buffers[node] = closed_buffer(node, len(buffers), f"{node.label}_{len(buffers)}")
        return buffers[node]

    parts = [ordered(nest) for nest in nests(lower(full, buffer, list(sizes or {})))]
    kept = {buffer(node): "kept" for node in footprint.leaves}
    virtual = [one for one, verdict in decide(parts, kept).items() if not verdict.stored]
    found = forwarded(fused(as_kernels(inlined(parts, virtual, sizes or {}))), kept)
    return Sample(found, tuple(kept), tuple(dict.fromkeys(map(buffer, footprint.needs))), dict(bound or {}))


def placed(kernels: Iterable[Kernel], kept: Collection[Buffer], points: int = 1 << 10) -> list[Kernel]:
    """Kernels fused for a backend that places contractions of so many points, with those staged."""
    options = wf.CompileOptions(contraction_points=points)
    return stage(forwarded(fused(list(kernels), (), options, placing=True), kept), points)


@st.composite
def model_samples(draw: st.DrawFn) -> Sample:
    """The forward pass, gradients or a training step of a random model, rewritten or not."""
    model, tensor = draw(models())
    loss = total(tensor)
    codes = [
        lambda: loss.forward,
        lambda: wf.grad_update(loss),
        lambda: wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9)),
        lambda: wf.seq(wf.grad_update(loss), wf.optim.adam(loss)),
    ]
    sizes = {index.name: index.size for index in model.bound}
    sample = scheduled(draw(st.sampled_from(codes))(), sizes, {index.name: at for index, at in model.bound.items()})
    if draw(st.booleans()):
        parts = [one.with_body(rewrite(one.body, sizes, False)) for one in sample.kernels]
        return replace(sample, kernels=parts)
    return sample


# Kernels written by hand: `at` is a subscript, `loop` a loop, `read` a value.


def at(*places: str | int) -> tuple[Scalar, ...]:
    """Subscripts: `i`, `i+1`, `2*i`, `-i`, `i+j` or a number."""
    return tuple(map(_place, places))


def _place(text: str | int) -> Affine:
    terms: list[tuple[int, str]] = []
    offset = 0
    for part in str(text).replace("-", "+-").split("+"):
        factor, _, name = part.rpartition("*")
        if part.lstrip("-").isdigit():
            offset += int(part)
        elif part:
            terms.append((int(factor) if factor else -1 if part.startswith("-") else 1, name.lstrip("-")))
    return Affine(tuple(terms), offset)


def loop(name: str, size: int, *body: Stmt) -> For:
    return For(name, size, body)


def read(buffer: Buffer, *places: str | int) -> Read:
    return Read(buffer, at(*places))


def store(buffer: Buffer, places: tuple[Scalar, ...], value: Scalar | float) -> Store:
    return Store(buffer, places, Cast(buffer.dtype, Num(value)) if isinstance(value, float) else value)


def add(buffer: Buffer, places: tuple[Scalar, ...], value: Scalar) -> Update:
    return Update(buffer, places, "add", value)


def plus(left: Scalar, right: Scalar) -> Scalar:
    return call("add", left, right)


def inside(place: str, size: int) -> Inside:
    return Inside(_place(place), size)


def floats(number: int, name: str, *shape: int) -> Buffer:
    return Buffer(number, name, shape, "float32")


def staged_in(body: Sequence[Stmt]) -> list[Staged]:
    """What is staged in a block."""
    return [one for one in everything(body) if isinstance(one, Staged)]
