"""Constant and copy propagation within blocks; folding of decided tests and of loops of one iteration.

    t = a;  t = t + b;  t = t + c;  y[i] = t      becomes      t = (a + b) + c;  y[i] = t

An assignment to a variable in the block that declares it becomes a new variable, as in static single assignment;
constants and copies are propagated; a variable that an inner loop or test sets stays one. Loops of one iteration and
tests that always hold are replaced by their bodies; tests that never hold are removed. Every scalar is simplified.

Every variable must have a name of its own (`names.distinct`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field
from typing import assert_never

from weft.affine import Affine
from weft.loops.constants import constant_value
from weft.loops.effects import accumulation, effects, sources
from weft.loops.insert_casts import combined
from weft.loops.names import BlockNames
from weft.loops.nodes import Buffer, Fill, For, If, Inside, Let, Local, Read, Remark, Set, Staged, Stmt, Store, Update
from weft.loops.walk import block_at, everything, parts, rewritten, variables, walk, with_body
from weft.ops import Call, Scalar
from weft.optimise.apply_rules import same
from weft.optimise.dead_code import eliminate_dead_code
from weft.optimise.signed_zeros import Positive, never_minus_zero, unsigned
from weft.optimise.simplify import Simplifier


def propagate(
    body: tuple[Stmt, ...], ranges: Mapping[str, int], fast: bool = False, positive: Collection[Buffer] = ()
) -> tuple[Stmt, ...]:
    """The block with values propagated and scalars simplified.

    `ranges` are those of the loops and indices around it, `positive` buffers that never hold -0.0.
    """
    uses = Counter(one for stmt in everything(body) for part in parts(stmt) for one in variables(part))
    block = _Block(ranges)
    _Walk(block, fast, uses, BlockNames(body), never_minus_zero(body, positive)).statements(body)
    return eliminate_dead_code(block.body)


@dataclass(frozen=True, slots=True)
class _Value:
    """The known value of a variable, and what that depends on."""

    scalar: Scalar
    buffers: frozenset[Buffer]
    variables: frozenset[Local]

    @staticmethod
    def of(scalar: Scalar) -> _Value:
        return _Value(scalar, frozenset(sources(scalar)), frozenset(variables(scalar)))

    @property
    def is_trivial(self) -> bool:
        return isinstance(self.scalar, Local | Affine) or constant_value(self.scalar) is not None


@dataclass(slots=True)
class _Block:
    """A block being written: the tests that hold in it, the known values at this point, the variables it declares."""

    ranges: Mapping[str, int]
    tests: frozenset[Inside] = frozenset()
    known: dict[Local, _Value] = field(default_factory=dict)
    own: set[Local] = field(default_factory=set)
    stmts: dict[int, Stmt] = field(default_factory=dict)
    lets: dict[Local, int] = field(default_factory=dict)

    @property
    def body(self) -> tuple[Stmt, ...]:
        return tuple(self.stmts.values())

    def proves(self, index: Affine, size: int) -> bool:
        """Is an index inside an axis of this size?"""
        known = any(test.index == index and test.size <= size for test in self.tests)
        return known or index.stays_inside(size, self.ranges)

    def unaffected(self, variables: Collection[Local], buffers: Collection[Buffer]) -> dict[Local, _Value]:
        """What is still known when some variables and buffers have changed."""
        return {
            one: value
            for one, value in self.known.items()
            if one not in variables and value.variables.isdisjoint(variables) and value.buffers.isdisjoint(buffers)
        }

    def forget(self, variables: Collection[Local] = (), buffers: Collection[Buffer] = ()) -> None:
        if self.known:
            self.known = self.unaffected(variables, buffers)


class _Walk:
    """Walks the code in its order, writing the block it is in."""

    def __init__(self, block: _Block, fast: bool, uses: Counter[Local], taken: BlockNames, positive: Positive) -> None:
        self.block = block
        self.positive = positive
        self.uses = uses
        self.taken = taken
        #: The current name of each variable, and how often what is written so far mentions it.
        self.called: dict[Local, Local] = {}
        self.mentioned: Counter[Local] = Counter()
        self.written = 0
        proof = lambda index, size: self.block.proves(index, size)  # noqa: E731 the block changes
        self.simplifier = Simplifier(fast, self._definition, proof, self._unsigned)

    def statements(self, body: Sequence[Stmt]) -> None:
        """Write some statements at the end of the block."""
        for stmt in body:
            self._statement(stmt)

    def _statement(self, stmt: Stmt) -> None:
        match stmt:
            case Let(local=local, value=value):
                self.block.own.add(local)
                self._let(local, self._scalar(value))
            case Set(local=local, value=value) if local in self.block.own:
                self._renew(local, value)
            case Set(local=local, value=value):
                self._set(stmt)
            case Store(buffer=buffer, at=at, value=value):
                self._store(Store(buffer, self._at(buffer, at), self._scalar(value)))
            case Update(buffer=buffer, at=at, op=op, value=value):
                self._update(Update(buffer, self._at(buffer, at), op, self._scalar(value)))
            case Fill(buffer=buffer):
                self._write(stmt)
                self.block.forget(buffers=[buffer])
            case For():
                self._loop(stmt)
            case If():
                self._guarded(stmt)
            case Remark(text=text, body=body):
                inner = _Block(self.block.ranges, self.block.tests, dict(self.block.known))
                self._write(Remark(text, self._inside(inner, body)))
                self._forget_changes(body)
            case Staged(body=body):
                self._write(stmt)
                self._forget_changes(body)
            case _:
                assert_never(stmt)

    def _write(self, stmt: Stmt) -> None:
        self.written += 1
        self.block.stmts[self.written] = stmt
        for one in (one for part in parts(stmt) for one in variables(part)):
            self.mentioned[one] += 1
        if isinstance(stmt, Set):
            self.mentioned[stmt.local] += 1

    def _let(self, local: Local, value: Scalar) -> None:
        self._write(Let(local, value))
        self.block.lets[local] = self.written
        self.block.known[local] = _Value.of(value)

    def _renew(self, local: Local, value: Scalar) -> None:
        """A variable set in its own block: a new variable. The old one goes if nothing else has used it."""
        old = self.called.get(local, local)
        new = self._scalar(value)
        held = self.block.known.get(old)
        if self.mentioned[old] == 0 and variables(new).count(old) == 1 and held is not None and not held.is_trivial:
            new = self.simplifier.scalar(rewritten(new, lambda one: held.scalar if one == old else None))
        if self.mentioned[old] == 0 and old not in variables(new):
            gone = self.block.stmts.pop(self.block.lets[old])
            self.mentioned.subtract(variables(parts(gone)[0]))
            self._let(old, new)
        else:
            self.called[local] = Local(self.taken.fresh(old.name), old.dtype)
            self._let(self.called[local], new)

    def _set(self, stmt: Set) -> None:
        """A variable of an outer block set. An accumulation keeps its form, by which backends recognise reductions."""
        local = self.called.get(stmt.local, stmt.local)
        held = self.block.known.get(local)
        trivial = held is not None and held.is_trivial
        added = accumulation(stmt)
        if added is None or trivial:
            new = self._scalar(stmt.value)
        else:
            whole = Call(added[0], (local, self._scalar(added[1])))
            simple = self.simplifier.scalar(whole)
            new = whole if local in variables(simple) and not same(simple, local) else simple
        if same(new, local) or (held is not None and trivial and same(new, held.scalar)):
            return
        self._write(Set(local, new))
        self.block.forget([local])
        if local not in variables(new):
            self.block.known[local] = _Value.of(new)

    def _store(self, stmt: Store) -> None:
        if not same(stmt.value, Read(stmt.buffer, stmt.at)):
            self._write(stmt)
            self.block.forget(buffers=[stmt.buffer])

    def _update(self, stmt: Update) -> None:
        """An update: nothing if it changes nothing, a store if it does not depend on the old value."""
        old = Read(stmt.buffer, stmt.at)
        plain = constant_value(stmt.value) is None and stmt.op not in ("arg1", "arg2") and old not in walk(stmt.value)
        new = stmt.value if plain else self.simplifier.scalar(combined(stmt))
        if not plain and old not in walk(new):
            self._store(Store(stmt.buffer, stmt.at, new))
        elif plain or not same(old, new):
            self._write(stmt)
            self.block.forget(buffers=[stmt.buffer])

    def _loop(self, stmt: For) -> None:
        if stmt.size == 1:
            self.statements(block_at(stmt.body, {stmt.loop: Affine()}))
        elif stmt.size:
            ranges = {**self.block.ranges, stmt.loop: stmt.size}
            self._forget_changes(stmt.body)
            known = {local: value for local, value in self.block.known.items() if value.is_trivial}
            self._write(with_body(stmt, self._inside(_Block(ranges, self.block.tests, known), stmt.body)))

    def _guarded(self, stmt: If) -> None:
        tests = tuple(dict.fromkeys(Inside(_affine(self._scalar(one.index)), one.size) for one in stmt.tests))
        if any(test.never(self.block.ranges) for test in tests):
            return
        tests = tuple(test for test in tests if not self._is_known(test))
        if not tests:
            self.statements(stmt.body)
            return
        facts = frozenset(test for test in tests if isinstance(test.index, Affine))
        inner = _Block(self.block.ranges, self.block.tests | facts, dict(self.block.known))
        self._write(If(tests, self._inside(inner, stmt.body)))
        self._forget_changes(stmt.body)

    def _is_known(self, test: Inside) -> bool:
        return isinstance(test.index, Affine) and self.block.proves(test.index, test.size)

    def _inside(self, inner: _Block, body: Sequence[Stmt]) -> tuple[Stmt, ...]:
        """A block inside this one, written out."""
        outer, self.block = self.block, inner
        self.statements(body)
        self.block = outer
        return inner.body

    def _forget_changes(self, body: Sequence[Stmt]) -> None:
        if self.block.known:
            found = effects(body)
            self.block.forget({self.called.get(one, one) for one in found.sets}, found.buffers)

    def _scalar(self, scalar: Scalar) -> Scalar:
        return self.simplifier.scalar(rewritten(scalar, self._leaf))

    def _at(self, buffer: Buffer, at: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        return self.simplifier.at(buffer, self._subscripts(buffer, at))

    def _leaf(self, scalar: Scalar) -> Scalar | None:
        """Variables by their values, where those are constants or copies; reads with their subscripts propagated."""
        match scalar:
            case Local():
                local = self.called.get(scalar, scalar)
                held = self.block.known.get(local)
                return held.scalar if held is not None and held.is_trivial else local
            case Read(buffer=buffer, at=at):
                return Read(buffer, self._subscripts(buffer, at))
        return None

    def _subscripts(self, buffer: Buffer, at: tuple[Scalar, ...]) -> tuple[Scalar, ...]:
        """Subscripts likewise; a variable becomes an affine index only where that is proved to be inside."""
        indices = []
        for one, size in zip(at, buffer.shape, strict=True):
            index = rewritten(one, self._leaf)
            if isinstance(index, Affine) and isinstance(one, Local) and not self.block.proves(index, size):
                index = self.called.get(one, one)
            indices.append(index)
        return tuple(indices)

    def _unsigned(self, scalar: Scalar) -> bool:
        """Is a scalar never -0.0, by what is known here?"""

        def held(local: Local) -> Scalar | None:
            value = self.block.known.get(local)
            return value.scalar if value is not None else None

        return unsigned(scalar, held, self.positive)

    def _definition(self, local: Local) -> Scalar | None:
        """The call a variable holds, if this is its only use."""
        held = self.block.known.get(local)
        return held.scalar if held is not None and self.uses[local] == 1 and isinstance(held.scalar, Call) else None


def _affine(index: Scalar) -> Scalar:
    constant = constant_value(index)
    return index if constant is None or isinstance(index, Affine) else Affine((), int(constant))
