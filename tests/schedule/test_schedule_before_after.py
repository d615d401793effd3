"""Passes before and after, on small programs in the loop language.

Each golden file has the kernels that a pass of the pipeline was given, and those that it left. The passes here look
at a program as a whole; those that rewrite one nest or one block have such programs in test files of their own.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pytest

from weft.loops import Collapse, Grid, Jam, Lanes, Parallel, Product, Simt, Unroll, Vector, buffers_of, check, parse
from weft.machine import COMMON
from weft.schedule import GPU_PASSES, PASSES, Task, show_kernels, stages
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.gpu_model import USUAL_GPU

PLACES = frozenset((Product, Collapse, Parallel, Jam, Vector, Unroll))
LAUNCHES = frozenset((Product, Grid, Lanes, Simt))
#: A GPU that finds small matrices large.
GPU = replace(USUAL_GPU, swept_columns=8, swept_single=((16, 16, 2),), multiprocessors=1, bytes_per_s=1e6)
OPTIONS = DEFAULTS.but(machine=replace(COMMON, cores=2), gpu=GPU, verify=True)
#: Values that are read often are computed where they are read all the same.
INLINING = OPTIONS.but(max_visits=64)

CHAIN = """
x: float32[64]
h: float32[64]
y: float32[64]
for i in range(64):
    h[i] = tanh(x[i])
for i in range(64):
    y[i] = h[i] * 2 + h[i] * 3
"""
SOFTMAX = """
x: float32[8, 64]
e: float32[8, 64]
s: float32[8]
y: float32[8, 64]
for i in range(8):
    for j in range(64):
        e[i, j] = exp(x[i, j])
s[...] = 0
for i in range(8):
    for j in range(64):
        s[i] += e[i, j]
for i in range(8):
    for j in range(64):
        y[i, j] = e[i, j] / s[i]
"""
PRODUCT = """
a: float32[64, 64]
b: float32[64, 64]
c: float32[64, 64]
y: float32[64, 64]
c[...] = 0
for i in range(64):
    for j in range(64):
        for k in range(64):
            c[i, j] += a[i, k] * b[k, j]
for i in range(64):
    for j in range(64):
        y[i, j] = relu(c[i, j])
"""
FEW_CELLS = """
a: float32[40003, 8]
b: float32[40003, 8]
c: float32[8, 8]
y: float32[8, 8]
c[...] = 0
for i in range(8):
    for j in range(8):
        for k in range(40003):
            c[i, j] += a[k, i] * b[k, j]
for i in range(8):
    for j in range(8):
        y[i, j] = relu(c[i, j])
"""
NARROW_PRODUCT = PRODUCT.replace("float32", "int8").replace("c: int8", "c: int64").replace("y: int8", "y: int64")
NARROW_PRODUCT = NARROW_PRODUCT.replace("a[i, k] * b[k, j]", "int64(a[i, k]) * int64(b[k, j])").replace("relu", "abs")
COLUMN_SUMS = """
a: float32[64, 32]
w: float32[32]
w[...] = 0
for i in range(64):
    for j in range(32):
        w[j] += a[i, j]
"""
IN_PLACE = """
x: float32[64]
u: float32[64]
v: float32[64]
y: float32[64]
s: float32[1]
for i in range(64):
    u[i] = exp(x[i])
s[...] = 0
for i in range(64):
    s[0] += u[i]
for i in range(64):
    v[i] = u[i] / s[0]
for i in range(64):
    y[i] = v[63 - i] + v[i] * v[i]
"""
HIDDEN_PRODUCT = """
dy: float32[64, 32]
h: float32[64, 32]
g: float32[64, 32]
x: float32[64, 48]
w: float32[32, 48]
g[...] = 0
for i in range(64):
    for o in range(32):
        g[i, o] += dy[i, o]
w[...] = 0
for i in range(64):
    for o in range(32):
        for k in range(48):
            w[o, k] += g[i, o] * x[i, k]
