"""A graph network: each node gathers from its neighbours, and three communities are found from a few labels.

Along an edge a value is looked up (`@`), and at its end it is added: a gather and a scatter in the notation.
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
def messages(x, sources, targets, *, nodes, width):
    """What arrives at each node along its edges, on average, through a linear layer."""
    sent = wf.einsum("v, d; e|@v => e|d", x, sources)  # the value at the source of each edge
    arrived = wf.einsum("e|d; e|@v => v, d", sent, targets, v=nodes)  # summed at its target
    count = wf.bincount(targets, nodes)
    mean = wf.einsum("v, d; v => v, d", arrived, 1 / wf.cast(count, "float32"))
    return wf.einsum("i->o; v, i => v, o", wf.param("w", o=width), mean)


def main(nodes: int = 300, known: int = 15, steps: int = 150, width: int = 16) -> tuple[float, float]:
    wf.seed(0)
    kind, edges = communities(nodes, seed=0)
    given = np.zeros((nodes, 3), "float32")
    given[np.arange(known), kind[:known]] = 1  # a few nodes say where they belong, the others nothing
    features = np.concatenate([given, np.random.default_rng(1).normal(size=(nodes, 8))], axis=1).astype("float32")
    x = wf.data(features, label="features")
    sources, targets = (wf.data(ends, batch=1, label=name) for ends, name in zip(edges, ("from", "to"), strict=True))

    h = wf.relu(messages(x, sources, targets, nodes=nodes, width=width, label="first"))
    h = wf.relu(h + messages(h, sources, targets, nodes=nodes, width=width, label="second"))
    logits = messages(h, sources, targets, nodes=nodes, width=3, label="last")
    which = np.where(np.arange(nodes) < known, kind, -1)  # -1 names no class
    each = wf.cross_entropy(logits, wf.data(which, label="which"), "v, c => v", ignore_index=-1)
    loss = wf.einsum("v => 0", each) / known
    ctx = wf.Context()
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adamw(loss, lr=0.01, weight_decay=0.1)))
    losses = []
    for _ in range(steps):
        step()
        losses.append(ctx[loss].item())
    found = ctx[logits].argmax(axis=1)
    right = float(np.mean(found[known:] == kind[known:]))
    print(f"{nodes} nodes, {edges.shape[1]} edges, {known} labels: loss {losses[0]:.2f}, then {losses[-1]:.3f}")
    print(f"{right:.1%} of the other {nodes - known} nodes are in the community it says; guessing has 33%")
    return losses[-1], right


if __name__ == "__main__":
    main()
