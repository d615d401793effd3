"""Splitting of large expressions: scalars have a bounded size, and parts of larger ones get variables of their own.

    y[i] = tanh(… tanh(tanh(x[i] + 1) + 1) …)

    becomes

    part: float32 = tanh(… x[i] …);  part_2: float32 = tanh(… part …);  y[i] = tanh(… part_2 …)

So does a common subexpression of such a scalar. People and gradients write expressions as deep as they like; in the
loop language none is deeper than `DEEPEST`, and passes over scalars may recurse.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from weft.affine import Affine
from weft.loops.insert_casts import dtype_of
from weft.loops.names import BlockNames
from weft.loops.nodes import DEEPEST, Cast, For, Let, Local, Program, Read, Stmt, Store, Update
from weft.loops.walk import INNER, bottom_up, children, everything, parts, with_children, with_parts
from weft.ops import Call, Num, Scalar

#: Scalars of no more operations stay as they are; the parts of larger ones have about so many, with room to rewrite.
_LARGE = DEEPEST // 2


def bounded(program: Program) -> Program:
    """A typed program, as it was lowered, whose scalars are all small enough."""
    loops = frozenset(stmt.loop for stmt in everything(program.body) if isinstance(stmt, For))

    def rule(stmt: Stmt) -> tuple[Stmt, ...]:
        if not isinstance(stmt, Store | Update) or not any(map(_is_large, parts(stmt))):
            return (stmt,)
        lead, done = _cut(parts(stmt), loops)
        return (*lead, with_parts(stmt, tuple(done)))

    return Program(bottom_up(program.body, rule))


def _cut(scalars: Sequence[Scalar], loops: frozenset[str]) -> tuple[list[Stmt], list[Scalar]]:
    """The scalars of a statement, small, and the declarations of the variables in them."""
    orders = [_postorder(scalar) for scalar in scalars]
    lead: list[Stmt] = []
    mentioned = (name for order in orders for one in order if isinstance(one, Affine) for name in one.names)
    names = BlockNames(taken=loops.union(mentioned))
    done = [
        _smaller(order, names, lead) if _is_large(scalar) else scalar
        for scalar, order in zip(scalars, orders, strict=True)
    ]
    return lead, done


def _is_large(scalar: Scalar) -> bool:
    return type(scalar) in INNER and _size(_postorder(scalar)) > _LARGE


def _smaller(order: Sequence[Scalar], names: BlockNames, lead: list[Stmt]) -> Scalar:
    """A scalar with variables in place of its larger parts, and of its common subexpressions."""
    scalar = order[-1]
    uses = Counter(id(part) for one in order for part in children(one))
    small: dict[int, Scalar] = {}
    sizes: dict[int, int] = {}
    for one in order:
        new = with_children(one, tuple([small[id(part)] for part in children(one)]))
        size = _own(one) + sum(sizes[id(part)] for part in children(one))
        if one is not scalar and (size >= _LARGE or (size and uses[id(one)] > 1)):
            local = Local(names.fresh("part"), dtype_of(new))
            lead.append(Let(local, new))
            new, size = local, 0
        small[id(one)], sizes[id(one)] = new, size
    return small[id(scalar)]


def _postorder(scalar: Scalar) -> list[Scalar]:
    """The nodes of a scalar in postorder, each once though several share it."""
    found: dict[int, Scalar] = {}
    rest = [(scalar, False)]
    while rest:
        one, done = rest.pop()
        if done:
            found[id(one)] = one
        elif id(one) not in found:
            rest.append((one, True))
            rest += [(part, False) for part in reversed(children(one))]
    return list(found.values())


def _size(order: Sequence[Scalar]) -> int:
    """How many operations a scalar is, written out."""
    sizes: dict[int, int] = {}
    for one in order:
        sizes[id(one)] = _own(one) + sum(sizes[id(part)] for part in children(one))
    return sizes[id(order[-1])]


def _own(scalar: Scalar) -> int:
    return int(isinstance(scalar, Call | Read) or (isinstance(scalar, Cast) and not isinstance(scalar.value, Num)))
