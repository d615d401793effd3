"""Code that touches other cells in place of its own."""

from __future__ import annotations

from collections.abc import Callable

from weft.loops import Buffer, Fill, For, If, Inside, Let, Read, Remark, Set, Staged, Stmt, Store, Update
from weft.loops.nests import rewritten
from weft.ops import Scalar
from weft.schedule.accesses import Cell


def elsewhere(stmt: Stmt, cell: Callable[[Buffer, tuple[Scalar, ...]], Cell]) -> Stmt:
    """The statement with every cell it reads or writes replaced; subscripts come with their own cells replaced."""

    def scalar(one: Scalar) -> Scalar:
        return rewritten(one, lambda part: Read(*moved(part.buffer, part.at)) if isinstance(part, Read) else None)

    def moved(buffer: Buffer, at: tuple[Scalar, ...]) -> Cell:
        return cell(buffer, tuple(map(scalar, at)))

    def change(one: Stmt) -> Stmt:
        match one:
            case For(loop=loop, size=size, body=body):
                return For(loop, size, tuple(map(change, body)))
            case If(tests=tests, body=body):
                return If(tuple(Inside(scalar(test.place), test.size) for test in tests), tuple(map(change, body)))
            case Remark(text=text, body=body):
                return Remark(text, tuple(map(change, body)))
            case Staged(what=what, body=body):
                return Staged(what, tuple(map(change, body)))
            case Store(buffer=buffer, at=at, value=value):
                return Store(*moved(buffer, at), scalar(value))
            case Update(buffer=buffer, at=at, op=op, value=value):
                return Update(*moved(buffer, at), op, scalar(value))
            case Let(local=local, value=value):
                return Let(local, scalar(value))
            case Set(local=local, value=value):
                return Set(local, scalar(value))
            case Fill(buffer=buffer, value=number):
                return Fill(cell(buffer, ())[0], number)

    return change(stmt)
