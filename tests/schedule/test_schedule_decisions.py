"""How loops run, as a value: what passes decide can be read off, printed, read back and decided again."""

from __future__ import annotations

import random
import re
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import weft as wf
from loops.written import program, text
from runtime.timed import Timed, subjects_of
from schedule.programs import PROGRAMS, numbers, total, trained
from weft.loops import Buffer, Collapse, MalformedLoops, Parallel, Product, Program, Role, Staged, Vector, buffers_of
from weft.loops.effects import effects
from weft.loops.interp import run
from weft.ops.dtypes import numpy_type
from weft.runtime import Routine
from weft.schedule import Kernel
from weft.schedule.apply_decisions import kernel_key, with_decisions
from weft.schedule.canonical import systematic
from weft.schedule.decisions import Decisions, decisions_of, read_decisions
from weft.schedule.products.tile import tilings
from weft.schedule.tuning.search import Search
from weft.schedule.tuning.subjects import Subject

OPTIONS = wf.CompileOptions(machine=replace(wf.Machine(), cores=4), chunk_ns=20, contraction_points=64)


def products() -> Any:
    hidden = wf.tanh(wf.param("w1", o=16) @ numbers(6, 20, batch=1))
    return trained(total(wf.param("w2", o=5) @ hidden))


def compiled(name: str) -> Routine:
    sample = products() if name == "products" else PROGRAMS[name]()
    ctx = wf.Context(Timed(lambda kernel: 1.0))
    return ctx.compile(sample.code, keep=sample.keep, options=OPTIONS)  # type: ignore[arg-type]


def left(kernel: Kernel, own: Any) -> dict[Any, np.ndarray]:
    """What a kernel leaves behind, but for what is its own."""
    rng, memory = np.random.default_rng(0), dict[Buffer, np.ndarray]()
    whose = {one: one.of if one.role is Role.PRIVATE else one for one in buffers_of(Program(kernel.body))}
    for one, shared in sorted(whose.items(), key=lambda item: (item[0].id, item[0].name)):
        assert shared is not None
        memory[one] = rng.uniform(0.2, 1.5, shared.shape).astype(numpy_type(shared.dtype))
    run(Program(kernel.body), memory, {})
    return {one: memory[one] for one in effects(kernel.body).buffers if one not in own and one.role is not Role.PRIVATE}


def check_subject(subject: Subject, now: Kernel, rng: random.Random) -> None:
    """What weft decides is what is decided, and candidates that differ compute the same."""
    rules = subject.rules
    assert read_decisions(rules.texts) == rules
    assert systematic(subject.made(rules).body).body == systematic(now.body).body, "as the passes leave it"
    search = Search(subject.knobs, lambda one: _legal(subject, one), [rules], rng.randrange(100))
    meant = left(subject.kernel, subject.own)
    for candidate in search.candidates(2):
        assert read_decisions(candidate.texts) == candidate
        kernel = subject.made(candidate)
        assert decisions_of(systematic(kernel.body).body).kinds == candidate.kinds
        assert kernel_key(subject.kernel) == subject.key
        for one, array in left(kernel, subject.own).items():
            np.testing.assert_allclose(array, meant[one], rtol=1e-5, atol=1e-6, err_msg=str(candidate))


def _legal(subject: Subject, chosen: Decisions) -> bool:
    try:
        return bool(subject.made(chosen).body)
    except MalformedLoops:
        return False


@pytest.mark.parametrize(
    "name",
    ["products", "layer_norm_and_gradient", "convolution", "functions_in_a_row", "max_pooling", "recurrent_step"],
)
def test_what_is_decided_is_what_runs(name: str) -> None:
    routine, rng = compiled(name), random.Random(3)
    for subject in subjects_of(routine):
        check_subject(subject, routine.kernels[subject.positions[0]], rng)


def test_equal_layers_are_one_subject() -> None:
    x = numbers(8, 16, batch=1)
    for layer in range(4):
        x = wf.tanh(wf.param(f"w{layer}", o=16, i=16) @ x)
    ctx = wf.Context(Timed(lambda kernel: 1.0))
    routine = ctx.compile(x.forward, keep=[x], options=OPTIONS)
    assert [len(one.positions) for one in subjects_of(routine)] == [4]


TEXT = """
x: float32[8, 64]
y: float32[8, 64]
s: float32[8]
for a in range(8):
    for b in range(64):
        y[a, b] = x[a, b] * 2
for a in range(8):
    for b in range(64):
        s[a] += x[a, b]
for a in range(7):
    for b in range(32):
        y[a + 1, b] = y[a, b + 1] * 2
"""


def decide(texts: dict[str, str]) -> Kernel:
    return with_decisions(Kernel((), program(TEXT).body), read_decisions(texts), OPTIONS)


def test_loops_of_one_name_are_told_apart() -> None:
    found = decide({"i0": "collapsed by 2, on threads by 2, on vectors", "i3": "on vectors of 4"})
    how = [one.how for one in (found.body[0], found.body[1].body[1])]  # type: ignore[union-attr]
    assert how == [(Collapse(2), Parallel(2), Vector(0)), (Vector(4),)]


