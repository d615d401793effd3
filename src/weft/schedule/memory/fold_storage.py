"""Storage folding (array contraction): a buffer whose values outlast no iteration of a loop loses that loop's axis.

    for i: { for j: e[i, j] = exp(x[i, j]);  for j: y[i, j] = e[i, j] / s[i] }      becomes, with e shorter by an axis,
    for i: { for j: e[j] = exp(x[i, j]);     for j: y[i, j] = e[j] / s[i] }

The buffer must be local to this kernel, and its reads covered by writes of the same iteration (`reaching.py`). Then an
axis goes in which every access has one and the same affine index, of loops around all of them and static indices only.

A folded buffer is a buffer of its own (`Role.FOLDED`). Iterations of the loop now share memory, so they are not run in
parallel (`parallelise.py`).
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from itertools import takewhile

from weft.affine import Affine
from weft.loops import Buffer, Role
from weft.loops.reaching_writes import Site, covered, sites
from weft.loops.walk import Body, Cell, free, retargeted
from weft.ops import Scalar
from weft.schedule.kernel_templates import per_template, touched_by_one
from weft.schedule.nodes import Kernel


def folded(kernels: Sequence[Kernel], kept: Collection[Buffer]) -> list[Kernel]:
    """The kernels with smaller buffers; `kept` are those that are live out of the program."""
    inner = touched_by_one(kernels).difference(kept)
    bodies = per_template(kernels, lambda one, own: _folded(one.template, own), inner)
    return list(map(Kernel.with_template, kernels, bodies))


def _folded(body: Body, inner: Collection[Buffer]) -> Body:
    found = sites(body, inner)
    axes = {buffer: idle for buffer, own in found.items() if (idle := _idle_axes(buffer, own)) and _local(own)}
    left = {buffer: [axis for axis in range(len(buffer.shape)) if axis not in idle] for buffer, idle in axes.items()}
    new = {buffer: _shorter(buffer, axes) for buffer, axes in left.items()}

    def cell(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        if buffer not in new:
            return buffer, at
        return new[buffer], tuple(at[axis] for axis in left[buffer]) or (Affine(()),)

    return retargeted(body, cell) if new else body


def _shorter(buffer: Buffer, axes: Sequence[int]) -> Buffer:
    """A buffer with some axes of another; without any, it has one of size 1."""
    return buffer.beside(Role.FOLDED, shape=tuple(buffer.shape[axis] for axis in axes) or (1,))


def _local(own: Sequence[Site]) -> bool:
    """Is all that is read written before, in the same iteration of the loops around all sites?"""
    return covered(own, _common_steps(own))


def _idle_axes(buffer: Buffer, own: Sequence[Site]) -> list[int]:
    """The axes of a buffer in which all sites have one index, which no loop around only some of them moves."""
    shared = _common_steps(own)
    moving = {step.loop[0] for site in own for step in site.steps[shared:] if step.loop is not None}
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


def _common_steps(own: Sequence[Site]) -> int:
    """How many of the statements around all sites are not placed by a backend."""
    first, *rest = own
    shared = len(first.steps)
    for site in rest:
        same = [mine.position == yours.position for mine, yours in zip(first.steps, site.steps, strict=False)]
        shared = min(shared, same.index(False) if False in same else len(same))
    return len([*takewhile(lambda step: not step.staged, first.steps[:shared])])  # a backend orders its own loops
