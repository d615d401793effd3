"""Make up names, letter by letter: a bigram table, a perceptron with batch norm, a WaveNet-like tree, a transformer.

Each model reads the last eight letters and scores the next one. The lower the loss, the more the sampled names
look like names. The names are those of the package `names`.
"""

import numpy as np

import weft as wf

LETTERS = ".abcdefghijklmnopqrstuvwxyz"  # a dot is before a name, and after it
CONTEXT = 8


def windows(names: list[str]) -> tuple[np.ndarray, np.ndarray]:
    """The eight letters before each letter of each name, and that letter."""
    before, after = [], []
    for name in names:
        ids = [0] * CONTEXT + [LETTERS.index(letter) for letter in name] + [0]
        before += [ids[at : at + CONTEXT] for at in range(len(ids) - CONTEXT)]
        after += ids[CONTEXT:]
    return np.array(before, "int32"), np.array(after, "int32")


@wf.op
def bigram(ids):
    return wf.nn.embedding(ids[:, -1], vocab_size=27, o=27)


@wf.op
def perceptron(ids):
    x = wf.nn.embedding(ids, vocab_size=27, o=10)  # ...|8,10: the next layer maps all of it
    h = wf.tanh(wf.nn.batch_norm(wf.nn.linear(x, o=100, bias=False)))
    return wf.nn.linear(h, o=27)


@wf.op
def wavenet(ids):
    x = wf.nn.embedding(ids, vocab_size=27, o=24)
    for level in range(3):  # eight positions, four, two, one: each layer joins neighbours
        pairs = wf.einsum("...|t & k, c => ...|t, k & c", x, k=2)
        mixed = wf.einsum("k->d; ...|t, k => ...|t, d", wf.param(f"w{level}", o=64), pairs)
        x = wf.tanh(wf.nn.batch_norm(mixed, label=f"norm{level}"))
    return wf.nn.linear(wf.einsum("...|0, d => ...|d", x), o=27)


@wf.op
def transformer(ids):
    tokens = wf.einsum("b|t => b, t|", ids)  # time is the last batch axis of a sequence
    return wf.nn.gpt(tokens, vocab_size=27, max_len=CONTEXT, d_model=128, num_layers=2, num_heads=4)[:, -1]


def sample(model, ctx, count: int, seed: int = 1) -> list[str]:
    random = np.random.default_rng(seed)
    x = wf.input("x", b="names", o=CONTEXT, dtype="int32")
    likely = ctx.function(x, returns=wf.softmax(model(x)))
    ids = np.zeros((count, CONTEXT), "int32")
    for _ in range(12):
        scores = likely(ids[:, -CONTEXT:]).astype("float64")
        drawn = [random.choice(27, p=row / row.sum()) for row in scores]
        ids = np.column_stack([ids, drawn]).astype("int32")
    return ["".join(LETTERS[k] for k in row).strip(".").split(".")[0] for row in ids[:, CONTEXT:]]


def main(epochs: int = 6, names=None, batch_size: int = 64) -> dict[str, float]:
    names = list(names or wf.data.names())
    order = np.random.default_rng(0).permutation(len(names))
    kept = max(1, len(names) // 10)
    test, train = ([names[k] for k in part] for part in (order[:kept], order[kept:]))
    print(f"{len(train)} names to learn from, {len(test)} to be tested on; guessing is a loss of {np.log(27):.2f}")
    data = windows(train)
    steps, losses = epochs * len(data[0]) // batch_size, {}

    def falling(rate):
        return wf.optim.cosine(wf.counter("n"), rate, steps=steps)

    for maker, rate in ((bigram, 0.005), (perceptron, 0.005), (wavenet, 0.005), (transformer, 0.0007)):
        wf.seed(1)
        name, ctx = maker.__name__, wf.Context()
        model = maker(label=name)
        history = wf.train.fit(
            model,
            wf.nn.cross_entropy,
            data,
            optimise=lambda loss, rate=rate: wf.optim.adam(loss, lr=falling(rate)),
            epochs=epochs,
            batch_size=batch_size,
            validation=windows(test),
            context=ctx,
        )
        losses[name] = history[-1].validation["loss"]
        print(f"{name:12} {losses[name]:.3f}  ", *sample(model, ctx, 8))
    return losses


if __name__ == "__main__":
    main()
