"""Common subexpression elimination by value numbering: what is computed twice is computed once.

    y[i] = exp(x[i] * a) + b;  z[i] = exp(a * x[i])      becomes      t = exp(x[i] * a);  y[i] = t + b;  z[i] = t

Two scalars have one value number if they are the same operation on operands of the same value numbers, read buffers and
variables that have not changed in between, and stand in the same iteration of their loops. A scalar is replaced by the
variable of its first computation if that dominates it: it stands earlier in the same block or in one around it.

Every variable must have a name of its own (`names.distinct`).
"""

from __future__ import annotations

from collections import ChainMap
from collections.abc import Collection, Hashable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from weft.affine import Affine
from weft.loops.constants import constant_value
from weft.loops.effects import accumulation, effects
from weft.loops.insert_casts import dtype_of
from weft.loops.names import BlockNames, title
from weft.loops.nodes import (
    Buffer,
    Cast,
    For,
    If,
    Inside,
    Let,
    Local,
    Read,
    Remark,
    Set,
    Staged,
    Stmt,
)
from weft.loops.walk import WRITING, children, map_scalars, walk, with_body, with_children
from weft.ops import OPS, Call, Num, Scalar
from weft.optimise.simplify import Simplifier


def eliminate_common(body: tuple[Stmt, ...], fast: bool = False) -> tuple[Stmt, ...]:
    """The block with everything computed once that was computed several times.

    Operands that a rule would write twice, as in x ** 2 = x * x, get a name as well.
    """
    finding = _Sharing(frozenset(), BlockNames(body), fast)
    finding.block(body, ChainMap())
    if not finding.repeated:
        return body
    return _Sharing(frozenset(finding.repeated), BlockNames(body), fast).block(body, ChainMap())


@dataclass(slots=True)
class _First:
    """The first computation of a value: its ordinal, the variable it is in, and the version of that variable."""

    order: int
    local: Local | None = None
    version: int = 0


#: The available expressions, by value number.
_Seen: TypeAlias = ChainMap[int, _First]


