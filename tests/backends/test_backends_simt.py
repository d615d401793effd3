"""CUDA C++ for SIMT threads against the oracle, run on the host, and compiled for GPUs that are not there."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import weft as wf
from backends.machine_code import WAIT, instructions, waits_first
from backends.simt_host import Launches, OnHost
from comprehension.corpus import CORPUS, Entry
from comprehension.running import assert_near, definition, seeds_of, several
from loops.programs import GIVEN, Sample, samples
from schedule.programs import PROGRAMS
from schedule.test_schedule_random import OPTIMISERS, agree as agree_on_models
from tensor.models import Model, models
from weft.affine import Affine
from weft.backends.cuda import nvrtc
from weft.backends.cuda.kernel_source import Source
from weft.backends.cuda.simt_text import simt_source
from weft.backends.kernel_texts import static_in
from weft.loops import Buffer, Cast, For, Program, Read, Simt, Store, buffers_of, parse, show, typed
from weft.loops.interp import run_scalar
from weft.ops import OPS, Num, Op
from weft.ops.dtypes import ELEMENT_TYPES, is_float, numpy_type
from weft.ops.scalar import call
from weft.schedule import as_kernels, show_kernels
from weft.schedule.gpu.simt import on_simt
from weft.schedule.nodes import Kernel

ARCHITECTURES = ("sm_80", "sm_90", "sm_100")
FLOATS = ("add", "sub", "mul", "max", "min", "lt", "eq", "and", "arg1", "arg2", "relu_gate", "mod", "div")
EXACT_TYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32")


def launched(program: Program) -> list[Kernel]:
    return [one for kernel in as_kernels(program) for one in on_simt(kernel)]


def agree(sample: Sample, static: int) -> None:
    ours, meaning = sample.memory(), sample.memory()
    bound = dict.fromkeys(GIVEN, static)
    run_scalar(sample.program, meaning, bound)
    Launches(launched(sample.program)).bind(ours)(bound)
    for buffer in sample.buffers:
        np.testing.assert_allclose(ours[buffer], meaning[buffer], rtol=1e-12, err_msg=show(sample.program))


@settings(max_examples=12)
@given(samples(dtypes=EXACT_TYPES), st.integers(0, GIVEN["s"] - 1))
def test_whole_numbers(sample: Sample, static: int) -> None:
    agree(sample, static)


@settings(max_examples=8)
@given(samples(dtypes=("float64",), ops=FLOATS, values=FLOATS), st.integers(0, GIVEN["s"] - 1))
def test_floats_with_nan_and_infinity(sample: Sample, static: int) -> None:
    agree(sample, static)


@settings(max_examples=8, suppress_health_check=list(HealthCheck))
@given(models(), st.sampled_from(sorted(OPTIMISERS)), st.booleans())
def test_models_and_their_gradients(sample: tuple[Model, wf.Tensor], optimiser: str, optimise: bool) -> None:
    with wf.config.using(optimise=optimise):
        agree_on_models(sample, optimiser, OnHost(), 1)


# Every operation, in every type

ROW_TYPES = ("bool", "int32", "uint64", "bfloat16", "float32", "float64")
#: How far a function may be from the oracle's, which is the C library's or NumPy's.
NEAR = {
    "float32": 2e-6,
    "float64": 4e-14,
    "float16": 2e-3,
    "bfloat16": 1e-2,
    "float8_e4m3fn": 0.13,
    "float8_e5m2": 0.26,
}
RANDOM = {"threefry4x32", "uniform", "normal"}


def numbers(dtype: str, count: int) -> np.ndarray:
    """Numbers of a type, the strange ones first."""
    rng = np.random.default_rng(count)
    if not is_float(dtype):
        low, high = (0, 2) if dtype == "bool" else (0, 9) if dtype.startswith("u") else (-9, 9)
        return rng.integers(low, high, 24).astype(dtype)
    strange = [np.nan, np.inf, -np.inf, 0.0, -0.0, 1.0, -1.0, 2.0, 0.5]
    found = np.array([*strange[count:], *strange[:count], *rng.normal(0, 2, 15)])
    with np.errstate(all="ignore"):
        return found.astype(numpy_type(dtype))


def row(op: Op, dtype: str, number: int) -> tuple[Program, dict[Buffer, np.ndarray]]:
    """An operation on numbers of a type, as a program, and memory to run it on."""
    types = [dtype] * op.arity
    if op.name in RANDOM:
        types = ["uint64"] * op.arity
    at, first = (Affine.of("i"),), 10 * number
    given_ = [Buffer(first + 1 + place, f"x{place}", (24,), one) for place, one in enumerate(types)]
    values = [Read(one, at) for one in given_]
    if op.name in ("uniform", "normal"):
        values[-1] = Cast(dtype, Num(24))  # type: ignore[call-overload]
    to = Buffer(first, op.name, (24,), "uint64" if op.name == "threefry4x32" else dtype)
    program = typed(Program((For("i", 24, (Store(to, at, call(op.name, *values)),)),)))
    memory = {one: numbers(one.dtype, place) for place, one in enumerate(given_)}
    return program, {**memory, to: np.zeros(24, numpy_type(to.dtype))}


def drawable(op: Op, dtype: str) -> bool:
    return op.name not in RANDOM or dtype in ("float32", "float64")


def test_every_operation_in_every_kind_of_type() -> None:
    every = [(op, dtype) for op in OPS.values() for dtype in ROW_TYPES if drawable(op, dtype)]
    rows = [row(op, dtype, number) for number, (op, dtype) in enumerate(every)]
    ours = {buffer: array.copy() for _, memory in rows for buffer, array in memory.items()}
    Launches([one for program, _ in rows for one in launched(program)]).bind(ours)({})
    for (op, dtype), (program, memory) in zip(every, rows, strict=True):
        run_scalar(program, memory)
        (to,) = [one for one in memory if one.name == op.name]
        near = 0 if op.name in RANDOM else NEAR.get(to.dtype, 0)
        found, meant = (one[to].astype("float64") for one in (ours, memory))
        np.testing.assert_allclose(found, meant, rtol=near, atol=near * 1e-3, err_msg=f"{op.name} of {dtype}")


def test_every_conversion() -> None:
    kernels, meant, ours = list[Kernel](), dict[Buffer, np.ndarray](), dict[Buffer, np.ndarray]()
    wild = np.array([0, -0.0, 1, -1, 2.5, -3.5, 127.5, 300, -300, 1e5, 7e4, 1e10, -1e19, 1e20, np.inf, -np.inf, np.nan])
    for number, (source, target) in enumerate((a, b) for a in ELEMENT_TYPES for b in ELEMENT_TYPES if a != b):
        one, other = Buffer(2 * number, "x", (17,), source), Buffer(2 * number + 1, "y", (17,), target)
        at = (Affine.of("i"),)
        program = typed(Program((For("i", 17, (Store(other, at, Read(one, at)),)),)))
        with np.errstate(all="ignore"):
            whole = np.nan_to_num(wild, nan=3, posinf=9e18, neginf=-9e18).astype("int64")
            meant[one] = (wild if is_float(source) else whole).astype(numpy_type(source))
        meant[other] = np.zeros(17, numpy_type(target))
        ours |= {buffer: meant[buffer].copy() for buffer in (one, other)}
        kernels += launched(program)
        run_scalar(program, meant)
    Launches(kernels).bind(ours)({})
    for buffer, array in ours.items():
        found, wanted = (each.astype("float64") for each in (array, meant[buffer]))
        np.testing.assert_array_equal(found, wanted, err_msg=f"{buffer.id}: {buffer.dtype}")
        np.testing.assert_array_equal(np.signbit(found), np.signbit(wanted)) if is_float(buffer.dtype) else None


# Whole programs


@pytest.mark.parametrize("entry", CORPUS, ids=lambda one: one.name)
def test_comprehensions(entry: Entry) -> None:
    inputs = entry.make(np.random.default_rng(0), 0)
    one = definition(entry.text, OnHost(), entry.definition)  # type: ignore[arg-type]
    found = several(one(*(inputs[name] for name in one.params)))
    for array, wanted in zip(found, entry.expected(inputs), strict=True):
        assert_near(array, wanted)


@pytest.mark.parametrize("entry", [one for one in CORPUS if one.differentiable][::6], ids=lambda one: one.name)
def test_gradients_of_comprehensions(entry: Entry) -> None:
    inputs, gradients = entry.make(np.random.default_rng(0), 0), []
    seeds: tuple[np.ndarray | None, ...] = ()
    for backend in ("interp", OnHost()):
        one = definition(entry.text, backend, entry.definition)  # type: ignore[arg-type]
        given_ = [inputs[name] for name in one.params]
        seeds = seeds or seeds_of(several(one(*given_)), np.random.default_rng(1))
        gradients.append(several(one.grad(*given_, wrt=entry.differentiable, d=seeds)))
    for meant, found in zip(*gradients, strict=True):
        assert_near(found, meant)


def kernels_of(name: str, optimise: bool) -> Sequence[Kernel]:
    wf.seed(0)
    sample = PROGRAMS[name]()
    with wf.config.using(optimise=optimise):
        routine = wf.Context(OnHost()).compile(sample.code, keep=list(sample.keep))  # type: ignore[arg-type]
    return routine.kernels


def sources(kernels: Sequence[Kernel], prefix: str) -> list[Source]:
    found = []
    for number, kernel in enumerate(kernels):
        buffers = buffers_of(Program(kernel.body))
        found.append(simt_source(f"{prefix}_{number}", kernel.body, buffers, static_in(kernel.body)))
    return found


@pytest.mark.parametrize("name", sorted(PROGRAMS))
def test_texts(name: str, golden: Callable[[str], None]) -> None:
    kernels = kernels_of(name, True)
    texts = [one.text for one in sources(kernels, name)]
    golden(f"{show_kernels(kernels)}\n\n" + "\n".join(texts))


@pytest.mark.parametrize("architecture", ARCHITECTURES)
def test_every_text_compiles(architecture: str) -> None:
    ways = (True, False) if architecture == "sm_90" else (True,)
    wanted = [one for name in PROGRAMS for way in ways for one in sources(kernels_of(name, way), f"{name}{way}")]
    made = nvrtc.compile_all_cuda(wanted, architecture)
    assert [one.entry for one in made] == [one.entry for one in wanted]
    assert all(one.cubin.startswith(b"\x7fELF") and one.entry.encode() in one.cubin for one in made)
    assert [(one.programs, one.threads) for one in made] == [(one.programs, 32 * one.warps) for one in wanted]


def test_threads_wait_for_other_launches_before_they_touch_memory(tmp_path: Path) -> None:
    pytest.importorskip("triton")  # the disassembler is Triton's
    for name in PROGRAMS:
        for source in sources(kernels_of(name, True), name):
            assert waits_first(instructions(nvrtc.compile_cuda(source, "sm_90").cubin, tmp_path))
            assert WAIT not in instructions(nvrtc.compile_cuda(source, "sm_80").cubin, tmp_path)


def test_every_operation_compiles() -> None:
    every = [(op, dtype) for op in OPS.values() for dtype in ("int64", "float32", "float64") if drawable(op, dtype)]
    kernels = [one for number, (op, dtype) in enumerate(every) for one in launched(row(op, dtype, number)[0])]
    assert len(nvrtc.compile_all_cuda(sources(kernels, "row"), "sm_90")) == len(every)


def test_what_nvrtc_refuses_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    wrong = Source(
        "cuda", "wrong", 'extern "C" __global__ void wrong(float *x0) { x0[0] = y; }', ("float32",), False, 1, 1
    )
    with pytest.raises(wf.WeftError, match=r'NVRTC failed: .*error: identifier "y" is undefined') as caught:
        nvrtc.compile_cuda(wrong, "sm_90")
    kept = re.search(r"the source is kept at (.*)", str(caught.value))
    assert kept is not None
    assert Path(kept[1]).read_text().endswith(wrong.text)
    assert "--gpu-architecture=sm_90 " in str(caught.value)


def test_an_unknown_architecture_is_named() -> None:
    (one,) = sources(launched(row(OPS["add"], "float32", 0)[0]), "one")
    with pytest.raises(wf.WeftError, match=r"NVRTC failed: .*gpu-architecture"):
        nvrtc.compile_cuda(one, "sm_1")


def test_without_nvrtc_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "cuda.bindings", None)
    with pytest.raises(
        wf.WeftError, match=r"NVRTC, which compiles CUDA C\+\+, cannot be loaded: .*\n.*nvidia-cuda-nvrtc"
    ):
        nvrtc.compile_cuda(Source("cuda", "none", "", (), False, 1, 1), "sm_90")


# What the stand-in finds

SHIFTED = """
h: float64[4, 8]
u: float64[8]
for t in range(3):
    for i in range(8):
        u[i] = h[t, i] * 2 + h[t, 0]
    for i in range(8):
        h[t + 1, i] = u[7 - i]
