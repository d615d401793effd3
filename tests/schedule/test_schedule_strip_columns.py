"""Columns of strips: what masks of indices hide is not computed, where that is nothing to anybody."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from hypothesis import given, strategies as st

import weft as wf
from schedule.test_schedule_strip_mine import Always, computed, kernels_of
from weft.loops import buffers_of, check, show
from weft.loops.nests import Nest, nests
from weft.loops.parse import parse
from weft.machine import COMMON
from weft.schedule.fusion.strip_columns import StripRange, strip_ranges
from weft.schedule.fusion.strip_mine import strip_mined

#: Attention with a mask of indices, `seen`, and the gradients of keys.
MASKED = """\
q: float32[ROWS, 3]
k: float32[COLUMNS, 3]
v: float32[COLUMNS, 5]
a: float32[ROWS, COLUMNS]
b: float32[ROWS, COLUMNS]
p: float32[ROWS, COLUMNS]
m: float32[ROWS]
n: float32[ROWS]
o: float32[ROWS, 5]
g: float32[COLUMNS, 5]
seen: float32[ROWS, COLUMNS]
for i in range(ROWS):
    for j in range(COLUMNS):
        seen[i, j] = where(SEEN, 0.0, LOW)
for t in range(ROWS):
    for s in range(COLUMNS):
        a[t, s] = 0
for t in range(ROWS):
    for s in range(COLUMNS):
        for e in range(3):
            a[t, s] += q[t, e] * k[s, e]
for t in range(ROWS):
    for s in range(COLUMNS):
        b[t, s] = a[t, s] + seen[t, s]
for t in range(ROWS):
    m[t] = -inf
for t in range(ROWS):
    for s in range(COLUMNS):
        m[t] max= b[t, s]
for t in range(ROWS):
    for s in range(COLUMNS):
        p[t, s] = exp(b[t, s] - m[t])
for t in range(ROWS):
    n[t] = 0
for t in range(ROWS):
    for s in range(COLUMNS):
        n[t] += p[t, s]
for t in range(ROWS):
    for c in range(5):
        o[t, c] = 0
for t in range(ROWS):
    for s in range(COLUMNS):
        for c in range(5):
            o[t, c] += p[t, s] * v[s, c]
for t in range(ROWS):
    for s in range(COLUMNS):
        for c in range(5):
            g[s, c] += p[t, s] * o[t, c]"""
CAUSAL, WINDOW = "int64(j) <= int64(i)", "and(int64(j) <= int64(i), int64(i) < int64(j) + 5)"


def before(seen: str = CAUSAL, rows: int = 16, columns: int = 16, low: str = "-1e9", text: str = MASKED) -> list[Nest]:
    text = text.replace("SEEN", seen).replace("LOW", low)
    return nests(check(parse(text.replace("ROWS", str(rows)).replace("COLUMNS", str(columns)))))


def mined(found: list[Nest], *kept: str, rows: int = 4) -> list[Nest]:
    wanted = [one for one in buffers_of(kernels_of(found)) if one.name in (*kept, "n", "o", "g")]
    return list(strip_mined(found, wanted, 1, Always(COMMON, number=rows)))


def columns_of(found: list[Nest]) -> list[int]:
    """Along how many columns the sums of rows run."""
    return [dict(one.loops)["s"] for one in found if one.target.name == "n" and one.accumulates]


def test_before_and_after() -> None:
    first, second = (
        f"for t_strip{one}"
        for one in show(check(kernels_of(mined(before(rows=8, columns=8))))).split("for t_strip")[1:]
    )
    assert first.startswith("""\
for t_strip in range(1):
    for t in range(4):
        for s in range(4):
            a[t_strip, t, s] = 0
    for t_2 in range(4):
        for s_2 in range(4):
            for e in range(3):
                a[t_strip, t_2, s_2] += q[4*t_strip + t_2, e] * k[s_2, e]
""")
    assert second.startswith("""\
for t_strip in range(1):
    for t in range(4):
        for s in range(8):
            a_2[t_strip, t, s] = 0
    for t_2 in range(4):
        for s_2 in range(8):
            for e in range(3):
                a_2[t_strip, t_2, s_2] += q[4*t_strip + t_2 + 4, e] * k[s_2, e]
