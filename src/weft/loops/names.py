"""Names: new ones, and one for each number.

    for i: { t = x[i];  y[i] = t };  for i: { t = y[i];  z[i] = t }      becomes      … { t_2 = y[i];  z[i] = t_2 }

Where every number has a name of its own, numbers can move between blocks and are never mistaken for one another.
"""

from __future__ import annotations

import re
from collections.abc import Collection, Mapping, Sequence

from weft.loops.effects import everything, mapped, names, parts, with_body
from weft.loops.nests import free, rewritten
from weft.loops.nodes import Cast, For, If, Inside, Let, Local, Read, Remark, Set, Stmt
from weft.naming import FreshNames
from weft.ops import Call, Scalar


class Names:
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


def title(scalar: Scalar) -> str:
    """What a number that holds a scalar may be called."""
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
    """The block with a name for each number that no other number, loop or static index has."""
    numbers = [stmt.local.name for stmt in everything(body) if isinstance(stmt, Let)]
    taken = {*given, *(stmt.loop for stmt in everything(body) if isinstance(stmt, For))}
    taken |= {name for stmt in everything(body) for part in parts(stmt) for name in free(part)}
    if len(set(numbers)) == len(numbers) and not taken & set(numbers):
        return body
    return _block(body, {}, Names(taken=taken))


def _block(body: Sequence[Stmt], called: Mapping[Local, Local], taken: Names) -> tuple[Stmt, ...]:
    here = dict(called)
    done: list[Stmt] = []
    for stmt in body:
        match stmt:
            case Let(local=local, value=value):
                named = Let(Local(taken.fresh(local.name), local.dtype), _scalar(value, here))
                here[local] = named.local
                done.append(named)
            case Set(local=local, value=value):
                done.append(Set(here.get(local, local), _scalar(value, here)))
            case If(tests=tests):
                places = tuple(Inside(_scalar(one.place, here), one.size) for one in tests)
                done.append(If(places, _block(stmt.body, here, taken)))
            case For() | Remark():
                done.append(with_body(stmt, _block(stmt.body, here, taken)))
            case _:
                done.append(mapped(stmt, lambda one: _scalar(one, here)))
    return tuple(done)


def _scalar(scalar: Scalar, called: Mapping[Local, Local]) -> Scalar:
    return rewritten(scalar, lambda one: called.get(one, one) if isinstance(one, Local) else None)
