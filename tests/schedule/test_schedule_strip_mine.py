"""Strip-mining: contractions and what is between them, a strip of rows at a time."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import pytest

import weft as wf
from generators import draw, heads
from weft.assign import Node, Operand, closed_buffer, complete, lower, node_of
from weft.loops import Buffer, Program, buffers_of, check, show
from weft.loops.interp import run
from weft.loops.nests import Nest, nests
from weft.loops.parse import parse
from weft.machine import COMMON
from weft.optimise.loop_order import ordered
from weft.runtime.footprint import footprint_of, nodes_in
from weft.schedule.fusion.rematerialise import Rematerialised
from weft.schedule.fusion.strip_cost import StripCost
from weft.schedule.fusion.strip_mine import strip_mined
from weft.schedule.fusion.strips import Group, Members, Roles, Uses
from weft.schedule.stage import Stage
from weft.shape.close import close

#: Caches that hold a few rows of what is between contractions.
SMALL = StripCost(replace(COMMON, caches=(1 << 10, 1 << 12)))
POINTS = 1 << 10


@dataclass(frozen=True)
class Always(StripCost):
    """Strips of any number of rows, or of one that is given, wherever there can be any."""

    number: int = 0

    def is_large(self, buffer: Buffer, roles: Roles) -> bool:
        return True

    def rows(self, uses: Uses, found: Members, group: Group, kept: Collection[Buffer]) -> int:
        return self.number or len(group.members) % found.roles.row[1] + 1


GIVEN = """\
q: float32[2, 64, 3]
k: float32[2, 20, 3]
v: float32[2, 20, 5]
a: float32[2, 64, 20]
p: float32[2, 64, 20]
n: float32[2, 64]
o: float32[2, 64, 5]
g: float32[2, 20, 5]
x: float32[9]
y: float32[9]
"""
SCORES = """\
for h in range(2):
    for t in range(64):
        for s in range(20):
            a[h, t, s] = 0
for h in range(2):
    for t in range(64):
        for s in range(20):
            for e in range(3):
                a[h, t, s] += q[h, t, e] * k[h, s, e]"""
SUMS = """\
for i in range(2):
    for j in range(64):
        n[i, j] = 0
for i in range(2):
    for j in range(64):
        for s in range(20):
            n[i, j] += exp(a[i, j, s])
for i in range(2):
    for j in range(64):
        for s in range(20):
            p[i, j, s] = exp(a[i, j, s]) / n[i, j]"""
RESULT = """\
for h in range(2):
    for t in range(64):
        for s in range(20):
            for c in range(5):
                o[h, t, c] += p[h, t, s] * v[h, s, c]"""
#: Sums over rows.
GRADIENT = """\
for h in range(2):
    for s in range(20):
        for t in range(64):
            for c in range(5):
                g[h, s, c] += p[h, t, s] * o[h, t, c]"""
ATTENTION = "\n".join((SCORES, SUMS, RESULT))


def before(text: str, rows: int = 64, columns: int = 20) -> list[Nest]:
    """A program as nests, of so many rows and columns."""
    return nests(check(parse((GIVEN + text).replace("64", str(rows)).replace("20", str(columns)))))


def kernels_of(found: Sequence[Nest]) -> Program:
    return Program(tuple(stmt for kernel in Stage(Rematerialised(found)).kernels for stmt in kernel.body))


def mined(text: str, *kept: str) -> str:
    """What becomes of a program, in which some buffers are kept."""
    found = before(text)
    wanted = [one for one in buffers_of(kernels_of(found)) if one.name in (kept or ("o", "g"))]
    return show(check(kernels_of(strip_mined(found, wanted, POINTS, SMALL))))


def test_before_and_after() -> None:
    assert mined(ATTENTION) == (
        """\
