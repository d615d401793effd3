"""A GPU of this process: its context, the stream that all its work is in, a pool of memory, the code it has loaded.

There is one of each in a process, whoever uses it. Work of all contexts is in one stream, so what is asked for first is
done first, and memory that somebody lets go of can be used at once by whoever asks next. It waits for the stream that
CUDA calls the legacy default, and that one for it, by CUDA's own rules: PyTorch and CuPy work in that one unless told
otherwise, so what they wrote before is there, and what they read after is done.

Memory is the driver's pool (`cuMemAllocFromPoolAsync`): taking some from it costs about a microsecond and waits for
nothing, and the driver maps pages anew where an allocator of our own would have fragments. What is let go of stays in
the pool until there is not enough, or somebody asks for it to be released.
"""

from __future__ import annotations

import ctypes
import threading
from collections import deque
from collections.abc import Callable
from functools import partial
from weakref import ref

from weft.backends.cuda.kernel_source import Launch
from weft.backends.cuda.libcuda import (
    DYNAMIC_SHARED,
    MAJOR,
    MINOR,
    MOST_SHARED,
    NO_TIMING,
    PORTABLE,
    RELEASE_THRESHOLD,
    RESERVED,
    WRONG_IMAGE,
    Access,
    Driver,
    DriverError,
    GpuOutOfMemory,
    Handle,
    PoolProps,
    pool_number,
)
from weft.backends.protocol import DeviceUse
from weft.errors import WeftError

#: More dynamic shared memory must be asked for.
_USUAL_SHARED = 48 << 10


class GpuBytes:
    """Memory of a GPU. It is let go of when nobody has it any more."""

    __slots__ = ("__weakref__", "address", "size")

    def __init__(self, address: Handle, size: int) -> None:
        self.address, self.size = address, size


class _Dying(ref[object]):
    """What is to be released once an object is no more."""

    __slots__ = ("release",)

    release: Callable[[], None]


