"""The least time of kernels on a GPU, against what their flops and bytes say by hand."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

import weft as wf
from backends.on_grid import OnGrid
from weft.schedule import Kernel
from weft.schedule.gpu.gpu_roofline import gpu_bound

GPU = wf.Gpu()


def kernels(y: wf.Tensor, **options: str) -> tuple[Kernel, ...]:
    return wf.Context(OnGrid()).compile(y.forward, keep=[y], options=wf.CompileOptions(**options)).kernels


def squares(dtype: type, size: int = 1024) -> wf.Tensor:
    a, b = (wf.data(np.ones((size, size), dtype), label=name) for name in "ab")
    return wf.einsum("i, k; k, j => i, j", a, b)


def largest(made: tuple[Kernel, ...]) -> float:
    return max(gpu_bound(one, GPU) for one in made)


@pytest.mark.parametrize(
    ("dtype", "products", "speed"),
    [
        (ml_dtypes.bfloat16, "float32", GPU.tensor_flops_per_s),
        (np.float32, "tf32", GPU.tensor_flops_per_s / 2),
        (np.float32, "float32", GPU.tensor_flops_per_s / 6),
        (np.float64, "float32", GPU.double_flops_per_s),
    ],
    ids=["bfloat16", "tf32", "float32", "float64"],
)
def test_products_run_on_the_units_of_their_types(dtype: type, products: str, speed: float) -> None:
    assert largest(kernels(squares(dtype), products=products)) == pytest.approx(2 * 1024**3 / speed)


def test_what_follows_a_product_is_done_by_other_units() -> None:
    alone, followed = squares(ml_dtypes.bfloat16), wf.tanh(squares(ml_dtypes.bfloat16))
    assert largest(kernels(followed)) == largest(kernels(alone))


@pytest.mark.parametrize(("rows", "speed"), [(1024, GPU.cache_speed), (8192, 1.0)])
def test_rows_take_what_memory_or_the_second_cache_takes(rows: int, speed: float) -> None:
    x = wf.data(np.ones((rows, 4096), np.float32), label="x")
    assert largest(kernels(x + 1.0)) == pytest.approx(2 * 4 * rows * 4096 / (speed * GPU.bytes_per_s))


def test_products_of_a_sweep_count() -> None:
    q, k, v = (wf.data(np.ones((4, 512, 64), ml_dtypes.bfloat16), batch=2, label=name) for name in "qkv")
    weights = wf.softmax(wf.einsum("b, t | e; b, s | e => b, t | s", q, k))
    (swept,) = kernels(wf.einsum("b, t | s; b, s | e => b, t | e", weights, v))
    assert gpu_bound(swept, GPU) == pytest.approx(2 * 2 * 4 * 512 * 512 * 64 / GPU.tensor_flops_per_s)


def test_a_profile_is_against_what_runs_the_kernels() -> None:
    y = squares(ml_dtypes.bfloat16, 64)
    context = wf.Context(OnGrid())
    routine = context.compile(y.forward, keep=[y], options=wf.CompileOptions(gpu=GPU))
    found = routine.profile(times=1)
    assert [one.bound for one in found.kernels] == [gpu_bound(one.kernel, GPU) for one in found.kernels]
    slow = wf.Gpu(tensor_flops_per_s=1e3)
    assert max(one.bound for one in routine.profile(times=1, machine=slow).kernels) == pytest.approx(2 * 64**3 / 1e3)