for h in range(2):
    for t_strip in range(2):
        for t in range(32):
            for s in range(20):
                a[h, t_strip, t, s] = 0
        for t_2 in range(32):
            for s_2 in range(20):
                for e in range(3):
                    a[h, t_strip, t_2, s_2] += q[h, 32*t_strip + t_2, e] * k[h, s_2, e]
        for t_3 in range(32):
            n[h, t_strip, t_3] = 0
        for t_4 in range(32):
            for s_3 in range(20):
                n[h, t_strip, t_4] += exp(a[h, t_strip, t_4, s_3])
        for t_5 in range(32):
            for s_4 in range(20):
                p[h, t_strip, t_5, s_4] = exp(a[h, t_strip, t_5, s_4]) / n[h, t_strip, t_5]
        for t_6 in range(32):
            for s_5 in range(20):
                for c in range(5):
                    o[h, 32*t_strip + t_6, c] += p[h, t_strip, t_6, s_5] * v[h, s_5, c]"""
    )


def test_a_sum_over_rows_goes_on_from_strip_to_strip() -> None:
    text = mined(f"{ATTENTION}\n{GRADIENT}")
    assert text.count("t_strip in") == 1
    assert "g[h, s_6, c_2] += p[h, t_strip, t_7, s_6] * o[h, 32*t_strip + t_7, c_2]" in text


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (ATTENTION.replace("n[i, j]", "n[i, s]").replace("n: float32[2, 64]", ""), "softmax along rows"),
        (f"{SCORES}\n{SUMS}", "one contraction"),
        (ATTENTION.replace("p[h, t, s] * v", "p[h, s, t] * v"), "the other way round"),
    ],
)
def test_what_cannot_run_in_strips_stays_as_it_is(text: str, why: str) -> None:
    shapes = GIVEN.replace("n: float32[2, 64]", "n: float32[2, 20]") if "rows" in why else GIVEN
    text = text.replace("range(64)", "range(20)") if "round" in why else text
    text = text.replace("for j in range(64):\n        n[i, s]", "for s in range(20):\n        n[i, s]")
    found = nests(check(parse(shapes + text)))
    assert strip_mined(found, [found[-1].target], POINTS, SMALL) is found, why


def test_what_fits_into_a_cache_stays_as_it_is() -> None:
    found = before(ATTENTION)
    assert strip_mined(found, [found[-1].target], POINTS, StripCost(COMMON)) is found


@pytest.mark.parametrize(("columns", "large"), [(512, True), (511, False)])
def test_half_of_the_second_cache_is_large(columns: int, large: bool) -> None:
    """Of 2 MiB: what is made of it, as softmax is, takes the other half."""
    roles = Roles((("h", 6),), ("t", 512), (("s", columns),))
    (scores,) = buffers_of(check(parse(f"a: float32[6, 512, {columns}]\na[...] = 0")))
    assert StripCost(COMMON).is_large(scores, roles) == large


def test_what_would_be_read_again_too_often_stays_as_it_is() -> None:
    """Two layers: their weights are larger than what one leaves for the other."""
    found = nests(
        check(
            parse("""\
x: float32[128, 300]
w: float32[300, 64]
h: float32[128, 64]
u: float32[64, 300]
y: float32[128, 300]
for b in range(128):
    for i in range(300):
        for j in range(64):
            h[b, j] += x[b, i] * w[i, j]
for b in range(128):
    for j in range(64):
        h[b, j] = tanh(h[b, j])
