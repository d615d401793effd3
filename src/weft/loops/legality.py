"""What must hold for loops to run as their annotations say; each answer is the reason why they cannot, or nothing.

Collapse    cells follow each other in memory as if the loops were one
Parallel, Grid, Simt
            no iteration touches a cell that another one writes, but for buffers of which each thread has one: these
            hold nothing from one iteration to the next
Simt        nor is anything stored outside of such loops by what has them inside, nor are there any inside of others,
            unless each is the whole body of the last
Vector      nor does any, but for variables that each iteration adds to, once; nor does one touch a cell that it writes
            at two subscripts, which compilers take for two cells
Lanes       nor does any, but for variables that iterations accumulate in any order and do not look at
Registers   as for vectors, of variables that no iteration adds to; whole vectors, which no threads share
Blocks      nor does what follows the sums of a product, of any two of its points
Jam         each iteration adds to the same cells, one after another
Ahead       iterations touch memory in pieces, and loops inside are there to fetch them
Tile        vectors lie in memory as it says, and end where tensors end
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from itertools import combinations, pairwise
from math import prod

from weft.affine import Affine
from weft.loops.annotations import Parts, parts_of, placed_parts
from weft.loops.effects import accumulation, effects
from weft.loops.nests import stride_of
from weft.loops.nodes import (
    Ahead,
    Blocks,
    Buffer,
    Cast,
    Collapse,
    Fill,
    For,
    Grid,
    If,
    Jam,
    Lanes,
    Let,
    Local,
    Parallel,
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
from weft.loops.reaching import covered
from weft.loops.semiring import SUM_OF_PRODUCTS, TYPES, asks_for_numbers, is_accumulation, is_rounded
from weft.loops.sites import Site, separated, sites
from weft.loops.streams import fetched_by
from weft.loops.walk import (
    Loop,
    around,
    body_of,
    everything,
    free,
    own_accesses,
    parts,
    perfect,
    reads,
    variables,
    walk,
)
from weft.ops import Call, Scalar
from weft.ops.dtypes import is_float, numpy_type

#: The bytes of the narrowest and the widest vector that any machine has: what is long enough for the widest is so for
#: all.
NARROWEST, WIDEST = 16, 64
#: The bytes of all vectors that there are.
WIDTHS = tuple(NARROWEST << at for at in range((WIDEST // NARROWEST).bit_length()))
#: A tile has no more vectors than this: what registers do not hold lies on the stack. No more tiles, panels or strips
#: than these have scratch memory at once.
MOST_VECTORS, MOST_AT_ONCE = 64, 1024
#: A block of a GPU's product has so many rows, columns and sums at least.
SMALLEST_BLOCK = 16


def collapsed_loops(loop: For) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops that run as one where a loop is collapsed, else the loop itself; and the block inside."""
    count = next((one.loops for one in loop.how if isinstance(one, Collapse)), 1)
    loops: list[Loop] = [(loop.loop, loop.size)]
    body = loop.body
    while len(loops) < count and len(body) == 1 and isinstance(body[0], For) and not body[0].how:
        loops.append((body[0].loop, body[0].size))
        body = body[0].body
    return tuple(loops), body


def illegal(loop: For) -> str:
    """Why a loop cannot run as its annotations say; nothing if it can."""
    if not loop.how:
        return ""
    loops, body = collapsed_loops(loop)
    exclusive = [str(one) for one in loop.how if isinstance(one, Jam | Vector | Registers | Unroll)]
    if len(exclusive) > 1:
        return f"{' and '.join(exclusive)} exclude each other"
    for one in loop.how:
        match one:
            case Collapse(loops=count) if problem := _uncollapsible(loop, loops, body, count):
                return problem
            case Grid(block=block) | Lanes(block=block) if block & (block - 1) or block < 1:
                return f"{block} lanes are no power of two"
            case Lanes() if problem := _not_in_lanes(loops, body):
                return problem
            case Parallel() | Grid() | Simt() if problem := carried(loops, body):
                return problem
            case Jam(times=times) if problem := _unjammed(loops, body, times):
                return problem
            case Vector() if problem := _in_order(loops, body):
                return problem
            case Registers() if any(isinstance(other, Parallel) for other in loop.how):
                return "threads share its iterations, and all of them are written out"
            case Registers(lanes=lanes) if problem := _unwritten(loops, body, lanes):
                return problem
            case Ahead() if len(loops) > 1 or not fetched_by(loop):
                return "no loop inside could fetch what it touches"
    return ""


