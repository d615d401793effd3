"""What a small training step costs, and what a call costs that does next to nothing: weft, jax.jit and PyTorch.

    python bench/overhead.py              a table, half a minute
    python bench/overhead.py --quick      fewer rounds
    python bench/overhead.py --compile    torch.compile too, which takes a minute to get ready

The step is a whole one: a perceptron of 2-16-16-1 with tanh, a batch of 32, mean squared error, gradients, gradient
descent. weft and jax.jit each run it as one call of compiled code; jax may reuse the memory of its parameters, and is
timed both waiting for each step and waiting only for the last of many. weft is timed as a routine on data it holds, and
as a function, which is handed its arrays and hands the loss back. PyTorch runs it operation by operation, on one
thread: more are slower here. First all must find the same losses.

A round is about a millisecond of each contestant in turn, so that a disturbance does not hit one alone; the best round
counts. The status is 1 if weft is not cheaper than jax.jit at its best, 2 if the peers are not installed.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from itertools import pairwise
from statistics import median
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import weft as wf

SIZES, BATCH, RATE = (2, 16, 16, 1), 32, 0.1
CHECKED = 20
ROUNDS, QUICK_ROUNDS = 2000, 300
ROUND_S = 1e-3
PEERS = ("jax", "torch")

Array = np.ndarray


# The problem


@dataclass(frozen=True, slots=True)
class Problem:
    """Points, what is wanted of them, and where the parameters start: a weight and a bias for each layer."""

    x: Array
    y: Array
    start: tuple[Array, ...]


def problem(seed: int = 0) -> Problem:
    random = np.random.default_rng(seed)
    x = random.normal(size=(BATCH, SIZES[0])).astype("float32")
    y = np.sin(2 * x[:, :1] * x[:, 1:]).astype("float32")
    start = []
    for inputs, outputs in pairwise(SIZES):
        start += [random.normal(0, inputs**-0.5, (outputs, inputs)), random.normal(0, 0.1, outputs)]
    return Problem(x, y, tuple(one.astype("float32") for one in start))


# Contestants


@dataclass(frozen=True, slots=True)
class Contestant:
    """Something that trains: `losses(n)` are those of the next n steps, `run(n)` makes n more and is timed."""

    name: str
    losses: Callable[[int], list[float]]
    run: Callable[[int], None]


def weft_loss(given: Problem, x: wf.Tensor, y: wf.Tensor) -> tuple[wf.Tensor, wf.Context]:
    """The loss, and a context in which its parameters have their first values."""
    params = [
        wf.param(f"{'wb'[at % 2]}{at // 2}", o=one.shape[:1], i=one.shape[1:]) for at, one in enumerate(given.start)
    ]
    h = x
    for weight, bias in zip(params[0:-2:2], params[1:-2:2], strict=True):
        h = wf.tanh(weight @ h + bias)
    error = params[-2] @ h + params[-1] - y
    loss = wf.einsum("...|... => 0", error * error, label="loss") / BATCH
    ctx = wf.Context("cc")
    for param, start in zip(params, given.start, strict=True):
        ctx[param] = start
    return loss, ctx


def weft_step(given: Problem) -> Contestant:
    loss, ctx = weft_loss(given, wf.data(given.x, batch=1, label="x"), wf.data(given.y, batch=1, label="y"))
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=RATE)))

    def losses(count: int) -> list[float]:
        found = []
        for _ in range(count):
            step()
            found.append(ctx[loss].item())
        return found

    def run(count: int) -> None:
        for _ in range(count):
            step()

    return Contestant("weft", losses, run)


def weft_function(given: Problem) -> Contestant:
    """The same step as a function: the arrays of each call are handed in, and the loss comes back."""
    x, y = wf.input("x", b="batch", o=SIZES[0]), wf.input("y", b="batch", o=1)
    loss, ctx = weft_loss(given, x, y)
    step = ctx.function(x, y, code=wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=RATE)), returns=loss)

    def run(count: int) -> None:
        for _ in range(count):
            step(given.x, given.y)

    return Contestant("weft, as a function", lambda count: [step(given.x, given.y).item() for _ in range(count)], run)


def jax_steps(given: Problem) -> list[Contestant]:
    import jax
    import jax.numpy as jnp

    def loss_of(params: Sequence[Array], x: Array, y: Array) -> Array:
        h = x
        for weight, bias in zip(params[0:-2:2], params[1:-2:2], strict=True):
            h = jnp.tanh(h @ weight.T + bias)
        error = h @ params[-2].T + params[-1] - y
        return jnp.sum(error * error) / BATCH

    def step(params: list[Array], x: Array, y: Array) -> tuple[list[Array], Array]:
        loss, slopes = jax.value_and_grad(loss_of)(params, x, y)
        return [param - RATE * slope for param, slope in zip(params, slopes, strict=True)], loss

    jitted = jax.jit(step, donate_argnums=0)
    x, y = jnp.asarray(given.x), jnp.asarray(given.y)

    def contestant(name: str, waits: bool) -> Contestant:
        state = [jnp.array(one) for one in given.start]

        def losses(count: int) -> list[float]:
            nonlocal state
            found = []
            for _ in range(count):
                state, loss = jitted(state, x, y)
                found.append(float(loss))
            return found

        def run(count: int) -> None:
            nonlocal state
            for _ in range(count):
                state, loss = jitted(state, x, y)
                if waits:
                    loss.block_until_ready()
            jax.block_until_ready(state)

        return Contestant(name, losses, run)

    return [contestant("jax.jit", True), contestant("jax.jit, waiting for the last only", False)]


def torch_steps(given: Problem, compiled: bool) -> list[Contestant]:
    import torch

    torch.set_num_threads(1)
    x, y = torch.from_numpy(given.x), torch.from_numpy(given.y)

    def contestant(name: str, prepare: Callable[..., Callable[..., torch.Tensor]]) -> Contestant:
        params = [torch.tensor(one, requires_grad=True) for one in given.start]
        optimizer = torch.optim.SGD(params, lr=RATE)

        def loss_of() -> torch.Tensor:
            h = x
            for weight, bias in zip(params[0:-2:2], params[1:-2:2], strict=True):
                h = torch.tanh(torch.nn.functional.linear(h, weight, bias))
            error = torch.nn.functional.linear(h, params[-2], params[-1]) - y
            return (error * error).sum() / BATCH

        prepared = prepare(loss_of)

        def step() -> torch.Tensor:
            optimizer.zero_grad()
            loss = prepared()
            loss.backward()
            optimizer.step()
            return loss

        def losses(count: int) -> list[float]:
            return [step().item() for _ in range(count)]

        def run(count: int) -> None:
            for _ in range(count):
                step()

        return Contestant(name, losses, run)

    found = [contestant("PyTorch", lambda function: function)]
    return [*found, contestant("torch.compile", torch.compile)] if compiled else found


def check(contestants: Sequence[Contestant]) -> None:
    """All train alike, or there is nothing to compare."""
    ours, *others = [(one.name, one.losses(CHECKED)) for one in contestants]
    for name, found in others:
        np.testing.assert_allclose(found, ours[1], rtol=1e-3, err_msg=f"the losses of {name} are not weft's")
    assert ours[1][-1] < ours[1][0], f"the loss does not fall: {ours[1]}"


# Calls


def calls() -> dict[str, Callable[[int], None]]:
    """Calls that add one to four numbers, or in jax's case do nothing at all."""
    import jax
    import jax.numpy as jnp
    import torch

    x, ctx = wf.data(np.ones(4, "float32"), label="x"), wf.Context("cc")
    routine = ctx.compile((x + 1.0).forward)
    identity, of_jax = jax.jit(lambda value: value), jnp.ones(4)
    of_torch, one, out = torch.ones(4), torch.ones(4), torch.empty(4)

    def weft(count: int) -> None:
        for _ in range(count):
            routine()

    def of_jit(count: int) -> None:
        for _ in range(count):
            identity(of_jax).block_until_ready()

    def add(count: int) -> None:
        for _ in range(count):
            torch.add(of_torch, one, out=out)

    return {"weft": weft, "jax.jit of nothing": of_jit, "torch.add": add}


