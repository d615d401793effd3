"""Contractions of any semiring in tiles, as the C backend runs them, against the oracle."""

from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import weft as wf
from backends.contractions import Contraction, contractions
from effort import tries
from schedule.kernels import placed
from weft.backends.cc import Cc
from weft.loops import buffers_of, check, parse
from weft.loops.interp import run
from weft.machine import COMMON
from weft.ops.dtypes import numpy_type
from weft.schedule import as_kernels, as_program
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.products.tile import tiled

pytestmark = pytest.mark.usefixtures("guarded_memory")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = Path(tmp_path_factory.mktemp("kernels"))
    return made


@settings(max_examples=tries(6))
@given(contractions(1 << 12, semirings=True), st.sampled_from([COMMON.caches[0], 64]))
def test_semirings(backend: Cc, sample: Contraction, cache: int) -> None:
    """Of any type, with what is not a number; with a first cache that holds next to nothing, rows are packed too."""
    options = DEFAULTS.but(machine=replace(COMMON, caches=(cache, *COMMON.caches[1:])))
    kernels = [one.with_body(tiled(one.body, options)) for one in placed(sample.kernels, sample.kept, 1)]
    ours, meant = sample.memory(), sample.memory()
    run(check(sample.program), meant)
    backend.compile(as_kernels(check(as_program(kernels)))).bind(ours)({})
    sample.agree(ours, meant)


PRODUCT = """
product of left i; right j; sums k in tiles of 8 rows by 2 vectors of {lanes}{tile}, then along columns:
    for i in range(21):
        for j in range(43):
            t: {dtype} = {start}
            for k in range(19):
                t = {accumulate}(t, {terms})
            c[{number}, i, j] = t
"""
LOOKING, EACH = ", looking through 2", ", looking through 1"
STRIPS = ", copied strips of rows by 2, groups of 32 tiles by 8 panels"
#: Types, what accumulates from what, what combines the factors, how it is tiled, and two values that make none.
KINDS = [
    ("float32", "max", "-inf", "({} + {})", LOOKING, (np.inf, -np.inf)),
    ("float32", "max", "-inf", "({} + {})", f", copied panels{LOOKING}", (0.5, np.nan)),
    ("float64", "min", "inf", "({} + {})", f", copied panels of 7, groups of 2 tiles{EACH}", (-np.inf, np.inf)),
    ("float64", "max", "0.5", "({} - {})", LOOKING, (np.inf, np.inf)),
    ("float32", "min", "inf", "({} - {})", f", copied panels of 7{STRIPS}{EACH}", (-np.inf, -np.inf)),
    ("float32", "max", "-inf", "({} * {})", f", copied panels of 7{EACH}", (0.0, np.inf)),
    ("float64", "min", "inf", "({} * {})", LOOKING, (-np.inf, 0.0)),
    ("float64", "max", "-inf", "min({}, {})", f", copied panels{STRIPS}{EACH}", (np.nan, -np.inf)),
    ("float32", "min", "0.5", "max({}, {})", LOOKING, (np.inf, np.nan)),
    ("float32", "max", "-inf", "({} + {})", "", (np.inf, -np.inf)),
]


def grown(*sizes: int) -> np.ndarray:
    """Numbers that grow from -1 to 1."""
    return np.linspace(-1, 1, int(np.prod(sizes))).reshape(sizes)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_what_is_not_a_number_stays_one(backend: Cc, dtype: str) -> None:
    """Two values make what is not a number, and terms after it, or blocks, are numbers; infinities alone do not."""
    kinds = [one for one in KINDS if one[0] == dtype]
    many = len(kinds)
    a, b = grown(many, 21, 19), grown(many, 19, 43)
    a[:, 20, 18] = b[:, 18, 42] = -np.inf
    text = f"a: {dtype}[{many}, 21, 19]\nturned: {dtype}[{many}, 19, 21]\nb: {dtype}[{many}, 19, 43]\n"
    text += f"c: {dtype}[{many}, 21, 43]\n"
    for number, (_, accumulate, start, combine, tile, (one, other)) in enumerate(kinds):
        a[number, 7, 2], b[number, 2, 11] = one, other
        terms = combine.format(f"turned[{number}, k, i]" if number % 2 else f"a[{number}, i, k]", f"b[{number}, k, j]")
        lanes = (16, 32, 64)[number % 3] // np.dtype(dtype).itemsize
        given = {"accumulate": accumulate, "start": start, "terms": terms, "tile": tile, "lanes": lanes}
        text += PRODUCT.format(dtype=dtype, number=number, **given).lstrip()
    program = check(parse(text))
    known = {"a": a, "turned": a.transpose(0, 2, 1), "b": b, "c": np.zeros((many, 21, 43))}
    ours, meant = ({one: known[one.name].astype(dtype) for one in buffers_of(program)} for _ in range(2))
    run(program, meant)
    backend.compile(as_kernels(program)).bind(ours)({})
    (found,), (wanted,) = ([values for one, values in memory.items() if one.name == "c"] for memory in (ours, meant))
    assert np.isnan(wanted[:, 7, 11]).all()
    np.testing.assert_array_equal(found, wanted)