""")
    assert first.rstrip().endswith("g[s_8, c_3] += p[t_strip, t_12, s_8] * o[4*t_strip + t_12, c_3]")
    assert second.endswith("g[s_8, c_3] += p_2[t_strip, t_12, s_8] * o[4*t_strip + t_12 + 4, c_3]")


def test_each_range_runs_along_what_it_sees() -> None:
    assert columns_of(mined(before())) == [4, 8, 12, 16]
    assert columns_of(mined(before(rows=10), rows=4)) == [4, 8, 10]


def test_columns_of_a_window_move_on() -> None:
    found = mined(before(WINDOW, rows=32, columns=32))
    assert columns_of(found) == [4, 8]
    assert "o[4*t_strip + t_11 + 4, c_2] += p_2[t_strip, t_11, s_7] * v[s_7 + 4*t_strip, c_2]" in show(
        check(kernels_of(found))
    )


@pytest.mark.parametrize(
    ("given", "why"),
    [
        ({"seen": "int64(j) < int64(i)"}, "the first row sees nothing"),
        ({"low": "-1e3"}, "a mask that is not deep"),
        ({"seen": "0 < q[i, 0]"}, "a mask of data"),
        ({"text": MASKED.replace("g[s, c] += p[t, s]", "g[s, c] += a[t, s]")}, "somebody looks at what is hidden"),
        ({"text": MASKED.replace("n[t] += p[t, s]", "n[t] max= p[t, s]")}, "no sum"),
    ],
)
def test_all_columns_where_what_is_hidden_may_be_something(given: dict[str, str], why: str) -> None:
    assert columns_of(mined(before(**given))) == [16], why  # type: ignore[arg-type]


#: Scores under another mask, by what is added to them.
LOWERED = MASKED.replace("a[t, s] + seen[t, s]", "OTHER + seen[t, s]")
OTHER = {
    "where(0 < k[s, 0], a[t, s], -1e9)": "it may lower all that a row sees",
    "a[t, s] + where(0 < k[s, 0], 0, -1e9)": "so it may",
    "a[t, s] + (1 - k[s, 0]) * -1e9": "so it may",
    "a[t, s] + k[s, 0]": "so it may, if it is a mask of its own",
}


@pytest.mark.parametrize(("other", "why"), OTHER.items())
def test_all_columns_where_what_is_seen_may_be_as_low(other: str, why: str) -> None:
    text = LOWERED.replace("OTHER", other)
    assert columns_of(mined(before(text=text))) == [16], why
    assert columns_of(mined(before(text=text, low="-inf"))) == [4, 8, 12, 16]  # nothing is as low as that


@pytest.mark.parametrize(
    "other",
    [
        "where(int64(t) < int64(s) + 5, a[t, s], -1e9)",
        "a[t, s] * k[s, 0] * 0.5",
        "30.0 * tanh(a[t, s] / 30.0)",
        "a[t, s] + q[t, 0] * float32(s - t)",
        "a[t, s] + -1e9 * (int64(t) < int64(s))",
    ],
)
def test_scores_are_no_mask(other: str) -> None:
    assert columns_of(mined(before(text=LOWERED.replace("OTHER", other)))) != [16]


def test_what_others_read_is_0_where_it_is_hidden() -> None:
    found = mined(before(), "p")
    assert columns_of(found) == [4, 8, 12, 16]
    at = next(at for at, one in enumerate(found) if one.target.name == "p")
    first = """\
for t_strip in range(1):
    for t in range(4):
        for s in range(16):
            p[4*t_strip + t, s] = 0
    for t_2 in range(4):
        for s_2 in range(4):
            p[4*t_strip + t_2, s_2] = exp((b[t_strip, t_2, s_2] - m[t_strip, t_2]))"""
    assert show(check(kernels_of(found[at : at + 2]))) == first
    assert sum(one.target.name == "p" for one in found) == 7  # nothing is hidden from the last strip


@pytest.mark.parametrize("kept", ["a", "b"])
def test_all_columns_of_what_others_read_if_it_is_not_0(kept: str) -> None:
    assert columns_of(mined(before(), kept)) == [16]


#: What comes after all of attention, as its gradient does: it reads `p`, and sums over rows and columns.
BUFFERS = """\
seen: float32[ROWS, COLUMNS]
z: float32[1]
d: float32[ROWS, COLUMNS]
w: float32[ROWS, COLUMNS]
h: float32[ROWS, 3]
r: float32[ROWS]
"""
LATER = """
z[0] = 0
for t in range(ROWS):
    for c in range(5):
        z[0] += o[t, c]CHANGE
for t in range(ROWS):
    for s in range(COLUMNS):
        d[t, s] = 0
for t in range(ROWS):
    for s in range(COLUMNS):
        for c in range(5):
            d[t, s] += (o[t, c] * z[0]) * v[s, c]
for t in range(ROWS):
    for s in range(COLUMNS):
        w[t, s] = d[t, s] * p[t, s]
for t in range(ROWS):
    r[t] = 0
for t in range(ROWS):
    for s in range(COLUMNS):
        r[t] += w[t, s]
for t in range(ROWS):
    for e in range(3):
        h[t, e] = 0
