"""Code that is a contraction (`loops/contraction.py`), whether it accumulates in memory or in a variable.

    for i: for k: for j: c[i, j] += a[i, k] * b[k, j]

    becomes, where a backend places contractions,

    product of left i; right j; sums k:
        for i: for j: { c = c[i, j];  for k: c = c + a[i, k] * b[k, j];  c[i, j] = c }

Fusion asks for it before it joins anything (`fuse.py`), and joins the initialisation of a contraction's cells and
pointwise work on its result (`epilogue.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace

from weft.affine import Affine
from weft.loops import Buffer, For, If, Inside, Let, Local, Read, Set, Stmt, Store, Update
from weft.loops.contraction import Contraction, contraction_of
from weft.loops.effects import accumulation, effects, names
from weft.loops.folded_sums import folded_sums
from weft.loops.joint_sums import joint_sums
from weft.loops.legality import points
from weft.loops.nests import Nest, fresh_identifier, stride_of
from weft.loops.nodes import DEEPEST, Staged
from weft.loops.semiring import SUM_OF_PRODUCTS, is_accumulation, is_rounded
from weft.loops.staged import Parts, staged_product
from weft.loops.walk import (
    Body,
    Loop,
    around,
    everything,
    expanded,
    map_scalars,
    mentioned,
    operations,
    parts,
    reads,
    scoped,
    substituted,
    top_down,
    variables,
    walk,
)
from weft.naming import FreshNames
from weft.ops import Call, Scalar
from weft.optimise.simplify import simplified
from weft.schedule.kernel_templates import per_template
from weft.schedule.nodes import Kernel
from weft.schedule.products.permutable import in_any_order


def may_contract(body: Sequence[Stmt], least: int) -> bool:
    """Does a block accumulate over so many points, or more?"""
    for stmt, scope in scoped(body):
        if isinstance(stmt, Set | Update) and points(scope.loops) >= least:
            indexed = mentioned(*stmt.at) if isinstance(stmt, Update) else {}
            found = is_accumulation(stmt.op) if isinstance(stmt, Update) else accumulation(stmt) is not None
            if found and any(name not in indexed for name, _ in scope.loops):
                return True
    return False


def is_hidden(body: Sequence[Stmt], points: int) -> bool:
    """May a block be a contraction of so many points, though it is not seen to be one that can be placed?"""
    if SUM_OF_PRODUCTS[1] not in operations(body) or not may_contract(body, points):
        return False
    found = contracting(body[0]) if len(body) == 1 else None
    return found is None or bool(found.what.why)


@dataclass(frozen=True, slots=True)
class Contracting:
    """Code that is a contraction: the variable it accumulates in, what that starts from, and what follows at a point.

    for kept: { total = start;  for sums: total = total + one * other;  the rest uses total }

    Of several sums in one variable, `more` are those after the first.
    """

    what: Contraction
    total: Local
    start: Scalar
    rest: tuple[Stmt, ...]
    more: tuple[Contraction, ...] = ()

    @property
    def body(self) -> tuple[Stmt, ...]:
        """As loops, those of batches outermost."""
        return around(self.what.kept, self.point)

    @property
    def point(self) -> Body:
        """What is done at a point."""
        return (Let(self.total, self.start), *self._added(self.what), *self._follows)

    @property
    def _follows(self) -> Body:
        """What is done after the first sum."""
        return (*(stmt for one in self.more for stmt in self._added(one)), *self.rest)

    def _added(self, what: Contraction) -> Body:
        added: Body = (Set(self.total, Call(what.ops[0], (self.total, what.term))),)
        return around(what.sums, (If(what.tests, added),) if what.tests else added)

    @property
    def placed(self) -> tuple[Stmt, ...]:
        """As a product for a backend that places it, in the loops of batches."""
        return around(self.what.batch, (self.staged,))

    @property
    def parts(self) -> Parts:
        """The parts of its product."""
        what = self.what
        loops = what.left, what.right, what.sums
        return Parts(*loops, self.total, self.start, what.ops, what.factors, self._follows, what.tests)

    @property
    def staged(self) -> Staged:
        """As a product, of each batch."""
        what, start = self.what, Let(self.total, self.start)
        loops = what.left, what.right, what.sums
        return staged_product(*loops, start, what.ops, what.factors, self._follows, tests=what.tests)


def contracting(stmt: Stmt, gathers: bool = False, several: bool = False) -> Contracting | None:
    """The contraction that a nest is, whether it accumulates in memory or in a variable; None if it is none.

    With `gathers`, for a backend that reads rows which values say; with `several`, for one that has several sums in one
    variable, and adds up parts of rows and columns.
    """
    found = _in_memory(stmt) or _in_variable(stmt, several)
    if found is None:
        return None
    return with_obstacle(replace(found, what=found.what.with_gathers) if gathers else found, several)


def with_obstacle(found: Contracting, folds: bool = False) -> Contracting:
    """A contraction with the reason why what is done at its points keeps it from being placed, if so.

    Sums of a part of its rows or columns do not, where a backend `folds` those; elsewhere sums of its cells do not.
    """
    rest, folded = folded_sums(found.what.left, found.what.right, found.rest) if folds else (found.rest, ())
    joint, rest = ((), rest) if folds else joint_sums(replace(found.parts, rest=rest))
    terms = [(one.factors, one.sums) for one in (found.what, *found.more)]
    terms += [(one.factors, one.sums) for one in joint]
    read = [one for factors, _ in terms for factor in factors for one in reads(factor)]
    kept, sums = dict(found.what.kept), {name for _, loops in terms for name, _ in loops}
    block = (Let(found.total, found.start), *rest, *(one.update for one in folded))
    why = found.what.why or in_any_order(kept, block, read, sums)
    return replace(found, what=replace(found.what, why=why))


def _in_memory(stmt: Stmt) -> Contracting | None:
    """for loops: c[cell] += one * other"""
    inner = _innermost(stmt)
    if inner is None or not isinstance(inner.core, Update):
        return None
    core = inner.core
    what = contraction_of(_nest((), inner, core, values_of(inner.lets)))
    if what is None:
        return None
    total = Local(fresh_identifier(f"{core.buffer.name}_total", FreshNames(names([stmt]))), core.buffer.dtype)
    return Contracting(what, total, Read(core.buffer, core.at), (Store(core.buffer, core.at, total),))


def _in_variable(stmt: Stmt, several: bool) -> Contracting | None:
    """for kept: { total = start;  for sums: total = total + one * other;  perhaps more such;  rest }"""
    loops, outer, block = enclosing_loops(stmt)
    own, (nest, *rest) = _split(block)
    inner = _innermost(nest)
    if inner is None or not isinstance(inner.core, Set):
        return None
    total, added = inner.core.local, accumulation(inner.core)
    begun = [one.value for one in own if one.local == total]
    lets = [one for one in (*outer, *own) if one.local != total]
    if added is None or len(begun) != 1 or not rest or any(total in variables(one.value) for one in lets):
        return None
    known = values_of(lets, effects(block).sets)
    start = expanded(begun[0], known)
    if any(one.local in variables(start) for one in lets):
        return None
    cells = Buffer(0, total.name, tuple(size for _, size in loops), total.dtype)  # a cell for every point
    core = Update(cells, tuple(Affine.of(name) for name, _ in loops), *added)
    what = contraction_of(_nest(loops, inner, core, values_of(inner.lets, (), known)))
    if what is None:
        return None
    more = list[Contraction]()
    while several and len(rest) > 1 and (term := _term(what, total, rest[0], known)) is not None:
        more.append(term)
        rest = rest[1:]
    return Contracting(what, total, start, (*_needed(lets, rest), *rest), tuple(more))


def _term(what: Contraction, total: Local, stmt: Stmt, known: Mapping[Local, Scalar]) -> Contraction | None:
    """The sum with which a statement goes on in a contraction's variable, factors in its order; None if it does not."""
    inner = _innermost(stmt)
    added = accumulation(inner.core) if inner and isinstance(inner.core, Set) and inner.core.local == total else None
    if inner is None or added is None or not isinstance(stmt, For):
        return None
    cells = Buffer(0, total.name, tuple(size for _, size in what.kept), total.dtype)
    core = Update(cells, tuple(Affine.of(name) for name, _ in what.kept), *added)
    found = contraction_of(_nest(what.kept, inner, core, values_of(inner.lets, (), known)))
    return None if found is None else same_cells(what, found)


