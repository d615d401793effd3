"""Exponentials of a numerically stable softmax, `exp(x - max)`, as powers of two.

    m = max(m, x[i, j]);  …;  for k: s = s + exp(x[i, k] - m)
    becomes      …;  for k: s = s + exp2((x[i, k] - m) * log2 e)

A GPU has powers of two of numbers in single precision. The product is rounded once more, which makes more of an ulp the
farther a number is below the largest, and the less its exponential counts beside that of the largest, which is 1.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import e, log2

from weft.affine import Affine
from weft.loops import Cast, For, Let, Local, Set, Stmt
from weft.loops.effects import accumulation
from weft.loops.insert_casts import dtype_of
from weft.loops.walk import Body, expanded, map_scalars, perfect, rewritten, substituted
from weft.ops import Call, Num, Scalar
from weft.schedule.products.contractions import values_of


def exponential(scalar: Scalar) -> Scalar:
    """The exponential of a number in single precision, as a power of two."""
    return Call("exp2", (Call("mul", (scalar, Cast("float32", Num(log2(e))))),))


def with_powers_of_two(body: Sequence[Stmt]) -> Body:
    """A block of loops over rows with exponentials of distances from what is the largest of a row."""
    largest, done = dict[Local, tuple[str, Scalar]](), list[Stmt]()
    for stmt in body:
        if isinstance(stmt, For):
            stmt = _of_distances(stmt, largest)
            largest |= _maximum(stmt)
        done.append(stmt)
    return tuple(done)


def _maximum(loop: For) -> dict[Local, tuple[str, Scalar]]:
    """The variable that a loop leaves the largest number in, and what it takes in an iteration."""
    loops, inside = perfect((loop,))
    match loops, inside:
        case ((name, _),), (Set(local=local) as taking,):
            found = accumulation(taking)
            if found is not None and found[0] == "max" and local.dtype == "float32":
                return {local: (name, found[1])}
    return {}


def _of_distances(loop: For, largest: dict[Local, tuple[str, Scalar]]) -> For:
    known = values_of([one for one in loop.body if isinstance(one, Let)])

    def is_distance(scalar: Scalar) -> bool:
        match expanded(scalar, known):
            case Call(op="sub", args=(value, Local() as local)) if local in largest:
                name, taken = largest[local]
                return value == substituted(taken, {name: Affine.of(loop.loop)})
        return False

    def leaf(scalar: Scalar) -> Scalar | None:
        match scalar:
            case Call(op="exp", args=(distance,)) if dtype_of(distance) == "float32" and is_distance(distance):
                return exponential(distance)
        return None

    return For(
        loop.loop, loop.size, tuple(map_scalars(one, lambda part: rewritten(part, leaf)) for one in loop.body), loop.how
    )
