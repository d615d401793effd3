"""What must hold for products to run in tiles or blocks; each answer is the reason why one cannot, or nothing.

Tile        vectors lie in memory as it says, and end where tensors end
Blocks      what follows the sums of a product touches at no point what it writes at another, but for sums of rows or
            columns that one block has; nor in any iteration of the loops around it that each program runs
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from math import prod

from weft.affine import Affine
from weft.loops.folded_sums import folded_sums
from weft.loops.interleaving import interleaving, lies_in_words, narrow, register_type
from weft.loops.joint_sums import all_sums, joint_sums
from weft.loops.legality import carried, carried_anywhere, not_on_vectors, scattered
from weft.loops.nests import stride_of
from weft.loops.nodes import Blocks, Cast, For, Let, Product, Read, Set, Staged, Stmt, Tile, Update
from weft.loops.semiring import SUM_OF_PRODUCTS, TYPES, asks_for_numbers, is_accumulation, is_rounded
from weft.loops.staged import Parts, every_sum, further_sums, parts_of, placed_parts
from weft.loops.tensor_maps import factor_maps
from weft.loops.walk import Loop, around, everything, own_accesses, perfect
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
#: No rows are prefetched further ahead.
MOST_LINES = 1 << 16
#: A block of a GPU's product has so many rows, columns and sums at least.
SMALLEST_BLOCK = 16


def unfit(staged: Staged, repeated: Sequence[Loop] = ()) -> str:
    """Why a product cannot run in its tiles or blocks, in loops that are `repeated` by each program; nothing if it can,
    or has none."""
    if staged.what.blocks is not None:
        return _unfit_blocks(staged.what.blocks, parts_of(staged), repeated)
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
        or next(filter(None, (_misaligned(tile, one) for one in all_sums(found))), "")
        or (rest_in_order(found, along) if tile.vector else "")
        or (shared_product(staged, tile.shared) if tile.shared else "")
    )


def shared_in_blocks(body: Sequence[Stmt]) -> tuple[tuple[Loop, ...], Staged] | None:
    """The product whose blocks programs share, with the loops around it that each of them runs; None if there is none.

    A product of a block that one program has is in the lanes of that.
    """
    match perfect(body):
        case repeated, (Staged(what=Product(blocks=Blocks())) as staged,) if _runs_plainly(body):
            return repeated, staged
    return None


def _runs_plainly(body: Sequence[Stmt]) -> bool:
    return not any(isinstance(one, For) and one.how for one in everything(body))


def unrepeated(loop: For) -> str:
    """Why programs that share a product cannot each run a loop around it; nothing if they can."""
    found = shared_in_blocks((loop,))
    return unfit(found[1], found[0]) if found else ""


def still_updates(found: Parts, repeated: Sequence[Loop]) -> tuple[Update, ...]:
    """What follows a product's sums and accumulates in the same cells in all iterations of loops around it, in any
    order, where nothing else sees them."""
    names = {name for name, _ in repeated}
    rest, _ = folded_sums(found.left, found.right, found.rest)
    touched = Counter(access.buffer for one in everything(rest) for access in own_accesses(one))
    updates = [one for one in rest if isinstance(one, Update) and is_accumulation(one.op)] if names else []
    return tuple(one for one in updates if touched[one.buffer] == 2 and _stands_still(one, names))


def _stands_still(update: Update, names: Collection[str]) -> bool:
    return all(isinstance(one, Affine) and not set(one.names) & set(names) for one in update.at)


def _unfit_blocks(blocks: Blocks, found: Parts, repeated: Sequence[Loop] = ()) -> str:
    """Why a product cannot run in blocks."""
    sizes = blocks.rows, blocks.columns, blocks.sums
    if any(one < SMALLEST_BLOCK or one & (one - 1) for one in sizes):
        return f"its blocks are no powers of two from {SMALLEST_BLOCK} on"
    if found.ops != SUM_OF_PRODUCTS or found.total.dtype not in ("float32", "float64"):
        return "blocks are of sums of products in single or double precision"
    if blocks.precision not in ("ieee", "tf32", "thirds", "float8"):
        return "there are no such blocks"
    if blocks.precision == "float8" and (problem := _not_of_eight_bits(blocks, found)):
        return problem
    if blocks.parts & (blocks.parts - 1) or blocks.columns // blocks.parts < SMALLEST_BLOCK:
        return f"its parts are no powers of two, or of fewer than {SMALLEST_BLOCK} columns"
    if blocks.maps and (problem := _unmapped(blocks, found)):
        return problem
    rest, folded = folded_sums(found.left, found.right, found.rest)
    sides = blocks.rows, blocks.columns // blocks.parts
    loops = [*found.left, *found.right]
    for one in folded:
        if sides[one.side] % one.run:
            return f"a block has a part of `{one.update.buffer.name}`"
        apart = [loop for loop in loops if loop not in one.loops]
        if problem := carried_anywhere(apart, around(repeated, (one.update,))):
            return problem
    return carried_anywhere(loops, around(repeated, (Let(found.total, found.start), *rest)))


def _not_of_eight_bits(blocks: Blocks, found: Parts) -> str:
    """Why units that multiply floats of eight bits cannot multiply a product's factors."""
    factors = [factor for one in every_sum(found) for factor in one.factors]
    stored = [
        isinstance(one, Cast) and isinstance(one.value, Read) and one.value.buffer.dtype.startswith("float8")
        for one in factors
    ]
    if not all(stored) or found.total.dtype != "float32":
        return "its factors are not floats of eight bits"
    return "" if blocks.sums >= 2 * SMALLEST_BLOCK else f"{blocks.sums} sums of eight bits are too few at a time"


