"""The pipeline as a whole: its list, what stands between two passes, and who is to blame."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from backends.interpreted import Fusing, OnProcessor
from backends.on_grid import OnGrid
from weft.affine import Affine
from weft.backends import Backend, Executable
from weft.loops import Annotation, Cast, For, Stmt, Store
from weft.loops.walk import bottom_up, everything
from weft.ops import Call, Num
from weft.runtime import Routine, build
from weft.schedule import (
    GPU_PASSES,
    PASSES,
    UNOPTIMISED,
    BrokenPass,
    Kernel,
    Task,
    pipeline,
    schedule,
    show_kernels,
    stages,
)
from weft.schedule.gpu import gpu_pipeline
from weft.schedule.stage import Pass, Stage

X = np.linspace(-1, 1, 12, dtype=np.float32).reshape(3, 4)


TESTS = Path(__file__).parents[1]
GOLDEN = TESTS / "golden" / "schedule" / "test_schedule_before_after"
README = TESTS.parent / "src" / "weft" / "schedule" / "README.md"


def compiled(backend: wf.Context | None = None) -> Routine:
    """A layer and a softmax: products, sums, virtual buffers, several kernels."""
    ctx = backend or wf.Context(Fusing())
    h = wf.tanh(wf.param("w", o=5) @ wf.data(X, batch=1))
    e = wf.exp(h)
    y = (e / wf.einsum("...|o => ...|0", e)).named("y")
    return ctx.compile(y.forward, keep=[y])


@pytest.mark.parametrize("passes", [PASSES, GPU_PASSES], ids=["processor", "GPU"])
def test_every_pass_says_what_it_does_and_shows_it(passes: Sequence[Pass]) -> None:
    assert len({one.name for one in passes}) == len(passes)
    for one in passes:
        first, *rest = (one.run.__doc__ or "").strip().splitlines()
        assert first.endswith("."), one.name
        assert "becomes" in "".join(rest), f"{one.name}: before and after"


@pytest.mark.parametrize("name", sorted({one.name for one in (*PASSES, *GPU_PASSES)}))
def test_every_pass_is_in_the_tables_and_has_a_test_file_of_its_own(name: str) -> None:
    """The room's README says where each pass is; one of those modules is tried in a file that bears its name."""
    rows = [line.split(" | ") for line in README.read_text(encoding="utf-8").splitlines() if line.startswith("| ")]
    where = [row[-1] for row in rows if name in row[0].removeprefix("| ").split(", ")]
    assert where, f"the README of schedule does not tell where `{name}` is"
    modules = [one.rpartition("/")[2] for text in where for one in re.findall(r"([\w/]+)\.py", text)]
    files = [file for one in modules for file in TESTS.rglob(f"test_*_{one}.py")]
    assert files, f"there is no test file of {' or '.join(modules)}"
    shown = [*GOLDEN.glob(f"{name}.txt"), *GOLDEN.glob(f"gpu_{name}.txt")]
    written = any("in range(" in file.read_text(encoding="utf-8") for file in files)
    assert shown or written, f"nothing shows a program in the loop language before and after `{name}`"


@pytest.mark.parametrize("name", sorted({one.name for one in (*PASSES, *GPU_PASSES)}))
def test_every_pass_is_in_the_glossary(name: str) -> None:
    glossary = (TESTS.parent / "docs" / "architecture.md").read_text(encoding="utf-8").partition("## Words")[2]
    assert f"`{name}`" in glossary


def test_any_pass_can_be_shown() -> None:
    routine = compiled()
    texts = {one.name: routine.show(one.name) for one in PASSES}
    assert texts["plan_memory"] == routine.show("kernels")
    assert texts["order_loops"].count("kernel ") > texts["fuse"].count("kernel ")
    assert "y[" in texts["inline"]
    assert routine.show("decide_inlining") == routine.show("rematerialise")  # it decides, and changes nothing
    with pytest.raises(wf.WeftError, match="there is no stage 'fusion'") as caught:
        routine.show("fusion")
    assert caught.value.fix is not None
    assert '"fuse"' in caught.value.fix


