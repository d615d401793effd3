"""Names: new ones, and one for each variable.

    for i: { t = x[i];  y[i] = t };  for i: { t = y[i];  z[i] = t }      becomes      … { t_2 = y[i];  z[i] = t_2 }

Where every variable has a name of its own, variables can move between blocks and are never mistaken for one another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator, Sequence
from itertools import count

from weft.loops.effects import names
from weft.loops.nodes import Cast, For, Let, Local, Program, Read, Role, Stmt
from weft.loops.walk import buffers_of, everything, free, parts, rename
from weft.naming import FreshNames
from weft.ops import Call, Scalar


class BlockNames:
    """The names of a block, looked up once a new one is needed."""

    def __init__(self, body: Sequence[Stmt] = (), taken: Collection[str] = ()) -> None:
        self._body = body
        self._names = FreshNames(taken)

    def fresh(self, name: str) -> str:
        """A name like `name` that nothing else has."""
        self._names.take(names(self._body))
        self._body = ()
        wanted = name.replace(".", "_")
        return self._names.fresh(wanted, re.sub(r"_[0-9]+$", "", wanted))


def fresh_ids(body: Sequence[Stmt], role: Role) -> Iterator[int]:
    """Ids that no buffer of a role has in a block."""
    return count(max((one.id + 1 for one in buffers_of(Program(tuple(body))) if one.role is role), default=0))


def title(scalar: Scalar) -> str:
    """What a variable that holds a scalar may be called."""
    match scalar:
        case Call(op=op):
            return op
        case Cast(value=value):
            return title(value)
        case Read(buffer=buffer):
            return buffer.name
        case Local(name=name):
            return name
    return "at"


def distinct(body: tuple[Stmt, ...], given: Collection[str] = ()) -> tuple[Stmt, ...]:
    """The block with a name for each variable that no other variable, loop or static index has."""
    stmts = everything(body)
    declared = [stmt.local.name for stmt in stmts if isinstance(stmt, Let)]
    taken = {*given, *(stmt.loop for stmt in stmts if isinstance(stmt, For))}
    taken |= {name for stmt in stmts for part in parts(stmt) for name in free(part)}
    if len(set(declared)) == len(declared) and taken.isdisjoint(declared):
        return body
    new = BlockNames(taken=taken)
    return rename(body, lambda stmt: stmt.loop if isinstance(stmt, For) else new.fresh(stmt.local.name))
