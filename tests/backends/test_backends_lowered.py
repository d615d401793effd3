"""Programs lowered from tensor expressions: both ways of running them agree, and how they print."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
from hypothesis import given, settings

import weft as wf
from effort import tries
from tensor.differences import double, total
from tensor.models import Model, models
from weft.loops.interp import run, run_scalar


@settings(max_examples=tries(20))
@given(models())
def test_whole_nests_equal_the_walk_on_gradient_updates(sample: tuple[Model, wf.Tensor]) -> None:
    model, tensor = sample
    loss, ctx = total(tensor), wf.Context("interp")
    routine = ctx.compile(wf.grad_update(loss), bindings=list(model.bound))
    bound = {index.name: at for index, at in model.bound.items()}
    routine(**bound)
    whole, walked = (
        {buffer: array.copy() for buffer, array in ctx._engine.devices[0].memory.blocks.items()} for _ in range(2)
    )
    run(routine.program, whole, bound)
    run_scalar(routine.program, walked, bound)
    for buffer in whole:
        np.testing.assert_allclose(whole[buffer], walked[buffer], rtol=1e-9, atol=1e-12, err_msg=buffer.name)


def loops(code: object, *bindings: wf.StaticIndex) -> str:
    return wf.Context("interp").compile(code, bindings=list(bindings)).show("loops")  # type: ignore[arg-type]


def test_a_layer_and_its_gradient(golden: Callable[..., None]) -> None:
    w, b = double("w", i=3, o=2), double("b", o=2)
    x = wf.data(np.ones((4, 3)), batch=1, label="x")
    golden(loops(wf.grad_update(wf.einsum("...|... => 0", wf.relu(w @ x + b), label="loss"))))


def test_a_padded_convolution_and_its_gradient(golden: Callable[..., None]) -> None:
    x, k = double("x", o=8), double("k", o=3)
    golden(loops(wf.grad_update(wf.einsum("2*o=+k;k=>o", x, k, label="conv"), sum=True)))


def test_max_pooling_and_its_gradient(golden: Callable[..., None]) -> None:
    golden(loops(wf.grad_update(wf.einsum("2*o<+k=>o", double("x", o=6), accum="max", k=2, label="pool"), sum=True)))


def test_a_concatenation_and_its_gradient(golden: Callable[..., None]) -> None:
    x, y = double("x", o=(2, 3)), double("y", o=(4, 3))
    golden(loops(wf.grad_update(wf.concat(x, y, label="both"), sum=True)))


def test_a_slice_by_a_static_index(golden: Callable[..., None]) -> None:
    x, i = double("x", b=5, o=3), wf.index("i", 5)
    golden(loops(wf.grad_update(wf.tanh(x[i] + i, label="row"), sum=True), i))


def test_random_numbers_in_code(golden: Callable[..., None]) -> None:
    i = wf.index("i", 9)
    wf.seed(0)
    golden(loops(wf.dropout(wf.data(np.ones((2, 3)), label="x"), 0.5, step=i).forward, i))


def test_an_optimiser_step(golden: Callable[..., None]) -> None:
    w = double("w", o=3)
    loss = wf.einsum("...|... => 0", w * w, label="loss")
    golden(loops(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9))))


def test_places_written_through_an_affine_map(golden: Callable[..., None]) -> None:
    golden(loops(wf.einsum("i=>2*i+1", wf.data(np.ones(3), label="x"), label="odd").forward))
