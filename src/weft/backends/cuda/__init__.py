"""Kernels on NVIDIA GPUs."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path

from weft.backends.cuda.availability import driver_report, usable_driver
from weft.backends.cuda.device_attributes import described_gpu
from weft.backends.cuda.gpu_device import GpuDevice, architecture, most_shared
from weft.backends.cuda.gpu_kernels import TOOLCHAINS, GpuKernels, Language, Toolchain
from weft.backends.cuda.gpu_memory import GpuMemory
from weft.backends.cuda.graph import Graph
from weft.backends.cuda.kernel_cache import KernelStore
from weft.backends.cuda.kernel_source import Launch
from weft.backends.cuda.libcuda import Driver
from weft.backends.protocol import Bindable, CompilerCrash, DeviceUse, Executable, KernelCall
from weft.cache import cache_folder
from weft.errors import WeftError
from weft.loops import Grid, Lanes, Product, Simt
from weft.schedule.gpu_model import Gpu
from weft.schedule.nodes import Kernel

__all__ = ["Cuda"]

#: The GPUs that this process uses, by driver and number.
_gpus: dict[tuple[Driver, int], GpuDevice] = {}


class Cuda(GpuMemory):
    """Compiles with Triton and NVRTC, keeps what it compiled, and runs it on NVIDIA GPUs."""

    name = "cuda"
    fuses = True

    def __init__(
        self,
        driver: Driver | None = None,
        toolchains: Mapping[Language, Toolchain] = TOOLCHAINS,
        folder: Path | None = None,
    ) -> None:
        self._driver = driver or usable_driver()
        self._toolchains = toolchains
        self._store = KernelStore(folder or cache_folder("cuda"), architecture(self._driver, 0))
        super().__init__(self._gpu)
        self._gpu(0)

    def _gpu(self, index: int) -> GpuDevice:
        found = _gpus.get((self._driver, index))
        if found is None:
            made = GpuDevice(self._driver, index)
            found = _gpus.setdefault((self._driver, index), made)
            if found is made:
                for other in [one for (driver, _), one in _gpus.items() if driver is self._driver and one is not made]:
                    made.let_in(other)
                    other.let_in(made)
        return found

    def count_devices(self) -> int:
        """Machine code is of one architecture: GPUs count as long as they are like the first."""
        count = self._driver.number("cuDeviceGetCount")
        others = (at for at in range(count) if architecture(self._driver, at) != self._store.architecture)
        return next(others, count)

    @property
    def description(self) -> str:
        """What it compiles with and runs on, for people."""
        return driver_report(self._driver, [self.memory(at) for at in range(self.count_devices())])

    @property
    def places(self) -> frozenset[type]:
        return frozenset([Grid, Lanes, Simt, Product])

    @property
    def described(self) -> Gpu:
        """The first GPU, which the others are like."""
        return described_gpu(self._driver, 0)

    @property
    def identity(self) -> str:
        return self._store.identity

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        pieces = GpuKernels(tuple(kernels), self._toolchains)
        sources = {one.call.kernel: one.text for one in pieces.all}
        launches, failures = self._store.compiled(sources, self._toolchains)
        failures |= self._too_large(launches)
        if failures:
            names = [one.call.kernel for one in pieces.all]
            crashed = {at: failures[name] for at, name in enumerate(names) if name in failures}
            raise CompilerCrash(crashed, "a compiler for GPUs", "report the text of the kernel: routine.show('source')")
        return _CompiledGraph(pieces, launches, self)

    def _too_large(self, launches: Mapping[str, Launch]) -> dict[str, WeftError]:
        """Kernels that need more shared memory than the GPU has."""
        most = most_shared(self._driver, 0)
        return {
            name: WeftError(f"a kernel needs {one.shared} bytes of shared memory, and the GPU has {most}", origin=None)
            for name, one in launches.items()
            if one.shared > most
        }

    def recall(self, calls: Sequence[KernelCall]) -> Bindable | None:
        names = dict.fromkeys(call.kernel for call in calls)
        launches = self._store.find(names)
        return Graph(calls, launches, self._gpu) if len(launches) == len(names) else None

    def memory(self, device: int) -> DeviceUse:
        """Whose memory of a GPU there is."""
        return self._gpu(device).use()

    def release(self, device: int) -> None:
        """Give back to others what nobody here uses."""
        self._gpu(device).release()


class _CompiledGraph(Graph):
    """A list of kernels that has just been compiled, and its text."""

    def __init__(self, pieces: GpuKernels, launches: Mapping[str, Launch], backend: Cuda) -> None:
        super().__init__([one.call for one in pieces.all], launches, backend.gpu)
        self._pieces = pieces

    @property
    def source(self) -> str:
        return self._pieces.readable
