"""What lookups and scatters cost against PyTorch's embedding and index_add_, one thread each.

    python bench/lookups.py            a table, half a minute; needs torch
    python bench/lookups.py --quick    fewer rounds

Both have compiled before they are timed. Rounds are interleaved, so that a disturbance does not hit one of the two
alone; the best round of each counts. `ratio` is torch's time by ours: above 1, weft is faster.

    lookup      y = table[ids]                           torch.nn.functional.embedding(ids, table)
    scatter     out = 0; out[ids] += updates             out.zero_().index_add_(0, ids, updates)
    gradient    of the sum of table[ids] * g             the backward pass of embedding
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable
from dataclasses import dataclass
from time import perf_counter

import numpy as np
from rich.console import Console
from rich.progress import track
from rich.table import Table

import weft as wf

ROUNDS, QUICK_ROUNDS = 30, 8


@dataclass(frozen=True, slots=True)
class Size:
    rows: int
    width: int
    positions: int

    def __str__(self) -> str:
        return f"{self.positions} of {self.rows}×{self.width}"


SIZES = (Size(1000, 64, 256), Size(30_000, 256, 4096), Size(100_000, 64, 65_536), Size(50_000, 768, 2048))

#: What is run, and what it is called; torch's comes first.
Pair = tuple[Callable[[], object], Callable[[], object]]


def pairs(size: Size) -> dict[str, Pair]:
    """The two ways to do each thing, on the same numbers, seen to come to the same."""
    import torch

    torch.set_num_threads(1)
    rng = np.random.default_rng(0)
    table = rng.normal(size=(size.rows, size.width)).astype("float32")
    rows = rng.normal(size=(size.positions, size.width)).astype("float32")
    ids = rng.integers(0, size.rows, size.positions)
    t, u, i = torch.from_numpy(table), torch.from_numpy(rows), torch.from_numpy(ids)
    learned, out = t.clone().requires_grad_(), torch.zeros(size.rows, size.width)

    def backward() -> torch.Tensor:
        (found,) = torch.autograd.grad((torch.nn.functional.embedding(i, learned) * u).sum(), learned)
        return found

    theirs: dict[str, Callable[[], torch.Tensor]] = {
        "lookup": lambda: torch.nn.functional.embedding(i, t),
        "scatter": lambda: out.zero_().index_add_(0, i, u),
        "gradient": backward,
    }
    ours = routines(size, table, rows, ids)
    found: dict[str, Pair] = {}
    for name, run in theirs.items():
        routine, value = ours[name]
        routine()
        np.testing.assert_allclose(value(), run().numpy(), rtol=1e-4, atol=1e-5)
        found[name] = (run, routine)
    return found


def routines(
    size: Size, table: np.ndarray, rows: np.ndarray, ids: np.ndarray
) -> dict[str, tuple[Callable[[], object], Callable[[], np.ndarray]]]:
    """Each thing compiled by weft: what runs it, and what it came to."""
    ctx = wf.Context("cc")
    t, u = wf.data(table, label="table"), wf.data(rows, batch=1, label="updates")
    i = wf.data(ids, batch=1, label="ids")
    learned = wf.require_grad(wf.data(table, label="learned"))
    found = wf.einsum("v, d; ...|@v => ...|d", learned, i)
    loss = wf.einsum("...|d; ...|d => 0", found, u, label="loss")
    tensors = {
        "lookup": wf.einsum("v, d; ...|@v => ...|d", t, i, label="y"),
        "scatter": wf.einsum("...|d; ...|@v => v, d", u, i, v=size.rows, label="out"),
        "gradient": wf.grad(loss, learned),
    }
    return {name: (ctx.compile(one.forward, keep=[one]), lambda one=one: ctx[one]) for name, one in tensors.items()}


def best(pair: Pair, rounds: int) -> list[float]:
    """The best time of each of two, in seconds, taken in turn."""
    times: list[list[float]] = [[], []]
    for _ in range(rounds):
        for run, taken in zip(pair, times, strict=True):
            began = perf_counter()
            run()
            taken.append(perf_counter() - began)
    return [min(one) for one in times]


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--quick", action="store_true", help="fewer rounds")
    rounds = QUICK_ROUNDS if parser.parse_args().quick else ROUNDS
    console, shown = Console(), Table("what", "positions of rows", "torch µs", "weft µs", "ratio")
    for size in track(SIZES, "timing", disable=not sys.stdout.isatty()):
        for name, pair in pairs(size).items():
            theirs, ours = best(pair, rounds)
            shown.add_row(name, str(size), f"{theirs * 1e6:.1f}", f"{ours * 1e6:.1f}", f"{theirs / ours:.2f}")
    console.print(shown)
    return 0


if __name__ == "__main__":
    sys.exit(main())
