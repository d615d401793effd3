"""The CUDA backend on a driver that is not there: memory, graphs, what is kept. Kernels are run by the oracle."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from standins.gpu import StandIn
from weft.backends import Backend, KernelCall, Lasting, Placing, Played, Pooling, Prompt
from weft.backends.cuda import kernel_cache
from weft.backends.cuda.gpu_kernels import language_of
from weft.backends.cuda.kernel_source import BlockMap
from weft.loops import Buffer, Grid, Lanes, Product, Simt, parse
from weft.ops.dtypes import ELEMENT_TYPES, numpy_type
from weft.schedule.decisions import read_decisions
from weft.schedule.tuning.subjects import subjects
from weft.schedule.tuning.tuned import Found, keep, machine_key


def param(name: str = "w", **options: object) -> wf.Tensor:
    return wf.param(name, **options)  # type: ignore[arg-type]


ROW = Buffer(0, "row", (3,), "float64")


@pytest.fixture
def gpu() -> StandIn:
    return StandIn()


# What it offers


def test_what_the_backend_offers(gpu: StandIn) -> None:
    cuda = gpu.backend()
    for protocol in (Backend, Placing, Lasting, Pooling):
        assert isinstance(cuda, protocol)
    assert not isinstance(cuda, Prompt), "what it is asked for is done later"
    assert cuda.places == {Grid, Lanes, Simt, Product}
    assert (cuda.name, cuda.fuses, cuda.count_devices()) == ("cuda", True, 1)


def test_costs_are_asked_of_the_gpu_that_is_found(gpu: StandIn) -> None:
    found = gpu.backend().described
    assert (found.multiprocessors, found.shared_bytes, found.cache_bytes) == (108, 232448, 40 << 20)
    assert found.bytes_per_s == pytest.approx(0.88 * 2.039e12, rel=1e-3)
    assert found.flops_per_s == pytest.approx(wf.Gpu().flops_per_s * 108 * 1.41 / (132 * 1.98))
    y = wf.tanh(wf.data(np.zeros((1024, 120), np.float32), batch=1)).named("y")
    routines = [
        wf.Context(gpu.backend()).compile(y.forward, keep=[y], options=wf.CompileOptions(gpu=one))
        for one in (None, found, wf.Gpu(point_lanes=128))
    ]
    assert "on a grid by 1024" in routines[0].show("kernels"), "an H200 has too many multiprocessors for that"
    assert routines[0].show("kernels") == routines[1].show("kernels")
    assert "on a grid by 128" in routines[2].show("kernels"), "what is asked for goes before what is found"


def test_gpus_count_as_long_as_they_are_alike() -> None:
    assert StandIn(devices=3).backend().count_devices() == 3


@pytest.mark.parametrize(
    ("text", "language"),
    [
        ("for i in range(4) on a grid by 4 with 1 warp:\n    x[i] = 1", "triton"),
        ("for i in range(4) on simt threads by 4:\n    x[i] = 1", "cuda"),
        ("for i in range(4):\n    x[i] = 1", "cuda"),
    ],
)
def test_the_outermost_statement_decides_the_language(text: str, language: str) -> None:
    assert language_of(parse(f"x: float32[4]\n{text}").body) == language


# Memory


@pytest.mark.parametrize("dtype", ELEMENT_TYPES)
def test_allocated_memory_is_zero_and_aligned(gpu: StandIn, dtype: str) -> None:
    cuda = gpu.backend()
    blocks = [cuda.allocate(Buffer(at, "b", (at, 3), dtype), 0) for at in range(1, 20)]
    assert {block.address % 256 for block in blocks} == {0}
    for at, block in enumerate(blocks, 1):
        found = cuda.download(block)
        assert (found.shape, found.dtype) == ((at, 3), numpy_type(dtype))
        assert not found.astype(bool).any()


def test_values_go_in_and_out_as_copies(gpu: StandIn) -> None:
    cuda = gpu.backend()
    block, other = cuda.allocate(ROW, 0), cuda.allocate(ROW, 0)
    array = np.arange(3.0)
    cuda.upload(array, block)
    array[:] = 9
    cuda.copy(block, other)
    out = cuda.download(other)
    out[0] = 7
    assert cuda.download(other).tolist() == cuda.download(block).tolist() == [0, 1, 2]
    cuda.upload(np.broadcast_to(np.float64(4), (3,)), block)
    assert cuda.download(block).tolist() == [4, 4, 4]
    cuda.upload(np.arange(6.0)[::-2], block)
    assert cuda.download(block).tolist() == [5, 3, 1]
    assert cuda.adopt(ROW, array, 0) is None


def test_a_view_is_the_same_memory_at_an_offset(gpu: StandIn) -> None:
    cuda = gpu.backend()
    whole = cuda.allocate(Buffer(0, "arena", (128,), "uint8"), 0)
    part = cuda.view(whole, Buffer(1, "part", (2,), "int32"), 64)
    cuda.upload(np.array([1, 2], np.int32), part)
    assert cuda.download(whole)[64:72].view("int32").tolist() == [1, 2]
    assert not cuda.download(whole)[:64].any()
    del whole
    assert cuda.download(part).tolist() == [1, 2]


def test_what_is_empty_is_not_copied(gpu: StandIn) -> None:
    cuda = gpu.backend()
    block = cuda.allocate(Buffer(0, "none", (0, 3), "float32"), 0)
    gpu.calls()
    cuda.upload(np.zeros((0, 3), np.float32), block)
    assert cuda.download(block).shape == (0, 3)
    cuda.copy(block, block)
    assert gpu.calls() == []


def test_memory_is_let_go_of_and_used_again(gpu: StandIn) -> None:
    cuda, big = gpu.backend(), Buffer(0, "big", (1 << 20,), "uint8")
    for _ in range(100):
        cuda.allocate(big, 0)
    use = cuda.memory(0)
    assert (use.held, use.peak) == (0, 1 << 20)
    assert use.pool == 1 << 20, "it stays in the pool"
    cuda.release(0)
    assert cuda.memory(0).pool == 0
    assert cuda.memory(0).free == use.total == 1 << 24
    assert gpu.library.standin_taken() == 0


def test_a_full_pool_is_emptied_before_memory_is_refused(gpu: StandIn) -> None:
    cuda, most = gpu.backend(), 1 << 24
    held = cuda.allocate(Buffer(0, "half", (most // 2,), "uint8"), 0)
    del held
    cuda.allocate(Buffer(1, "whole", (most,), "uint8"), 0)
    with pytest.raises(MemoryError):
        cuda.allocate(Buffer(2, "more", (most + 1,), "uint8"), 0)
    assert gpu.calls()[-3:-1] == ["synchronize 0", "trim 0"]
    assert cuda.memory(0).held == 0
    cuda.allocate(ROW, 0)


def test_values_go_from_one_gpu_to_another() -> None:
    gpu = StandIn(devices=2)
    cuda = gpu.backend()
    one, two = (cuda.allocate(ROW, at) for at in range(2))
    assert "access 1" in gpu.calls()
    cuda.upload(np.arange(3.0), one)
    cuda.copy(one, two)
    cuda.upload(np.zeros(3), one)
    assert cuda.download(two).tolist() == [0, 1, 2]
    assert "peer 24" in gpu.calls()


def test_any_thread_may_ask(gpu: StandIn) -> None:
    """A context is current only while something is asked for: what others have made current stays so."""
    cuda = gpu.backend()
    block = cuda.allocate(ROW, 0)
    found: list[object] = []

    def ask() -> None:
        cuda.upload(np.arange(3.0), block)
        found.append(cuda.download(block).tolist())
        found.append(gpu.library.standin_depth())

    thread = threading.Thread(target=ask)
    thread.start()
    thread.join()
    assert found == [[0, 1, 2], 0]
    assert gpu.library.standin_depth() == 0


# Routines


def doubling(gpu: StandIn, devices: int = 1) -> tuple[wf.Context, wf.Tensor, wf.Tensor]:
    ctx = wf.Context(gpu.backend(), devices=devices)
    return ctx, param(o=3, init=1.0), wf.data(np.arange(3.0, dtype=np.float32), label="x")


def test_a_routine_is_one_launch_and_nobody_waits(gpu: StandIn) -> None:
    ctx, w, x = doubling(gpu)
    v = param("v", o=3, init=2.0)

    @wf.cd
    def code() -> None:
        w[:] = w * x + 1.0
        v[:] = wf.einsum("i=>0", w) * v

    step = ctx.compile(code())
    step()
    gpu.calls()
    for _ in range(3):
        step()
    assert gpu.calls() == [f"launch {len(step.kernels)}"] * 3
    assert len(gpu.launches) < 4 * len(step.kernels), "nothing has run that nobody asked about"
    expected, other = np.ones(3), np.full(3, 2.0)
    for _ in range(4):
        expected = expected * np.arange(3) + 1
        other = expected.sum() * other
    np.testing.assert_allclose(ctx[w], expected)
    np.testing.assert_allclose(ctx[v], other, rtol=1e-5)
    assert gpu.failure is None


def test_kernels_get_their_pointers_in_order_and_nulls_after_them(gpu: StandIn) -> None:
    ctx, w, x = doubling(gpu)
    np.testing.assert_allclose(ctx[w * 3.0 - x], [3, 2, 1])
    assert {launch[1:] for launch in gpu.launches} == {(7, 128, 0)}
    assert gpu.failure is None


def test_kernels_get_tensor_maps_of_memory_as_it_is_bound(
    gpu: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of the first buffer of each kernel, after its pointers; and so in a later process, from what is kept."""
    gpu.maps = (BlockMap(0, "float32", (2, 8), (2, 8), box=(2, 4), swizzle=3),)
    for _ in range(2):
        x = wf.data(np.arange(16, dtype=np.float32).reshape(2, 8))
        ctx = wf.Context(gpu.backend(tmp_path))
        np.testing.assert_allclose(ctx[x * 3.0], 3 * np.arange(16).reshape(2, 8))
        assert gpu.failure is None
        assert "map 73" in gpu.calls(), "of the element type float32, with 128 bytes swizzled"
        assert gpu.mapped.pop() == (2, 8, 8, 1)
        monkeypatch.setattr(kernel_cache, "_known", {})
    assert len(gpu.compiled) == 1


