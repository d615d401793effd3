"""Which loops run: the solver's cases one by one, and what the maps decide about clearing and plain writes."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.affine import Affine
from weft.errors import ProjectionError
from weft.project.equations import AxisId, Eq, Iterate, Pin
from weft.project.solve_projection import derive
from weft.project.union_axes import solve_axes
from weft.shape import as_shape
from weft.shape.logic import Constant, Parameter, Pointwise

P, Q, R = (AxisId(slot, "output", 0) for slot in range(3))
THREE = {P: 3, Q: 3, R: 3}


# The solver


def test_equal_axes_are_one_class_and_others_are_not() -> None:
    classes = solve_axes([Eq(P, Q), Iterate(R)], THREE)
    assert classes.find(P) == classes.find(Q) != classes.find(R)
    assert classes.size(Q) == 3


def test_axes_of_two_sizes_cannot_share_a_loop() -> None:
    with pytest.raises(ProjectionError, match="axes of sizes 3 and 4 cannot share a loop"):
        solve_axes([Eq(P, Q)], {P: 3, Q: 4})


@pytest.mark.parametrize(
    ("first", "second"), [(Affine(), Affine((), 1)), (Affine(), Affine.of("i")), (Affine.of("i"), Affine.of("j"))]
)
def test_one_class_has_one_position(first: Affine, second: Affine) -> None:
    with pytest.raises(ProjectionError, match="one axis cannot be read both at"):
        solve_axes([Pin(P, first), Eq(P, Q), Pin(Q, second)], THREE)
    assert solve_axes([Pin(P, first), Eq(P, Q), Pin(Q, first)], THREE).pins == {P: first}


def test_a_position_dominates_iteration() -> None:
    """Every axis asks for a loop; the one with a position is read there."""
    planned = wf.plan("2j => j", (3, 4))
    assert [loop.size for (loop,) in planned.loops] == [4]
    assert planned.maps == ((Affine((), 2), Affine.of("j")), (Affine.of("j"),))


# Rows


def test_rows_that_are_equal_have_as_many_axes() -> None:
    with pytest.raises(wf.ShapeError):
        wf.plan("..v..; ..v.. => ..v..", (2, 3), (4, 2, 3))


def test_surplus_axes_of_the_larger_row_iterate_alone() -> None:
    projection = derive(Pointwise(2), tuple(map(as_shape, ("2,3,4", "2,3,4", "4"))))
    assert [loop.size for loop in projection.loops] == [2, 3, 4]
    assert projection.maps[2] == projection.maps[0][2:]


@pytest.mark.parametrize("logic", [Constant(), Parameter()])
def test_a_leaf_alone_is_visited_whole(logic: Constant | Parameter) -> None:
    projection = derive(logic, (as_shape("2|1->3,4"),))
    assert sorted(loop.size for loop in projection.loops) == [2, 3, 4]
    assert projection.maps[0][-1] == Affine()  # a single position needs no loop


# What the maps decide

CASES = {
    "i => i": (False, "n.x[i] = x[i]"),
    "i => 0": (True, "n.x[0] += x[i]"),
    "i => ii": (True, "n.x[i, i] = x[i]"),
    "i => i1": (True, "n.x[i, 1] = x[i]"),
}


@pytest.mark.parametrize("spec", CASES)
def test_cells_are_cleared_where_some_are_never_or_often_written(spec: str) -> None:
    cleared, core = CASES[spec]
    x, n = wf.data(np.arange(3.0), label="x"), wf.node("n")
    code = wf.parse_cd(f'n =:+ x ~logic:"{spec}"', n=n, x=x)
    loops = wf.Context("interp").compile(code).show("loops").splitlines()
    assert any(line.endswith("= 0") for line in loops) == cleared
    assert loops[-1].strip() == core


def test_without_a_colon_what_was_there_is_added_to_written_once_or_not() -> None:
    x, n = wf.data(np.arange(3.0), label="x"), wf.node("n", init=1.0)
    ctx = wf.Context("interp")
    routine = ctx.compile(wf.parse_cd('n =+ x ~logic:"i => i"; n =+ x ~logic:"i => i"', n=n, x=x))
    assert "= 0" not in routine.show("loops")
    routine()
    assert ctx[n].tolist() == [1.0, 3.0, 5.0]