class GpuDevice:
    """One GPU. Its methods may be called by any thread."""

    def __init__(self, driver: Driver, index: int) -> None:
        self.driver, self.index = driver, index
        self.lock = threading.RLock()
        self.held = self.peak = 0
        self._dead: deque[_Dying] = deque()
        self._alive: set[_Dying] = set()
        self._functions: dict[Launch, Handle] = {}
        self._synchronize = driver.function("cuStreamSynchronize")
        try:
            self.context = driver.handle("cuDevicePrimaryCtxRetain", driver.number("cuDeviceGet", index))
            self.current = Current(driver, self.context)
            with self.current:
                self.stream = driver.handle("cuStreamCreate", 0)
                self.event = driver.handle("cuEventCreate", NO_TIMING)
                self._pool = driver.handle("cuMemPoolCreate", ctypes.byref(PoolProps.on(index)))
                keep = ctypes.c_uint64(2**64 - 1)
                driver.call("cuMemPoolSetAttribute", self._pool, RELEASE_THRESHOLD, ctypes.byref(keep))
        except GpuOutOfMemory:
            what = f"GPU {index}, {self.name}, is full: there is no room to begin"
            fix = "end what holds its memory, which nvidia-smi lists, or set CUDA_VISIBLE_DEVICES to another GPU"
            raise WeftError(what, fix=fix) from None

    @property
    def name(self) -> str:
        return device_name(self.driver, self.index)

    # Work

    def synchronize(self) -> None:
        """Return when everything asked for is done."""
        with self.current:
            code = self._synchronize(self.stream)
        if code:
            raise self.driver.error(code, "what runs on the GPU")

    def follow(self, other: GpuDevice) -> None:
        """Let what is asked for from now on wait for what another GPU was asked for."""
        other.precede(self.stream)

    def precede(self, stream: Handle) -> None:
        """Let a stream of somebody else wait for what was asked for so far."""
        with self.lock, self.current:
            self.driver.call("cuEventRecord", self.event, self.stream)
            self.driver.call("cuStreamWaitEvent", stream, self.event, 0)

    def function(self, launch: Launch) -> Handle:
        """The function of a kernel, loaded."""
        with self.lock:
            found = self._functions.get(launch)
            if found is None:
                with self.current:
                    found = self._functions[launch] = self._load(launch)
            return found

    def _load(self, launch: Launch) -> Handle:
        try:
            module = self.driver.handle("cuModuleLoadData", launch.cubin)
            function = self.driver.handle("cuModuleGetFunction", module, launch.entry.encode())
        except DriverError as error:
            if error.code in WRONG_IMAGE:
                error.fix = "the driver is older than the compilers: install the newest NVIDIA driver"
            raise
        if launch.shared > _USUAL_SHARED:
            self.driver.call("cuFuncSetAttribute", function, DYNAMIC_SHARED, launch.shared)
        return function

    # Memory

    def take(self, size: int) -> GpuBytes:
        """Memory of so many bytes, whatever is in it."""
        size = max(size, 1)
        with self.lock, self.current:
            self._bury()
            try:
                address = self._from_pool(size)
            except GpuOutOfMemory:
                self._give_back()
                address = self._from_pool(size)
            made = GpuBytes(address, size)
            self.released(made, partial(self._free, address, size))
            self.held += size
            self.peak = max(self.peak, self.held)
            return made

    def pinned(self, size: int) -> GpuBytes:
        """Memory of this process that a GPU copies from by itself."""
        with self.lock, self.current:
            made = GpuBytes(self.driver.handle("cuMemHostAlloc", size, PORTABLE), size)
            self.released(made, partial(self._unpin, made.address))
            return made

    def _unpin(self, address: Handle) -> None:
        self.synchronize()
        self.driver.call("cuMemFreeHost", address)

    def released(self, owner: object, release: Callable[[], None]) -> None:
        """Release something once its owner is no more, and all it was used for is done.

        It is only listed then: an object may die at any time and in any thread, and what is called is not written in
        Python.
        """
        dying = _Dying(owner, self._dead.append)
        dying.release = release
        self._alive.add(dying)

    def _bury(self) -> None:
        while self._dead:
            dying = self._dead.popleft()
            self._alive.discard(dying)
            dying.release()

    def _from_pool(self, size: int) -> Handle:
        return self.driver.handle("cuMemAllocFromPoolAsync", size, self._pool, self.stream)

    def _free(self, address: Handle, size: int) -> None:
        self.driver.call("cuMemFreeAsync", address, self.stream)
        self.held -= size

    def release(self) -> None:
        """Give back what the pool has and nobody uses."""
        with self.lock, self.current:
            self._bury()
            self._give_back()

    def _give_back(self) -> None:
        self.synchronize()
        self.driver.call("cuMemPoolTrimTo", self._pool, 0)

    def use(self) -> DeviceUse:
        """Whose memory there is."""
        with self.lock, self.current:
            self._bury()
            free, total = ctypes.c_size_t(), ctypes.c_size_t()
            self.driver.call("cuMemGetInfo_v2", ctypes.byref(free), ctypes.byref(total))
            pool = pool_number(self.driver, self._pool, RESERVED)
            return DeviceUse(self.held, self.peak, pool, free.value, total.value)

    def let_in(self, other: GpuDevice) -> None:
        """Let another GPU read and write this one's memory, if they are connected."""
        if self.driver.number("cuDeviceCanAccessPeer", other.index, self.index):
            with self.current:
                self.driver.call("cuMemPoolSetAccess", self._pool, ctypes.byref(Access.of(other.index)), 1)


class Current:
    """Makes a context the thread's own while something is done, and leaves whichever was: others use GPUs, too."""

    __slots__ = ("_context", "_pop", "_popped", "_push", "driver")

    def __init__(self, driver: Driver, context: Handle) -> None:
        self.driver, self._context = driver, ctypes.c_void_p(context)
        self._push, self._pop = driver.function("cuCtxPushCurrent_v2"), driver.function("cuCtxPopCurrent_v2")
        self._popped = ctypes.byref(ctypes.c_void_p())

    def __enter__(self) -> None:
        code = self._push(self._context)
        if code:
            raise self.driver.error(code, "cuCtxPushCurrent")

    def __exit__(self, *error: object) -> None:
        self._pop(self._popped)


def architecture(driver: Driver, index: int) -> str:
    """What machine code is compiled for: `sm_90`."""
    device = driver.number("cuDeviceGet", index)
    major, minor = (driver.number("cuDeviceGetAttribute", one, device) for one in (MAJOR, MINOR))
    return f"sm_{major}{minor}"


def most_shared(driver: Driver, index: int) -> int:
    """So many bytes of shared memory a kernel may have."""
    return driver.number("cuDeviceGetAttribute", MOST_SHARED, driver.number("cuDeviceGet", index))


def device_name(driver: Driver, index: int) -> str:
    """What the maker calls a GPU."""
    name = ctypes.create_string_buffer(256)
    driver.call("cuDeviceGetName", name, len(name), driver.number("cuDeviceGet", index))
    return name.value.decode(errors="replace")
