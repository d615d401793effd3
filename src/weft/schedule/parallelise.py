"""Threads that share a kernel: the iterations of its one loop, or the panels of its one product.

for i in range(1024): y[i] = exp(x[i])      becomes      for i in range(1024) on 2 threads: y[i] = exp(x[i])
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import For, Parallel, Staged, Stmt
from weft.loops.legality import illegal, shared_product
from weft.schedule.annotate import annotated


def parallelised(body: tuple[Stmt, ...], threads: int, worth: int) -> tuple[Stmt, ...]:
    """A kernel's block that so many threads share, where it is long enough and they can."""
    if threads == 1 or _points(body) < worth:
        return body
    match body:
        case (For() as loop,) if not illegal(shared := annotated(loop, Parallel(threads))):
            return (shared,)
        case (Staged(what=what) as product,) if what.tile and not shared_product(product):
            return (replace(product, what=replace(what, tile=replace(what.tile, threads=threads))),)
    return body


def _points(body: Sequence[Stmt]) -> int:
    return sum(
        one.size * max(_points(one.body), 1) if isinstance(one, For) else _points(getattr(one, "body", ()))
        for one in body
    )
