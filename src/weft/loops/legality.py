"""What must hold for loops to run as their annotations say; each answer is the reason why they cannot, or nothing.

Each annotation has its rule in `RULES`. What must hold for products in tiles or blocks is in `product_legality.py`, and
what holds of all numbers of an annotation, in `annotations.py`.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from itertools import combinations, pairwise
from math import prod
from typing import Any, NamedTuple

from weft.affine import Affine
from weft.loops.affine_accesses import Site, separated, sites
from weft.loops.annotations import EXCLUSIVE, Annotation
from weft.loops.effects import accumulation, effects
from weft.loops.nests import stride_of
from weft.loops.nodes import (
    Buffer,
    Cast,
    Cold,
    Collapse,
    Fill,
    For,
    Grid,
    If,
    Jam,
    Lanes,
    Let,
    Local,
    NonTemporal,
    Owners,
    Parallel,
    PrefetchRows,
    Product,
    Read,
    Registers,
    Role,
    Set,
    Simt,
    Staged,
    Stmt,
    Store,
    Tile,
    Unroll,
    Update,
    Vector,
)
from weft.loops.owner_computes import scatter_of
from weft.loops.reaching_writes import covered
from weft.loops.semiring import is_accumulation
from weft.loops.streams import LINE_BYTES, bypassing, fetched_by, gathered_rows
from weft.loops.walk import (
    WRITING,
    Loop,
    around,
    body_of,
    everything,
    mentioned,
    own_accesses,
    parts,
    perfect,
    reads,
    variables,
    walk,
)
from weft.ops import Call, Scalar
from weft.ops.dtypes import numpy_type


def collapsed_loops(loop: For) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops that run as one where a loop is collapsed, else the loop itself; and the block inside."""
    count = next((one.loops for one in loop.how if isinstance(one, Collapse)), 1)
    loops, body = perfect(loop.body, count - 1, lambda one: not one.how)
    return ((loop.loop, loop.size), *loops), body


class _Annotated(NamedTuple):
    """A loop, and the loops that run as one where it is collapsed, with the block inside."""

    loop: For
    loops: tuple[Loop, ...]
    body: tuple[Stmt, ...]


def illegal(loop: For) -> str:
    """Why a loop cannot run as its annotations say; nothing if it can."""
    if not loop.how:
        return ""
    found = _Annotated(loop, *collapsed_loops(loop))
    exclusive = [str(one) for one in loop.how if isinstance(one, EXCLUSIVE)]
    if len(exclusive) > 1:
        return f"{' and '.join(exclusive)} exclude each other"
    return next(filter(None, (RULES[type(how)](how, found) for how in loop.how)), "")


def is_on_grid(stmt: Stmt) -> bool:
    """Do programs or threads of a GPU share a statement?"""
    return isinstance(stmt, For) and any(isinstance(one, Grid | Owners | Simt) for one in stmt.how)


def is_shared(stmt: Stmt) -> bool:
    """Do threads share a statement?"""
    match stmt:
        case For(how=how):
            return any(isinstance(one, Parallel) for one in how)
        case Staged(what=Product(tile=Tile(shared=shared))):
            return bool(shared)
    return False


def is_cold(stmt: Stmt) -> bool:
    """Does a statement hardly ever run?"""
    return isinstance(stmt, For) and any(isinstance(one, Cold) for one in stmt.how)