def test_remarks_of_a_kernel_are_in_the_order_of_the_program() -> None:
    """What is inlined into a sum stands before it, though the sum's cells are cleared first."""
    x = wf.data(X, label="x")
    y = wf.einsum("i,j => i", (x * 2.0).named("twice"), label="y")
    routine = wf.Context(Fusing()).compile(y.forward, keep=[y])
    lines = [line for line in routine.show("kernels").splitlines() if line.startswith("# ")]
    assert lines == ["# twice =: x *. 2.0", '# y =:+ twice ~logic:"i,j => i"']


def test_what_is_not_optimised_goes_through_few_passes() -> None:
    with wf.config.using(optimise=False):
        routine = compiled()
    assert routine.show("fuse") == "`fuse` was not run: the program is not optimised"
    assert routine.show("vectorise") == routine.show("kernels")
    assert routine.show("kernels").count("kernel ") == len(routine.show("assign").splitlines())
    names = [one.name for one in UNOPTIMISED]
    assert [name for name in routine.timings().seconds if name in names] == names
    assert routine.bisect() is None


def test_a_broken_pass_is_found_where_nothing_is_optimised(monkeypatch: pytest.MonkeyPatch) -> None:
    real = pipeline.widened
    monkeypatch.setattr(pipeline, "widened", lambda body, terms: tuple(map(first_cell, real(body, terms))))
    with wf.config.using(optimise=False):
        found = compiled().bisect()
    assert found is not None
    assert (found.done, found.buffer) == ("widen_sums", "y")


@pytest.mark.parametrize("optimise", [True, False])
def test_a_broken_pass_of_a_gpu_is_found(monkeypatch: pytest.MonkeyPatch, optimise: bool) -> None:
    real = gpu_pipeline.launches
    monkeypatch.setattr(gpu_pipeline, "launches", lambda body: [tuple(map(first_cell, one)) for one in real(body)])
    with wf.config.using(optimise=optimise):
        found = compiled(wf.Context(OnGrid())).bisect()
    assert found is not None
    assert (found.done, found.buffer) == ("cut_launches", "y")


def test_the_oracle_shows_the_kernels_that_it_runs() -> None:
    routine = compiled(wf.Context("interp"))
    assert "kernel 0\n" in routine.show("kernels")
    assert routine.show("vectorise") == "`vectorise` was not run: the program is not optimised"


def test_passes_are_timed_by_name() -> None:
    seconds = compiled().timings().seconds
    assert [one.name for one in PASSES] == [name for name in seconds if name in {one.name for one in PASSES}]


def outside(body: Sequence[Stmt]) -> tuple[Stmt, ...]:
    """A block with every loop one point too long."""
    return tuple(replace(one, size=one.size + 1) if isinstance(one, For) else one for one in body)


def broken(change: Callable[[Kernel], Kernel], real: Callable[..., list[Kernel]]) -> Callable[..., list[Kernel]]:
    return lambda kernels, *rest: [change(one) for one in real(kernels, *rest)]


def test_a_pass_that_leaves_a_malformed_program_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    def change(kernel: Kernel) -> Kernel:
        return kernel.with_body(outside(kernel.body))

    monkeypatch.setattr(pipeline, "forwarded", broken(change, pipeline.forwarded))
    with pytest.raises(BrokenPass, match="the pass `forward_stores` left a program that is not well formed"):
        compiled()


def first_cell(stmt: Stmt) -> Stmt:
    """A statement that writes the first cell of `y` wherever it should write another."""
    if isinstance(stmt, Store) and stmt.buffer.name == "y":
        return replace(stmt, at=(Affine(()),) * len(stmt.at))
    if isinstance(stmt, For):
        return replace(stmt, body=tuple(map(first_cell, stmt.body)))
    return stmt


