"""Loop-invariant code motion: what does not change in a loop is computed in front of it.

    for j: y[i, j] = x[i, j] * exp(a[i])      becomes      t = exp(a[i]);  for j: y[i, j] = x[i, j] * t

Variables and the largest calls are hoisted that depend on nothing the loop changes: not its own index, no variable it
sets or declares, no buffer it writes. Nothing leaves a test, because it might not run; but a test that all of a loop is
under is made in front of it (unswitching). Under fast math a quotient by a loop-invariant divisor becomes a product
with its inverse.

Every variable must have a name of its own (`names.distinct`).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from weft.affine import Affine
from weft.loops.constants import constant_value
from weft.loops.effects import effects
from weft.loops.insert_casts import dtype_of
from weft.loops.names import BlockNames, title
from weft.loops.nodes import Buffer, Cast, For, If, Let, Local, Read, Set, Stmt, Store, Update
from weft.loops.walk import bottom_up, map_scalars, rewritten, walk, with_body
from weft.ops import Call, Num, Scalar


def hoist(body: tuple[Stmt, ...], fast: bool = False) -> tuple[Stmt, ...]:
    """The block with loop-invariant code in front of its loops."""
    taken = BlockNames(body)

    def rule(stmt: Stmt) -> Sequence[Stmt]:
        if not isinstance(stmt, For) or not stmt.size:
            return (stmt,)
        hoisting = _Hoisting(stmt.loop, stmt.body, taken, fast)
        rest = tuple([one for inner in stmt.body for one in hoisting.rest(inner)])
        return (*hoisting.lead, hoisting.unswitched(with_body(stmt, rest)))

    return bottom_up(body, rule)


@dataclass(slots=True)
class _Hoisting:
    """A loop, what it changes, and what has been hoisted in front of it so far."""

    loop: str
    body: tuple[Stmt, ...]
    taken: BlockNames
    fast: bool
    lead: list[Stmt] = field(default_factory=list)
    #: The variables it sets, those it sets or declares, and the buffers it writes.
    sets: set[Local] = field(init=False)
    variables: set[Local] = field(init=False)
    buffers: set[Buffer] = field(init=False)

    def __post_init__(self) -> None:
        found = effects(self.body)
        self.sets, self.variables, self.buffers = found.sets, found.sets | found.lets, found.buffers

    def rest(self, stmt: Stmt) -> list[Stmt]:
        """What of a statement of the loop stays in it."""
        match stmt:
            case Let(local=local, value=value) if self._is_invariant(value) and local not in self.sets:
                self.lead.append(stmt)
                self.variables.discard(local)
                return []
            case Let() | Set() | Store() | Update():
                return [map_scalars(stmt, lambda scalar: rewritten(scalar, self._hoisted))]
        return [stmt]

    def unswitched(self, loop: Stmt) -> Stmt:
        """The loop with tests around it that its whole body is under, and that come out the same each time.

        for j: if 0 <= k[i] < 4: y[k[i], j] += x[j]      becomes      if 0 <= k[i] < 4: for j: y[k[i], j] += x[j]
        """
        match loop:
            case For(body=(If(tests=tests, body=body),)):
                outside = tuple([one for one in tests if self._is_invariant(one.index)])
                inside = tuple([one for one in tests if one not in outside])
                if outside:
                    return If(outside, (with_body(loop, (If(inside, body),) if inside else body),))
        return loop

    def _hoisted(self, scalar: Scalar) -> Scalar | None:
        """A scalar by what moves in front of the loop; None for what stays, though parts of it may move."""
        if not isinstance(scalar, Call | Cast):
            return None
        if self._is_invariant(scalar):
            return self._named(scalar) if _is_work(scalar) else None
        match scalar:
            case Call(op="div", args=(x, y)) if self.fast and self._is_invariant(y) and constant_value(y) is None:
                return Call("mul", (rewritten(x, self._hoisted), self._named(Call("recip", (y,)))))
        return None

    def _named(self, scalar: Scalar) -> Local:
        local = Local(self.taken.fresh(title(scalar)), dtype_of(scalar))
        self.lead.append(Let(local, scalar))
        return local

    def _is_invariant(self, scalar: Scalar) -> bool:
        """Is a scalar the same in every iteration of the loop?"""
        return not any(map(self._changes, walk(scalar)))

    def _changes(self, one: Scalar) -> bool:
        match one:
            case Affine():
                return bool(one.coefficient(self.loop))
            case Read(buffer=buffer):
                return buffer in self.buffers
            case Local():
                return one in self.variables
        return False


def _is_work(scalar: Scalar) -> bool:
    computes = isinstance(scalar, Call) or (isinstance(scalar, Cast) and not isinstance(scalar.value, Num | Affine))
    return computes and any(isinstance(one, Read | Local | Affine) for one in walk(scalar))
