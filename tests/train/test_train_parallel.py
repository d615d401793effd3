"""Data-parallel training: several devices do what one does, however the batch divides."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import weft as wf
from weft.assign import Cells, Fetch
from weft.nn.mode import current_training
from weft.ops.random import threefry4x32, unit_interval
from weft.tensor.params import random_key, random_unit
from weft.train.shards import drawn_apart, merges, shard_slices

BATCHES = (10, 7, 3, 1, 4, 13, 10)


pytestmark = pytest.mark.usefixtures("shared_cache")


class Model:
    """A layer and its loss, in double precision."""

    def __init__(self, reduction: str = "mean") -> None:
        wf.seed(5)
        self.w = wf.param("w", i=4, o=3, dtype="float64")
        self.b = wf.param("b", o=3, dtype="float64", init=0.5)
        self.params = (self.w, self.b)
        self.mean = reduction == "mean"

    def __call__(self, x: wf.Tensor, y: wf.Tensor) -> wf.Tensor:
        error = wf.tanh(self.w @ x + self.b) - y
        total = wf.einsum("...|... => 0", error * error)
        return total / x.dims.batch[0].size if self.mean else total


def batches(*counts: int) -> list[tuple[np.ndarray, np.ndarray]]:
    rng = np.random.default_rng(0)
    return [(rng.normal(size=(count, 4)), rng.normal(size=(count, 3))) for count in counts]


OPTIMISERS: dict[str, Callable[[wf.Tensor], Any]] = {
    "momentum": lambda loss: wf.optim.sgd(loss, lr=0.05, momentum=0.9, weight_decay=0.01),
    "adam": lambda loss: wf.optim.adam(loss, lr=0.05),
}


def trained_alone(backend: str, reduction: str, optimise: Callable[[wf.Tensor], Any]) -> tuple[list[float], list[Any]]:
    """The same by hand, on one device: a routine for each batch length, one optimiser."""
    model, ctx, routines, losses = Model(reduction), wf.Context(backend), {}, []
    step = None
    for x, y in batches(*BATCHES):
        if len(x) not in routines:
            inputs = wf.data(x, batch=1), wf.data(y, batch=1)
            loss = model(*inputs)
            grads = ctx.compile(wf.grad_update(loss), keep=[p.grad for p in model.params])
            routines[len(x)] = (*inputs, loss, grads)
            step = step or ctx.compile(optimise(loss))
        for_x, for_y, loss, grads = routines[len(x)]
        ctx[for_x], ctx[for_y] = x, y
        grads()
        losses.append(ctx[loss].item())
        assert step is not None
        step()
    return losses, [ctx[p] for p in model.params]


@pytest.mark.parametrize("backend", ["interp", "cc"])
@pytest.mark.parametrize(("reduction", "optimiser"), [("mean", "momentum"), ("mean", "adam"), ("sum", "momentum")])
def test_four_devices_train_as_one_does(backend: str, reduction: str, optimiser: str) -> None:
    losses, params = trained_alone(backend, reduction, OPTIMISERS[optimiser])
    model, ctx = Model(reduction), wf.Context(backend, devices=4)
    step = wf.train.data_parallel(ctx, model, OPTIMISERS[optimiser], reduction)
    found = [step(x, y) for x, y in batches(*BATCHES)]
    np.testing.assert_allclose(found, losses, rtol=1e-12)
    for device in ctx.devices:
        for p, expected in zip(model.params, params, strict=True):
            np.testing.assert_allclose(device[p], expected, rtol=1e-10)
            assert device[p].tobytes() == ctx[p].tobytes()
    assert losses[0] != losses[-1]


@pytest.mark.parametrize("devices", [1, 2, 3, 5])
def test_any_number_of_devices_will_do(devices: int) -> None:
    losses, _ = trained_alone("interp", "mean", OPTIMISERS["momentum"])
    ctx = wf.Context("interp", devices=devices)
    step = wf.train.data_parallel(ctx, Model(), OPTIMISERS["momentum"])
    np.testing.assert_allclose([step(x, y) for x, y in batches(*BATCHES)], losses, rtol=1e-12)


def test_the_same_call_gives_the_same_numbers() -> None:
    found = []
    for _ in range(2):
        ctx, model = wf.Context("interp", devices=3), Model()
        step = wf.train.data_parallel(ctx, model, OPTIMISERS["adam"])
        found.append([*(step(x, y) for x, y in batches(8, 5, 8)), ctx[model.w].tobytes()])
    assert found[0] == found[1]


def test_single_precision() -> None:
    w = wf.param("w", o=1, init=0.0)
    ctx = wf.Context("interp", devices=2)

    def loss_of(x: wf.Tensor) -> wf.Tensor:
        return wf.einsum("...|... => 0", (x - w) * (x - w)) / x.dims.batch[0].size

    step = wf.train.data_parallel(ctx, loss_of, lambda loss: wf.optim.sgd(loss, lr=0.5))
    assert step(np.array([[1.0], [2.0], [6.0]], "float32")) == pytest.approx(41 / 3, rel=1e-6)
    assert [device[w].item() for device in ctx.devices] == pytest.approx([3.0, 3.0], rel=1e-6)
    assert w.dtype == "float32"


def test_one_routine_for_each_length() -> None:
    lengths = []
    model, ctx = Model(), wf.Context("interp", devices=3)

    def loss_of(x: wf.Tensor, y: wf.Tensor) -> wf.Tensor:
        lengths.append(x.dims.batch[0].size)
        return model(x, y)

    optimised: list[wf.Tensor] = []

    def optimise(loss: wf.Tensor) -> Any:
        optimised.append(loss)
        return wf.optim.sgd(loss, lr=0.1)

    step = wf.train.data_parallel(ctx, loss_of, optimise)
    for x, y in batches(9, 10, 9, 8, 2):
        step(x, y)
    assert sorted(lengths) == [1, 2, 3, 4]
    assert len(optimised) == 1


def test_parameters_set_between_steps_are_used_everywhere() -> None:
    """On device 0 they count; on another device they are replaced."""
    found = []
    for devices in (1, 3):
        model, ctx = Model(), wf.Context("interp", devices=devices)
        step = wf.train.data_parallel(ctx, model, OPTIMISERS["momentum"])
        losses = []
        for number, (x, y) in enumerate(batches(6, 6, 6, 6)):
            if number == 1:
                ctx[model.w] = np.full((3, 4), 0.25)
            if number == 2:
                ctx.devices[-1][model.w] = ctx[model.w] if devices == 1 else np.zeros((3, 4))
            if number == 3:
                ctx.compile(wf.cd(lambda w: w.__setitem__(slice(None), w * 0.5))(model.w))()
            losses.append(step(x, y))
        found.append(losses)
    np.testing.assert_allclose(found[0], found[1], rtol=1e-12)


def test_values_set_before_the_first_step_are_used_everywhere() -> None:
    model, ctx = Model(), wf.Context("interp", devices=2)
    ctx[model.w], ctx[model.b] = np.zeros((3, 4)), np.zeros(3)
    step = wf.train.data_parallel(ctx, model, OPTIMISERS["momentum"])
    x, y = batches(6)[0]
    assert step(x, y) == pytest.approx((y * y).sum() / 6, rel=1e-12)


def test_static_indices_reach_the_loss_and_the_optimiser() -> None:
    n = wf.index("n", 10)
    w = wf.param("w", o=1, dtype="float64", init=1.0)
    ctx = wf.Context("interp", devices=2)

    def loss_of(x: wf.Tensor) -> wf.Tensor:
        return wf.einsum("...|... => 0", w * x * n) / x.dims.batch[0].size

    def optimise(loss: wf.Tensor) -> Any:
        return wf.optim.sgd(loss, lr=0.1 * wf.constant(n))

    step = wf.train.data_parallel(ctx, loss_of, optimise, bindings=[n])
    assert step(np.array([[1.0], [2.0], [3.0]]), n=2) == pytest.approx(4.0)
    assert [device[w].item() for device in ctx.devices] == pytest.approx([1 - 0.2 * 4, 1 - 0.2 * 4])
    with pytest.raises(wf.WeftError, match="static index `n` is not bound"):
        step(np.ones((3, 1)))


# State


def with_statistics(x: wf.Tensor, running: wf.Tensor, w: wf.Tensor) -> wf.Tensor:
    """A loss that drops and reads what it runs: its value depends on everything that a step leaves behind."""
    mode = current_training()
    assert mode is not None
    mode.leave(_follow(running, wf.mean(x, "...|i => i")))
    return wf.mean((wf.dropout(w * (x - running), 0.3, step=mode.step) - 1.0) ** 2, "...|... => 0")


@wf.cd
def _follow(running: wf.Tensor, now: wf.Tensor) -> None:
    running[:] = 0.5 * running + 0.5 * now


def stateful_step(devices: int, backend: str = "interp") -> tuple[wf.Context, Any]:
    """A step with Adam, statistics, a schedule by a counter and dropout."""
    wf.seed(4)
    ctx, n = wf.Context(backend, devices=devices), wf.counter("n")
    w, running = wf.param("w", o=2, init=0.5), wf.node("running", init=0.0)
    maker = wf.train.data_parallel if devices > 1 else wf.train.step

    def optimise(loss: wf.Tensor) -> Any:
        return wf.seq(wf.optim.clip_by_norm(loss, 1.0), wf.optim.adam(loss, lr=wf.optim.cosine(n, 0.1, steps=20)))

    return ctx, maker(ctx, lambda x: with_statistics(x, running, w), optimise)


def rows(*counts: int) -> list[np.ndarray]:
    rng = np.random.default_rng(1)
    return [rng.normal(0.5, 1.0, (count, 2)).astype("float32") for count in counts]


@pytest.mark.parametrize(("backend", "devices"), [("interp", 3), ("cc", 2)])
def test_a_step_restored_elsewhere_goes_on_bit_by_bit(backend: str, devices: int, tmp_path: Path) -> None:
    given = rows(9, 6, 9, 7, 9, 8)
    ctx, step = stateful_step(devices, backend)
    losses = [step(one) for one in given]
    for stop in (1, 4):
        saved, first = stateful_step(devices, backend)
        begun = [first(one) for one in given[:stop]]
        wf.save(tmp_path / "state.npz", saved.state(first))
        other, second = stateful_step(devices, backend)
        second.prepare(given[stop])
        assert other.restore(second, wf.load(tmp_path / "state.npz")).complete
        assert [*begun, *(second(one) for one in given[stop:])] == losses
        wanted, found = ctx.state(step), other.state(second)
        assert {name: one.tobytes() for name, one in found.items()} == {n: one.tobytes() for n, one in wanted.items()}


def test_the_state_is_that_of_a_step_on_one_device() -> None:
    """So that a run may go on with more devices, or fewer."""
    given = rows(6, 6)
    states = []
    for devices in (1, 3):
        ctx, step = stateful_step(devices)
        step(given[0])
        states.append(ctx.state(step))
    one, several = states
    assert list(one) == list(several)
    assert {"w", "running.x", "adam.m.w", "adam.v.w", "n", "steps"} <= set(several)
    assert several["n"].item() == several["steps"].item() == 1, "counted by the step, not by its runs"
    ctx, step = stateful_step(1)
    step.prepare(given[1])
    assert step.restore(several).complete


def test_what_lasts_is_the_first_device_s() -> None:
    """A loss that reads statistics reads device 0's on all devices, however they were set."""
    ctx, step = stateful_step(2)
    step(rows(4)[0])
    state = step.state()
    after = step(rows(6)[0])
    step.restore(state)
    ctx.device(1)[step.params[0]] = 7.0
    assert step(rows(6)[0]) == after


