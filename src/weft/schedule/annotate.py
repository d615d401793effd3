"""How loops run, as decisions: each is a value that is put on a loop, if it is legal there.

    annotate(kernel, "i", Vector(8))      for i in range(64): …      becomes      for i in range(64) on vectors of 8: …
    in_plain_loops(kernel, "…")           for i in range(64) on vectors of 8: …      becomes      for i in range(64): …

A person's options, a tuner's and the passes' own choices all end here. What is legal is said in `loops/legality.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace

from weft.errors import WeftError
from weft.loops import Annotation, For, Role, Staged, Stmt
from weft.loops.annotations import ANNOTATIONS
from weft.loops.legality import illegal, is_cold, is_shared
from weft.loops.staged import plain
from weft.loops.walk import body_of, everything, retargeted, top_down
from weft.schedule.nodes import Kernel


def annotated(loop: For, how: Annotation) -> For:
    """A loop that runs so as well, in place of what it did of that kind."""
    others = [one for one in loop.how if type(one) is not type(how)]
    return replace(loop, how=tuple(sorted([*others, how], key=lambda one: ANNOTATIONS.index(type(one)))))


def annotate(kernel: Kernel, loop: str, how: Annotation) -> Kernel:
    """A kernel with a loop, wherever it has one of that name, that runs so as well."""
    found = [one for one in everything(kernel.body) if isinstance(one, For) and one.loop == loop]
    problem = next(filter(None, (illegal(annotated(one, how)) for one in found)), "")
    changed = replaced(kernel.body, lambda one: (annotated(one, how),) if one.loop == loop else None)
    shared = [one for one in everything(changed) if is_shared(one)]
    if any(map(is_shared, everything([inner for one in shared for inner in body_of(one)]))):
        problem = "threads share a loop around it, or inside"
    if problem or not found:
        raise WeftError(
            f"loop `{loop}` cannot run {how}: {problem or 'there is no such loop'}",
            fix="leave it as it is, or choose another of the kernel's loops",
        )
    return kernel.with_body(changed)


def in_plain_loops(kernel: Kernel, why: str) -> Kernel:
    """A kernel of which nothing is decided, for a reason: loops run as they are written, products are loops.

    What each thread had for itself is there once again.
    """

    def unannotated(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return replaced(body, lambda one: (replace(one, how=(), body=unannotated(one.body)),) if one.how else None)

    shared = retargeted(
        unannotated(plain(kernel.template)),
        lambda buffer, at: (buffer.of if buffer.role is Role.PRIVATE and buffer.of else buffer, at),
    )
    return replace(kernel.with_template(shared), plain=why, decided=True)


def replaced(body: Sequence[Stmt], change: Callable[[For], Sequence[Stmt] | None]) -> tuple[Stmt, ...]:
    """A block with loops replaced, the outermost first; None stands for one that stays, but for the loops inside it."""

    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if isinstance(stmt, Staged):
            return (stmt,)
        return change(stmt) if isinstance(stmt, For) else None

    return top_down(body, rule)


def hot_replaced(body: Sequence[Stmt], change: Callable[[For], Sequence[Stmt] | None]) -> tuple[Stmt, ...]:
    """The same, but for loops that are cold, which stay with all that is in them."""
    return replaced(body, lambda one: (one,) if is_cold(one) else change(one))


def is_innermost(body: Sequence[Stmt]) -> bool:
    """Does a block hold no loops?"""
    return not any(isinstance(one, For | Staged) for one in everything(body))
