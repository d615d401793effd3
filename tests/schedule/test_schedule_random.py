"""Random models: optimised code computes what unoptimised code does, interpreted and compiled."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, assume, given, settings, strategies as st

import weft as wf
from backends.interpreted import Fusing
from effort import tries
from tensor.differences import total
from tensor.models import Model, models
from weft.assign import Code
from weft.backends import Backend
from weft.backends.cc import Cc
from weft.backends.interp import Interp

OPTIMISERS: dict[str, Callable[[wf.Tensor], Code]] = {
    "gradients": lambda loss: wf.grad_update(loss),
    "sgd": lambda loss: wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.05, momentum=0.9, nesterov=True)),
    "adam": lambda loss: wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.05, weight_decay=0.1)),
}


@pytest.fixture(scope="module")
def compiler(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = Path(tmp_path_factory.mktemp("kernels"))
    return made


def largest(tensor: wf.Tensor, model: Model, bound: dict[str, int]) -> float:
    ctx = wf.Context("interp")
    ctx.compile(tensor.forward, bindings=list(model.bound), keep=[tensor])(**bound)
    return float(np.abs(ctx[tensor]).max(initial=0))


def agree(sample: tuple[Model, wf.Tensor], optimiser: str, backend: Backend, visits: int) -> None:
    model, tensor = sample
    loss = total(tensor)
    params = loss.params
    keep = [loss, *(param.grad for param in params)]
    bound = {index.name: at for index, at in model.bound.items()}
    assume(largest(tensor, model, bound) < 1e6)  # the sine in the loss makes digits of what rounding leaves of more
    found = []
    for one in (Interp(), backend):
        ctx = wf.Context(one)
        with wf.config.using(max_visits=visits):
            step = ctx.compile(OPTIMISERS[optimiser](loss), bindings=list(model.bound), keep=keep)
        for _ in range(2):
            step(**bound)
        found.append([ctx[each] for each in (*keep, *params)])
    for meant, ours, each in zip(*found, (*keep, *params), strict=True):
        np.testing.assert_allclose(ours, meant, rtol=1e-7, atol=1e-9, err_msg=each.label)


@settings(max_examples=tries(25), suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from(sorted(OPTIMISERS)), st.sampled_from([1, 1, 4]))
def test_kernels_interpreted(sample: tuple[Model, wf.Tensor], optimiser: str, visits: int) -> None:
    agree(sample, optimiser, Fusing(), visits)


@settings(max_examples=tries(8), suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from(sorted(OPTIMISERS)), st.sampled_from([1, 1, 4]))
def test_kernels_compiled(compiler: Cc, sample: tuple[Model, wf.Tensor], optimiser: str, visits: int) -> None:
    agree(sample, optimiser, compiler, visits)
