"""Horizontal fusion of contractions: sums over the same cells beside a product's own, which meet in its epilogue.

    product of left i; right j; sums k:
        for i: for j: { t = 0;  for k: t += a[i, k] * b[k, j];  u = 0;  for l: u += c[i, l] * d[l, j];  … }

Such a sum has a factor of the product's rows and one of its columns, tensors that nothing in the product writes: it can
be added up before anything is done with the product's own.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from weft.affine import Affine
from weft.loops.effects import effects
from weft.loops.insert_casts import dtype_of
from weft.loops.nodes import Buffer, For, Let, Local, Set, Stmt
from weft.loops.semiring import SUM_OF_PRODUCTS, is_rounded
from weft.loops.staged import Parts
from weft.loops.walk import Body, everything, free, parts, perfect, reads, substituted, variables
from weft.ops import Call, Scalar


def joint_sums(found: Parts) -> tuple[tuple[Parts, ...], Body]:
    """The sums beside a product's own, each as the parts of a product that does nothing with its total; and what is
    done with all of them, where each is declared as what it starts from.

    Their factors are in the product's order; sums of as many terms run over loops that are called as the product's.
    """
    rest = found.rest
    if found.tests or found.ops != SUM_OF_PRODUCTS or not any(isinstance(one, For) for one in rest):
        return (), rest
    if not is_rounded(found.ops, found.total.dtype):
        return (), rest
    joint, kept, written = list[Parts](), list[Stmt](), effects(rest).buffers
    for stmt in rest:
        one = _joint(found, kept, stmt, written) if isinstance(stmt, For) else None
        if one is None:
            kept.append(stmt)
        else:
            joint.append(one)
    return tuple(joint), tuple(kept)


def all_sums(found: Parts) -> tuple[Parts, ...]:
    """A product's own sum and those beside it; of each alone, with nothing that is done with it."""
    return replace(found, rest=()), *joint_sums(found)[0]


def _joint(found: Parts, before: Sequence[Stmt], stmt: For, written: Collection[Buffer]) -> Parts | None:
    """The sum that a loop is, in a variable that is declared before it and not used between; else None."""
    sums, core = perfect((stmt,))
    match core:
        case (Set(local=total, value=Call(op=op, args=(first, Call(op=combined, args=(one, other))))),):
            start = _start(before, total)
            if start is None or first != total or (op, combined) != found.ops or total.dtype != found.total.dtype:
                return None
            if [size for _, size in sums] == [size for _, size in found.sums]:
                same = {mine: Affine.of(theirs) for (mine, _), (theirs, _) in zip(sums, found.sums, strict=True)}
                sums, one, other = found.sums, substituted(one, same), substituted(other, same)
            factors = _by_sides(found, one, other)
            if factors is None or not all(_is_tensor(each, found, written) for each in factors):
                return None
            return replace(found, sums=sums, total=total, start=start.value, factors=factors, rest=())
    return None


def _start(before: Sequence[Stmt], total: Local) -> Let | None:
    """Where a variable is declared, if nothing has used it since."""
    found = [at for at, one in enumerate(before) if isinstance(one, Let) and one.local == total]
    since = everything(before[found[-1] + 1 :]) if found else []
    used = any(total in variables(part) for one in since for part in parts(one))
    declared = before[found[-1]] if found and not used else None
    return declared if isinstance(declared, Let) else None


def _by_sides(found: Parts, one: Scalar, other: Scalar) -> tuple[Scalar, Scalar] | None:
    """Two factors as that of rows and that of columns; None if one of them is of both."""
    left, right = ({name for name, _ in loops} for loops in (found.left, found.right))
    for rows, columns in ((one, other), (other, one)):
        if right.isdisjoint(free(rows)) and left.isdisjoint(free(columns)) and not right.isdisjoint(free(columns)):
            return rows, columns
    return None


def _is_tensor(factor: Scalar, found: Parts, written: Collection[Buffer]) -> bool:
    """Is a factor of the product's type made of tensors that are not written, and of nothing else?"""
    tensors = reads(factor)
    return (
        bool(tensors)
        and dtype_of(factor) == found.total.dtype
        and not variables(factor)
        and all(one.buffer not in written and all(isinstance(at, Affine) for at in one.at) for one in tensors)
    )
