"""Mixed precision: the same training in float32 and in bfloat16, with parameters kept in float32.

What is computed is stored in half the bytes; what is summed grows in float32, and optimisers keep float32.
"""

import numpy as np

import weft as wf


@wf.op
def mlp(x, *, width, dtype):
    """A perceptron whose parameters are float32 and whose layers are stored as `dtype`."""
    for layer, size in enumerate((width, width, 2)):
        w = wf.param(f"w{layer}", o=size, dtype="float32")
        x = wf.cast(w, dtype) @ wf.cast(x, dtype)
        x = wf.relu(x) if layer < 2 else wf.cast(x, "float32")
    return x


def main(steps: int = 200, width: int = 64, examples: int = 512) -> dict[str, float]:
    random = np.random.default_rng(0)
    points = random.uniform(-1, 1, (examples, 4)).astype("float32")
    sides = (points.prod(axis=1) > 0).astype("int32")
    accuracies = {}
    for dtype in ("float32", "bfloat16"):
        wf.seed(0)
        ctx, model = wf.Context(), mlp(width=width, dtype=dtype, label="mlp")
        x, y = wf.input("x", b="batch", o=4), wf.input("y", b="batch", dtype="int32")
        logits = model(x)
        loss = wf.nn.cross_entropy(logits, y)
        update = wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.01))
        step = ctx.function(x, y, code=update, returns=loss)
        losses = [step(points, sides).item() for _ in range(steps)]
        found = ctx.function(x, returns=wf.argmax(logits))(points)
        accuracies[dtype] = float(np.mean(found[:, 0] == sides))
        kept = {ctx[p].dtype.name for p in model.params}
        memory = step.memory(batch=examples).peak / 1024
        print(f"{dtype:9} loss {losses[0]:.3f}, then {losses[-1]:.3f}; {accuracies[dtype]:.1%} right;", end=" ")
        print(f"parameters are {', '.join(kept)}; a step takes {memory:.0f} KiB")
    return accuracies


if __name__ == "__main__":
    main()
