"""Dead code elimination: variables nobody uses, and empty loops and tests, are removed.

t: float32 = exp(x[i]);  u: float32 = x[i];  y[i] = u      becomes      u: float32 = x[i];  y[i] = u
"""

from __future__ import annotations

from collections.abc import Sequence

from weft.loops.nodes import For, If, Let, Local, Remark, Set, Stmt
from weft.loops.walk import WRITING, Body, bottom_up, parts, scoped, variables


def eliminate_dead_code(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block without variables that nothing written depends on, and without statements that do nothing."""
    used = _used(body)

    def rule(stmt: Stmt) -> Body:
        match stmt:
            case For(size=0) | For(body=()) | If(body=()) | Remark(body=()):
                return ()
            case Let(local=local) | Set(local=local) if local not in used:
                return ()
        return (stmt,)

    return bottom_up(body, rule)


def _used(body: Sequence[Stmt]) -> set[Local]:
    """The variables that memory is written from, and those that they are computed from; tests around count as well."""
    sources: dict[Local, list[Local]] = {}
    rest: list[Local] = []
    for stmt, scope in scoped(body):
        tested = (variables(test.index) for test in scope.tests)
        mentioned = [one for some in (*tested, *map(variables, parts(stmt))) for one in some]
        match stmt:
            case Let(local=local) | Set(local=local):
                sources.setdefault(local, []).extend(mentioned)
            case _ if isinstance(stmt, WRITING):
                rest += mentioned
    used: set[Local] = set()
    while rest:
        one = rest.pop()
        if one not in used:
            used.add(one)
            rest += sources.get(one, ())
    return used
