"""Storage folding (array contraction): a buffer whose values outlast no iteration of a loop loses that loop's axis.

    for i: { for j: e[i, j] = exp(x[i, j]);  for j: y[i, j] = e[i, j] / s[i] }      becomes, with e shorter by an axis,
    for i: { for j: e[j] = exp(x[i, j]);     for j: y[i, j] = e[j] / s[i] }

The buffer must be local to this kernel, and its reads covered by writes of the same iteration (`reaching.py`). Then an
axis goes in which every access has one and the same affine index, of loops around all of them and static indices only.

A folded buffer is a buffer of its own (`Role.FOLDED`). Iterations of the loop now share memory, so they are not run in
parallel (`parallelise.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import takewhile

from weft.affine import Affine
from weft.loops import Buffer, Role
from weft.loops.walk import Cell, free, retargeted
from weft.ops import Scalar
from weft.schedule.nodes import Kernel
from weft.schedule.reaching import Site, covered, sites


def folded(kernels: Sequence[Kernel], kept: Collection[Buffer]) -> list[Kernel]:
    """The kernels with smaller buffers; `kept` are those that are live out of the program."""
    found = [sites(kernel.body) for kernel in kernels]
    users: dict[Buffer, int] = {}
    for one in found:
        for buffer in one:
            users[buffer] = users.get(buffer, 0) + 1
    return [
        _folded(kernel, {buffer: own for buffer, own in one.items() if users[buffer] == 1 and buffer not in kept})
        for kernel, one in zip(kernels, found, strict=True)
    ]


def _folded(kernel: Kernel, inner: Mapping[Buffer, Sequence[Site]]) -> Kernel:
    axes = {buffer: idle for buffer, own in inner.items() if (idle := _idle_axes(buffer, own)) and covered(own)}
    left = {buffer: [axis for axis in range(len(buffer.shape)) if axis not in idle] for buffer, idle in axes.items()}
    new = {buffer: _shorter(buffer, axes) for buffer, axes in left.items()}

    def cell(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        if buffer not in new:
            return buffer, at
        return new[buffer], tuple(at[axis] for axis in left[buffer]) or (Affine(()),)

    return replace(kernel, body=retargeted(kernel.body, cell)) if new else kernel


def _shorter(buffer: Buffer, axes: Sequence[int]) -> Buffer:
    """A buffer with some axes of another; without any, it has one of size 1."""
    return buffer.beside(Role.FOLDED, shape=tuple(buffer.shape[axis] for axis in axes) or (1,))


def _idle_axes(buffer: Buffer, own: Sequence[Site]) -> list[int]:
    """The axes of a buffer in which all sites have one index, which no loop around only some of them moves."""
    moving = {name for site in own for name, _ in site.loops[_common_loops(own) :]}
    cells = {site.access.at for site in own}
    if None in cells:
        return []
    columns = [set(column) for column in zip(*(at for at in cells if at is not None), strict=True)]
    return [
        axis
        for axis, (column, size) in enumerate(zip(columns, buffer.shape, strict=True))
        if size > 1 and len(column) == 1
        if all(isinstance(index, Affine) and moving.isdisjoint(free(index)) for index in column)
    ]


def _common_loops(own: Sequence[Site]) -> int:
    """How many loops enclose all sites."""
    first, *rest = own
    shared = len(first.steps)
    for site in rest:
        same = [mine.position == yours.position for mine, yours in zip(first.steps, site.steps, strict=False)]
        shared = min(shared, same.index(False) if False in same else len(same))
    outer = takewhile(lambda step: not step.staged, first.steps[:shared])  # a backend orders its own loops
    return sum(step.loop is not None for step in outer)
