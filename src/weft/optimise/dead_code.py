"""Numbers nobody uses, and loops and tests with nothing in them, left out."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.loops.effects import numbers, parts, with_body
from weft.loops.nodes import Fill, For, If, Let, Local, Remark, Set, Stmt, Store, Update


def without_idle(body: tuple[Stmt, ...]) -> tuple[Stmt, ...]:
    """The block without numbers that nothing written depends on, and without statements that do nothing."""
    uses = _Uses()
    uses.note(body, [])
    return _kept(body, uses.found())


@dataclass(slots=True)
class _Uses:
    """The numbers that memory is written from, and those that each number is computed from."""

    needed: list[Local] = field(default_factory=list)
    sources: dict[Local, list[Local]] = field(default_factory=dict)

    def note(self, body: Sequence[Stmt], tested: list[Local]) -> None:
        """Note a block; `tested` are the numbers in the tests around it."""
        for stmt in body:
            mentioned = [*tested, *(one for part in parts(stmt) for one in numbers(part))]
            match stmt:
                case For(body=inner) | If(body=inner) | Remark(body=inner):
                    self.note(inner, mentioned)
                case Let(local=local) | Set(local=local):
                    self.sources.setdefault(local, []).extend(mentioned)
                case Store() | Update() | Fill():
                    self.needed += mentioned

    def found(self) -> set[Local]:
        used: set[Local] = set()
        rest = list(self.needed)
        while rest:
            one = rest.pop()
            if one not in used:
                used.add(one)
                rest += self.sources.get(one, [])
        return used


def _kept(body: Sequence[Stmt], used: set[Local]) -> tuple[Stmt, ...]:
    """The statements that write memory or numbers that are used."""
    kept: list[Stmt] = []
    for stmt in body:
        match stmt:
            case For() | If() | Remark():
                inside = _kept(stmt.body, used)
                if inside and not (isinstance(stmt, For) and stmt.size == 0):
                    kept.append(with_body(stmt, inside))
            case Let(local=local) | Set(local=local):
                if local in used:
                    kept.append(stmt)
            case Store() | Update() | Fill():
                kept.append(stmt)
    return tuple(kept)