# Measuring


@dataclass(slots=True)
class Figure:
    """Microseconds of one step or call, round by round."""

    rounds: list[float] = field(default_factory=list)

    @property
    def best(self) -> float:
        return min(self.rounds)

    @property
    def middle(self) -> float:
        return median(self.rounds)


def measure(runs: dict[str, Callable[[int], None]], rounds: int) -> dict[str, Figure]:
    figures = {name: Figure() for name in runs}
    counts = {name: round_of(run) for name, run in runs.items()}
    gc.collect()
    gc.disable()
    try:
        for _ in track(range(rounds), "measuring", console=Console(stderr=True), transient=True):
            for name, run in runs.items():
                figures[name].rounds.append(1e6 * seconds(run, counts[name]) / counts[name])
    finally:
        gc.enable()
    return figures


def round_of(run: Callable[[int], None]) -> int:
    """How many make a round."""
    run(100)
    return max(1, round(ROUND_S / min(seconds(run, 20) / 20 for _ in range(20))))


def seconds(run: Callable[[int], None], count: int) -> float:
    start = perf_counter()
    run(count)
    return perf_counter() - start


# Reporting


def table(title: str, figures: dict[str, Figure]) -> Table:
    grid = Table(title=title)
    grid.add_column("", no_wrap=True)
    for heading in ("best, µs", "median, µs", "× weft's best"):
        grid.add_column(heading, justify="right", no_wrap=True)
    ours = figures["weft"].best
    for name, figure in figures.items():
        grid.add_row(name, f"{figure.best:.2f}", f"{figure.middle:.2f}", f"{figure.best / ours:.2f}")
    return grid


