"""Scatters whose cells have owners: of the iterations that accumulate into the same cells, one takes the values of all.

    for t: if 0 <= ids[t] < 50304: g[ids[t], d] += x[t, d]

Which cells an iteration touches is known from the indices that move with the loops, the keys. Iterations whose keys are
equal, and for which all tests hold, touch the same cells; the first of them is their owner.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from weft.loops.effects import effects, sources
from weft.loops.nodes import If, Inside, Let, Local, Remark, Stmt, Update
from weft.loops.semiring import is_accumulation
from weft.loops.walk import Loop, expanded, free, variables
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class OwnedScatter:
    """An accumulation into cells under tests, all variables written out; `keys` are the axes that loops move along."""

    tests: tuple[Inside, ...]
    update: Update
    keys: tuple[int, ...]


def scatter_of(loops: Sequence[Loop], body: Sequence[Stmt]) -> OwnedScatter | str:
    """What a block accumulates in the iterations of loops; or why their cells have no owners."""
    tests, inside, known = list[Inside](), list(body), dict[Local, Scalar]()
    while inside:
        match inside:
            case [Let(local=local, value=value), *rest]:
                known[local] = expanded(value, known)
                inside = rest
            case [Remark(body=block)]:
                inside = list(block)
            case [If(tests=more, body=block)]:
                tests += [Inside(expanded(one.index, known), one.size) for one in more]
                inside = list(block)
            case [Update() as update]:
                return _scatter(loops, tuple(tests), update, known) if not effects(body).sets else _MORE
            case _:
                return _MORE
    return _MORE


_MORE = "it does more than accumulate into cells"


def _scatter(
    loops: Sequence[Loop], tests: tuple[Inside, ...], update: Update, known: Mapping[Local, Scalar]
) -> OwnedScatter | str:
    if not is_accumulation(update.op):
        return f"values of `{update.op}` may not come in any order"
    at, value = tuple(expanded(one, known) for one in update.at), expanded(update.value, known)
    scalars = (*at, value, *(one.index for one in tests))
    if any(one in known for scalar in scalars for one in variables(scalar)):
        return "what it computes is too deep to be written out"
    if any(update.buffer in sources(one) for one in scalars):
        return f"it reads `{update.buffer.name}`, which it accumulates into"
    names = {name for name, _ in loops}
    keys = tuple(axis for axis, one in enumerate(at) if names.intersection(free(one)))
    return OwnedScatter(tests, Update(update.buffer, at, update.op, value), keys)