def on_threads(stmt: Stmt) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops on SIMT threads, each the whole body of the last, that a statement begins with; the block inside."""
    return perfect((stmt,), such=lambda loop: any(isinstance(one, Simt) for one in loop.how))


def beside_threads(stmt: Stmt) -> str:
    """Why SIMT threads cannot share loops inside a statement, which each of them runs; nothing if they can."""
    loops, body = on_threads(stmt)
    inside = everything(body)
    if loops and any(on_threads(one)[0] for one in inside if one is not stmt):
        return "simt threads share what is inside of what they share"
    if not loops and any(on_threads(one)[0] for one in inside) and _stores_outside((stmt,)):
        return "each of the simt threads would store what stands beside the loops that they share"
    return ""


def _stores_outside(body: Sequence[Stmt]) -> bool:
    own = [one for one in body if not on_threads(one)[0]]
    return any(isinstance(one, WRITING) or _stores_outside(body_of(one)) for one in own)


# Dependences


def carried(loops: Sequence[Loop], body: Sequence[Stmt]) -> str:
    """What iterations of loops share and one of them writes; nothing if they may run in any order, or at once."""
    done = effects(body)
    for local in done.sets - done.lets:
        return f"`{local.name}` is carried from one iteration to the next"
    private = {one for one in done.buffers if one.role is Role.PRIVATE}
    for buffer, touched in sites(body, private).items():
        if not covered(touched):
            return f"`{buffer.name}` may hold what another iteration wrote"
    return _shared(loops, body, done.buffers - private)


def carried_anywhere(loops: Sequence[Loop], body: Sequence[Stmt]) -> str:
    """The same, where loops around may have written what each thread has for itself."""
    done = effects(body)
    for local in done.sets - done.lets:
        return f"`{local.name}` is carried from one iteration to the next"
    return _shared(loops, body, done.buffers)


def _shared(loops: Sequence[Loop], body: Sequence[Stmt], written: Collection[Buffer]) -> str:
    touched = sites(around(loops, tuple(body)), written)
    for buffer in sorted(written, key=lambda one: one.id):
        for outer, (name, size) in enumerate(loops):
            if size > 1 and not iterations_apart(name, touched[buffer], outer):
                return f"iterations share cells of `{buffer.name}`"
    return ""


def iterations_apart(loop: str, touching: Sequence[Site], outer: int = 0) -> bool:
    """Do different iterations of a loop, the step after so many outer ones, touch different cells at these sites?"""
    return _plainly_apart(loop, touching) or separated(loop, touching, outer)


def _plainly_apart(loop: str, touching: Sequence[Site]) -> bool:
    """Does a loop move all of them, in some axis, further than loops inside it do? Elsewhere they may be gathered."""
    axes = zip(*(one.access.at or () for one in touching), strict=False)
    return any(_moves_apart(loop, indices, touching) for indices in axes)


def _moves_apart(loop: str, indices: Sequence[Scalar], touching: Sequence[Site]) -> bool:
    """Does a loop move the indices of an axis by more than what lies between the least and the greatest of them?"""
    steps, ends = set[tuple[int, Affine]](), list[int]()
    for index, site in zip(indices, touching, strict=True):
        if not isinstance(index, Affine):
            return False
        names = [name for name, _ in site.loops]
        inside = dict(site.loops[names.index(loop) + 1 if loop in names else 0 :])
        around = Affine(tuple(term for term in index.terms if term[1] != loop and term[1] not in inside))
        steps.add((index.coefficient(loop), around))
        ends += (index - around).without([loop]).bounds(inside) or ()
    (step, _), *others = steps
    return not others and max(ends) - min(ends) < abs(step)


def sums_of(body: Sequence[Stmt]) -> list[Local]:
    """The variables from outside that a block gives other values: its sums, where it runs on vectors."""
    found = effects(body)
    return [one.local for one in everything(body) if isinstance(one, Set) and one.local not in found.lets]


def not_on_vectors(loops: Sequence[Loop], body: Sequence[Stmt]) -> str:
    """Why iterations cannot run on vectors: one touches what another writes, but for sums that each adds to once; or
    touches a cell that it writes at two subscripts, which compilers take for two cells."""
    inside, sums = everything(body), sums_of(body)
    if any(isinstance(one, For | Staged | Fill) for one in inside):
        return "it holds other loops"
    added = [one for one in inside if isinstance(one, Set) and one.local in sums]
    if not all((accumulation(one) or ("",))[0] == "add" for one in added):
        return f"`{sums[0].name}` is not a sum"
    tested = [one for block in inside if isinstance(block, If) for one in everything(block.body)]
    if any(isinstance(one, Set) and one.local in sums for one in tested):
        return f"`{sums[0].name}` is added to where a test holds"
    uses = [one for stmt in inside for part in parts(stmt) for one in walk(part) if one in sums]
    if len(set(sums)) < len(sums) or len(uses) > len(sums):
        return f"`{sums[0].name}` is used before all is added"
    return _shared(loops, body, effects(body).buffers) or _met(body)


def _not_in_lanes(loops: Sequence[Loop], body: Sequence[Stmt]) -> str:
    """Why iterations cannot run in the lanes of a program: the same, but for variables that they accumulate, in any
    order, and do not look at."""
    done, inside = effects(body), everything(body)
    for local in done.sets - done.lets:
        taken = [accumulation(one) for one in inside if isinstance(one, Set) and one.local == local]
        uses = sum(variables(part).count(local) for one in inside for part in parts(one))
        operations = {one[0] for one in taken if one is not None}
        if None in taken or uses > len(taken) or len(operations) > 1 or not is_accumulation(operations.pop()):
            return f"`{local.name}` is carried from one iteration to the next"
    return _shared(loops, body, [one for one in done.buffers if one.role is not Role.PRIVATE])


def _met(body: Sequence[Stmt]) -> str:
    """What an iteration touches at subscripts that may be one cell, and writes: who stores for several iterations at
    once may do so in another order."""
    for buffer, touching in sites(body, effects(body).buffers).items():
        cells = dict.fromkeys(one.access.at for one in touching)
        if any(not _are_apart(one, other) for one, other in combinations(cells, 2)):
            return f"an iteration may touch a cell of `{buffer.name}` twice"
    return ""


def _are_apart(one: Sequence[Scalar] | None, other: Sequence[Scalar] | None) -> bool:
    """Do two cells differ in some subscript, wherever loops are?"""
    pairs = zip(one or (), other or (), strict=False)
    return any(
        isinstance(mine, Affine) and isinstance(theirs, Affine) and (mine - theirs).is_never_zero
        for mine, theirs in pairs
    )


# Memory


def _too_few(count: int) -> str:
    return f"there are not {count} plain loops, each the whole body of the last"


def scattered(loops: Sequence[Loop], body: Sequence[Stmt], count: int) -> str:
    """Why loops cannot run as one."""
    if not 1 < len(loops) == count:
        return _too_few(count)
    for (outer, _), (inner, size) in pairwise(loops):
        if not follow(outer, (inner, size), body):
            return f"cells of `{outer}` do not follow those of `{inner}`"
    return ""


def follow(outer: str, inner: Loop, body: Sequence[Stmt]) -> bool:
    """Does an iteration of a loop go as far in memory as all of the loop inside it?"""
    inside = everything(body)
    plain = not any(isinstance(stmt, If | Staged | Fill) for stmt in inside)
    return plain and all(_follow(stmt, outer, *inner) for stmt in inside)


def _follow(stmt: Stmt, outer: str, inner: str, size: int) -> bool:
    """Do two loops only stand in subscripts, where an iteration of the outer one goes as far as all of the inner's?"""
    cells = [Read(one.buffer, one.at) for one in own_accesses(stmt) if one.at is not None]
    values = [stmt.value] if isinstance(stmt, Store | Update | Let | Set) else []
    if any(name in (outer, inner) for value in values for name in _outside(value)):
        return False
    steps = [(stride_of(cell, outer), stride_of(cell, inner)) for cell in cells]
    return all(far is not None and near is not None and far == size * near for far, near in steps)


