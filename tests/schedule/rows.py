"""Random loop programs that may write all of a buffer before they read it, or not quite."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from hypothesis import strategies as st

from loops.programs import Sample, samples
from weft.affine import Affine
from weft.loops import Buffer, Cast, For, If, Inside, Program, Stmt, Store
from weft.loops.walk import retargeted
from weft.ops import Num, Scalar
from weft.schedule import Kernel


@st.composite
def prefaced(draw: st.DrawFn) -> tuple[Sample, Buffer]:
    """A program that starts with writing one of its buffers, in parts, almost, or not at all; and that buffer."""
    sample = draw(samples())
    buffer = draw(st.sampled_from(sample.buffers))
    preface = draw(st.sampled_from(["whole", "whole", "parts", "short", "guarded", "nothing"]))
    return replace(sample, program=Program((*_preface(buffer, preface), *sample.program.body))), buffer


def _preface(buffer: Buffer, kind: str) -> list[Stmt]:
    *outer, last = buffer.shape
    match kind:
        case "whole":
            return [_written(buffer, [*outer, last], 0)]
        case "parts" if last > 1:
            return [_written(buffer, [*outer, last - 1], 1), _written(buffer, [*outer, 1], 0)]
        case "short" if last > 1:
            return [_written(buffer, [*outer, last - 1], 0)]
        case "guarded":
            return [_written(buffer, [*outer, last], 0, Inside(Affine(((1, "p0"),)), 2))]
    return []


def _written(buffer: Buffer, sizes: list[int], offset: int, *tests: Inside) -> Stmt:
    """Loops that write the cells of a buffer, in the last axis from an offset on."""
    names = [f"p{axis}" for axis in range(len(sizes))]
    places = [Affine(((1, name),)) for name in names]
    places[-1] = replace(places[-1], offset=offset)
    stmt: Stmt = Store(buffer, tuple(places), Cast(buffer.dtype, Num(1)))
    stmt = If(tests, (stmt,)) if tests else stmt
    for name, size in reversed(list(zip(names, sizes, strict=True))):
        stmt = For(name, size, (stmt,))
    return stmt


@dataclass(frozen=True)
class Turns:
    """A kernel that runs a program in every turn of a loop, and a buffer of which each turn has a slice of its own."""

    kernel: Kernel
    buffer: Buffer
    others: tuple[Buffer, ...]
    seed: int

    def memory(self) -> dict[Buffer, np.ndarray]:
        numbers = np.random.default_rng(self.seed)
        return {one: numbers.integers(-3, 4, one.shape).astype(one.dtype) for one in (*self.others, self.buffer)}


@st.composite
def turns(draw: st.DrawFn) -> Turns:
    """A random program in a loop, one of its buffers with an axis more."""
    sample, buffer = draw(prefaced())
    size, axis = draw(st.integers(2, 3)), draw(st.integers(0, len(buffer.shape)))
    long = Buffer(9, "T", (*buffer.shape[:axis], size + 1, *buffer.shape[axis:]), buffer.dtype)
    place = draw(
        st.sampled_from([Affine(((1, "t"),)), Affine(((1, "t"),), 1), Affine(((-1, "t"),), size), Affine((), 1)])
    )

    def cell(one: Buffer, at: tuple[Scalar, ...]) -> tuple[Buffer, tuple[Scalar, ...]]:
        return (long, (*at[:axis], place, *at[axis:])) if one == buffer else (one, at)

    body = retargeted(sample.program.body, cell)
    others = tuple(one for one in sample.buffers if one != buffer)
    return Turns(Kernel((), (For("t", size, body),)), long, others, sample.seed)
