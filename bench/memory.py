"""What a training step of a GPT of 10M parameters takes of memory, against what was predicted before it ran.

    python bench/memory.py                        10.8M parameters, sequences of 64 tokens, 4 at a time; a minute
    python bench/memory.py --layers 2 --steps 1   a smaller one

The prediction is what outlives a run, parameters and what the optimiser keeps, all that `ctx.state(step)` has, and the
arena where a run has its intermediate values, `step.memory()`. What is measured is how much more memory the process
holds after some steps than before the first; another process compiles before, and what it made is found on disk. The
status is 1 if they are more than 5 % apart, or the loss did not fall.
"""

from __future__ import annotations

import argparse
import gc
import subprocess
import sys
from pathlib import Path

import numpy as np
from rich.console import Console

import weft as wf

APART = 0.05
VOCABULARY, WIDTH, HEADS, LENGTH, BATCH = 256, 384, 6, 64, 4
MIB = 2**20


def resident() -> int:
    """The bytes of the process that are in memory."""
    for line in Path("/proc/self/status").read_text().splitlines():
        if line.startswith("VmRSS:"):
            return int(line.split()[1]) * 1024
    raise SystemExit("the system does not say how much memory a process holds")


def measure(layers: int, steps: int) -> int:
    wf.seed(0)
    model = wf.nn.gpt(
        vocab_size=VOCABULARY, max_len=LENGTH, d_model=WIDTH, num_layers=layers, num_heads=HEADS, label="gpt"
    )
    tokens, following = (wf.input(name, b=("batch", "time"), dtype="int32") for name in ("tokens", "following"))
    loss = wf.nn.cross_entropy(model(tokens), following)
    ctx = wf.Context()
    code = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=1e-3))
    step = ctx.function(tokens, following, code=code, returns=loss)
    text = np.random.default_rng(0).integers(0, VOCABULARY, (BATCH, LENGTH + 1)).astype("int32")
    plan = step.memory(batch=BATCH, time=LENGTH)  # compiles, or finds it on disk
    gc.collect()
    before = resident()
    losses = [step(text[:, :-1], text[:, 1:]).item() for _ in range(steps)]
    gc.collect()
    grown = resident() - before
    kept, arena = sum(array.nbytes for array in ctx.state(step).values()), plan.size
    predicted = kept + arena
    off = grown / predicted - 1
    count = sum(ctx[p].size for p in model.params)
    console = Console(width=100)
    console.print(f"{count / 1e6:.1f}M parameters, {BATCH} x {LENGTH} tokens, loss {losses[0]:.2f} to {losses[-1]:.2f}")
    console.print(f"predicted {predicted / MIB:.1f} MiB: {kept / MIB:.1f} outlive a run, {arena / MIB:.1f} of arena")
    console.print(f"measured  {grown / MIB:.1f} MiB, {off:+.1%}")
    return int(abs(off) > APART or not losses[-1] < losses[0])


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--layers", type=int, default=6)
    parser.add_argument("--steps", type=int, default=3)
    parser.add_argument("--compiled", action="store_true", help=argparse.SUPPRESS)
    arguments = parser.parse_args()
    if arguments.compiled:
        return measure(arguments.layers, arguments.steps)
    again = [sys.executable, *sys.argv, "--compiled"]
    subprocess.run(again, capture_output=True, check=False)
    return subprocess.run(again, check=False).returncode


if __name__ == "__main__":
    sys.exit(main())
