"""What a GPU has and does in a second, and what the passes before it is known take it for."""

from __future__ import annotations

from dataclasses import dataclass

from weft.machine import Machine


@dataclass(frozen=True, slots=True)
class Gpu:
    """A GPU: how many multiprocessors run programs at once, what memory and arithmetic do in a second.

    `shared_bytes` is the fast memory of a multiprocessor, `cache_bytes` the second cache. A launch in a graph takes
    `launch_ns`, a program alone on its multiprocessor so long at least, `program_ns`.
    """

    multiprocessors: int = 132
    shared_bytes: int = 227 << 10
    cache_bytes: int = 60 << 20
    bytes_per_s: float = 4.3e12
    flops_per_s: float = 6e13
    tensor_flops_per_s: float = 7.9e14
    launch_ns: float = 1500.0
    program_ns: float = 1000.0

    @property
    def bytes_per_ns(self) -> float:
        """What one multiprocessor reads and writes in a nanosecond."""
        return self.bytes_per_s / self.multiprocessors / 1e9

    @property
    def programs(self) -> int:
        """How many programs keep all multiprocessors busy, though some take longer."""
        return 4 * self.multiprocessors

    def as_machine(self, like: Machine) -> Machine:
        """What passes that weigh memory against arithmetic take it for: one core that never waits for functions."""
        return Machine(
            isa=like.isa,
            cores=1,
            caches=(self.shared_bytes, self.cache_bytes),
            flops_per_s=self.flops_per_s,
            bytes_per_s=self.bytes_per_s,
            cached_bytes_per_s=2 * self.bytes_per_s,
            call_ns=self.launch_ns,
            function_ns=1e-3,
            wait_ns=1e-6,
            latency_ns=1e-3,
            scalar_function_ns=1e-3,
            vector_function_ns=1e-3,
            identity=like.identity,
        )


#: What kernels are shaped for where nothing else is known: an H200.
USUAL_GPU = Gpu()
