"""The expression in the README of micrograd, and its published numbers."""

from __future__ import annotations

import pytest

import weft as wf


def test_demo_expression() -> None:
    a, b = wf.param("a", init=[-4.0]), wf.param("b", init=[2.0])
    c = a + b
    d = a * b + b**3
    c = c + (c + 1)
    c = c + (1 + c + (-a))
    d = d + (d * 2 + wf.relu(b + a))
    d = d + (3 * d + wf.relu(b - a))
    e = c - d
    f = e**2
    g = f / 2.0
    g = g + 10.0 / f

    ctx = wf.Context()
    ctx.compile(wf.grad_update(g), keep=[a.grad, b.grad])()

    assert ctx[g].item() == pytest.approx(24.7041, abs=5e-5)
    assert ctx[a.grad].item() == pytest.approx(138.8338, abs=5e-5)
    assert ctx[b.grad].item() == pytest.approx(645.5773, abs=5e-5)