def test_another_static_index_is_a_copy_and_not_another_graph(gpu: StandIn) -> None:
    ctx, w, _ = doubling(gpu)
    i = wf.index("i", 10)

    @wf.cd
    def code() -> None:
        w[:] = w * 10.0 + i

    step = ctx.compile(code(), bindings=[i])
    step(i=1)
    gpu.calls()
    step(i=1)
    assert gpu.calls() == ["launch 1"]
    step(i=7)
    assert gpu.calls() == ["upload 8", "launch 1"]
    assert ctx[w].tolist() == [1117.0] * 3


def test_values_on_their_way_to_the_gpu_are_not_overwritten(gpu: StandIn) -> None:
    """Runs that nobody waits for: each has its own static index, however many there are."""
    ctx, w, _ = doubling(gpu)
    i = wf.index("i", 2)

    @wf.cd
    def code() -> None:
        w[:] = w + i

    step = ctx.compile(code(), bindings=[i])
    step(i=0)
    gpu.calls()
    for at in range(20_000):
        step(i=at % 2)
    calls = gpu.calls()
    assert calls.count("launch 1") == 20_000
    assert 0 < calls.count("synchronize 0") < 5
    assert ctx[w].tolist() == [10_001.0] * 3


def test_two_routines_share_memory(gpu: StandIn) -> None:
    ctx, w, x = doubling(gpu)

    @wf.cd
    def add() -> None:
        w[:] = w + x

    @wf.cd
    def double() -> None:
        w[:] = w * 2.0

    first, second = ctx.compile(add()), ctx.compile(double())
    for _ in range(2):
        first()
        second()
    assert ctx[w].tolist() == [4.0, 10.0, 16.0]


