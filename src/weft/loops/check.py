"""What every loop program must satisfy: names bound, subscripts complete, types explicit, nothing outside its buffer.

Affine subscripts are proved inside their axis from the loops' ranges and the tests around them; gathers are checked
where they run.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field

from weft.affine import Affine
from weft.loops.annotations import mismatch
from weft.loops.insert_casts import dtype_of
from weft.loops.nodes import (
    DEEPEST,
    Fill,
    For,
    If,
    Inside,
    Let,
    Local,
    Program,
    Read,
    Remark,
    Set,
    Staged,
    Stmt,
    Store,
    Update,
    depth,
    walk,
)
from weft.loops.show import show_scalar
from weft.ops import OPS, Call, Scalar


class MalformedLoops(Exception):
    """A program weft itself should not have produced."""


@dataclass(frozen=True, slots=True)
class _Scope:
    """What holds in a block: loops and their sizes, tests, and the numbers declared so far."""

    ranges: Mapping[str, int]
    tests: frozenset[Inside] = field(default_factory=frozenset)
    locals: set[Local] = field(default_factory=set)

    def inside(self, loop: str = "", size: int = 0, tests: Collection[Inside] = ()) -> _Scope:
        """A block inside: what it declares is not known outside."""
        ranges = {**self.ranges, loop: size} if loop else self.ranges
        return _Scope(ranges, self.tests.union(tests), set(self.locals))


def check(program: Program, given: Mapping[str, int] | None = None) -> Program:
    """The program itself if it is well formed; `given` maps each static index to its range."""
    _block(program.body, _Scope(dict(given or {})))
    return program


def _block(body: Sequence[Stmt], scope: _Scope) -> None:
    for stmt in body:
        _check(stmt, scope)
        if isinstance(stmt, Let):
            scope.locals.add(stmt.local)


def _check(stmt: Stmt, scope: _Scope) -> None:
    match stmt:
        case For(loop=loop, size=size, body=body):
            if loop in scope.ranges:
                raise MalformedLoops(f"loop {loop} inside a loop of the same name")
            if size:  # what never runs leaves no axis
                _block(body, scope.inside(loop, size))
        case If(tests=tests, body=body):
            for test in tests:
                _typed(test.place, "int64", scope)
            _block(body, scope.inside(tests=tests))
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
        case Remark(body=body):
            _block(body, scope.inside())
        case Staged(what=what, body=body):
            _block(body, scope.inside())
            if problem := mismatch(what, body):
                raise MalformedLoops(f"what is staged is no {type(what).__name__.lower()}: {problem}")
        case Fill():
            pass


def _typed(scalar: Scalar, dtype: str, scope: _Scope) -> None:
    _scalar(scalar, scope)
    if dtype_of(scalar) != dtype:
        raise MalformedLoops(f"{show_scalar(scalar)} is {dtype_of(scalar)} where {dtype} is needed")


def _scalar(scalar: Scalar, scope: _Scope) -> None:
    if depth(scalar) > DEEPEST:
        raise MalformedLoops(f"a scalar is nested {depth(scalar)} deep, more than {DEEPEST}")
    for one in reversed(walk(scalar)):  # innermost first
        match one:
            case Affine(terms=terms):
                for _, name in terms:
                    if name not in scope.ranges:
                        raise MalformedLoops(f"{name} is not the name of a loop around {show_scalar(scalar)}")
            case Local(name=name):
                if one not in scope.locals:
                    raise MalformedLoops(f"{name} has no value yet in {show_scalar(scalar)}")
            case Read(buffer=buffer, at=at):
                if len(at) != len(buffer.shape):
                    raise MalformedLoops(f"{show_scalar(one)} needs {len(buffer.shape)} subscripts")
                for place, size in zip(at, buffer.shape, strict=True):
                    if isinstance(place, Affine):
                        if not _inside(place, size, scope):
                            raise MalformedLoops(
                                f"{show_scalar(place)} may leave the axis of {size} in {show_scalar(one)}"
                            )
                    elif dtype_of(place) != "int64":
                        raise MalformedLoops(f"{show_scalar(place)} is no whole number in {show_scalar(one)}")
            case Call(op=op, args=args):
                _operation(op, len(args))
                own = tuple(map(dtype_of, args))
                if own != OPS[op].typing(*own)[0]:
                    raise MalformedLoops(f"{show_scalar(one)} has operands of types {', '.join(own)}")


def _operation(op: str, operands: int) -> None:
    if op not in OPS or operands != OPS[op].arity:
        raise MalformedLoops(f"{op} of {operands} operands is not a primitive operation")


def _inside(place: Affine, size: int, scope: _Scope) -> bool:
    low, high = _reach(place, tuple(scope.tests), scope.ranges)
    return low >= 0 and high < size


def _reach(place: Affine, tests: Sequence[Inside], ranges: Mapping[str, int]) -> tuple[int, int]:
    """The least and the greatest a place can be: by its loops, or by the tests around it and what is left of it."""
    low = high = place.offset
    for coefficient, name in place.terms:
        end = coefficient * (ranges[name] - 1)
        low, high = low + min(end, 0), high + max(end, 0)
    for at, test in enumerate(tests):
        times = _times(place, test.place)
        if times:
            assert isinstance(test.place, Affine)
            rest = _less(place, test.place, times)
            below, above = _reach(rest, (*tests[:at], *tests[at + 1 :]), ranges)
            end = times * (test.size - 1)
            low, high = max(low, below + min(end, 0)), min(high, above + max(end, 0))
    return low, high


def _times(place: Affine, part: Scalar) -> int:
    """How many times a part is in a place; 0 if it is no part of it."""
    if not isinstance(part, Affine):
        return 0
    if not part.terms:
        return 1
    coefficients = {name: coefficient for coefficient, name in place.terms}
    first, loop = part.terms[0]
    times = coefficients.get(loop, 0) // first
    return times if all(coefficients.get(name, 0) == times * one for one, name in part.terms) else 0


def _less(place: Affine, part: Affine, times: int) -> Affine:
    """A place without so many of a part of it."""
    gone = {name for _, name in part.terms}
    return Affine(tuple(term for term in place.terms if term[1] not in gone), place.offset - times * part.offset)
