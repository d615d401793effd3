"""A list of calls as one CUDA graph: its pointers are fixed when it is bound to memory, and a run is a single launch.

Kernels wait for those whose bytes they touch (`graph_dependences.py`): others run at the same time. They wait by
themselves where the GPU can (`waits_in_kernels`): in a graph of few, each is launched while those before it still run,
which hides what launching takes.

Static indices are values in device memory. Other values than in the last run are copied there first, from memory that
the GPU reads by itself; the graph stays as it is.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

from weft.backends.cuda.gpu_device import GpuBytes, GpuDevice, architecture
from weft.backends.cuda.gpu_memory import GpuBlock
from weft.backends.cuda.graph_dependences import TouchedBytes, waits
from weft.backends.cuda.kernel_source import Launch, waits_in_kernels
from weft.backends.cuda.libcuda import GraphEdge, Handle, KernelNode, int64s
from weft.backends.cuda.tensor_map_parameters import MapParameters, encoded
from weft.backends.protocol import BoundProgram, KernelCall, Memory

_WORD = 8
#: So many kernels run at the same time at most: few fill a GPU, and a graph in which many wait for nothing begins late.
_AT_ONCE = 16
#: Kernels are launched while those before them run in graphs of so many at most: larger ones took longer by that.
_LAUNCHED_EARLY = 32
#: Values on their way to the GPU have so many bytes, and room for so many runs at least.
_SLOT_BYTES, _FEWEST = 1 << 16, 4


class Graph:
    """Calls of kernels; binding makes a graph of them on a GPU."""

    def __init__(
        self, calls: Sequence[KernelCall], launches: Mapping[str, Launch], gpu: Callable[[int], GpuDevice]
    ) -> None:
        self.calls = calls
        self._launches = launches
        self._gpu = gpu

    def bind(self, memory: Memory) -> BoundProgram:
        """The graph on blocks of one GPU, uploaded: nothing is left to do but launch it."""
        blocks = {buffer: memory[buffer] for call in self.calls for buffer in call.buffers}
        if not self.calls:
            return _nothing
        gpu = _gpu_of(list(blocks.values())) or self._gpu(0)
        given = _Given.of(gpu, self.calls)
        with gpu.lock, gpu.current:
            nodes, few = self._nodes(gpu, blocks, given), len(self.calls) <= _LAUNCHED_EARLY
            early = few and waits_in_kernels(architecture(gpu.driver, gpu.index))
            run = _instantiated(gpu, nodes, waits(self._touched(blocks), _AT_ONCE), early)
        gpu.released(run, partial(_destroy, gpu, run.handle))
        launch = run.launcher(gpu, (blocks, given))
        return partial(given.run, launch) if given.names else launch

    def _nodes(self, gpu: GpuDevice, blocks: Memory, given: _Given) -> list[_Node]:
        nodes, at = list[_Node](), 0
        for call in self.calls:
            launch = self._launches[call.kernel]
            pointers = [blocks[one].address for one in call.buffers]
            if call.given:
                pointers.append(given.address + _WORD * at)
                at += len(call.given)
            maps = [encoded(gpu.driver, one, blocks[call.buffers[one.buffer]].address) for one in launch.maps]
            nodes.append(_node(gpu.function(launch), launch, pointers, maps))
        return nodes

    def _touched(self, blocks: Memory) -> list[TouchedBytes]:
        """The bytes that each call reads and writes."""
        found = list[TouchedBytes]()
        for call in self.calls:
            spans = [(one.address, one.address + one.size) for one in map(blocks.__getitem__, call.buffers)]
            written = [spans[at] for at in self._launches[call.kernel].writes]
            found.append(TouchedBytes(tuple(spans), tuple(written)))
        return found


def _gpu_of(blocks: Sequence[GpuBlock]) -> GpuDevice | None:
    gpus = {one.gpu for one in blocks}
    assert len(gpus) <= 1, "all memory of a run is one GPU's"
    return next(iter(gpus), None)


def _nothing(given: Mapping[str, int]) -> None:
    """A program without kernels."""


@dataclass(slots=True, eq=False)
class _Given:
    """The static indices of all calls, one after another: the numbers they begin with, and those that runs are given.

    `sent` are the values in device memory; `names` says which of them are whose. They are copied from one of several
    `slots` in turn: a run that nobody has waited for may still have to copy its own.
    """

    gpu: GpuDevice
    sent: list[int]
    names: tuple[tuple[int, str], ...]
    there: GpuBytes | None = None
    here: GpuBytes | None = None
    slots: int = 1
    slot: int = 0

    @staticmethod
    def of(gpu: GpuDevice, calls: Sequence[KernelCall]) -> _Given:
        all_given = [one for call in calls for one in call.given]
        names = tuple([(at, one) for at, one in enumerate(all_given) if isinstance(one, str)])
        made = _Given(gpu, [one if isinstance(one, int) else 0 for one in all_given], names)
        if all_given:
            size = _WORD * len(all_given)
            made.slots = max(_FEWEST, _SLOT_BYTES // size) if names else 1
            made.there, made.here = gpu.take(size), gpu.pinned(size * made.slots)
            made.send()
        return made

    @property
    def address(self) -> Handle:
        return self.there.address if self.there is not None else 0

    def send(self) -> None:
        """Copy the values to the GPU, by way of the next slot."""
        if self.here is None or self.there is None:
            return
        if self.slot == self.slots:
            self.gpu.synchronize()
            self.slot = 0
        at = self.here.address + self.slot * self.there.size
        int64s(at, len(self.sent))[:] = self.sent
        with self.gpu.current:
            self.gpu.driver.call("cuMemcpyHtoDAsync_v2", self.there.address, at, self.there.size, self.gpu.stream)
        self.slot += 1

    def run(self, launch: BoundProgram, given: Mapping[str, int]) -> None:
        """Run with static indices bound."""
        sent, changed = self.sent, False
        for at, name in self.names:
            if sent[at] != given[name]:
                sent[at] = given[name]
                changed = True
        if changed:
            self.send()
        launch(given)


class _Node(KernelNode):
    """A kernel node, with what its parameters point to."""

    alive: object


class _GraphExec:
    """A graph that can be launched."""

    __slots__ = ("__weakref__", "handle")

    def __init__(self, handle: Handle) -> None:
        self.handle = handle

    def launcher(self, gpu: GpuDevice, alive: object) -> BoundProgram:
        """What launches it, and keeps alive what it works on."""
        launch, handle, stream = gpu.driver.function("cuGraphLaunch"), *map(ctypes.c_void_p, (self.handle, gpu.stream))
        current, error = gpu.current, gpu.driver.error

        def run(given: Mapping[str, int], _alive: object = (self, alive)) -> None:
            with current:
                code = launch(handle, stream)
            if code:
                raise error(code, "cuGraphLaunch")

        return run


def _destroy(gpu: GpuDevice, handle: Handle) -> None:
    """Destroy a graph once it does not run any more."""
    gpu.synchronize()
    gpu.driver.call("cuGraphExecDestroy", handle)


def _node(function: Handle, launch: Launch, pointers: Sequence[int], maps: Sequence[MapParameters]) -> _Node:
    """A launch; the driver copies what parameters point to when it is added to a graph."""
    first, last = map(ctypes.c_uint64, pointers), (ctypes.c_uint64(0) for _ in range(launch.trailing))
    values = [*first, *(one for some in maps for one in some), *last]
    parameters = (ctypes.c_void_p * max(len(values), 1))(*map(ctypes.addressof, values))
    node = _Node(
        function=function,
        grid=(launch.programs, 1, 1),
        block=(launch.threads, 1, 1),
        shared=launch.shared,
        parameters=ctypes.addressof(parameters),
    )
    node.alive = (values, parameters)
    return node


def _instantiated(gpu: GpuDevice, nodes: Sequence[_Node], before: Sequence[Sequence[int]], early: bool) -> _GraphExec:
    """Kernels as a graph, each after some `before` it; launched while these run, if `early`."""
    driver = gpu.driver
    graph = driver.handle("cuGraphCreate", 0)
    try:
        added = [driver.handle("cuGraphAddKernelNode_v2", graph, None, 0, ctypes.byref(one)) for one in nodes]
        edges = [(added[one], added[at]) for at, some in enumerate(before) for one in some]
        if edges:
            sources, targets = ((ctypes.c_void_p * len(edges))(*some) for some in zip(*edges, strict=True))
            kinds = (GraphEdge * len(edges))(*[GraphEdge.programmatic() if early else GraphEdge() for _ in edges])
            driver.call("cuGraphAddDependencies_v2", graph, sources, targets, kinds, len(edges))
        made = _GraphExec(driver.handle("cuGraphInstantiateWithFlags", graph, 0))
    finally:
        driver.call("cuGraphDestroy", graph)
    driver.call("cuGraphUpload", made.handle, gpu.stream)
    return made
