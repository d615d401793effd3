"""Random models with their gradients: rewritten loops compute what they did, under fast math nearly."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import weft as wf
from effort import tries
from tensor.differences import total
from tensor.models import Model, models
from weft.loops import Buffer, Program, buffers_of, check, show
from weft.loops.interp import run, run_scalar
from weft.ops.dtypes import numpy_type
from weft.optimise.rewrite import rewrite
from weft.schedule import CompileOptions, Task, as_program, schedule


def memory(*programs: Program) -> dict[Buffer, np.ndarray]:
    numbers = np.random.default_rng(1)
    buffers = dict.fromkeys(buffer for program in programs for buffer in buffers_of(program))
    return {one: numbers.normal(size=one.shape).astype(numpy_type(one.dtype)) for one in buffers}


@pytest.mark.parametrize("fast", [False, True])
@settings(max_examples=tries(12), suppress_health_check=list(HealthCheck))
@given(models())
def test_loops_of_models(fast: bool, sample: tuple[Model, wf.Tensor]) -> None:
    model, tensor = sample
    loss = total(tensor)
    code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.01, momentum=0.9))
    built = wf.Context("interp").compile(code, bindings=list(model.bound))
    sizes = {index.name: index.size for index in model.bound}
    kept, options = dict.fromkeys(built.compiled.kept, "kept"), CompileOptions(fast_math=fast)
    kernels = as_program(schedule(built.loops, Task(kept, sizes, options=options)).kernels)
    bound = {index.name: at for index, at in model.bound.items()}
    meant = memory(built.loops)
    run(built.loops, meant, bound)
    for how, program in ((run_scalar, built.loops), (run, kernels)):
        new = check(Program(rewrite(program.body, sizes, fast)), sizes)
        assert rewrite(new.body, sizes, fast) == new.body
        found = memory(built.loops, new)
        how(new, found, bound)
        for buffer in built.compiled.kept:
            close = 1e-6 if fast else 1e-9
            scale = max(
                1.0, float(np.abs(meant[buffer]).max(initial=0.0))
            )  # sums cancel: rounding goes with what is large
            np.testing.assert_allclose(found[buffer], meant[buffer], rtol=close, atol=1e-9 * scale, err_msg=show(new))
