"""Loop programs that write where data says: whatever the passes make of them computes the same, cell by cell."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from weft.affine import Affine
from weft.backends.cc import Cc
from weft.loops import Buffer, If, Inside, Program, Read, Stmt, Store, Update, buffers_of, show, typed
from weft.loops.interp import run_scalar
from weft.loops.nests import nests
from weft.loops.nodes import Collapse, Jam, Parallel, Product, Vector
from weft.loops.walk import around
from weft.ops import Num, Scalar, call
from weft.ops.dtypes import numpy_type
from weft.schedule import Task, stages
from weft.schedule.compile_options import CompileOptions
from weft.schedule.nodes import as_program

#: Loops have few sizes, and so have axes: nests that could share loops, and cells, are common.
SIZES = {"i": 4, "j": 3, "k": 4}
SHAPES = ((4,), (3,), (4,), (4, 3), (4, 4), (1,))
TYPES = ("int64", "int64", "float32", "int32")
PLACES = (Product, Collapse, Parallel, Jam, Vector)


def check(rng: np.random.Generator) -> None:
    maker = _Maker(rng)
    program = typed(Program(tuple(maker.nest() for _ in range(rng.integers(2, 6)))))
    found = [one for one in maker.values if rng.random() < 0.5] or [maker.values[0]]
    found += [one for one in maker.positions if _is_needed(one, program) or rng.random() < 0.5]
    kept = dict.fromkeys(found, "kept")
    threads = int(rng.integers(1, 3))
    options = CompileOptions(verify=True, threads=threads, chunk_ns=1, contraction_points=4)
    meant = _after(program, maker.memory())
    stage = None
    for name, stage in stages(program, Task(kept, places=PLACES, options=options)):
        body = as_program(stage.kernels)
        _agree(_after(body, maker.memory(body)), meant, kept, name, program, body)
    if stage is not None and rng.random() < 0.1:
        memory = maker.memory(body)
        Cc().compile(stage.kernels).bind(memory)({})
        _agree(memory, meant, kept, "C", program, body)


def _is_needed(buffer: Buffer, program: Program) -> bool:
    """Must what a buffer held before stay, because it is written in part, or read first?"""
    touching = [one for one in nests(program) if buffer in (one.target, *(read.buffer for read in one.reads))]
    return any(one.target == buffer for one in touching) and not touching[0].fills


Memory = dict[Buffer, np.ndarray]


def _after(program: Program, memory: Memory) -> Memory:
    run_scalar(program, memory)
    return memory


def _agree(found: Memory, meant: Memory, kept: Iterable[Buffer], name: str, program: Program, body: Program) -> None:
    for buffer in kept:
        same = np.array_equal(found[buffer], meant[buffer])
        assert same, f"{name} of {buffer.name}\n{show(program)}\n\n{show(body)}\n{found[buffer]}\n{meant[buffer]}"


@dataclass(slots=True)
class _Maker:
    """Draws nests of one write each, over buffers of values and of positions."""

    rng: np.random.Generator
    values: tuple[Buffer, ...] = ()
    positions: tuple[Buffer, ...] = ()
    target: Buffer | None = None
    seed: int = 0

    def __post_init__(self) -> None:
        shapes = [SHAPES[self.rng.integers(len(SHAPES))] for _ in range(6)]
        types = [TYPES[self.rng.integers(len(TYPES))] for _ in range(4)] + ["int64", "int32"]
        made = [Buffer(number, "UVXYIJ"[number], *one) for number, one in enumerate(zip(shapes, types, strict=True))]
        self.values, self.positions, self.seed = tuple(made[:4]), tuple(made[4:]), int(self.rng.integers(99))

    def memory(self, program: Program | None = None) -> Memory:
        """What buffers hold at first; those of a schedule's own hold rubbish."""
        numbers = np.random.default_rng(self.seed)
        found = {
            one: numbers.integers(-2, 5, one.shape).astype(numpy_type(one.dtype))
            for one in (*self.values, *self.positions)
        }
        own = buffers_of(program) if program else ()
        return {one: np.full(one.shape, 77, numpy_type(one.dtype)) for one in own if one not in found} | found

    def nest(self) -> Stmt:
        names = list(self.rng.permutation(list(SIZES))[: self.rng.integers(1, 4)])
        self.target = None
        self.target = target = self.any(self.values if self.rng.random() < 0.9 else self.positions)
        at = self.at(target, names)
        value = self.value(names, Read(target, at))
        if self.rng.random() < 0.4:
            core: Stmt = Store(target, at, value)
        else:
            core = Update(target, at, str(self.rng.choice(["add", "add", "max", "sub"])), value)
        if self.rng.random() < 0.2:
            core = If((Inside(self.index(names, 4), 2),), (core,))
        return around([(name, SIZES[name]) for name in names], (core,))[0]

    def any(self, some: tuple[Buffer, ...]) -> Buffer:
        """A nest reads what it writes in the very cell alone: lowering sees to that."""
        others = [one for one in some if one is not self.target]
        return others[self.rng.integers(len(others))]

    def at(self, buffer: Buffer, names: list[str]) -> tuple[Scalar, ...]:
        return tuple(self.index(names, size) for size in buffer.shape)

    def index(self, names: list[str], size: int) -> Scalar:
        if self.rng.random() < 0.4:
            source = self.any((*self.positions, *(one for one in self.values if "int" in one.dtype)))
            return call("mod", Read(source, tuple(self.affine(names, one) for one in source.shape)), size)
        return self.affine(names, size)

    def affine(self, names: list[str], size: int) -> Affine:
        fits = [name for name in names if SIZES[name] <= size]
        return Affine.of(str(self.rng.choice(fits))) if fits and self.rng.random() < 0.9 else Affine((), size - 1)

    def value(self, names: list[str], own: Read) -> Scalar:
        if self.rng.random() < 0.15:
            return Num(int(self.rng.integers(3)))
        source = self.any((*self.values, *self.positions))
        read = own if self.rng.random() < 0.1 else Read(source, self.at(source, names))
        return call("sub", read, self.value(names, own)) if self.rng.random() < 0.3 else read