for b in range(128):
    for i in range(300):
        for j in range(64):
            y[b, i] += h[b, j] * u[j, i]""")
        )
    )
    assert strip_mined(found, [found[-1].target], POINTS, SMALL) is found


def test_what_is_kept_has_no_strips() -> None:
    text = mined(ATTENTION, "o", "p")
    assert "p[h, 32*t_strip + t_5, s_4] = " in text
    assert "a[h, t_strip, t_5, s_4]" in text


def test_what_does_not_depend_on_strips_runs_before_or_after() -> None:
    other, later = "for i in range(5):\n    v[0, 0, i] = 3", "for i in range(5):\n    k[0, 0, 0] = o[0, i, i]"
    text = mined(f"{SCORES}\n{other}\n{SUMS}\n{RESULT}\n{later}\n{GRADIENT}", "o", "g", "k", "v")
    assert text.startswith(other)
    assert text.endswith(later)


def test_what_is_cleared_for_later_is_cleared_later() -> None:
    """The gradient needs all rows first: it runs after them, and so does what clears its cells."""
    every = "for h in range(2):\n    for t in range(64):\n        for s in range(20):\n            p[h, t, s]"
    needed = "for i in range(8):\n    x[i] = o[1, 63, 0]"
    first, last = RESULT.replace("p[h", "a[h"), f"{every} += a[h, t, s] * x[0]\n{GRADIENT}"
    text = mined(f"{every} = 0\n{SCORES}\n{first}\n{needed}\n{last}", "o", "g")
    assert "t_strip" in text
    assert text.index("p[") > text.index("x[i]")


def test_a_loop_that_others_share_stays_whole() -> None:
    shared = "for i in range(8):\n    x[i + 1] = x[i] * 2\n    y[i] = x[i] + a[0, i, 0]"
    text = mined(f"{SCORES}\n{shared}\n{SUMS}\n{RESULT}", "o", "x", "y")
    assert text.endswith(shared)
    assert "t_strip" in text


def computed(found: Sequence[Nest], rest: Sequence[Nest], kept: Sequence[Buffer]) -> list[np.ndarray]:
    """What buffers hold after nests ran, from numbers that do not depend on which; `rest` are others of them."""
    program = check(kernels_of(found))
    random = np.random.default_rng(0)
    given = {one: random.uniform(0.5, 1, one.shape) for one in buffers_of(check(kernels_of(rest)))}
    memory = {one: given.get(one, np.full(one.shape, np.nan)).astype(one.dtype) for one in buffers_of(program)}
    run(program, memory, {})
    return [memory[one] for one in kept]


@pytest.mark.parametrize("rows", [4, 5, 11, 1])
def test_rows_that_are_left_over_are_a_strip(rows: int) -> None:
    found = before(f"{ATTENTION}\n{GRADIENT}", rows=12, columns=4)
    kept = [one for one in buffers_of(kernels_of(found)) if one.name in "og"]
    new = strip_mined(found, kept, 1, Always(COMMON, number=rows))
    assert len(new) == len(found) * (1 if 12 % rows == 0 else 2)
    for one, other in zip(computed(found, found, kept), computed(new, found, kept), strict=True):
        np.testing.assert_allclose(one, other, 1e-5)


def random_nests(number: int) -> tuple[list[Nest], list[Buffer]]:
    """A random program of `generators/heads.py` with its gradients, of small sizes, and what it is for."""
    rng = draw(5, number)
    sizes = {letter: int(rng.integers(*((1, 4) if letter in "bhe" else (2, 6)))) for letter in "bhtsdce"}
    loss, _, _ = heads._program(rng, sizes)
    code = complete(wf.grad_update(loss))
    for node in nodes_in(code):
        close(node.shape)
    buffers: dict[Node, Buffer] = {}

    def buffer(operand: Operand) -> Buffer:
        node = node_of(operand)
        return buffers.setdefault(node, closed_buffer(node, len(buffers), f"{node.label}_{len(buffers)}"))

    found = [ordered(nest) for nest in nests(lower(code, buffer, []))]
    return found, [buffer(one) for one in footprint_of(code).leaves]


def test_random_programs_compute_what_they_did() -> None:
    """Whatever may run in strips does, and sums over rows are cut into many parts."""
    partial = 0
    for number in range(8):
        found, kept = random_nests(number)
        new = strip_mined(found, kept, 1, Always(COMMON, roundings=number))
        assert new is not found
        partial += any(nest.target.name.endswith(".partial") for nest in new)
        for one, other in zip(computed(found, found, kept), computed(new, found, kept), strict=True):
            np.testing.assert_allclose(one, other, 1e-9, 1e-12)
    assert partial


def test_sums_over_rows_are_rounded_as_often_as_is_promised() -> None:
    """40 ε of the sum of sizes, over 4096 rows in strips."""
    rng = np.random.default_rng(0)
    q, k, v = (wf.data(rng.uniform(0, 1, (size, 8)).astype("float32")) for size in (4096, 32, 32))
    p = wf.tanh(wf.einsum("t, e; s, e => t, s", q, k))
    o = wf.tanh(wf.einsum("t, s; s, e => t, e", p, v))
    g = wf.einsum("t, s; t, e => s, e", p, o)
    machine = replace(wf.Machine.here(), caches=(1 << 12, 1 << 14, 1 << 25))
    ctx = wf.Context("cc")
    step = ctx.compile(wf.seq(), keep=[p, o, g], options=wf.CompileOptions(machine=machine))
    step()
    assert "t_block" in step.show("kernels")
    exact = np.einsum("ts,te->se", ctx[p].astype("float64"), ctx[o].astype("float64"))
    assert np.abs(ctx[g] - exact).max() <= 40 * np.finfo("float32").eps * exact.max()


def test_no_strip_is_longer_than_there_are_rows() -> None:
    lines = wf.Thresholds(tile_rows=8, strip_rows_least=1, strip_rows_most=1)
    cost = StripCost(replace(COMMON, caches=(16, 64)), thresholds=lines)
    for rows in (4, 8, 9):
        found = before(ATTENTION, rows)
        cut = strip_mined(found, [one.target for one in found if one.target.name == "o"], 1, cost)
        assert all(size > 0 for one in cut for _, size in one.loops)
        assert any("strip" in name for one in cut for name, _ in one.loops) == (rows >= 8)
