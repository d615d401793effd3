"""What recurrences cost, against PyTorch's `nn.LSTM` and `cumsum`: one thread each, in turns.

    python bench/scans.py            a table, a minute
    python bench/scans.py --quick    fewer rounds, fewer sizes
    python bench/scans.py --compile  what compiling costs from nothing, for few steps and for many

The same LSTM, forwards and with its gradients, and sums along either axis of a matrix. Each round runs weft and then
PyTorch, so that a disturbance does not hit one alone; the best round counts. A ratio above 1 says that weft is faster.
"compile" is what compiling both took: with an empty cache it does not depend on the number of steps. `--compile` shows
that, in processes and with caches of their own: the ratio is to be 1.2 at most.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
from collections.abc import Callable
from tempfile import TemporaryDirectory
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.table import Table

import weft as wf

#: Steps, examples, features of the input, features of the state.
SIZES = ((100, 32, 128, 128), (1000, 32, 128, 128), (100, 1, 128, 128), (50, 64, 256, 256))
#: Few steps and many, that take as long to compile; and in how many rounds the best counts.
FEW, MANY, COMPILATIONS = 10, 1000, 5
MATRICES = ((1000, 1000), (64, 100_000))
ROUNDS, QUICK_ROUNDS = 20, 5

Run = Callable[[], object]


def lstm(steps: int, examples: int, features: int, state: int) -> tuple[Run, Run, float]:
    """An LSTM of weft: forwards, with its gradients, and how long both took to compile."""
    xs = wf.data(_numbers(steps, examples, features), batch=2, label="xs")
    zero = wf.data(np.zeros((examples, state), np.float32), batch=1, label="zero")
    w, u = (wf.param(name, i=size, o=[4, state]) for name, size in (("w", features), ("u", state)))
    b = wf.param("b", o=[4, state])

    def cell(carry: tuple[wf.Tensor, wf.Tensor], x: wf.Tensor) -> tuple[wf.Tensor, wf.Tensor]:
        h, c = carry
        z = w @ x + u @ h + b
        add, forget, new, give = (wf.einsum(f"...|{gate}, j => ...|j", z) for gate in range(4))
        c = wf.sigmoid(forget) * c + wf.sigmoid(add) * wf.tanh(new)
        return wf.sigmoid(give) * wf.tanh(c), c

    (hs, _), _ = wf.scan(cell, xs, init=(zero, zero))
    ctx, began = wf.Context("cc"), perf_counter()
    forwards = ctx.compile(hs.forward)
    both = ctx.compile(wf.grad_update(wf.einsum("...|... => 0", hs)))
    return forwards, both, perf_counter() - began


def torch_lstm(steps: int, examples: int, features: int, state: int) -> tuple[Run, Run]:
    """The same of PyTorch."""
    import torch

    torch.set_num_threads(1)
    model = torch.nn.LSTM(features, state)
    xs = torch.from_numpy(_numbers(steps, examples, features))

    def forwards() -> object:
        with torch.no_grad():
            return model(xs)

    def both() -> object:
        model.zero_grad()
        return model(xs)[0].sum().backward()

    return forwards, both


def cumsum(rows: int, columns: int, spec: str) -> Run:
    """Sums along an axis by weft."""
    x = wf.data(_numbers(rows, columns), label="x")
    return wf.Context("cc").compile(wf.cumsum(x, spec).forward)


def torch_cumsum(rows: int, columns: int, axis: int) -> Run:
    import torch

    torch.set_num_threads(1)
    x = torch.from_numpy(_numbers(rows, columns))
    return lambda: torch.cumsum(x, axis)


def _numbers(*shape: int) -> np.ndarray:
    return np.random.default_rng(0).normal(size=shape).astype(np.float32)


def _best(rounds: int, *runs: Run) -> list[float]:
    """The best time of each, in ms, all in turns."""
    found = [float("inf")] * len(runs)
    for one in runs:
        one()
    for _ in range(rounds):
        for at, one in enumerate(runs):
            began = perf_counter()
            one()
            found[at] = min(found[at], 1e3 * (perf_counter() - began))
    return found


def compile_from_nothing(steps: int) -> float:
    """How long a process that finds nothing compiled takes to compile the LSTM, in seconds."""
    with TemporaryDirectory() as folder:
        command = [sys.executable, __file__, "--steps", str(steps)]
        done = subprocess.run(
            command, env={**os.environ, "WEFT_CACHE": folder}, stdout=subprocess.PIPE, text=True, check=True
        )
    return float(done.stdout)


def show_compile_times() -> None:
    """A table of what compiling costs, few steps and many in turns."""
    table = Table("lstm {}×{}, {} to {}, forwards and with gradients".format("…", *SIZES[0][1:]), "compile, s", "ratio")
    rounds = [(compile_from_nothing(FEW), compile_from_nothing(MANY)) for _ in range(COMPILATIONS)]
    few, many = (min(times) for times in zip(*rounds, strict=True))
    table.add_row(f"{FEW} steps", f"{few:.2f}", "")
    table.add_row(f"{MANY} steps", f"{many:.2f}", f"{many / few:.2f}")
    Console().print(table)


def main() -> None:
    wf.config.threads = 1
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, fewer sizes")
    parser.add_argument("--compile", action="store_true", help="what compiling costs from nothing")
    parser.add_argument("--steps", type=int, help="compile an LSTM of so many steps, and print how long that took")
    options = parser.parse_args()
    if options.steps:
        print(lstm(options.steps, *SIZES[0][1:])[2])
        return
    if options.compile:
        show_compile_times()
        return
    rounds, sizes = (QUICK_ROUNDS, SIZES[:1]) if options.quick else (ROUNDS, SIZES)
    table = Table("", "weft, ms", "torch, ms", "ratio", "compile, s")
    for size in sizes:
        forwards, both, compiled = lstm(*size)
        theirs = torch_lstm(*size)
        name = "lstm {}×{}, {} to {}".format(*size)
        for kind, mine, other in (("forwards", forwards, theirs[0]), ("with gradients", both, theirs[1])):
            ours, torchs = _best(rounds, mine, other)
            table.add_row(f"{name}, {kind}", f"{ours:.2f}", f"{torchs:.2f}", f"{torchs / ours:.2f}", f"{compiled:.1f}")
    for rows, columns in MATRICES[:1] if options.quick else MATRICES:
        for axis, spec in enumerate(("i, j => j", "i, j => i")):
            ours, torchs = _best(rounds, cumsum(rows, columns, spec), torch_cumsum(rows, columns, axis))
            name = f"cumsum {rows}×{columns}, axis {axis}"
            table.add_row(name, f"{ours:.2f}", f"{torchs:.2f}", f"{torchs / ours:.2f}", "")
    Console().print(table)


if __name__ == "__main__":
    main()
