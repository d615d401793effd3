"""Staged code: its parts, and the same code as ordinary loops.

    product of left i; right j; sums k:
        for i: for j: { t = 0;  for k: t = t + a[i, k] * b[k, j];  c[i, j] = relu(t) }

A staged statement means its body, and most code looks at nothing else. A backend that can place a description reads the
body's parts here; for any other there is `plain`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from weft.loops.nodes import Description, For, If, Let, Local, Product, Remark, Set, Staged, Stmt, Tile
from weft.loops.walk import with_body
from weft.ops import Call, Scalar

#: A loop: its name and size.
Loop = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Parts:
    """A product's loops, where its sum starts, its two factors, and what is done with the sum."""

    left: tuple[Loop, ...]
    right: tuple[Loop, ...]
    sums: tuple[Loop, ...]
    total: Local
    start: Scalar
    factors: tuple[Scalar, Scalar]
    rest: tuple[Stmt, ...]


def parts_of(staged: Staged) -> Parts:
    """The parts of a staged product."""
    what = staged.what
    body, outer = _inside(staged.body, len(what.left) + len(what.right))
    start, nest, *rest = body
    assert isinstance(start, Let)
    (core,), sums = _inside((nest,), len(what.sums))
    assert isinstance(core, Set)
    assert isinstance(core.value, Call)
    value = core.value.args[1]
    assert isinstance(value, Call)
    one, other = value.args
    left, right = outer[: len(what.left)], outer[len(what.left) :]
    return Parts(left, right, sums, start.local, start.value, (one, other), tuple(rest))


def mismatch(what: Description, body: Sequence[Stmt]) -> str:
    """Why a body is not what its description says; nothing if it is."""
    block, outer = _inside(body, len(what.left) + len(what.right))
    if tuple(name for name, _ in outer) != (*what.left, *what.right):
        return f"its loops are not {', '.join((*what.left, *what.right))}"
    if len(block) < 2 or not isinstance(block[0], Let) or block[0].local.name != what.total:
        return f"it does not begin with {what.total}"
    core, sums = _inside(block[1:2], len(what.sums))
    if tuple(name for name, _ in sums) != what.sums:
        return f"it does not sum over {', '.join(what.sums)}"
    return "" if len(core) == 1 and _adds(core[0], block[0].local) else f"it does not add products to {what.total}"


def described(what: Description, body: Sequence[Stmt]) -> Description:
    """The description of a body that differs in names alone from one that is a `what`."""
    block, outer = _inside(body, len(what.left) + len(what.right))
    start = block[0]
    assert isinstance(start, Let)
    _, sums = _inside(block[1:2], len(what.sums))
    names = [name for name, _ in outer]
    at = len(what.left)
    of_sums = tuple(name for name, _ in sums)
    return Product(tuple(names[:at]), tuple(names[at:]), of_sums, start.local.name, what.tile)


def plain(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block with what is staged as ordinary loops."""
    found: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Staged(body=inner):
                found += plain(inner)
            case For() | If() | Remark():
                found.append(with_body(stmt, plain(stmt.body)))
            case _:
                found.append(stmt)
    return tuple(found)


def product(
    left: Sequence[Loop],
    right: Sequence[Loop],
    sums: Sequence[Loop],
    start: Let,
    factors: tuple[Scalar, Scalar],
    rest: Sequence[Stmt],
    tile: Tile | None = None,
) -> Staged:
    """A staged product of these parts."""
    total = start.local
    core = _around(sums, (Set(total, Call("add", (total, Call("mul", factors)))),))
    of_left, of_right, of_sums = (tuple(name for name, _ in one) for one in (left, right, sums))
    what = Product(of_left, of_right, of_sums, total.name, tile)
    return Staged(what, _around([*left, *right], (start, *core, *rest)))


def _around(loops: Sequence[Loop], body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    for name, size in reversed(loops):
        body = (For(name, size, body),)
    return body


def _inside(body: Sequence[Stmt], depth: int) -> tuple[tuple[Stmt, ...], tuple[Loop, ...]]:
    """What is inside so many loops, and the loops; fewer where there are not so many."""
    loops: list[Loop] = []
    while len(loops) < depth and len(body) == 1 and isinstance(body[0], For):
        loops.append((body[0].loop, body[0].size))
        body = body[0].body
    return tuple(body), tuple(loops)


def _adds(stmt: Stmt, total: Local) -> bool:
    match stmt:
        case Set(local=local, value=Call(op="add", args=(first, Call(op="mul")))):
            return local == first == total
    return False