"""
HELD_PAST_PRODUCTS = """
x: float32[64, 64]
w: float32[64, 64]
h: float32[64, 64]
a: float32[64, 64]
b: float32[64, 64]
c: float32[64, 64]
y: float32[64, 64]
for i in range(64):
    for j in range(64):
        h[i, j] = x[i, j] * 0.5
a[...] = 0
for i in range(64):
    for j in range(64):
        for k in range(64):
            a[i, j] += h[i, k] * w[k, j]
b[...] = 0
for i in range(64):
    for j in range(64):
        for k in range(64):
            b[i, j] += a[i, k] * w[k, j]
c[...] = 0
for i in range(64):
    for j in range(64):
        for k in range(64):
            c[i, j] += b[i, k] * w[k, j]
y[...] = 0
for i in range(64):
    for j in range(64):
        for k in range(64):
            y[i, j] += h[i, k] * c[k, j]
"""
INVARIANT = """
x: float32[8, 64]
v: float32[8]
y: float32[8, 64]
for i in range(8):
    for j in range(64):
        y[i, j] = x[i, j] * exp(v[i]) + (x[i, j] * 1 + 0)
"""

LONG_SUMS = """
x: float32[100000, 4]
y: float32[4]
y[...] = 0
for i in range(100000):
    for j in range(4):
        y[j] += x[i, j]
"""
ONE_SUM = """
x: float32[100000]
y: float32[1]
y[...] = 0
for i in range(100000):
    y[0] += x[i]
"""
GRADIENT_OF_WINDOWS = """
w: float32[16, 3, 8]
g: float32[4, 32, 16]
d: float32[4, 32, 8]
d[...] = 0
for b in range(4):
    for t in range(32):
        for k in range(3):
            for o in range(16):
                for c in range(8):
                    if 0 <= t + k - 1 < 32:
                        d[b, t + k - 1, c] += g[b, t, o] * w[o, k, c]
"""
PADDED_WINDOWS = """
x: float32[4, 32, 8]
w: float32[16, 3, 8]
y: float32[4, 32, 16]
y[...] = 0
for b in range(4):
    for t in range(32):
        for o in range(16):
            for k in range(3):
                for c in range(8):
                    if 0 <= t + k - 1 < 32:
                        y[b, t, o] += x[b, t + k - 1, c] * w[o, k, c]
"""
ATTENTION = """
q: float32[24, 3]
k: float32[24, 3]
v: float32[24, 3]
s: float32[24, 24]
m: float32[24]
e: float32[24, 24]
z: float32[24]
p: float32[24, 24]
o: float32[24, 3]
s[...] = 0
for t in range(24):
    for u in range(24):
        for d in range(3):
            s[t, u] += q[t, d] * k[u, d]
m[...] = -inf
for t in range(24):
    for u in range(24):
        m[t] max= s[t, u]
for t in range(24):
    for u in range(24):
        e[t, u] = exp(s[t, u] - m[t])
z[...] = 0
for t in range(24):
    for u in range(24):
        z[t] += e[t, u]
for t in range(24):
    for u in range(24):
        p[t, u] = e[t, u] / z[t]
o[...] = 0
for t in range(24):
    for c in range(3):
        for u in range(24):
            o[t, c] += p[t, u] * v[u, c]
