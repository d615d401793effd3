"""A Viterbi decoder: the most probable states behind a sequence, forwards for the scores, backwards for the path."""

import numpy as np

import weft as wf


def decoded(start: wf.Tensor, change: wf.Tensor, emitted: wf.Tensor) -> wf.Tensor:
    """The best path, given logarithms of probabilities: `emitted` has a row of states for each step."""

    def forwards(score, here):
        ways = wf.einsum("p; p, s => p, s", score, change, op="+")
        return wf.max(ways, "p, s => s") + here, wf.argmax(ways, "p, s => s")

    came_from, score = wf.scan(forwards, emitted, init=start)

    def backwards(state, before):
        return wf.einsum("s; @s => 0", before, state), state

    path, _ = wf.scan(backwards, came_from, init=wf.argmax(score), reverse=True)
    return path


def main() -> np.ndarray:
    rng = np.random.default_rng(0)
    start, change, emitted = (np.log(rng.dirichlet(np.ones(4), n)).astype("float32") for n in (1, 4, 12))
    path = decoded(wf.data(start[0]), wf.data(change), wf.data(emitted, batch=1))
    print("path", found := wf.Context()[path].ravel())
    return found


if __name__ == "__main__":
    main()
