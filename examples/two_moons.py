"""Classify two moons by minibatches: a step is a function of arrays, and the last batch may be shorter.

`weft demo` runs a longer version of this with a picture.
"""

import numpy as np

import weft as wf

POINTS, BATCH, EPOCHS = 1000, 60, 10


def moons(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy points on two half circles, and the side each is on: -1 or 1."""
    random = np.random.default_rng(seed)
    angle, lower = np.pi * random.random(count), random.random(count) < 0.5
    across = np.where(lower, 1 - np.cos(angle), np.cos(angle))
    up = np.where(lower, 0.5 - np.sin(angle), np.sin(angle))
    points = np.stack([across, up], axis=1) + random.normal(0, 0.12, (count, 2))
    return points.astype("float32"), np.where(lower, 1, -1).astype("float32")[:, None]


@wf.op
def dense(x, *, width):
    return wf.relu("w" @ x + wf.param("b", o=width, init=0.0))


@wf.op
def classifier(x, *, width):
    h = dense(dense(x, width=width, label="L1"), width=width, label="L2")
    return wf.param("w", o=1) @ h + wf.param("b", o=1, init=0.0)


def main() -> float:
    x, y = wf.input("x", b="batch", o=2), wf.input("y", b="batch", o=1)
    model = classifier(width=16, label="mlp")
    score = model(x)
    loss = wf.mean(wf.relu(1 - y * score), "...|... => 0")

    ctx = wf.Context()
    step = ctx.function(x, y, code=wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1, momentum=0.9)), returns=loss)
    predict = ctx.function(x, returns=score)
    points, sides = moons(POINTS, seed=7)
    for epoch in range(EPOCHS):
        starts = range(0, POINTS, BATCH)
        losses = [step(points[at : at + BATCH], sides[at : at + BATCH]).item() for at in starts]
        print(f"epoch {epoch}: loss {np.mean(losses):.3f}")

    fresh, truth = moons(1000, seed=8)
    right = np.sign(predict(fresh)) == truth
    print(f"{right.mean():.1%} of fresh points right; parameters:", *model.params)
    return float(right.mean())


if __name__ == "__main__":
    main()
