"""What every loop program must satisfy: names bound, subscripts complete, types explicit, nothing outside its buffer.

Affine subscripts are proved inside their axis from the loops' ranges and the tests around them; gathers are checked
where they run.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from weft.affine import Affine
from weft.loops.insert_casts import dtype_of
from weft.loops.legality import beside_threads, illegal, is_on_grid, is_shared
from weft.loops.nodes import (
    DEEPEST,
    For,
    If,
    Inside,
    Let,
    Local,
    Program,
    Read,
    Role,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
)
from weft.loops.product_legality import unfit, unrepeated
from weft.loops.show import show_scalar
from weft.loops.staged import mismatch
from weft.loops.walk import BLOCKS, body_of, depth, own_accesses, scoped, walk
from weft.ops import OPS, Call, Scalar, exists


class MalformedLoops(Exception):
    """A program weft itself should not have produced."""


def check(program: Program, given: Mapping[str, int] | None = None) -> Program:
    """The program itself if it is well formed; `given` maps each static index to its range."""
    outer, around, runs = None, _Around({}, (), frozenset()), True
    for stmt, scope in scoped(program.body):
        if scope.around is not outer:
            outer, around = scope.around, _Around({**(given or {}), **dict(scope.loops)}, scope.tests, scope.variables)
            runs = all(around.ranges.values())  # what never runs leaves no axis
        if runs:
            _check(stmt, _Around(around.ranges, around.tests, scope.variables))
    _check_threads(program.body)
    return program


class _Around(NamedTuple):
    """What holds where a statement stands: loops and their sizes, tests, and the variables declared so far."""

    ranges: Mapping[str, int]
    tests: tuple[Inside, ...]
    variables: frozenset[Local]


def _check_threads(body: Sequence[Stmt], shared: bool = False) -> None:
    """No thread shares what it does with others, and what each has for itself is used by no other."""
    for stmt in body:
        inside = shared or is_shared(stmt) or is_on_grid(stmt)
        if isinstance(stmt, BLOCKS) and (problem := beside_threads(stmt)):
            raise MalformedLoops(problem)
        if shared and is_shared(stmt):
            raise MalformedLoops("threads share what is inside of what they share")
        if not inside and any(one.buffer.role is Role.PRIVATE for one in own_accesses(stmt)):
            raise MalformedLoops("what each thread has for itself is used where there is one")
        _check_threads(body_of(stmt), inside)


def _check(stmt: Stmt, scope: _Around) -> None:
    match stmt:
        case For(loop=loop):
            if loop in scope.ranges:
                raise MalformedLoops(f"loop {loop} inside a loop of the same name")
            if problem := illegal(stmt):
                raise MalformedLoops(f"loop {loop} cannot run {', '.join(map(str, stmt.how))}: {problem}")
            if problem := unrepeated(stmt):
                raise MalformedLoops(f"programs that share a product cannot each run loop {loop}: {problem}")
        case If(tests=tests):
            for test in tests:
                _typed(test.index, "int64", scope)
        case Store(buffer=buffer, at=at, value=value):
            _scalar(Read(buffer, at), scope)
            _typed(value, buffer.dtype, scope)
        case Update(buffer=buffer, at=at, op=op, value=value):
            _operation(op, 2)
            _scalar(value, scope)
            _scalar(Read(buffer, at), scope)
        case Let(local=local, value=value):
            _typed(value, local.dtype, scope)
        case Set(local=local, value=value):
            _scalar(local, scope)
            _typed(value, local.dtype, scope)
        case Staged(what=what, body=body):
            if problem := mismatch(what, body):
                raise MalformedLoops(f"what is staged is no {type(what).__name__.lower()}: {problem}")
            if problem := unfit(stmt):
                raise MalformedLoops(f"a product cannot run {what.tile}: {problem}")


def _typed(scalar: Scalar, dtype: str, scope: _Around) -> None:
    _scalar(scalar, scope)
    if dtype_of(scalar) != dtype:
        raise MalformedLoops(f"{show_scalar(scalar)} is {dtype_of(scalar)} where {dtype} is needed")


def _scalar(scalar: Scalar, scope: _Around) -> None:
    if (deep := depth(scalar)) > DEEPEST:
        raise MalformedLoops(f"a scalar is nested {deep} deep, more than {DEEPEST}")
    for one in reversed(walk(scalar)):  # innermost first
        match one:
            case Affine():
                for name in one.names:
                    if name not in scope.ranges:
                        raise MalformedLoops(f"{name} is not the name of a loop around {show_scalar(scalar)}")
            case Local(name=name):
                if one not in scope.variables:
                    raise MalformedLoops(f"{name} has no value yet in {show_scalar(scalar)}")
            case Read():
                _cell(one, scope)
            case Call(op=op, args=args):
                _operation(op, len(args))
                own = tuple(map(dtype_of, args))
                if own != OPS[op].typing(*own)[0]:
                    raise MalformedLoops(f"{show_scalar(one)} has operands of types {', '.join(own)}")


def _cell(read: Read, scope: _Around) -> None:
    if len(read.at) != len(read.buffer.shape):
        raise MalformedLoops(f"{show_scalar(read)} needs {len(read.buffer.shape)} subscripts")
    for index, size in zip(read.at, read.buffer.shape, strict=True):
        if not isinstance(index, Affine):
            if dtype_of(index) != "int64":
                raise MalformedLoops(f"{show_scalar(index)} is no whole number in {show_scalar(read)}")
        elif not _inside(index, size, scope):
            raise MalformedLoops(f"{show_scalar(index)} may leave the axis of {size} in {show_scalar(read)}")


def _operation(op: str, operands: int) -> None:
    if not exists(op) or operands != OPS[op].arity:
        raise MalformedLoops(f"{op} of {operands} operands is not a primitive operation")


def _inside(index: Affine, size: int, scope: _Around) -> bool:
    low, high = _reach(index, scope.tests, scope.ranges)
    return low >= 0 and high < size


def _reach(index: Affine, tests: Sequence[Inside], ranges: Mapping[str, int]) -> tuple[int, int]:
    """The least and the greatest value of an index: by its loops, or by the tests around it and what is left of it."""
    found = index.bounds(ranges)
    assert found is not None
    low, high = found
    for at, test in enumerate(tests):
        part = test.index
        if isinstance(part, Affine) and (times := _times(index, part)):
            below, above = _reach(index - part * times, (*tests[:at], *tests[at + 1 :]), ranges)
            end = times * (test.size - 1)
            low, high = max(low, below + min(end, 0)), min(high, above + max(end, 0))
    return low, high


def _times(index: Affine, part: Affine) -> int:
    """How many times a part is in an index; 0 if it is no part of it."""
    if not part.terms:
        return 1
    first, loop = part.terms[0]
    times = index.coefficient(loop) // first
    return times if all(index.coefficient(name) == times * one for one, name in part.terms) else 0