def test_state_before_a_batch_and_in_another_context_is_refused() -> None:
    _, step = stateful_step(2)
    with pytest.raises(wf.WeftError, match="the step has seen no batch yet") as caught:
        step.state()
    assert caught.value.fix == "show it one: step.prepare(x, y)"
    step.prepare(rows(4)[0])
    with pytest.raises(wf.WeftError, match="the step was made for another context"):
        wf.Context("interp").state(step)


def test_measures_are_means_over_all_examples() -> None:
    w = wf.param("w", o=1, init=2.0, dtype="float64")
    x = np.arange(7.0)[:, None]
    for reduction, loss in (("mean", wf.mean), ("sum", wf.sum)):
        step = wf.train.data_parallel(
            wf.Context("interp", devices=3),
            lambda x, loss=loss: (loss(w * x, "...|... => 0"), {"middle": wf.mean(x, "...|... => 0")}),
            lambda loss: wf.optim.sgd(loss, lr=0.0),
            reduction,  # type: ignore[arg-type]
        )
        value, metrics = step(x)
        assert (value, metrics["middle"]) == (pytest.approx(6.0 if reduction == "mean" else 42.0), pytest.approx(3.0))
    wrong = wf.train.data_parallel(
        wf.Context("interp", devices=2), lambda x: (wf.mean(w * x, "...|... => 0"), {"each": x}), OPTIMISERS["adam"]
    )
    with pytest.raises(wf.WeftError, match=r"metric `each`, `x` is not one number: its shape is 3\|1"):
        wrong(x)


