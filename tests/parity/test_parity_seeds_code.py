"""Code as its specification words it: every sign with every operation, what code builds, what it leaves alone."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import weft as wf

Binary = Callable[[Any, Any], Any]

OPERATIONS: dict[str, Binary] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "/": lambda x, y: x / y,
    "**": lambda x, y: x**y,
    "-?/": lambda x, y: np.where(x > 0, y, 0),
}
#: What follows the `=` of an assignment, with the number it starts from after a colon.
ACCUMULATIONS: dict[str, tuple[Binary, float]] = {
    "+": (OPERATIONS["+"], 0),
    "-": (OPERATIONS["-"], 0),
    "*": (OPERATIONS["*"], 1),
    "/": (OPERATIONS["/"], 1),
    "**": (OPERATIONS["**"], 1),
    "?/": (OPERATIONS["-?/"], 1),
    "@^": (np.maximum, -np.inf),
    "^^": (np.minimum, np.inf),
    "&&": (np.logical_and, 1),
    "||": (np.logical_or, 0),
}
OLD, LEFT, RIGHT = np.array([3.0, 0.5, 2.0]), np.array([1.0, 4.0, 1.5]), np.array([2.0, 0.5, 3.0])


@pytest.mark.parametrize("sign", [*(f"={one}" for one in ACCUMULATIONS), *(f"=:{one}" for one in ACCUMULATIONS), "=:"])
def test_every_sign_of_assignment_with_every_operation(sign: str) -> None:
    combine, start = ACCUMULATIONS.get(sign.lstrip("=:"), (lambda _, new: new, 0))
    before = np.full(3, start) if ":" in sign else OLD
    left, right = wf.data(LEFT, label="rhs1"), wf.data(RIGHT, label="rhs2")
    nodes = {f"c{at}": wf.param(f"c{at}", init=OLD, dtype="float64") for at in range(len(OPERATIONS))}
    text = ";\n".join(f'{name} {sign} rhs1 {op} rhs2 ~logic:"."' for name, op in zip(nodes, OPERATIONS, strict=True))
    ctx = wf.Context("interp")
    ctx.compile(wf.parse_cd(text, rhs1=left, rhs2=right, **nodes))()
    for op, node in zip(OPERATIONS.values(), nodes.values(), strict=True):
        np.testing.assert_allclose(ctx[node], combine(before, op(LEFT, RIGHT)))


def test_what_code_assigns_to_has_no_gradient() -> None:
    """A tensor is the same inside code and outside, so what is made there may be differentiated; code never is."""
    p, n = wf.param("p", o=3, init=[1.0, 2.0, 3.0]), wf.node("n")

    @wf.cd
    def code() -> None:
        n[:] = wf.exp(p) * wf.tensor([1.0, 2.0, 3.0])

    assert "grad" not in str(code())
    assert not n.differentiable
    with pytest.raises(wf.WeftError, match=r"`n\.p` has no gradient"):
        n.grad
    loss = wf.einsum("i; i => 0", n, p)
    ctx = wf.Context("interp")
    ctx.compile(wf.seq(code(), wf.grad_update(loss)), keep=[p.grad])()
    np.testing.assert_allclose(ctx[p.grad], np.exp([1, 2, 3]) * [1, 2, 3], rtol=1e-6)


def test_an_expression_nobody_uses_says_what_sizes_are_and_nothing_else() -> None:
    b = wf.param("b", init=1.0)
    doubled = b * 2
    wf.einsum("ij => i", b + wf.data(np.ones((2, 4))))
    assert str(doubled.dims) == "2,4"
    assert str(doubled.forward) == "mul =: b *. 2"


def test_code_nobody_runs_says_how_data_lies_but_never_how_large_a_model_is() -> None:
    rows, weight = wf.counted(np.arange(12.0)), wf.param("w", o=2)

    @wf.cd
    def ignored() -> None:
        rows[:] = wf.einsum("i => 3|i", wf.data(np.zeros(3)))
        wf.node("n")[:] = weight * wf.data(np.ones((5, 2)))

    ignored()
    assert str(rows.dims) == "4|3"
    assert str((weight @ wf.data(np.ones(3))).dims) == "2"
    assert str(weight.dims) == "3->2"


def test_value_is_the_tensor_itself_wherever_it_is_written() -> None:
    p = wf.param("p", init=[1.0])
    text = '~~("step" "of" p.value p p.grad; p.value =: p.value + p; p =+ p.value.merge)'
    assert str(wf.parse_cd(text, p=p)) == '~~("step of p p p.grad";\n  p =: p + p;\n  p =+ p.merge)'


def test_a_comment_names_any_tensor() -> None:
    p = wf.param("p", init=[1.0])

    @wf.cd
    def code() -> None:
        with wf.comment("tensor p debug_name:", p, p.grad, wf.exp(p), 3):
            p[:] = 1.0

    assert str(code()) == '~~("tensor p debug_name: p p.grad exp 3";\n  p =: 1.0)'
