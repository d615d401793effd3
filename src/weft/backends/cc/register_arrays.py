"""Register promotion: cells that a loop accumulates in are held in a local array, which compilers keep in registers.

    for l in range(50): { r = ids[l];  for d in range(64) in registers of 16: y[b, d] += x[r, d] }

    becomes

    for d in range(64) in registers of 16: held[d] = y[b, d]
    for l in range(50): { r = ids[l];  for d in range(64) in registers of 16: held[d] += x[r, d] }
    for d in range(64) in registers of 16: y[b, d] = held[d]

Compilers store what is in memory in every iteration, even where they see that nobody looks at it in between.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from weft.affine import Affine
from weft.backends.c_family.types import c_type
from weft.backends.cc.lines import Lines
from weft.loops import Buffer, For, NonTemporal, Read, Registers, Role, Stmt, Store
from weft.loops.effects import effects
from weft.loops.legality import is_shared
from weft.loops.walk import Body, accesses, body_of, bottom_up, everything, mentioned, retargeted
from weft.ops import Scalar

#: A loop whose iterations are written out, and the cells of a buffer, one for each.
_HeldCells = tuple[For, tuple[Scalar, ...]]


def with_held(body: Sequence[Stmt]) -> Body:
    """A block whose loops accumulate in arrays of their own, where all of these are in registers."""
    return bottom_up(body, lambda stmt: _holding(stmt) if isinstance(stmt, For) else (stmt,))


def held_in(body: Sequence[Stmt]) -> list[Buffer]:
    """The arrays that a block needs, but for what it has threads share."""
    own = [one for stmt in body for one in _unshared(stmt)]
    return list(dict.fromkeys(one.buffer for stmt in own for one in accesses([stmt]) if one.buffer.role is Role.HELD))


def declared_arrays(arrays: Sequence[Buffer], names: Mapping[Buffer, str]) -> Lines:
    """Their declarations."""
    return [f"    {c_type(one.dtype)} {names[one]}[{one.shape[0]}] __attribute__((aligned(64)));" for one in arrays]


def _unshared(stmt: Stmt) -> list[Stmt]:
    if is_shared(stmt):
        return []
    inside = body_of(stmt)
    return [one for each in inside for one in _unshared(each)] if inside else [stmt]


def _holding(loop: For) -> tuple[Stmt, ...]:
    """A loop, with what it accumulates in registers taken there before it, and back afterwards."""
    found = _held(loop)
    if not found:
        return (loop,)
    arrays = {buffer: buffer.beside(Role.HELD, "_held", shape=(one.size,)) for buffer, (one, _) in found.items()}
    inner = {buffer: Affine.of(one.loop) for buffer, (one, _) in found.items()}
    (held,) = retargeted(
        (loop,), lambda buffer, at: (arrays[buffer], (inner[buffer],)) if buffer in found else (buffer, at)
    )
    before, after = list[Stmt](), list[Stmt]()
    for buffer, (one, at) in found.items():
        array, here = arrays[buffer], (inner[buffer],)
        before.append(For(one.loop, one.size, (Store(array, here, Read(buffer, at)),), one.how))
        after.append(For(one.loop, one.size, (Store(buffer, at, Read(array, here)),), one.how))
    return (*before, held, *after)


def _held(loop: For) -> dict[Buffer, _HeldCells]:
    """The buffers of which a loop touches nothing but the same cells in each iteration, in registers."""
    inner = [one for one in loop.body if isinstance(one, For) and _in_registers(one)]
    moving = {one.loop for one in everything([loop]) if isinstance(one, For)}
    found = dict[Buffer, _HeldCells]()
    for one in inner if not is_shared(loop) else ():
        for buffer in effects([one]).buffers:
            cells = {each.at for each in accesses([loop]) if each.buffer == buffer}
            at = cells.pop()
            around = {each.at for each in accesses([one]) if each.buffer == buffer}
            if cells or at is None or {at} != around or mentioned(*at) & moving != {one.loop}:
                continue
            others = [each for each in loop.body if each is not one and buffer in _touched(each)]
            if not others and sum(index == Affine.of(one.loop) for index in at) == 1:
                found[buffer] = one, at
    return found


def _touched(stmt: Stmt) -> set[Buffer]:
    return {one.buffer for one in accesses([stmt])}


def _in_registers(loop: For) -> bool:
    kinds = {type(one) for one in loop.how}
    return Registers in kinds and NonTemporal not in kinds
