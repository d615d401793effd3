"""Copies of factors, for contractions that multiply them as they lie: rounded, or with sums side by side.

    h = relu(u);  c[i, j] += float32(bfloat16(h[i, k])) * …
    becomes
    h = relu(u);  h_narrow = bfloat16(h);  c[i, j] += float32(h_narrow[i, k]) * …

    c[i, j] += a[i, k] * b[k, j]
    becomes
    b_turned[j, k] = b[k, j];  c[i, j] += a[i, k] * b_turned[j, k]

Every value is what it was. A rounded factor has half the bytes, and tensor cores take it as it is; those that round to
tf32 want sums side by side, and without any columns are to be. A copy follows what was written last, so that it joins
that; where nobody else reads what it is a copy of, that is not stored at all.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TypeAlias

from weft.affine import Affine
from weft.loops.contraction import contraction_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Cast, Read, Role, Store
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.walk import rewritten, walk
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class _FactorCopy:
    """A copy of a buffer in some type, its axes in some order."""

    of: Buffer
    dtype: str
    order: tuple[int, ...]

    @property
    def buffer(self) -> Buffer:
        if self.dtype != self.of.dtype:
            return self.of.beside(Role.NARROW, "_narrow", dtype=self.dtype)
        return self.of.beside(Role.TURNED, "_turned", shape=self.ordered(self.of.shape))

    def ordered(self, axes: tuple[int, ...]) -> tuple[int, ...]:
        return tuple(axes[at] for at in self.order)

    def read(self, at: Sequence[Scalar]) -> Read:
        """A cell of it, by that of what it is a copy of."""
        return Read(self.buffer, tuple(at[one] for one in self.order))

    @property
    def nest(self) -> Nest:
        """What makes it."""
        loops = tuple((f"i{at}", size) for at, size in enumerate(self.of.shape))
        at = tuple(Affine.of(name) for name, _ in loops)
        cell, source = self.read(at), Read(self.of, at)
        value = Cast(self.dtype, source) if self.dtype != self.of.dtype else source
        return Nest(loops, (), Store(cell.buffer, cell.at, value), (f"{cell.buffer.name} =: {self.of.name}",))


#: What contractions read in a copy instead.
_Wanted: TypeAlias = Mapping[Scalar, _FactorCopy]


def with_narrow_factors(nests: Sequence[Nest]) -> list[Nest]:
    """Nests whose contractions read factors that they round from copies that are rounded."""
    return _with_copies(nests, _rounded)


def with_turned_factors(nests: Sequence[Nest], points: int) -> list[Nest]:
    """Nests whose contractions of so many points read factors that lie side by side along their sums."""
    return _with_copies(nests, lambda nest: _across(nest, points))


def with_columns_in_memory(nests: Sequence[Nest], points: int) -> list[Nest]:
    """Nests whose contractions of so many points read columns that lie side by side, where their results do."""
    return _with_copies(nests, lambda nest: _astride(nest, points))


def _with_copies(nests: Sequence[Nest], asked: Callable[[Nest], _Wanted]) -> list[Nest]:
    done = list[Nest]()
    made = set[_FactorCopy]()  # those that hold what they are copies of hold now
    for nest in nests:
        wanted = {} if nest.shared else asked(nest)
        for copy in dict.fromkeys(wanted.values()):
            if copy not in made and (place := _place(copy.of, done)) is not None:
                made.add(copy)
                done.insert(place, copy.nest)
        done.append(_reading(nest, {one: copy for one, copy in wanted.items() if copy in made}))
        made = {copy for copy in made if copy.of != nest.target}
    return done


def _place(buffer: Buffer, before: Sequence[Nest]) -> int | None:
    """Where a copy is made: after what was written last; None if that is written in a loop that nests share."""
    last = max((at for at, one in enumerate(before) if one.target == buffer), default=None)
    if last is None:
        return len(before)
    return None if before[last].shared else last + 1


def _reading(nest: Nest, wanted: _Wanted) -> Nest:
    """A contraction that reads copies."""

    def rule(scalar: Scalar) -> Scalar | None:
        if (copy := wanted.get(scalar)) is None:
            return None
        read = scalar.value if isinstance(scalar, Cast) else scalar
        assert isinstance(read, Read)
        return copy.read(read.at)

    return replace(nest, core=replace(nest.core, value=rewritten(nest.core.value, rule))) if wanted else nest


def _rounded(nest: Nest) -> _Wanted:
    """What a contraction reads in single precision to round it."""
    if (found := contraction_of(nest)) is None:
        return {}
    wanted = dict[Scalar, _FactorCopy]()
    for one in (scalar for factor in found.factors for scalar in walk(factor)):
        match one:
            case Cast(dtype="bfloat16" | "float16" as dtype, value=Read(buffer=buffer)) if buffer.dtype == "float32":
                wanted[one] = _FactorCopy(buffer, dtype, tuple(range(len(buffer.shape))))
    return wanted


def _across(nest: Nest, points: int) -> _Wanted:
    """The factors of a large contraction in single precision that lie along loops other than its sums."""
    found = contraction_of(nest)
    if found is None or found.ops != SUM_OF_PRODUCTS or found.points < points or nest.tests:
        return {}
    sums = {name for name, _ in found.sums}
    wanted = dict[Scalar, _FactorCopy]()
    for one in found.factors:
        if isinstance(one, Read) and one.buffer.dtype == "float32":
            inside = [_is_along(index, sums) for index in one.at]
            if any(inside) and not inside[-1]:
                axes = range(len(inside))
                order = (*(at for at in axes if not inside[at]), *(at for at in axes if inside[at]))
                wanted[one] = _FactorCopy(one.buffer, "float32", order)
    return wanted


def _astride(nest: Nest, points: int) -> _Wanted:
    """The factor of a large contraction that has the columns of its result, and lies along another loop."""
    found = contraction_of(nest)
    if found is None or found.ops != SUM_OF_PRODUCTS or found.points < points or nest.tests or not nest.core.at:
        return {}
    columns = {name for name, _ in (*found.left, *found.right) if _is_along(nest.core.at[-1], {name})}
    wanted = dict[Scalar, _FactorCopy]()
    for one in found.factors:
        if isinstance(one, Read) and one.buffer.dtype == "float32" and not _is_along(one.at[-1], columns):
            for at, index in enumerate(one.at):
                if _is_along(index, columns):
                    order = (*(other for other in range(len(one.at)) if other != at), at)
                    wanted[one] = _FactorCopy(one.buffer, "float32", order)
    return wanted


def _is_along(index: Scalar, loops: set[str]) -> bool:
    return isinstance(index, Affine) and len(index.terms) == 1 and index.terms[0][1] in loops
