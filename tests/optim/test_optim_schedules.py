"""Schedules beside plain Python, run by run."""

from __future__ import annotations

from collections.abc import Callable
from math import cos, pi

import numpy as np
import pytest

import weft as wf

N = wf.counter("n")
RUNS = 14


def values(schedule: wf.Tensor, runs: int = RUNS) -> list[float]:
    """What a schedule is in each run of code that uses it."""
    ctx, used, one = wf.Context("interp"), wf.node("used"), wf.data(np.ones(1), label="one")

    @wf.cd
    def use() -> None:
        used[:] = schedule * one

    step = ctx.compile(use())
    found = []
    for _ in range(runs):
        step()
        found.append(ctx[used].item())
    return found


def _between(n: int, start: float, end: float, first: float, last: float) -> float:
    share = min((n - first) / (last - first), 1.0)
    return end + (start - end) / 2 * (1 + cos(pi * share))


CASES: dict[str, tuple[Callable[[], wf.Tensor], Callable[[int], float]]] = {
    "constant": (lambda: wf.optim.constant(0.3), lambda n: 0.3),
    "linear": (lambda: wf.optim.linear(N, 0.8, 10, final=0.2), lambda n: 0.8 - 0.06 * min(n, 10)),
    "cosine": (
        lambda: wf.optim.cosine(N, 0.5, steps=8, final=0.1),
        lambda n: 0.1 + 0.4 * (1 + cos(pi * min(n, 8) / 8)) / 2,
    ),
    "to nothing": (lambda: wf.optim.cosine(N, 0.5, steps=8), lambda n: 0.5 * cos(pi * min(n, 8) / 16) ** 2),
    "step": (lambda: wf.optim.step(N, 2.0, every=3, factor=0.5), lambda n: 2.0 / 2 ** (n // 3)),
    "warm_up": (lambda: wf.optim.warm_up(N, 0.4, steps=4), lambda n: 0.1 * min(n + 1, 4)),
    "warm_up of a schedule": (
        lambda: wf.optim.warm_up(N, wf.optim.linear(N, 1.0, 20), steps=5),
        lambda n: (1 - n / 20) * min(n + 1, 5) / 5,
    ),
    "one_cycle": (  # as PyTorch's, with its divisors 25 and 10000
        lambda: wf.optim.one_cycle(N, 0.1, steps=12, rise=0.25),
        lambda n: _between(n, 0.1 / 25, 0.1, 0, 2) if n <= 2 else _between(n, 0.1, 0.1 / 25 / 1e4, 2, 11),
    ),
    "join": (
        lambda: wf.optim.join(N, [wf.optim.warm_up(N, 0.4, 4), 0.7, wf.optim.linear(N - 9, 0.5, 10)], at=[4, 9]),
        lambda n: 0.1 * (n + 1) if n < 4 else 0.7 if n < 9 else 0.5 - 0.05 * (n - 9),
    ),
    "join of numbers": (lambda: wf.optim.join(N, [0.1, 0.2], at=[3]), lambda n: 0.1 if n < 3 else 0.2),
    "product": (
        lambda: wf.optim.step(N, 2.0, every=3) * wf.optim.linear(N, 1.0, 20),
        lambda n: 2.0 * 0.1 ** (n // 3) * (1 - n / 20),
    ),
}


@pytest.mark.parametrize("case", CASES)
def test_a_schedule(case: str) -> None:
    schedule, expected = CASES[case]
    np.testing.assert_allclose(values(schedule()), [expected(n) for n in range(RUNS)], rtol=1e-12, atol=1e-15)


def test_a_schedule_prints_as_a_formula() -> None:
    rate = wf.optim.step(N, 0.1, every=30)
    assert str(rate.forward) == "step =: 0.1 *. (0.1 ** (n // 30))"
    loss = wf.einsum("i => 0", wf.param("w", o=2) ** 2)
    assert "w =- step *. sgd.delta.w" in str(wf.optim.sgd(loss, lr=rate))


def test_a_rate_follows_its_schedule_in_compiled_code_and_can_be_returned() -> None:
    x = wf.input("x", b="batch", o=1)
    w = wf.param("w", o=1, init=0.0)
    loss = wf.mean(w + 0.0 * x, "...|... => 0")
    rate, ctx = wf.optim.warm_up(N, 1.0, steps=4), wf.Context("cc")
    code = wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=rate))
    step = ctx.function(x, code=code, returns={"rate": rate, "w": w})
    found = [step(np.ones((1 + run % 2, 1), "float32")) for run in range(5)]
    np.testing.assert_allclose([one["rate"].item() for one in found], [0.25, 0.5, 0.75, 1.0, 1.0])
    np.testing.assert_allclose([-one["w"].item() for one in found], [0.25, 0.75, 1.5, 2.5, 3.5])


WRONG: dict[str, tuple[Callable[[], object], str, str]] = {
    "no counter": (
        lambda: wf.optim.cosine(3, 0.1, steps=10),  # type: ignore[arg-type]
        "cosine takes a counter first, not 3",
        'write n = wf.counter("n"); wf.optim.cosine(n, …)',
    ),
    "no runs": (
        lambda: wf.optim.linear(N, 0.1, steps=0),
        "steps= takes a whole number of runs from 1 on, not 0",
        "write steps=1000",
    ),
    "half a run": (
        lambda: wf.optim.step(N, 0.1, every=2.5),  # type: ignore[arg-type]
        "every= takes a whole number of runs from 1 on, not 2.5",
        "write every=1000",
    ),
    "no rate": (
        lambda: wf.optim.warm_up(N, "fast", steps=3),  # type: ignore[arg-type]
        "lr is a number, an expression of a counter or a tensor, not 'fast'",
        "write lr=1e-3, or a schedule: lr=wf.optim.cosine(n, 1e-3, steps=1000)",
    ),
    "no room to rise": (
        lambda: wf.optim.one_cycle(N, 0.1, steps=3),
        "one_cycle of 3 runs cannot rise in 0.3 of them",
        "give more steps, or rise= between 0 and 1 so that two runs or more go up",
    ),
    "too few joints": (
        lambda: wf.optim.join(N, [0.1, 0.2], at=[]),
        "2 schedules are joined in 1 runs, and at= names 0",
        "name the first run of each but the first",
    ),
    "joints that fall": (
        lambda: wf.optim.join(N, [0.1, 0.2, 0.3], at=[5, 4]),
        "the runs at which schedules begin grow, and [5, 4] do not",
        "sort them",
    ),
    "an argument of another library": (
        lambda: wf.optim.cosine(N, 0.1, T_max=10),  # type: ignore[call-arg]
        "`cosine` has no argument `T_max`",
        "call it cosine(step, lr, steps, [final=…])",
    ),
}


@pytest.mark.parametrize("case", WRONG)
def test_wrong_use_is_told(case: str) -> None:
    wrong, what, fix = WRONG[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert (caught.value.what, caught.value.fix) == (what, fix)