class _Sharing:
    """Walks the code twice: to find what is computed more than once, then to name it where it is computed first."""

    def __init__(self, named: frozenset[int], taken: BlockNames, fast: bool) -> None:
        self.named = named
        self.taken = taken
        self.simplifier = Simplifier(fast)
        self.repeated: set[int] = set()
        self.count = 0
        self.clock = 0
        #: The versions of buffers and variables, changed by each write, and of loops, changed by each iteration.
        self.versions: dict[Buffer | Local | str, int] = {}
        self.value_numbers: dict[Hashable, int] = {}
        #: The value numbers of the scalars of a statement, by identity.
        self.memo: dict[int, int] = {}
        self.lead: list[Stmt] = []

    def block(self, body: Sequence[Stmt], seen: _Seen) -> tuple[Stmt, ...]:
        done: list[Stmt] = []
        for stmt in body:
            self.memo = {}
            shared = self._statement(stmt, seen)
            done += [*self.lead, shared]
            self.lead = []
        return tuple(done)

    def _statement(self, stmt: Stmt, seen: _Seen) -> Stmt:
        match stmt:
            case Let(local=local, value=value):
                return Let(local, self._declared(local, value, seen))
            case Set(local=local):
                new_set = Set(local, self._set(stmt, seen))
                self._change([local])
                return new_set
            case For(loop=loop, body=body):
                if seen:
                    self._change([loop, *_changes(body)])  # an iteration may follow another that has changed them
                return with_body(stmt, self._inner(body, seen))
            case If(tests=tests, body=body):
                new_tests = tuple(Inside(self._available(one.index, seen), one.size) for one in tests)
                return If(new_tests, self._inner(body, seen))
            case Remark(text=text, body=body):
                return Remark(text, self._inner(body, seen))
            case Staged():
                return stmt  # it is finished
            case _ if isinstance(stmt, WRITING):
                new = map_scalars(stmt, lambda scalar: self._scalar(scalar, seen))
                self._change([stmt.buffer])
                return new

    def _inner(self, body: Sequence[Stmt], seen: _Seen) -> tuple[Stmt, ...]:
        lead, self.lead = self.lead, []
        done = self.block(body, seen.new_child())
        self.lead = lead
        return done

    def _change(self, what: Collection[Buffer | Local | str]) -> None:
        for one in what:
            self.clock += 1
            self.versions[one] = self.clock

    def _set(self, stmt: Set, seen: _Seen) -> Scalar:
        """What a variable is set to. An accumulation keeps its form, by which backends recognise reductions."""
        added = accumulation(stmt)
        if added is None:
            return self._scalar(stmt.value, seen)
        return Call(added[0], (stmt.local, self._scalar(added[1], seen)))

    def _declared(self, local: Local, value: Scalar, seen: _Seen) -> Scalar:
        """The value of a variable that is declared: later computations of it are replaced by that variable."""
        if not _is_work(value) or self._first(value, seen) is not None:
            return self._scalar(value, seen)
        first = self._make_available(value, seen)
        inner = self._parts(value, seen)
        first.local, first.version = local, self.versions.get(local, 0)
        return inner

    def _scalar(self, scalar: Scalar, seen: _Seen) -> Scalar:
        """The scalar with available expressions replaced by variables; what a later one needs too gets a variable."""
        if not _is_work(scalar):
            return self._parts(scalar, seen)
        first = self._first(scalar, seen)
        if first is not None:
            return self._replaced(first, scalar)
        first = self._make_available(scalar, seen)
        inner = self._parts(scalar, seen)
        if first.order not in self.named:
            return inner
        first.local = Local(self.taken.fresh(title(scalar)), dtype_of(scalar))
        self.lead.append(Let(first.local, inner))
        return first.local

    def _available(self, scalar: Scalar, seen: _Seen) -> Scalar:
        """The scalar with available expressions replaced by variables. It makes none available: not every test is
        evaluated."""
        first = self._first(scalar, seen) if _is_work(scalar) else None
        if first is not None:
            return self._replaced(first, scalar)
        return with_children(scalar, tuple(self._available(one, seen) for one in children(scalar)))

    def _parts(self, scalar: Scalar, seen: _Seen) -> Scalar:
        inner = children(scalar)
        if not inner:
            return scalar
        found = with_children(scalar, tuple([self._scalar(one, seen) for one in inner]))
        for one in self.simplifier.doubled(scalar) if isinstance(scalar, Call) else ():
            first = self._first(one, seen)
            if first is not None:
                self.repeated.add(first.order)
        return found

    def _replaced(self, first: _First, scalar: Scalar) -> Scalar:
        self.repeated.add(first.order)
        return scalar if first.local is None else first.local

    def _make_available(self, scalar: Scalar, seen: _Seen) -> _First:
        self.count += 1
        first = seen[self._value_number(scalar)] = _First(self.count)
        return first

    def _first(self, scalar: Scalar, seen: _Seen) -> _First | None:
        """The first computation of a scalar, if the variable it is in has not changed since."""
        first = seen.get(self._value_number(scalar))
        if first is None or (first.local is not None and self.versions.get(first.local, 0) != first.version):
            return None
        return first

    def _value_number(self, scalar: Scalar) -> int:
        """The value number of a scalar: scalars that may differ in value have different ones."""
        if id(scalar) in self.memo:
            return self.memo[id(scalar)]
        value = constant_value(scalar)
        what: Hashable
        if value is not None:
            what = (value.dtype, repr(value))
        else:
            inner = [self._value_number(one) for one in children(scalar)]
            what = (*self._kind(scalar), *(sorted(inner) if _commutes(scalar) else inner))
        number = self.memo[id(scalar)] = self.value_numbers.setdefault(what, len(self.value_numbers))
        return number

    def _kind(self, scalar: Scalar) -> tuple[Hashable, ...]:
        match scalar:
            case Call(op=op):
                return (op,)
            case Cast(dtype=dtype):
                return ("cast", dtype)
            case Read(buffer=buffer):
                return ("read", buffer, self.versions.get(buffer, 0))
            case Local():
                return ("local", scalar, self.versions.get(scalar, 0))
            case Affine(terms=terms, offset=offset):
                iterations = sorted((name, self.versions.get(name, 0), factor) for factor, name in terms)
                return ("affine", tuple(iterations), offset)
        raise AssertionError(f"not a scalar of the typed loop language: {scalar!r}")


def _changes(body: Sequence[Stmt]) -> list[Buffer | Local | str]:
    found = effects(body)
    return [*found.buffers, *found.sets]


def _commutes(scalar: Scalar) -> bool:
    return isinstance(scalar, Call) and OPS[scalar.op].commutative


def _is_work(scalar: Scalar) -> bool:
    """Is it worth a variable: an operation or conversion of what is only known when the code runs?"""
    computes = isinstance(scalar, Call) or (isinstance(scalar, Cast) and not isinstance(scalar.value, Num | Affine))
    return computes and any(isinstance(one, Read | Local) for one in walk(scalar))
