"""Is there a GPU that weft can use? If not: which requirement is missing, and what to do about it."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Sequence
from functools import cache
from importlib.util import find_spec

from weft.backends.cuda.gpu_device import architecture, device_name
from weft.backends.cuda.kernel_cache import versions
from weft.backends.cuda.libcuda import NO_DEVICE, Driver, DriverError
from weft.backends.protocol import DeviceUse
from weft.cache.limit import amount
from weft.errors import WeftError

#: The oldest driver whose interface is used, as it counts versions: that of CUDA 13, whose compilers are.
_OLDEST = 13000
#: The oldest architecture that the compilers write for.
_LEAST = 80
_ELSEWHERE = 'or run on the processor: wf.Context("cc")'


@cache
def usable_driver() -> Driver:
    """The driver of this machine, if there is a GPU that weft can use."""
    check_packages()
    return checked_driver(loaded_driver())


def loaded_driver(library: str = "libcuda.so.1") -> Driver:
    """The driver's library."""
    try:
        return Driver(ctypes.CDLL(library))
    except OSError as error:
        what = f"there is no NVIDIA driver here: {error}"
        raise WeftError(what, fix=f"install the driver of an NVIDIA GPU, {_ELSEWHERE}") from None


def checked_driver(driver: Driver) -> Driver:
    """A driver that can be used; else what is wrong with it, or with the GPUs there are."""
    version = driver.number("cuDriverGetVersion")
    if version < _OLDEST or not driver.has_all():
        what = f"the NVIDIA driver is too old: it is of CUDA {_spelled(version)}, and weft needs {_spelled(_OLDEST)}"
        raise WeftError(what, fix=f"install a newer driver (580 or later), {_ELSEWHERE}")
    try:
        driver.call("cuInit", 0)
        count = driver.number("cuDeviceGetCount")
    except DriverError as error:
        if error.code != NO_DEVICE:
            raise
        count = 0
    if not count:
        visible = os.environ.get("CUDA_VISIBLE_DEVICES")
        what = "the NVIDIA driver finds no GPU"
        notes = [] if visible is None else [f"CUDA_VISIBLE_DEVICES is {visible!r}: only those are looked for"]
        raise WeftError(what, notes=notes, fix=f"see what nvidia-smi says, {_ELSEWHERE}")
    found = architecture(driver, 0)
    if int(found.removeprefix("sm_")) < _LEAST:
        what = f"GPU 0, {device_name(driver, 0)}, is of architecture {found}, and weft needs sm_{_LEAST} or newer"
        raise WeftError(what, fix=f"use a newer GPU, {_ELSEWHERE}")
    return driver


def driver_report(driver: Driver, uses: Sequence[DeviceUse]) -> str:
    """The driver, the compilers and the GPUs, a line each."""
    lines = [f"driver of CUDA {_spelled(driver.number('cuDriverGetVersion'))}, {', '.join(versions())}"]
    for at, use in enumerate(uses):
        memory = f"{amount(use.free)} free of {amount(use.total)}"
        lines.append(f"GPU {at}: {device_name(driver, at)}, {architecture(driver, at)}, {memory}")
    return "\n".join(lines)


def check_packages() -> None:
    """Refuse to go on without the compilers."""
    missing = [one for one in ("triton", "cuda.bindings") if not _is_there(one)]
    if missing:
        what = f"the compilers for GPUs are not installed: there is no {' and no '.join(missing)}"
        raise WeftError(what, fix=f'pip install "weft[cuda]", {_ELSEWHERE}')


def _is_there(package: str) -> bool:
    try:
        return find_spec(package) is not None
    except ModuleNotFoundError:
        return False


def _spelled(version: int) -> str:
    return f"{version // 1000}.{version % 1000 // 10}"
