"""The C backend against the oracle."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from loops.programs import GIVEN, Sample, samples
from tensor.differences import total
from tensor.models import Model, models
from weft.backends.cc import Cc
from weft.loops.interp import run_scalar
from weft.schedule import as_kernels

pytestmark = pytest.mark.usefixtures("guarded_memory")
FLOATS = ("add", "sub", "mul", "max", "min", "lt", "eq", "and", "arg1", "arg2", "relu_gate", "mod", "div")


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path / "cc"


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = tmp_path_factory.mktemp("kernels")
    return made


def agree(backend: Cc, sample: Sample, static: int) -> None:
    ours, meaning = sample.memory(), sample.memory()
    given_static = dict.fromkeys(GIVEN, static)
    run_scalar(sample.program, meaning, given_static)
    backend.compile(as_kernels(sample.program)).bind(ours)(given_static)
    for buffer in sample.buffers:
        np.testing.assert_allclose(ours[buffer], meaning[buffer], rtol=1e-12, err_msg=buffer.name)


@settings(max_examples=tries(15))
@given(samples(), st.integers(0, GIVEN["s"] - 1))
def test_whole_numbers(backend: Cc, sample: Sample, static: int) -> None:
    agree(backend, sample, static)


@settings(max_examples=tries(15))
@given(samples(dtypes=("float64",), ops=FLOATS, values=FLOATS), st.integers(0, GIVEN["s"] - 1))
def test_floats_with_nan_and_infinity(backend: Cc, sample: Sample, static: int) -> None:
    agree(backend, sample, static)


@settings(max_examples=tries(10))
@given(models())
def test_gradient_updates(backend: Cc, sample: tuple[Model, wf.Tensor]) -> None:
    model, tensor = sample
    code, bound = wf.grad_update(total(tensor)), {index.name: at for index, at in model.bound.items()}
    oracle = wf.Context("interp")
    routine = oracle.compile(code, bindings=list(model.bound))
    routine(**bound)
    memory = {buffer: array.copy() for buffer, array in oracle._engine.devices[0].memory.blocks.items()}
    backend.compile(as_kernels(routine.program)).bind(memory)(bound)
    for buffer, array in memory.items():
        np.testing.assert_allclose(
            array, oracle._engine.devices[0].memory.blocks[buffer], rtol=1e-9, atol=1e-12, err_msg=buffer.name
        )


def test_choosing_in_a_nest_of_loops() -> None:
    """A loop nest that an optimising compiler has been seen to get wrong."""
    rng = np.random.default_rng(0)
    x, y = (wf.data(rng.normal(size=(2, 3, 2))) for _ in range(2))
    chosen = wf.where(x < y, x * y, y - x)
    np.testing.assert_array_equal(wf.Context("cc")[chosen], wf.Context("interp")[chosen])


def small() -> tuple[wf.Tensor, wf.Tensor]:
    wf.seed(3)
    x = wf.data(np.linspace(-1, 1, 6).reshape(3, 2).astype("float32"), batch=1)
    w = wf.param("w", o=2)
    return wf.einsum("...|... => 0", wf.tanh(w @ x), label="loss"), w


def test_parameters_start_equal_to_the_last_bit() -> None:
    first, second = (wf.Context(name)[small()[1]] for name in ("interp", "cc"))
    assert first.tobytes() == second.tobytes()


def test_training_agrees() -> None:
    found = []
    for name in ("interp", "cc"):
        loss, w = small()
        ctx = wf.Context(name)
        step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1)))
        for _ in range(5):
            step()
        found.append(ctx[w])
    np.testing.assert_allclose(found[0], found[1], rtol=1e-5)


def test_the_source_is_readable(golden: object) -> None:
    loss, _ = small()
    golden(wf.Context("cc").compile(loss.forward).show("source"))  # type: ignore[operator]
