"""Read written digits: a perceptron and a convolutional network, the same training for both.

The images are scikit-learn's, of 8 by 8 pixels; a quarter of them is kept for the test.
"""

import weft as wf


@wf.op
def perceptron(images):
    pixels = wf.einsum("...|h, w => ...|h & w", images)
    h = wf.relu(wf.nn.linear(pixels, o=256, label="hidden"))
    return wf.nn.linear(wf.nn.dropout(h, rate=0.5), o=10, label="head")


@wf.op
def convolutional(images):
    h = wf.relu(wf.nn.conv2d(images, out_channels=16, label="conv1"))
    h = wf.relu(wf.nn.conv2d(h, out_channels=32, label="conv2"))
    h = wf.nn.dropout(wf.nn.max_pool2d(h, kernel_size=2), rate=0.25)
    return wf.nn.linear(h, o=10, label="head")


def main(epochs: int = 60, data=None) -> dict[str, float]:
    train, test = wf.data.split(*(data or wf.data.digits()), part=0.25, seed=1)
    print(f"{len(train[0])} images to learn from, {len(test[0])} to be tested on")
    steps, accuracies = epochs * -(-len(train[0]) // 32), {}
    for name, maker in (("perceptron", perceptron), ("convolutional", convolutional)):
        wf.seed(0)
        model, ctx = maker(label=name), wf.Context()
        history = wf.train.fit(
            model,
            wf.nn.cross_entropy,
            train,
            optimise=lambda loss: wf.optim.adamw(loss, lr=wf.optim.cosine(wf.counter("n"), 0.004, steps=steps)),
            epochs=epochs,
            batch_size=32,
            validation=test,
            metrics={"accuracy": wf.train.accuracy},
            context=ctx,
        )
        accuracies[name] = history[-1].validation["accuracy"]
        numbers = sum(ctx[p].size for p in model.params)
        print(f"{name}: {numbers} parameters, {accuracies[name]:.2%} of the test images right")
        if len(history) > 1:
            print(history.plot("loss", "val_loss"))
    return accuracies


if __name__ == "__main__":
    main()
