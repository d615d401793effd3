"""Factors that are rounded are stored so: who multiplies them reads half the bytes, and tensor cores need no other.

    h = relu(u);  c[i, j] += float32(bfloat16(h[i, k])) * …
    becomes
    h = relu(u);  h_narrow = bfloat16(h);  c[i, j] += float32(h_narrow[i, k]) * …

Every value is what it was. The copy follows what was written last, so that it joins that; where nobody else reads
what it is a copy of, that is not stored at all.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.affine import Affine
from weft.loops.contraction import contraction_of
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Cast, Read, Role, Store
from weft.loops.walk import rewritten, walk
from weft.ops import Scalar


def with_narrow_factors(nests: Sequence[Nest]) -> list[Nest]:
    """Nests whose contractions read factors that they round from copies that are rounded."""
    done = list[Nest]()
    copies: dict[tuple[Buffer, str], Buffer] = {}  # those that hold what they are copies of hold now
    for nest in nests:
        for buffer, dtype in _rounded(nest):
            if (buffer, dtype) not in copies and (place := _place(buffer, done)) is not None:
                copies[buffer, dtype] = narrow = buffer.beside(Role.NARROW, "_narrow", dtype=dtype)
                done.insert(place, _copy(buffer, narrow))
        done.append(_reading(nest, copies))
        copies = {one: narrow for one, narrow in copies.items() if one[0] != nest.target}
    return done


def _rounded(nest: Nest) -> list[tuple[Buffer, str]]:
    """What a contraction reads to round it, and to what type."""
    if nest.shared or (found := contraction_of(nest)) is None:
        return []
    inside = [one for factor in found.factors for one in walk(factor)]
    return [rounding for one in inside if (rounding := _rounding(one)) is not None]


def _rounding(scalar: Scalar) -> tuple[Buffer, str] | None:
    """What is read in single precision and rounded, and to what type; None if that is not what a scalar does."""
    match scalar:
        case Cast(dtype="bfloat16" | "float16" as dtype, value=Read(buffer=buffer)) if buffer.dtype == "float32":
            return buffer, dtype
    return None


def _place(buffer: Buffer, before: Sequence[Nest]) -> int | None:
    """Where a copy is made: after what was written last; None if that is written in a loop that nests share."""
    last = max((at for at, one in enumerate(before) if one.target == buffer), default=None)
    if last is None:
        return len(before)
    return None if before[last].shared else last + 1


def _copy(buffer: Buffer, narrow: Buffer) -> Nest:
    loops = tuple((f"i{at}", size) for at, size in enumerate(buffer.shape))
    at = tuple(Affine.of(name) for name, _ in loops)
    core = Store(narrow, at, Cast(narrow.dtype, Read(buffer, at)))
    return Nest(loops, (), core, (f"{narrow.name} =: {narrow.dtype}({buffer.name})",))


def _reading(nest: Nest, copies: dict[tuple[Buffer, str], Buffer]) -> Nest:
    """A contraction that reads copies where it rounded."""

    def rule(scalar: Scalar) -> Scalar | None:
        found = _rounding(scalar)
        if found is None or found not in copies:
            return None
        assert isinstance(scalar, Cast)
        assert isinstance(scalar.value, Read)
        return Read(copies[found], scalar.value.at)

    rounds = {one for one in _rounded(nest) if one in copies}
    return replace(nest, core=replace(nest.core, value=rewritten(nest.core.value, rule))) if rounds else nest
