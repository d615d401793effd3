"""Loops and numbers called by other names."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weft.affine import Affine
from weft.loops import For, If, Inside, Let, Local, Read, Remark, Set, Stmt
from weft.loops.effects import mapped
from weft.loops.nests import rewritten
from weft.ops import Scalar

#: What loops and numbers are called now; those that are not here keep their names.
Names = Mapping[str, str]


def new_names(names: Collection[str], taken: Collection[str]) -> dict[str, str]:
    """New names for all of some names, the same where they are not taken."""
    found: dict[str, str] = {}
    used = set(taken)
    for name in sorted(names):
        new, number = name, 1
        stem = name.rstrip("0123456789").rstrip("_") or name
        while new in used:
            number += 1
            new = f"{stem}_{number}"
        used.add(new)
        found[name] = new
    return found


@dataclass(frozen=True, slots=True)
class Calling:
    """Calls the loops and numbers of some code differently."""

    names: Names
    #: Scalars and subscripts of that code under their new names, by identity.
    scalars: dict[int, Scalar] = field(default_factory=dict)
    cells: dict[int, tuple[Scalar, ...]] = field(default_factory=dict)

    def name(self, name: str) -> str:
        return self.names.get(name, name)

    def stmt(self, stmt: Stmt) -> Stmt:
        match stmt:
            case For(loop=loop, size=size, body=body):
                return For(self.name(loop), size, self._block(body))
            case If(tests=tests, body=body):
                return If(tuple(Inside(self.scalar(one.place), one.size) for one in tests), self._block(body))
            case Remark(text=text, body=body):
                return Remark(text, self._block(body))
            case Let(local=local, value=value):
                return Let(Local(self.name(local.name), local.dtype), self.scalar(value))
            case Set(local=local, value=value):
                return Set(Local(self.name(local.name), local.dtype), self.scalar(value))
        return mapped(stmt, self.scalar)

    def at(self, at: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        found = self.cells.get(id(at))
        if found is None:
            found = self.cells[id(at)] = tuple([self.scalar(place) for place in at])
        return found

    def scalar(self, scalar: Scalar) -> Scalar:
        found = self.scalars.get(id(scalar))
        if found is None:
            found = self.scalars[id(scalar)] = rewritten(scalar, self._leaf)
        return found

    def _block(self, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        return tuple([self.stmt(one) for one in body])

    def _leaf(self, scalar: Scalar) -> Scalar | None:
        match scalar:
            case Affine(terms=terms, offset=offset):
                new = tuple([(factor, self.name(name)) for factor, name in terms])
                return scalar if new == terms else Affine(new, offset)
            case Local(name=name, dtype=dtype):
                return Local(self.name(name), dtype)
            case Read(buffer=buffer, at=at):
                return Read(buffer, self.at(at))
        return None