def is_on_grid(stmt: Stmt) -> bool:
    """Do programs or threads of a GPU share a statement?"""
    return isinstance(stmt, For) and any(isinstance(one, Grid | Simt) for one in stmt.how)


def is_shared(stmt: Stmt) -> bool:
    """Do threads share a statement?"""
    match stmt:
        case For(how=how):
            return any(isinstance(one, Parallel) for one in how)
        case Staged(what=Product(tile=Tile(shared=shared))):
            return bool(shared)
    return False


def on_threads(stmt: Stmt) -> tuple[tuple[Loop, ...], tuple[Stmt, ...]]:
    """The loops on SIMT threads, each the whole body of the last, that a statement begins with; the block inside."""
    loops = list[Loop]()
    body: tuple[Stmt, ...] = (stmt,)
    while len(body) == 1 and isinstance(body[0], For) and any(isinstance(one, Simt) for one in body[0].how):
        loops.append((body[0].loop, body[0].size))
        body = body[0].body
    return tuple(loops), body


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
    return any(isinstance(one, Store | Update | Fill) or _stores_outside(body_of(one)) for one in own)


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
    """Do all stand, in some axis, at one index that moves with a loop alone? Others may be gathered."""
    columns = zip(*(one.access.at or () for one in touching), strict=False)
    alone = (first for first, *rest in columns if all(one == first for one in rest))
    return any(isinstance(one, Affine) and one.names == (loop,) for one in alone)


def sums_of(body: Sequence[Stmt]) -> list[Local]:
    """The variables from outside that a block gives other values: its sums, where it runs on vectors."""
    found = effects(body)
    return [one.local for one in everything(body) if isinstance(one, Set) and one.local not in found.lets]


def _in_order(loops: Sequence[Loop], body: Sequence[Stmt]) -> str:
    """Why iterations cannot run on vectors."""
    inside, sums = everything(body), sums_of(body)
    if any(isinstance(one, For | Staged | Fill) for one in inside):
        return "it holds other loops"
    added = [one for one in inside if isinstance(one, Set) and one.local in sums]
    if not all((accumulation(one) or ("",))[0] == "add" for one in added):
        return f"`{sums[0].name}` is not a sum"
    if sums and any(isinstance(one, If) for one in inside):
        return f"`{sums[0].name}` is added to where a test holds"
    uses = [one for stmt in inside for part in parts(stmt) for one in walk(part) if one in sums]
    if len(set(sums)) < len(sums) or len(uses) > len(sums):
        return f"`{sums[0].name}` is used before all is added"
    return _shared(loops, body, effects(body).buffers) or _met(body)


def _not_in_lanes(loops: Sequence[Loop], body: Sequence[Stmt]) -> str:
    """Why iterations cannot run in the lanes of a program."""
    done, inside = effects(body), everything(body)
    for local in done.sets - done.lets:
        taken = [accumulation(one) for one in inside if isinstance(one, Set) and one.local == local]
        uses = sum(variables(part).count(local) for one in inside for part in parts(one))
        operations = {one[0] for one in taken if one is not None}
        if None in taken or uses > len(taken) or len(operations) > 1 or not is_accumulation(operations.pop()):
            return f"`{local.name}` is carried from one iteration to the next"
    return _shared(loops, body, [one for one in done.buffers if one.role is not Role.PRIVATE]) or _met(body)


def _met(body: Sequence[Stmt]) -> str:
    """What an iteration touches at subscripts that may be one cell, and writes: who stores for several iterations at
    once may do so in another order."""
    for buffer, touching in sites(body, effects(body).buffers).items():
        cells = dict.fromkeys(one.access.at for one in touching)
        if any(not _are_apart(one, other) for one, other in combinations(cells, 2)):
            return f"an iteration may touch a cell of `{buffer.name}` twice"
    return ""


def _are_apart(one: Sequence[Scalar] | None, other: Sequence[Scalar] | None) -> bool:
    """Do two cells differ in some subscript by a number?"""
    pairs = zip(one or (), other or (), strict=False)
    return any(
        isinstance(mine, Affine) and isinstance(theirs, Affine) and (step := mine - theirs).is_constant and step.offset
        for mine, theirs in pairs
    )


