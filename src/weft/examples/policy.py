"""A policy gradient: an agent that starts knowing nothing learns the way through a grid world with a wall."""

import numpy as np

import weft as wf

WORLD = ["......", "......", ".####.", "......", "......"]  # from the top left to the bottom left, round the wall
MOVES = np.array([[-1, 0], [1, 0], [0, -1], [0, 1]])
ARROWS, START, GOAL = "↑↓←→", (0, 1), (4, 1)
WALLS = np.array([[cell == "#" for cell in row] for row in WORLD])


def walk(policy: np.ndarray, agents: int, longest: int, random: np.random.Generator):
    """Walks of many agents at once: which cell each was in, what it did, and whether it was still under way."""
    at, done, seen = np.tile(START, (agents, 1)), np.zeros(agents, bool), []
    for _ in range(longest):
        cell = at[:, 0] * WALLS.shape[1] + at[:, 1]
        move = (policy[cell].cumsum(axis=1) > random.random((agents, 1))).argmax(axis=1)
        seen.append((cell, move, ~done))
        to = np.clip(at + MOVES[move], 0, np.array(WALLS.shape) - 1)
        free = ~WALLS[to[:, 0], to[:, 1]] & ~done
        at = np.where(free[:, None], to, at)
        done |= (at == GOAL).all(axis=1)
    return (np.array(part) for part in zip(*seen, strict=True))


def main(rounds: int = 150, agents: int = 64, longest: int = 60) -> tuple[float, float]:
    random, ctx, cells = np.random.default_rng(0), wf.Context(), WALLS.size
    scores = wf.param("scores", o=(cells, 4), init=0.0)  # what speaks for each move in each cell
    policy = ctx.function(returns=wf.softmax(scores, "c, m => c"))
    cell, move = (wf.input(name, b="steps", dtype="int32") for name in ("cell", "move"))
    advantage = wf.input("advantage", b="steps", o=1)
    # cross entropy is the negative logarithm of the probability of what was done
    loss = wf.mean(advantage * wf.cross_entropy(scores[cell], move), "...|... => 0")
    learn = ctx.function(cell, move, advantage, code=wf.seq(wf.grad_update(loss), wf.optim.adam(loss, lr=0.15)))

    lengths = []
    for _ in range(rounds):
        where, did, active = walk(np.asarray(policy(), "float64"), agents, longest, random)
        left = active[::-1].cumsum(axis=0)[::-1]  # steps from each on: a step costs 1
        better = (left.mean(axis=1, keepdims=True) - left) * active
        better /= better.std() + 1e-8
        learn(where.ravel(), did.ravel(), better.reshape(-1, 1))
        lengths.append(active.sum(axis=0).mean())
    print(wf.plot.curve(lengths, title="steps to the goal"))
    best = np.asarray(policy()).argmax(axis=1).reshape(WALLS.shape)
    for r, row in enumerate(WORLD):
        print("  ", *("G" if (r, c) == GOAL else "#" if x == "#" else ARROWS[best[r, c]] for c, x in enumerate(row)))
    print(f"{lengths[0]:.1f} steps at first, {np.mean(lengths[-10:]):.1f} in the end; the shortest way has 6")
    return float(lengths[0]), float(np.mean(lengths[-10:]))


if __name__ == "__main__":
    main()