def verdict(what: str, figures: dict[str, Figure]) -> tuple[bool, str]:
    """Is weft cheaper than the cheapest jax.jit? And that in words."""
    peer = min((name for name in figures if name.startswith("jax.jit")), key=lambda name: figures[name].best)
    ours, theirs = figures["weft"].best, figures[peer].best
    word = "cheaper than" if ours < theirs else "NOT CHEAPER THAN"
    return ours < theirs, f"a {what} of weft costs {ours:.2f} µs: {word} {peer}, {theirs:.2f} µs"


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_ROUNDS} rounds, not {ROUNDS}")
    parser.add_argument("--compile", action="store_true", help="measure torch.compile too")
    arguments = parser.parse_args()
    if missing := [name for name in PEERS if find_spec(name) is None]:
        print(f'{" and ".join(missing)} not installed: pip install "weft[bench]"', file=sys.stderr)
        return 2
    os.environ.setdefault("JAX_PLATFORMS", "cpu")
    given, rounds = problem(), QUICK_ROUNDS if arguments.quick else ROUNDS
    contestants = [weft_step(given), weft_function(given), *jax_steps(given), *torch_steps(given, arguments.compile)]
    check(contestants)
    steps = measure({one.name: one.run for one in contestants}, rounds)
    single = measure(calls(), rounds)
    console = Console(width=120 if not sys.stdout.isatty() else None)
    shape = "-".join(map(str, SIZES))
    console.print(table(f"a training step of a {shape} perceptron, batch {BATCH}", steps))
    console.print(table("a call that does next to nothing", single))
    verdicts = [verdict("step", steps), verdict("call", single)]
    for passed, text in verdicts:
        console.print(text, style="green" if passed else "bold red", highlight=False)
    return 0 if all(passed for passed, _ in verdicts) else 1


if __name__ == "__main__":
    sys.exit(main())