for t in range(ROWS):
    for s in range(COLUMNS):
        for e in range(3):
            h[t, e] += w[t, s] * k[s, e]"""
CHANGES = {"a row": "\nfor s in range(COLUMNS):\n    p[0, s] += z[0]"}
CHANGES["all"] = "\nfor t in range(ROWS):\n    for s in range(COLUMNS):\n        p[t, s] += z[0]"


def with_later(change: str = "") -> str:
    """Attention, perhaps a change to what it left, and what comes later."""
    return MASKED.replace("seen: float32[ROWS, COLUMNS]\n", BUFFERS) + LATER.replace("CHANGE", change)


def later_columns(found: list[Nest]) -> list[int]:
    return [dict(one.loops)["s"] for one in found if one.target.name == "r" and one.accumulates]


def test_what_vanishes_is_known_to_those_that_come_later() -> None:
    assert later_columns(mined(before(text=with_later()), "h", "r")) == [4, 8, 12, 16]


@pytest.mark.parametrize("change", CHANGES.values(), ids=CHANGES)
def test_what_changes_in_between_vanishes_no_more(change: str) -> None:
    assert later_columns(mined(before(text=with_later(change)), "h", "r")) == [16]


@pytest.mark.parametrize("seen", [CAUSAL, WINDOW, "int64(j) < 9", "int64(i) <= int64(j) + 2"])
@pytest.mark.parametrize(("rows", "columns", "strip"), [(16, 16, 4), (21, 23, 4), (9, 30, 5), (30, 30, 7)])
def test_it_computes_what_it_did(seen: str, rows: int, columns: int, strip: int) -> None:
    found = before(seen, rows, columns, text=with_later())
    kept = [one for one in buffers_of(kernels_of(found)) if one.name in "noghrp"]
    new = mined(found, *"hrp", rows=strip)
    for one, other in zip(computed(found, found, kept), computed(new, found, kept), strict=True):
        np.testing.assert_allclose(one, other, 1e-5)


def test_what_was_there_before_vanishes_not() -> None:
    """`p` is added to what it holds, and never cleared: what its hidden columns hold may be anything."""
    added = with_later().replace("p[t, s] = exp", "p[t, s] += exp")
    assert later_columns(mined(before(text=added), "h", "r", "p")) == [16]


spans = st.lists(st.tuples(st.integers(0, 69), st.integers(1, 30)), min_size=1, max_size=60)


@given(spans, st.integers(1, 9), st.sampled_from([1e-4, 1 / 32, 1.0]))
def test_strips_have_what_their_rows_see(drawn: list[tuple[int, int]], rows: int, share: float) -> None:
    seen = [(low, min(low + size, 70)) for low, size in drawn]
    lines = wf.Thresholds(strip_range_share=share)
    found = strip_ranges(seen, rows, 70, lines) if len(seen) >= rows else []
    assert [one.first for one in found] == [sum(one.strips for one in found[:at]) for at in range(len(found))]
    assert sum(one.strips for one in found) == len(seen) // rows
    for one in found:
        for strip in range(one.strips):
            start, at = one.start + one.step * strip, (one.first + strip) * rows
            assert start >= 0
            assert start + one.size <= 70
            assert all(start <= low and high <= start + one.size for low, high in seen[at : at + rows])


def test_a_causal_mask_leaves_five_eighths_in_four_ranges() -> None:
    causal = [(0, at + 1) for at in range(1024)]
    assert strip_ranges(causal, 64, 1024) == [StripRange(4 * at, 4, 0, 256 * (at + 1)) for at in range(4)]
    assert strip_ranges(causal, 64, 1024, wf.Thresholds(strip_range_share=1)) == [StripRange(0, 16, 0, 1024)]


def test_what_is_hidden_counts_for_nothing() -> None:
    """Even if it is no number, as docs/kernels.md says; in the last strips it is seen."""
    rng, size = np.random.default_rng(0), 512
    arrays = [rng.normal(size=(2, size, 8)).astype("float32") for _ in range(3)]
    arrays[2][:, -1] = np.nan
    q, k, v = (wf.data(one, batch=1) for one in arrays)
    scores = wf.einsum("h | t, e; h | s, e => h | t, s", q, k) + wf.einsum(
        "t | s => t, s", wf.where(wf.nn.causal_mask(size), 0.0, -1e9)
    )
    out = wf.einsum("h | t, s; h | s, e => h | t, e", wf.softmax(scores, "h | t, s => h | t"), v)
    ctx, machine = wf.Context("cc"), replace(wf.Machine.here(), caches=(1 << 12, 1 << 14, 1 << 25))
    ctx.compile(wf.seq(), keep=[out], options=wf.CompileOptions(machine=machine))()
    found = ctx[out]
    assert np.isfinite(found[:, :256]).all()
    assert np.isnan(found[:, -1]).all()