# How a batch divides


@given(st.integers(1, 200), st.integers(1, 20))
def test_shards_are_consecutive_even_and_not_empty(count: int, devices: int) -> None:
    parts = shard_slices(count, devices)
    assert [at for part in parts for at in range(count)[part]] == list(range(count))
    lengths = [part.stop - part.start for part in parts]
    assert min(lengths) >= 1
    assert max(lengths) - min(lengths) <= 1
    assert len(parts) == min(count, devices)


@given(st.integers(1, 40))
def test_a_tree_of_merges_adds_up_everything_once(count: int) -> None:
    sums = [{at} for at in range(count)]
    depth = [0] * count
    for into, source in merges(count):
        assert not sums[into] & sums[source]
        sums[into] |= sums[source]
        depth[into] = max(depth[into], depth[source]) + 1
        sums[source] = set()
    assert sums[0] == set(range(count))
    assert depth[0] == (count - 1).bit_length()


# What is refused


@pytest.fixture
def step() -> Callable[..., float]:
    return wf.train.data_parallel(wf.Context("interp", devices=2), Model(), OPTIMISERS["momentum"])


def test_batches_that_are_refused(step: Callable[..., float]) -> None:
    x, y = batches(4)[0]
    for arrays, what in [
        ((), "a training step needs arrays"),
        ((x, y[:3]), "the arrays of the batch have different numbers of examples: 4, 3"),
        ((x[:0], y[:0]), "the batch has no examples"),
        ((x, 1.0), "array 1 of the batch is a single number"),
    ]:
        with pytest.raises(wf.WeftError) as caught:
            step(*arrays)
        assert caught.value.what == what
        assert caught.value.fix
        assert caught.value.origin is not None
        assert caught.value.origin.code == "step(*arrays)"
    assert step(x, y) > 0


