"""A selective state-space layer: a linear recurrence whose steps depend on what is read, as in Mamba."""

import numpy as np

import weft as wf


@wf.op
def selective(x, *, states: int = 4):
    """For each feature `d` a state of `n` numbers that decays and is written to, both as the step's input says."""
    delta = wf.softplus("w_delta" @ x + "b_delta")
    write, read = wf.param("w_write", o=states) @ x, wf.param("w_read", o=states) @ x
    rate = wf.exp(wf.param("log_rate", o=[x.dims.output[0], states]))
    decay = wf.exp(-wf.einsum("...|d; d, n => ...|d, n", delta, rate))
    new = wf.einsum("...|d; ...|n; ...|d => ...|d, n", delta, write, x)

    def step(h, now):
        h = now["decay"] * h + now["new"]
        return h, wf.einsum("...|d, n; ...|n => ...|d", h, now["read"])

    outputs, _ = wf.scan(step, {"decay": decay, "new": new, "read": read}, init=0.0)
    return outputs + "skip" * x


def main(steps: int = 50):
    xs = wf.data(np.random.default_rng(0).normal(size=(32, 2, 3)).astype("float32"), batch=2, label="xs")
    layer = selective(label="ssm")
    target = wf.cumsum(xs, "t, ... |... => ...|...") * 0.1
    loss = wf.mean((layer(xs) - target) ** 2, "...|... => 0")
    ctx = wf.Context()
    train = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.02)))
    losses = []
    for _ in range(steps):
        train()
        losses.append(ctx[loss].item())
    print(f"loss {losses[0]:.3f}, then {losses[-1]:.3f}")
    return layer, xs, losses


if __name__ == "__main__":
    main()
