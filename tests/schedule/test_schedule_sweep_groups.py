"""Sweeps: attention and its gradients a block of columns at a time, and that it is the same program."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace

import ml_dtypes
import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

import weft as wf
from backends.on_grid import OnGrid
from weft.loops import Program, declared, parse, show
from weft.loops.walk import accesses, everything
from weft.schedule.gpu_model import USUAL_GPU

#: A GPU that finds small matrices large.
SMALL = replace(
    USUAL_GPU,
    swept_columns=8,
    swept_single=((16, 16, 2),),
    swept_narrow=((16, 16, 2),),
    multiprocessors=1,
    bytes_per_s=1e6,
)


def chosen(**others: object) -> wf.CompileOptions:
    return wf.CompileOptions(**{"gpu": SMALL, "verify": True, **others})  # type: ignore[arg-type]


def numbers(*shape: int, seed: int = 0, dtype: object = np.float32) -> np.ndarray:
    return np.random.default_rng(seed).standard_normal(shape).astype(dtype)


def sweeps_of(routine: object) -> list[object]:
    """The kernels that go through blocks of columns."""
    return [
        one
        for one in routine.kernels
        if any(stmt.loop == "block" for stmt in everything(one.body) if hasattr(stmt, "loop"))
    ]  # type: ignore[attr-defined]


def scores(length: int = 24, other: int | None = None) -> tuple[wf.Tensor, wf.Tensor, wf.Tensor]:
    """Queries, keys and values of two heads."""
    other = other or length
    made = [
        wf.data(numbers(2, n, 3, seed=at), batch=2, label=name)
        for at, (name, n) in enumerate(zip("qkv", (length, other, other), strict=True))
    ]
    return made[0], made[1], made[2]


def attended(weights: Callable[[wf.Tensor], wf.Tensor], length: int = 24, other: int | None = None) -> wf.Tensor:
    q, k, v = scores(length, other)
    found = wf.einsum("h, t | e; h, s | e => h, t | s", q, k)
    return wf.einsum("h, t | s; h, s | e => h, t | e", weights(found), v).named("o")


def both(tensor: wf.Tensor, **options: object) -> tuple[np.ndarray, np.ndarray, list[object]]:
    """A tensor by the oracle, by a program with sweeps, and those."""
    ctx = wf.Context(OnGrid())
    routine = ctx.compile(tensor.forward, keep=[tensor], options=chosen(**options))  # type: ignore[arg-type]
    routine()
    return wf.Context("interp")[tensor], ctx[tensor], sweeps_of(routine)


def test_softmax_takes_one_pass(golden: Callable[..., None]) -> None:
    tensor = attended(wf.softmax)
    _, _, (sweep,) = both(tensor)
    golden(declared(Program(sweep.body)))  # type: ignore[attr-defined]
    assert sum(stmt.loop == "block" for stmt in everything(sweep.body) if hasattr(stmt, "loop")) == 1  # type: ignore[attr-defined]


def test_it_prints_and_reads_back() -> None:
    _, _, (sweep,) = both(attended(wf.softmax, 21))
    program = Program(sweep.body)  # type: ignore[attr-defined]
    assert show(parse(declared(program))) == show(program)


def test_nothing_of_all_rows_and_columns_is_in_memory() -> None:
    x = wf.data(numbers(1, 40, 8), batch=2, label="x")
    y = wf.nn.multi_head_attention(num_heads=2, d_k=4, causal=True, d_model=8)(x)
    loss = wf.einsum("...|... => 0", y * y, label="loss")
    routine = wf.Context(OnGrid()).compile(wf.grad_update(loss), options=chosen())
    touched = {one.buffer for kernel in routine.kernels for one in accesses(kernel.body)}
    assert len(sweeps_of(routine)) == 3
    assert not [one for one in touched if one.shape.count(40) == 2]


def test_what_the_rules_do_not_take_waits_for_the_next_pass() -> None:
    def squared(found: wf.Tensor) -> wf.Tensor:
        top = wf.einsum("h, t | s => h, t | 0", found, accum="max")
        return (found - top) * (found - top)  # not proportional to an exponential

    oracle, found, (sweep,) = both(attended(squared))
    np.testing.assert_allclose(found, oracle, rtol=1e-5, atol=1e-5)
    assert sum(stmt.loop == "block" for stmt in everything(sweep.body) if hasattr(stmt, "loop")) == 2  # type: ignore[attr-defined]


def test_a_matrix_that_is_asked_for_is_stored() -> None:
    q, k, v = scores()
    weights = wf.softmax(wf.einsum("h, t | e; h, s | e => h, t | s", q, k))
    o = wf.einsum("h, t | s; h, s | e => h, t | e", weights, v)
    routine = wf.Context(OnGrid()).compile(wf.seq(), keep=[o, weights], options=chosen())
    assert not sweeps_of(routine)


def test_small_matrices_stay_as_they_are() -> None:
    assert not both(attended(wf.softmax), gpu=USUAL_GPU)[2]


def test_columns_that_are_minus_infinity_at_first() -> None:
    """The first block has no number above minus infinity: it counts for nothing."""
    late = np.where(np.arange(40) < 20, -np.inf, 0).astype(np.float32)
    oracle, found, sweeps = both(attended(lambda one: wf.softmax(one + wf.data(late, label="late")), 40))
    assert len(sweeps) == 1
    assert np.isfinite(oracle).all()
    np.testing.assert_allclose(found, oracle, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("wrong", [np.inf, np.nan])
def test_what_is_no_number_stays_so(wrong: float) -> None:
    values = numbers(2, 24, 3, seed=1)
    values[1, 5, 2] = wrong
    q, _, v = scores()
    k = wf.data(values, batch=2, label="k")
    weights = wf.softmax(wf.einsum("h, t | e; h, s | e => h, t | s", q, k))
    with np.errstate(all="ignore"):
        oracle, found, sweeps = both(wf.einsum("h, t | s; h, s | e => h, t | e", weights, v).named("o"))
    assert sweeps
    assert (np.isnan(oracle) == np.isnan(found)).all()
    assert np.isnan(found).any()


def test_a_maximum_that_is_rounded() -> None:
    """Sums are measured from the rounded maximum, and rescaled by how far that moves."""

    def weights(found: wf.Tensor) -> wf.Tensor:
        top = wf.cast(wf.einsum("h, t | s => h, t | 0", found, accum="max"), "bfloat16")
        exps = wf.exp(found - wf.cast(top, "float32"))
        return exps / wf.einsum("h, t | s => h, t | 0", exps)

    oracle, found, sweeps = both(attended(lambda one: weights(one * 40.0), 40))
    assert len(sweeps) == 1
    np.testing.assert_allclose(found, oracle, rtol=2e-5, atol=2e-5)


def steps(length: int, other: int | None, heads: int, shared: int, causal: bool, window: int | None) -> Iterator[tuple]:
    """What attention computes and the gradients of its parameters, by the oracle and by sweeps."""
    x = wf.data(numbers(2, length, 6, seed=3), batch=2, label="x")
    source = None if other is None else wf.data(numbers(2, other, 6, seed=4), batch=2, label="source")
    layer = wf.nn.multi_head_attention(
        num_heads=heads * shared, num_kv_heads=heads, d_k=3, causal=causal and source is None, window=window, d_model=5
    )
    y = layer(x) if source is None else layer(x, source)
    loss = wf.einsum("...|... => 0", y * y, label="loss")
    found = []
    for ctx in (wf.Context("interp"), wf.Context(OnGrid())):
        kept = [y, *(one.grad for one in loss.params)]
        routine = ctx.compile(wf.grad_update(loss), keep=kept, options=chosen())
        for at, one in enumerate(loss.params):
            ctx[one] = numbers(*one.dims.array_shape, seed=at) * 0.5
        routine()
        found.append([ctx[one] for one in kept])
    assert len(sweeps_of(routine)) == 3
    yield from zip(*found, strict=True)


@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_attention_and_its_gradients(data: st.DataObject) -> None:
    length = data.draw(st.integers(13, 37))
    other = data.draw(st.none() | st.integers(13, 37))
    heads, shared = data.draw(st.integers(1, 2)), data.draw(st.integers(1, 2))
    causal, window = data.draw(st.booleans()), data.draw(st.none() | st.integers(1, 20))
    for oracle, found in steps(length, other, heads, shared, causal, window if other is None else None):
        np.testing.assert_allclose(found, oracle, rtol=1e-4, atol=1e-5 * np.abs(oracle).max())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_narrow_tensors(dtype: str) -> None:
    """Weights are rounded before they are divided by their sum, not after: by the same share of themselves."""
    kind = np.float16 if dtype == "float16" else ml_dtypes.bfloat16
    q, k, v = (wf.data(numbers(2, 40, 3, seed=at, dtype=kind), batch=2, label=name) for at, name in enumerate("qkv"))
    weights = wf.softmax(wf.einsum("h, t | e; h, s | e => h, t | s", q, k))
    oracle, found, sweeps = both(wf.einsum("h, t | s; h, s | e => h, t | e", weights, v).named("o"))
    assert len(sweeps) == 1
    epsilon = 2.0**-10 if dtype == "float16" else 2.0**-7
    np.testing.assert_allclose(
        found.astype(float), oracle.astype(float), atol=4 * epsilon * np.abs(oracle.astype(float)).max()
    )


# Masks


def test_a_mask_that_hides_whole_rows_skips_nothing() -> None:
    def later(found: wf.Tensor) -> wf.Tensor:
        at = wf.arange(40, dtype="int32")
        seen = wf.einsum("t => t|0", at) > at  # the first row sees nothing, and so all alike
        return wf.softmax(wf.where(seen, found, -1e9))

    oracle, found, (sweep,) = both(attended(later, 40))
    np.testing.assert_allclose(found, oracle, rtol=1e-5, atol=1e-6)
    assert not any(
        type(stmt).__name__ == "If" and "block" in repr(stmt.tests) and len(stmt.body) > 3
        for stmt in everything(sweep.body)
    )  # type: ignore[attr-defined]


def test_causal_blocks_are_skipped() -> None:
    causal = wf.nn.causal_mask(64)
    oracle, found, (sweep,) = both(attended(lambda one: wf.softmax(wf.where(causal, one, -1e9)), 64))
    np.testing.assert_allclose(found, oracle, rtol=1e-5, atol=1e-6)
    whole, cut = show(Program(sweep.body)).split("for block in")[1:]  # type: ignore[attr-defined]
    assert "if 0 <= -16*strip - 16*block + 33 <" in whole
    assert "-1000000000" not in whole  # nothing is hidden there
    assert "if 0 <= 16*strip + 16*block - 34 <" in cut
    assert "0 <= -16*strip - 16*block + 63 <" in cut
    assert "-1000000000" in cut
