"""Affine accesses: reads and writes with the loops and tests around them, as maps from loops to cells."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from weft.affine import AccessMap, Affine, separates
from weft.loops.effects import effects
from weft.loops.nodes import Buffer, For, Inside, Stmt
from weft.loops.walk import Access, Loop, PathStep, own_accesses, scoped


@dataclass(frozen=True, slots=True)
class Site:
    """An access and the statements around it, outermost first, its own last."""

    access: Access
    steps: tuple[PathStep, ...]

    @property
    def loops(self) -> tuple[Loop, ...]:
        return tuple([step.loop for step in self.steps if step.loop is not None])

    @property
    def tests(self) -> tuple[Inside, ...]:
        return tuple([test for step in self.steps for test in step.tests])

    def map(self, outer: int = 0) -> AccessMap:
        """The cells it may touch, the loops of so many outer steps as parameters; values may point anywhere."""
        loops, guards = list[Loop](), list[tuple[Affine, int]]()
        for depth, step in enumerate(self.steps):
            if step.loop is not None and depth < outer:
                guards.append((Affine.of(step.loop[0]), step.loop[1]))
            elif step.loop is not None:
                loops.append(step.loop)
            guards += [(test.index, test.size) for test in step.tests if isinstance(test.index, Affine)]
        indices, anywhere = list[Affine](), AccessMap.all_of(self.access.buffer.shape)
        for index, other, loop in zip(
            self.access.at or anywhere.indices, anywhere.indices, anywhere.loops, strict=True
        ):
            exact = isinstance(index, Affine) and self.access.at is not None
            indices.append(index if isinstance(index, Affine) else other)
            loops += [] if exact else [loop]
        return AccessMap(tuple(indices), tuple(loops), tuple(guards))

    def is_affine(self, outer: int) -> bool:
        """Does it touch all those cells: no gathers, no tests after so many steps that depend on values?"""
        tests = (test.index for step in self.steps[outer:] for test in step.tests)
        axes = zip(self.access.at or (), self.access.buffer.shape, strict=False)
        return all(isinstance(one, Affine) for one in (*(index for index, size in axes if size != 1), *tests))


def sites(body: Sequence[Stmt], buffers: Collection[Buffer] | None = None) -> dict[Buffer, list[Site]]:
    """Every access in a block, to some buffers or all, by buffer and in the order written."""
    found: dict[Buffer, list[Site]] = {}
    for stmt, scope in scoped(body) if buffers is None or buffers else ():
        for access in own_accesses(stmt):
            if buffers is None or access.buffer in buffers:
                found.setdefault(access.buffer, []).append(Site(access, scope.steps))
    return found


def separated(loop: str, touching: Sequence[Site], outer: int = 0) -> bool:
    """Do different iterations of a loop, the step after so many outer ones, touch different cells at these sites?"""
    return all(one.is_affine(outer) for one in touching) and separates(loop, [one.map(outer) for one in touching])


def independent(loop: For, but: Collection[Buffer] = ()) -> bool:
    """Does no iteration of a loop touch a cell that another one writes, nor set a variable of the blocks around?

    Cells of some buffers do not count.
    """
    changed = effects(loop.body)
    if not changed.sets <= changed.lets:
        return False
    touched = sites((loop,), changed.buffers.difference(but))
    return all(separated(loop.loop, some) for some in touched.values())