def _unmapped(blocks: Blocks, found: Parts) -> str:
    """Why the copy engine cannot load a product's blocks."""
    if further_sums(found)[0]:
        return "there are maps of the factors of one sum"
    if found.tests or prod(size for _, size in found.sums) % blocks.sums:
        return "a block of sums has terms that are not there, and would not be zero"
    return "" if factor_maps(found) else "a factor is no matrix of whole rows"


def _uncollapsed(found: Parts, counts: tuple[int, int, int]) -> str:
    """Why the last loops of each kind cannot run as one."""
    for loops, count in zip((found.left, found.right, found.sums), counts, strict=True):
        if count > 1 and (problem := scattered(loops[-count:], at_a_point(found), count)):
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
    size = tile.lanes * numpy_type(register_type(found, tile)).itemsize
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


def _misinterleaved(tile: Tile, found: Parts) -> str:
    """Why so many products are not added up in one step."""
    many, last = tile.interleaved, found.sums[-1] if found.sums else ("", 0)
    if many != interleaving(found):
        return f"its sums cannot be interleaved by {many}"
    if tile.dot or not tile.panel:
        return "columns are interleaved as they are packed"
    if tile.at_once > 1:
        return "panels of words are packed one by one"
    if not tile.strips and not lies_in_words(found.factors[0], last, many):
        return f"rows do not lie in words along `{last[0]}`"
    if tile.panel == "transposed" and not turns_in_words(found, many):
        return f"columns do not lie in words along `{last[0]}`"
    if any(one % many for one in tile.parts[:1]) or (len(found.sums) == 1 and tile.block % many):
        return "a part or a block ends inside a word"
    return ""


def turns_in_words(found: Parts, many: int) -> bool:
    """Can columns be transposed word by word, as each lies along the last sum, as far from the one before?"""
    columns, last = narrow(found.factors[1]), found.sums[-1]
    if not isinstance(columns, Read) or not lies_in_words(found.factors[1], last, many):
        return False
    steps = [stride_of(columns, name) for name, _ in (found.right[-1], *found.sums[:-1])]
    return all(step is not None and step % many == 0 for step in steps)