def _outside(scalar: Scalar) -> Iterator[str]:
    """The loops a scalar mentions outside subscripts."""
    match scalar:
        case Affine(terms=terms):
            yield from (name for _, name in terms)
        case Call(args=args):
            for arg in args:
                yield from _outside(arg)
        case Cast(value=value):
            yield from _outside(value)


def added_to(body: Sequence[Stmt]) -> tuple[list[Let], list[str], Update] | None:
    """The variables that a block declares, the loops around the one update that follows, and the update."""
    lets = [one for one in body if isinstance(one, Let)]
    loops, inside = perfect(body[len(lets) :])
    match inside:
        case (Update() as update,) if loops:
            return lets, [name for name, _ in loops], update
    return None


def points(loops: Sequence[Loop]) -> int:
    """How many iterations loops have, one inside the other."""
    return prod(size for _, size in loops)


# The rules


def _collapse(how: Collapse, found: _Annotated) -> str:
    """Cells follow each other as if the loops were one; on a grid or in lanes they may lie anywhere."""
    if any(isinstance(one, Grid | Lanes | Owners) for one in found.loop.how):
        return "" if 1 < len(found.loops) == how.loops else _too_few(how.loops)
    return scattered(found.loops, found.body, how.loops)


def _any_order(how: Annotation, found: _Annotated) -> str:
    """No iteration touches a cell that another one writes, but for buffers of which each thread has one."""
    return carried(found.loops, found.body)


