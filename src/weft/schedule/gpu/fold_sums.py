"""Sums of what a product makes, begun where it is made: a partial sum of each block's rows, or columns.

    g[i, j] = f(a[i, k] * b[k, j]);  s[j] += g[i, j]

    becomes

    for b: for r: for j: { t = …;  if r is 0: s.parts[b, j] = 0;  s.parts[b, j] += f(t) }
    for j: for b: s[j] += s.parts[b, j]

What is added up need not be read again, nor stored if nobody else reads it. It is done where the product's points have
all that the sum is made of. Partial sums are added up in order: nothing depends on which is first.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from math import gcd

from weft.affine import Affine
from weft.loops import Buffer, For, Let, Local, Read, Role, Set, Stmt, Store, Update
from weft.loops.effects import accumulation, effects
from weft.loops.folded_sums import folding
from weft.loops.names import BlockNames
from weft.loops.product_legality import SMALLEST_BLOCK
from weft.loops.walk import (
    Body,
    Loop,
    accesses,
    around,
    everything,
    expanded,
    free,
    map_scalars,
    parts,
    perfect,
    reads,
    substituted,
    top_down,
    variables,
)
from weft.ops import OPS, Call, Scalar
from weft.schedule.gpu.gpu_products import best_blocks
from weft.schedule.gpu_model import Gpu
from weft.schedule.nodes import Kernel
from weft.schedule.products.contractions import Contracting, contracting, values_of
from weft.schedule.products.epilogue import matched


def with_folded_sums(kernels: Sequence[Kernel], gpu: Gpu, tf32: bool) -> list[Kernel]:
    """The kernels, with sums of what products make begun there."""
    done = list(kernels)
    for at, kernel in enumerate(kernels):
        if kernel.decided or kernel.recurrence:
            continue
        for found in _sums_in(kernel.body, ()):
            before = _product(done[:at], found)
            folded = None if before is None else _folded(done[before], found, done[at].body, gpu, tf32)
            if before is not None and folded is not None:
                done[before], body = folded
                done[at] = done[at].with_body(body)
    return done


@dataclass(frozen=True, slots=True)
class _Taken:
    """What a statement takes into a cell, or a variable, and by which operation."""

    into: Update | Set
    op: str
    value: Scalar

    def of(self, value: Scalar) -> Stmt:
        """The statement, taking another value."""
        if isinstance(self.into, Update):
            return replace(self.into, value=value)
        return Set(self.into.local, Call(self.op, (self.into.local, value)))


@dataclass(frozen=True, slots=True)
class _NestSum:
    """A nest that accumulates in cells of the loops around it, or in variables, and nothing else."""

    nest: For
    kept: tuple[Loop, ...]
    sums: tuple[Loop, ...]
    taken: tuple[_Taken, ...]

    @property
    def reads(self) -> list[Read]:
        return [read for one in self.taken for read in reads(one.value)]


def _sums_in(body: Sequence[Stmt], kept: tuple[Loop, ...]) -> Iterator[_NestSum]:
    """The nests of a block that accumulate in cells of loops around, those in loops that are alone in it too."""
    for stmt in body:
        if not isinstance(stmt, For):
            continue
        if (found := _sum(stmt, kept)) is not None:
            yield found
        elif not kept or len(body) == 1:
            yield from _sums_in(stmt.body, (*kept, (stmt.loop, stmt.size)))


def _sum(stmt: For, kept: tuple[Loop, ...]) -> _NestSum | None:
    sums, inside = perfect((stmt,))
    lets = [one for one in inside if isinstance(one, Let)]
    known = values_of(lets)
    taken = [found for one in inside if (found := _taken(one, known)) is not None]
    if not kept or not taken or len(lets) + len(taken) < len(inside):
        return None
    whole = _NestSum(stmt, kept, sums, tuple(taken))
    cells = [one.into for one in taken if isinstance(one.into, Update)]
    own, names = {one.buffer for one in cells}, {name for name, _ in kept}
    alone = own.isdisjoint(one.buffer for one in whole.reads) and not any(variables(one.value) for one in taken)
    apart = all({name for index in one.at for name in free(index)} == names for one in cells)
    return whole if alone and apart else None


def _taken(stmt: Stmt, known: Mapping[Local, Scalar]) -> _Taken | None:
    match stmt:
        case Update(buffer=Buffer(dtype=dtype), op=op, value=value):
            found: tuple[str, Scalar] | None = (op, value)
        case Set(local=Local(dtype=dtype)):
            found = accumulation(stmt)
        case _:
            return None
    if found is None or dtype != "float32" or not OPS[found[0]].reorderable:
        return None
    return _Taken(stmt, found[0], expanded(found[1], known))


def _product(before: Sequence[Kernel], found: _NestSum) -> int | None:
    """The last kernel that writes what a sum is made of."""
    wanted = {one.buffer for one in found.reads}
    return next((at for at in range(len(before) - 1, -1, -1) if effects(before[at].body).buffers & wanted), None)


def _folded(kernel: Kernel, found: _NestSum, body: Body, gpu: Gpu, tf32: bool) -> tuple[Kernel, Body] | None:
    """A product that begins a sum of what it makes, and a block that ends it; None if it does not."""
    mine = contracting(kernel.body[0], several=True) if _is_alone(kernel) else None
    if mine is None or mine.what.why or mine.what.is_conditional or mine.what.batch:
        return None
    cells = {one.buffer: one.at for one in mine.rest if isinstance(one, Store)}
    pairs = [(cells[one.buffer], one.at) for one in found.reads if one.buffer in cells]
    names = matched(mine, [*found.kept, *found.sums], pairs) if pairs else None
    if names is None or effects(body).buffers & {one.buffer for one in found.reads}:
        return None
    sides = (mine.what.left, mine.what.right)
    side = next((at for at, one in enumerate(sides) if {names[name] for name, _ in found.sums} == set(dict(one))), None)
    blocks = best_blocks(mine.staged, gpu, tf32)
    if side is None or blocks is None or not _is_at_hand(mine, found, names) or not _is_alone_in(body, found):
        return None
    run = gcd(sides[side][-1][1], blocks[side])
    if run < SMALLEST_BLOCK:
        return None
    result = next(one.buffer for one in found.reads if one.buffer in cells)
    inside = not dict(sides[side]).keys().isdisjoint(free(pairs[0][0][-1]))
    return _split(kernel, mine, found, body, _Folding(result, names, side, run, inside))


def _is_alone(kernel: Kernel) -> bool:
    return len(kernel.body) == 1 and not kernel.decided and not kernel.recurrence


def _is_alone_in(body: Body, found: _NestSum) -> bool:
    """Does only a sum read of a block what it sums up? Registers or caches hold that for what else would."""
    again = {one.buffer for one in accesses(_replaced(body, found.nest, ()))}
    return again.isdisjoint(one.buffer for one in found.reads)


def _is_at_hand(mine: Contracting, found: _NestSum, names: dict[str, str]) -> bool:
    """Has a product at each point all that a sum takes there, but for what many points share?"""
    known = {read for one in everything(mine.rest) for part in parts(one) for read in reads(part)}
    known |= {Read(one.buffer, one.at) for one in mine.rest if isinstance(one, Store)}
    both = [{name for name, _ in one} for one in (mine.what.left, mine.what.right)]
    moved = [_renamed(read, names) for read in found.reads]
    return all(
        read in known or any(one.isdisjoint(name for index in read.at for name in free(index)) for one in both)
        for read in moved
        if isinstance(read, Read)
    )


def _renamed(scalar: Scalar, names: dict[str, str]) -> Scalar:
    return substituted(scalar, {old: Affine.of(new) for old, new in names.items()})


@dataclass(frozen=True, slots=True)
class _Folding:
    """The result that is summed up, what a sum's loops are called in a product, over which side, how many at once.

    Partial sums lie side by side as what they are of does: those of a row, where it sums along memory, `inside`.
    """

    of: Buffer
    names: dict[str, str]
    side: int
    run: int
    inside: bool


def _split(kernel: Kernel, mine: Contracting, found: _NestSum, body: Body, place: _Folding) -> tuple[Kernel, Body]:
    """The product with the last loop of a side in runs, which it adds up, and the block that adds these up."""
    own = (mine.what.left, mine.what.right)[place.side]
    name, size = own[-1]
    runs = BlockNames((*kernel.body, *body)).fresh(f"{name}_run"), size // place.run
    moved = {name: Affine(((place.run, runs[0]), (1, name)))} if runs[1] > 1 else {}
    cut = [one for one in (runs, (name, place.run)) if one[1] > 1]
    loops = [one for loop in mine.what.kept for one in (cut if loop[0] == name else [loop])]
    cells = [one for one in loops if one[0] != name and one[1] > 1]
    cells.sort(key=lambda one: (one in own or one == runs) is place.inside)
    parts = [
        place.of.beside(Role.PARTS, f".parts{at}", shape=tuple(many for _, many in cells))
        for at in range(len(found.taken))
    ]

    def stands(scalar: Scalar) -> Scalar:
        return substituted(scalar, moved)

    folds = [
        folding(Update(part, _at(cells), one.op, stands(_renamed(one.value, place.names))), [(name, place.run)])
        for part, one in zip(parts, found.taken, strict=True)
    ]
    point = (*(map_scalars(one, stands) for one in mine.point), *(stmt for fold in folds for stmt in fold))
    back = {new: old for old, new in place.names.items()}
    again = [(back.get(one, one), many) for one, many in cells]
    sums: Body = tuple(one.of(Read(part, _at(again))) for part, one in zip(parts, found.taken, strict=True))
    outer = [one for one in again if one not in found.kept]
    return kernel.with_body(around(loops, point)), _replaced(body, found.nest, around(outer, sums))


def _at(loops: Sequence[Loop]) -> tuple[Affine, ...]:
    return tuple(Affine.of(name) for name, _ in loops)


def _replaced(body: Sequence[Stmt], old: Stmt, new: Body) -> Body:
    """A block with other statements for one."""
    return top_down(body, lambda stmt: new if stmt is old else None)
