"""Random contractions as loop programs: any order of loops and axes, sums in numbers or memory, work on the result."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod

import numpy as np
from hypothesis import strategies as st

from weft.affine import Affine
from weft.loops import Buffer, Cast, For, Let, Local, Program, Read, Set, Stmt, Store, Update, buffers_of, check
from weft.loops.constants import neutral_of
from weft.loops.interp import run
from weft.loops.semiring import SUM_OF_PRODUCTS, Semiring
from weft.loops.walk import map_scalars
from weft.ops import Call, Num, Scalar
from weft.ops.dtypes import is_float, numpy_type
from weft.schedule import Kernel

Loop = tuple[str, int]
SIZES = st.one_of(st.integers(1, 70), st.sampled_from([1, 2, 7, 8, 9, 15, 16, 17, 31, 32, 33, 48, 64]))
MOST_POINTS = 1 << 14

#: Accumulations and combinations by the type they are computed in, and narrower ones that factors may be stored in.
NUMBERS = [(one, other) for one in ("add", "mul", "max", "min") for other in ("add", "sub", "mul", "max", "min")]
LOGIC = [(one, other) for one in ("and", "or") for other in ("and", "or")]
STORED = {
    "float32": ("float64", "bfloat16", "float16", "int8"),
    "float64": ("float32", "int32"),
    "int64": ("int32", "int16", "uint8", "bool"),
    "uint64": ("int64",),
    "bool": ("int64", "float32"),
}
#: Types of factors that are multiplied several at once, by what they are computed in.
NARROW = {"float32": ("bfloat16",), "int64": ("int8", "uint8"), "uint64": ("uint8",)}
#: What is not a number, or not like other numbers.
SPECIAL = (np.nan, np.inf, -np.inf, -0.0, 0.0)


@dataclass(frozen=True)
class Contraction:
    """Nests as kernels, the buffers that must be there afterwards, and how many numbers a cell sums up."""

    kernels: tuple[Kernel, ...]
    kept: tuple[Buffer, ...]
    depth: int
    points: int
    ops: Semiring = SUM_OF_PRODUCTS
    special: int = 0

    @property
    def program(self) -> Program:
        return Program(tuple(stmt for kernel in self.kernels for stmt in kernel.body))

    def memory(self) -> dict[Buffer, np.ndarray]:
        numbers = np.random.default_rng(0)
        return {one: self._values(one, numbers) for one in buffers_of(self.program)}

    def _values(self, buffer: Buffer, numbers: np.random.Generator) -> np.ndarray:
        """Numbers between -1 and 1, some of them special; whole numbers of any size; truth values."""
        kind = numpy_type(buffer.dtype)
        if kind.kind in "iu":
            least, most = np.iinfo(kind).min, np.iinfo(kind).max
            return numbers.integers(least, most, buffer.shape, dtype=kind, endpoint=True)
        if kind.kind == "b":
            return numbers.uniform(0, 1, buffer.shape) < 0.5
        values = numbers.uniform(-1, 1, buffer.shape)
        for _ in range(self.special if buffer.name in ("a", "b") else 0):
            values[tuple(numbers.integers(size) for size in buffer.shape)] = numbers.choice(SPECIAL)
        return values.astype(kind)

    def sizes(self) -> dict[Buffer, np.ndarray]:
        """What numbers come to if no terms cancel: all are positive, and what does not grow is left out.

        What is infinite or not a number counts as 1: where results are numbers, nothing was left of it but a choice.
        """
        memory = {one: _positive(values) for one, values in self.memory().items()}
        run(check(Program(tuple(map_scalars(stmt, _growing) for stmt in self.program.body))), memory)
        return memory

    def agree(self, ours: dict[Buffer, np.ndarray], meant: dict[Buffer, np.ndarray]) -> None:
        """Equal up to the rounding of as many additions as were made: of a cell, or of all cells into one number.

        Each addition is off by a part of the terms so far, which may be larger than what they come to. What is infinite
        or not a number is so in whatever order terms are added.
        """
        sizes = self.sizes() if self.ops == SUM_OF_PRODUCTS else None
        for buffer in self.kept:
            if not is_float(buffer.dtype):
                np.testing.assert_array_equal(ours[buffer], meant[buffer], err_msg=buffer.name)
                continue
            size = np.finfo(numpy_type(buffer.dtype)).eps
            deep = self.depth if prod(buffer.shape) > 1 else self.points
            allowed = 16 * float(size) * max(deep, 16)
            if sizes is None:
                np.testing.assert_allclose(ours[buffer], meant[buffer], rtol=allowed, atol=allowed, err_msg=buffer.name)
                continue
            finite = np.isfinite(meant[buffer])
            np.testing.assert_array_equal(ours[buffer][~finite], meant[buffer][~finite], err_msg=buffer.name)
            off = np.abs(ours[buffer][finite].astype(np.float64) - meant[buffer][finite])
            assert (off <= allowed * sizes[buffer][finite]).all(), f"{buffer.name} is off by {off.max(initial=0)}"


def _positive(values: np.ndarray) -> np.ndarray:
    if values.dtype.kind in "iub":
        return np.abs(np.maximum(values, -np.iinfo(values.dtype).max) if values.dtype.kind == "i" else values)
    return np.where(np.isfinite(values), np.abs(values), np.ones_like(values))


def _growing(scalar: Scalar) -> Scalar:
    """A scalar without what is never further off than its argument, and may be far smaller."""
    match scalar:
        case Call("tanh", (argument,)):
            return _growing(argument)
        case Call(op, arguments):
            return Call(op, tuple(map(_growing, arguments)))
        case _:
            return scalar


def around(loops: Sequence[Loop], *body: Stmt) -> tuple[Stmt, ...]:
    for name, size in reversed(loops):
        body = (For(name, size, body),)
    return body


def at(*names: str) -> tuple[Scalar, ...]:
    return tuple(Affine(((1, name),)) for name in names) or (Affine(()),)


@st.composite
def contractions(
    draw: st.DrawFn, most: int = MOST_POINTS, semirings: bool = False, narrow: bool = False
) -> Contraction:
    """A sum of products of floats; of another semiring, or of factors that are stored in narrow types."""
    dtype = draw(st.sampled_from([*STORED] if semirings else [*NARROW] if narrow else ["float32", "float64"]))
    ops = draw(st.sampled_from(LOGIC if dtype == "bool" else NUMBERS)) if semirings else SUM_OF_PRODUCTS
    least = int(narrow)  # what is converted and used once stays as loops
    groups = [draw(st.integers(*range_)) for range_ in ((0, 1), (least, 2), (least, 2), (1, 2))]
    if not groups[1] + groups[2]:
        groups[draw(st.integers(1, 2))] = 1
    loops: list[list[Loop]] = []
    points = 1
    for letter, count in zip("bmnk", groups, strict=True):
        loops.append([])
        for number in range(count):
            size = min(draw(SIZES), max(1, most // points))
            points *= size
            loops[-1].append((f"{letter}{number}", size))
    batch, left, right, sums = loops
    kept = draw(st.permutations([*batch, *left, *right]))
    factors = []
    for number, own in enumerate((left, right)):
        buffer, places = draw(tensors(number, dtype, [*batch, *own, *sums], own, sums))
        used_again = (right, left)[number]  # what is computed and used once stays as loops
        read = Read(buffer, places)
        factors.append(draw((narrowed if narrow else computed)(read)) if used_again else read)
    value = Call(ops[1], tuple(draw(st.permutations(factors))))
    axes = draw(st.permutations(kept))
    target = Buffer(2, "c", tuple(size for _, size in axes) or (1,), dtype)
    cell = at(*(name for name, _ in axes))
    body, results = draw(st.sampled_from([number_form, memory_form]))(draw, ops[0], value, target, cell, kept, sums)
    special = draw(st.integers(0, 3)) if semirings else 0
    return Contraction(body, tuple(results), prod(size for _, size in sums), points, ops, special)


@st.composite
def computed(draw: st.DrawFn, read: Read) -> Scalar:
    """A factor as it is read, or computed from what is read."""
    one, dtype = read.buffer, read.buffer.dtype
    if dtype not in ("float32", "float64"):
        stored = draw(st.sampled_from([dtype, *STORED[dtype]]))
        other = Read(Buffer(one.id, one.name, one.shape, stored), read.at)
        return read if stored == dtype else Cast(dtype, other)
    match draw(st.sampled_from(["", "", "", "relu", "half", "masked", "converted"])):
        case "relu":
            return Call("relu", (read,))
        case "half":
            return Call("mul", (read, Cast(dtype, Num(0.5))))
        case "masked":
            return Call("relu_gate", (Read(Buffer(20 + one.id, f"{one.name}_mask", one.shape, dtype), read.at), read))
        case "converted":
            other = draw(st.sampled_from(STORED[dtype]))
            return Cast(dtype, Read(Buffer(one.id, one.name, one.shape, other), read.at))
    return read


@st.composite
def narrowed(draw: st.DrawFn, read: Read) -> Scalar:
    """A factor that is stored in a narrow type, or rounded to it."""
    one, stored = read.buffer, draw(st.sampled_from(NARROW[read.buffer.dtype]))
    if stored == "bfloat16" and draw(st.integers(0, 3)) == 0:
        return Cast(one.dtype, Cast(stored, read))
    return Cast(one.dtype, Read(Buffer(one.id, one.name, one.shape, stored), read.at))


@st.composite
def tensors(
    draw: st.DrawFn, number: int, dtype: str, loops: list[Loop], own: list[Loop], sums: list[Loop]
) -> tuple[Buffer, tuple[Scalar, ...]]:
    """A tensor and where it is read: an axis for each loop in any order, or one for two as in convolutions."""
    sizes = dict(loops)
    axes = [[name] for name, _ in loops]
    if own and draw(st.integers(0, 3)) == 0:
        one, other = draw(st.sampled_from(own))[0], draw(st.sampled_from(sums))[0]
        axes = [axis for axis in axes if axis not in ([one], [other])] + [[one, other]]
    axes = draw(st.permutations(axes))
    shape = tuple(sum(sizes[name] - 1 for name in axis) + 1 for axis in axes)
    places = tuple(Affine(tuple((1, name) for name in axis)) for axis in axes)
    return Buffer(number, "ab"[number], shape or (1,), dtype), places or (Affine(()),)


def number_form(
    draw: st.DrawFn,
    op: str,
    value: Scalar,
    target: Buffer,
    cell: tuple[Scalar, ...],
    kept: list[Loop],
    sums: list[Loop],
) -> tuple[tuple[Kernel, ...], list[Buffer]]:
    """The sum grows in a number; what follows stands in its block, as where a result is computed where it is read."""
    total = Local("total", target.dtype)
    other = Cast(target.dtype, Num(1.5 if target.dtype.startswith("float") else True))
    start = draw(st.sampled_from([neutral_of(op, target.dtype), other, Read(target, cell)]))
    core = around(sums, Set(total, Call(op, (total, value))))
    rest, written = follow(draw, total, target, cell, kept)
    return finished(around(kept, Let(total, start), *core, *rest), written), written


def memory_form(
    draw: st.DrawFn,
    op: str,
    value: Scalar,
    target: Buffer,
    cell: tuple[Scalar, ...],
    kept: list[Loop],
    sums: list[Loop],
) -> tuple[tuple[Kernel, ...], list[Buffer]]:
    """The sum grows in cells; what starts them and what follows are nests of their own, with loops of their own."""
    other = {name: f"{name}x" for name, _ in kept}
    renamed = draw(st.permutations([(other[name], size) for name, size in kept]))
    there = tuple(Affine(tuple((1, other[name]) for _, name in place.terms)) for place in cell)  # type: ignore[attr-defined]
    bias = Read(Buffer(8, "start", target.shape, target.dtype), there)
    mixed = Call("and" if target.dtype == "bool" else "mul", (Read(target, there), bias))
    begin = draw(st.sampled_from([None, neutral_of(op, target.dtype), bias, mixed]))
    clear = around(renamed, Store(target, there, begin)) if begin is not None else ()
    core = around(draw(st.permutations([*kept, *sums])), Update(target, cell, op, value))
    rest, written = follow(draw, Read(target, there), target, there, renamed) if draw(st.booleans()) else ((), [target])
    rest = tuple(one for one in rest if not (isinstance(one, Store) and one.buffer == target))
    nest = around(renamed, *rest) if rest else ()
    return (*(Kernel((), one) for one in (clear, core) if one), *finished(nest, written)), written


def follow(
    draw: st.DrawFn, result: Scalar, target: Buffer, cell: tuple[Scalar, ...], kept: list[Loop]
) -> tuple[tuple[Stmt, ...], list[Buffer]]:
    """What is done with each result, and the buffers that writes."""
    dtype = target.dtype
    done: list[Stmt] = []
    written = [target]
    if not dtype.startswith("float"):
        if draw(st.booleans()):
            written.append(Buffer(4, "y", target.shape, dtype))
            residual = Read(Buffer(5, "x", target.shape, dtype), cell)
            done.append(Store(written[1], cell, Call("or" if dtype == "bool" else "max", (result, residual))))
        return (*done, Store(target, cell, result)), written
    if kept and draw(st.booleans()):
        name, size = draw(st.sampled_from(kept))
        bias = Buffer(3, "bias", (size,), dtype)
        local = Local("biased", dtype)
        done.append(Let(local, Call("add", (result, Read(bias, at(name))))))
        result = local
    if draw(st.booleans()):
        local = Local("active", dtype)
        done.append(Let(local, Call(draw(st.sampled_from(["relu", "tanh"])), (result,))))
        result = local
    if draw(st.booleans()):
        other = Buffer(4, "y", target.shape, dtype)
        residual = Read(Buffer(5, "x", target.shape, dtype), cell)
        done.append(Store(other, cell, Call("add", (result, residual))))
        written.append(other)
    if kept and draw(st.integers(0, 3)) == 0:
        name, size = draw(st.sampled_from(kept))
        sums = Buffer(6, "sums", (size,), dtype)
        done.append(Update(sums, at(name), "add", result))
    if draw(st.integers(0, 3)) == 0:
        whole = Buffer(7, "whole", (1,), dtype)
        done.append(Update(whole, (Affine(()),), "add", result))
        written.append(whole)
    return (*done, Store(target, cell, result)), written


def finished(body: tuple[Stmt, ...], written: Sequence[Buffer]) -> tuple[Kernel, ...]:
    """A nest as a kernel, after one that clears what sums up all its cells."""
    clears = [Store(one, (Affine(()),), Cast(one.dtype, Num(0))) for one in written if one.name == "whole"]
    return tuple(Kernel((), one) for one in (*((clear,) for clear in clears), body) if one)
