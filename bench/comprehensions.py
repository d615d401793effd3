"""Comprehensions against PyTorch: the kernels that made the language known, with weft's own schedule and tuned.

    python bench/comprehensions.py                    a table: weft's default schedule, and tuned for 10 s each
    python bench/comprehensions.py --quick            fewer rounds, not tuned
    python bench/comprehensions.py --seconds 60       tune longer
    python bench/comprehensions.py --only tmm moments

Transposed and batched transposed products, a group convolution, sums of rows of one and of two tables, one and three
dense layers, group norm, moments. PyTorch runs its own operations, on as many threads as it likes and on one. First all
must agree. A round is some calls of each contestant in turn; the best round counts. Times are of whole calls, arrays
in, arrays out. A ratio above 1 means that weft takes less time.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import weft as wf

ROUNDS, QUICK_ROUNDS = 60, 10
ROUND_S = 5e-3
TUNE_S = 10.0

TEXT = """
def tmm(float(M,K) A, float(N,K) B) -> (C) {
    C(m,n) +=! A(m,k) * B(n,k)
}
def tbmm(float(B,N,M) X, float(B,K,M) Y) -> (Z) {
    Z(b,n,k) +=! X(b,n,m) * Y(b,k,m)
}
def group_convolution(float(N,G,C,H,W) I, float(G,F,C,KH,KW) W1, float(G,F) B) -> (O) {
    O(n,g,f,h,w) +=! I(n,g,c,h+kh,w+kw) * W1(g,f,c,kh,kw)
    O(n,g,f,h,w) = O(n,g,f,h,w) + B(g,f)
}
def lut1(float(E,D) T, int64(B,L) I) -> (O) {
    O(b,d) +=! T(I(b,l),d)
}
def lut2(float(E,D) T1, int64(B,L) I1, float(F,D) T2, int64(B,M) I2) -> (O1, O2) {
    O1(b,d) +=! T1(I1(b,l),d)
    O2(b,d) +=! T2(I2(b,l),d)
}
def mlp1(float(B,M) I, float(N,M) W, float(N) b) -> (O) {
    O(p,n) +=! I(p,m) * W(n,m)
    O(p,n) = fmax(O(p,n) + b(n), 0)
}
def mlp3(float(B,M) I, float(N,M) W1, float(N) b1, float(O,N) W2, float(O) b2, float(P,O) W3, float(P) b3) -> (R) {
    H1(p,n) +=! I(p,m) * W1(n,m)
    H1(p,n) = fmax(H1(p,n) + b1(n), 0)
    H2(p,o) +=! H1(p,n) * W2(o,n)
    H2(p,o) = fmax(H2(p,o) + b2(o), 0)
    R(p,q) +=! H2(p,o) * W3(q,o)
    R(p,q) = fmax(R(p,q) + b3(q), 0)
}
def moments(float(N,K) I) -> (mean, var) {
    mean(n) +=! I(n,k)
    mean(n) = mean(n) / K
    var(n) +=! I(n,k) * I(n,k)
    var(n) = var(n) / K - mean(n) * mean(n)
}
def group_norm(float(N,G,D,H,W) I, float(G,D) gamma, float(G,D) beta) -> (O) {
    sum(n,g) +=! I(n,g,d,h,w)
    sums(n,g) +=! I(n,g,d,h,w) * I(n,g,d,h,w)
    mean(n,g) = sum(n,g) / (D * H * W)
    scale(n,g) = rsqrt(sums(n,g) / (D * H * W) - mean(n,g) * mean(n,g) + 1e-5)
    O(n,g,d,h,w) = gamma(g,d) * (I(n,g,d,h,w) - mean(n,g)) * scale(n,g) + beta(g,d)
}
"""

Array = np.ndarray


@dataclass(frozen=True, slots=True)
class Kernel:
    """A definition, arrays for it, and the same in PyTorch."""

    name: str
    arrays: tuple[Array, ...]
    peer: Callable[..., Any]


def kernels(torch: Any) -> list[Kernel]:
    random = np.random.default_rng(0)

    def floats(*shape: int) -> Array:
        return random.standard_normal(shape).astype("float32")

    def rows(below: int, *shape: int) -> Array:
        return random.integers(0, below, shape)

    nn = torch.nn.functional

    def convolve(image: Any, weights: Any, bias: Any) -> Any:
        n, g, c, h, w = image.shape
        f = weights.shape[1]
        flat = nn.conv2d(
            image.reshape(n, g * c, h, w), weights.reshape(g * f, c, *weights.shape[3:]), bias.reshape(-1), groups=g
        )
        return flat.reshape(n, g, f, *flat.shape[2:])

    def norm(image: Any, gamma: Any, beta: Any) -> Any:
        n, g, d, h, w = image.shape
        return nn.group_norm(image.reshape(n, g * d, h, w), g, gamma.reshape(-1), beta.reshape(-1)).reshape(image.shape)

    def bag(table: Any, places: Any) -> Any:
        return nn.embedding_bag(places, table, mode="sum")

    def dense(x: Any, *layers: Any) -> Any:
        for weight, bias in zip(layers[::2], layers[1::2], strict=True):
            x = torch.relu(nn.linear(x, weight, bias))
        return x

    return [
        Kernel("tmm", (floats(128, 1024), floats(1024, 1024)), lambda a, b: a @ b.T),
        Kernel("tbmm", (floats(500, 26, 72), floats(500, 26, 72)), lambda x, y: torch.bmm(x, y.transpose(1, 2))),
        Kernel("group_convolution", (floats(8, 16, 4, 28, 28), floats(16, 4, 4, 3, 3), floats(16, 4)), convolve),
        Kernel("lut1", (floats(10000, 64), rows(10000, 128, 50)), bag),
        Kernel(
            "lut2",
            (floats(10000, 64), rows(10000, 128, 50), floats(20000, 64), rows(20000, 128, 40)),
            lambda a, i, b, j: (bag(a, i), bag(b, j)),
        ),
        Kernel("mlp1", (floats(128, 2000), floats(128, 2000), floats(128)), dense),
        Kernel(
            "mlp3",
            (floats(128, 128), floats(64, 128), floats(64), floats(32, 64), floats(32), floats(2, 32), floats(2)),
            dense,
        ),
        Kernel("moments", (floats(128, 4096),), lambda x: (x.mean(1), x.var(1, unbiased=False))),
        Kernel("group_norm", (floats(8, 32, 4, 28, 28), floats(32, 4), floats(32, 4)), norm),
    ]


# Measuring


@dataclass(frozen=True, slots=True)
class Contestant:
    name: str
    call: Callable[[], Any]


def contestants(kernel: Kernel, torch: Any, seconds: float, console: Console) -> list[Contestant]:
    default, definition = (wf.tc.define(TEXT)[kernel.name] for _ in range(2))
    found = [Contestant("weft", lambda: default(*kernel.arrays))]
    if seconds:
        report = definition.autotune(*kernel.arrays, seconds=seconds)
        console.print(f"{kernel.name}: {report}", highlight=False, markup=False)
        found.append(Contestant("tuned", lambda: definition(*kernel.arrays)))
    given = [torch.from_numpy(one) for one in kernel.arrays]
    many = torch.get_num_threads()

    def on(threads: int) -> Callable[[], Any]:
        def call() -> Any:
            torch.set_num_threads(threads)
            return kernel.peer(*given)

        return call

    return [*found, Contestant("PyTorch", on(many)), Contestant("PyTorch, one thread", on(1))]


def check(kernel: Kernel, found: Sequence[Contestant]) -> None:
    """All give the same answer, or there is nothing to compare."""
    expected, *others = [_arrays(one.call()) for one in found]
    for contestant, arrays in zip(found[1:], others, strict=True):
        for one, other in zip(arrays, expected, strict=True):
            scale = float(np.abs(other).max())
            assert np.allclose(one, other, rtol=1e-3, atol=1e-4 * scale), f"{contestant.name} on {kernel.name} differs"


def _arrays(found: Any) -> list[Array]:
    return [np.asarray(one) for one in (found if isinstance(found, tuple) else (found,))]


def measure(found: Sequence[Contestant], rounds: int) -> dict[str, float]:
    """Seconds for a call of each: the best round, contestants in turn."""
    counts = {}
    for one in found:
        start = perf_counter()
        one.call()
        counts[one.name] = max(1, int(ROUND_S / max(perf_counter() - start, 1e-7)))
    best = dict.fromkeys(counts, float("inf"))
    for _ in range(rounds):
        for one in found:
            start = perf_counter()
            for _ in range(counts[one.name]):
                one.call()
            best[one.name] = min(best[one.name], (perf_counter() - start) / counts[one.name])
    return best


def table(figures: dict[str, dict[str, float]], tuned: bool) -> Table:
    grid = Table(title="µs a call, and PyTorch's time over weft's")
    ours = ["weft", "tuned"] if tuned else ["weft"]
    for heading in ("kernel", *ours, "PyTorch", "one thread", *(f"PyTorch / {one}" for one in ours)):
        grid.add_column(heading, justify="left" if heading == "kernel" else "right", no_wrap=True)
    for name, seconds in figures.items():
        times = [f"{seconds[one] * 1e6:.1f}" for one in (*ours, "PyTorch", "PyTorch, one thread")]
        grid.add_row(name, *times, *(f"{seconds['PyTorch'] / seconds[one]:.2f}" for one in ours))
    return grid


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds, not tuned")
    parser.add_argument("--seconds", type=float, default=TUNE_S, help="to tune each kernel for (default: %(default)s)")
    parser.add_argument("--only", nargs="+", metavar="KERNEL", help="only these kernels")
    arguments = parser.parse_args()
    if find_spec("torch") is None:
        print('torch not installed: pip install "weft[bench]"', file=sys.stderr)
        return 2
    import torch

    wf.config.tuned = ""  # what was found before would make both contestants the same
    console = Console(width=120 if not sys.stdout.isatty() else None)
    chosen = [one for one in kernels(torch) if not arguments.only or one.name in arguments.only]
    seconds = 0.0 if arguments.quick else arguments.seconds
    figures = {}
    for kernel in track(chosen, "measuring", console=Console(stderr=True), transient=True):
        found = contestants(kernel, torch, seconds, console)
        check(kernel, found)
        figures[kernel.name] = measure(found, QUICK_ROUNDS if arguments.quick else ROUNDS)
    console.print(table(figures, bool(seconds)))
    return 0


if __name__ == "__main__":
    sys.exit(main())
