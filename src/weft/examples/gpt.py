"""Train a GPT on the characters of Python's own documentation, and let it go on with a sentence.

The text is in the standard library, the model is `wf.nn.gpt`, and generation keeps keys and values of what was read.
"""

from itertools import count, islice
from pydoc_data.topics import topics

import numpy as np

import weft as wf


def main(
    steps: int = 1500,
    width: int = 64,
    layers: int = 2,
    window: int = 64,
    batch_size: int = 16,
    prompt: str = "The ",
    letters: int = 200,
    text: str = "",
) -> tuple[np.ndarray, str]:
    wf.seed(0)
    text = text or "\n".join(topics.values())
    tokenizer = wf.data.CharacterTokenizer.of(text)
    ids = np.array(tokenizer.encode(text), "int32")
    model = wf.nn.gpt(
        vocab_size=len(tokenizer), max_len=window + letters, d_model=width, num_layers=layers, num_heads=4, label="gpt"
    )

    ctx, n = wf.Context(), wf.counter("n")
    tokens, following = (wf.input(name, b=("batch", "time"), dtype="int32") for name in ("tokens", "following"))
    loss = wf.nn.cross_entropy(model(tokens), following)
    rate = wf.optim.warm_up(n, wf.optim.cosine(n, 0.004, steps=steps), steps=20)
    update = wf.seq(wf.grad_update(loss), wf.optim.clip_by_norm(loss, 1.0), wf.optim.adamw(loss, lr=rate))
    step = ctx.function(tokens, following, code=update, returns=loss)
    batches = wf.data.windows(ids, window, batch_size=batch_size, seed=1)
    epochs = (batch for _ in count() for batch in batches)  # each loop over the batches is the next epoch
    losses = [step(x, y).item() for x, y in islice(epochs, steps)]

    numbers = sum(ctx[p].size for p in model.params)
    print(f"{len(text)} characters, {len(tokenizer)} different ones; {numbers} parameters, {steps} steps")
    print(wf.plot.curve(losses, title="loss of each step"))
    print(f"loss {losses[0]:.2f} a character at first, {np.mean(losses[-20:]):.2f} in the last 20 steps")

    said = model.generate(tokenizer.encode(prompt), max_new=letters, context=ctx, temperature=0.7, top_k=20, seed=3)
    print(prompt + (story := tokenizer.decode(said)))
    return np.array(losses), story


if __name__ == "__main__":
    main()
