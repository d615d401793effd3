"""Which factors of contractions are computed as they are packed, and which are stored."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import weft as wf
from weft.loops import Buffer, parse
from weft.loops.nests import nests
from weft.machine import COMMON
from weft.optimise.inline_decision import Settings, Verdict, decide

BUFFERS = {
    name: Buffer(at, name, shape, dtype)
    for at, (name, shape, dtype) in enumerate(
        [
            *((name, (32, 32), "float32") for name in ("a", "b", "c", "d", "f", "g", "y")),
            ("n", (32, 32), "int64"),
            ("s", (32,), "float32"),
            ("v", (32,), "float32"),
        ]
    )
}
F = BUFFERS["f"]


def nest(core: str, loops: str = "ikj") -> str:
    """A statement in loops of 32 iterations, the first outermost."""
    heads = [f"{'    ' * depth}for {name} in range(32):" for depth, name in enumerate(loops)]
    return "\n".join([*heads, f"{'    ' * len(loops)}{core}"])


PRODUCT = nest("c[i, j] += a[i, k] * f[k, j]")
WINDOW = nest("if 0 <= i + k - 1 < 32:\n                c[i, j] += a[k, j] * f[i + k - 1, j]")
COLUMNS = Verdict(False, "computed as `c` packs it")
STORED, FEW = Verdict(True, "read 32 times"), Verdict(True, "read 5 times")
#: What computes f, what reads it, and the verdict on it.
CASES = {
    "columns": (nest("f[k, j] = relu(b[k, j])", "kj"), PRODUCT, COLUMNS),
    "of several tensors": (nest("f[k, j] = where(0 < d[k, j], b[k, j] * s[k], 0.0)", "kj"), PRODUCT, COLUMNS),
    "converted": (nest("f[k, j] = float32(n[k, j])", "kj"), PRODUCT, Verdict(False, "nothing to compute")),
    "columns of the other factor": (
        nest("f[k, j] = relu(b[k, j])", "kj"),
        nest("c[i, j] += f[k, i] * a[j, k]"),
        COLUMNS,
    ),
    "rows": (nest("f[k, j] = relu(b[k, j])", "kj"), nest("c[i, j] += f[i, k] * a[k, j]"), STORED),
    "rows, converted": (nest("f[k, j] = float32(n[k, j])", "kj"), nest("c[i, j] += f[i, k] * a[k, j]"), STORED),
    "rows, copied": (
        nest("f[k, j] = b[j, k]", "kj"),
        nest("c[i, j] += f[i, k] * a[k, j]"),
        Verdict(False, "nothing to compute"),
    ),
    "a constant": (
        nest("f[k, j] = 2.0", "kj"),
        nest("c[i, j] += f[i, k] * a[k, j]"),
        Verdict(False, "nothing to compute"),
    ),
    "columns that do not lie side by side": (nest("f[k, j] = relu(b[j, k])", "kj"), PRODUCT, STORED),
    "a function": (nest("f[k, j] = exp(b[k, j])", "kj"), PRODUCT, STORED),
    "a sum": (nest("f[k, j] = 0.0", "kj") + "\n" + nest("f[k, j] += b[l, j]", "kjl"), PRODUCT, STORED),
    "gathered": (nest("f[k, j] = b[n[k, j], j] * 2.0", "kj"), PRODUCT, STORED),
    "partly written": (nest("f[k, j] = 0.0", "kj") + "\n" + nest("f[k, 0] = b[k, 0]", "k"), PRODUCT, STORED),
    "under a test": (
        "for k in range(32):\n    for j in range(32):\n        if 0 <= k - 1 < 9:\n            f[k, j] = b[k, j] * 2.0",
        PRODUCT,
        STORED,
    ),
    "a window, copied": (nest("f[k, j] = b[k, j]", "kj"), WINDOW, Verdict(False, "nothing to compute")),
    "a window, computed": (nest("f[k, j] = relu(b[k, j])", "kj"), WINDOW, FEW),
    "another window than the copy": (
        nest("f[k, j] = b[k, j]", "kj").replace("k in range(32)", "k in range(31)"),
        WINDOW,
        FEW,
    ),
    "moved": ("for k in range(31):\n    for j in range(32):\n        f[k + 1, j] = b[k, j] * 2.0", PRODUCT, STORED),
    "partly side by side": (nest("f[k, j] = b[k, j] + d[j, k]", "kj"), PRODUCT, STORED),
    "fewer columns than a vector has": (
        nest("f[k, j] = relu(b[k, j])", "kj"),
        PRODUCT.replace("j in range(32)", "j in range(15)"),
        STORED,
    ),
    "stored again and again": (nest("f[k, j] = b[l, j] * 2.0", "kjl"), PRODUCT, STORED),
    "both factors": (
        nest("f[k, j] = relu(b[k, j])", "kj"),
        nest("c[i, j] += f[k, i] * f[k, j]"),
        Verdict(True, "read 64 times"),
    ),
    "read elsewhere, too": (
        nest("f[k, j] = relu(b[k, j])", "kj"),
        PRODUCT + "\n" + nest("d[i, j] = f[i, j]", "ij"),
        Verdict(True, "read 33 times"),
    ),
    "of a vector": (
        nest("f[k, j] = relu(b[k, j])", "kj"),
        nest("v[j] += s[k] * f[k, j]", "kj"),
        Verdict(False, "read once"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_a_factor(name: str) -> None:
    writes, uses, verdict = CASES[name]
    found = nests(parse(f"{writes}\n{uses}", BUFFERS.values()))
    kept = {BUFFERS[one]: "wanted" for one in "cdv"}
    assert decide(found, kept)[F] == verdict


def test_a_chain_joins_as_a_whole_up_to_so_many_operations() -> None:
    text = "\n".join([nest("g[k, j] = b[k, j] + 1.0", "kj"), nest("f[k, j] = relu(g[k, j])", "kj"), PRODUCT])
    found = nests(parse(text, BUFFERS.values()))
    kept, g = {BUFFERS["c"]: "wanted"}, BUFFERS["g"]
    assert decide(found, kept, Settings(prologue=2))[g] == COLUMNS
    assert decide(found, kept, Settings(prologue=1))[g] == STORED
    assert decide(found, kept, Settings(prologue=1))[F] == COLUMNS
    # what is no contraction has no prologue: its loops run in their order
    assert decide(found, kept, Settings(tiled=1 << 20))[F] == STORED


def test_one_factor_is_packed_the_other_is_stored() -> None:
    text = "\n".join(
        [
            nest("g[k, i] = b[k, i] + 1.0", "ki"),
            nest("f[k, j] = relu(b[k, j])", "kj"),
            nest("c[i, j] += g[k, i] * f[k, j]"),
        ]
    )
    found = decide(nests(parse(text, BUFFERS.values())), {BUFFERS["c"]: "wanted"})
    assert (found[F], found[BUFFERS["g"]]) == (COLUMNS, STORED)


def test_a_contraction_both_of_whose_factors_are_computed_in_it() -> None:
    writes = [nest("g[k, i] = exp(b[k, i])", "ki"), nest("f[k, j] = exp(b[j, k])", "kj")]
    found = nests(parse("\n".join([*writes, nest("c[i, j] += g[k, i] * f[k, j]")]), BUFFERS.values()))
    forced = [F, BUFFERS["g"]]
    assert all(not decide(found, {BUFFERS["c"]: "wanted"}, forced=forced)[one].stored for one in forced)


def test_the_result_of_a_contraction_that_is_not_placed() -> None:
    """c is computed where it is read, out of its own loops: there are no tiles, and nothing is packed."""
    text = "\n".join(
        [
            nest("f[k, j] = relu(b[k, j])", "kj"),
            nest("c[i, j] = 0.0", "ij"),
            nest("c[i, j] += a[i, k] * f[k, j]", "ijk"),
            nest("y[j, i] = c[i, j]", "ij"),
        ]
    )
    found = decide(nests(parse(text, BUFFERS.values())), {BUFFERS["y"]: "wanted"})
    assert not found[BUFFERS["c"]].stored
    assert found[F].stored


@pytest.mark.parametrize("side", ["rows", "columns"])
@pytest.mark.parametrize("kind", ["relu", "twice", "masked", "converted", "sum of two"])
def test_products_of_computed_factors(side: str, kind: str) -> None:
    rng = np.random.default_rng(0)
    plain, mask, whole = rng.normal(size=(40, 40)), rng.normal(size=(40, 40)), rng.integers(-9, 9, (40, 40))
    x, m, n = (wf.data(one.astype("float32"), label=name) for one, name in ((plain, "x"), (mask, "m"), (plain.T, "n")))
    q = wf.data(whole, label="q")
    tensor, value = {
        "relu": lambda: (wf.relu(x), np.maximum(plain, 0)),
        "twice": lambda: (x * 2.0, plain * 2),
        "masked": lambda: (wf.where(m > 0, x, 0.0), np.where(mask > 0, plain, 0)),
        "converted": lambda: (wf.cast(q, "float32"), whole),
        "sum of two": lambda: (x + m, plain + mask),
    }[kind]()
    operands, arrays = ((tensor, n), (value, plain.T)) if side == "rows" else ((n, tensor), (plain.T, value))
    y = wf.einsum("i,k; k,j => i,j", *operands, label="y")
    ctx = wf.Context("cc")
    run = ctx.compile(y.forward, keep=[y])
    run()
    np.testing.assert_allclose(ctx[y], arrays[0] @ arrays[1], rtol=1e-4, atol=1e-4)
    assert "product of" in run.show("kernels")
    assert ("copied panels" in run.show("kernels")) == (side == "columns")


# What becomes of a contraction's result

RESULT = "\n".join([nest("c[i, j] = 0.0", "ij"), nest("c[i, j] += a[i, k] * b[k, j]", "ijk")])


@pytest.mark.parametrize(
    ("use", "why"),
    [
        ("if 0 <= n[i, 0] < 32:\n            y[n[i, 0], j] += c[i, j]", "a scatter would take its tiles apart"),
        ("s[0] += relu(c[i, j])", "a sum of all its cells would leave it to one thread"),
        ("s[j] += relu(c[i, j])", ""),
        ("y[i, j] = relu(c[i, j])", ""),
    ],
)
def test_a_contraction_keeps_its_tiles_and_threads(use: str, why: str) -> None:
    program = nests(parse(f"{RESULT}\n{nest(use, 'ij')}", BUFFERS.values()))
    kept = {BUFFERS["y"]: "wanted", BUFFERS["s"]: "wanted"}
    two = Settings(machine=replace(COMMON, cores=2), chunk_ns=100)
    found = decide(program, kept, two)[BUFFERS["c"]]
    assert (found.stored, found.why if found.stored else "") == (bool(why), why)
    for few in (replace(two, machine=COMMON), replace(two, chunk_ns=2000)):
        assert decide(program, kept, few)[BUFFERS["c"]].stored == ("scatter" in why)
