"""A graph network: labels travel along edges, and three communities are found from those of a few nodes.

Along an edge a value is looked up (`@`), and at its end it is added: a gather and a scatter in the notation. What is
learned is how much to trust what comes from one edge away, from two, from three.
"""

import numpy as np

import weft as wf


def communities(nodes: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Which of three communities each node is in, and edges both ways: far more inside of one than between two."""
    random = np.random.default_rng(seed)
    kind = random.integers(0, 3, nodes)
    chance = np.where(kind[:, None] == kind, 12, 1.5) / nodes
    one, other = np.nonzero(np.triu(random.random((nodes, nodes)) < chance, 1))
    itself = np.arange(nodes)
    return kind.astype("int32"), np.array([[*one, *other, *itself], [*other, *one, *itself]], "int32")


@wf.op
def spread(labels, sources, targets, *, nodes, rounds):
    """Scores of each node, from the labels that reach it along edges: once, and again from there, so many times."""
    count = wf.cast(wf.bincount(targets, nodes), "float32")

    def onwards(here, _):
        sent = wf.einsum("v, c; e|@v => e|c", here, sources)  # the value at the source of each edge
        arrived = wf.einsum("e|c; e|@v => v, c", sent, targets, v=nodes)  # summed at its target
        return wf.einsum("v, c; v => v, c", arrived, 1 / count)

    heard, _ = wf.scan(onwards, wf.einsum("k => k|0", wf.arange(rounds)), init=labels)
    trust = wf.param("trust", o=rounds, init=np.eye(rounds)[0])  # at first, only what comes from next door
    return wf.einsum("k|v, c; k => v, c", heard, trust)


def main(nodes: int = 300, known: int = 30, steps: int = 200, rounds: int = 10) -> tuple[float, float, float]:
    kind, edges = communities(nodes, seed=0)
    labels, asked = wf.input("labels", o=(nodes, 3)), wf.input("asked", o=nodes, dtype="int32")
    sources, targets = (wf.data(ends, batch=1, label=name) for ends, name in zip(edges, ("from", "to"), strict=True))
    model = spread(nodes=nodes, rounds=rounds, label="spread")
    logits = model(labels, sources, targets)
    each = wf.cross_entropy(logits, asked, "v, c => v", ignore_index=-1)
    loss = wf.einsum("v => 0", each) / known
    ctx = wf.Context()
    step = ctx.function(labels, asked, code=wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.1)), returns=loss)
    predict = ctx.function(labels, returns=wf.argmax(logits, "v, c => v"))

    given = np.where(np.arange(nodes) < known, 1, 0)
    truth = np.eye(3, dtype="float32")[kind] / np.bincount(kind[:known], minlength=3) * known  # all communities alike

    def right() -> float:
        found = predict(truth * given[:, None])
        return float(np.mean(found[known:] == kind[known:]))

    before, random = right(), np.random.default_rng(1)
    for _ in range(steps):  # some of the labels are given, and the others asked for
        told = given * (random.random(nodes) < 0.7)
        cost = step(truth * told[:, None], np.where(given > told, kind, -1).astype("int32")).item()
    after = right()
    print(f"{nodes} nodes, {edges.shape[1]} edges, {known} labels, 3 communities; guessing has 33% right")
    print(f"{before:.1%} of the others from the labels next door, {after:.1%} once it is learned whom to trust:")
    for far, weight in enumerate(ctx[model.param("trust")], 1):
        print(f"{far:3} away {weight:6.2f} {'#' * max(0, round(4 * float(weight)))}")
    return cost, before, after


if __name__ == "__main__":
    main()
