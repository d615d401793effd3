"""Decisions about a launch of a GPU put in place: other numbers for what passes put on its loops and products.

    for i on a grid by 1024 with 4 warps: …    becomes, with i0 on a grid by 512 with 8 warps,
    for i on a grid by 512 with 8 warps: …

Which loops are on a grid and which in lanes follows from how memory is walked; how many lanes, warps, rows, columns and
stages is what machines differ in. So a launch is tuned after it was put on a grid, and is known by what it was then.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from weft.loops import For, Grid, Lanes, MalformedLoops, Owners, Product, Program, Role, Staged, Stmt, check
from weft.loops.effects import effects
from weft.loops.walk import everything, top_down
from weft.schedule.canonical import systematic
from weft.schedule.decisions import Decisions, decisions_of
from weft.schedule.nodes import Kernel


def is_launch(body: Sequence[Stmt]) -> bool:
    """Is it decided of a block how programs of a GPU run it?"""
    inside = everything(body)
    on_grid = (how for one in inside if isinstance(one, For) for how in one.how)
    blocks = (one for one in inside if isinstance(one, Staged) and one.what.blocks is not None)
    return any(isinstance(one, Grid | Owners) for one in on_grid) or any(True for _ in blocks)


def with_gpu_decisions(kernel: Kernel, chosen: Decisions, static: Mapping[str, int] | None = None) -> Kernel:
    """A launch with other numbers; raises what is wrong with them, if anything is."""
    named = systematic(kernel.body)
    before = decisions_of(named.body)
    _check_kinds(before, chosen)
    if any(one.role is Role.PRIVATE for one in effects(named.body).buffers) and _lanes(before) != _lanes(chosen):
        raise MalformedLoops("lanes hold values from loop to loop, so their number stays")
    done = check(Program(named.back(_changed(named.body, chosen))), static or {})
    return replace(kernel.with_body(done.body), decided=True)


def _changed(body: Sequence[Stmt], chosen: Decisions) -> tuple[Stmt, ...]:
    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        match stmt:
            case For(loop=loop, size=size, body=inside):
                return (For(loop, size, _changed(inside, chosen), chosen.how(loop)),)
            case Staged(what=what):
                found = chosen.product(what.total)
                return (Staged(replace(what, blocks=found.blocks if found else None), stmt.body),)
        return None

    return top_down(body, rule)


def _check_kinds(before: Decisions, chosen: Decisions) -> None:
    """Loops run as they did, by other numbers."""
    if chosen.tiles or chosen.order:
        raise MalformedLoops("the loops of a launch stand as they do")
    for loop in {*dict(before.loops), *dict(chosen.loops)}:
        if list(map(type, before.how(loop))) != list(map(type, chosen.how(loop))):
            raise MalformedLoops(f"of `{loop}` only numbers may be others: {', '.join(map(str, before.how(loop)))}")
        if [one for one in before.how(loop) if not isinstance(one, _TUNED)] != [
            one for one in chosen.how(loop) if not isinstance(one, _TUNED)
        ]:
            raise MalformedLoops(f"how many loops `{loop}` runs as one stays")
    for total in {*dict(before.products), *dict(chosen.products)}:
        old, new = before.product(total), chosen.product(total)
        if old is None or new is None or (old.blocks is None) != (new.blocks is None):
            raise MalformedLoops(f"`{total}` is no product in blocks, or is to be none")
        if replace(old, blocks=None) != replace(new, blocks=None) or _precision(old) != _precision(new):
            raise MalformedLoops(f"of `{total}` only the numbers of its blocks may be others")


#: The annotations whose numbers may be others.
_TUNED = (Grid, Lanes, Owners)


def _precision(what: Product) -> str:
    return what.blocks.precision if what.blocks else ""


def _lanes(found: Decisions) -> list[tuple[str, Lanes]]:
    return [(loop, one) for loop, how in found.loops for one in how if isinstance(one, Lanes)]
