"""Rescaled sums: how often the columns of a sweep are passed over, and what is added up in each pass.

A value of a row that is taken from all its columns is known when they have been passed over. What needs it at every
column waits for the next pass, in which matrices are computed anew. Softmax would take three: for its maximum, for its
sum, and for what is multiplied by its weights. One is enough (online softmax), by two rules for a sum over columns `s`:

    sum_s f(s) / l                        =  (sum_s f(s)) / l                               of each row `l`
    sum_s exp(x(s) - m) f(s), m = max x   =  exp(n - m) sum_s exp(x(s) - n) f(s)            of any `n`

By the first, factors of a row are taken out of the sum: `l` may be known later. By the second, a sum is begun with `n`,
the largest of the columns so far, and multiplied by `exp(n - m)` whenever a larger one, `m`, is found. That holds for
what is linear in the exponential: products and quotients with what does not depend on `m`, sums of such, signs.
Roundings to a narrower type are taken for linear too: a weight is rounded before it is divided by the sum of its row,
not after, by the same share of itself. `x` must be the very number that `m` is the maximum of: so no exponential is
above 1, and what was added up for a smaller maximum is at most as large as it was. A maximum may be rounded before it
is subtracted: then it is about the largest. Nothing else is: what these rules do not take waits for the next pass.
"""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from typing import TypeAlias

from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Cast, Read, Store
from weft.loops.walk import reads
from weft.ops import Call, Scalar
from weft.ops.dtypes import is_float, promote
from weft.schedule.gpu.sweep import Sweep

#: What the sum over a row is multiplied by or divided by when all is known: operations with one number for each row.
RowFactors: TypeAlias = tuple[tuple[str, Scalar], ...]


@dataclass(frozen=True, slots=True)
class RowSplit:
    """A scalar as a value of a point, then multiplied and divided by what is known of its row later.

    The value is proportional to the exponential of minus the maximum `scaled`; or it is the distance from the maximum
    `below`; either may be rounded. There may be nothing but factors.
    """

    value: Scalar | None
    factors: RowFactors = ()
    scaled: Buffer | None = None
    below: Buffer | None = None

    @property
    def is_plain(self) -> bool:
        """Is it a value that is known?"""
        return not self.factors and self.scaled is None and self.below is None


@dataclass(frozen=True, slots=True)
class Taken:
    """A nest that takes a value of every column into one of its row: the value, and what the sum is multiplied by."""

    nest: Nest
    split: RowSplit


@dataclass(slots=True)
class ColumnPass:
    """What one pass over the columns does: values of matrices, what is taken from them, values of rows after it.

    `before` are the values of rows that are known when it starts, `rounded` those that are rounded from a maximum.
    """

    before: list[Nest] = field(default_factory=list)
    matrices: list[tuple[Nest, RowSplit]] = field(default_factory=list)
    taken: list[Taken] = field(default_factory=list)
    rounded: list[Nest] = field(default_factory=list)
    after: list[Nest] = field(default_factory=list)
    #: The maximum behind each that something is measured from: itself, or what it is rounded from.
    behind: dict[Buffer, Buffer] = field(default_factory=dict)

    @property
    def rescaling(self) -> set[Buffer]:
        """The maxima that something is measured from, and those behind them."""
        splits = [*(split for _, split in self.matrices), *(one.split for one in self.taken)]
        used = {one for split in splits for one in (split.scaled, split.below) if one is not None}
        return used | {self.behind[one] for one in used}


def passes_of(sweep: Sweep) -> list[ColumnPass] | None:
    """The passes of a sweep in their order; None if something would never be known."""
    waiting = [nest for nest in sweep.nests if nest.target not in sweep.matrices]
    known, done = set[Buffer](), list[ColumnPass]()
    while waiting:
        planning = _Planning(sweep, frozenset(sweep.written) - known, waiting)
        found, left = planning.planned()
        if len(left) == len(waiting):
            return None
        done.append(found)
        known |= {nest.target for nest in waiting} - {nest.target for nest in left}
        waiting = left
    return done


