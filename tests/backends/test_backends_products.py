"""Products placed by the C backend against the oracle."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

import weft as wf
from backends.contractions import Contraction, contractions
from schedule.kernels import placed
from weft.backends.cc import Cc
from weft.loops import check
from weft.loops.interp import run
from weft.schedule import as_kernels, as_program
from weft.schedule.tile import tiled


@pytest.fixture(scope="module")
def backend(tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = Path(tmp_path_factory.mktemp("kernels"))
    return made


@settings(max_examples=20)
@given(contractions())
def test_products(backend: Cc, sample: Contraction) -> None:
    kernels = [replace(one, body=tiled(one.body)) for one in placed(sample.kernels, sample.kept, 1)]
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


@pytest.mark.parametrize("shape", EDGES, ids=lambda shape: "x".join(map(str, shape)))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_edges(shape: tuple[int, int, int], dtype: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows, columns and sums that fill no tile, or more than one panel."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    allowed = 16 * float(np.finfo(dtype).eps) * shape[1]
    for kind in KINDS:
        tensor, meant = spec(kind, *shape, dtype)
        np.testing.assert_allclose(wf.Context("cc")[tensor], meant, rtol=allowed, atol=allowed, err_msg=kind)


def test_nan_and_infinity_stay_in_their_row_and_column(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What is copied beyond the last column, or masked beyond the last sum, touches nothing."""
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    for kind in KINDS[:2]:
        a, b = np.ones((13, 37), "float32"), np.ones((37, 21) if kind == KINDS[0] else (21, 37), "float32")
        a[3, 36], b[(36, 5) if kind == KINDS[0] else (5, 36)] = np.inf, np.nan
        found = wf.Context("cc")[wf.einsum(kind, wf.data(a), wf.data(b))]
        meant = np.full((13, 21), 37.0)
        meant[3], meant[:, 5] = np.inf, np.nan
        np.testing.assert_array_equal(found, meant)


def test_a_product_as_text_is_readable(golden: Callable[..., None]) -> None:
    tensor, _ = spec("ik;kj=>ij", 64, 48, 80)
    golden(wf.Context("cc").compile(wf.relu(tensor).forward).show("source"))
