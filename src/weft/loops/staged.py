"""Staged contractions: the parts of one, and the same code as ordinary loops.

    product of left i; right j; sums k:
        for i: for j: { t = 0;  for k: t = t + a[i, k] * b[k, j];  c[i, j] = relu(t) }

It may be of any semiring (`semiring.py`): `t = max(t, a[i, k] + b[k, j])`. A staged statement means its body, and most
code looks at nothing else. A backend that can place a description reads the body's parts here; for any other there is
`plain`.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from math import prod

from weft.affine import Affine
from weft.loops.nodes import Description, If, Inside, Let, Local, Product, Set, Staged, Stmt, Tile
from weft.loops.semiring import Semiring, is_tiled
from weft.loops.walk import Body, Loop, around, bottom_up, free, map_scalars, perfect, substituted, top_down
from weft.ops import Call, Scalar


@dataclass(frozen=True, slots=True)
class Parts:
    """A product's loops, where its sum starts, its operations, its two factors, and what is done with the sum.

    There are no terms where `tests` do not hold, which say of factors whether they are inside of their tensors. What is
    done with the sum may begin with sums that go on in the same variable (`further_sums`).
    """

    left: tuple[Loop, ...]
    right: tuple[Loop, ...]
    sums: tuple[Loop, ...]
    total: Local
    start: Scalar
    ops: Semiring
    factors: tuple[Scalar, Scalar]
    rest: tuple[Stmt, ...]
    tests: tuple[Inside, ...] = ()


@dataclass(frozen=True, slots=True)
class FurtherSum:
    """A sum of products that goes on where another ended: its loops and its factors, in the order of the first."""

    sums: tuple[Loop, ...]
    factors: tuple[Scalar, Scalar]


def further_sums(parts: Parts) -> tuple[tuple[FurtherSum, ...], tuple[Stmt, ...]]:
    """The sums that go on in a product's total after the first, and what is done with that then."""
    found, rest = list[FurtherSum](), parts.rest
    while rest and (one := _further(parts, rest[0])) is not None:
        found.append(one)
        rest = rest[1:]
    return tuple(found), rest


def _further(parts: Parts, stmt: Stmt) -> FurtherSum | None:
    sums, core = perfect((stmt,))
    match core:
        case (Set(local=local, value=Call(op=op, args=(first, Call(op=combined, args=(one, other))))),):
            left = {name for name, _ in parts.left}
            factors = (other, one) if left.intersection(free(other)) else (one, other)
            if sums and local == first == parts.total and (op, combined) == parts.ops:
                return FurtherSum(sums, factors)
    return None


def every_sum(parts: Parts) -> list[Parts]:
    """A product's sums one by one, each with what is done with the last."""
    further, rest = further_sums(parts)
    own = [FurtherSum(parts.sums, parts.factors), *further]
    return [replace(parts, sums=one.sums, factors=one.factors, rest=rest) for one in own]


def parts_of(staged: Staged) -> Parts:
    """The parts of a staged product."""
    found = _parts(staged.what, staged.body)
    assert found is not None
    return found


def placed_parts(staged: Staged) -> Parts:
    """The parts of a product as it runs in its tiles: loops that are collapsed are one."""
    assert staged.what.tile is not None
    return collapsed_parts(parts_of(staged), staged.what.tile.collapse)


def collapsed_parts(parts: Parts, counts: tuple[int, int, int]) -> Parts:
    """Parts in which so many of the last loops of each kind are one: it goes beyond the axis of the innermost."""
    groups = (parts.left, parts.right, parts.sums)
    kept = [group[len(group) - count :] for group, count in zip(groups, counts, strict=True)]
    still = {name: Affine(()) for run in kept for name, _ in run[:-1]}
    left, right, sums = (
        (*group[: len(group) - len(run)], *((run[-1][0], prod(size for _, size in run)) for _ in run[-1:]))
        for group, run in zip(groups, kept, strict=True)
    )
    return replace(with_indices(parts, still), left=left, right=right, sums=sums)


def with_indices(parts: Parts, indices: Mapping[str, Affine]) -> Parts:
    """Parts in which loops stand at other indices."""
    if not indices:
        return parts

    def moved(scalar: Scalar) -> Scalar:
        return substituted(scalar, indices)

    one, other = map(moved, parts.factors)
    rest = tuple(map_scalars(stmt, moved) for stmt in parts.rest)
    return replace(parts, start=moved(parts.start), factors=(one, other), rest=rest)


def mismatch(what: Description, body: Sequence[Stmt]) -> str:
    """Why a body is not what its description says; nothing if it is."""
    found = _parts(what, body)
    if found is None:
        return f"it does not accumulate products in {what.total}"
    own = _described(what, found)
    if (own.left, own.right) != (what.left, what.right):
        return f"its loops are not {', '.join((*what.left, *what.right))}"
    if own.total != what.total:
        return f"it does not begin with {what.total}"
    return "" if own.sums == what.sums else f"it does not sum over {', '.join(what.sums)}"


def description_of(what: Description, body: Sequence[Stmt]) -> Description:
    """The description of a body that differs in names alone from one that is a `what`."""
    return _described(what, parts_of(Staged(what, tuple(body))))


def with_descriptions(body: Sequence[Stmt]) -> Body:
    """A block with other names than it had, what is staged in it described by them."""

    def rule(stmt: Stmt) -> Body:
        return (Staged(description_of(stmt.what, stmt.body), stmt.body) if isinstance(stmt, Staged) else stmt,)

    return bottom_up(body, rule)


def plain(body: Sequence[Stmt]) -> Body:
    """A block with what is staged as ordinary loops."""
    return top_down(body, lambda stmt: plain(stmt.body) if isinstance(stmt, Staged) else None)


def staged_product(
    left: Sequence[Loop],
    right: Sequence[Loop],
    sums: Sequence[Loop],
    start: Let,
    ops: Semiring,
    factors: tuple[Scalar, Scalar],
    rest: Sequence[Stmt],
    tile: Tile | None = None,
    tests: tuple[Inside, ...] = (),
) -> Staged:
    """A staged product of these parts."""
    term: Body = (Set(start.local, Call(ops[0], (start.local, Call(ops[1], factors)))),)
    core = around(sums, (If(tests, term),) if tests else term)
    what = Product(_names(left), _names(right), _names(sums), start.local.name, tile)
    return Staged(what, around([*left, *right], (start, *core, *rest)))


def _parts(what: Product, body: Sequence[Stmt]) -> Parts | None:
    """The parts of a body that is a product of as many loops, whatever they are called; None if it is none."""
    outer, block = perfect(body, len(what.left) + len(what.right))
    if len(block) < 2 or not isinstance(block[0], Let):
        return None
    start, sums, core = block[0], *perfect(block[1:2], len(what.sums))
    tests: tuple[Inside, ...] = ()
    match core:
        case (If(tests=tests, body=core),):
            pass
    match core:
        case (Set(local=local, value=Call(op=op, args=(first, Call(op=combined, args=(one, other))))),):
            if local == first == start.local and is_tiled((op, combined)):
                left, right = outer[: len(what.left)], outer[len(what.left) :]
                return Parts(left, right, sums, local, start.value, (op, combined), (one, other), block[2:], tests)
    return None


def _described(what: Product, parts: Parts) -> Product:
    left, right, sums = map(_names, (parts.left, parts.right, parts.sums))
    return Product(left, right, sums, parts.total.name, what.tile, what.blocks)


def _names(loops: Sequence[Loop]) -> tuple[str, ...]:
    return tuple(name for name, _ in loops)