def test_a_reduction_that_does_not_exist_is_refused() -> None:
    with pytest.raises(wf.WeftError, match="there is no reduction 'max'"):
        wf.train.data_parallel(wf.Context("interp"), Model(), OPTIMISERS["adam"], "max")  # type: ignore[arg-type]


def test_parameters_made_anew_for_each_length_are_refused() -> None:
    def loss_of(x: wf.Tensor) -> wf.Tensor:
        return wf.einsum("...|... => 0", wf.param("v", o=2) * x)

    ctx = wf.Context("interp", devices=2)
    step = wf.train.data_parallel(ctx, loss_of, OPTIMISERS["adam"], "sum")
    with pytest.raises(wf.WeftError) as caught:
        step(np.ones((3, 2)))
    assert caught.value.what == "for shards of 2 examples `loss_of` uses other parameters than before: `v`"
    assert caught.value.fix == "make parameters and configure layers once, outside loss_of"


def test_a_loss_that_is_not_one_number_is_refused() -> None:
    w = wf.param("w", o=2)
    step = wf.train.data_parallel(wf.Context("interp"), lambda x: w * x, OPTIMISERS["adam"])
    with pytest.raises(wf.WeftError, match=r"the loss `mul` is not one number: its shape is 3\|2") as caught:
        step(np.ones((3, 2)))
    assert caught.value.fix == 'reduce it: wf.mean(loss, "...|... => 0")'


