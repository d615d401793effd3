"""Data-parallel training: a batch divided among several devices learns what one device learns."""

import numpy as np

import weft as wf


def main(devices: int = 4, steps: int = 100, examples: int = 250) -> float:
    random = np.random.default_rng(0)
    points = random.normal(size=(examples, 2)).astype("float32")
    sides = (points[:, 0] * points[:, 1] > 0).astype("int32")
    learned = {}
    for count in (1, devices):
        wf.seed(0)
        model, ctx = wf.nn.mlp(hid_dims=[16], o=2, label="mlp"), wf.Context(devices=count)
        step = wf.train.data_parallel(
            ctx,
            lambda x, y, model=model: wf.nn.cross_entropy(model(x), y),
            lambda loss: wf.optim.adam(loss, lr=0.05),
        )
        losses = [step(points, sides) for _ in range(steps)]
        learned[count] = [ctx[p] for p in model.params]
        alike = all((device[p] == ctx[p]).all() for device in ctx.devices for p in model.params)
        print(f"{count} device{'s' * (count > 1)}: loss {losses[0]:.4f}, then {losses[-1]:.4f};", end=" ")
        print(f"shards of {-(-examples // count)} examples; all devices hold the same: {alike}")
    apart = max(float(abs(a - b).max()) for a, b in zip(*learned.values(), strict=True))
    print(f"the parameters of both runs differ by {apart:.1e} at most")
    return apart


if __name__ == "__main__":
    main()
