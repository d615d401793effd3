"""Which buffers are only numbers: what is read is looked for in what was written before it, and no further."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_transposition_in_place_and_what_is_used_twice(backend: str) -> None:
    """C is computed from its old value, which is a copy of C: whoever looks for what C is must not go round."""
    c, y = wf.param("C", o=[2, 2], dtype="float64", init=[[1.0, 2.0], [3.0, 4.0]]), wf.node("y")

    @wf.cd
    def step() -> None:
        c[:] = wf.einsum("ij => ji", c)
        t = c * 2
        y[:] = t * t + t

    ctx = wf.Context(backend)
    ctx.compile(step())()
    np.testing.assert_array_equal(ctx[y], [[6.0, 42.0], [20.0, 72.0]])


@pytest.mark.parametrize("copies", [0, 40])
def test_a_one_hot_behind_copies(copies: int) -> None:
    """However often it was copied before it is summed, it is told from where it is computed, and gathered."""
    labels = wf.data(np.array([2, 0, 1]), batch=1, label="labels")
    hot = wf.einsum("b | _; v => b | v", labels, wf.einsum("v => v", wf.offsets(), v=4), op="=")
    for _ in range(copies):
        hot = wf.einsum("b | v => b | v", hot)
    table = np.arange(12.0).reshape(4, 3)
    both = wf.einsum("b | v; v, d => b | d", hot, wf.data(table)) + wf.einsum("b | v => b | 0", hot)
    ctx = wf.Context("cc")
    run = ctx.compile(both.forward, keep=[both])
    run()
    np.testing.assert_array_equal(ctx[both], table[[2, 0, 1]] + 1)
    assert "_at < 4" in run.show("kernels")
