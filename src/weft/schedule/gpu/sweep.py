"""Sweeps: what one launch of a GPU does about matrices that are never whole in memory, a block of columns at a time.

    a[h, t, s] += q[h, t, e] * k[h, s, e]      of all roles: batches `h`, rows `t`, columns `s`
    m[h, t] max= a[h, t, s]                    of each row, from all its columns
    o[h, t, e] += a[h, t, s] * v[h, s, e]      a vector of each row, from all its columns
    n[h, t, e] = bfloat16(o[h, t, e])          of each row

The nests of a sweep have one name for each role, and one for the loop that is none of them, the depth of products. What
has all roles is `matrices`: a program of the launch has a block of each, and never more. All else that is written has
rows and no columns. Which role rows and columns have is said for each sweep: gradients of keys and values have a row
for each key, and a column for each query.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.loops.contraction import contraction_of
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Store, Update
from weft.loops.semiring import SUM_OF_PRODUCTS
from weft.loops.walk import Loop, free, reads, substituted
from weft.ops import Scalar


@dataclass(frozen=True, slots=True)
class Sweep:
    """Nests of one launch in the names of its roles; `summed` are batches that what it writes does not tell apart."""

    batch: tuple[Loop, ...]
    summed: tuple[Loop, ...]
    row: Loop
    column: Loop
    depth: str
    nests: tuple[Nest, ...]
    matrices: frozenset[Buffer]

    @property
    def outer(self) -> frozenset[str]:
        """The loops that a value of a row may depend on."""
        return frozenset([*(name for name, _ in self.batch), self.row[0]])

    @property
    def written(self) -> dict[Buffer, tuple[Scalar, ...]]:
        """What it writes of rows, and the cell of each in a row."""
        return {nest.target: nest.core.at for nest in self.nests if nest.target not in self.matrices}

    def is_along(self, nest: Nest) -> bool:
        """Does a nest take something of every column into a value of its row?"""
        return nest.target not in self.matrices and self.column[0] in dict(nest.loops)

    def width(self, nest: Nest) -> int:
        """How many numbers a nest has in depth; 0 where it has none."""
        return dict(nest.loops).get(self.depth, 0)

    def is_of_rows(self, scalar: Scalar) -> bool:
        """Is a scalar one number for each row?"""
        return self.outer.issuperset(free(scalar)) and not any(one.buffer in self.matrices for one in reads(scalar))


def sweep_of(
    nests: Sequence[tuple[Nest, Mapping[str, str]]],
    batch: Sequence[Loop],
    row: Loop,
    column: Loop,
    matrices: Collection[Buffer],
) -> Sweep | None:
    """The sweep of some nests, each with the names of its loops by their roles; None if they are none."""
    depth = _fresh("depth", {name for name, _ in (*batch, row, column)})
    named = [_named(nest, roles, depth) for nest, roles in nests]
    if None in named:
        return None
    found = [one for one in named if one is not None]
    outputs = [one for one in found if one.target not in matrices]
    told = [{name for index in one.core.at for name in free(index)} for one in outputs]
    summed = tuple(loop for loop in batch if not any(loop[0] in names for names in told))
    grid = tuple(loop for loop in batch if loop not in summed)
    made = Sweep(grid, summed, row, column, depth, tuple(found), frozenset(matrices))
    return made if outputs and all(map(_Fitting(made).nest, found)) else None


def _fresh(name: str, taken: Collection[str]) -> str:
    while name in taken:
        name += "_"
    return name


def _named(nest: Nest, roles: Mapping[str, str], depth: str) -> Nest | None:
    """A nest in the names of its roles; None if it has several other loops."""
    others = [name for name, _ in nest.loops if name not in roles.values()]
    if len(others) > 1 or nest.tests or nest.shared:
        return None
    called = {**{name: role for role, name in roles.items()}, **dict.fromkeys(others, depth)}
    values = {name: Affine.of(new) for name, new in called.items()}
    loops = tuple((called[name], size) for name, size in nest.loops)
    return replace(nest.mapped(lambda scalar: substituted(scalar, values)), loops=loops)


@dataclass(frozen=True, slots=True)
class _Fitting:
    """Which nests a sweep takes."""

    of: Sweep

    def nest(self, nest: Nest) -> bool:
        if isinstance(nest.core, Update) and dtype_of(nest.core.value) != nest.target.dtype:
            return False
        return self._cell(nest) and (self._matrix(nest) if nest.target in self.of.matrices else self._row(nest))

    def _cell(self, nest: Nest) -> bool:
        """Are cells of matrices and of rows touched where they are written, and nowhere else?"""
        written, own = self.of.written, {nest.target: nest.core.at}
        cells = [(nest.target, nest.core.at), *((one.buffer, one.at) for one in nest.reads)]
        whole = {*self.of.outer, *(name for name, _ in self.of.summed), self.of.column[0]}
        for buffer, at in cells:
            if buffer in self.of.matrices:
                names = [name for index in at for name in free(index)]
                if sorted(names) != sorted(whole) or not all(isinstance(one, Affine) for one in at):
                    return False
            elif at != written.get(buffer, own.get(buffer, at)):
                return False
        return True

    def _matrix(self, nest: Nest) -> bool:
        """Does a nest store something at every point of a matrix, or add up a product there?"""
        if self.of.width(nest) == 0:
            return not any(self.of.depth in free(one) for one in (nest.core.value, *nest.core.at))
        return self._product(nest, self.of.column[0])

    def _row(self, nest: Nest) -> bool:
        names = [name for index in nest.core.at for name in free(index)]
        grid = {*self.of.outer}
        wide = {self.of.depth} if self.of.width(nest) else set[str]()
        if sorted(names) != sorted(grid | wide) or not all(
            isinstance(one, Affine) and len(one.terms) < 2 for one in nest.core.at
        ):
            return False
        if not self.of.is_along(nest):
            loops = {name for name, _ in nest.loops}
            return loops == grid | wide and not any(one.buffer in self.of.matrices for one in nest.reads)
        if isinstance(nest.core, Store):
            return False
        if not wide:
            return True
        return self._product(nest, self.of.depth)

    def _product(self, nest: Nest, right: str) -> bool:
        """Is a nest a product in single precision, one of whose factors has its columns, and the other its rows?"""
        found = contraction_of(nest)
        if found is None or found.why or found.ops != SUM_OF_PRODUCTS or nest.target.dtype != "float32":
            return False
        one, other = factor_sides(found.factors, right)
        return right in free(other) and self.of.row[0] not in free(other) and right not in free(one)


def factor_sides(factors: tuple[Scalar, Scalar], right: str) -> tuple[Scalar, Scalar]:
    """The factor of a product's rows, and that of its columns, which a loop is along."""
    one, other = factors
    return (other, one) if right in free(one) else (one, other)
