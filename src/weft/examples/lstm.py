"""An LSTM learns to remember: add up the two marked numbers of a sequence, whatever stands between them.

The answer is at the end, so what was marked must be kept for many steps. Always saying 1 has an error of 0.167.
"""

import numpy as np

import weft as wf


def sequences(count: int, length: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Pairs of a number and a mark for each step, and the sum of the two numbers that are marked."""
    random = np.random.default_rng(seed)
    numbers, marks = random.random((count, length)), np.zeros((count, length))
    first, second = random.integers(0, length // 2, count), random.integers(length // 2, length, count)
    marks[np.arange(count), first] = marks[np.arange(count), second] = 1
    x, y = np.stack([numbers, marks], axis=-1), (numbers * marks).sum(axis=1, keepdims=True)
    return x.astype("float32"), y.astype("float32")


@wf.op
def adder(x, *, size):
    steps = wf.einsum("b|t, d => b, t|d", x)  # time is the last batch axis of a sequence
    _, (h, _) = wf.nn.lstm(steps, hid_dim=size)
    return wf.nn.linear(h, o=1)


def main(length: int = 20, epochs: int = 25, examples: int = 4000, size: int = 32) -> float:
    wf.seed(0)
    model, ctx = adder(size=size, label="adder"), wf.Context()
    history = wf.train.fit(
        model,
        wf.nn.mse,
        sequences(examples, length, seed=0),
        optimise=lambda loss: wf.seq(wf.optim.clip_by_norm(loss, 1.0), wf.optim.adam(loss, lr=0.01)),
        epochs=epochs,
        batch_size=64,
        validation=sequences(500, length, seed=1),
        context=ctx,
    )
    if epochs > 1:
        print(history.plot("loss", "val_loss"))
    error = history[-1].validation["loss"]
    print(f"{length} steps: an error of {error:.4f} on new sequences, where always saying 1 has 0.167")
    x, y = sequences(3, length, seed=2)
    for said, sum_of_marked in zip(wf.train.predict(model, x, context=ctx), y, strict=True):
        print(f"  the marked ones add up to {sum_of_marked[0]:.3f}, and it says {said[0]:.3f}")
    return error


if __name__ == "__main__":
    main()