def test_a_loss_that_is_made_already_is_refused() -> None:
    w = wf.param("w", o=2)
    for maker in (wf.train.data_parallel, wf.train.step):
        with pytest.raises(wf.WeftError, match="loss_of is a function, not Tensor") as caught:
            maker(wf.Context("interp"), wf.sum(w), OPTIMISERS["adam"])  # type: ignore[operator]
        assert caught.value.fix.startswith("give what makes the loss of a batch: lambda x, y: ")


def test_a_loss_without_parameters_is_refused() -> None:
    step = wf.train.data_parallel(wf.Context("interp"), lambda x: wf.einsum("...|... => 0", x), OPTIMISERS["adam"])
    with pytest.raises(wf.WeftError, match="does not depend on any parameter"):
        step(np.ones((3, 2)))


def test_an_optimiser_that_gives_no_code_is_refused(step: Callable[..., float]) -> None:
    wrong = wf.train.data_parallel(wf.Context("interp"), Model(), lambda loss: None)  # type: ignore[arg-type,return-value]
    with pytest.raises(wf.WeftError, match="`optimise` gave NoneType, not code"):
        wrong(*batches(4)[0])


# Random numbers


def drawn(backend: str, devices: int, examples: int, runs: tuple[int, ...] = (0,)) -> list[float]:
    """The sum of one random number for each example; half of them are drawn by a tensor made outside."""
    wf.seed(3)
    w, n = wf.param("w", o=1, init=0.0, dtype="float64"), wf.index("shard", 100)  # called as the number of a shard is
    outside = wf.random_uniform("outside", step=n)

    def loss_of(x: wf.Tensor) -> wf.Tensor:
        return wf.einsum("...|... => 0", (w + x) * (wf.random_uniform("inside", step=n) + outside))

    step = wf.train.data_parallel(
        wf.Context(backend, devices=devices), loss_of, lambda loss: wf.optim.sgd(loss, lr=0.0), "sum", bindings=[n]
    )
    return [step(np.ones((examples, 1)), shard=at) for at in runs]


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_shards_draw_different_numbers(backend: str) -> None:
    wf.seed(3)
    keys = [random_key(name) for name in ("outside", "inside")]
    for shards in (1, 3):
        wanted = sum(
            float(unit_interval(threefry4x32((key + shard) % (1 << 64), 5 << 32), 24.0))
            for key in keys
            for shard in range(shards)
        )
        assert drawn(backend, shards, shards, (5,)) == [pytest.approx(wanted, rel=1e-6)]


def test_random_numbers_are_the_same_for_as_many_shards() -> None:
    first = drawn("interp", 2, 8, (0, 1, 0))
    assert first == drawn("interp", 2, 8, (0, 1, 0))
    assert first[0] == first[2] != first[1]
    assert drawn("interp", 4, 8)[0] != first[0]


def test_a_key_at_the_end_of_its_range_wraps() -> None:
    shard = wf.index("shard", 2)
    for key in ((1 << 64) - 1, (1 << 63) - 1, 5):
        random = wf.random_uniform("x", step=0)
        assert (random + wf.data(np.zeros(2, "float32"))).dims.count == 2
        definition = random.node.definition
        assert isinstance(definition, Fetch)
        apart = drawn_apart(replace(definition, source=Cells(random_unit(key, 0, 7))), shard)
        for backend in ("interp", "cc"):
            ctx = wf.Context(backend)
            ctx.compile(apart, bindings=[shard])(shard=1)
            assert ctx[wf.given(random)][0] == unit_interval(threefry4x32((key + 1) % (1 << 64), 7), np.float32(24))