@dataclass(slots=True)
class _Planning:
    """One pass: `unknown` are the values of rows that are not known before it."""

    sweep: Sweep
    unknown: frozenset[Buffer]
    waiting: list[Nest]
    #: What matrices hold in this pass; the numbers that maxima are of, and the maximum behind what is rounded from one.
    splits: dict[Buffer, RowSplit | None] = field(default_factory=dict)
    largest: dict[Buffer, Scalar] = field(default_factory=dict)
    behind: dict[Buffer, Buffer] = field(default_factory=dict)
    #: What is known of rows when it starts, and at its end.
    ready: set[Buffer] = field(default_factory=set)
    late: set[Buffer] = field(default_factory=set)

    def planned(self) -> tuple[ColumnPass, list[Nest]]:
        found, left = ColumnPass(), list[Nest]()
        blocked = set[Buffer]()  # of which something waits
        waiting = set(map(id, self.waiting))
        for nest in self.sweep.nests:
            if nest.target in self.sweep.matrices:
                self._matrix(nest, found)
            elif id(nest) in waiting:
                if nest.target in blocked or not self._row(nest, found):
                    blocked.add(nest.target)
                    left.append(nest)
        needed = _needed(self.sweep, found)
        found.matrices = [one for one in found.matrices if one[0].target in needed]
        found.behind = self.behind
        return found, left

    def _matrix(self, nest: Nest, found: ColumnPass) -> None:
        """What a nest leaves in a matrix."""
        split = self.split(nest.core.value)
        if nest.target in self.splits or not isinstance(nest.core, Store):
            known = self.splits.get(nest.target, RowSplit(None))
            split = split if split and split.is_plain and known and known.is_plain else None
        self.splits[nest.target] = split
        if split is not None:
            found.matrices.append((nest, split))

    def _row(self, nest: Nest, found: ColumnPass) -> bool:
        """Put a nest about rows into the pass, if what it reads allows."""
        if self.sweep.is_along(nest):
            return self._taken(nest, found)
        unknown = [one.buffer for one in nest.reads if self._is_unknown(one.buffer)]
        if not unknown and nest.target not in self.late:
            found.before.append(nest)
            if not any(one.target == nest.target and self.sweep.is_along(one) for one in self.sweep.nests):
                self.ready.add(nest.target)
            return True
        if not self.late.issuperset(unknown):
            return False
        if len(unknown) == 1 and unknown[0] in self.behind and isinstance(nest.core, Store):
            if _is_rounding(nest.core.value) and nest.target not in self.late:
                self.behind[nest.target] = self.behind[unknown[0]]
                found.rounded.append(nest)
                self.late.add(nest.target)
                return True
        found.after.append(nest)
        self.late.add(nest.target)
        return True

    def _is_unknown(self, buffer: Buffer) -> bool:
        return buffer in self.unknown and buffer not in self.ready

    def _taken(self, nest: Nest, found: ColumnPass) -> bool:
        assert not isinstance(nest.core, Store)
        split = self.split(nest.core.value)
        if split is None or split.value is None or split.below is not None:
            return False
        if nest.core.op != "add" and not split.is_plain:
            return False
        again = any(one.nest.target == nest.target for one in found.taken)
        if (again and not split.is_plain) or (nest.target in self.late and not again):
            return False
        if again and any(one.nest.target == nest.target and not one.split.is_plain for one in found.taken):
            return False
        found.taken.append(Taken(nest, split))
        self.late.add(nest.target)
        if nest.core.op == "max" and not again and is_float(nest.target.dtype) and self.sweep.width(nest) == 0:
            self.largest[nest.target] = split.value
            self.behind[nest.target] = nest.target
        elif again:
            self.behind.pop(nest.target, None)
        return True

    # The algebra

    def split(self, scalar: Scalar) -> RowSplit | None:
        """A scalar in this pass; None if it has to wait."""
        if not any(self._is_open(one) for one in reads(scalar)):
            return RowSplit(scalar)
        if self.sweep.is_of_rows(scalar):
            return RowSplit(None, (("mul", scalar),)) if all(self._is_late(one) for one in reads(scalar)) else None
        match scalar:
            case Read(buffer=buffer):
                held = self.splits.get(buffer)
                return held and replace(held, value=scalar)
            case Cast(dtype=dtype, value=value) if is_float(dtype):
                found = self.split(value)
                return None if found is None or found.value is None else replace(found, value=Cast(dtype, found.value))
            case Call(op="neg", args=(value,)):
                found = self.split(value)
                if found is not None and found.value is not None and found.below is None:
                    return replace(found, value=Call("neg", (found.value,)))
            case Call(op="exp", args=(value,)):
                found = self.split(value)
                if found is not None and found.below is not None and found.value is not None:
                    return RowSplit(Call("exp", (found.value,)), scaled=found.below)
            case Call(op="sub", args=(value, largest)) if (top := self._measured(largest)) is not None:
                found = self.split(value)
                if found is not None and found.is_plain and found.value == self.largest[self.behind[top]]:
                    return RowSplit(scalar, below=top)
            case Call(op="mul" | "div" as op, args=(one, other)):
                return _product(op, self.split(one), self.split(other))
            case Call(op="add" | "sub" as op, args=(one, other)):
                return _sum(op, self.split(one), self.split(other))
        return None

    def _is_open(self, read: Read) -> bool:
        """Is something read that is no plain number in this pass?"""
        if read.buffer in self.sweep.matrices:
            held = self.splits.get(read.buffer)
            return held is None or not held.is_plain
        return self._is_unknown(read.buffer)

    def _is_late(self, read: Read) -> bool:
        return not self._is_unknown(read.buffer) or read.buffer in self.late

    def _measured(self, scalar: Scalar) -> Buffer | None:
        """The maximum that a scalar is, rounded perhaps."""
        while isinstance(scalar, Cast) and scalar.dtype == promote(scalar.dtype, dtype_of(scalar.value)):
            scalar = scalar.value
        return scalar.buffer if isinstance(scalar, Read) and scalar.buffer in self.behind else None


