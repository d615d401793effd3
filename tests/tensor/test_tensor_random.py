"""Random tensors inside code, drawn anew for each step."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import weft as wf
from tensor.differences import double

SIZE = 20_000
ONES = np.ones(SIZE)


def ones(size: int = SIZE) -> wf.Tensor:
    return wf.data(np.ones(size))


def value(tensor: wf.Tensor) -> np.ndarray:
    return wf.Context("interp")[tensor]


def test_uniform_normal_and_bernoulli_have_their_means() -> None:
    uniform = value(wf.random_uniform("u", step=0) * ones())
    normal = value(wf.random_standard_normal("n", step=0) * ones())
    coin = value(wf.bernoulli("c", 0.3, step=0) * ones())
    assert abs(uniform.mean() - 0.5) < 0.01
    assert abs(uniform.var() - 1 / 12) < 0.003
    assert abs(normal.mean()) < 0.03
    assert abs(normal.var() - 1) < 0.05
    assert abs(coin.mean() - 0.3) < 0.015
    assert set(coin.tolist()) == {0.0, 1.0}
    assert 0 <= uniform.min() < uniform.max() < 1


@pytest.mark.parametrize(("probability", "expected"), [(0.0, 0.0), (1.0, 1.0)])
def test_certain_coins(probability: float, expected: float) -> None:
    assert (value(wf.bernoulli("c", probability, step=0) * ones()) == expected).all()


def test_names_steps_and_seeds_make_a_difference() -> None:
    def drawn(seed: int, name: str, step: int) -> np.ndarray:
        wf.seed(seed)
        numbers = value(wf.random_uniform(name, step=step) * ones())
        wf.seed(0)
        return numbers

    first = drawn(0, "u", 0)
    np.testing.assert_array_equal(drawn(0, "u", 0), first)
    for other in (drawn(0, "u", 1), drawn(0, "v", 0), drawn(5, "u", 0)):
        assert abs(np.corrcoef(first, other)[0, 1]) < 0.03


def test_cells_do_not_repeat_from_step_to_step() -> None:
    i = wf.index("i", 5)
    drawn, ctx = wf.random_uniform("u", step=i) * ones(500), wf.Context("interp")
    step = ctx.compile(drawn.forward, bindings=[i])
    numbers = []
    for at in range(5):
        step(i=at)
        numbers.append(ctx[drawn])
    assert len(np.unique(np.stack(numbers))) > 2490


def test_dropout_follows_the_step_counter() -> None:
    i, ctx = wf.index("i", 10), wf.Context("interp")
    dropped = wf.dropout(wf.data(np.ones(1000)), 0.25, step=i)
    step = ctx.compile(dropped.forward, bindings=[i])
    masks = {}
    for at in (3, 4, 3):
        step(i=at)
        now = ctx[dropped]
        np.testing.assert_array_equal(now, masks.setdefault(at, now))
    assert (masks[3] != masks[4]).any()
    for mask in masks.values():
        np.testing.assert_allclose(np.unique(mask), [0.0, 1 / 0.75])
        assert abs((mask == 0).mean() - 0.25) < 0.06


def test_the_gradient_of_dropout_is_masked_alike() -> None:
    i, ctx = wf.index("i", 4), wf.Context("interp")
    x = double("x", o=200)
    ctx[x] = 1.0
    dropped = wf.dropout(x, 0.5, step=i)
    loss = wf.einsum("...|... => 0", dropped)
    step = ctx.compile(wf.grad_update(loss), bindings=[i], keep=[x.grad, dropped])
    for at in range(4):
        step(i=at)
        np.testing.assert_array_equal(ctx[x.grad], ctx[dropped])
        assert set(ctx[dropped].tolist()) == {0.0, 2.0}


def test_a_rate_of_zero_drops_nothing() -> None:
    assert (value(wf.dropout(wf.data(ONES), 0.0, step=0)) == 1.0).all()


@pytest.mark.parametrize("name", ["i", "i0", "i1", "j"])
def test_a_step_counter_may_be_called_like_a_loop(name: str) -> None:
    i, ctx = wf.index(name, 3), wf.Context("interp")
    drawn = wf.dropout(wf.data(np.ones((3, 4))), 0.5, step=i) * i
    step = ctx.compile(drawn.forward, bindings=[i])
    step(**{name: 2})
    np.testing.assert_array_equal(np.unique(ctx[drawn]), [0.0, 4.0])


def test_probabilities_and_rates_are_checked() -> None:
    with pytest.raises(wf.WeftError, match=r"a probability lies between 0 and 1, not 1\.5"):
        wf.bernoulli("c", 1.5, step=0)
    with pytest.raises(wf.WeftError, match=r"a dropout rate is at least 0 and below 1, not 1\.0"):
        wf.dropout(wf.number(1.0), 1.0, step=0)


@pytest.mark.parametrize(
    "draw",
    [
        lambda: wf.random_uniform("noise"),
        lambda: wf.random_standard_normal("noise"),
        lambda: wf.bernoulli("noise", 0.5),
        lambda: wf.dropout(wf.data(ONES, label="x"), 0.5, name="noise"),
    ],
)
def test_a_random_tensor_must_say_when_to_draw_anew(draw: Callable[[], wf.Tensor]) -> None:
    with pytest.raises(wf.WeftError, match=r"`noise.*` is random, and nothing says when to draw new numbers") as caught:
        draw()
    assert caught.value.fix == (
        'give step=n, with n = wf.counter("n"), which counts runs, or wf.index("n", steps), bound at each run; '
        "step=0 for the same numbers at every run"
    )


@pytest.mark.parametrize("backend", ["interp", "cc"])
def test_a_node_that_counts_drives_random_numbers(backend: str) -> None:
    """It gives the numbers that a static index at the same positions gives."""
    ctx, n, i = wf.Context(backend), wf.node("n", init=0.0, scalar=True), wf.index("i", 3)

    @wf.cd
    def count(n: wf.Tensor) -> None:
        n += 1

    wf.seed(3)
    counted = wf.random_uniform("u", step=n) * ones(4)
    wf.seed(3)
    indexed = wf.random_uniform("u", step=i) * ones(4)
    by_node = ctx.compile(wf.seq(counted.forward, count(n)))
    by_index = ctx.compile(indexed.forward, bindings=[i])
    draws = []
    for at in range(3):
        by_node()
        by_index(i=at)
        draws.append(ctx[counted])
        np.testing.assert_array_equal(draws[-1], ctx[indexed])
    assert len(np.unique(draws)) == 12


def test_first_values_may_be_drawn() -> None:
    wf.seed(0)
    p = wf.param("p", o=5, init=2 * wf.random_uniform("u", step=0) - 1)
    wf.seed(0)
    drawn = 2 * wf.random_uniform("u", step=0) * wf.data(np.ones(5, "float32")) - 1
    np.testing.assert_array_equal(value(p), value(drawn))


def test_numbers_that_were_read_before_they_met_a_larger_shape_are_not_stretched_over_it() -> None:
    """Unread they would be drawn for every place of it: what is read first must not decide what is computed."""
    many, row = wf.data(np.ones((4, 6)), batch=1, label="many"), wf.data(np.ones(6), label="row")
    for read in (
        lambda noise: noise * 2,
        lambda noise: noise + wf.random_uniform("more", step=0),
        lambda noise: noise * row,
    ):
        noise = wf.random_uniform("noise", step=0)
        value = read(noise)
        assert str((value + many).dims) == "4|6"
        assert str(noise.dims) == "4|6"
        early = read(wf.random_uniform("noise", step=0))
        wf.Context("interp")[early]
        with pytest.raises(wf.ShapeError) as caught:
            early + many
        assert "its shape was decided before it met a larger one" in str(caught.value)
        assert "wf.Context(" in str(caught.value)
        assert "fix: write all that it is used with before asking for a value" in str(caught.value)
    constant = wf.constant(2.0) * 3
    wf.Context("interp")[constant]
    assert str((constant + many).dims) == "4|6"
