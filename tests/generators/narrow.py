"""Expressions in narrow types: results do not depend on where a value happened to be rounded, or in which order.

Whole numbers of every width, narrow floats and truth values meet in random graphs of operations that are exact or
rounded once, are joined, compared, reduced by sums, maxima and minima. What is stored is rounded, what is computed is
not; optimised code, which stores less, must give what unoptimised code and the interpreter give, to the last bit.
Reductions of whole numbers must not care for the order of their data, and products of them are exact.
"""

from __future__ import annotations

from collections.abc import Callable

import ml_dtypes
import numpy as np

import weft as wf

WHOLE = ("int8", "uint8", "int16", "uint16", "int32", "uint32", "int64")
FLOATS = ("float16", "bfloat16", "float8_e4m3fn", "float8_e5m2", "float32")
INT64 = np.dtype(np.int64)
Combine = Callable[[wf.Tensor, wf.Tensor], wf.Tensor]
PAIRS: dict[str, Combine] = {
    "+": lambda x, y: x + y,
    "-": lambda x, y: x - y,
    "*": lambda x, y: x * y,
    "max": wf.maximum,
    "min": wf.minimum,
    "<": wf.less,
    "where": lambda x, y: wf.where(wf.less(x, y), x, y),
    "//": lambda x, y: x // wf.where(wf.equal(y, 0), 1, y),
    "%": lambda x, y: x % wf.where(wf.equal(y, 0), 1, y),
}


def check(rng: np.random.Generator) -> None:
    kind = rng.random()
    (_order if kind < 0.3 else _product if kind < 0.5 else _graph)(rng)


def _data(rng: np.random.Generator, dtype: str, shape: tuple[int, ...]) -> np.ndarray:
    kind = np.dtype(getattr(ml_dtypes, dtype, dtype))
    if dtype in FLOATS:
        return (rng.integers(-24, 25, shape) / 8).astype(kind)
    info = np.iinfo(kind)
    wide = rng.random() < 0.5
    low, high = (max(info.min, -(2**40)), min(info.max, 2**40)) if wide else (max(info.min, -9), 9)
    return rng.integers(low, high, shape, endpoint=True).astype(kind)


def _graph(rng: np.random.Generator) -> None:
    """A graph of operations, run in three ways."""
    types = WHOLE if rng.random() < 0.5 else FLOATS
    arrays = [_data(rng, str(rng.choice(types)), (3, 4)) for _ in range(3)]
    plan = [(str(rng.choice(list(PAIRS))), *rng.integers(0, 3 + n, 2)) for n in range(int(rng.integers(1, 6)))]
    accum = str(rng.choice(["max", "min", "none"]))
    found = {}
    for way, (backend, optimise) in {
        "interpreted": ("interp", True),
        "plain": ("cc", False),
        "optimised": ("cc", True),
    }.items():
        with wf.config.using(optimise=optimise):
            graph = [wf.data(one) for one in arrays]
            try:
                for name, left, right in plan:
                    graph.append(PAIRS[name](graph[left], graph[right]))
                last = graph[-1] if accum == "none" else wf.einsum("ij;ij=>j", graph[-1], graph[0], accum=accum, op="+")
                value = wf.Context(backend)[last]
            except wf.WeftError as error:
                value = np.array(error.what)
            found[way] = (value.dtype.name, value.tobytes() if value.dtype.kind != "U" else str(value))
    what = f"{[(one.dtype.name, one.tolist()) for one in arrays]} {plan} {accum}"
    assert found["interpreted"] == found["plain"] == found["optimised"], f"{what}\n{found}"


def _product(rng: np.random.Generator) -> None:
    """A product of whole numbers, of which every sum is exact, or wraps around."""
    rows, sums, columns = (int(rng.choice([1, 3, 17, 40])) for _ in range(3))
    sums = int(rng.choice([sums, 1100]))
    a, b = (_data(rng, str(rng.choice(WHOLE)), shape) for shape in ((rows, sums), (sums, columns)))
    ctx, out = wf.Context("cc"), wf.einsum("ik; kj => ij", wf.data(a), wf.data(b))
    routine = ctx.compile(wf.seq(), keep=[out], options=wf.config.options.but(contraction_points=1))
    routine()
    with np.errstate(over="ignore"):
        wanted = a.astype(INT64) @ b.astype(INT64)
    what = f"{a.dtype} {a.shape} by {b.dtype} {b.shape}\n{routine.show('kernels')}"
    np.testing.assert_array_equal(ctx[out].astype(INT64), wanted, err_msg=what)


def _wrapped(value: int, dtype: np.dtype = INT64) -> int:
    """A whole number as a type holds it."""
    rest = value % (1 << 8 * dtype.itemsize)
    return rest - (1 << 8 * dtype.itemsize) if dtype.kind == "i" and rest >> 8 * dtype.itemsize - 1 else rest


def _order(rng: np.random.Generator) -> None:
    """A reduction of whole numbers, of its data in two orders."""
    dtype, accum = str(rng.choice(WHOLE)), str(rng.choice(["max", "min", "+", "*"]))
    op, n = str(rng.choice(["+", "-", "*"])), int(rng.integers(1, 12))
    x, y = _data(rng, dtype, (n, 3)), _data(rng, dtype, (n, 3))
    order = rng.permutation(n)
    for backend in ("interp", "cc"):
        one, other = (
            wf.Context(backend)[wf.einsum("ij;ij=>j", wf.data(a), wf.data(b), accum=accum, op=op)]
            for a, b in ((x, y), (x[order], y[order]))
        )
        exact = {"+": np.add, "-": np.subtract, "*": np.multiply}[op](x.astype(object), y.astype(object))
        reduce = {"max": np.maximum, "min": np.minimum, "+": np.add, "*": np.multiply}[accum].reduce
        wanted = [_wrapped(int(value), one.dtype) for value in reduce(np.vectorize(_wrapped)(exact), axis=0)]
        what = f"{backend} {dtype} accum={accum} op={op} {x.tolist()} {y.tolist()}"
        assert one.tolist() == other.tolist() == wanted, f"{what}\n{one} {other} {wanted}"