"""

#: For each pass, a program that it changes, and what of it is wanted.
SAMPLES = {
    "scatter_to_gather": (GRADIENT_OF_WINDOWS, "d"),
    "order_loops": (PRODUCT, "y"),
    "rematerialise": (HELD_PAST_PRODUCTS, "y"),
    "inline": (SOFTMAX, "y"),
    "simplify_nests": (HIDDEN_PRODUCT, "w"),
    "fuse": (CHAIN, "y"),
    "forward_stores": (SOFTMAX, "y"),
    "pad_windows": (PADDED_WINDOWS, "y"),
    "partition": (LONG_SUMS, "y"),
    "simplify": (INVARIANT, "y"),
    "place_contractions": (PRODUCT, "y"),
    "multiply_as_floats": (NARROW_PRODUCT, "y"),
    "split_products": (FEW_CELLS, "y"),
    "accumulate_in_lanes": (IN_PLACE, "y"),
    "widen_sums": (LONG_SUMS, "y"),
    "fold_storage": (SOFTMAX, "y"),
    "plan_memory": (IN_PLACE, "y"),
    "tile": (PRODUCT, "y"),
    "collapse": (HIDDEN_PRODUCT, "w"),
    "parallelise": (PRODUCT, "y"),
    "unroll_jam": (COLUMN_SUMS, "w"),
    "vectorise": (CHAIN, "y"),
}


#: What a product makes, divided by what its columns come to.
SUMS_OF_A_PRODUCT = """
a: float32[128, 48]
u: float32[48, 64]
g: float32[128, 64]
s: float32[64]
y: float32[128, 64]
g[...] = 0
for i in range(128):
    for j in range(64):
        for k in range(48):
            g[i, j] += a[i, k] * u[k, j]
s[...] = 0
for j in range(64):
    for i in range(128):
        s[j] += g[i, j]
for i in range(128):
    for j in range(64):
        y[i, j] = g[i, j] / s[j]
"""
#: What two products leave in the same cells.
SEVERAL_SUMS = """
a: float32[64, 48]
u: float32[48, 32]
b: float32[64, 20]
v: float32[32, 20]
g: float32[64, 32]
for i in range(64):
    for j in range(32):
        g[i, j] = 0.0
for i in range(64):
    for j in range(32):
        for k in range(48):
            g[i, j] += a[i, k] * u[k, j]
for p in range(64):
    for q in range(32):
        for k in range(20):
            g[p, q] += v[q, k] * b[p, k]
"""

#: The same of passes for a GPU.
SAMPLES_ON_GPU = {
    "forward_fills": (HIDDEN_PRODUCT, "w"),
    "group_sweeps": (ATTENTION, "o"),
    "sweep_columns": (ATTENTION, "o"),
    "join_straight_line": (ONE_SUM, "y"),
    "fuse": (SEVERAL_SUMS, "g"),
    "fold_sums": (SUMS_OF_A_PRODUCT, "y"),
    "place_contractions": (PRODUCT, "y"),
    "split_long_sums": (ONE_SUM, "y"),
    "cut_launches": (ONE_SUM, "y"),
    "map_to_grid": (SOFTMAX, "y"),
}


def around(name: str, text: str, wanted: str, on_gpu: bool) -> tuple[str, str]:
    """The kernels of a program before and after a pass."""
    program = check(parse(text))
    kept = {one: "wanted" for one in buffers_of(program) if one.name == wanted}
    places, passes = (LAUNCHES, GPU_PASSES) if on_gpu else (PLACES, PASSES)
    task = Task(kept, places=places, options=INLINING if name == "simplify_nests" else OPTIONS)
    before = ""
    for done, stage in stages(program, task, passes=passes):
        after = show_kernels(stage.kernels)
        if done == name:
            return before, after
        before = after
    raise AssertionError(f"there is no pass {name}")


@pytest.mark.parametrize("name", SAMPLES)
def test_before_and_after(name: str, golden: Callable[..., None]) -> None:
    before, after = around(name, *SAMPLES[name], on_gpu=False)
    assert before != after
    golden(f"{before}\n\n--- {name} ---\n\n{after}\n", name=name)


@pytest.mark.parametrize("name", SAMPLES_ON_GPU)
def test_before_and_after_on_a_gpu(name: str, golden: Callable[..., None]) -> None:
    before, after = around(name, *SAMPLES_ON_GPU[name], on_gpu=True)
    assert before != after
    golden(f"{before}\n\n--- {name} ---\n\n{after}\n", name=f"gpu_{name}")


def test_passes_are_those_of_the_pipeline() -> None:
    assert [one.name for one in PASSES if one.name in SAMPLES] == list(SAMPLES)
    assert [one.name for one in GPU_PASSES if one.name in SAMPLES_ON_GPU] == list(SAMPLES_ON_GPU)
