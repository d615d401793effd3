"""Long programs: nothing recurses in their length, and work grows with it and no faster."""

from __future__ import annotations

import cProfile
import gc
import pstats
import weakref
from collections.abc import Callable

import numpy as np
import pytest
from _long import chain, joined, layers, parts, recurrence, steps, terms, updates

import weft as wf
from shallow import shallow
from weft.loops.effects import weight
from weft.ops import Scalar


@pytest.mark.parametrize(
    ("program", "length"),
    [(chain, 120), (terms, 24), (parts, 90), (joined, 36), (steps, 20), (updates, 36), (recurrence, 10)],
    ids=lambda one: getattr(one, "__name__", None),
)
def test_twice_the_length_is_twice_the_work(program: Callable[[int], wf.Code], length: int) -> None:
    def calls(length: int) -> int:
        code, context, profile = program(length), wf.Context("cc"), cProfile.Profile()
        profile.runcall(context.compile, code)
        profile.runcall(str, code)
        found: int = pstats.Stats(profile).total_calls  # type: ignore[attr-defined]
        return found

    calls(8)  # what is done once in a process
    assert calls(2 * length) < 2.6 * calls(length)  # kernels fill up first, in a square of their greatest length


def test_many_operations_compile_and_are_let_go_of() -> None:
    y = first = wf.data(np.ones(1), label="x") + 1
    for _ in range(10_000):
        y = y + 0.5
    gone = weakref.ref(first.node)
    with shallow(), wf.config.using(optimise=False):
        run = wf.Context("interp").compile(y.forward)
        assert len(run.show("assign").splitlines()) == 10_001
        del first, y, run
        gc.collect()
    assert gone() is None


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_what_once_ended_in_a_recursion_error(backend: str) -> None:
    with shallow():
        for code in (chain(150), terms(150), joined(150), recurrence(24)):
            run = wf.Context(backend).compile(code)
            run()
            for stage in ("assign", "loops", "kernels", "source"):
                run.show(stage)


def test_800_parts_end_to_end() -> None:
    arrays = [np.full(3, float(number)) for number in range(800)]
    ctx = wf.Context("cc")
    with shallow():
        joined = wf.concat(*map(wf.data, arrays))
        ctx.compile(joined.forward)()
    np.testing.assert_array_equal(ctx[joined], np.concatenate(arrays))


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_transpose_in_place_used_twice(backend: str) -> None:
    array = np.arange(16.0).reshape(4, 4)
    a, twice = wf.param("a", init=array, dtype="float64"), wf.node("twice")

    @wf.cd
    def code() -> None:
        for _ in range(75):
            a[:] = wf.einsum("ij => ji", a)
            twice[:] = a + wf.einsum("ij => ji", a)
            a[:] = wf.einsum("ij => ji", a) * 0.5 + twice * 0.25

    ctx = wf.Context(backend)
    with shallow():
        ctx.compile(code(), keep=[twice])()
    for _ in range(75):
        array = array.T
        both = array + array.T
        array = array.T * 0.5 + both * 0.25
    np.testing.assert_allclose(ctx[a], array)
    np.testing.assert_allclose(ctx[twice], both)


def test_one_statement_of_manyterms() -> None:
    """In code and in an operator, an expression is one statement, however long."""

    @wf.operator
    def smoothed(v: wf.Slot, v1: wf.Slot) -> None:
        value = v1 * 1.0
        for _ in range(500):
            value = value * 0.5 + v1 * 0.5
        v[:] = value

    p, total = wf.param("p", o=3, init=2.0), wf.node("total")

    @wf.cd
    def code() -> None:
        value = p * 1.0
        for _ in range(500):
            value = value + p
        total[:] = value

    loss = wf.einsum("i => 0", smoothed(p))
    ctx = wf.Context("cc")
    with shallow():
        ctx.compile(wf.seq(wf.grad_update(loss), code()), keep=[p.grad, total])()
        for one in (code(), wf.grad_update(loss)):
            shown = str(one)
            assert str(wf.parse_cd(shown, p=p, declare=True)) == shown
            assert max(len(line) for line in shown.splitlines()) < 1000
    np.testing.assert_allclose(ctx[p.grad], np.ones(3), rtol=1e-6)
    np.testing.assert_allclose(ctx[total], np.full(3, 1002.0))


def test_a_part_that_is_used_again_and_again_is_written_once() -> None:
    """Written out, a hundred steps would be 2**100 operations."""

    @wf.operator
    def steps(v: wf.Slot, v1: wf.Slot) -> None:
        value: wf.Slot | Scalar = v1
        for _ in range(100):
            value = value * value * 0.25 - value * 0.5
        v[:] = value

    p = wf.param("p", init=[0.1, 0.2, 0.3], dtype="float64")
    code = wf.grad_update(wf.einsum("i => 0", steps(p)))
    with shallow():
        shown = str(code)
        again = wf.parse_cd(shown, p=p, declare=True)
        assert str(again) == shown
        assert len(shown) < 100 * 300
        contexts = [wf.Context("interp"), wf.Context("interp"), wf.Context("cc")]
        for ctx, one in zip(contexts, (code, again, code), strict=True):
            ctx.compile(one, keep=[p.grad])()
    value, slope = np.array([0.1, 0.2, 0.3]), np.ones(3)
    for _ in range(100):
        value, slope = value * value * 0.25 - value * 0.5, slope * (value * 0.5 - 0.5)
    for ctx in contexts:
        np.testing.assert_allclose(ctx[p.grad], slope, rtol=1e-9)


def test_the_gradients_of_many_parts_mention_only_themselves() -> None:
    lengths = [len(str(joined(length))) for length in (100, 200)]
    assert lengths[1] < 2.2 * lengths[0]
    code = joined(200)
    names = {one.label: one for one in (wf.param(f"p{number}", o=3) for number in range(200))}
    again = wf.parse_cd(str(code), names, declare=True)
    assert str(again) == str(code)
    ctx = wf.Context("interp")
    for number, one in enumerate(names.values()):
        ctx[one] = np.full(3, float(number))
    ctx.compile(again, keep=[names["p150"].grad])()
    np.testing.assert_allclose(ctx[names["p150"].grad], [300.0] * 3)


def test_kernels_have_a_greatest_length() -> None:
    routines = [wf.Context("cc").compile(layers(number)) for number in (10, 20)]
    lengths = [[weight(kernel.body) for kernel in one.kernels] for one in routines]
    assert max(map(max, lengths)) <= wf.config.kernel_operations
    assert len(lengths[1]) > len(lengths[0])


def test_what_is_written_in_a_row_reads_back() -> None:
    """Operands of one statement are no deeper for being many."""
    parts = {f"p{number}": wf.param(f"p{number}", o=2, init=1.0) for number in range(150)}
    joined, total = wf.node("joined"), wf.node("total")
    spec = f"{'; '.join(f'{name}, ...' for name in parts)} => {'^'.join(parts)}, ..."
    joining = f'joined =:+ {" * ".join(parts)} ~logic:"{spec}"'
    ctx = wf.Context("interp")
    with shallow():
        shown = str(wf.parse_cd(joining, joined=joined, **parts))
        assert shown.partition(" ")[2] == joining.partition(" ")[2]  # the node is called after its operand
        code = wf.parse_cd(f"{joining};\ntotal =: {' + '.join(parts)}", joined=joined, total=total, **parts)
        ctx.compile(code, keep=[joined, total])()
    np.testing.assert_allclose(ctx[total], [150, 150])
    np.testing.assert_allclose(ctx[joined], np.ones(300))