def test_streams_and_devices(gpu: StandIn) -> None:
    gpu = StandIn(devices=2)
    ctx, w, x = doubling(gpu, devices=2)

    @wf.cd
    def add() -> None:
        w[:] = w + x

    step, (one, two) = ctx.compile(add()), ctx.devices
    streams = [one.stream() for _ in range(3)]
    for stream in streams:
        stream.run(step)
    two.receive(w, one).wait()
    two.run(step).wait()
    ctx.synchronize()
    assert (one[w].tolist(), two[w].tolist()) == ([1.0, 4.0, 7.0], [1.0, 5.0, 9.0])


@pytest.mark.parametrize(
    ("architecture", "kernels", "early"),
    [((8, 0), 3, False), ((9, 0), 3, True), ((10, 0), 32, True), ((9, 0), 33, False)],
)
def test_kernels_that_wait_by_themselves_are_launched_while_others_run(
    architecture: tuple[int, int], kernels: int, early: bool
) -> None:
    """An edge of a graph of few kernels is programmatic where these wait; results are the same."""
    gpu = StandIn(architecture=architecture)
    y = x = wf.data(np.arange(3, dtype=np.float32), label="x")
    for _ in range(kernels):
        y = y + x
    y, ctx = y.named("y"), wf.Context(gpu.backend())
    with wf.config.using(optimise=False):
        step = ctx.compile(y.forward, keep=[y])
    assert len(step.kernels) == kernels
    step()
    assert ctx[y].tolist() == [0, kernels + 1, 2 * (kernels + 1)]
    said = [one for one in gpu.calls() if one.startswith("programmatic")]
    assert said == [f"programmatic {(kernels - 1) * early}"]


