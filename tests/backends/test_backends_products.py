"""Products placed by the C backend against the oracle."""

from __future__ import annotations

import platform
from collections.abc import Callable
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
from weft.schedule import as_kernels, as_program
from weft.schedule.compile_options import DEFAULTS
from weft.schedule.products.tile import tiled

pytestmark = pytest.mark.usefixtures("guarded_memory")


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = Path(tmp_path_factory.mktemp("kernels"))
    return made


@settings(max_examples=tries(10))
@given(contractions(), st.sampled_from([COMMON.caches[0], 64]))
def test_products(backend: Cc, sample: Contraction, cache: int) -> None:
    """With a first cache that holds next to nothing, rows are packed too."""
    options = DEFAULTS.but(machine=replace(COMMON, caches=(cache, *COMMON.caches[1:])))
    kernels = [one.with_body(tiled(one.body, options)) for one in placed(sample.kernels, sample.kept, 1)]
    ours, meant = sample.memory(), sample.memory()
    run(check(sample.program), meant)
    backend.compile(as_kernels(check(as_program(kernels)))).bind(ours)({})
    sample.agree(ours, meant)


def spec(kind: str, rows: int, depth: int, columns: int, dtype: str = "float32") -> tuple[wf.Tensor, np.ndarray]:
    """A product of matrices, and what it comes to."""
    rng = np.random.default_rng(0)
    left, right = kind.partition("=>")[0].split(";")
    sizes = {"i": rows, "k": depth, "j": columns}
    a, b = (rng.uniform(-1, 1, [sizes[name] for name in axes]).astype(dtype) for axes in (left, right))
    tensor = wf.einsum(kind, wf.data(a, label="a"), wf.data(b, label="b"), label="c")
    return tensor, np.einsum(kind.replace(";", ",").replace("=>", "->"), a.astype("float64"), b.astype("float64"))


KINDS = ("ik;kj=>ij", "ik;jk=>ij", "ki;kj=>ij", "ki;jk=>ji")
EDGES = [(1, 300, 40), (40, 300, 1), (3, 5, 700), (9, 2100, 17), (600, 2100, 33), (530, 40, 600), (33, 16, 15)]


