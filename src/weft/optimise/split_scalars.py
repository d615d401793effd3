"""Scalars of a bounded size: parts of one that is larger get numbers of their own.

    y[i] = tanh(… tanh(tanh(x[i] + 1) + 1) …)

    becomes

    part: float32 = tanh(… x[i] …);  part_2: float32 = tanh(… part …);  y[i] = tanh(… part_2 …)

So is a part that stands in several places of such a scalar. People and gradients write expressions as deep as they
like; in the loop language none is deeper than `DEEPEST`, and what looks at scalars may recurse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from weft.loops.effects import parts, with_body
from weft.loops.insert_casts import dtype_of
from weft.loops.names import Names
from weft.loops.nests import free
from weft.loops.nodes import (
    DEEPEST,
    Cast,
    For,
    If,
    Let,
    Local,
    Program,
    Read,
    Remark,
    Staged,
    Stmt,
    Store,
    Update,
    inner,
    with_inner,
)
from weft.ops import Call, Num, Scalar

#: Scalars of no more operations stay as they are; the parts of larger ones have about so many, with room to rewrite.
_LARGE = DEEPEST // 2


def bounded(program: Program) -> Program:
    """A typed program, as it was lowered, whose scalars are all small enough."""
    return Program(_block(program.body, frozenset()))


def _block(body: Sequence[Stmt], loops: frozenset[str]) -> tuple[Stmt, ...]:
    return tuple([one for stmt in body for one in _stmt(stmt, loops)])


def _stmt(stmt: Stmt, loops: frozenset[str]) -> Sequence[Stmt]:
    match stmt:
        case For(loop=loop, body=body):
            return (with_body(stmt, _block(body, loops | {loop})),)
        case If(body=body) | Remark(body=body) | Staged(body=body):
            return (with_body(stmt, _block(body, loops)),)
        case Store(buffer=buffer):
            lead, (*at, value) = _cut(parts(stmt), loops)
            return (*lead, Store(buffer, tuple(at), value)) if lead else (stmt,)
        case Update(buffer=buffer, op=op):
            lead, (*at, value) = _cut(parts(stmt), loops)
            return (*lead, Update(buffer, tuple(at), op, value)) if lead else (stmt,)
    return (stmt,)


def _cut(scalars: Sequence[Scalar], loops: frozenset[str]) -> tuple[list[Stmt], list[Scalar]]:
    """The scalars of a statement, small, and the numbers they are computed from."""
    orders = [_inside_out(scalar) for scalar in scalars]
    large = [_size(order) > _LARGE for order in orders]
    if not any(large):
        return [], list(scalars)
    lead: list[Stmt] = []
    names = Names(taken=loops.union(name for order in orders for one in order if not inner(one) for name in free(one)))
    done = [
        _smaller(order, names, lead) if cut else scalar
        for scalar, order, cut in zip(scalars, orders, large, strict=True)
    ]
    return lead, done


def _smaller(order: Sequence[Scalar], names: Names, lead: list[Stmt]) -> Scalar:
    """A scalar with numbers in place of its larger parts, and of those that stand in it more than once."""
    scalar = order[-1]
    uses = Counter(id(part) for one in order for part in inner(one))
    small: dict[int, Scalar] = {}
    sizes: dict[int, int] = {}
    for one in order:
        new = with_inner(one, tuple([small[id(part)] for part in inner(one)]))
        size = _own(one) + sum(sizes[id(part)] for part in inner(one))
        if one is not scalar and (size >= _LARGE or (size and uses[id(one)] > 1)):
            local = Local(names.fresh("part"), dtype_of(new))
            lead.append(Let(local, new))
            new, size = local, 0
        small[id(one)], sizes[id(one)] = new, size
    return small[id(scalar)]


def _inside_out(scalar: Scalar) -> list[Scalar]:
    """Everything in a scalar, each thing once though it may stand in several places, after what it is made of."""
    found: dict[int, Scalar] = {}
    rest = [(scalar, False)]
    while rest:
        one, done = rest.pop()
        if done:
            found[id(one)] = one
        elif id(one) not in found:
            rest.append((one, True))
            rest += [(part, False) for part in reversed(inner(one))]
    return list(found.values())


def _size(order: Sequence[Scalar]) -> int:
    """How many operations a scalar is, written out."""
    sizes: dict[int, int] = {}
    for one in order:
        sizes[id(one)] = _own(one) + sum(sizes[id(part)] for part in inner(one))
    return sizes[id(order[-1])]


def _own(scalar: Scalar) -> int:
    return int(isinstance(scalar, Call | Read) or (isinstance(scalar, Cast) and not isinstance(scalar.value, Num)))