def test_a_graph_goes_when_its_routine_does(gpu: StandIn) -> None:
    ctx, w, x = doubling(gpu)
    step = ctx.compile((w * x).forward)
    step()
    gpu.calls()
    del step
    ctx[w] = 3.0
    _ = ctx[w + 1.0]
    ctx._engine.backend.memory(0)  # type: ignore[attr-defined]
    assert "destroy 0" in gpu.calls()


def test_a_failure_on_the_gpu_is_raised_by_who_waits(gpu: StandIn) -> None:
    ctx, w, x = doubling(gpu)
    step = ctx.compile((w * x).forward)
    step()
    gpu.kernels.clear()
    step()
    with pytest.raises(wf.WeftError, match="what runs on the GPU failed: CUDA_ERROR"):
        ctx.synchronize()


def test_functions_hand_arrays_in_and_out(gpu: StandIn) -> None:
    ctx = wf.Context(gpu.backend())
    x = wf.input("x", o=3)
    double = ctx.function(x, returns=x * 2.0)
    for start in range(3):
        given = np.arange(start, start + 3, dtype=np.float32)
        assert double(given).tolist() == (given * 2).tolist()


def test_comprehensions_bind_once(gpu: StandIn) -> None:
    """Arrays are copied into memory that stays where it is: calls need no other graph."""
    mm = wf.tc.define(
        "def mm(float(M,K) A, float(K,N) B) -> (C) { C(m,n) +=! A(m,k) * B(k,n) }", backend=gpu.backend()
    ).mm
    rng = np.random.default_rng(1)
    for _ in range(3):
        a, b = rng.random((4, 5), np.float32), rng.random((5, 6), np.float32)
        np.testing.assert_allclose(mm(a, b), a @ b, rtol=1e-5)
    assert sum("instantiate" in one for one in gpu.calls()) == 1


# Memory that runs out


def test_no_memory_says_what_holds_it_and_changes_nothing(gpu: StandIn) -> None:
    ctx = wf.Context(gpu.backend())
    w = param("weights", o=1 << 20, init=1.0)
    assert ctx[w].shape == (1 << 20,)
    v = param("huge", o=1 << 22, init=2.0)
    with pytest.raises(wf.OutOfMemory) as caught:
        ctx[v * 2.0]
    error = caught.value
    assert error.what.startswith("there is no memory for ")
    notes = "\n".join(error.notes)
    assert "device 0 has " in notes
    assert "free of 16 MiB; this process holds " in notes
    assert "`weights` 4 MiB" in notes
    assert ctx[w].tolist() == [1.0] * (1 << 20)
    assert float(ctx[w * 2.0][0]) == 2.0


