"""A run that is killed again and again, and goes on: `python tests/train/killed.py 50` kills one at 50 moments.

A process forks one that trains, with a checkpoint after every step, and kills it at a random moment; then another,
which goes on. In the end there is what a run comes to that nobody killed.
"""

from __future__ import annotations

import os
import signal
import sys
import tempfile
import time
from pathlib import Path

import numpy as np

TESTS = Path(__file__).resolve().parent.parent
sys.path[:0] = [str(TESTS), str(TESTS.parent / "src")]

import weft as wf  # noqa: E402
from train.models import dropped, squares  # noqa: E402

STEPS = 80


def train(folder: Path | None) -> bytes:
    """Two parameters and noise, 80 steps, from the newest checkpoint on; everything that comes out."""
    wf.seed(3)
    w, b = wf.param("w", o=4, dtype="float64"), wf.param("b", o=4, dtype="float64", init=0.0)
    x = np.random.default_rng(0).normal(size=(40, 4))
    history = wf.train.fit(
        lambda x: w * dropped(x, 0.25) + b,
        squares,
        (x, 2 * x + 1),
        epochs=8,
        batch_size=4,
        seed=9,
        optimise=lambda loss: wf.optim.adam(loss, lr=0.1),
        checkpoint=folder,
        every=None if folder is None else 1,
        resume=folder is not None,
        context=wf.Context("interp"),
    )
    assert len(history.losses) == STEPS
    return b"".join([history.losses.tobytes(), *(array.tobytes() for array in history.step.state().values())])


def killed(folder: Path, after: float) -> None:
    """Train in a process of its own, and kill it so long after it has got further."""
    before, child = steps(folder), os.fork()
    if not child:
        try:
            train(folder)
        finally:
            os._exit(0)
    while steps(folder) <= before and not os.waitid(os.P_PID, child, os.WEXITED | os.WNOHANG | os.WNOWAIT):
        time.sleep(0.001)
    time.sleep(after)
    os.kill(child, signal.SIGKILL)
    os.waitpid(child, 0)


def steps(folder: Path) -> int:
    """How many steps the newest checkpoint has."""
    return max((int(one.stem.removeprefix("step-")) for one in folder.glob("step-*.npz")), default=0)


def campaign(kills: int, seed: int = 0) -> list[int]:
    """How far a run had come each time it was killed; it comes to the same end, and every file can be read."""
    random, whole, come = np.random.default_rng(seed), train(None), []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        for _ in range(kills):
            if steps(folder) >= STEPS - 5:
                assert train(folder) == whole
                for one in folder.iterdir():
                    one.unlink()
            killed(folder, random.uniform(0, 0.04))
            for one in folder.glob("step-*.npz"):
                wf.load(one)
            come.append(steps(folder))
        assert train(folder) == whole
    return come


if __name__ == "__main__":
    print(*campaign(int(sys.argv[1])))
