"""One run of an assignment as a statement of the language.

What data chooses is written as it is, `d_L(I(b)) += d_O(b)`. An assignment may also write at `i + k` or `2 * i`: then
the cell that is written gets an index of its own, so that each is written once. `d_X[2*i + k] += d_O[i] * W[k]` becomes
`d_X(j) += (j - k) % 2 == 0 && … ? d_O((j - k) / 2) * W(k) : 0`. Tests on padding become choices likewise, and
`R[i + 2] = a[i]` is `R(i) = a(i - 2) where i in 2:5`.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass
from itertools import count

from weft.affine import Affine
from weft.assign.explicit import Run
from weft.assign.scratch import untaken
from weft.comprehension.nodes import Between, Comprehension, Ident, Index, Int
from weft.comprehension.piecewise import Range
from weft.comprehension.scalars import index_names, number, written
from weft.errors import WeftError
from weft.loops import Inside
from weft.loops.walk import remade
from weft.ops import OPS, Call, Num, Scalar, call, where
from weft.ops.dtypes import numpy_type


def neutral(accum: str, dtype: str) -> Num:
    """What changes nothing in what is accumulated, and what cells that are left out hold; zero if nothing is."""
    begins = OPS[accum].begins
    return Num(begins(numpy_type(dtype)) if begins else 0)  # type: ignore[arg-type]  # numbers, of all kinds


def statement(
    target: str, shape: Sequence[int], run: Run, accum: str, keeps: bool, tensors: Mapping[str, str]
) -> tuple[Comprehension, bool]:
    """A run that writes a tensor of that shape, as a statement; and whether it reaches every cell.

    `tensors` are the types of all tensors.
    """
    ranges = {name: Range(0, size) for name, size in run.loops}
    if given := [name for name in index_names(run.value, *run.at) if name not in ranges]:
        raise WeftError(f"it reads the static index `{given[0]}`")
    writing = _Writing(accum, keeps, list(run.at[: len(shape)]), run.value, ranges, tensors, tensors[target])
    for test in run.guards:
        writing.guard(test)
    for name in [name for name in ranges if name in tensors]:
        writing.rename(name)
    for axis, size in enumerate(shape):
        writing.subscript(axis, size)
    return writing.statement(target, shape)


def put(value: Scalar, name: str, instead: Scalar) -> Scalar:
    """A scalar with another for one of its indices."""

    def change(one: Scalar, parts: tuple[Scalar, ...]) -> Scalar | None:
        if not isinstance(one, Affine) or name not in one.names:
            return None
        if isinstance(instead, Affine):
            return one.substitute({name: instead})
        factor, rest = one.coefficient(name), one.without([name])
        term = instead if factor == 1 else factor * instead
        return term if rest == Affine() else term + rest

    return remade(value, change)


@dataclass(slots=True)
class _Writing:
    """A run whose affine subscripts on the left become indices and numbers, one after another."""

    accum: str
    keeps: bool
    at: list[Scalar]
    value: Scalar
    ranges: dict[str, Range]
    tensors: Collection[str]
    dtype: str

    def guard(self, test: Inside) -> None:
        """Leave out what padding is about."""
        inside = call("and", call("le", 0, test.index), call("lt", test.index, test.size))
        self.value = where(inside, self.value, self._nothing())

    def rename(self, name: str) -> None:
        """An index that is called like a tensor is called differently."""
        new = untaken(name, {*self.tensors, *self.ranges})
        self.ranges = {new if one == name else one: extent for one, extent in self.ranges.items()}
        self._put(name, Affine.of(new))

    def subscript(self, axis: int, size: int) -> None:
        """Make an affine subscript of an axis an index or a number; what lies outside is left out."""
        subscript = self.at[axis]
        before = index_names(*self.at[:axis])
        match subscript:
            case Affine(terms=()) | Num():
                return
            case Scalar() if not isinstance(subscript, Affine) and self.accum != "arg2":
                self.at[axis] = _where_said(subscript, self.value, self._nothing())
                return
            case Affine(terms=((1, name),), offset=offset) if name not in before:
                found = self.ranges[name]
                self.ranges[name] = Range(max(found.low + offset, 0), min(found.high + offset, size))
                self._put(name, Affine.of(name) - offset)
                self.at[axis] = Affine.of(name)
                return
        names = (untaken(f"j{number}", self.tensors) for number in count())
        index = next(name for name in names if name not in self.ranges)
        others = index_names(*self.at[:axis], *self.at[axis + 1 :])
        self.ranges = {index: Range(0, size), **self.ranges}
        self.at[axis] = Affine.of(index)
        if isinstance(subscript, Affine) and (free := [term for term in subscript.terms if term[1] not in others]):
            self._solve(index, free[0], subscript)
        else:
            self.value = _only_if(call("eq", Affine.of(index), subscript), self.value, self._nothing())

    def _nothing(self) -> Num:
        """What counts for nothing; cells that are written afresh, some values left out, are added up instead."""
        if self.accum == "arg2" and not self.keeps:
            self.accum = "add"
        if self.accum == "arg2":
            raise WeftError("it leaves some values out, and there is no number for what counts for nothing")
        return neutral(self.accum, self.dtype)

    def _solve(self, index: str, term: tuple[int, str], subscript: Affine) -> None:
        """Put what an index is, in terms of the cell that is written, for the index."""
        factor, name = term
        rest = subscript.without([name])
        away = Affine.of(index) - rest if factor > 0 else rest - Affine.of(index)
        instead = away if abs(factor) == 1 else call("floordiv", away, abs(factor))
        extent = self.ranges.pop(name)
        holds: Scalar = call("and", call("le", extent.low, instead), call("lt", instead, extent.high))
        if abs(factor) != 1:
            holds = call("and", call("eq", call("mod", away, abs(factor)), 0), holds)
        self._put(name, instead)
        self.value = where(holds, self.value, self._nothing())

    def _put(self, name: str, instead: Scalar) -> None:
        if instead != Affine.of(name):
            self.value = put(self.value, name, instead)
            self.at = [put(one, name, instead) for one in self.at]

    def statement(self, target: str, shape: Sequence[int]) -> tuple[Comprehension, bool]:
        left = [written(one) for one in self.at]
        reduction = None if self.accum == "arg2" else self.accum
        used = {one.name for one in left if isinstance(one, Index)}
        ranges = {name: extent for name, extent in self.ranges.items() if reduction or name in used}
        covers = all(
            ranges[one.name] == Range(0, size) if isinstance(one, Index) else size == 1 and isinstance(one, Int)
            for one, size in zip(left, shape, strict=True)
        )
        clauses = (Between(Ident(name), number(one.low), number(one.high)) for name, one in ranges.items())
        resets = reduction is not None and not self.keeps
        return Comprehension(Ident(target), tuple(left), reduction, resets, written(self.value), tuple(clauses)), covers


def _where_said(subscript: Scalar, value: Scalar, nothing: Num) -> Scalar:
    """A subscript that is asked only where there is a value: it may read what is only inside there."""
    match value:
        case Call(op="select", args=(first, yes)):
            return where(first, _where_said(subscript, yes, nothing), 0)
        case Call(op="where", args=(first, yes, no)) if no == nothing:
            return where(first, _where_said(subscript, yes, nothing), 0)
        case Call(op="where", args=(first, yes, no)) if yes == nothing:
            return where(first, 0, _where_said(subscript, no, nothing))
    return subscript


def _only_if(condition: Scalar, value: Scalar, nothing: Num) -> Scalar:
    """A value under one more condition, not asked where there is no value: it may read what is only inside there."""
    match value:
        case Call(op="select", args=(first, yes)):
            return _only_if(condition, where(first, yes, 0), nothing)
        case Call(op="where", args=(first, yes, no)) if no == nothing:
            return where(first, _only_if(condition, yes, nothing), no)
        case Call(op="where", args=(first, yes, no)) if yes == nothing:
            return where(first, yes, _only_if(condition, no, nothing))
    return where(condition, value, nothing)
