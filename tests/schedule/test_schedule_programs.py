"""A dozen programs at every stage: how they print, what they compute, how often they pass over memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from math import prod

import numpy as np
import pytest

import weft as wf
from schedule.programs import PROGRAMS, Sample
from weft.loops import Buffer, For, If, Program, Remark, Stmt, show
from weft.loops.walk import accesses
from weft.runtime import Routine

EVERY = pytest.mark.parametrize("name", PROGRAMS)


@pytest.fixture(autouse=True)
def same_numbers(shared_cache: None) -> None:
    wf.seed(1)


def compiled(sample: Sample, backend: str = "cc") -> tuple[wf.Context, Routine]:
    ctx = wf.Context(backend)
    return ctx, ctx.compile(sample.code, keep=sample.keep)  # type: ignore[arg-type]


def stages(routine: Routine) -> Iterator[tuple[str, str]]:
    """The kernels before the first pass and after every pass that changes them."""
    before = ""
    for name, kernels in routine.trace():
        text = "\n\n".join(show(Program(one.body)) for one in kernels)
        if text != before:
            yield name, text
        before = text


@EVERY
def test_stages(name: str, golden: Callable[..., None]) -> None:
    _, routine = compiled(PROGRAMS[name]())
    text = "\n\n".join(f"== {title}\n{text}" for title, text in stages(routine))
    golden(f"{text}\n\n== verdicts\n{routine.show('virtual')}")


@EVERY
def test_optimised_is_what_the_oracle_computes(name: str) -> None:
    found = []
    for backend in ("interp", "cc"):
        wf.seed(1)
        sample = PROGRAMS[name]()
        ctx, routine = compiled(sample, backend)
        for _ in range(3):
            routine()
        found.append([ctx[tensor] for tensor in sample.keep])
    for ours, meant in zip(*found, strict=True):
        np.testing.assert_allclose(ours, meant, rtol=2e-5, atol=1e-6)


def test_a_chain_of_any_length_is_one_pass() -> None:
    _, routine = compiled(PROGRAMS["long_chain"]())
    (kernel,) = routine.kernels
    assert len(loops(kernel.body)) == 2
    assert not routine.memory().offsets


def test_functions_do_not_wait_for_one_another() -> None:
    """A chain of functions is computed a row at a time, each for the whole row; nothing but a row is stored."""
    _, routine = compiled(PROGRAMS["functions_in_a_row"]())
    (kernel,) = routine.kernels
    assert len(loops(kernel.body)) == 1 + 3
    assert sum(map(prod, (one.shape for one in routine.memory().offsets))) <= 2 * 70


@pytest.mark.parametrize("name", ["softmax_and_gradient", "layer_norm_and_gradient"])
def test_rows_are_passed_over_once(name: str) -> None:
    """What is computed row by row, forward, backward and updated, is computed in one loop over rows."""
    sample = PROGRAMS[name]()
    _, routine = compiled(sample)
    w = routine.buffer(sample.keep[1])
    touching = [one for one in routine.kernels if w in {a.buffer for a in accesses(one.body)}]
    assert len(touching) == 1
    assert sum(isinstance(stmt, For) for stmt in touching[0].body) == 1


@pytest.mark.parametrize("name", ["mlp", "adam", "softmax_and_gradient"])
def test_an_update_touches_each_parameter_once(name: str) -> None:
    sample = PROGRAMS[name]()
    _, routine = compiled(sample)
    for param in sample.keep[1:]:
        buffer = routine.buffer(param)
        writes = [kernel for kernel in routine.kernels if _writes(kernel.body, buffer)]
        assert len(writes) == 1, param.label
        assert sum(one.buffer == buffer and one.writes for one in accesses(writes[0].body)) == 1


def test_sums_of_the_same_data_run_in_one_loop() -> None:
    _, routine = compiled(PROGRAMS["moments"]())
    (kernel,) = routine.kernels
    assert len(loops(kernel.body)) == 2


def test_an_embedding_never_makes_a_one_hot() -> None:
    _, routine = compiled(PROGRAMS["embedding"]())
    text = routine.show("kernels")
    assert "eq(" not in text
    assert "if 0 <= v_at < 9:" in text


def _writes(body: tuple[Stmt, ...], buffer: Buffer) -> bool:
    return any(one.buffer == buffer and one.writes for one in accesses(body))


def loops(body: tuple[Stmt, ...]) -> list[str]:
    found = []
    for stmt in body:
        if isinstance(stmt, For):
            found += [stmt.loop, *loops(stmt.body)]
        elif isinstance(stmt, If | Remark):
            found += loops(stmt.body)
    return found