def test_memory_of_a_context(gpu: StandIn) -> None:
    ctx, w, x = doubling(gpu)
    step = ctx.compile((w * x).forward)
    step()
    use = ctx.memory().devices[0]
    assert use.tensors["x"] == use.tensors["w"] == 12
    assert use.device is not None
    assert use.device.held >= use.held
    assert "16 MiB" in str(ctx.memory())
    del step, use
    ctx.close()
    assert gpu.backend().memory(0).held == 0
    assert gpu.library.standin_taken() == 0


def test_memory_of_a_context_on_the_processor() -> None:
    ctx, w = wf.Context("interp"), param(o=3)
    _ = ctx[w]
    (use,) = ctx.memory().devices
    assert (dict(use.tensors), use.device) == ({"w": 12}, None)


# What is kept


def test_a_warm_start_compiles_nothing(gpu: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))

    def run() -> list[float]:
        monkeypatch.setattr(kernel_cache, "_known", {})
        ctx, w, x = doubling(gpu)
        ctx = wf.Context(gpu.backend(tmp_path / "cuda"))

        @wf.cd
        def code() -> None:
            w[:] = w * x + 1.0

        step = ctx.compile(code())
        step()
        return [*ctx[w].tolist()]

    first = run()
    made, gpu.compiled, gpu.written = gpu.compiled, [], {}
    assert made
    assert run() == first
    assert gpu.compiled == []
    assert gpu.written == {}, "no text was written either"


def test_what_is_kept_is_whole_or_made_again(gpu: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kernel_cache, "_known", {})
    kernels = list(_kernels(gpu))
    cuda = gpu.backend(tmp_path)
    made = cuda.compile(kernels)
    assert isinstance(made, Played)
    (entry,) = tmp_path.iterdir()
    monkeypatch.setattr(kernel_cache, "_known", {})
    assert cuda.recall(made.calls) is not None
    *kept, last = entry.read_bytes()
    entry.write_bytes(bytes([*kept, last ^ 1]))
    monkeypatch.setattr(kernel_cache, "_known", {})
    assert cuda.recall(made.calls) is None
    gpu.compiled.clear()
    cuda.compile(kernels)
    assert len(gpu.compiled) == 1


def test_another_architecture_is_other_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = StandIn(architecture=(9, 0)), StandIn(architecture=(8, 0))
    made = one.backend(tmp_path).compile(_kernels(one))
    assert isinstance(made, Played)
    assert other.backend(tmp_path).recall(made.calls) is None
    assert one.backend().identity != other.backend().identity
    assert one.backend().recall([KernelCall("weft_none", (), ())]) is None


def test_kernels_that_differ_in_names_and_constants_are_one(gpu: StandIn) -> None:
    ctx = wf.Context(gpu.backend())
    a, b, c = (param(one, o=4, init=0.0) for one in "abc")

    @wf.cd
    def code() -> None:
        a[:] = a + 1.0
        b[:] = b + 1.0
        c[:] = c + 1.0

    with wf.config.using(optimise=False):
        step = ctx.compile(code())
    step()
    assert len(step.kernels) == 3
    assert len({call.kernel for call in step.executable.calls}) == 1  # type: ignore[attr-defined]
    assert [ctx[one].tolist() for one in (a, b, c)] == [[1.0] * 4] * 3


def test_source_is_below_its_assignments_with_names(gpu: StandIn) -> None:
    ctx, w, x = doubling(gpu)
    text = ctx.compile((w * x).forward).show("source")
    assert "programs of 4 warps" in text
    assert "is w" in text
    assert "is x" in text
    assert text.startswith(("//", "#"))


