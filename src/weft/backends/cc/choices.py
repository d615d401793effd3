"""Choices between what is read: gcc 12 has been seen to get `c ? x[i] : y[i]` wrong on vectors; none is asked for."""

from __future__ import annotations

from weft.loops import Read, Stmt, walk
from weft.loops.effects import parts
from weft.ops import Call

_CHOICES = {"where", "relu_gate", "sat01_gate"}


def chooses(stmt: Stmt) -> bool:
    """Does a statement choose between what it reads?"""
    calls = (one for part in parts(stmt) for one in walk(part) if isinstance(one, Call) and one.op in _CHOICES)
    return any(isinstance(one, Read) for call in calls for arg in call.args[-2:] for one in walk(arg))
