"""Answers that were once other than OCANNL's, or than what the specification says, each as it was found."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.ops import OPS

EXAMPLES = np.linspace(-1, 1, 6).reshape(2, 3)


def examples() -> wf.Tensor:
    return wf.data(EXAMPLES, batch=1, label="x")


def test_heads_do_not_share_one_set_of_weights() -> None:
    w = wf.param("w")
    q = w @ examples()
    wf.einsum("... | h d => ... | h", q, h=4, d=5)
    assert (str(w.dims), str(q.dims)) == ("3->4,5", "2|4,5")
    found = wf.Context("interp")[q]
    assert len({head.tobytes() for head in found[0]}) == 4


def test_a_bias_has_the_axes_of_what_it_is_added_to() -> None:
    b = wf.param("b")
    wf.einsum("... | h d => ... | h", wf.param("w", i=3, o=(4, 5)) @ examples() + b)
    assert str(b.dims) == "4,5"


@pytest.mark.parametrize("number", [wf.constant, wf.number])
def test_a_rate_that_falls_does_not_widen_the_model(number: type) -> None:
    n, w1, w2, b1 = wf.index("n", 100), wf.param("w1"), wf.param("w2"), wf.param("b1", o=16)
    out = w2 @ wf.relu(w1 @ examples() + b1)
    error = out - wf.data(np.ones((2, 1)), batch=1)
    wf.optim.sgd(wf.einsum("...|... => 0", error * error), lr=0.1 / (1 + number(n)))
    assert [str(one.dims) for one in (w1, w2, out)] == ["3->16", "16->1", "2|1"]


def test_the_list_after_a_declaration_is_a_literal() -> None:
    rows = [(1.0, 2.0, 3.0), (4.0, 5.0, 6.0)]
    p = wf.param("p", init=rows)
    assert str(p.dims) == str(wf.tensor(rows).dims) == "3->2"
    assert wf.Context("interp")[p @ wf.data(np.ones(3))].tolist() == [6.0, 15.0]


def test_labels_of_ones_reach_the_parameter_between_them() -> None:
    hey = wf.param("hey")
    y = (hey @ wf.number(2.0, basis="q")) + wf.number(1.0, basis="p")
    assert (str(hey.dims), str(y.dims)) == ("q=1->p=1", "p=1")


WINDOWS = {
    "2*o=+k": (3, [1, 6, 12]),
    "o=+k": (2, [0, 1, 3, 5, 7, 9]),
    "3*o=+k": (5, [3, 15]),
    "2*o=+2*k": (3, [2, 6, 6]),
}


@pytest.mark.parametrize("axis", WINDOWS)
def test_padded_windows_begin_half_of_their_span_to_the_left(axis: str) -> None:
    """As with `padding=span // 2` in PyTorch, whatever the stride."""
    size, expected = WINDOWS[axis]
    found = wf.einsum(f"{axis}; k => o", wf.data(np.arange(6.0)), wf.data(np.ones(size)))
    assert wf.Context("interp")[found].tolist() == expected


@pytest.mark.parametrize("looked", [False, True])
@pytest.mark.parametrize(("spec", "expected"), [("a => a^b", [1, 2, 9, 9, 9]), ("b => a^b", [9, 9, 9, 1, 2])])
def test_a_write_to_a_part_leaves_the_first_values_of_the_rest(spec: str, expected: list[float], looked: bool) -> None:
    ctx, t = wf.Context("interp"), wf.param("t", o=5, init=9.0)
    if looked:
        assert ctx[t].tolist() == [9.0] * 5
    ctx.compile(wf.parse_cd(f't =: s ~logic:"{spec}"', t=t, s=wf.data(np.array([1.0, 2.0]), label="s")))()
    assert ctx[t].tolist() == expected


@pytest.mark.parametrize("dtype", ["float32", "int32", "bool"])
@pytest.mark.parametrize("name", [op.name for op in OPS.values() if op.neutral is not None])
def test_an_accumulation_means_the_same_over_one_element_and_over_many(name: str, dtype: str) -> None:
    """Logic makes a truth value of every number, also of a single one."""
    values = np.array([[0, 2, 3], [4, 0, 5], [2, 2, 1]])
    meaning, neutral = OPS[name].meaning, OPS[name].neutral
    assert neutral is not None
    for width in (1, 2, 3):
        rows = values[:, :width].astype(dtype)
        result = wf.einsum("ij => i", wf.data(rows), accum=name)
        expected = np.full(3, neutral(np.dtype(result.dtype)))
        for column in rows.T:
            expected = meaning(expected, column.astype(result.dtype))
        assert wf.Context("interp")[result].tolist() == expected.tolist(), width


def test_an_index_over_a_part_of_an_axis_is_refused() -> None:
    with pytest.raises(wf.ShapeError, match="static index `i` has 40 positions"):
        wf.data(np.zeros((400, 2)), batch=1)[wf.index("i", 40)]