def test_large_shared_memory_is_asked_for(gpu: StandIn) -> None:
    gpu.shared = 100_000
    ctx, w, _ = doubling(gpu)
    assert ctx[w * 2.0].tolist() == [2.0] * 3
    assert "shared 100000" in gpu.calls()


def test_a_kernel_that_fits_on_no_gpu_is_a_crash_of_the_compiler(gpu: StandIn) -> None:
    gpu.shared = 300_000
    ctx, w, _ = doubling(gpu)
    with pytest.raises(wf.WeftError, match="needs 300000 bytes of shared memory, and the GPU has 232448"):
        ctx[w * 2.0]


def test_importing_weft_loads_no_driver_and_no_compiler() -> None:
    code = (
        "import sys, weft; weft.Context('interp'); "
        "print([one for one in sys.modules if one.partition('.')[0] in ('triton', 'cuda') or '.cuda' in one])"
    )
    env = {**os.environ, "PYTHONPATH": str(Path(wf.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def _kernels(gpu: StandIn) -> tuple[object, ...]:
    ctx = wf.Context(gpu.backend())
    return ctx.compile((param(o=3) * 2.0).forward).kernels  # type: ignore[return-value]


def test_how_launches_run_is_decided_by_hand(gpu: StandIn) -> None:
    ctx, doubled = wf.Context(gpu.backend()), (param(o=3, init=1.0) * 2.0).named("doubled")
    step = ctx.compile(doubled.forward, keep=[doubled])
    step()
    before = np.array(ctx[doubled])
    assert str(step.decisions()[0]) == "i0 on a grid by 4 with 1 warp"
    step.decide({0: {"i0": "on a grid by 2 with 8 warps"}})
    assert "on a grid by 2 with 8 warps" in step.show("kernels")
    step()
    np.testing.assert_array_equal(ctx[doubled], before)
    for said, why in (
        ({"i0": "in lanes by 4"}, "of `i0` only numbers may be others: on a grid by 4 with 1 warp"),
        ({"i0": "on a grid by 3 with 1 warp"}, "3 lanes are no power of two"),
        ({"i0": "cut by 2"}, "the loops of a launch stand as they do"),
    ):
        with pytest.raises(wf.WeftError, match="kernel 0 cannot run so") as caught:
            step.decide({0: said})
        assert why in caught.value.what


def test_launches_are_tuned_and_what_is_found_is_used_later(
    gpu: StandIn, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
    x = wf.data(np.linspace(-1, 1, 512, dtype=np.float32).reshape(16, 32), batch=1)
    y = wf.softmax(wf.param("w", o=16, init=0.5) @ x).named("y")
    ctx = wf.Context(gpu.backend())
    options = wf.CompileOptions(tuned=str(tmp_path / "found.jsonl"))
    step = ctx.compile(y.forward, keep=[y], options=options)
    step()
    before, runs = np.array(ctx[y]), [str(one) for one in step.decisions()]
    report = step.tune(seconds=0.5, show=False)
    assert sum(one.tried for one in report.kernels) > 0
    step()
    np.testing.assert_allclose(ctx[y], before, rtol=1e-5)
    request = step.compiled.request
    assert request is not None
    _, stage = request.undecided()
    subject = subjects(stage, request.task)[-1]
    chosen = read_decisions({**subject.rules.texts, "i0": "on a grid by 2 with 2 warps"})
    machine = machine_key(request.options.timed_on)
    assert machine != machine_key(request.options.machine), "the GPU is part of it"
    assert keep(options.tuned, [Found(subject.key, machine, chosen, 1e-9, 1.0)])
    again = wf.Context(gpu.backend()).compile(y.forward, keep=[y], options=options)
    assert "on a grid by 2 with 2 warps" in again.show("kernels")
    assert runs[-1] not in map(str, again.decisions())
    elsewhere = wf.Context(gpu.backend()).compile(y.forward, keep=[y], options=options.but(gpu=wf.Gpu()))
    assert "on a grid by 2 with 2 warps" not in elsewhere.show("kernels"), "it was found on another GPU"
