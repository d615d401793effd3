"""A GPU as its driver describes it: what costs of kernels are asked of, unless somebody says otherwise (`wf.Gpu`)."""

from __future__ import annotations

from dataclasses import replace

from weft.backends.cuda.libcuda import (
    CACHE_BYTES,
    CLOCK_KHZ,
    MAJOR,
    MEMORY_BITS,
    MEMORY_KHZ,
    MINOR,
    MOST_SHARED,
    MULTIPROCESSORS,
    Driver,
)
from weft.schedule.gpu_model import USUAL_GPU, Gpu

#: Of what clock and width of memory say, so much is reached; an H200's multiprocessor runs at so many kHz.
_REACHED, _USUAL_KHZ = 0.88, 1_980_000
#: Architectures whose tensor cores multiply many times as fast as their threads.
_LARGE_TENSOR_CORES = (80, 90, 100, 103)
#: Numbers transferred by a pin of memory in a cycle.
_TWICE = 2


def described_gpu(driver: Driver, index: int) -> Gpu:
    """A GPU by its number; what its driver does not say is as on an H200."""
    device = driver.number("cuDeviceGet", index)

    def told(attribute: int) -> int:
        return driver.number("cuDeviceGetAttribute", attribute, device)

    many, khz, architecture = told(MULTIPROCESSORS), told(CLOCK_KHZ), 10 * told(MAJOR) + told(MINOR)
    found = replace(
        USUAL_GPU,
        architecture=architecture,
        thirds=architecture in _LARGE_TENSOR_CORES,
        multiprocessors=many if many > 1 else USUAL_GPU.multiprocessors,
        shared_bytes=max(told(MOST_SHARED), 1 << 10),
        cache_bytes=max(told(CACHE_BYTES), 1 << 20),
    )
    reached = _REACHED * _TWICE * told(MEMORY_KHZ) * 1e3 * told(MEMORY_BITS) / 8
    if reached > 1e9:
        found = replace(found, bytes_per_s=reached)
    if khz > 1000:
        faster = found.multiprocessors * khz / (USUAL_GPU.multiprocessors * _USUAL_KHZ)
        speeds = ("flops_per_s", "tensor_flops_per_s", "double_flops_per_s")
        found = replace(found, **{name: faster * getattr(USUAL_GPU, name) for name in speeds})
    return found
