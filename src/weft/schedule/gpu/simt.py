"""Kernels as launches of SIMT threads: whatever the oracle runs, a GPU runs so.

    for k in range(8): for i in range(64): y[i] += x[i, k]

    becomes

    for i in range(64) on simt threads by 256: for k in range(8): y[i] += x[i, k]

A kernel is one launch, so one whose statements can run apart is cut; statements that share variables stay together. A
launch is a nest whose loops that carry nothing from one iteration to the next come first, whatever their order was: a
thread does one point of these, and the rest of the nest for itself. So a recurrence of independent cells runs along
time in each thread.

    for t in range(9): { for i: u[i] = … h[t, j] …;  for i: h[t + 1, i] = u[i] }

has no such loop outside. It is a launch of one thread block: each of its threads walks the loop over t, they share the
iterations of the loops on simt threads inside, and wait for each other after each of these. What stores anything
outside of such loops becomes one, of a single iteration. Where nothing at all is parallel, all is. One thread block is
a small part of a GPU: where steps have work for many threads and are not too many, each is launches of its own.

A thread adds up one term after another, so long sums are wide (`optimise/wide_sums.py`). One that few threads would add
up is first cut into strips, each of which has an accumulator (`partition.py`).

What is folded keeps its loop from being shared, for different iterations have the same cells; threads have no buffers
of their own. A GPU's pipeline does not fold storage.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import prod
from typing import TypeAlias

from weft.affine import Affine
from weft.loops import Cast, Fill, For, Grid, If, Let, Local, Owners, Remark, Set, Simt, Staged, Stmt, Store
from weft.loops.effects import effects
from weft.loops.legality import carried, on_threads
from weft.loops.names import BlockNames
from weft.loops.walk import (
    Body,
    Loop,
    around,
    body_of,
    bottom_up,
    everything,
    map_scalars,
    parts,
    reads,
    substituted,
    variables,
    with_body,
)
from weft.ops import Num
from weft.optimise.wide_sums import widened
from weft.schedule.annotate import in_plain_loops
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.nests.partition import partitioned
from weft.schedule.nodes import Kernel

#: What a nest is made of before its innermost block.
NestStep: TypeAlias = For | If | Let


def on_simt(kernel: Kernel, options: CompileOptions = DEFAULTS) -> tuple[Kernel, ...]:
    """A kernel as launches."""
    return tuple(replace(kernel, template=one, decided=True) for one in simt_launches(kernel, options))


def is_on_gpu(kernel: Kernel) -> bool:
    """Is it decided already how a GPU runs a kernel?"""
    inside = everything(kernel.template)
    loops = [one for one in inside if isinstance(one, For)]
    return any(isinstance(how, Grid | Owners | Simt) for one in loops for how in one.how) or any(
        isinstance(one, Staged) and one.what.blocks for one in inside
    )


def simt_launches(kernel: Kernel, options: CompileOptions) -> list[Body]:
    """The statements of a kernel's template, cut into launches."""
    body = bottom_up(in_plain_loops(kernel, kernel.plain).template, _without_remarks)
    body = widened(body, options.single_terms)
    names = BlockNames(body)
    body = bottom_up(body, lambda stmt: _filled(stmt, names) if isinstance(stmt, Fill) else (stmt,))
    return _Launches(options, names.fresh("alone")).of(body)


def _without_remarks(stmt: Stmt) -> Body:
    return stmt.body if isinstance(stmt, Remark) else (stmt,)


def _filled(fill: Fill, names: BlockNames) -> Body:
    """A fill as loops."""
    loops = [(names.fresh("at"), size) for size in fill.buffer.shape]
    store = Store(fill.buffer, tuple(Affine.of(name) for name, _ in loops), Cast(fill.buffer.dtype, Num(fill.value)))
    return around(loops, (store,))


def _tied(body: Sequence[Stmt]) -> list[Body]:
    """A block in groups of statements that can run apart: from a variable to its last use is one group."""
    body = _late(body)
    mentioned = list(map(_mentioned, body))
    groups, first, last = list[Body](), 0, 0
    for at, stmt in enumerate(body):
        if isinstance(stmt, Let):
            last = max([last, *(one for one in range(at + 1, len(body)) if stmt.local in mentioned[one])])
        if at >= last:
            groups.append(tuple(body[first : at + 1]))
            first, last = at + 1, at + 1
    return [one for one in groups if effects(one).buffers]


def _late(body: Sequence[Stmt]) -> list[Stmt]:
    """A block with every variable right before it is first used, or before what it is made of changes."""
    done = list[Stmt]()
    for stmt in reversed(body):
        at = 0
        if isinstance(stmt, Let):
            made_of = {*variables(stmt.value), *(one.buffer for one in reads(stmt.value))}
            changed = ({*found.sets, *found.buffers} for found in (effects((one,)) for one in done))
            before = zip(map(_mentioned, done), changed, strict=True)
            at = next((at for at, (uses, new) in enumerate(before) if stmt.local in uses or made_of & new), len(done))
        done.insert(at, stmt)
    return done


def _mentioned(stmt: Stmt) -> set[Local]:
    """The variables that a statement reads or sets."""
    inside = everything((stmt,))
    used = {one for each in inside for part in parts(each) for one in variables(part)}
    return used | {one.local for one in inside if isinstance(one, Set)}


