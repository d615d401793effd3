"""What every loop program must satisfy: names bound, subscripts complete, nothing outside its buffer.

Affine subscripts are proved inside their axis from the loops' ranges and the tests around them; gathers are checked
where they run.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from weft.loops.nodes import Fill, For, If, Inside, Place, Program, Read, Remark, Stmt, Store, Update, walk
from weft.loops.show import show_scalar
from weft.ops import OPS, Call, Scalar


class MalformedLoops(Exception):
    """A program weft itself should not have produced."""


@dataclass(frozen=True, slots=True)
class _Scope:
    ranges: Mapping[str, int]
    tests: frozenset[Inside] = field(default_factory=frozenset)


def check(program: Program, given: Mapping[str, int] | None = None) -> Program:
    """The program itself if it is well formed; `given` maps each static index to its range."""
    for stmt in program.body:
        _check(stmt, _Scope(dict(given or {})))
    return program


def _check(stmt: Stmt, scope: _Scope) -> None:
    match stmt:
        case For(loop=loop, size=size, body=body):
            if loop in scope.ranges:
                raise MalformedLoops(f"loop {loop} inside a loop of the same name")
            for one in body:
                _check(one, _Scope({**scope.ranges, loop: size}, scope.tests))
        case If(tests=tests, body=body):
            for test in tests:
                _scalar(test.place, scope)
            for one in body:
                _check(one, _Scope(scope.ranges, scope.tests | frozenset(tests)))
        case Store(buffer=buffer, at=at, value=value):
            _scalar(Read(buffer, at), scope)
            _scalar(value, scope)
        case Update(buffer=buffer, at=at, op=op, value=value):
            _scalar(Call(op, (Read(buffer, at), value)), scope)
        case Remark(body=body):
            for one in body:
                _check(one, scope)
        case Fill():
            pass


def _scalar(scalar: Scalar, scope: _Scope) -> None:
    for one in reversed(list(walk(scalar))):  # innermost first
        match one:
            case Place(terms=terms):
                for _, name in terms:
                    if name not in scope.ranges:
                        raise MalformedLoops(f"{name} is not the name of a loop around {show_scalar(scalar)}")
            case Read(buffer=buffer, at=at):
                if len(at) != len(buffer.shape):
                    raise MalformedLoops(f"{show_scalar(one)} needs {len(buffer.shape)} subscripts")
                for place, size in zip(at, buffer.shape, strict=True):
                    if isinstance(place, Place) and not _inside(place, size, scope):
                        raise MalformedLoops(f"{show_scalar(place)} may leave the axis of {size} in {show_scalar(one)}")
            case Call(op=op, args=args):
                if op not in OPS or len(args) != OPS[op].arity:
                    raise MalformedLoops(f"{op} of {len(args)} operands is not a primitive operation")


def _inside(place: Place, size: int, scope: _Scope) -> bool:
    if any(test.place == place and test.size <= size for test in scope.tests):
        return True
    ends = [coefficient * (scope.ranges[name] - 1) for coefficient, name in place.terms]
    low = place.offset + sum(end for end in ends if end < 0)
    high = place.offset + sum(end for end in ends if end > 0)
    return low >= 0 and high < size
