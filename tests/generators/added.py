"""Products in batches, a function of their results, and what that adds up to: over batches, rows, columns, any of them.

On a GPU programs share the cells of a product, and whoever adds up must not race for the sums: each program runs the
batches over which its own cells add up, or the results are stored first. Axes stand in any order, sizes are about those
of blocks, results are kept besides or not. The answer is NumPy's, in double precision.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import weft as wf
from backends.on_grid import OnGrid
from generators._settings import drawn

SIZES = {"b": (1, 2, 3), "h": (1, 2, 5), "i": (15, 16, 17, 33, 48, 70), "j": (15, 16, 17, 33, 48, 70), "k": (2, 16, 31)}
FUNCTIONS = {
    "nothing": (lambda z: z, lambda z: z),
    "tanh": (wf.tanh, np.tanh),
    "a square": (lambda z: z * z, np.square),
}
JOINED = {"+": np.sum, "max": np.max}


def check(rng: np.random.Generator) -> None:
    sizes = {letter: int(rng.choice(some)) for letter, some in SIZES.items()}
    a, b = (_shuffled(rng, letters) for letters in ("bhik", "bhjk"))
    z, weights = _shuffled(rng, "bhij"), _shuffled(rng, "hij")
    kept = "".join(rng.choice(["bij", "bij", "ij", "hij", "bhi", "bj", "h", ""]))
    out = _shuffled(rng, kept)
    arrays = [rng.normal(size=[sizes[one] for one in letters]) for letters in (a, b, weights)]
    name, accum = str(rng.choice(list(FUNCTIONS))), str(rng.choice(list(JOINED), p=[0.75, 0.25]))
    weighted, beside, dtype = (bool(rng.random() < p) for p in (0.5, 0.25, 0.75))
    ours, theirs = FUNCTIONS[name]

    made = theirs(np.einsum(f"{a},{b}->{z}", *arrays[:2]))
    made = np.einsum(f"{z},{weights}->{z}", made, arrays[2]) if weighted else made
    left = JOINED[accum](made, axis=tuple(at for at, one in enumerate(z) if one not in kept))
    order = [one for one in z if one in kept]
    meant = np.einsum(f"{''.join(order)}->{out}", np.asarray(left))

    data = [wf.data(one.astype(np.float32) if dtype else one) for one in arrays]
    product = ours(wf.einsum(f"{_spaced(a)}; {_spaced(b)} => {_spaced(z)}", *data[:2]))
    term = wf.einsum(f"{_spaced(z)}; {_spaced(weights)} => {_spaced(z)}", product, data[2]) if weighted else product
    total = wf.einsum(f"{_spaced(z)} => {_spaced(out) or '0'}", term, accum=accum)

    options = wf.config.options.but(**drawn(rng), products="float32")
    few = {"alone_points": int(rng.choice([1, 64, 1 << 13])), "multiprocessors": int(rng.choice([1, 132]))}
    options = options.but(gpu=replace(options.shaped_for, **few, splits=int(rng.choice([1, 16]))))
    shown = f"{a}; {b} => {z}, {name}, {weighted=}, {accum} => {out!r} of {sizes}"
    size = np.abs(made).sum() / max(meant.size, 1) if accum == "+" else np.abs(made).max()
    for backend in ("interp", "cc", OnGrid()):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(), keep=[total, *([product] if beside else [])], options=options)()
        found = np.asarray(ctx[total]).reshape(meant.shape)
        np.testing.assert_allclose(found, meant, rtol=2e-4, atol=1e-5 * size, err_msg=f"{shown}, {backend}\n{options}")


def _shuffled(rng: np.random.Generator, letters: str) -> str:
    return "".join(rng.permutation(list(letters))) if letters else ""


def _spaced(letters: str) -> str:
    return " ".join(letters)
