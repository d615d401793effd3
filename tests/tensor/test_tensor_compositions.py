"""Gradients of random compositions of operators against finite differences."""

from __future__ import annotations

import numpy as np
from hypothesis import assume, given, settings, strategies as st

import weft as wf
from effort import tries
from tensor.differences import Differences, check_second_order, total
from tensor.models import Model, models


@settings(max_examples=tries(40))
@given(models(), st.integers(0, 1000))
def test_random_compositions(sample: tuple[Model, wf.Tensor], seed: int) -> None:
    model, tensor = sample
    params = tensor.params
    found = Differences(total(tensor), params, None, model.bound, seed)
    assume(np.isfinite(found.value()) and abs(found.value()) < 1e3)
    assume(found.smooth())
    found.check(2)


@settings(max_examples=tries(15))
@given(models(), st.integers(0, 1000))
def test_gradients_of_gradients_of_random_compositions(sample: tuple[Model, wf.Tensor], seed: int) -> None:
    model, tensor = sample
    found = Differences(total(tensor), tensor.params, None, model.bound, seed)
    assume(np.isfinite(found.value()) and abs(found.value()) < 1e3)
    assume(found.smooth())
    check_second_order(found, {one: found.ctx[one] for one in found.params}, model.bound)
