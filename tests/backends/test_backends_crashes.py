"""A compiler that breaks down on one kernel: that one runs in plain loops, everything else as it was."""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from backends.compilers import WITH_THE_SOURCE, script
from backends.on_grid import OnGrid
from weft import loops
from weft.backends import CompilerCrash, Executable
from weft.backends.cc import loader
from weft.schedule import CompileOptions, Kernel
from weft.schedule.gpu.simt import is_on_gpu

pytestmark = pytest.mark.usefixtures("temporary")

RNG = np.random.default_rng(0)
#: A machine so slow that every loop is worth sharing.
SLOW = wf.Machine(cores=2, flops_per_s=1e6, cached_bytes_per_s=1e6)
OPTIONS = CompileOptions(machine=SLOW, chunk_ns=100, verify=True)

#: What a compiler may do, and what is then said of it.
ENDS = {
    "kill -SEGV $$": "the C compiler was killed by signal 11 (SIGSEGV)",
    "exit 139": "the C compiler was killed by signal 11 (SIGSEGV)",
    "echo 'weft.c:9: internal compiler error: in expand' >&2; exit 1": "weft.c:9: internal compiler error: in expand",
    "echo 'cc: fatal error: Killed signal terminated program cc1' >&2; exit 1": "Killed signal terminated program cc1",
}
CRASHES = "kill -SEGV $$"
#: What only the text of a product in tiles has, that of any kernel whose loops threads share, and that of any kernel.
IN_TILES, SHARED, ANY = "_product0_any(", "_on0(", "_on("

Compilers = Callable[..., wf.Context]


@dataclass(frozen=True, slots=True)
class CrashingOnBlocks(OnGrid):
    """A GPU's pipeline, with a compiler that breaks down on products in blocks."""

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        found = {at for at, one in enumerate(kernels) if "in blocks of" in loops.show(loops.Program(one.body))}
        if found:
            raise CompilerCrash(dict.fromkeys(found, wf.WeftError("it broke down")), "Triton", "report it")
        return super(CrashingOnBlocks, self).compile(kernels)


