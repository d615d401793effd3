"""Nodes that code reads before it writes them start at zero, however that is written.

A draw updates a few nodes from one another, by accumulation or written out, and runs that twice; NumPy does the same,
from zeros. What reads a node that the code never writes is refused.
"""

from __future__ import annotations

import numpy as np

import weft as wf
from generators.values import refusal

OPS = {"+": np.add, "-": np.subtract, "*": np.multiply, "max": np.maximum}
WRITTEN_OUT = {
    "+": lambda a, b: a + b,
    "-": lambda a, b: a - b,
    "*": lambda a, b: a * b,
    "max": wf.maximum,
}


def check(rng: np.random.Generator) -> None:
    """Draw updates of nodes and compare."""
    count = int(rng.integers(1, 4))
    nodes = [wf.node(f"n{number}", dtype="float64", o=2) for number in range(count)]
    x = np.array([3.0, -2.0])
    steps = [
        (int(rng.integers(count)), int(rng.integers(count + 1)), str(rng.choice(["=", *OPS])), bool(rng.random() < 0.5))
        for _ in range(rng.integers(1, 6))
    ]
    data = wf.data(x, label="x")

    @wf.cd
    def code() -> None:
        for at, source, op, accumulates in steps:
            target, value = nodes[at], (nodes[source] if source < count else data) + data
            if op == "=":
                target[:] = value
            elif accumulates:
                target.accumulate(op, value)
            else:
                target[:] = WRITTEN_OUT[op](target, value)

    recorded = code()
    ctx = wf.Context("cc" if rng.random() < 0.05 else "interp")
    routine = ctx.compile(recorded, keep=[nodes[at] for at, *_ in steps])
    written = {at for at, *_ in steps}
    if any(source < count and source not in written for _, source, *_ in steps):
        refused = refusal(routine)
        assert refused is not None, f"{recorded}\nran, though it reads what never got a value"
        assert "never got a value" in refused.what
        return
    held = np.zeros((count + 1, 2))
    for _ in range(2):
        routine()
        for at, source, op, _ in steps:
            value = (held[source] if source < count else x) + x
            held[at] = value if op == "=" else OPS[op](held[at], value)
    for at in written:
        assert np.array_equal(ctx[nodes[at]], held[at]), f"{recorded}\n{ctx[nodes[at]]}, not {held[at]}"