def _unwritten(loops: Sequence[Loop], body: Sequence[Stmt], lanes: int) -> str:
    """Why iterations cannot be written out on vectors."""
    if lanes < 2 or points(loops) % lanes:
        return f"{points(loops)} iterations are no whole number of vectors"
    if sums := sums_of(body):
        return f"`{sums[0].name}` is a variable"
    return _in_order(loops, body)


# Memory


def _uncollapsible(loop: For, loops: Sequence[Loop], body: Sequence[Stmt], count: int) -> str:
    """Why loops cannot run as one; on a grid or in lanes their indices are divided out, wherever their cells lie."""
    if any(isinstance(one, Grid | Lanes) for one in loop.how):
        return "" if 1 < len(loops) == count else _too_few(count)
    return _scattered(loops, body, count)


def _too_few(count: int) -> str:
    return f"there are not {count} plain loops, each the whole body of the last"


def _scattered(loops: Sequence[Loop], body: Sequence[Stmt], count: int) -> str:
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


def _unjammed(loops: Sequence[Loop], body: Sequence[Stmt], times: int) -> str:
    """Why several iterations cannot run inside the loops inside."""
    if not 1 < times <= points(loops):
        return f"it has {points(loops)} iterations"
    if (found := added_to(body)) is None:
        return "it holds more than variables, and loops around one update"
    lets, inner, update = found
    if any(not isinstance(index, Affine) or len(index.terms) > 1 for index in update.at):
        return "its cells are not indexed by one loop each"
    moving = {name for index in update.at for name in free(index)}
    if not moving.issuperset(inner) or moving.intersection(name for name, _ in loops):
        return f"its iterations do not each add to all of the same cells of `{update.buffer.name}`"
    values = [*(one.value for one in lets), update.value]
    own = any(read.buffer == update.buffer for value in values for read in reads(value))
    return f"what is added is read from `{update.buffer.name}`" if own else ""


# Products


def unfit(staged: Staged) -> str:
    """Why a product cannot run in its tiles or blocks; nothing if it can, or has none."""
    if staged.what.blocks is not None:
        return _unfit_blocks(staged.what.blocks, parts_of(staged))
    if (tile := staged.what.tile) is None:
        return ""
    if problem := _uncollapsed(parts_of(staged), tile.collapse):
        return problem
    found = placed_parts(staged)
    if not found.right:
        return "it has no columns"
    if found.total.dtype not in TYPES:
        return f"there are no vectors of {found.total.dtype}"
    if not is_rounded(found.ops, found.total.dtype) and (tile.dot or tile.parts):
        return "only sums of floats are added up across vectors, or in parts"
    along = found.right if tile.along == "columns" else found.left
    return (
        _misshapen(tile, found)
        or _misgrouped(tile, found)
        or _misaligned(tile, found)
        or (rest_in_order(found, along) if tile.vector else "")
        or (shared_product(staged, tile.shared) if tile.shared else "")
    )


def _unfit_blocks(blocks: Blocks, found: Parts) -> str:
    """Why a product cannot run in blocks."""
    sizes = blocks.rows, blocks.columns, blocks.sums
    if any(one < SMALLEST_BLOCK or one & (one - 1) for one in sizes):
        return f"its blocks are no powers of two from {SMALLEST_BLOCK} on"
    if found.ops != SUM_OF_PRODUCTS or found.total.dtype != "float32":
        return "blocks are of sums of products in single precision"
    if blocks.precision not in ("ieee", "tf32") or blocks.splits != 1:
        return "there are no such blocks"
    return carried([*found.left, *found.right], (Let(found.total, found.start), *found.rest))


def _uncollapsed(found: Parts, counts: tuple[int, int, int]) -> str:
    """Why the last loops of each kind cannot run as one."""
    for loops, count in zip((found.left, found.right, found.sums), counts, strict=True):
        if count > 1 and (problem := _scattered(loops[-count:], at_a_point(found), count)):
            return problem
    return ""


def at_a_point(found: Parts) -> tuple[Stmt, ...]:
    """What a product does at a point: where its sum starts, a product that it takes in, and what follows."""
    accumulate, combine = found.ops
    value = Call(accumulate, (found.total, Call(combine, found.factors)))
    return (Let(found.total, found.start), Set(found.total, value), *found.rest)