"""
CENTRED = """
y: float64[8]
a: float64 = y[0]
for i in range(8):
    y[i] = y[i] - a
"""


def text_without(program: str, removed: str, monkeypatch: pytest.MonkeyPatch) -> None:
    kernels, plain = on_simt(Kernel((), parse(program).body)), Source.__init__

    def changed(self: Source, language: str, entry: str, text: str, *rest: object) -> None:
        assert removed in text
        plain(self, language, entry, text.replace(removed, "", 1), *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(Source, "__init__", changed)
    memory = {one: np.random.default_rng(0).normal(size=one.shape) for one in buffers_of(parse(program))}
    Launches(kernels).bind(memory)({})


def test_a_step_in_which_cells_mix_runs_in_one_thread_block() -> None:
    program = parse(SHIFTED)
    memory = {one: np.random.default_rng(0).normal(size=one.shape) for one in buffers_of(program)}
    meant = {one: array.copy() for one, array in memory.items()}
    run_scalar(program, meant)
    executable = Launches(launched(program))
    assert executable.source.count("__syncthreads();") == 2
    executable.bind(memory)({})
    assert all(np.array_equal(memory[one], meant[one]) for one in memory)


@pytest.mark.parametrize("program", [SHIFTED, CENTRED], ids=["after", "before"])
def test_a_missing_barrier_is_found(program: str, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(AssertionError, match="depends on the order of threads"):
        text_without(program, "__syncthreads();", monkeypatch)


def test_loops_that_depend_on_their_order_are_found() -> None:
    program = parse("y: float64[8]\nfor i in range(7):\n    y[i + 1] = y[i]")
    (loop,) = program.body
    assert isinstance(loop, For)
    wrong = Kernel((), (replace(loop, how=(Simt(256),)),))
    memory = {one: np.arange(8.0) for one in buffers_of(program)}
    with pytest.raises(AssertionError, match="`y` depends on the order of threads"):
        Launches([wrong]).bind(memory)({})


def test_large_kernels_count_in_64_bits() -> None:
    """What fits into 32 bits is counted in these; a buffer of more cells, or a loop beyond, is not."""
    text = "x: int8[{n}]\nfor i in range({n}):\n    x[i] = int8(i)"
    small, large = (launched(parse(text.format(n=n))) for n in (1 << 20, 1 << 31))
    assert "const uint32_t thread = blockIdx.x * blockDim.x + threadIdx.x;" in sources(small, "k")[0].text
    (wide,) = sources(large, "k")
    assert "const uint64_t thread = (uint64_t)blockIdx.x * blockDim.x + threadIdx.x;" in wide.text
    assert "const int64_t i_ = thread;" in wide.text
    assert wide.programs == 1 << 23


def test_signed_numbers_wrap_as_unsigned_ones_do() -> None:
    program = parse("x: int64[4]\ny: int64[4]\nfor i in range(4):\n    y[i] = x[i] * x[i] + i")
    text = sources(launched(program), "k")[0].text
    assert "(int64_t)((uint64_t)(int64_t)((uint64_t)x1[i_] * (uint64_t)x1[i_]) + (uint64_t)(int64_t)i_)" in text
