"""Contractions: nests that combine two factors and accumulate over loops that do not index the result.

    for i: for k: for j: c[i, j] += a[i, k] * b[k, j]      is a contraction of left i; right j; sums k

The index maps of the result and the two factors classify the loops. That is a property of a nest, which passes ask for:
what is inlined into a contraction (`optimise/inline_decision.py`), what joins it (`schedule/fusion/fuse.py`).
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from math import prod

from weft.affine import Affine, are_affine
from weft.loops.insert_casts import dtype_of
from weft.loops.nests import Nest
from weft.loops.nodes import Cast, Inside, Local, Read, Store, Update
from weft.loops.semiring import SUM_OF_PRODUCTS, TYPES, Semiring, is_tiled
from weft.loops.walk import Loop, free, mentioned, reads, walk
from weft.ops import OPS, Call, Num, Scalar, where
from weft.ops.dtypes import is_float


@dataclass(frozen=True, slots=True)
class Contraction:
    """A nest by its loops: those of both factors and the result, or of the result alone; those of one factor and the
    result, of the other and the result; and those that do not index the result.

    `ops` are the accumulation and what combines the factors; `tests` guard every point; where factor `gate` is 0, there
    is no term, whatever the other one is; `why` is the reason why no backend places it, empty if one may: under tests
    or a gate, once these are taken away (`schedule/products/pad_windows.py`). If it `gathers`, the reason is that
    values say which rows of a tensor are a factor's, and nothing else: a processor reads rows wherever they are.
    """

    batch: tuple[Loop, ...]
    left: tuple[Loop, ...]
    right: tuple[Loop, ...]
    sums: tuple[Loop, ...]
    ops: Semiring
    factors: tuple[Scalar, Scalar]
    tests: tuple[Inside, ...] = ()
    gate: int | None = None
    why: str = ""
    gathers: bool = False

    @property
    def with_gathers(self) -> Contraction:
        """For a backend that gathers rows."""
        return replace(self, why="") if self.gathers else self

    @property
    def is_conditional(self) -> bool:
        """Do some points have no term?"""
        return bool(self.tests) or self.gate is not None

    @property
    def term(self) -> Scalar:
        """What is accumulated at a point."""
        combined = Call(self.ops[1], self.factors)
        if self.gate is None:
            return combined
        zero = Cast(dtype_of(combined), Num(0))
        return where(Call("ne", (self.factors[self.gate], zero)), combined, zero)

    @property
    def kept(self) -> tuple[Loop, ...]:
        return (*self.batch, *self.left, *self.right)

    @property
    def loops(self) -> tuple[Loop, ...]:
        return (*self.kept, *self.sums)

    @property
    def points(self) -> int:
        """How often factors are combined, in each batch."""
        return prod(size for _, size in (*self.left, *self.right, *self.sums))

    @property
    def windows(self) -> tuple[Affine, ...]:
        """The subscripts that depend on several loops, as those of convolutions do."""
        indices = (index for factor in self.factors for read in reads(factor) for index in read.at)
        return tuple(one for one in indices if isinstance(one, Affine) and len(one.terms) > 1)

    def __str__(self) -> str:
        groups = {"batch": self.batch, "left": self.left, "right": self.right, "sums": self.sums}
        return "; ".join(f"{name} {', '.join(loop for loop, _ in some)}" for name, some in groups.items() if some)


def contraction_of(nest: Nest) -> Contraction | None:
    """What a nest contracts; None where nothing is accumulated, or nothing reused in more than one iteration.

    What does not distribute over the accumulation makes a contraction where both factors are reused.
    """
    if not isinstance(nest.core, Update):
        return None
    gated = _gated(nest.core.value)
    if (combination := _combination(nest.core.value) if gated is None else gated[1]) is None:
        return None
    op, combined, (one, other) = nest.core.op, combination.op, combination.args
    indexed = mentioned(*nest.core.at)
    groups: dict[str, list[Loop]] = {"batch": [], "left": [], "right": [], "sums": []}
    kinds = {(True, False): "left", (False, True): "right"}
    used = set(free(one)), set(free(other))
    for name, size in nest.loops:
        kind = kinds.get((name in used[0], name in used[1]), "batch") if name in indexed else "sums"
        groups[kind].append((name, size))
    batch, left, right, sums = (tuple(some) for some in groups.values())
    scattered = any(len(free(index)) > 1 for index in nest.core.at)
    if not (sums or scattered) or not (left or right):
        return None
    if op not in OPS[combined].over and not (is_tiled((op, combined)) and sums and left and right):
        return None
    gate = None if gated is None else gated[0]
    found = Contraction(batch, left, right, sums, (op, combined), (one, other), nest.tests, gate)
    if (why := _obstacle(found, nest.core)) != _GATHERED:
        return replace(found, why=why)
    return replace(found, why=why, gathers=not _obstacle(found, nest.core, gathers=True))


def _gated(value: Scalar) -> tuple[int, Call] | None:
    """A product that counts where one of its factors is not 0, and which: gradients below a choice are such."""
    match value:
        case Call(op="where", args=(Call(op="ne", args=(asked, none)), Call(op="mul", args=factors) as product, zero)):
            if asked in factors and _is_zero(none) and _is_zero(zero):
                return factors.index(asked), product
    return None


def _is_zero(value: Scalar) -> bool:
    number = value.value if isinstance(value, Cast) else value
    return isinstance(number, Num) and number.value == 0


def _combination(value: Scalar) -> Call | None:
    """What combines two factors; conversions of it are conversions of them, where that is the same.

    uint64(x * y) = uint64(x) * uint64(y)        of whole numbers of 64 bits, which wrap around
    int64(x and y) = int64(x) * int64(y)         of truth values
    """
    match value:
        case Call(args=(_, _)):
            return value
        case Cast(dtype="int64" | "uint64" as dtype, value=Call(op="add" | "sub" | "mul" as op, args=(one, other))):
            if dtype_of(value.value) in ("int64", "uint64"):
                return Call(op, (_converted(one, dtype), _converted(other, dtype)))
        case Cast(dtype=dtype, value=Call(op="and", args=(Read() as one, Read() as other))) if dtype in TYPES:
            return Call("mul", (Cast(dtype, one), Cast(dtype, other)))
    return None


def _converted(factor: Scalar, dtype: str) -> Scalar:
    """A whole number of 64 bits in another such type; what was a narrower one is converted once."""
    narrow = isinstance(factor, Cast) and not is_float(dtype_of(factor.value))
    return Cast(dtype, factor.value if narrow and isinstance(factor, Cast) else factor)


def _obstacle(one: Contraction, core: Store | Update, gathers: bool = False) -> str:
    """Why no backend places a contraction; nothing if one may, or one that gathers."""
    if not is_tiled(one.ops) or core.buffer.dtype not in TYPES:
        return f"no backend has tiles for {one.ops[0]} of {one.ops[1]} in {core.buffer.dtype}"
    if one.tests and (one.ops != SUM_OF_PRODUCTS or not _is_padding(one, core)):
        return "it runs under tests"
    if dtype_of(core.value) != core.buffer.dtype:
        return "what it accumulates is of another type"
    for factor, others in zip(one.factors, (one.right, one.left), strict=True):
        if trouble := _trouble(factor, dtype_of(core.value)):
            if not (gathers and trouble == _GATHERED and _gathers_rows(factor)):
                return trouble
        if not isinstance(factor, Read) and not others:
            return "a factor is computed, and used once"
    loops = {name for name, _ in one.kept}
    moving = [[name for name in free(index) if name in loops] for index in core.at]
    if not are_affine(core.at) or any(len(some) > 1 for some in moving):
        return "its cells are not indexed by one loop each"
    if sum(map(len, moving)) > len(loops):
        return "its cells lie on a diagonal"
    known = mentioned(*one.factors)
    idle = [name for name, _ in one.batch if name not in known]
    return f"no factor depends on `{idle[0]}`" if idle else ""


def _is_padding(one: Contraction, core: Store | Update) -> bool:
    """Do tests say of factors alone where these are inside of their tensors?"""
    ranges = dict(one.loops)
    tests = [(guarded_factor(one, test), test.index) for test in one.tests]
    cells: list[tuple[int | None, Read]] = [(None, Read(core.buffer, core.at))]
    cells += [(side, read) for side, factor in enumerate(one.factors) for read in reads(factor)]
    return all(side is not None for side, _ in tests) and all(
        isinstance(index, Affine)
        and (
            ranges.keys().isdisjoint(index.names)
            or index.stays_inside(size, ranges)
            or any(guards == side and _moves_as(index, test) for guards, test in tests)
        )
        for side, cell in cells
        for index, size in zip(cell.at, cell.buffer.shape, strict=True)
    )


def guarded_factor(one: Contraction, test: Inside) -> int | None:
    """The factor that is read inside of its tensor where a test holds, whose subscripts move as the test does or not
    with it; None if there is none."""
    names = {*test.index.names} if isinstance(test.index, Affine) else set()
    for side, factor in enumerate(one.factors):
        if isinstance(factor, Read) and {name for name, _ in one.loops} >= names:
            moving = [index for index in factor.at if not names.isdisjoint(free(index))]
            if moving and all(_moves_as(index, test.index) for index in moving):
                return side
    return None


def _moves_as(index: Scalar, other: Scalar) -> bool:
    """Are two indices a number apart?"""
    return isinstance(index, Affine) and isinstance(other, Affine) and (index - other).is_constant


#: Why a contraction is no product of a backend that does not gather rows.
_GATHERED = "a factor is gathered"


def _gathers_rows(factor: Scalar) -> bool:
    """Is a factor rows of a tensor that other tensors say by themselves?"""
    told = [index for index in factor.at if not isinstance(index, Affine)] if isinstance(factor, Read) else []
    return bool(told) and all(isinstance(at, Affine) for index in told for one in reads(index) for at in one.at)


def _trouble(factor: Scalar, dtype: str) -> str:
    """Why something cannot be a factor; nothing if it can."""
    inside = walk(factor)
    tensors = [one for one in inside if isinstance(one, Read)]
    if any(isinstance(one, Local) for one in inside):
        return "a factor is a variable computed elsewhere"
    if any(not isinstance(index, Affine) for one in tensors for index in one.at):
        return _GATHERED
    if not tensors:
        return "a factor is no tensor's"
    if dtype_of(factor) != dtype:
        return "a factor is of another type"
    if any(isinstance(one, Call) and OPS[one.op].price > 1 for one in inside):
        return "a factor takes long to compute"  # it is recomputed for every tile
    return ""