@dataclass(frozen=True, slots=True)
class _Launches:
    """Makes launches; loops of what one thread does are called `alone`."""

    options: CompileOptions
    alone: str

    @property
    def block(self) -> int:
        return self.options.thresholds.simt_block

    def of(self, body: Sequence[Stmt]) -> list[Body]:
        """The launches of a block."""
        lines, done = self.options.thresholds, list[Body]()
        few = replace(lines, most_chunks=lines.simt_strips, joining_share=lines.simt_joining_share)
        in_strips = self.options.but(chunk_ns=1, thresholds=few)
        for group in _tied(body):
            found = self.launch(group)
            strips = partitioned(group, in_strips) if _busiest(found) < self.block else group
            if strips is not group:
                done += map(self.launch, _tied(strips))
            else:
                done += self._steps(group) or [found]
        return done

    def _steps(self, body: Body) -> list[Body]:
        """A recurrence as launches for each of its steps, where these have work for many threads; else nothing."""
        lines = self.options.thresholds
        if len(body) > 1 or not isinstance(loop := body[0], For) or effects(body).sets - effects(body).lets:
            return []
        inside = self.launch(body)
        if on_threads(inside[0])[0] or _busiest(inside) < lines.simt_wide:
            return []
        step = self.of(loop.body)
        if len(step) * loop.size > lines.simt_steps:
            return []
        return [_at(one, loop.loop, number) for number in range(loop.size) for one in step]

    def launch(self, body: Body) -> Body:
        """A block as one launch: as a nest on threads, or in one thread block where more of its threads work then."""
        nest = self._nest(body)
        if nest is not None and _points(nest) >= self.block:
            return (nest,)
        inside = self._shared(body)
        if nest is None:
            return inside if _busiest(inside) > 1 else (self._alone(body),)
        return inside if _busiest(inside) > _points(nest) else (nest,)

    def _nest(self, body: Sequence[Stmt]) -> For | None:
        """A nest with loops on threads outermost; None if no loop can be there."""
        rest, inner = nest_steps(body)
        chosen = list[For]()
        for step in tuple(rest):
            others = [one for one in rest if one is not step]
            if isinstance(step, For) and self._is_free(chosen, step, inside_steps(others, inner)):
                chosen.append(step)
                rest = others
        nest = inside_steps(rest, inner)
        for one in reversed(chosen):
            nest = (For(*_loop(one), nest, (Simt(self.block),)),)
        return nest[0] if chosen and isinstance(nest[0], For) else None

    def _is_free(self, chosen: Sequence[For], step: For, body: Body) -> bool:
        """May threads share a loop inside of those chosen, by what these say of it, and without that as well?

        A test that no iteration of loops outside passes leaves nothing to share; the loop alone does not tell.
        """
        return not carried([*map(_loop, chosen), _loop(step)], body) and not (chosen and carried([_loop(step)], body))

    def _shared(self, body: Sequence[Stmt]) -> Body:
        """A block as the threads of one thread block run it, each of them but for the loops that they share."""
        done, alone = list[Stmt](), list[Stmt]()
        for stmt in body:
            found = self._each(stmt)
            if found is None:
                alone.append(stmt)
                continue
            done += [self._alone(alone), found] if alone else [found]
            alone = []
        return tuple([*done, self._alone(alone)] if alone else done)

    def _each(self, stmt: Stmt) -> Stmt | None:
        """A statement as every thread runs it; None if one does, alone."""
        done = effects((stmt,))
        if not done.buffers:
            return stmt
        if (nest := self._nest((stmt,))) is not None and _points(nest) > 1:
            return nest
        inside = with_body(stmt, self._shared(body_of(stmt))) if isinstance(stmt, For | If) else stmt
        return inside if done.sets - done.lets or _busiest((inside,)) > 1 else None

    def _alone(self, body: Sequence[Stmt]) -> For:
        return For(self.alone, 1, tuple(body), (Simt(self.block),))


def _at(body: Body, loop: str, number: int) -> Body:
    """A block in one iteration of a loop."""
    here = {loop: Affine((), number)}
    return tuple(map_scalars(stmt, lambda scalar: substituted(scalar, here)) for stmt in body)


def nest_steps(body: Sequence[Stmt]) -> tuple[list[NestStep], Body]:
    """The loops and tests of a nest, with variables that nothing inside sets, and the block inside them."""
    steps, body = list[NestStep](), tuple(body)
    while body:
        *lets, last = body
        kept = {one.local for one in lets if isinstance(one, Let)}
        if len(kept) < len(lets) or not isinstance(last, For | If) or kept & effects((last,)).sets:
            break
        steps += [*(one for one in lets if isinstance(one, Let)), last]
        body = last.body
    return steps, body


def inside_steps(steps: Sequence[NestStep], body: Body) -> Body:
    """A block inside the steps of a nest."""
    for one in reversed(steps):
        body = (one, *body) if isinstance(one, Let) else (with_body(one, body),)
    return body


def _loop(stmt: For) -> Loop:
    return stmt.loop, stmt.size


def _points(nest: Stmt) -> int:
    """How many threads have work in a nest of loops on threads."""
    return prod(size for _, size in on_threads(nest)[0])


def _busiest(body: Sequence[Stmt]) -> int:
    """How many threads have work in the largest nest on threads of a block."""
    return max((_points(one) for one in everything(body) if on_threads(one)[0]), default=0)
