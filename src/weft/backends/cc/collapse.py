"""Two loops as one, where the cells they touch follow each other as if they were: a long loop fills vectors better.

    for h in range(28): for w in range(28): y[h, w] = x[h, w]      for w in range(784): y[0, w] = x[0, w]

In memory `x[0, 28]` is `x[1, 0]`. Only the C text goes beyond an axis in this way, never beyond a buffer.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from weft.affine import Affine
from weft.loops import Cast, For, If, Let, Read, Remark, Set, Staged, Stmt, Store, Update, walk
from weft.loops.effects import everything, mapped, parts, with_body
from weft.loops.nests import moved, stride
from weft.ops import Call, Scalar


def collapsed(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block with loops made one where they can be, from the innermost out."""
    return tuple(_collapsed(stmt) for stmt in body)


def _collapsed(stmt: Stmt) -> Stmt:
    if isinstance(stmt, Staged) or not isinstance(stmt, For | If | Remark):
        return stmt
    whole = with_body(stmt, collapsed(stmt.body))
    match whole:
        case For(loop=outer, size=count, body=(For(loop=inner, size=size, body=body),)):
            if all(_follow(one, outer, inner, size) for one in everything(body)):
                start = {outer: Affine(())}
                return For(inner, count * size, tuple(mapped(one, lambda part: moved(part, start)) for one in body))
    return whole


def _follow(stmt: Stmt, outer: str, inner: str, size: int) -> bool:
    """Do two loops only stand in subscripts, where a turn of the outer one goes as far as all of the inner one's?"""
    if isinstance(stmt, If | Staged):
        return False
    reads = [one for part in parts(stmt) for one in walk(part) if isinstance(one, Read)]
    cells = [Read(stmt.buffer, stmt.at), *reads] if isinstance(stmt, Store | Update) else reads
    values = [stmt.value] if isinstance(stmt, Store | Update | Let | Set) else []
    if any(name in (outer, inner) for value in values for name in _outside(value)):
        return False
    steps = [(stride(cell, outer), stride(cell, inner)) for cell in cells]
    return all(far is not None and near is not None and far == size * near for far, near in steps)


def _outside(scalar: Scalar) -> Iterator[str]:
    """The loops a scalar mentions outside subscripts."""
    match scalar:
        case Affine(terms=terms):
            yield from (name for _, name in terms)
        case Call(args=args):
            for arg in args:
                yield from _outside(arg)
        case Cast(value=value):
            yield from _outside(value)
