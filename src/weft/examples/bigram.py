"""Learn which letter follows which: one table of scores, a softmax, and the counts it should arrive at."""

import numpy as np

import weft as wf

TEXT = "the weft goes over and under the warp and the warp holds the weft. "


def one_hot(letters: list[int], size: int) -> np.ndarray:
    return np.eye(size, dtype="float32")[letters]


@wf.op
def next_letter(letter):
    """The logarithm of the probability of each letter to come next."""
    scores = "table" @ letter
    above = scores - wf.einsum("...|...i => ...|...0", scores, accum="max")
    return above - wf.log(wf.einsum("...|...i => ...|...0", wf.exp(above)))


def main() -> tuple[float, float]:
    alphabet = sorted(set(TEXT))
    codes = [alphabet.index(letter) for letter in TEXT]
    before = wf.data(one_hot(codes[:-1], len(alphabet)), batch=1, label="before")
    after = wf.data(one_hot(codes[1:], len(alphabet)), batch=1, label="after")
    model = next_letter(label="bigram")
    chosen = wf.einsum("...|i; ...|i => 0", after, model(before))
    loss = -chosen / (len(codes) - 1)

    ctx = wf.Context()
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.3)))
    for number in range(200):
        step()
        if number % 40 == 0:
            print(f"step {number:3}: loss {ctx[loss].item():.4f}")

    counts = np.zeros((len(alphabet), len(alphabet)))
    np.add.at(counts, (codes[:-1], codes[1:]), 1)
    share = counts / counts.sum(axis=1, keepdims=True).clip(1)
    entropy = -np.sum(counts * np.log(np.where(share > 0, share, 1))) / counts.sum()
    learned = ctx[loss].item()
    print(f"learned: {learned:.4f}; counting gives {entropy:.4f}; the table is {model.params[0].dims}")

    after_t = np.exp(ctx[model(wf.data(one_hot([alphabet.index("t")], len(alphabet)), batch=1))][0])
    likely = [f"{alphabet[k]!r} {after_t[k]:.2f}" for k in np.argsort(-after_t)[:3]]
    print("after 't':", *likely)
    return learned, float(entropy)


if __name__ == "__main__":
    main()