def test_nests_are_cut_into_tiles_and_reordered() -> None:
    """What accumulates does so in the order it had."""
    found = decide(
        {"i0": "cut by 4", "i1": "cut by 16, on vectors", "t0": "on threads by 1", "i2": "cut by 2", "order": "i3 i2"}
    )
    assert (
        text(found.body[:2]).strip()
        == """\
for t0 in range(2) on threads by 1:
    for t1 in range(4):
        for a in range(4):
            for b in range(16) on vectors:
                y[4*t0 + a, 16*t1 + b] = x[4*t0 + a, 16*t1 + b] * 2
for t2 in range(4):
    for b_2 in range(64):
        for a_2 in range(2):
            s[2*t2 + a_2] += x[2*t2 + a_2, b_2]"""
    )
    assert decisions_of(systematic(found.body).body).kinds == {Parallel, Vector}


@pytest.mark.parametrize(
    ("texts", "problem"),
    [
        ({"i9": "on vectors"}, "it has no loop `i9`, or it is a product's"),
        (
            {"n0": "product of left i0; right i1; sums i2 in tiles of 8 rows by 2 vectors of 16, then along columns"},
            "it has no product `n0`",
        ),
        ({"i2": "on vectors"}, "it holds other loops"),
        ({"i3": "on threads by 4"}, "iterations share cells of `s`"),
        ({"i0": "on threads by 4", "i1": "on threads by 4"}, "threads share what is inside of what they share"),
        ({"i1": "on vectors, unrolled by 4"}, "exclude each other"),
        ({"i1": "cut by 7"}, "loop `i1` of 64 iterations has no tiles of 7"),
        ({"i1": "cut by 64"}, "loop `i1` of 64 iterations has no tiles of 64"),
        ({"t1": "on threads by 1"}, "it has no loop `t1`"),
        ({"order": "i1 i9"}, "it has no loop `i9`, or it is a product's"),
        ({"order": "i1"}, "i1 are not the loops i0 i1"),
        ({"order": "i1 i2"}, "i1 are not the loops i0 i1"),
        ({"order": "i5 i4"}, "the order of i4 i5 is not free"),
        ({"i5": "cut by 8"}, "the order of i4 t5 i5 is not free"),
    ],
)
def test_what_is_not_legal_is_refused(texts: dict[str, str], problem: str) -> None:
    with pytest.raises(MalformedLoops, match=problem):
        decide(texts)


PRODUCT = """
x: float32[4, 100]
w: float32[100, 32]
y: float32[4, 32]
product of left a; right b; sums c:
    for a in range(4):
        for b in range(32):
            t: float32 = 0
            for c in range(100):
                t = t + x[a, c] * w[c, b]
            y[a, b] = t
"""


def test_products_run_as_decided_and_are_rounded_as_promised() -> None:
    kernel = Kernel((), program(PRODUCT).body)
    (staged,) = systematic(kernel.body).body
    assert isinstance(staged, Staged)
    tile = next(one.what.tile for one in tilings(staged, OPTIONS) if one.what.tile and not one.what.tile.panel)
    (most,) = tile.parts
    shape = f"in tiles of 4 rows by 2 vectors of 16, parts of {most}"
    said = f"product of left i0; right i1; sums i2 {shape}, then along columns"
    found = with_decisions(kernel, read_decisions({"n0": said}), OPTIONS)
    assert f"left a; right b; sums c {shape}" in text(found.body)
    loops = with_decisions(kernel, read_decisions({"i1": "on threads by 8"}), OPTIONS)
    assert text(loops.body).strip().startswith("for a in range(4):\n    for b in range(32) on threads by 8:")
    for wrong, problem in {
        said.replace(f", parts of {most}", ""): "rounded more often than is promised",
        said.replace("left i0; right i1", "left i1; right i0"): "its vectors do not lie along `i0`",
        said.replace("sums i2", "sums i1"): "is none of its products",
        said.replace("4 rows by 2", "4 rows by 60"): "more than 64",
    }.items():
        with pytest.raises(MalformedLoops, match=problem):
            with_decisions(kernel, read_decisions({"n0": wrong}), OPTIONS)
    with pytest.raises(MalformedLoops, match="it has no loop `i2`, or it is a product's"):
        with_decisions(kernel, read_decisions({"n0": said, "i2": "on vectors"}), OPTIONS)


EVIL = '2\n#pragma GCC unroll 2\nsystem("touch injected");'


@pytest.mark.parametrize(
    "texts",
    [
        {"i0": EVIL},
        {"i0": f"unrolled by {EVIL}"},
        {"i0": "unrolled by 100000"},
        {"i0": "unrolled by -1"},
        {"i0": "on vectors of 65"},
        {"i0": "on threads by 0"},
        {"i0": ""},
        {"i0": "cut by 0x10"},
        {"i0": "cut by 8, cut by 4"},
        {"order": "i0, i1"},
        {"i0": "on vectors of ٣"},
        {EVIL: "on vectors"},
        {"n0": "product of left i0"},
        {"n0": f"product of left {EVIL} in tiles of 8 rows by 2 vectors of 16, then along columns"},
    ],
)
def test_what_does_not_say_how_loops_run_is_not_read(texts: dict[str, str]) -> None:
    with pytest.raises(ValueError, match=r"does not say|out of range|is no loop"):
        read_decisions(texts)


def test_what_is_decided_prints() -> None:
    routine = compiled("products")
    found = [one.rules for one in subjects_of(routine)]
    assert str(Decisions()) == "as it is written"
    assert any(re.search(r"n\d product of left i0; right i1; sums i2 in tiles of ", str(one)) for one in found), found
    assert any(Product in one.kinds for one in found)
