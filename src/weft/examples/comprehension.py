"""A hand-written comprehension inside a model: a layer that no library has, with its gradient for free.

Each filter of the layer measures how far a window of the signal is from its template, and says the least distance.
Classifying by such shapelets is two lines of Tensor Comprehensions; everything around it is as usual.
"""

import numpy as np

import weft as wf

SHAPELETS = wf.tc.define("""
def shapelets(float(B,T) signal, float(F,K) template) -> (nearest) {
    distance(b, f, t) +=! (signal(b, t + k) - template(f, k)) * (signal(b, t + k) - template(f, k))
    nearest(b, f) min=! distance(b, f, t)
}
""").shapelets


def signals(count: int, seed: int, length: int = 40) -> tuple[np.ndarray, np.ndarray]:
    """Noise with a bump somewhere in it, and which bump it is: a triangle, or a square."""
    random = np.random.default_rng(seed)
    x, kind = random.normal(0, 0.3, (count, length)), random.integers(0, 2, count)
    bumps = np.array([[0.4, 0.8, 1.2, 1.6, 1.6, 1.2, 0.8, 0.4], [1.0] * 8])
    for row, (which, at) in enumerate(zip(kind, random.integers(0, length - 8, count), strict=True)):
        x[row, at : at + 8] += 1.5 * bumps[which]
    return x.astype("float32"), kind.astype("int32")


@wf.op
def classifier(x, *, filters):
    template = wf.param("template", o=(filters, 8), init=wf.uniform(0, 2))
    return wf.nn.linear(SHAPELETS(x, template), o=2, label="head")


def main(epochs: int = 30, examples: int = 1000, filters: int = 6) -> float:
    wf.seed(0)
    model, ctx = classifier(filters=filters, label="model"), wf.Context()
    history = wf.train.fit(
        model,
        wf.nn.cross_entropy,
        signals(examples, seed=0),
        optimise=lambda loss: wf.optim.adam(loss, lr=0.02),
        epochs=epochs,
        batch_size=50,
        validation=signals(500, seed=1),
        metrics={"accuracy": wf.train.accuracy},
        context=ctx,
    )
    right = history[-1].validation["accuracy"]
    print(f"loss {history[0].loss:.3f}, then {history[-1].loss:.3f}; {right:.1%} of new signals right")
    print("what the filters look for:")
    for row in ctx[model.param("template")]:
        print("  ", *(f"{value:4.1f}" for value in row))
    return right


if __name__ == "__main__":
    main()
