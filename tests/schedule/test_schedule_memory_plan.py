"""The memory plan: what is alive keeps its bytes, and any garbage in the arena will do."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import accumulate

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from schedule.kernels import (
    Sample,
    add,
    at,
    buffers_in,
    floats,
    inside,
    loop,
    model_samples,
    plus,
    read,
    scheduled,
    store,
)
from weft.loops import Buffer, Fill, If, Inside, Let, Local, Program, Role, Stmt
from weft.loops.interp import run_scalar
from weft.loops.nodes import Cast
from weft.loops.reaching_writes import sites
from weft.ops import Call
from weft.ops.dtypes import numpy_type
from weft.schedule import Kernel
from weft.schedule.memory.fold_storage import folded
from weft.schedule.memory.in_place import coalesced, takes_over
from weft.schedule.memory.memory_plan import ALIGNMENT, MemoryPlan, planned

A, B, C, D = (floats(number, name, 4, 4) for number, name in enumerate("abcd"))
X, Y = floats(8, "x", 4, 4), floats(9, "y", 4, 4)


def copy(new: Buffer, old: Buffer) -> Kernel:
    """A kernel that reads one buffer and writes another, cell by cell."""
    return Kernel((), (loop("i", 4, loop("j", 4, store(new, at("i", "j"), read(old, "i", "j")))),))


def turned(new: Buffer, old: Buffer) -> Kernel:
    return Kernel((), (loop("i", 4, loop("j", 4, store(new, at("i", "j"), read(old, "j", "i")))),))


def views(plan: MemoryPlan, arena: np.ndarray) -> dict[Buffer, np.ndarray]:
    """The planned buffers as parts of an arena."""
    return {
        one: arena[offset : offset + one.bytes].view(numpy_type(one.dtype)).reshape(one.shape)
        for one, offset in plan.offsets.items()
    }


def check_apart(plan: MemoryPlan) -> None:
    """No two buffers alive at once overlap unless one takes over from the other."""
    chains = {one: _origin(one, plan.shares) for one in plan.offsets}
    for one, offset in plan.offsets.items():
        assert offset % ALIGNMENT == 0
        assert 0 <= offset <= plan.size - one.bytes
        for other, there in plan.offsets.items():
            alive = plan.lives[one][0] <= plan.lives[other][1] and plan.lives[other][0] <= plan.lives[one][1]
            overlap = offset < there + other.bytes and there < offset + one.bytes
            assert one == other or not (alive and overlap) or chains[one] == chains[other]
    assert plan.peak <= plan.size <= plan.separate


def _sharing(buffer: Buffer, plan: MemoryPlan) -> list[Buffer]:
    """Those that lie where a buffer lies, at whatever time."""
    start, end = plan.offsets[buffer], plan.offsets[buffer] + buffer.bytes
    return [one for one, at in plan.offsets.items() if one != buffer and at < end and start < at + one.bytes]


def _origin(buffer: Buffer, shares: Mapping[Buffer, Buffer]) -> Buffer:
    while buffer in shares:
        buffer = shares[buffer]
    return buffer


# In place


def test_a_chain_of_copies_needs_one_buffer() -> None:
    kernels = [copy(A, X), copy(B, A), copy(C, B), copy(Y, C)]
    found = planned(kernels, [X, Y], in_place=True)
    assert (found.size, found.peak, found.separate) == (64, 64, 192)
    assert found.shares == {B: A, C: B}
    assert planned(kernels, [X, Y]).size == 128


def test_a_transpose_needs_two() -> None:
    found = planned([copy(A, X), turned(B, A), turned(C, B), copy(Y, C)], [X, Y], in_place=True)
    assert (found.size, found.peak, found.shares) == (128, 128, {})
    assert found.offsets[A] == found.offsets[C]


def test_who_takes_over_keeps_off_all_that_die_there() -> None:
    """b may follow a, and c may follow b, each by an axis in which they agree; but c would write what is read of a."""
    steps = [store(B, at("i", "i"), read(A, "i", "3-i")), store(C, at("3-i", "i"), read(B, "i", "i"))]
    out = Kernel((), (loop("i", 4, store(Y, at("i", "3-i"), read(C, "3-i", "i"))),))
    found = planned([copy(A, X), Kernel((), (loop("i", 4, *steps),)), out], [X, Y], in_place=True)
    assert found.shares == {B: A}


def rows(*stmts: Stmt) -> tuple[Stmt, ...]:
    return (loop("i", 4, *stmts),)


OLD, NEW = A, B
TAKEN: dict[str, tuple[Stmt, ...]] = {
    "a cell at a time": copy(NEW, OLD).body,
    "through a number": rows(
        loop("j", 4, Let(Local("t", "float32"), read(OLD, "i", "j")), store(NEW, at("i", "j"), Local("t", "float32")))
    ),
    "a row at a time": rows(
        loop("j", 4, add(X, at("i", 0), read(OLD, "i", "j"))), loop("j", 4, store(NEW, at("i", "j"), read(X, "i", 0)))
    ),
    "a row, then its cells": rows(
        loop("j", 4, add(X, at("i", 0), read(OLD, "i", "j"))),
        loop("k", 4, store(NEW, at("i", "k"), read(OLD, "i", "k"))),
        loop("j", 4, store(Y, at("i", "j"), read(NEW, "i", "j"))),
    ),
    "under a test of the old": rows(
        loop("j", 4, If((inside("j-1", 4),), (store(NEW, at("i", "j"), read(OLD, "i", "j")),)))
    ),
    "one after the other": (*copy(X, OLD).body, *copy(NEW, Y).body),
    "a row that a cell of it replaces": rows(store(NEW, at("i", 0), plus(read(OLD, "i", 0), read(OLD, "i", 1)))),
    "one turn": (loop("i", 1, store(NEW, at(0, 1), read(OLD, 0, 2))),),
}
NOT_TAKEN: dict[str, tuple[Stmt, ...]] = {
    "transposed": turned(NEW, OLD).body,
    "read again": (*copy(NEW, OLD).body, *copy(X, OLD).body),
    "read again in the row": rows(
        loop("j", 4, store(NEW, at("i", "j"), read(OLD, "i", "j"))),
        loop("k", 4, add(X, at("i", 0), read(OLD, "i", "k"))),
    ),
    "a neighbour": rows(loop("j", 3, store(NEW, at("i", "j+1"), read(OLD, "i", "j")))),
    "another row": (loop("i", 3, loop("j", 4, store(NEW, at("i+1", "j"), read(OLD, "i", "j")))),),
    "the whole row for each cell": rows(loop("j", 4, loop("k", 4, store(NEW, at("i", "j"), read(OLD, "i", "k"))))),
    "once more in another loop": (loop("o", 2, *copy(NEW, OLD).body),),
    "written after it is read": rows(loop("j", 4, store(OLD, at("i", "j"), read(NEW, "i", "j")))),
    "growing": rows(loop("j", 4, add(NEW, at("i", "j"), read(OLD, "i", "j")))),
    "filled in every turn": rows(loop("j", 4, store(X, at("i", "j"), read(OLD, "i", "j"))), Fill(NEW, 0)),
    "tested": rows(loop("j", 4, store(NEW, at("i", "j"), read(OLD, "i", 0)))),
}


@pytest.mark.parametrize("name", TAKEN)
def test_a_buffer_takes_over(name: str) -> None:
    found = sites(TAKEN[name])
    assert takes_over(found[NEW], found[OLD], private=False)


@pytest.mark.parametrize("name", NOT_TAKEN)
def test_a_buffer_does_not_take_over(name: str) -> None:
    found = sites(NOT_TAKEN[name])
    assert not takes_over(found[NEW], found[OLD], private=False)


def test_only_buffers_that_are_alike_share() -> None:
    for other in (Buffer(7, "n", (4, 4), "int32"), floats(7, "n", 4, 5)):
        found = sites(copy(other, OLD).body)
        assert not takes_over(found[other], found[OLD], private=False)


def test_rows_that_outlast_no_turn_share() -> None:
    p, q, r = (floats(20 + number, name, 4) for number, name in enumerate("pqr"))
    steps = [(p, X), (q, p), (r, q)]
    body = [loop("j", 4, loop("k", 4, store(new, at("j"), _of(old)))) for new, old in steps]
    kernel = Kernel((), rows(*body, loop("j", 4, store(Y, at("i", "j"), read(r, "j")))))
    found = planned([kernel], [X, Y], in_place=True)
    assert found.shares == {r: p}  # q is read all through r
    assert not takes_over(sites(kernel.body)[r], sites(kernel.body)[p], private=False)


def _of(old: Buffer) -> object:
    return read(old, "i", "k") if old == X else read(old, "k")


# Random kernels

PLACES = [("i", "j"), ("i", "j"), ("i", "j"), ("j", "i"), ("i", 0), ("i", "3-j"), ("3-i", "j"), (1, "j")]
WHOLE = [("i", "j"), ("i", "j"), ("i", "j"), ("j", "i"), ("i", "3-j")]


@st.composite
def sequences(draw: st.DrawFn) -> Sample:
    """Kernels that compute matrices from earlier ones, here and there in the same loops, and copy some of them out."""
    pool, kernels = [X], []
    for _ in range(draw(st.integers(2, 5))):
        outer: list[Stmt] = []
        inner: list[Stmt] = []
        for _ in range(draw(st.integers(1, 3))):
            new = floats(20 + len(pool), f"m{len(pool)}", 4, 4)
            first, second = (read(draw(st.sampled_from(pool[-3:])), *draw(st.sampled_from(PLACES))) for _ in range(2))
            write = store(new, at(*draw(st.sampled_from(WHOLE))), plus(first, second))
            inner.append(loop("j", 4, If((inside("j", 3),), (write,)) if draw(st.integers(0, 9)) == 0 else write))
            if draw(st.booleans()):
                outer, inner = [*outer, loop("i", 4, *inner)], []
            pool.append(new)
        kernels.append(Kernel((), (*outer, *((loop("i", 4, *inner),) if inner else ()))))
    wanted = draw(st.lists(st.sampled_from(pool), min_size=1, max_size=3, unique=True))
    kept = {one: Buffer(90 + one.id, f"{one.name}.out", one.shape, one.dtype) for one in wanted}
    kernels += [copy(out, one) for one, out in kept.items()]
    return Sample(kernels, tuple(kept.values()), (X,))


def in_arena(sample: Sample, kernels: list[Kernel], found: MemoryPlan, garbage: int) -> dict[Buffer, np.ndarray]:
    """Memory for kernels, all planned buffers in one arena full of garbage."""
    arena = np.full(found.size, garbage, np.uint8)
    return {**sample.memory(kernels), **views(found, arena)}


def run_exactly(sample: Sample, kernels: list[Kernel], memory: dict[Buffer, np.ndarray]) -> list[np.ndarray]:
    run_scalar(Program(tuple(stmt for kernel in kernels for stmt in kernel.body)), memory)
    return [memory[one].copy() for one in sample.kept]


@settings(max_examples=60)
@given(sequences())
def test_planned_memory_is_as_good_as_separate_memory(sample: Sample) -> None:
    found = planned(sample.kernels, sample.outside, in_place=True)
    check_apart(found)
    wanted = run_exactly(sample, sample.kernels, sample.memory())
    renamed = coalesced(sample.kernels, found.shares)
    for kernels in (sample.kernels, renamed):
        memory = in_arena(sample, sample.kernels, found, 255)  # all bits set: no number
        for one, other in zip(run_exactly(sample, kernels, memory), wanted, strict=True):
            np.testing.assert_array_equal(one, other)
    assert not set(found.shares) & set(buffers_in(renamed))


@settings(max_examples=15)
@given(model_samples(), st.booleans(), st.booleans(), st.sampled_from([0, 500, 1 << 20]))
def test_models_run_in_an_arena_full_of_garbage(sample: Sample, fold: bool, in_place: bool, own_bytes: int) -> None:
    kernels = folded(sample.kernels, sample.kept) if fold else sample.kernels
    found = planned(kernels, sample.outside, in_place=in_place, own_bytes=own_bytes)
    check_apart(found)
    memory = in_arena(sample, kernels, found, 255)
    renamed = coalesced(kernels, found.shares)
    for one, other in zip(sample.run(renamed, memory, times=2), sample.expected(times=2), strict=True):
        np.testing.assert_allclose(one, other, rtol=1e-12, atol=1e-14)


@given(
    st.lists(st.tuples(st.integers(0, 9), st.integers(0, 5), st.integers(1, 400)), max_size=25), st.integers(0, 4000)
)
def test_lives_of_all_kinds_are_packed(spans: list[tuple[int, int, int]], own_bytes: int) -> None:
    bodies: list[list[Stmt]] = [[] for _ in range(16)]
    for number, (birth, length, size) in enumerate(spans):
        one = floats(100 + number, f"v{number}", size)
        bodies[birth].append(Fill(one, 1))
        bodies[birth + length].append(store(Y, at(0, 0), read(one, size - 1)))
    found = planned([Kernel((), tuple(body)) for body in bodies], [Y], own_bytes=own_bytes)
    check_apart(found)
    assert len(found.offsets) == len(spans)
    sizes = {one: -(-one.bytes // ALIGNMENT) * ALIGNMENT for one in found.offsets}
    smallest = sorted(sizes, key=lambda one: sizes[one])
    for one, own in zip(smallest, accumulate(sizes[one] for one in smallest), strict=True):
        assert own > own_bytes or not _sharing(one, found)
    live = [sum(-(-4 * s // 64) * 64 for b, n, s in spans if b <= at <= b + n) for at in range(16)]
    assert found.peak == max(live)


def test_what_has_memory_of_its_own_leaves_the_rest_to_share() -> None:
    """The smallest first: kernels that run at the same time wait for bytes that they share."""
    kernels = [copy(A, X), copy(B, A), copy(C, B), copy(Y, C)]
    sizes = [planned(kernels, [X, Y], own_bytes=many).size for many in (0, 63, 64, 192)]
    assert sizes == [128, 128, 192, 192]


# What stays out, and how it is told


def test_what_depends_on_its_past_is_left_apart() -> None:
    kernels = [Kernel((), (add(A, at(0, 0), read(X, 0, 0)),)), copy(Y, A), copy(B, Y), copy(Y, B)]
    found = planned(kernels, [X, Y])
    assert list(found.offsets) == [B]
    assert found.apart == {A: "may be read before it is written"}


def test_nothing_to_plan() -> None:
    found = planned([copy(Y, X)], [X, Y])
    assert (found.size, found.peak, found.show()) == (0, 0, "0 bytes; 0 are alive at once, 0 without reuse")


def test_a_plan_is_shown_as_a_table() -> None:
    small, old = Buffer(5, "small", (3,), "int64"), floats(6, "old", 2)
    kernels = [
        Kernel((), (*copy(A, X).body, *copy(D, X).body)),
        Kernel((), (*copy(B, A).body, Fill(small, 2))),
        copy(C, D),
        copy(Y, B),
        Kernel((), (*copy(Y, C).body, add(old, at(0), read(X, 0, 0)))),
    ]
    assert planned(kernels, [X, Y], in_place=True).show() == (
        "buffer  shape  type     bytes  kernels  offset  shares with\n"
        "a         4×4  float32     64      0–1       0  b\n"
        "d         4×4  float32     64      0–2      64  c\n"
        "b         4×4  float32     64      1–3       0  a (in place)\n"
        "small       3  int64       24        1     128\n"
        "c         4×4  float32     64      2–4      64  d (in place)\n"
        "old         2  float32      8                   may be read before it is written\n"
        "192 bytes; 192 are alive at once, 320 without reuse"
    )


def test_a_deep_model_needs_little_more_than_what_it_must_remember() -> None:
    x = wf.data(np.ones((16, 8), np.float32), batch=1, label="x")
    h = x
    for number in range(6):
        h = wf.tanh(wf.param(f"w{number}") @ h + wf.param(f"b{number}", o=8))
    loss = wf.einsum("...|... => 0", h * h)
    sample = scheduled(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)))
    found = planned(folded(sample.kernels, sample.kept), sample.outside, in_place=True)
    assert found.size == found.peak < planned(sample.kernels, sample.outside).separate


def test_what_is_no_tensor_is_planned_though_nothing_proves_that_it_is_written_first() -> None:
    """A padded convolution that also accumulates, in a block, runs under one of two tests that exclude each other."""
    again, old = A.beside(Role.COPY, ".again"), floats(6, "old", 4, 4)
    off = read(X, 0, 0)
    kernels = [
        Kernel(
            (), tuple(If((Inside(Cast("int64", Call(op, (off, off))), 1),), copy(again, X).body) for op in ("ne", "eq"))
        ),
        copy(Y, again),
        copy(Y, old),
    ]
    plan = planned(kernels, [X, Y], in_place=True)
    assert again in plan.offsets
    assert list(plan.apart) == [old]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_scale_between_padded_convolutions(backend: str) -> None:
    """What the scale computed is computed once more on the way back, by a kernel under tests."""
    x = wf.data(np.arange(1024, dtype="float32").reshape(4, 8, 8, 4) % 7, batch=1, label="x")
    spec = "...|h=+p, w=+q, i; p, q, i -> o => ...|h, w, o"
    k, scale, last = (wf.param(name, init=init) for name, init in (("k", 0.1), ("scale", 2.0), ("last", 0.5)))
    inner = wf.einsum("...|..., c; c => ...|..., c", wf.einsum(spec, x, k, p=3, q=3, o=8), scale)
    total = wf.einsum("...|... => 0", wf.einsum(spec, inner, last, p=3, q=3, o=8))
    ctx = wf.Context(backend)
    ctx.compile(wf.grad_update(total), keep=[one.grad for one in (k, scale, last)])()
    value = ctx[total].item()
    for one in (k, scale, last):  # it is linear in each of them
        np.testing.assert_allclose((ctx[one] * ctx[one.grad]).sum(), value, rtol=1e-4)
