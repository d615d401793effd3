"""Loop programs on the way to launches of a GPU: after every pass they compute the same, cell by cell.

Programs are those of `nests.py`, whose nests share loops. What each pass leaves is interpreted, so that one that goes
wrong is found without a GPU, and named. In the end no two programs or lanes share a cell that one of them stores.
"""

from __future__ import annotations

import numpy as np

from backends.grid_races import race
from backends.on_grid import OnGrid
from generators.nests import _Maker, _options
from weft.loops import Program, show
from weft.schedule import Task, stages
from weft.schedule.gpu.gpu_pipeline import GPU_PASSES
from weft.schedule.nodes import as_program


def check(rng: np.random.Generator) -> None:
    """Draw a program and follow it through the passes."""
    maker = _Maker(rng)
    program = before = maker.program()
    meant = maker.after(program)
    options = _options(rng).but(products=str(rng.choice(["float32", "tf32", "bfloat16"])))
    task = Task(dict.fromkeys(maker.kept, "kept"), places=OnGrid().places, options=options)
    for name, stage in stages(program, task, passes=GPU_PASSES):
        body = as_program(stage.kernels)
        if body != before:
            maker.agree(maker.after(body), meant, name, program, body)
        before = body
    for kernel in stage.kernels:
        assert not (problem := race(kernel.body)), f"{problem}\n{show(Program(kernel.body))}"
