"""Products whose factors are rounded: every way to run them rounds the same numbers, and adds them up as they are.

Matrices in any layout, with a function of one of them before the product, and their gradients, in which what comes back
is rounded once more. The answer is NumPy's, of rounded factors in double precision. What is decided about kernels is
given as it prints, and decides the same.

Sums of what a product makes, along one of its axes, are NumPy's too, whether blocks divide those axes or not. Products
of whole numbers are NumPy's to the last digit, whatever they are multiplied in, and so are long sums that
threads share.
"""

from __future__ import annotations

from dataclasses import replace

import ml_dtypes
import numpy as np

import weft as wf
from backends.on_grid import OnGrid
from generators._settings import drawn

ROUNDED = {"bfloat16": ml_dtypes.bfloat16, "float16": np.float16, "float32": np.float32}
LAYOUTS = {
    "ik; kj => ij": "ik,kj->ij",
    "ki; kj => ij": "ki,kj->ij",
    "ik; jk => ij": "ik,jk->ij",
    "ik; kj => ji": "ik,kj->ji",
}


def check(rng: np.random.Generator) -> None:
    products, spec = str(rng.choice(list(ROUNDED))), str(rng.choice(list(LAYOUTS)))
    sizes = {letter: int(rng.choice([1, 2, 7, 17, 33])) for letter in "ijk"}
    if rng.random() < 0.25:
        sizes[str(rng.choice(list("ijk")))] = int(rng.integers(80, 200))  # sums of these are long: they have strips
    shapes = [tuple(sizes[one] for one in operand) for operand in spec.partition(" =>")[0].split("; ")]
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in shapes)
    before = bool(rng.random() < 0.5)

    def rounded(array: np.ndarray, summed: str) -> np.ndarray:
        """A factor as a contraction takes it: one that adds up several products, and uses a factor several times."""
        contracts = sizes[summed] > 1 and any(sizes[one] > 1 for one in sizes if one != summed)
        return array.astype(np.float32).astype(ROUNDED[products] if contracts else np.float32).astype(np.float64)

    p, q = (wf.param(name, o=one.shape, init=one) for name, one in (("p", a), ("q", b)))
    out = wf.einsum(spec, wf.relu(p) if before else p, q)
    loss = wf.einsum("... => 0", out * out)
    given = np.maximum(a, 0) if before else a
    product = np.einsum(LAYOUTS[spec], rounded(given, "k"), rounded(b, "k"))
    (one, other), to = LAYOUTS[spec].split("->")[0].split(","), LAYOUTS[spec].split("->")[1]
    back = 2 * product
    d_p = np.einsum(f"{to},{other}->{one}", rounded(back, "j"), rounded(b, "j")) * (a > 0 if before else 1)
    d_q = np.einsum(f"{to},{one}->{other}", rounded(back, "i"), rounded(given, "i"))
    options = wf.config.options.but(**drawn(rng), products=products)
    for backend in ("interp", "cc", OnGrid()):
        ctx = wf.Context(backend)
        step = ctx.compile(wf.grad_update(loss), keep=[out, p.grad, q.grad], options=options)
        if backend != "interp" and step.compiled.request.fuses:
            decided = step.decisions()
            step.decide({number: one.texts for number, one in enumerate(decided)})  # as it is printed, it is read
            assert step.decisions() == decided, options
        step()
        shown = f"{spec} of {shapes} in {products}{', of relu' * before}, on {backend}\n{options}"
        np.testing.assert_allclose(ctx[out], product, rtol=1e-5, atol=1e-4, err_msg=shown)
        digits = 1e-5 if products == "float32" else 2e-2  # what comes back may be rounded to the number beside
        for gradient, meant in ((ctx[p.grad], d_p), (ctx[q.grad], d_q)):
            largest = float(np.abs(meant).max(initial=1e-3))
            np.testing.assert_allclose(gradient, meant, rtol=digits, atol=digits * largest, err_msg=shown)
    _check_sums(rng, options.but(products="float32"))
    _check_whole(rng, options.but(products="float32"))


def _check_sums(rng: np.random.Generator, options: wf.CompileOptions) -> None:
    """A product, a function of it, and what that adds up to along an axis, from the same launch or not."""
    rows, columns = (int(one) for one in rng.choice([16, 32, 48, 80, 33], 2))
    a, b = (rng.normal(size=shape).astype(np.float32) for shape in ((rows, 24), (24, columns)))
    axis = int(rng.integers(2))
    out = wf.tanh(wf.einsum("ik; kj => ij", wf.data(a), wf.data(b)))
    total = wf.einsum(f"i j => {'ji'[axis]}", wf.exp(out))
    options = options.but(gpu=replace(options.shaped_for, splits=int(rng.choice([1, 16]))))
    meant = np.tanh(a.astype(np.float64) @ b)
    for backend in ("interp", "cc", OnGrid()):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(), keep=[out, total], options=options)()
        np.testing.assert_allclose(ctx[out], meant, rtol=1e-4, atol=1e-5, err_msg=f"{options}")
        np.testing.assert_allclose(ctx[total], np.exp(meant).sum(axis), rtol=1e-4, err_msg=f"{axis} {options}")


def _check_whole(rng: np.random.Generator, options: wf.CompileOptions) -> None:
    """Products of whole numbers: of small ones in float64 too, of which no sum is rounded in whatever order."""
    dtype, spec = (
        str(rng.choice(["int8", "uint8", "int16", "int16", "int32", "float64"])),
        str(rng.choice(list(LAYOUTS))),
    )
    sizes = {letter: int(rng.choice([1, 2, 5, 17])) for letter in "ij"} | {"k": int(rng.choice([3, 40, 700]))}
    shapes = [tuple(sizes[one] for one in operand) for operand in spec.partition(" =>")[0].split("; ")]
    low, high = (-99, 99) if dtype == "float64" else (np.iinfo(dtype).min, np.iinfo(dtype).max)
    a, b = (rng.integers(low, high, shape, endpoint=True).astype(dtype) for shape in shapes)
    wide = "float64" if dtype == "float64" else "int64"  # which sums of whole numbers are held in
    out = wf.einsum(spec, wf.data(a), wf.data(b))
    meant = np.einsum(LAYOUTS[spec], a.astype(wide), b.astype(wide))
    if rng.random() < 0.5:  # where there are several cores, and no words
        options = options.but(chunk_ns=1, machine=replace(options.machine, cores=3, narrow=""))
    for backend in ("interp", "cc", OnGrid()):
        ctx = wf.Context(backend)
        ctx.compile(wf.seq(), keep=[out], options=options)()
        np.testing.assert_array_equal(ctx[out], meant, f"{spec} of {shapes}, {dtype}, {backend}\n{options}")
