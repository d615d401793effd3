"""A Kalman filter: position and speed of something that is seen through noise, one observation after another."""

import numpy as np

import weft as wf

MOVE = wf.data(np.array([[1.0, 1.0], [0.0, 1.0]]), label="move")
NOISE = wf.data(np.diag([0.01, 0.01]), label="noise")
SEEN, ERROR = wf.data(np.array([1.0, 0.0]), label="seen"), 4.0


def step(carry, seen):
    """What is believed after one more observation: a mean, and how uncertain it is."""
    mean = wf.einsum("i, j; j => i", MOVE, carry["mean"])
    spread = wf.einsum("i, j; j, k; l, k => i, l", MOVE, carry["spread"], MOVE) + NOISE
    towards = wf.einsum("i, j; j => i", spread, SEEN)
    surprise = seen - wf.einsum("i; i => 0", SEEN, mean)
    gain = towards / (wf.einsum("i; i => 0", SEEN, towards) + ERROR)
    return {"mean": mean + gain * surprise, "spread": spread - wf.einsum("i; j => i, j", gain, towards)}


def main() -> tuple[np.ndarray, np.ndarray]:
    truth = np.cumsum(np.full(50, 0.5))
    seen = truth + np.random.default_rng(0).normal(size=50) * 2
    start = {"mean": wf.data(np.zeros(2)), "spread": wf.data(np.eye(2) * 10)}
    believed, _ = wf.scan(step, wf.data(seen[:, None], batch=1, label="seen"), init=start)
    found = wf.Context()[believed["mean"]]
    off = [np.abs(one - truth)[10:].mean() for one in (seen, found[:, 0])]
    print(f"mean error {off[0]:.2f} as seen, {off[1]:.2f} filtered")
    return seen, found


if __name__ == "__main__":
    main()