def same_cells(what: Contraction, other: Contraction) -> Contraction | None:
    """A second contraction of the same cells, its factors in the order of the first; None if it is no such."""
    if set(what.left) != set(other.left):
        other = replace(other, left=other.right, right=other.left, factors=other.factors[::-1])
    if what.ops != SUM_OF_PRODUCTS or other.ops != what.ops or other.why or what.is_conditional or other.is_conditional:
        return None
    same = all(set(mine) == set(its) for mine, its in zip(_sides(what), _sides(other), strict=True))
    return replace(other, batch=what.batch, left=what.left, right=what.right) if same else None


def _sides(what: Contraction) -> tuple[tuple[Loop, ...], ...]:
    return what.batch, what.left, what.right


@dataclass(frozen=True, slots=True)
class _Inner:
    """A statement, and the loops, variables and tests on the way to it."""

    loops: tuple[Loop, ...]
    lets: tuple[Let, ...]
    tests: tuple[Inside, ...]
    core: Stmt


def _innermost(stmt: Stmt) -> _Inner | None:
    """The one statement inside loops and tests that does something; None if there are several."""
    loops, lets, tests = list[Loop](), list[Let](), list[Inside]()
    while isinstance(stmt, For | If):
        if isinstance(stmt, For):
            loops.append((stmt.loop, stmt.size))
        else:
            tests += stmt.tests
        own, (stmt, *others) = _split(stmt.body)
        lets += own
        if others:
            return None
    return _Inner(tuple(loops), tuple(lets), tuple(tests), stmt)


