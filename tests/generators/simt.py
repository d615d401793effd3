"""Loop programs on SIMT threads: what a GPU is given computes the same, whatever the order of its threads.

Programs are those of `nests.py`, whose nests share loops. They run on the host (`backends/simt_host.py`), as they are
and as the passes leave them.
"""

from __future__ import annotations

import numpy as np

from backends.simt_host import OnHost
from generators.nests import _Maker, _options
from weft.schedule import Task, stages
from weft.schedule.nodes import as_program
from weft.schedule.pipeline import PASSES, UNOPTIMISED
from weft.thresholds import Thresholds


def check(rng: np.random.Generator) -> None:
    """Draw a program and run its launches."""
    maker = _Maker(rng)
    program = maker.program()
    meant, backend = maker.after(program), OnHost()
    strips, wide = int(rng.choice([2, 1024])), int(rng.choice([2, 4096]))
    lines = Thresholds(simt_strips=strips, simt_wide=wide, simt_joining_share=float(rng.choice([0.1, 100])))
    options = _options(rng).but(thresholds=lines)
    task = Task(dict.fromkeys(maker.kept, "kept"), places=backend.places, options=options)
    *_, (name, stage) = stages(program, task, passes=PASSES if rng.random() < 0.5 else UNOPTIMISED)
    body = as_program(stage.kernels)
    memory = maker.memory(body)
    backend.compile(stage.kernels).bind(memory)({})
    maker.agree(memory, meant, f"{name}, on the host", program, body)