@pytest.mark.parametrize(
    ("function", "name"), [("fused", "fuse"), ("forwarded", "forward_stores"), ("folded", "fold_storage")]
)
def test_a_pass_that_changes_the_meaning_is_found(monkeypatch: pytest.MonkeyPatch, function: str, name: str) -> None:
    def change(kernel: Kernel) -> Kernel:
        return kernel.with_body(tuple(map(first_cell, kernel.body)))

    assert compiled().bisect() is None
    monkeypatch.setattr(pipeline, function, broken(change, getattr(pipeline, function)))
    found = compiled().bisect()
    assert found is not None
    assert (found.done, found.buffer) == (name, "y")
    assert str(found).startswith(f"after `{name}` `y` is off by ")


def off_by_one(stage: Stage) -> Stage:
    """A stage that stores a number too large in `y`, whatever has become of its loops."""

    def rule(stmt: Stmt) -> tuple[Stmt, ...]:
        if isinstance(stmt, Store) and stmt.buffer.name == "y":
            return (replace(stmt, value=Call("add", (stmt.value, Cast(stmt.buffer.dtype, Num(1))))),)
        return (stmt,)

    return replace(stage, formed=tuple(one.with_body(bottom_up(one.body, rule)) for one in stage.kernels))


@pytest.mark.parametrize(
    ("backend", "name"),
    [
        *(pytest.param(OnProcessor(), one.name, id=f"processor-{one.name}") for one in PASSES),
        *(pytest.param(OnGrid(), one.name, id=f"GPU-{one.name}") for one in GPU_PASSES),
    ],
)
def test_whichever_pass_is_broken_is_found(monkeypatch: pytest.MonkeyPatch, backend: Backend, name: str) -> None:
    routine = compiled(wf.Context(backend))
    real = build.passes_for

    def broken_one(task: Task, *, optimising: bool = True) -> tuple[Pass, ...]:
        return tuple(
            replace(one, run=lambda stage, task, run=one.run: off_by_one(run(stage, task))) if one.name == name else one
            for one in real(task, optimising=optimising)
        )

    monkeypatch.setattr(build, "passes_for", broken_one)
    found = routine.bisect()
    assert found is not None
    assert (found.done, found.buffer) == (name, "y")


class Forgetful(Fusing):
    """Compiles all kernels but the last."""

    def compile(self, kernels: Sequence[Kernel]) -> Executable:
        return super().compile(kernels[:-1])


def test_a_backend_that_compiles_something_else_is_found() -> None:
    found = compiled(wf.Context(Forgetful())).bisect()
    assert found is not None
    assert found.done == "compile"


def test_what_is_shown_is_what_the_backend_gets() -> None:
    seen: list[Sequence[Kernel]] = []

    class Seeing(Fusing):
        def compile(self, kernels: Sequence[Kernel]) -> Executable:
            seen.append(kernels)
            return super().compile(kernels)

    routine = compiled(wf.Context(Seeing()))
    assert routine.show("kernels") == show_kernels(seen[-1])


def test_loops_run_on_vectors_where_nothing_is_optimised() -> None:
    """Every assignment is a kernel of its own, but how its loops run is decided."""
    x = wf.data(np.linspace(0, 1, 64 * 40, dtype="float32").reshape(64, 40), label="x")
    total = wf.einsum("ij => j", wf.exp(x))
    with wf.config.using(optimise=False):
        ctx = wf.Context("cc")
        routine = ctx.compile(total.forward, keep=[total])
    shown = [str(one) for kernel in routine.kernels for loop in everything(kernel.body) for one in how_of(loop)]
    assert {"collapsed by 2", "on vectors", "on vectors of 8"} == set(shown)
    routine()
    np.testing.assert_allclose(ctx[total], wf.Context("interp")[total], rtol=1e-6)


def how_of(stmt: Stmt) -> tuple[Annotation, ...]:
    return stmt.how if isinstance(stmt, For) else ()


def test_stages_are_plain_values() -> None:
    """Every stage, what is asked of it and what comes of it are equal and hash alike where programs do."""
    program = compiled().loops
    task, other = Task(kept={}), Task(kept={})
    assert hash(task) == hash(other)
    for (name, one), (_, two) in zip(stages(program, task), stages(program, other), strict=True):
        assert one == two, name
        assert hash(one) == hash(two), name
    assert len({schedule(program, task), schedule(program, other)}) == 1
