"""Training curves of weft against PyTorch's: the same weights, batches and optimiser, so the same losses to rounding.

    python bench/curves.py                    an MLP, a CNN, an LSTM and a transformer, 100 steps each; half a minute
    python bench/curves.py cnn --steps 500    one of them, and longer

Everything is computed in double precision. Weights are those that weft draws, carried over by `wf.nn.to_torch`. A row
of the table has the largest difference of the losses in each quarter of the steps, of the largest loss there, and that
of the weights in the end, of the largest of them. The status is 1 if any is beyond rounding.

PyTorch's LSTM has two biases, which it adds up; an optimiser moves both, and their sum twice as fast. Here the second
is held at 0.
"""

from __future__ import annotations

import argparse
import sys

import numpy as np
from rich.console import Console
from rich.table import Table

import weft as wf

NAMES = ("mlp", "cnn", "lstm", "transformer")
#: What rounding may come to in 100 steps. In those of the transformer it grows a millionfold, in PyTorch alone as well,
#: where its first weights are moved by 1e-16.
ROUNDING = 1e-8


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("models", nargs="*", choices=[*NAMES, []], help="all of them, if none is named")
    parser.add_argument("--steps", type=int, default=100)
    arguments = parser.parse_args()
    import torch
    from _curves import MODELS, curves

    torch.manual_seed(0)
    wf.seed(0)
    wf.default_precision("float64")
    table = Table("model", "loss", *(f"quarter {at}" for at in range(1, 5)), "weights", "")
    worst = 0.0
    for name in arguments.models or NAMES:
        own, theirs, apart = curves(MODELS[name](), arguments.steps)
        differences = [
            float((np.abs(a - b) / np.abs(b).max()).max())
            for a, b in zip(np.array_split(own, 4), np.array_split(theirs, 4), strict=True)
        ]
        beyond = max(*differences, apart)
        worst = max(worst, beyond)
        table.add_row(
            name,
            f"{own[0]:.4f} to {own[-1]:.4f}",
            *(f"{one:.1e}" for one in (*differences, apart)),
            "same" if beyond <= ROUNDING else "beyond rounding",
        )
    Console(width=120).print(table)
    return int(not worst <= ROUNDING)


if __name__ == "__main__":
    sys.exit(main())
