"""Statements that read what they write: is every cell written before it is read?

    h(t, b) = t > 0 ? tanh(h(t - 1, b) + x(t, b)) : x(t, b)

Each of its reads stays inside the tensor where its guards let it be made, and there is an order of its loops in which
cells are written before they are read (`assign/iteration_order.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from weft.affine import are_affine
from weft.assign.explicit import as_affine
from weft.assign.iteration_order import iteration_order
from weft.comprehension.accesses import Accesses
from weft.comprehension.bounds_proof import outside
from weft.comprehension.mistakes import Mistake
from weft.comprehension.nodes import Read, indices, own_reads
from weft.comprehension.piecewise import Piecewise
from weft.comprehension.scalars import Known, Translation
from weft.comprehension.show import show_expr, show_left
from weft.loops import Local
from weft.loops.walk import rewritten
from weft.ops import Num, Scalar

if TYPE_CHECKING:
    from weft.comprehension.ranges import Loops


def check_recurrence(loops: Loops, known: Known, types: Mapping[str, str]) -> Iterator[Mistake]:
    """What is wrong with a statement that reads cells of the tensor it defines."""
    statement = loops.statement
    own = own_reads(statement)
    if not own:
        return
    ranges, accesses = dict(loops.indices), Accesses.of(statement, types)
    reads = [one for one in accesses.every if one.read is not None and one.tensor == statement.target.name]
    yield from outside(reads, ranges, known, Piecewise(indices(statement), known.number))
    late = [name for name, extent in ranges.items() if extent.low > 0]
    if late:
        what = f"`{late[0]}` begins at {ranges[late[0]].low}, and a recurrence defines its tensor from 0 on"
        yield Mistake(what, statement.target.span, f"choose: `{late[0]} > 0 ? … : …`")
        return
    sizes = {name: max(extent.size, 0) for name, extent in ranges.items()}
    scalar = Translation(types).within(statement)
    at = tuple(_affine(scalar(one), known) for one in statement.at)
    for read in own:
        cells = [_affine(scalar(one), known) for one in read.subscripts]
        if not are_affine(cells):
            yield _unproved(read, statement_text=show_left(statement), why="its subscripts are not sums of indices")
            return
    every = [[_affine(scalar(one), known) for one in read.subscripts] for read in own]
    if iteration_order(at, every, sizes) is None:
        why = "no order of its loops writes every cell before it is read"
        yield _unproved(own[0], statement_text=show_left(statement), why=why)


def _unproved(read: Read, statement_text: str, why: str) -> Mistake:
    what = f"`{show_expr(read)}` cannot be shown to be written before `{statement_text}`: {why}"
    return Mistake(what, read.span, "read cells that lie before in some index, or behind in it, such as `h(t - 1, i)`")


def _affine(index: Scalar, known: Known) -> Scalar:
    """A subscript with the values of sizes put in."""

    def leaf(one: Scalar) -> Scalar | None:
        return Num(known.number(one.name)) if isinstance(one, Local) else None

    return as_affine(rewritten(index, leaf))