def enclosing_loops(stmt: Stmt) -> tuple[list[Loop], list[Let], Sequence[Stmt]]:
    """Loops one inside the other, the variables declared on the way in, and the block inside."""
    loops, lets = list[Loop](), list[Let]()
    block: Sequence[Stmt] = (stmt,)
    while True:
        own, (first, *others) = _split(block)
        if others or not isinstance(first, For):
            return loops, lets, block
        lets += own
        loops.append((first.loop, first.size))
        block = first.body


def _split(block: Sequence[Stmt]) -> tuple[list[Let], Sequence[Stmt]]:
    """The variables that a block begins with, and the rest of it: at least its last statement."""
    own: list[Let] = []
    for stmt in block[:-1]:
        if not isinstance(stmt, Let):
            break
        own.append(stmt)
    return own, block[len(own) :]


def _nest(loops: Sequence[Loop], inner: _Inner, core: Update, known: Mapping[Local, Scalar]) -> Nest:
    """A statement and its loops as a nest, with variables written out."""
    tests = tuple(Inside(expanded(one.index, known), one.size) for one in inner.tests)
    value = simplified(expanded(core.value, known))
    return Nest((*loops, *inner.loops), tests, replace(core, value=value))


def values_of(
    lets: Sequence[Let], changed: Collection[Local] = (), before: Mapping[Local, Scalar] | None = None
) -> dict[Local, Scalar]:
    """What variables stand for that nothing changes, as far as no scalar gets too deep by it."""
    found = dict(before or {})
    for one in lets:
        value = expanded(one.value, found)
        if one.local not in changed and len(walk(value)) <= DEEPEST:
            found[one.local] = value
    return found