@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize("shape", EDGES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(shape: tuple[int, int, int], dtype: str) -> None:
    """Rows, columns and sums that fill no tile, or more than one panel."""
    allowed = 16 * float(np.finfo(dtype).eps) * shape[1]
    ctx, made = wf.Context("cc"), {kind: spec(kind, *shape, dtype) for kind in KINDS}
    ctx.compile(wf.seq(*(tensor.forward for tensor, _ in made.values())))()
    for kind, (tensor, meant) in made.items():
        np.testing.assert_allclose(ctx[tensor], meant, rtol=allowed, atol=allowed, err_msg=kind)


@pytest.mark.usefixtures("shared_cache")
def test_nan_and_infinity_stay_in_their_row_and_column() -> None:
    """What is copied beyond the last column, or masked beyond the last sum, touches nothing."""
    for kind in KINDS[:2]:
        a, b = np.ones((13, 37), "float32"), np.ones((37, 21) if kind == KINDS[0] else (21, 37), "float32")
        a[3, 36], b[(36, 5) if kind == KINDS[0] else (5, 36)] = np.inf, np.nan
        found = wf.Context("cc")[wf.einsum(kind, wf.data(a), wf.data(b))]
        meant = np.full((13, 21), 37.0)
        meant[3], meant[:, 5] = np.inf, np.nan
        np.testing.assert_array_equal(found, meant)


BLOCKS = """
a: float32[7, 3, 13, 5]
b: float32[7, 5, 37]
c: float32[3, 13, 37]
product of left h, i; right j; sums k, l in tiles of 8 rows by 2 vectors of 16, copied panels of 2, parts of 9 by 2, then along columns:
    for h in range(3):
        for i in range(13):
            for j in range(37):
                t: float32 = c[h, i, j]
                for k in range(7):
                    for l in range(5):
                        t = t + (a[k, h, i, l] * b[k, l, j])
                c[h, i, j] = t * 2
"""  # noqa: E501 this is a line of the notation


def agrees(backend: Cc, text: str) -> None:
    """Compiled code gives what the oracle does, of whole numbers."""
    program = check(parse(text))
    ours, meant = ({one: np.ones(one.shape, one.dtype) for one in buffers_of(program)} for _ in range(2))
    for memory in (ours, meant):
        for number, values in enumerate(memory.values()):
            values[...] = np.random.default_rng(number).integers(-3, 4, values.shape)
    run(program, meant)
    backend.compile(as_kernels(program)).bind(ours)({})
    for one, values in meant.items():
        np.testing.assert_array_equal(ours[one], values)


def test_rows_of_several_loops_share_a_panel_for_a_block_of_sums(backend: Cc) -> None:
    agrees(backend, BLOCKS)


TOGETHER = """
a: float32[7, 13, 5]
b: float32[7, 5, {columns}]
c: float32[13, {columns}]
product of left i; right j; sums k, l in tiles of {rows} rows by 2 vectors of 16, {panels}, then along columns:
    for i in range(13):
        for j in range({columns}):
            t: float32 = c[i, j]
            for k in range(7):
                for l in range(5):
                    t = t + (a[k, i, l] * b[k, l, j])
            c[i, j] = t * 2
"""


@pytest.mark.parametrize("columns", [160, 37, 133])
@pytest.mark.parametrize(
    "panels",
    [
        "copied panels, 3 at once",
        "copied panels of 2, 2 at once, groups of 1 tile by 3 panels, parts of 9 by 2",
        "copied panels, 2 at once, copied strips of rows by 2, groups of 3 tiles by 3 panels",
    ],
)
def test_panels_are_packed_together(backend: Cc, panels: str, columns: int) -> None:
    """The last ones are fewer, and the last of them is narrower."""
    agrees(backend, TOGETHER.format(panels=panels, columns=columns, rows=5))


@pytest.mark.parametrize("columns", [160, 37])
def test_panels_that_are_packed_together_are_shared(backend: Cc, columns: int) -> None:
    """By threads, each of which packs those that it claims, fewer at the end."""
    panels = "copied panels, 3 at once"
    text = TOGETHER.format(panels=panels, columns=columns, rows=13)
    agrees(backend, text.replace("then along columns:", "then along columns, columns on threads by 2:"))


@pytest.mark.parametrize(("rows", "vectors"), [(1, 16), (2, 10), (3, 8), (4, 6), (13, 3)])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_tiles_are_as_wide_as_registers_hold(backend: Cc, rows: int, vectors: int, dtype: str) -> None:
    text = TOGETHER.format(panels="", columns=333, rows=rows).replace("of 16, ,", "of 16,")
    text = text.replace("2 vectors", f"{vectors} vectors").replace("of 1 rows", "of 1 row")
    agrees(backend, text.replace("float32", dtype).replace("of 16", "of 16" if dtype == "float32" else "of 8"))


#: Results whose rows lie side by side; panels of columns in which all sums, some or the last one follow each other.
ALONG_ROWS = """
a: float32[7, 21, 5]
b: float32[{shape}]
c: float32[43, 21]
product of left i; right j; sums k, l in tiles of {rows} rows by 2 vectors of 16, transposed panels{blocks}, then along rows on vectors:
    for i in range(21):
        for j in range(43):
            t: float32 = c[j, i]
            for k in range(7):
                for l in range(5):
                    t = t + (a[k, i, l] * b[{at}])
            c[j, i] = t * 2
"""  # noqa: E501 this is a line of the notation


@pytest.mark.parametrize(
    ("shape", "at", "blocks", "rows", "dtype"),
    [
        ("43, 8, 6", "j, k, l", "", 7, "float32"),
        ("7, 43, 5", "k, j, l", " of 3, parts of 9 by 2", 8, "float32"),
        ("43, 7, 5", "j, k, l", " of 3, parts of 9 by 2", 3, "float64"),
    ],
)
def test_tiles_are_transposed_where_rows_lie_side_by_side(
    backend: Cc, shape: str, at: str, blocks: str, rows: int, dtype: str
) -> None:
    text = ALONG_ROWS.format(shape=shape, at=at, blocks=blocks, rows=rows)
    agrees(backend, text.replace("float32", dtype).replace("of 16", "of 16" if dtype == "float32" else "of 8"))


LOOKED = """
a: float32[21, 19]
b: float32[19, 43]
c: float32[21, 43]
product of left i; right j; sums k in tiles of 8 rows by 2 vectors of 16, looking through 2, then along columns:
    for i in range(21):
        for j in range(43):
            t: float32 = -inf
            for k in range(19):
                t = max(t, (a[i, k] + b[k, j]))
            c[i, j] = t
"""


@pytest.mark.skipif(platform.machine() != "x86_64", reason="others name their instruction sets otherwise")
@pytest.mark.parametrize("text", [BLOCKS, LOOKED], ids=["sums", "choices"])
def test_a_compiler_of_narrower_vectors_makes_several_of_one(text: str, tmp_path: Path) -> None:
    """The tiles are those of another machine than what the compiler is told to compile for."""
    narrow = Cc()
    narrow.compiler = replace(narrow.compiler, command=(*narrow.compiler.command, "-mno-avx"))
    narrow.folder = tmp_path
    agrees(narrow, text)


def test_a_product_as_text_is_readable(golden: Callable[..., None]) -> None:
    tensor, _ = spec("ik;kj=>ij", 64, 48, 80)
    options = wf.CompileOptions(machine=wf.Machine())
    golden(wf.Context("cc").compile(wf.relu(tensor).forward, options=options).show("source"))


@pytest.mark.parametrize("odd", [0.5, np.inf, np.nan])
def test_gradients_below_a_choice_are_products(odd: float) -> None:
    """They run in tiles; and what is not finite reaches no cell whose terms were not chosen."""
    random = np.random.default_rng(3)
    a = random.standard_normal((24, 24)).astype("float32")
    a[3, 7] = odd
    seen = np.tri(24, dtype="float32")
    x, w = wf.data(a, batch=1, label="a"), wf.param("w", o=24)
    y = wf.where(wf.data(seen, batch=1), w @ x, 0.0)
    ctx = wf.Context("cc")
    g = wf.grad(wf.einsum("i|j => 0", y), w)
    assert "product of" in ctx.compile(g.forward).show("kernels")
    wanted = np.array([[sum(a[t, i] for t in range(24) if seen[t, o]) for i in range(24)] for o in range(24)])
    np.testing.assert_allclose(ctx[g], wanted, rtol=1e-5, atol=1e-5)
