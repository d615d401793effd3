"""Loop programs whose nests share loops: whatever the passes make of them computes the same, cell by cell.

What is not kept holds rubbish at first, and a program that reads it is not drawn. Cells lie an iteration or two apart,
so that much is carried from one to the next, read late, copied, or overwritten; a sum may have one term that counts,
and an accumulation begin with a copy.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from weft.affine import AccessMap, Affine, injective
from weft.backends.cc import Cc
from weft.loops import Buffer, For, If, Inside, Program, Read, Remark, Stmt, Store, Update, buffers_of, show, typed
from weft.loops.effects import written_in
from weft.loops.interp import run_scalar
from weft.loops.nodes import Collapse, Jam, Parallel, Product, Vector
from weft.loops.walk import around
from weft.ops import Num, Scalar, call
from weft.ops.dtypes import numpy_type
from weft.schedule import Task, stages
from weft.schedule.compile_options import CompileOptions
from weft.schedule.nodes import as_program
from weft.schedule.options import Options

Memory = dict[Buffer, np.ndarray]
STEPS, WIDTH = 4, 3
FLAT = ((STEPS,), (STEPS + 1,), (STEPS + 1,))
SHAPES = (*FLAT, (STEPS, WIDTH), (STEPS + 1, WIDTH), (WIDTH, STEPS), (1,))
OWN = {"i": WIDTH, "j": STEPS, "k": 2}
PLACES = frozenset((Product, Collapse, Parallel, Jam, Vector))


def check(rng: np.random.Generator) -> None:
    """Draw a program and follow it through the passes."""
    maker = _Maker(rng)
    program = before = maker.program()
    meant = maker.after(program)
    task = Task(dict.fromkeys(maker.kept, "kept"), places=PLACES, options=_options(rng))
    for name, stage in stages(program, task):
        body = as_program(stage.kernels)
        if body != before:
            maker.agree(maker.after(body), meant, name, program, body)
        before = body
    if rng.random() < 0.02:
        memory = maker.memory(body)
        Cc().compile(stage.kernels).bind(memory)({})
        maker.agree(memory, meant, "C", program, body)


def _options(rng: np.random.Generator) -> CompileOptions:
    schedule = Options(
        threads=int(rng.choice([1, 1, 2])),
        order=("j", "i") if rng.random() < 0.1 else (),
        tiles=(("j", 2),) if rng.random() < 0.1 else (),
        unroll=int(rng.choice([0, 0, 2])),
    )
    visits = int(rng.choice([1, 1, 4]))
    return CompileOptions(verify=True, max_visits=visits, chunk_ns=1, contraction_points=4, schedule=schedule)


@dataclass(slots=True)
class _Maker:
    rng: np.random.Generator
    buffers: tuple[Buffer, ...] = ()
    kept: tuple[Buffer, ...] = ()
    seed: int = 0
    #: Are there no loops but those that nests share?
    flat: bool = False
    loops: int = 0
    #: What was written last.
    recent: tuple[Buffer, ...] = ()
    #: The loops that are being written, and what is in them so far.
    blocks: list[tuple[str, list[Stmt]]] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.flat = bool(self.rng.random() < 0.5)
        some = FLAT if self.flat else SHAPES
        shapes = [some[self.rng.integers(len(some))] for _ in range(self.rng.integers(3, 7))]
        self.buffers = tuple(Buffer(at, "ABCDEFGH"[at], shape, "int64") for at, shape in enumerate(shapes))
        self.kept = self.buffers[: self.rng.integers(1, len(shapes))]
        self.seed = int(self.rng.integers(99))

    def memory(self, program: Program, rubbish: int = 7) -> Memory:
        given = np.random.default_rng(self.seed)
        found = {one: given.integers(-2, 5, one.shape).astype(numpy_type(one.dtype)) for one in self.kept}
        numbers = np.random.default_rng(rubbish)
        others = [one for one in (*self.buffers, *buffers_of(program)) if one not in found]
        return found | {one: numbers.integers(-99, 99, one.shape).astype(numpy_type(one.dtype)) for one in others}

    def after(self, program: Program, rubbish: int = 7) -> Memory:
        memory = self.memory(program, rubbish)
        run_scalar(program, memory)
        return memory

    def agree(self, found: Memory, meant: Memory, name: str, program: Program, body: Program) -> None:
        wrong = [one for one in self.kept if not np.array_equal(found[one], meant[one])]
        if wrong and not self.reads_rubbish(program, 50):  # which a maximum or a remainder may have hidden
            cells = "\n".join(f"{one.name}: {found[one]}, not {meant[one]}" for one in wrong)
            raise AssertionError(f"after {name}\n{show(program)}\n\n{show(body)}\n{cells}")

    def program(self) -> Program:
        """A program that reads no rubbish."""
        first = [one for one in self.buffers if one not in self.kept and self.rng.random() < 0.4]
        self.blocks = [("", [self.written(one) for one in first])]
        for _ in range(self.rng.integers(2, 6)):
            self.lengthen()
        return self.so_far()

    def lengthen(self, targets: tuple[Buffer, ...] = ()) -> None:
        """One more nest in the block at hand, or a loop around several and a nest that reads what they wrote."""
        if not targets and self.rng.random() < (0.5, 0.1, 0)[len(self.blocks) - 1]:
            self.loops += 1
            self.blocks.append((f"t{self.loops}", []))
            for _ in range(self.rng.integers(2, 5)):
                self.lengthen()
            loop, body = self.blocks.pop()
            self.blocks[-1][1].extend([For(loop, STEPS, tuple(body))] if body else [])
            self.lengthen(self.kept)
            return
        _, block = self.blocks[-1]
        if len(self.blocks) == 1 and self.rng.random() < 0.15:
            block.append(self.copied(self.any(targets or self.buffers)))
        for _ in range(8):
            block.append(Remark("a nest", (self.nest({loop: STEPS for loop, _ in self.blocks[1:]}, targets),)))
            if not self.reads_rubbish(self.so_far()):
                self.recent = (*self.recent[-2:], *written_in(block[-1:]))
                return
            block.pop()

    def so_far(self) -> Program:
        """The program with the loops that are being written."""
        inner = list[Stmt]()
        for loop, body in reversed(self.blocks):
            inner = [*body, *inner]
            inner = [For(loop, STEPS, tuple(inner))] if loop and inner else inner
        return typed(Program(tuple(inner)))

    def written(self, buffer: Buffer) -> Stmt:
        """A nest that writes all of a buffer."""
        loops = [(f"p{axis}", size) for axis, size in enumerate(buffer.shape)]
        at = tuple(Affine.of(name) for name, _ in loops)
        return Remark("all of it", around(loops, (Store(buffer, at, Num(int(self.rng.integers(-2, 3)))),)))

    def copied(self, target: Buffer) -> Stmt:
        """A nest that copies another buffer, or adds it to what is there."""
        loops = [(f"q{axis}", size) for axis, size in enumerate(target.shape)]
        at = tuple(Affine.of(name) for name, _ in loops)
        fits = [one for one in self.buffers if one.shape == target.shape and one != target]
        source = Read(self.any(tuple(fits)), at) if fits else Num(1)
        made = around(loops, (Store(target, at, source),)), around(loops, (Update(target, at, "add", Num(2)),))
        return Remark("a copy, and more", (*made[0], *made[1]))

    def reads_rubbish(self, program: Program, tries: int = 3) -> bool:
        """Does what is written depend on what is held at first?"""
        first, one = self.memory(program, 0), self.after(program, 0)
        for rubbish in range(1, tries):
            second, other = self.memory(program, rubbish), self.after(program, rubbish)
            untouched = {each: (one[each] == first[each]) & (other[each] == second[each]) for each in one}
            if not all(((one[each] == other[each]) | untouched[each]).all() for each in one):
                return True
        return False

    def nest(self, outer: Mapping[str, int], targets: tuple[Buffer, ...]) -> Stmt:
        count = int(self.rng.choice([0, 1, 1, 2] if not outer else [0] if self.flat else [0, 0, 1, 1, 2]))
        own = [(str(name), OWN[str(name)]) for name in self.rng.permutation(list(OWN))[:count]]
        ranges, target = {**outer, **dict(own)}, self.any(targets or self.buffers)
        at = self.at(target, ranges, writes=True)
        value = self.value(ranges, Read(target, at))
        if own and self.rng.random() < 0.1:
            position = Affine.of(own[-1][0])
            one_hot = call("eq", self.value({**outer, **dict(own[:-1])}, Read(target, at), 1), position)
            return around(own, (Update(target, at, "add", call("where", one_hot, value, 0)),))[0]
        affine = tuple(one for one in at if isinstance(one, Affine))
        if self.rng.random() < 0.2 or (len(affine) == len(at) and not injective([AccessMap(affine, tuple(own))])):
            core: Stmt = Update(target, at, str(self.rng.choice(["add", "max", "sub"])), value)
        else:
            core = Store(target, at, value)  # which its points do in different cells: lowering sees to that
        if self.rng.random() < 0.05:
            core = If((Inside(self.affine(9, ranges) - 1, 3),), (core,))
        return around(own, (core,))[0]

    def any(self, some: tuple[Buffer, ...]) -> Buffer:
        return some[self.rng.integers(len(some))]

    def at(self, buffer: Buffer, ranges: Mapping[str, int], *, writes: bool = False) -> tuple[Scalar, ...]:
        return tuple(self.index(size, ranges, writes=writes) for size in buffer.shape)

    def index(self, size: int, ranges: Mapping[str, int], *, writes: bool) -> Scalar:
        if self.rng.random() < 0.04:
            source = self.any(self.buffers)
            return call("mod", Read(source, tuple(self.affine(one, ranges) for one in source.shape)), size)
        return self.affine(size, ranges, writes=writes)

    def affine(self, size: int, ranges: Mapping[str, int], *, writes: bool = False) -> Affine:
        """An index: mostly one iteration's, of what has a cell more that which it found or that which it leaves."""
        fits = [(name, count) for name, count in ranges.items() if count <= size]
        if not fits or self.rng.random() < 0.05:
            return Affine((), int(self.rng.integers(size) if self.rng.random() < 0.3 else 0))
        name, count = fits[0] if self.rng.random() < 0.7 else fits[self.rng.integers(len(fits))]
        usual = size == count + 1 and name.startswith("t") and self.rng.random() < 0.8
        offset = int(writes) if usual else int(self.rng.integers(size - count + 1))
        return Affine(((-1, name),), count - 1 + offset) if self.rng.random() < 0.1 else Affine(((1, name),), offset)

    def value(self, ranges: Mapping[str, int], own: Read, depth: int = 0) -> Scalar:
        if self.rng.random() < 0.08:
            return Num(int(self.rng.integers(3)))
        if self.rng.random() < 0.4 - 0.2 * depth:
            op = str(self.rng.choice(["add", "sub", "max"]))
            return call(op, self.value(ranges, own, depth + 1), self.value(ranges, own, depth + 1))
        source = self.any(self.recent if self.recent and self.rng.random() < 0.6 else self.buffers)
        return own if self.rng.random() < 0.1 else Read(source, self.at(source, ranges))
