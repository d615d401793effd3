"""What accumulations cost: sums of exponentials, moments, positions, the largest few, in order; weft and PyTorch.

    python bench/reductions.py              a table, half a minute
    python bench/reductions.py --rows 64    fewer rows

Each reduces the rows of a matrix of single precision, 1000 numbers each, on one thread. First both must find the same;
rounds go in turn, and the best one counts. Without PyTorch weft is timed alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Callable
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

import weft as wf

COLUMNS, ROUNDS = 1000, 30


def ours(x: wf.Tensor) -> dict[str, wf.Tensor]:
    accumulations = {
        name: wf.einsum("b|i => b", x, accum=name) for name in ("logsumexp", "mean", "var", "argmax", "max")
    }
    functions = {"softmax": wf.softmax(x), "log_softmax": wf.log_softmax(x), "softplus": wf.softplus(x)}
    return {**accumulations, **functions, "top 4": wf.top_k(x, 4)[1], "sort": wf.sort(x)}


def theirs(array: np.ndarray) -> dict[str, Callable[[], np.ndarray]]:
    """PyTorch's functions of the same names, if it is installed."""
    try:
        import torch
    except ImportError:
        return {}
    torch.set_num_threads(1)
    x = torch.from_numpy(array)
    found = {
        "logsumexp": lambda: torch.logsumexp(x, 1),
        "mean": lambda: x.mean(1),
        "var": lambda: x.var(1, unbiased=False),
        "argmax": lambda: x.argmax(1),
        "max": lambda: x.amax(1),
        "softmax": lambda: torch.softmax(x, 1),
        "log_softmax": lambda: torch.log_softmax(x, 1),
        "softplus": lambda: torch.nn.functional.softplus(x),
        "top 4": lambda: x.topk(4).indices,
        "sort": lambda: x.sort().values,
    }
    return {name: (lambda call=call: call().numpy()) for name, call in found.items()}


def best(run: Callable[[], object], rounds: int) -> float:
    times = []
    for _ in range(rounds):
        start = perf_counter()
        run()
        times.append(perf_counter() - start)
    return 1e3 * min(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=int, default=1024)
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    given = parser.parse_args()
    array = np.random.default_rng(0).standard_normal((given.rows, COLUMNS)).astype("float32")
    ctx, peers = wf.Context("cc"), theirs(array)
    table = Table("", "weft, ms", "PyTorch, ms", title=f"{given.rows} rows of {COLUMNS} numbers, one thread")
    for name, tensor in ours(wf.data(array, batch=1, label="x")).items():
        step = ctx.compile(tensor.forward)
        step()
        if name in peers:
            np.testing.assert_allclose(np.asarray(ctx[tensor]).ravel(), peers[name]().ravel(), rtol=1e-4, atol=1e-5)
        mine, other = (best(run, given.rounds) if run else None for run in (step, peers.get(name)))
        table.add_row(name, f"{mine:.3f}", f"{other:.3f}" if other is not None else "")
    Console().print(table)


if __name__ == "__main__":
    main()
