"""A small diffusion model: a perceptron learns to take noise out of points, and makes a spiral of pure noise."""

import numpy as np

import weft as wf

FRAME = (-2.5, 2.5, -2.5, 2.5)


def spiral(count: int, seed: int) -> np.ndarray:
    random = np.random.default_rng(seed)
    angle = np.pi * (0.5 + 3 * random.random(count) ** 0.7)
    points = np.stack([np.cos(angle), np.sin(angle)], axis=1) * angle[:, None] / 5.5
    return (points + random.normal(0, 0.03, points.shape)).astype("float32")


@wf.op
def denoiser(x, level, *, width):
    """The noise in points `x`, given how much of it there is."""
    waves = wf.concat(*(f(k * np.pi * level) for k in (0.5, 1.0, 2.0) for f in (wf.sin, wf.cos)))
    h = wf.silu(wf.nn.linear(wf.concat(x, waves), o=width, label="first"))
    for depth in range(2):
        h = h + wf.silu(wf.nn.linear(h, o=width, label=f"middle{depth}"))
    return wf.nn.linear(h, o=2, label="last")


def main(steps: int = 3000, width: int = 96, levels: int = 50, points: int = 500) -> tuple[float, float]:
    wf.seed(0)
    random, ctx, model = np.random.default_rng(0), wf.Context(), denoiser(width=width, label="denoiser")
    beta = np.linspace(1e-3, 0.2, levels)
    kept = np.cumprod(1 - beta)  # how much of a point is left at each level of noise
    x, noise = wf.input("x", b="points", o=2), wf.input("noise", b="points", o=2)
    share, level = wf.input("share", b="points", o=1), wf.input("level", b="points", o=1)
    loss = wf.nn.mse(model(wf.sqrt(share) * x + wf.sqrt(1 - share) * noise, level), noise)
    rate = wf.optim.cosine(wf.counter("n"), 0.003, steps=steps)
    update = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=rate))
    step = ctx.function(x, noise, share, level, code=update, returns=loss)
    data, losses = spiral(4000, seed=1), []
    for _ in range(steps):
        chosen, k = random.integers(0, len(data), 256), random.integers(0, levels, (256, 1))
        losses.append(step(data[chosen], random.normal(size=(256, 2)), kept[k], k / levels).item())
    print(f"loss {losses[0]:.3f}, then {np.mean(losses[-100:]):.3f} in the last 100 steps")

    predict = ctx.function(x, level, returns=model(x, level))
    made = random.normal(size=(points, 2))
    for k in reversed(range(levels)):  # from noise back, a level at a time
        found = predict(made, np.full((points, 1), k / levels))
        made = (made - beta[k] / np.sqrt(1 - kept[k]) * found) / np.sqrt(1 - beta[k])
        made += (k > 0) * np.sqrt(beta[k]) * random.normal(size=made.shape)

    def off(these: np.ndarray) -> float:
        """How far points are from the spiral, on average."""
        clean = spiral(2000, seed=2)
        return float(np.mean(np.sqrt(((these[:, None] - clean) ** 2).sum(axis=2)).min(axis=1)))

    result = off(random.normal(size=(points, 2))), off(made)
    picture = wf.plot.function(
        lambda xy: 0 * xy[:, 0], FRAME, points=made, classes=np.zeros(points), title="made of noise"
    )
    print(picture)
    print(f"noise is {result[0]:.3f} away from the spiral, and what was made of noise {result[1]:.3f}")
    return result


if __name__ == "__main__":
    main()
