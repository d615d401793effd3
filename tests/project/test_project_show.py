"""Printed plans, as golden files; each is also run as the Python it looks like."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from project.brute import execute
from shape.pool import first_at
from weft.ops import OPS
from weft.project.show import operand_names, show_nest
from weft.project.solve_projection import derive
from weft.shape.logic import Compose, Logic, Pointwise, Transpose
from weft.shape.text import as_shape

PLANS: dict[str, tuple[str, tuple[str, ...], dict[str, int]]] = {
    "matrix_product": ("ij;jk=>ik", ("3,4", "4,5"), {}),
    "outer_product": ("i;j=>ij", ("3", "4"), {}),
    "transpose": ("ij=>ji", ("3,4",), {}),
    "everything_to_one_number": ("...|...->... => 0", ("2|3->4",), {}),
    "batched_matrix_product": ("...|j->i; ...|k->j => ...|k->i", ("2|4->3", "2|5->4"), {}),
    "reverse_and_reduce_the_rest": ("ijk => kji", ("2|3->7,3,4,5",), {}),
    "slice_of_a_batch": ("2...|...->... => ...|...->...", ("3,2|4->5",), {}),
    "new_axis_at_a_position": ("...|... => ...|...2", ("2|4",), {}),
    "diagonal": ("i=>ii", ("3",), {}),
    "trace": ("ii=>", ("3,3",), {}),
    "scalar": (";=>", ("1", "1"), {}),
    "axes_of_one": ("ij;jk=>ik", ("1,4", "4,1"), {}),
    "convolution": ("o<+k;k=>o", ("9", "3"), {}),
    "strided_dilated_convolution": ("2*o<+3*k;k=>o", ("11", "3"), {}),
    "padded_convolution": ("o=+k;k=>o", ("9", "3"), {}),
    "padded_strided_windows": ("2*o=+k=>ok", ("6",), {"k": 5}),
    "two_dimensional_convolution": ("oh<+kh, ow=+kw, c; c, kh, kw => oh, ow", ("6,5,2", "2,3,3"), {}),
    "interleave": ("i=>2*i+1", ("4",), {}),
    "concatenation": ("a;b=>a^b", ("2", "3"), {}),
    "concatenation_of_three": ("x, ...; y, ...; z, ... => x^y^z, ...", ("1,4", "2,4", "3,4"), {}),
    "swap_of_parts": ("a^b=>b^a", ("5",), {"a": 2}),
    "middle_part": ("1^a^2=>a", ("5",), {}),
    "writing_a_part": ("a=>a^b", ("2",), {"b": 3}),
    "attention_scores": ("q, heads, d; k, heads, d => heads, q, k", ("3,2,4", "5,2,4"), {}),
}


@pytest.mark.parametrize("name", PLANS)
def test_plan(name: str, golden: Callable[..., None]) -> None:
    spec, shapes, sizes = PLANS[name]
    planned = wf.plan(spec, *shapes, **sizes)
    golden(str(planned))
    arrays = [np.random.default_rng(0).integers(1, 9, shape.array_shape) for shape in planned.shapes[:-1]]
    np.testing.assert_array_equal(execute(str(planned), planned, arrays), planned.evaluate(*arrays))


LOGICS: dict[str, tuple[Logic, tuple[str, ...], str, str]] = {
    "pointwise_sum": (Pointwise(2), ("2|3->4", "2|1->4", "3->4"), "add", "add"),
    "compose_max_plus": (Compose(), ("4->2", "3->2", "4->3"), "max", "add"),
    "transpose_of_rows": (Transpose(), ("2->3", "3->2"), "add", "mul"),
    "slice_at_a_symbol": (first_at("step", 4), ("3", "4|3"), "add", "mul"),
    "least_of_greatest": (Compose(), ("4->2", "3->2", "4->3"), "min", "max"),
}


@pytest.mark.parametrize("name", LOGICS)
def test_nest(name: str, golden: Callable[..., None]) -> None:
    logic, shapes, accum, op = LOGICS[name]
    golden(show_nest(derive(logic, tuple(map(as_shape, shapes))), OPS[accum], OPS[op]))


def test_operand_names_leave_out_the_result() -> None:
    names = operand_names(60)
    assert names[:3] == ["A", "B", "C"]
    assert len(set(names)) == 60
    assert "R" not in names
    assert names[24:27] == ["Z", "A1", "B1"]


def test_loops_are_not_called_like_tensors() -> None:
    planned = wf.plan("A,R; R,A => A,R", (2, 3), (3, 2))
    a, b = np.arange(6).reshape(2, 3), np.arange(6).reshape(3, 2)
    np.testing.assert_array_equal(execute(str(planned), planned, [a, b]), a * b.T)
