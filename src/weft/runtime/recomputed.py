"""What a tensor held in a run that is refused, where the run did not store it: to say what is wrong with it."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from weft.assign import Code, complete, lower
from weft.backends import Array, Backend, Memory
from weft.loops import Buffer, buffers_of
from weft.loops.effects import written_in
from weft.loops.interp import run
from weft.ops.dtypes import numpy_type
from weft.runtime.fork import LOWERING
from weft.runtime.layout import Layout

#: It cannot be told: code computes it that is no definition, or it depends on what the run did not read from memory.
NOTHING = np.zeros(0)


def recomputed(
    code: Code, wanted: Buffer, layout: Layout, blocks: Memory, backend: Backend, given: Mapping[str, int]
) -> Array:
    """What a definition computes, interpreted on copies of what is in memory."""
    with LOWERING:
        program = lower(complete(code), layout.buffer, given)
    written, touched = written_in(program.body), buffers_of(program)
    if any(one not in written and one not in blocks for one in touched):
        return NOTHING
    memory = {
        one: np.zeros(one.shape, numpy_type(one.dtype)) if one in written else backend.download(blocks[one])
        for one in touched
    }
    run(program, memory, given)
    return memory.get(wanted, NOTHING)
