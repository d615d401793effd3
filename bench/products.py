"""How fast products run on one core, in billions of floating-point operations a second: weft, NumPy and PyTorch.

    python bench/products.py              a table, two minutes
    python bench/products.py --quick      less time for each
    python bench/products.py --only 64x   shapes whose names contain that

Shapes are rows x sums x columns. `A B` has both matrices row by row, `A Bt` the second turned around, as a layer has
its weights, `At B` the first, as in the gradient of weights; `layer` is `A Bt` with a bias and relu. Some shapes were
used while tiles were chosen and some were held out. Convolutions and attention come as what frameworks call them.

All find the same numbers first. A round is half a millisecond of each contestant in turn, so that a disturbance does
not hit one alone; the best round counts. Everybody has one thread and writes into memory of its own. The status is 1 if
weft is slower than the faster peer anywhere, 2 if the peers are not installed.
"""

from __future__ import annotations

import argparse
import gc
import os
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from math import prod
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import weft as wf

#: What NumPy and PyTorch read when they are imported.
ONE_THREAD = dict.fromkeys(("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), "1")
CASE_S, QUICK_CASE_S = 3.0, 0.5
ROUND_S = 5e-4

TUNED = [(64, 784, 256), (64, 256, 128), (256, 256, 256), (512, 128, 512), (1024, 1024, 1024)]
HELD_OUT = [
    *[(96, 768, 768), (100, 300, 200), (333, 517, 261), (32, 1024, 1024), (10, 64, 10), (1, 1024, 1024)],
    *[(2000, 64, 10), (128, 512, 512), (768, 768, 3072), (17, 33, 65), (1500, 1500, 1500)],
]
KINDS = {"A B": "ik;kj=>ij", "A Bt": "ik;jk=>ij", "At B": "ki;kj=>ij", "layer": "ik;jk=>ij"}

Array = Any


@dataclass(frozen=True)
class Case:
    """A computation by three who can do it: each makes a function of no arguments that leaves a result."""

    name: str
    flops: int
    weft: Callable[[], Callable[[], Any]]
    numpy: Callable[[], Callable[[], Any]] | None
    torch: Callable[[], Callable[[], Any]]


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng([seed, *shape]).normal(size=shape).astype("float32")


def compiled(tensor: wf.Tensor) -> Callable[[], Callable[[], Array]]:
    """weft's way to compute a tensor again and again."""

    def make() -> Callable[[], Array]:
        ctx = wf.Context("cc")
        routine = ctx.compile(tensor.forward)

        def run() -> Array:
            routine()
            return lambda: ctx[tensor]

        return run

    return make


def matrices(kind: str, rows: int, depth: int, columns: int) -> Case:
    a = numbers(*((depth, rows) if kind == "At B" else (rows, depth)), seed=1)
    b = numbers(*((columns, depth) if kind in ("A Bt", "layer") else (depth, columns)), seed=2)
    bias = numbers(columns, seed=3)
    tensor = wf.einsum(KINDS[kind], wf.data(a, label="a"), wf.data(b, label="b"), label="c")
    if kind == "layer":
        tensor = wf.relu(tensor + wf.data(bias, label="bias"))
    left = a.T if kind == "At B" else a
    right = b.T if kind in ("A Bt", "layer") else b

    def by_numpy() -> Callable[[], Array]:
        out = np.empty((rows, columns), "float32")

        def run() -> Array:
            np.matmul(left, right, out=out)
            if kind == "layer":
                np.add(out, bias, out=out)
                np.maximum(out, 0, out=out)
            return lambda: out

        return run

    def by_torch() -> Callable[[], Array]:
        import torch

        one, other, more = torch.from_numpy(left), torch.from_numpy(right), torch.from_numpy(bias)
        out = torch.empty(rows, columns)

        def run() -> Array:
            if kind == "layer":
                torch.addmm(more, one, other, out=out).relu_()
            else:
                torch.mm(one, other, out=out)
            return lambda: out.numpy()

        return run

    flops = 2 * rows * depth * columns
    return Case(f"{rows}x{depth}x{columns} {kind}", flops, compiled(tensor), by_numpy, by_torch)


def attention(heads: int, length: int, depth: int) -> list[Case]:
    """The two products of attention."""
    q, k, v = (numbers(heads, length, depth, seed=seed) for seed in (4, 5, 6))
    weights = numbers(heads, length, length, seed=7)
    one, other, third = (wf.data(x, batch=2, label=name) for x, name in ((q, "q"), (k, "k"), (v, "v")))
    scores = wf.einsum("h t | d; h s | d => h t | s", one, other, label="scores")
    mixed = wf.einsum("h t | s; h s | d => h t | d", wf.data(weights, batch=2, label="w"), third, label="mixed")
    flops = 2 * heads * length * length * depth

    def batched(x: Array, y: Array) -> tuple[Callable[[], Callable[[], Array]], Callable[[], Callable[[], Array]]]:
        def by_numpy() -> Callable[[], Array]:
            out = np.empty((heads, x.shape[1], y.shape[2]), "float32")
            return lambda: [np.matmul(x, y, out=out), lambda: out][1]

        def by_torch() -> Callable[[], Array]:
            import torch

            first, second = torch.from_numpy(x), torch.from_numpy(y)
            out = torch.empty(heads, x.shape[1], y.shape[2])
            return lambda: [torch.bmm(first, second, out=out), lambda: out.numpy()][1]

        return by_numpy, by_torch

    name = f"{heads}x{length}x{depth}"
    return [
        Case(f"{name} scores", flops, compiled(scores), *batched(q, k.transpose(0, 2, 1))),
        Case(f"{name} mixed", flops, compiled(mixed), *batched(weights, v)),
    ]


def convolution(batch: int, inputs: int, outputs: int, size: int, kernel: int) -> Case:
    x, w = numbers(batch, inputs, size, size, seed=8), numbers(outputs, inputs, kernel, kernel, seed=9)
    spec = "b | c, 1*o<+k, 1*p<+l; d, c, k, l => b | d, o, p"
    tensor = wf.einsum(spec, wf.data(x, batch=1, label="x"), wf.data(w, label="w"), label="y")

    def by_torch() -> Callable[[], Array]:
        import torch

        one, other = torch.from_numpy(x), torch.from_numpy(w)

        def run() -> Array:
            found = torch.nn.functional.conv2d(one, other)
            return lambda: found.numpy()

        return run

    flops = 2 * batch * outputs * (size - kernel + 1) ** 2 * inputs * kernel**2
    name = f"{batch}x{inputs}x{size}x{size} conv {outputs}x{kernel}x{kernel}"
    return Case(name, flops, compiled(tensor), None, by_torch)


def cases() -> list[Case]:
    found = [matrices("A B", *shape) for shape in (*TUNED, *HELD_OUT)]
    found += [matrices("A Bt", *shape) for shape in [(1024, 1024, 1024), (1, 1024, 1024), (17, 33, 65), (2000, 64, 10)]]
    found += [matrices("At B", *shape) for shape in [(1024, 1024, 1024), (784, 64, 256), (333, 517, 261)]]
    shapes = [(64, 784, 256), (1024, 1024, 1024), (32, 1024, 1024), (100, 300, 200), (8, 512, 2048), (64, 256, 10)]
    found += [matrices("layer", *shape) for shape in shapes]
    found += [*attention(8, 128, 64), *attention(4, 256, 32)]
    return [*found, convolution(8, 16, 32, 32, 3), convolution(4, 3, 16, 64, 5)]


# Measuring


def check(name: str, runs: dict[str, Callable[[], Any]]) -> None:
    """All find the same, or there is nothing to compare."""
    ours, *others = [(who, run()()) for who, run in runs.items()]
    largest = np.abs(ours[1]).max()
    for who, found in others:
        np.testing.assert_allclose(found, ours[1], rtol=0, atol=2e-5 * largest, err_msg=f"{name}: {who} is not weft")


def measure(runs: dict[str, Callable[[], Any]], limit: float) -> dict[str, float]:
    """The best seconds of each, in rounds until time is up."""
    best = dict.fromkeys(runs, float("inf"))
    counts = {who: max(1, round(ROUND_S / min(seconds(run, 1) for _ in range(3)))) for who, run in runs.items()}
    end = perf_counter() + limit
    gc.collect()
    gc.disable()
    try:
        while perf_counter() < end:
            for who, run in runs.items():
                best[who] = min(best[who], seconds(run, counts[who]) / counts[who])
    finally:
        gc.enable()
    return best


def seconds(run: Callable[[], Any], count: int) -> float:
    start = perf_counter()
    for _ in range(count):
        run()
    return perf_counter() - start


def table(found: Sequence[tuple[Case, dict[str, float]]]) -> Table:
    grid = Table(title="one core, GF/s")
    grid.add_column("", no_wrap=True)
    for heading in ("weft", "NumPy", "PyTorch", "weft / best peer"):
        grid.add_column(heading, justify="right", no_wrap=True)
    for case, best in found:
        speeds = {who: case.flops / one * 1e-9 for who, one in best.items()}
        shown = [f"{speeds[who]:.1f}" if who in speeds else "" for who in ("weft", "NumPy", "PyTorch")]
        grid.add_row(case.name, *shown, f"{ratio(best):.2f}")
    return grid


def ratio(best: dict[str, float]) -> float:
    """How many times as fast as the faster peer weft is."""
    return min(one for who, one in best.items() if who != "weft") / best["weft"]


def verdict(found: Sequence[tuple[str, float]]) -> tuple[bool, str]:
    """Is weft nowhere slower? And that in words, with the mean of all."""
    slower = [f"{name} ({one:.2f})" for name, one in found if one < 1]
    mean = prod(one for _, one in found) ** (1 / len(found))
    said = f"weft is {mean:.2f} times as fast as the faster peer in the mean"
    return not slower, said + (f", and SLOWER at {', '.join(slower)}" if slower else ", and nowhere slower")


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help=f"{QUICK_CASE_S} s for each, not {CASE_S}")
    parser.add_argument("--only", default="", help="shapes whose names contain this")
    arguments = parser.parse_args()
    if find_spec("torch") is None:
        print('torch not installed: pip install "weft[bench]"', file=sys.stderr)
        return 2
    if not ONE_THREAD.items() <= os.environ.items():
        os.execve(sys.executable, [sys.executable, *sys.argv], {**os.environ, **ONE_THREAD})
    import torch

    torch.set_num_threads(1)
    chosen = [case for case in cases() if arguments.only in case.name]
    found = []
    for case in track(chosen, "measuring", console=Console(stderr=True), transient=True):
        makers = {"weft": case.weft, "NumPy": case.numpy, "PyTorch": case.torch}
        runs = {who: make() for who, make in makers.items() if make}
        check(case.name, runs)
        found.append((case, measure(runs, QUICK_CASE_S if arguments.quick else CASE_S)))
    console = Console(width=120 if not sys.stdout.isatty() else None)
    console.print(table(found))
    passed, text = verdict([(case.name, ratio(best)) for case, best in found])
    console.print(text, style="green" if passed else "bold red", highlight=False)
    return 0 if passed else 1


if __name__ == "__main__":
    sys.exit(main())
