"""Routines found again: the same numbers without lowering or compiling, and nothing else is taken for them."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings

import weft as wf
from effort import tries
from schedule.programs import PROGRAMS, Sample
from tensor.differences import total
from tensor.models import Model, models
from weft.assign import Adjoint, Fingerprint, complete
from weft.runtime import routine_cache
from weft.runtime.routine import Routine

EVERY = pytest.mark.parametrize("name", PROGRAMS)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path


def compiled(sample: Sample) -> tuple[wf.Context, Routine]:
    ctx = wf.Context("cc")
    return ctx, ctx.compile(sample.code, keep=sample.keep)  # type: ignore[arg-type]


def is_recalled(routine: Routine) -> bool:
    return "loops" not in routine.timings().seconds


def values(ctx: wf.Context, routine: Routine) -> list[np.ndarray]:
    routine()
    routine()
    memory = ctx.devices[0]._state.memory
    return [memory.blocks[buffer].copy() for buffer in routine.compiled.kept]


@EVERY
def test_what_is_recalled_computes_the_same(name: str) -> None:
    found = []
    for again in (False, True):
        wf.seed(1)
        ctx, routine = compiled(PROGRAMS[name]())
        assert is_recalled(routine) == again
        found.append(values(ctx, routine))
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)


@EVERY
def test_what_is_recalled_shows_all_its_stages(name: str) -> None:
    texts = []
    for again in (False, True):
        wf.seed(1)
        _, routine = compiled(PROGRAMS[name]())
        assert is_recalled(routine) == again
        stages = ("assign", "loops", "virtual", "kernels", "precisions", "source")
        texts.append([*map(routine.show, stages), str(routine.memory()), str(routine.cost())])
    assert texts[0] == texts[1]


def test_what_is_recalled_can_be_profiled() -> None:
    for _ in range(2):
        wf.seed(1)
        _, routine = compiled(PROGRAMS["attention"]())
        assert len(routine.profile(times=1).kernels) == len(routine.cost().kernels)


@settings(max_examples=tries(6), suppress_health_check=list(HealthCheck))
@given(models())
def test_random_models(sample: tuple[Model, wf.Tensor]) -> None:
    model, tensor = sample
    loss = total(tensor)
    code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.01, momentum=0.9))
    bound = {index.name: at for index, at in model.bound.items()}
    found = []
    for again in (False, True):
        ctx = wf.Context("cc")
        routine = ctx.compile(code, bindings=list(model.bound))
        assert is_recalled(routine) or not again
        routine(**bound)
        found.append([ctx[param] for param in loss.params])
    for first, second in zip(*found, strict=True):
        np.testing.assert_array_equal(first, second)


# What is taken for the same code


def dense(
    label: str = "x", size: int = 3, dtype: str = "float32", by: float = 2.0, spec: str = "b|i=>b|i"
) -> wf.Tensor:
    x = wf.data(np.ones((2, size), dtype), batch=1, label=label)
    return wf.einsum(spec, wf.tanh(x * by), label=f"of {label}")


def fingerprint(tensor: wf.Tensor) -> list[str]:
    return Fingerprint.of(complete(tensor.forward)).lines


def test_names_make_no_difference() -> None:
    assert fingerprint(dense("x")) == fingerprint(dense("y"))


@pytest.mark.parametrize(
    "other",
    [
        lambda: dense(size=4),
        lambda: dense(dtype="float64"),
        lambda: dense(by=3.0),
        lambda: dense(by=2),
        lambda: dense(spec="b|i=>i|b"),
        lambda: dense() + dense(),
        lambda: dense() + 1.0,
        lambda: wf.einsum("bi=>b|i", wf.tanh(wf.data(np.ones((2, 3), "float32"), label="x") * 2.0)),
    ],
)
def test_all_else_does(other: Callable[[], wf.Tensor]) -> None:
    assert fingerprint(dense()) != fingerprint(other())


def test_which_operand_is_which_makes_a_difference() -> None:
    def code(swap: bool) -> list[str]:
        x, y = (wf.data(np.ones(3), label=name) for name in "xy")
        return fingerprint(wf.where(x < y, y, x) if swap else wf.where(x < y, x, y))

    assert code(False) != code(True)


def summed(accum: str = "+", op: str = "*") -> list[str]:
    x, y = (wf.data(np.ones((3, 3)), label=name) for name in "xy")
    return fingerprint(wf.einsum("ij;jk=>ik", x, y, accum=accum, op=op))


def test_what_is_done_at_a_point_and_between_points_makes_a_difference() -> None:
    every = [summed(), summed(accum="max"), summed(accum="min"), summed(op="+"), summed(accum="max", op="+")]
    assert len(set(map(tuple, every))) == len(every)


def test_whether_a_tensor_starts_anew_makes_a_difference() -> None:
    x, kept = wf.data(np.ones(3), label="x"), wf.data(np.zeros(3), label="kept")

    @wf.cd
    def anew() -> None:
        kept[:] = wf.einsum("i=>i", x)

    @wf.cd
    def more() -> None:
        nonlocal kept
        kept += wf.einsum("i=>i", x)

    assert Fingerprint.of(anew()).lines != Fingerprint.of(more()).lines


def test_which_slots_a_gradient_reads_makes_a_difference() -> None:
    """Gradients by the one and by the other factor of square matrices differ in nothing else."""

    def gradient(left: bool) -> list[str]:
        given, learned = wf.data(np.ones((3, 3)), label="given"), wf.param("w", o=(3, 3), init=1.0, dtype="float64")
        one, other = (learned, given) if left else (given, learned)
        product = wf.einsum("ij;jk=>ik", one, other)
        assert product.pullback is not None
        into = [learned.grad.node if child is learned else None for child in product.children]
        adjoint = Adjoint(product.node, product.grad.node, [one.operand, other.operand], into)
        return Fingerprint.of(product.pullback(product, adjoint)).lines

    assert gradient(left=True) != gradient(left=False)


def test_what_is_wanted_makes_a_difference() -> None:
    def routine(**wanted: object) -> Routine:
        x = wf.data(np.ones((2, 3)), label="x")
        h = wf.exp(x).named("h")
        y = wf.einsum("ij=>i", h) * 2.0
        keep = [h] if wanted.get("keep") else []
        again = [h] if wanted.get("recompute") else []
        return wf.Context("cc").compile(y.forward, keep=keep, recompute=again)

    assert not is_recalled(routine())
    assert not is_recalled(routine(keep=True))
    assert not is_recalled(routine(recompute=True))
    with wf.config.using(fast_math=True):
        assert not is_recalled(routine())
    assert is_recalled(routine())
    assert is_recalled(routine(keep=True))


def test_the_size_of_a_static_index_makes_a_difference() -> None:
    x = wf.data(np.arange(12.0).reshape(4, 3), batch=1)
    for name, recalled in [("i", False), ("j", False), ("i", True)]:
        index = wf.index(name, 4)
        row = x[index] * 2.0
        ctx = wf.Context("cc")
        routine = ctx.compile(row.forward, bindings=[index])
        assert is_recalled(routine) == recalled
        routine(**{name: 2})
        np.testing.assert_array_equal(ctx[row], [12.0, 14.0, 16.0])


# What is gone or damaged


@pytest.mark.parametrize("lost", ["routines", "cc"])
@pytest.mark.parametrize("damage", ["gone", "cut short"])
def test_what_was_lost_is_made_again(lost: str, damage: str, own_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from weft.backends.cc import loader

    for _ in range(2):
        ctx = wf.Context("cc")
        x = wf.tensor([1.0, 2.0])
        np.testing.assert_array_equal(ctx[x * 5.0 + 1.0], [6.0, 11.0])
        monkeypatch.setattr(loader, "_known", {})
        monkeypatch.setattr("weft.backends.cc.build._loaded", {})
        files = list((own_cache / lost).iterdir())
        assert files
        for file in files:
            content = file.read_bytes()
            file.unlink()
            if damage == "cut short":
                file.write_bytes(content[:-1])


def test_a_weft_that_works_otherwise_recalls_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    def routine() -> Routine:
        return wf.Context("cc").compile((wf.tensor([1.0, 2.0]) * 7.0).forward)

    assert not is_recalled(routine())
    assert is_recalled(routine())
    monkeypatch.setattr(routine_cache, "own_identity", lambda: "another")
    assert not is_recalled(routine())


def test_settings_are_those_of_the_moment(monkeypatch: pytest.MonkeyPatch) -> None:
    """Stages that are made later are made as they were."""
    texts = []
    for _ in range(2):
        routine = wf.Context("cc").compile((wf.tensor([1.0, 2.0]) * 7.0 + 1.0).forward)
        with wf.config.using(optimise=False):
            texts.append(routine.show("kernels"))
    assert texts[0] == texts[1]


def test_interpreted_routines_are_not_kept(own_cache: Path) -> None:
    wf.Context("interp").compile((wf.tensor([1.0]) * 2.0).forward)
    with wf.config.using(optimise=False):
        wf.Context("cc").compile((wf.tensor([1.0]) * 2.0).forward)
    assert not (own_cache / "routines").exists()


def test_a_changed_file_makes_another_weft(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even if it is as long as before and says that it is as old."""
    from weft import cache

    package = tmp_path / "weft"
    package.mkdir()
    file = package / "rules.py"
    monkeypatch.setattr(cache, "__file__", str(package / "cache.py"))
    found = []
    for text in ("one = 1", "one = 2"):
        file.unlink(missing_ok=True)
        file.write_text(text)
        os.utime(file, (0, 0))
        found.append(cache.own_identity.__wrapped__())
    assert found[0] != found[1] == cache.own_identity.__wrapped__()
