"""Products over the same cells whose results meet run as one kernel, or not, and make the same numbers.

Two to four products of matrices in any layout, which may share a factor, with sums of several lengths, in batches or
not; what they make meets in an expression, one after another: a difference, a gated unit, a sum of products as of
complex numbers. One of the products may be wanted for itself. The answer is NumPy's in double precision, and the
gradients of all factors those of the oracle.
"""

from __future__ import annotations

import numpy as np

import weft as wf
from generators._settings import drawn

LAYOUTS = ("ik;kj", "ki;kj", "ik;jk", "ki;jk")
JOINED = {
    "difference": (lambda a, b: a - b, lambda a, b: a - b),
    "product": (lambda a, b: a * b, lambda a, b: a * b),
    "gated": (lambda a, b: wf.sigmoid(a) * b, lambda a, b: b / (1 + np.exp(-a))),
    "larger": (wf.maximum, np.maximum),
    "both": (lambda a, b: a * 0.5 + wf.tanh(b), lambda a, b: a * 0.5 + np.tanh(b)),
}


def check(rng: np.random.Generator) -> None:
    dtype = str(rng.choice(["float32", "float32", "float64"]))
    rows, columns = (int(rng.choice([1, 2, 5, 8, 17, 33, 40])) for _ in range(2))
    lengths = [int(rng.choice([1, 3, 16, 33, 64, 150])) for _ in range(int(rng.integers(1, 3)))]
    batch = bool(rng.random() < 0.25)
    arrays: list[np.ndarray] = []
    tensors: dict[tuple[int, ...], wf.Tensor] = {}
    sums, meant = [], []
    for at in range(int(rng.integers(2, 5))):
        one, other = str(rng.choice(LAYOUTS)).split(";")
        sizes = {"i": rows, "j": columns, "k": int(rng.choice(lengths)), "b": 3}
        one = f"b{one}" if batch else one
        other = f"b{other}" if batch and rng.random() < 0.5 else other
        factors = [_factor(rng, tensors, arrays, tuple(sizes[axis] for axis in axes), dtype) for axes in (one, other)]
        result = "bij" if batch else "ij"
        made = wf.einsum(f"{one}; {other} => {result}", *(tensor for tensor, _ in factors))
        started = bool(rng.random() < 0.2)
        sums.append(made + 0.25 * at if started else made)
        exact = np.einsum(f"{one},{other}->{result}", *(array.astype(np.float64) for _, array in factors))
        meant.append(exact + 0.25 * at if started else exact)
    names, out, answer = [], sums[0], meant[0]
    for made, exact in zip(sums[1:], meant[1:], strict=True):
        name = str(rng.choice(list(JOINED)))
        ours, theirs = JOINED[name]
        swapped = bool(rng.random() < 0.3)
        out, answer = (ours(made, out), theirs(exact, answer)) if swapped else (ours(out, made), theirs(answer, exact))
        names.append(name)
    wanted = [out, *([sums[int(rng.integers(len(sums)))]] if rng.random() < 0.3 else [])]
    exact = [answer, *(meant[next(at for at, one in enumerate(sums) if one is each)] for each in wanted[1:])]
    slopes = [one.grad for one in tensors.values()]
    loss = wf.einsum("... => 0", out * 0.125)
    options = wf.config.options.but(**drawn(rng)) if rng.random() < 0.5 else wf.config.options
    found = {}
    for backend in ("interp", "cc"):
        ctx = wf.Context(backend)
        ctx.compile(wf.grad_update(loss), keep=[*wanted, *slopes], options=options)()
        shown = f"{names} of {[one.shape for one in arrays]} {dtype} on {backend}\n{options}"
        for one, right in zip(wanted, exact, strict=True):
            largest = max(float(np.abs(right).max(initial=0)), 1e-3)
            np.testing.assert_allclose(ctx[one], right, rtol=1e-4, atol=1e-4 * largest, err_msg=shown)
        found[backend] = [ctx[one] for one in slopes]
    for ours, theirs in zip(found["cc"], found["interp"], strict=True):
        largest = max(float(np.abs(theirs).max(initial=0)), 1e-3)
        np.testing.assert_allclose(ours, theirs, rtol=1e-3, atol=1e-3 * largest, err_msg=f"{names} {options}")
    ctx = wf.Context("cc")
    ctx.compile(out.forward, keep=[out], options=options)()  # where no gradient wants what meets, more of it does
    largest = max(float(np.abs(answer).max(initial=0)), 1e-3)
    np.testing.assert_allclose(ctx[out], answer, rtol=1e-4, atol=1e-4 * largest, err_msg=f"{names} alone\n{options}")


def _factor(
    rng: np.random.Generator,
    tensors: dict[tuple[int, ...], wf.Tensor],
    arrays: list[np.ndarray],
    shape: tuple[int, ...],
    dtype: str,
) -> tuple[wf.Tensor, np.ndarray]:
    """A tensor of a shape, one that there is as often as not."""
    known = next((one for one in arrays if one.shape == shape), None)
    if known is None or rng.random() < 0.5:
        known = (rng.normal(size=shape) / 4).astype(dtype)
        arrays.insert(0, known)
        tensors[id(known), *shape] = wf.param(f"p{len(arrays)}", o=shape, init=known, dtype=dtype)
    return tensors[id(known), *shape], known
