"""Model surgery: teach a network some digits, then keep its body, frozen, and give it a new head for others.

The parameters of the body are the same tensors in both models; the second optimiser is told to leave them alone.
"""

import numpy as np

import weft as wf


@wf.op
def body(images):
    h = wf.relu(wf.nn.conv2d(images, out_channels=16, label="conv"))
    return wf.relu(wf.nn.linear(wf.nn.max_pool2d(h, kernel_size=2), o=48, label="features"))


@wf.op
def classifier(images, *, features, classes):
    return wf.nn.linear(features(images), o=classes, label="head")


def main(epochs: int = 15, few: int = 100, data=None) -> tuple[float, float]:
    wf.seed(0)
    images, labels = data or wf.data.digits()
    low, high = labels < 5, labels >= 5
    ctx, shared = wf.Context(), body(label="body")

    def trained(name: str, chosen: np.ndarray, examples: int | None, exclude) -> float:
        train, test = wf.data.split(images[chosen], labels[chosen] % 5, part=0.3, seed=2)
        model = classifier(features=shared, classes=5, label=name)
        history = wf.train.fit(
            model,
            wf.nn.cross_entropy,
            tuple(part[:examples] for part in train),
            optimise=lambda loss: wf.optim.adam(loss, lr=0.005, exclude=exclude),
            epochs=epochs if examples is None else 4 * epochs,
            batch_size=20,
            validation=test,
            metrics={"accuracy": wf.train.accuracy},
            context=ctx,
        )
        return history[-1].validation["accuracy"]

    first = trained("low", low, None, exclude=())
    print(f"0 to 4, body and head learned: {first:.1%} right")
    before = {p.label: ctx[p].copy() for p in shared.params}
    second = trained("high", high, few, exclude="body.*")
    print(f"5 to 9, the body frozen, a new head learned from {few} images: {second:.1%} right; guessing has 20%")
    same = all((ctx[p] == before[p.label]).all() for p in shared.params)
    print(f"the body is {'bit by bit what it was' if same else 'another one'}:", *before)
    return first, second


if __name__ == "__main__":
    main()