def _misshapen(tile: Tile, found: Parts) -> str:
    """Why there is no tile of a shape."""
    if min(tile.rows, tile.vectors) < 1 or tile.rows * tile.vectors > MOST_VECTORS:
        return f"it has no vectors, or more than {MOST_VECTORS}"
    size = tile.lanes * numpy_type(found.total.dtype).itemsize
    if size not in WIDTHS:
        return f"there are no vectors of {size} bytes"
    if tile.shared not in ("", "columns", "rows") or tile.chunk < 1:
        return "threads share columns or rows"
    if tile.panel not in ("", "copied", "transposed") or (tile.dot and tile.panel):
        return "there are no such panels"
    goes_on = len(tile.parts) == 2 or not is_rounded(found.ops, found.total.dtype)
    if tile.block and not (tile.panel and goes_on and tile.block <= found.sums[0][1]):
        return "blocks are of panels whose sums go on in double precision"
    return "" if len(tile.parts) <= 2 and all(one > 0 for one in tile.parts) else "there are no such parts"


def _misgrouped(tile: Tile, found: Parts) -> str:
    """Why tiles do not follow each other in groups as one says, or look at their terms."""
    if tile.strips not in ("", "copied", "transposed") or (tile.strips and not (tile.panel and tile.group > 0)):
        return "rows are packed where columns are, for a group of tiles"
    if min(tile.packed, tile.panels) < 1 or (max(tile.packed, tile.panels) > 1 and not tile.strips):
        return "panels follow each other where rows are packed"
    grouped = bool(tile.block or tile.strips)
    if tile.group < 0 or (tile.group and not grouped):
        return "groups are of tiles that share a block of sums, or strips"
    if tile.looks and not asks_for_numbers(found.ops, found.total.dtype):
        return "only extrema of floats look whether terms are numbers"
    if tile.looks < 0 or (tile.looks > 1 and grouped):
        return "tiles of a group are looked through one by one"
    most = max(tile.packed, tile.panels, tile.group, tile.looks)
    return f"{most} at once are more than {MOST_AT_ONCE}" if most > MOST_AT_ONCE else ""


def _misaligned(tile: Tile, found: Parts) -> str:
    """Why vectors do not lie as a tile says."""
    columns = found.factors[1]
    along_sums = tile.dot or tile.panel == "transposed"
    if along_sums and not found.sums:
        return "it has no sums that vectors could lie along"
    last = found.sums[-1] if along_sums else found.right[-1]
    if tile.dot:
        lie = all(lies_along(one, last, found.total.dtype) for one in found.factors)
    elif along_sums:
        lie = isinstance(columns, Read) and stride_of(columns, last[0]) == 1 and is_float(found.total.dtype)
    else:
        lie = bool(tile.panel) or lies_along(columns, last, found.total.dtype)
    return "" if lie else f"its vectors do not lie along `{last[0]}`"


def lies_along(factor: Scalar, loop: Loop, dtype: str) -> bool:
    """Is a factor a tensor that lies side by side along a loop, long enough for any vector of a type?"""
    lanes = WIDEST // numpy_type(dtype).itemsize
    return isinstance(factor, Read) and stride_of(factor, loop[0]) == 1 and loop[1] >= lanes


def rest_in_order(found: Parts, along: Sequence[Loop]) -> str:
    """Why what follows a product's sums cannot run on vectors, along the last of some loops."""
    return _in_order(along[-1:], (Let(found.total, found.start), *found.rest)) if along else "there is no loop"


def shared_product(staged: Staged, side: str) -> str:
    """Why threads cannot share the outermost loop over a product's columns, or rows."""
    loops, block = perfect(staged.body, len(staged.what.left) + len(staged.what.right))
    collapse = staged.what.tile.collapse if staged.what.tile else (1, 1, 1)
    own, last = (staged.what.right, collapse[1]) if side == "columns" else (staged.what.left, collapse[0])
    own = own if len(own) == last else own[:1]  # those that run as one are shared as one
    shared, others = ([one for one in loops if (one[0] in own) is whether] for whether in (True, False))
    return carried(shared, around(others, block)) if shared else f"it has no loop over {side}"


def points(loops: Sequence[Loop]) -> int:
    """How many iterations loops have, one inside the other."""
    return prod(size for _, size in loops)