def _misgrouped(tile: Tile, found: Parts) -> str:
    """Why tiles do not follow each other in groups as one says, or look at their terms."""
    if tile.strips not in ("", "copied", "transposed") or (tile.strips and not (tile.panel and tile.group > 0)):
        return "rows are packed where columns are, for a group of tiles"
    grouped, several = bool(tile.block or tile.strips), bool(joint_sums(found)[0])
    if min(tile.packed, tile.panels) < 1 or (tile.packed > 1 and not tile.strips):
        return "strips are packed together where rows are packed"
    if tile.panels > 1 and not (grouped and tile.group):
        return "panels follow each other for a group of tiles"
    if grouped and several:
        return "of several sums, none is in blocks or reads strips"
    if tile.group < 0 or (tile.group and not (grouped or several)) or (several and not tile.group):
        return "groups are of tiles that share a block of sums, or strips, or have several sums"
    if tile.looks and not asks_for_numbers(found.ops, found.total.dtype):
        return "only extrema of floats look whether terms are numbers"
    if tile.looks < 0 or (tile.looks > 1 and grouped):
        return "tiles of a group are looked through one by one"
    whole = tile.block > 0 and not tile.group
    if tile.at_once < 1 or (tile.at_once > 1 and (tile.panel != "copied" or several or whole)):
        return "panels are packed together if they are copied, of one sum, and not in blocks of it for all rows"
    most = max(tile.packed, tile.panels, tile.group, tile.looks, tile.at_once)
    return f"{most} at once are more than {MOST_AT_ONCE}" if most > MOST_AT_ONCE else ""


def _misaligned(tile: Tile, found: Parts) -> str:
    """Why vectors do not lie as a tile says."""
    if tile.ahead and (problem := _not_ahead(tile, found)):
        return problem
    if tile.interleaved > 1:
        return _misinterleaved(tile, found)
    columns = found.factors[1]
    along_sums = tile.dot or tile.panel == "transposed"
    if along_sums and not found.sums:
        return "it has no sums that vectors could lie along"
    last = found.sums[-1] if along_sums else found.right[-1]
    if tile.dot:
        lie = all(lies_along(one, last, found.total.dtype) for one in found.factors)
    elif along_sums:
        lie = isinstance(columns, Read) and is_float(found.total.dtype) and _is_even(columns, last, found.right[-1])
    else:
        lie = bool(tile.panel) or lies_along(columns, last, found.total.dtype)
    return "" if lie else f"its vectors do not lie along `{last[0]}`"


def _not_ahead(tile: Tile, found: Parts) -> str:
    """Why rows are not prefetched so far ahead."""
    if tile.strips or tile.dot or tile.interleaved > 1 or not (found.sums and isinstance(found.factors[0], Read)):
        return "rows are prefetched where tiles read them as they lie"
    return f"{tile.ahead} lines are more than {MOST_LINES}" if tile.ahead > MOST_LINES else ""


def _is_even(columns: Read, last: Loop, loop: Loop) -> bool:
    """Do columns lie along the last sum, each as far from the one before?"""
    return stride_of(columns, last[0]) == 1 and stride_of(columns, loop[0]) is not None


def lies_along(factor: Scalar, loop: Loop, dtype: str) -> bool:
    """Is a factor a tensor that lies side by side along a loop, long enough for any vector of a type?"""
    lanes = WIDEST // numpy_type(dtype).itemsize
    return isinstance(factor, Read) and stride_of(factor, loop[0]) == 1 and loop[1] >= lanes


def rest_in_order(found: Parts, along: Sequence[Loop]) -> str:
    """Why what follows a product's sums cannot run on vectors, along the last of some loops."""
    block = (Let(found.total, found.start), *joint_sums(found)[1])
    return not_on_vectors(along[-1:], block) if along else "there is no loop"


def shared_product(staged: Staged, side: str) -> str:
    """Why threads cannot share the outermost loop over a product's columns, or rows."""
    loops, block = perfect(staged.body, len(staged.what.left) + len(staged.what.right))
    collapse = staged.what.tile.collapse if staged.what.tile else (1, 1, 1)
    own, last = (staged.what.right, collapse[1]) if side == "columns" else (staged.what.left, collapse[0])
    own = own if len(own) == last else own[:1]  # those that run as one are shared as one
    shared, others = ([one for one in loops if (one[0] in own) is whether] for whether in (True, False))
    return carried(shared, around(others, block)) if shared else f"it has no loop over {side}"
