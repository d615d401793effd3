"""Classify two moons and draw the boundary: a model of three layers, trained in a few seconds.

Only widths are given; weft infers every other size. `picture=` names an image file of the boundary.
"""

import numpy as np

import weft as wf

FRAME = (-1.6, 2.6, -1.1, 1.6)  # the part of the plane that is drawn: left, right, bottom, top


def moons(count: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Noisy points on two interleaved half circles, and the side each is on: -1 or 1."""
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


def main(points: int = 1000, epochs: int = 60, picture: str = "") -> float:
    wf.seed(7)
    ctx, model = wf.Context(), classifier(width=16, label="mlp")
    data = moons(points, seed=7)
    history = wf.train.fit(
        model,
        wf.nn.hinge,
        data,
        optimise=lambda loss: wf.optim.sgd(loss, lr=0.1, momentum=0.9),
        epochs=epochs,
        batch_size=60,  # the last batch is shorter
        context=ctx,
    )
    print(f"{points} points, {epochs} epochs: loss {history[0].loss:.3f}, then {history[-1].loss:.3f}")
    print("the parameters, in the shapes weft inferred (input->output):")
    print(*(f"  {p.label} {p.dims}" for p in model.params), sep="\n")

    boundary = wf.plot.function(
        lambda where: wf.train.predict(model, where.astype("float32"), context=ctx)[:, 0],
        FRAME,
        points=data[0][::4],
        classes=data[1][::4, 0],
        levels=[0],
        title="two moons: the side that the model says",
    )
    print(boundary)
    if picture:
        print("picture:", boundary.save(picture))

    fresh, sides = moons(1000, seed=8)
    right = float(np.mean(np.sign(wf.train.predict(model, fresh, context=ctx)) == sides))
    print(f"{right:.1%} of 1000 fresh points are on the side the model says")
    return right


if __name__ == "__main__":
    main()
