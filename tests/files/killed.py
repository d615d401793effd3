"""Kill a process that saves over and over, at random moments, and look at the file each time.

    python killed.py model.npz 50

prints how many states were seen; it fails if the file was ever anything but one of those written.
"""

from __future__ import annotations

import os
import random
import signal
import sys
import time

import numpy as np

import weft as wf

SIZE = 50_000


def save_on(path: str, number: int) -> None:
    """Save states number, number + 1, … for ever; each is told from the others by every value it holds."""
    while True:
        wf.save(path, {"w": np.full(SIZE, number), "n": np.array(number)}, metadata={"number": str(number)})
        number += 1


def seen(path: str) -> int:
    """Which state the file holds, whole."""
    state, number = wf.load(path), int(wf.load_metadata(path)["number"])
    assert state.keys() == {"w", "n"}
    assert state["w"].shape == (SIZE,)
    assert (state["w"] == number).all()
    assert state["n"] == number
    return number


def main(path: str, kills: int) -> None:
    wf.save(path, {"w": np.zeros(SIZE, int), "n": np.array(0)}, metadata={"number": "0"})
    moments, last, new = random.Random(7), 0, 0
    for _ in range(kills):
        child = os.fork()
        if not child:
            save_on(path, last + 1)
        time.sleep(moments.uniform(0.0, 0.02))
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        found = seen(path)
        assert found >= last, "a state that was saved is gone"
        new += found > last
        last = found
    print(new)


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]))