def _grid(how: Grid, found: _Annotated) -> str:
    return _no_power_of_two(how.block) or _any_order(how, found)


def _lanes(how: Lanes, found: _Annotated) -> str:
    return _no_power_of_two(how.block) or _not_in_lanes(found.loops, found.body)


def _owners(how: Owners, found: _Annotated) -> str:
    """Each iteration accumulates into cells, and reads nothing of them."""
    if how.part & (how.part - 1) or not 0 < how.part <= how.block:
        return f"{how.part} lanes are no power of two up to {how.block}"
    scatter = scatter_of(found.loops, found.body)
    return _no_power_of_two(how.block) or (scatter if isinstance(scatter, str) else "")


def _no_power_of_two(block: int) -> str:
    return f"{block} lanes are no power of two" if block & (block - 1) or block < 1 else ""


def _jam(how: Jam, found: _Annotated) -> str:
    """Each iteration adds to the same cells, one after another."""
    if not 1 < how.times <= points(found.loops):
        return f"it has {points(found.loops)} iterations"
    if (added := added_to(found.body)) is None:
        return "it holds more than variables, and loops around one update"
    lets, inner, update = added
    if any(not isinstance(index, Affine) or len(index.terms) > 1 for index in update.at):
        return "its cells are not indexed by one loop each"
    moving = mentioned(*update.at)
    if not moving.issuperset(inner) or moving.intersection(name for name, _ in found.loops):
        return f"its iterations do not each add to all of the same cells of `{update.buffer.name}`"
    values = [*(one.value for one in lets), update.value]
    own = any(read.buffer == update.buffer for value in values for read in reads(value))
    return f"what is added is read from `{update.buffer.name}`" if own else ""


def _vector(how: Vector, found: _Annotated) -> str:
    return not_on_vectors(found.loops, found.body)


def _registers(how: Registers, found: _Annotated) -> str:
    """As for vectors, of variables that no iteration adds to; whole vectors, which no threads share."""
    many = points(found.loops)
    if any(isinstance(other, Parallel) for other in found.loop.how):
        return "threads share its iterations, and all of them are written out"
    if how.lanes < 2 or many % how.lanes:
        return f"{many} iterations are no whole number of vectors"
    if sums := sums_of(found.body):
        return f"`{sums[0].name}` is a variable"
    return not_on_vectors(found.loops, found.body)


def _in_order(how: Annotation, found: _Annotated) -> str:
    """Iterations stay in their order: nothing need hold."""
    return ""


def _ahead(how: PrefetchRows, found: _Annotated) -> str:
    """Iterations touch memory in pieces, and loops inside are there to fetch them; or they gather rows."""
    fetched = len(found.loops) == 1 and (fetched_by(found.loop) or gathered_rows(found.loop))
    return "" if fetched else "no loop inside could fetch what it touches"


def _bypass(how: NonTemporal, found: _Annotated) -> str:
    """It runs on vectors, whole lines of them in registers, adds up nothing, and stores something in one piece."""
    if not any(isinstance(other, Vector | Registers) for other in found.loop.how):
        return "it does not run on vectors"
    if sums := sums_of(found.body):
        return f"`{sums[0].name}` is a sum"
    if not (stored := bypassing(found.loops[-1][0], found.body)):
        return "it stores nothing in one piece that it does not read"
    sizes = [numpy_type(one.buffer.dtype).itemsize for one in stored]
    lanes = [other.lanes for other in found.loop.how if isinstance(other, Registers)]
    return "its vectors are no whole lines" if any(one * size % LINE_BYTES for one in lanes for size in sizes) else ""


#: Why a loop cannot run so, of each annotation. `beside_threads` says what more must hold of what is around `Simt`.
RULES: Mapping[type, Callable[[Any, _Annotated], str]] = {
    Collapse: _collapse,
    Parallel: _any_order,
    Grid: _grid,
    Lanes: _lanes,
    Owners: _owners,
    Simt: _any_order,
    Jam: _jam,
    Vector: _vector,
    Registers: _registers,
    Unroll: _in_order,
    PrefetchRows: _ahead,
    NonTemporal: _bypass,
    Cold: _in_order,
}