@pytest.fixture
def breaking(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Compilers:
    """A context whose compiler ends in some way where a text has a word, and notes each time that it does."""

    def context(word: str, end: str = CRASHES) -> wf.Context:
        ends = f'if grep -qF "{word}" "$source"; then echo >> {tmp_path}/ended; {end}; fi\n'
        path = script(tmp_path / "fakecc", WITH_THE_SOURCE + ends + 'exec cc "$@"')
        monkeypatch.setenv("WEFT_CC", str(path))
        monkeypatch.setenv("WEFT_CACHE", str(tmp_path / "cache"))
        return wf.Context("cc")

    return context


def numbers(*shape: int, batch: int = 0) -> wf.Tensor:
    return wf.data(RNG.standard_normal(shape).astype("float32"), batch=batch)


def program() -> list[wf.Tensor]:
    """A product in tiles, rows for which each thread has memory of its own, and plain loops on vectors."""
    product = wf.einsum("ij; jk => ik", numbers(33, 65), numbers(65, 48), label="product")
    return [product, wf.softmax(numbers(40, 64, batch=1)), wf.tanh(numbers(900)) * 2.0]


def compiled(ctx: wf.Context, made: list[wf.Tensor]) -> wf.Routine:
    return ctx.compile(wf.seq(*(one.forward for one in made)), keep=made, options=OPTIONS)


def check(ctx: wf.Context, routine: wf.Routine, made: list[wf.Tensor]) -> None:
    routine()
    oracle = wf.Context("interp")
    for tensor in made:
        np.testing.assert_allclose(ctx[tensor], oracle[tensor], rtol=2e-5, atol=2e-5)


def kernels(routine: wf.Routine) -> tuple[list[str], list[str]]:
    """The kernels of a routine as text: those in plain loops, the others."""
    shown = routine.show("kernels").split("\n\n")
    plain = [one for one in shown if "# in plain loops: otherwise " in one]
    return plain, [one for one in shown if one not in plain]


@pytest.mark.parametrize("end", ENDS)
def test_one_kernel_runs_in_plain_loops(end: str, breaking: Compilers, temporary: Path) -> None:
    ctx, made = breaking(IN_TILES, end), program()
    with pytest.warns(wf.WeftWarning) as caught:
        routine = compiled(ctx, made)
    check(ctx, routine, made)
    (warning,) = caught
    what, why, command, where, fix = str(warning.message).splitlines()
    assert what.startswith("the C compiler breaks down on a kernel, which runs in plain loops instead: product =:+ ")
    assert ENDS[end] in why
    assert "fakecc -std=c11" in command
    assert "set WEFT_CC to another compiler" in fix
    assert warning.filename == __file__
    source = Path(where.strip().removeprefix("the source is kept at "))
    assert IN_TILES in source.read_text()
    assert source.read_text().count("_on(") == 2  # it is there alone: what it is, and its call
    assert [one.name for one in temporary.iterdir()] == [source.parent.name]
    (plain,), others = kernels(routine)
    assert "product of" not in plain
    assert " on " not in plain.splitlines()[-1]
    assert len(others) == 2
    assert all(" on threads by " in text and " on vectors" in text for text in others)


def test_memory_that_threads_had_for_themselves_is_there_once(breaking: Compilers) -> None:
    """Every kernel is in plain loops then, each with a warning of its own, and costs and memory can be shown."""
    ctx, made = breaking(SHARED), program()
    with pytest.warns(wf.WeftWarning) as caught:
        routine = compiled(ctx, made)
    check(ctx, routine, made)
    assert len(caught) == 3
    plain, others = kernels(routine)
    assert (len(plain), others) == (3, [])
    assert not any(" on threads" in text or " on vectors" in text for text in plain)
    assert [str(one) for one in routine.decisions()] == ["as it is written"] * 3
    loops.check(routine.program)
    assert all(buffer.role is not loops.Role.PRIVATE for buffer in routine.memory().offsets)
    assert len(routine.profile(times=1).kernels) == 3


def test_kernels_that_are_alike_are_told_of_at_once(breaking: Compilers) -> None:
    ctx, w = breaking(IN_TILES), numbers(64, 64)
    one = wf.einsum("ij; jk => ik", w, numbers(64, 64))
    two = wf.einsum("ij; jk => ik", w, numbers(64, 64))
    with pytest.warns(wf.WeftWarning, match=r", and 1 more that is like it\n") as caught:
        routine = compiled(ctx, [one, two])
    check(ctx, routine, [one, two])
    assert len(caught) == 1


def test_a_compiler_is_asked_once_what_it_breaks_down_on(breaking: Compilers, tmp_path: Path) -> None:
    ctx, made = breaking(IN_TILES), program()
    with pytest.warns(wf.WeftWarning):
        compiled(ctx, made)
    before = (tmp_path / "ended").read_text()
    with pytest.warns(wf.WeftWarning, match="product"):
        routine = compiled(wf.Context("cc"), made)
    assert (tmp_path / "ended").read_text() == before
    assert len(kernels(routine)[0]) == 1


def test_the_next_process_tries_again(breaking: Compilers, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """It may have been memory that was short: nothing of it is kept."""
    ctx, made = breaking(IN_TILES), program()
    with pytest.warns(wf.WeftWarning):
        first = compiled(ctx, made)
    monkeypatch.setattr(loader, "_crashed", {})
    script_of = tmp_path / "fakecc"
    changed = script_of.stat()
    text = script_of.read_text().replace(CRASHES, ":" + " " * (len(CRASHES) - 1))
    script_of.write_text(text)
    os.utime(script_of, ns=(changed.st_atime_ns, changed.st_mtime_ns))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        again = compiled(wf.Context("cc"), made)
    before, now = ([one.kernel for one in routine.compiled.program.calls] for routine in (first, again))
    assert before[0] != now[0]
    assert before[1:] == now[1:]


def test_a_crash_on_plain_loops_as_well_is_an_error(breaking: Compilers) -> None:
    ctx, made = breaking(ANY), program()
    with pytest.raises(wf.WeftError) as caught:
        compiled(ctx, made)
    assert caught.value.what == ENDS[CRASHES]
    assert caught.value.notes[1].startswith("the source is kept at ")
    assert "check WEFT_CC" in caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_a_mistake_in_a_text_stays_one(breaking: Compilers) -> None:
    ctx = breaking(IN_TILES, "echo 'weft.c:9: error: no such thing' >&2; exit 1")
    with pytest.raises(wf.WeftError, match=r"the C compiler failed: weft\.c:9: error: no such thing"):
        compiled(ctx, program())


def test_tuning_begins_at_plain_loops(breaking: Compilers) -> None:
    """Schedules that the compiler breaks down on are refused like others that fail."""
    ctx = breaking(IN_TILES)
    product = wf.einsum("ij; jk => ik", numbers(33, 65), numbers(65, 48))
    with pytest.warns(wf.WeftWarning, match="breaks down"):
        routine = ctx.compile(product.forward, keep=[product], options=OPTIONS.but(tuned=""))
    with pytest.warns(wf.WeftWarning, match="breaks down"):
        report = routine.tune(seconds=0.2, show=False)
    assert "it fails: the C compiler was killed by signal 11 (SIGSEGV)" in str(report)
    check(ctx, routine, [product])


def test_on_a_gpu_many_threads_run_what_the_compiler_breaks_down_on() -> None:
    a, b = numbers(70, 40), numbers(40, 50)
    y = wf.tanh(wf.einsum("ij; jk => ik", a, b)).named("y")
    context = wf.Context(CrashingOnBlocks())
    with pytest.warns(wf.WeftWarning, match="Triton breaks down on a kernel, which runs in plain loops instead"):
        routine = context.compile(y.forward, keep=[y])
    assert all(map(is_on_gpu, routine.kernels))
    assert "on simt threads" in routine.show("kernels")
    routine()
    wanted = np.tanh(np.asarray(a, "float64") @ np.asarray(b, "float64"))
    np.testing.assert_allclose(context[y], wanted, atol=1e-5)