def test_threads_share_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Shortest ways over any number of threads, with ways that are not there, and what follows the product."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    ways = np.random.default_rng(0).uniform(0, 1, (130, 130)).astype("float32")
    ways[np.random.default_rng(1).uniform(size=ways.shape) < 0.5] = np.inf
    two = wf.einsum("ik; kj => ij", wf.data(ways), wf.data(ways), op="+", accum="min", label="two")
    meant = np.maximum((ways[:, :, None] + ways[None]).min(1) - np.float32(0.25), 0)
    for threads in (1, 3):
        with wf.config.using(threads=threads):
            ctx = wf.Context("cc")
            code = ctx.compile((longer := wf.relu(two - 0.25)).forward)
            code()
            assert "product of left i; right j; sums k in tiles" in code.show("kernels")
            np.testing.assert_array_equal(ctx[longer], meant)


@pytest.mark.parametrize(
    ("spec", "sums", "how"),
    [
        (
            "i<+k; j<+k => ij",
            4000,
            "copied panels of .*, transposed strips of rows by 8, groups of 32 tiles by 8 panels",
        ),
        ("ik; jk => ij", 9000, "copied panels of "),
    ],
)
def test_whole_numbers_wrap_around(
    spec: str, sums: int, how: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In sums that go on from one panel to the next, of rows that are packed as well, or converted before."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    large = np.random.default_rng(0).integers(0, np.iinfo("int32").max, (33, sums), "int32")
    given = large.ravel()[: sums + 32] if "<" in spec else large
    large = np.lib.stride_tricks.sliding_window_view(given, sums) if "<" in spec else large
    ctx, product = wf.Context("cc"), wf.einsum(spec, wf.data(given), wf.data(given), k=sums)
    code = ctx.compile(product.forward)
    code()
    assert re.search(how, code.show("kernels"))
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(ctx[product], large.astype("int64") @ large.T.astype("int64"))


@pytest.mark.parametrize("dtype", ["uint8", "bool"])
def test_narrow_whole_numbers_are_converted_where_they_are_packed(
    dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    rng = np.random.default_rng(0)
    most = 1 if dtype == "bool" else np.iinfo(dtype).max
    a, b = (rng.integers(0, most, shape, endpoint=True).astype(dtype) for shape in ((45, 51), (51, 67)))
    ctx = wf.Context("cc")
    code = ctx.compile((product := wf.einsum("ik; kj => ij", wf.data(a), wf.data(b))).forward)
    code()
    assert "product of left i; right j; sums k in tiles" in code.show("kernels")
    wide = "uint64" if dtype.startswith("u") else "int64"
    np.testing.assert_array_equal(ctx[product], a.astype(wide) @ b.astype(wide))


CONVERTED = """
a: float16[3, 13, 7, 5]
b: bfloat16[7, 5, 37]
c: float32[3, 13, 37]
product of left h, i; right j; sums k, l in tiles of 8 rows by 2 vectors of 16, copied panels of 2, copied strips of rows by 8, groups of 32 tiles by 8 panels, parts of 9 by 2, then along columns:
    for h in range(3):
        for i in range(13):
            for j in range(37):
                t: float32 = c[h, i, j]
                for k in range(7):
                    for l in range(5):
                        t = t + (float32(a[h, i, k, l]) * float32(b[k, l, j]))
                c[h, i, j] = t
"""  # noqa: E501 this is a line of the notation


def test_rows_are_converted_where_they_are_packed(backend: Cc) -> None:
    program = check(parse(CONVERTED))
    values = {one: np.random.default_rng(one.id).integers(-3, 4, one.shape) for one in buffers_of(program)}
    ours, meant = ({one: held.astype(numpy_type(one.dtype)) for one, held in values.items()} for _ in range(2))
    run(program, meant)
    backend.compile(as_kernels(program)).bind(ours)({})
    for one, held in meant.items():
        np.testing.assert_array_equal(ours[one], held)
