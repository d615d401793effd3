"""A GPU that cannot be used: an error for each thing that is missing, and what to do about it."""

from __future__ import annotations

from functools import partial

import pytest

import weft as wf
from standins.gpu import StandIn
from weft import backends
from weft.backends import find_backend
from weft.backends.cuda import availability
from weft.backends.cuda.libcuda import FUNCTIONS, Driver
from weft.backends.doctor import doctor

ELSEWHERE = 'or run on the processor: wf.Context("cc")'


@pytest.fixture(autouse=True)
def looked_for_anew() -> None:
    availability.usable_driver.cache_clear()
    backends.has_gpu_compilers.cache_clear()


def refused(driver: Driver) -> wf.WeftError:
    with pytest.raises(wf.WeftError) as caught:
        availability.checked_driver(driver)
    return caught.value


def test_no_driver(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "loaded_driver", partial(availability.loaded_driver, "libnothing.so.1"))
    monkeypatch.setattr(availability, "check_packages", lambda: None)
    with pytest.raises(wf.WeftError) as caught:
        wf.Context("cuda")
    assert caught.value.what.startswith("there is no NVIDIA driver here: libnothing.so.1: cannot open shared object")
    assert caught.value.fix == f"install the driver of an NVIDIA GPU, {ELSEWHERE}"


def test_no_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES", raising=False)
    error = refused(StandIn(devices=0).driver)
    assert (error.what, error.notes) == ("the NVIDIA driver finds no GPU", ())
    assert error.fix == f"see what nvidia-smi says, {ELSEWHERE}"
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "")
    assert refused(StandIn(devices=0).driver).notes == ("CUDA_VISIBLE_DEVICES is '': only those are looked for",)


def test_a_driver_that_is_too_old() -> None:
    error = refused(StandIn(version=12040).driver)
    assert error.what == "the NVIDIA driver is too old: it is of CUDA 12.4, and weft needs 13.0"
    assert error.fix == f"install a newer driver (580 or later), {ELSEWHERE}"


def test_a_gpu_that_is_too_old() -> None:
    error = refused(StandIn(architecture=(7, 5)).driver)
    assert error.what == "GPU 0, Stand-in 0, is of architecture sm_75, and weft needs sm_80 or newer"


def test_a_gpu_that_is_full() -> None:
    with pytest.raises(wf.WeftError) as caught:
        StandIn(memory=100).backend()
    assert caught.value.what == "GPU 0, Stand-in 0, is full: there is no room to begin"
    assert "nvidia-smi" in caught.value.fix


def test_no_compilers(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(availability, "_is_there", lambda one: one != "triton")
    with pytest.raises(wf.WeftError) as caught:
        wf.Context("cuda")
    assert caught.value.what == "the compilers for GPUs are not installed: there is no triton"
    assert caught.value.fix == f'pip install "weft[cuda]", {ELSEWHERE}'


def test_a_driver_that_works() -> None:
    driver = StandIn().driver
    assert availability.checked_driver(driver) is driver


def test_the_stand_in_has_every_function() -> None:
    assert StandIn().driver.has_all()
    assert all(name.startswith("cu") for name in FUNCTIONS)


# Which backend is the best


def test_the_best_is_a_gpu_that_works(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_BACKEND", raising=False)
    gpu = StandIn()
    monkeypatch.setattr(backends, "has_gpu_compilers", lambda: True)
    monkeypatch.setattr(backends, "_cuda", gpu.backend)
    assert wf.Context()._engine.backend.name == "cuda"
    monkeypatch.setenv("WEFT_BACKEND", "interp")
    assert wf.Context()._engine.backend.name == "interp"


def test_without_its_compilers_nobody_looks_for_a_gpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_BACKEND", raising=False)
    monkeypatch.setattr(backends, "has_gpu_compilers", lambda: False)
    monkeypatch.setattr(backends, "_cuda", lambda: pytest.fail("it was looked for"))
    assert find_backend(None).name == "cc"


def test_a_gpu_that_is_full_is_not_the_best(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WEFT_BACKEND", raising=False)
    gpu = StandIn(memory=100)
    monkeypatch.setattr(backends, "has_gpu_compilers", lambda: True)
    monkeypatch.setattr(backends, "_cuda", gpu.backend)
    assert find_backend(None).name == "cc"


def test_what_the_doctor_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_BACKEND", "interp")
    gpu = StandIn(devices=2)
    monkeypatch.setitem(backends._BACKENDS, "cuda", gpu.backend)
    lines = doctor().splitlines()
    assert lines[1] == "interp  works: NumPy"
    assert lines[2].startswith("cc      works: ")
    assert lines[3].startswith("cuda    works: driver of CUDA 13.0, triton ")
    assert lines[4:6] == [f"        GPU {at}: Stand-in {at}, sm_90, 16 MiB free of 16 MiB" for at in range(2)]
    assert lines[6] == "wf.Context() is interp, as WEFT_BACKEND says: 'interp'"
    monkeypatch.setitem(backends._BACKENDS, "cuda", lambda: availability.checked_driver(StandIn(devices=0).driver))
    assert "cuda    does not work: the NVIDIA driver finds no GPU" in doctor()