def _product(op: str, one: RowSplit | None, other: RowSplit | None) -> RowSplit | None:
    """A product or quotient of two values."""
    if one is None or other is None or one.below or other.below or (other.scaled and (op == "div" or one.scaled)):
        return None
    if op == "div":
        if other.factors and other.value is not None:
            return None
        factors = (*one.factors, *(("div", scalar) for _, scalar in other.factors))
    else:
        factors = (*one.factors, *other.factors)
    if one.value is None:
        value = other.value if op == "mul" else None
    else:
        value = one.value if other.value is None else Call(op, (one.value, other.value))
    return None if value is None else RowSplit(value, factors, one.scaled or other.scaled)


def _sum(op: str, one: RowSplit | None, other: RowSplit | None) -> RowSplit | None:
    """A sum or difference of two values, both proportional to the same."""
    if one is None or other is None or one.factors or other.factors or one.below or other.below:
        return None
    if one.scaled != other.scaled or one.value is None or other.value is None:
        return None
    return RowSplit(Call(op, (one.value, other.value)), scaled=one.scaled)


def _is_rounding(scalar: Scalar) -> bool:
    while isinstance(scalar, Cast) and is_float(scalar.dtype):
        scalar = scalar.value
    return isinstance(scalar, Read)


def _needed(sweep: Sweep, found: ColumnPass) -> set[Buffer]:
    """The matrices that what is taken in a pass reads, itself or by way of others."""
    todo = [one.buffer for taken in found.taken for one in taken.nest.reads if one.buffer in sweep.matrices]
    needed = set[Buffer]()
    while todo:
        buffer = todo.pop()
        if buffer not in needed:
            needed.add(buffer)
            todo += [
                one.buffer
                for nest, _ in found.matrices
                if nest.target == buffer
                for one in nest.reads
                if one.buffer in sweep.matrices
            ]
    return needed