def _needed(lets: Sequence[Let], body: Sequence[Stmt]) -> list[Let]:
    """The variables that a block uses, in their order."""
    wanted = {one for stmt in everything(body) for part in parts(stmt) for one in variables(part)} | effects(body).sets
    found: list[Let] = []
    for one in reversed(lets):
        if one.local in wanted:
            found.insert(0, one)
            wanted |= set(variables(one.value))
    return found


def _forwards(found: Contracting) -> Contracting:
    """A contraction that walks memory forwards along its loops, where none of its tensors is left behind.

    for t: total = total + a[99 - t] * b[99 - t]    becomes    for t: total = total + a[t] * b[t]
    """
    what = found.what
    if found.more:
        return found
    scalars = [found.start, *what.factors, *(part for one in everything(found.rest) for part in parts(one))]
    cells = [read for scalar in scalars for read in reads(scalar)]
    cells += [Read(one.buffer, one.at) for one in everything(found.rest) if isinstance(one, Store | Update)]
    turned = {
        name: Affine(((-1, name),), size - 1)
        for name, size in (*what.left, *what.right, *what.sums)
        if _is_backwards([stride_of(cell, name) for cell in cells])
    }
    if not turned:
        return found

    def moved(scalar: Scalar) -> Scalar:
        return substituted(scalar, turned)

    one, other = map(moved, what.factors)
    rest = tuple(map_scalars(stmt, moved) for stmt in found.rest)
    return replace(found, what=replace(what, factors=(one, other)), start=moved(found.start), rest=rest)


def _is_backwards(strides: Sequence[int | None]) -> bool:
    return all(step is not None and step <= 0 for step in strides) and any(strides)


def is_placed(found: Contracting | None, points: int) -> bool:
    """May a backend place a contraction of so many points?"""
    return found is not None and found.what.points >= points and not found.what.why


def stage(
    kernels: Sequence[Kernel],
    points: int,
    fits: Callable[[Staged], bool] = lambda _: True,
    under_tests: bool = False,
    gathers: bool = False,
    several: bool = False,
) -> list[Kernel]:
    """The kernels with contractions of so many points as products, if a backend may place them; others say why not.

    Sums of floats become products in any case, others where a tile fits them: as loops they are faster than those.
    Those without some terms do where the backend places them `under_tests`, those of gathered rows if it `gathers`,
    those of `several` sums if it has them.
    """
    asked = points, fits, under_tests, gathers, several
    found = per_template(
        kernels, lambda one, _: (one.template, "") if one.decided else _staged(one.template, one.recurrence, *asked)
    )

    def with_reason(kernel: Kernel, body: Body, why: str) -> Kernel:
        if why and kernel.template is not kernel.body:  # it says so by its own names
            _, why = _staged(kernel.body, kernel.recurrence, *asked)
        return replace(kernel.with_template(body), plain=why)

    return [with_reason(one, *result) for one, result in zip(kernels, found, strict=True)]


def _staged(
    body: Body,
    recurrence: bool,
    points: int,
    fits: Callable[[Staged], bool],
    under_tests: bool,
    gathers: bool,
    several: bool,
) -> tuple[Body, str]:
    """The statements of a kernel in which every nest is asked, the outermost first; and why some are no products."""
    why: dict[str, None] = {}

    def asked(stmt: Stmt) -> Body | None:
        found = contracting(stmt, gathers, several) if isinstance(stmt, For) else None
        if found is None or found.what.points < points:
            return None
        if found.what.is_conditional and not found.what.why:
            if under_tests and found.what.gate is None and is_rounded(found.what.ops, found.total.dtype):
                return found.placed
            return (stmt,)  # it runs where a product of all points would not do (`pad_windows.py`)
        if is_placed(found, points):
            found = _forwards(found)
            alone = not joint_sums(found.parts)[0]
            if (is_rounded(found.what.ops, found.total.dtype) and alone) or fits(found.staged):
                return found.placed
        why[f"{found.what}: {found.what.why or 'no tile fits it'}"] = None
        return None if recurrence else (stmt,)

    return top_down(body, asked), "; ".join(why)
