"""Programs on a real GPU against the oracle and NumPy: random ones, the corpus of comprehensions, the examples.

`WEFT_DRAWS=200 make test-cuda` draws more of each kind.
"""

from __future__ import annotations

import inspect
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from comprehension.corpus import CORPUS, Entry
from comprehension.running import Array, assert_slopes, definition, seeds_of, several
from examples import test_programs
from generators import attempt, generators
from weft import backends
from weft.ops.dtypes import numpy_type

HERE = Path(__file__).resolve().parent
DRAWS = int(os.environ.get("WEFT_DRAWS", "6"))
#: Generators that compile programs; the others are about notations, shapes and errors, and need no GPU.
COMPILING = (
    *("comprehensions", "contractions", "monoids", "narrow", "nests", "options", "positions", "recurrent", "scans"),
    *("scatters", "sigmoids", "special", "subscripts", "sums", "values", "windows"),
)
SLOW = {"scans": 2, "recurrent": 2}
DIFFERENTIABLE = [one for one in CORPUS if one.differentiable]
EXAMPLES = (
    *("comprehension", "diffusion", "digits", "gpt", "graph", "lstm", "makemore", "mixed_precision", "policy"),
    *("surgery", "two_moons", "vae"),
)


@pytest.fixture
def instead_of_c(monkeypatch: pytest.MonkeyPatch) -> None:
    """What would be compiled in C runs on the GPU."""
    monkeypatch.setitem(backends._BACKENDS, "cc", backends._BACKENDS["cuda"])
    monkeypatch.setenv("WEFT_BACKEND", "cuda")


@pytest.mark.usefixtures("instead_of_c")
@pytest.mark.parametrize("name", COMPILING)
def test_random_programs(name: str) -> None:
    for number in range(SLOW.get(name, DRAWS)):
        attempt(generators()[name], 11, number)


@pytest.mark.parametrize("entry", CORPUS, ids=[one.name for one in CORPUS])
def test_the_corpus_has_the_values_of_its_reference(entry: Entry) -> None:
    inputs = entry.make(np.random.default_rng(0), 0)
    found = several(definition(entry.text, "cuda", entry.definition)(**inputs))
    for one, wanted in zip(found, entry.expected(inputs), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("entry", DIFFERENTIABLE[::4], ids=[one.name for one in DIFFERENTIABLE[::4]])
def test_gradients_of_the_corpus_agree_with_differences(entry: Entry) -> None:
    rng = np.random.default_rng(0)
    one, inputs = definition(entry.text, "cuda", entry.definition), entry.make(rng, 0)
    seeds = seeds_of(several(definition(entry.text, name=entry.definition)(**inputs)), rng)
    found = several(one.grad(*(inputs[name] for name in one.params), wrt=entry.differentiable, d=seeds))

    def value(given: Mapping[str, Array]) -> float:
        pairs = zip(entry.expected(given), seeds, strict=True)
        return sum(float((output * seed).sum()) for output, seed in pairs if seed is not None)

    assert_slopes(dict(zip(entry.differentiable, found, strict=True)), inputs, value)


@pytest.mark.usefixtures("instead_of_c")
@pytest.mark.parametrize("name", EXAMPLES)
def test_examples(name: str, request: pytest.FixtureRequest) -> None:
    test = getattr(test_programs, f"test_{name}")
    test(**{one: request.getfixturevalue(one) for one in inspect.signature(test).parameters})


MODEL = """
import numpy as np
import weft as wf

ctx = wf.Context("cuda")
images = wf.data(np.random.default_rng(0).standard_normal((6, 9, 9, 3), np.float32), batch=1)
labels = wf.data(np.arange(6) % 5, batch=1)
h = wf.relu(wf.einsum("...|y=+p, x=+q, c; f, p, q, c => ...|y, x, f", images, wf.param("k", o=(7, 3, 3, 3))))
loss = wf.mean(wf.nn.cross_entropy(wf.param("w", o=5) @ h, labels), "...|... => 0")
step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.adam(loss)), keep=[loss])
for _ in range(2):
    step()
print(float(ctx[loss].item()))
"""


@pytest.mark.parametrize("tool", ["memcheck", "racecheck"])
def test_the_sanitizer_finds_nothing(tool: str) -> None:
    found = shutil.which("compute-sanitizer")
    assert found, "compute-sanitizer comes with CUDA's toolkit; put it on the PATH"
    done = subprocess.run(
        [found, "--tool", tool, "--error-exitcode", "9", sys.executable, "-c", MODEL],
        capture_output=True,
        text=True,
        cwd=HERE.parent.parent,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        check=False,
    )
    assert done.returncode == 0, done.stdout[-3000:] + done.stderr[-3000:]


def test_the_same_seed_draws_the_same_bits() -> None:
    found = []
    for backend in ("interp", "cuda"):
        wf.seed(5)
        weights = wf.param("w", o=(40, 30))
        found.append(wf.Context(backend)[weights])
    np.testing.assert_array_equal(*found)


@pytest.mark.parametrize("order", ["v, d", "d, v"])
@pytest.mark.parametrize(
    ("length", "rows", "columns"), [(8192, 5000, 768), (512, 256, 128), (30000, 10, 1), (3000, 77, 5)]
)
@pytest.mark.parametrize("kind", ["even", "skewed", "equal"])
def test_cells_of_scatters_have_owners(order: str, length: int, rows: int, columns: int, kind: str) -> None:
    """Sums by ids are right and the same in every run, however ids are spread."""
    random = np.random.default_rng(0)
    drawn = random.integers(0, rows, length) if kind == "even" else np.minimum(random.zipf(1.2, length) - 1, rows - 1)
    ids = np.full(length, 7) if kind == "equal" else drawn
    x = random.standard_normal((length, columns)).astype(np.float32)
    tensors = wf.data(x, batch=1), wf.data(ids[:, None].astype(np.int32), batch=1)
    y = wf.einsum(f"...|d; ...|@v => {order}", *tensors, v=rows, outside="skip").named("y")
    ctx = wf.Context("cuda")
    step = ctx.compile(y.forward, keep=[y])
    assert "by owners" in step.show("kernels")
    found = []
    for _ in range(3):
        step()
        found.append(np.array(ctx[y]))
    wanted = np.zeros((rows, columns))
    np.add.at(wanted, ids, x.astype(np.float64))
    np.testing.assert_allclose(found[0], wanted if order == "v, d" else wanted.T, rtol=1e-5, atol=1e-4)
    assert all(np.array_equal(found[0], one) for one in found)


@pytest.mark.parametrize("dtype", ["float64", "float8_e4m3fn", "float8_e5m2"])
@pytest.mark.parametrize("size", [64, 300, 1024])
def test_products_of_other_types_on_tensor_cores(dtype: str, size: int) -> None:
    random, kind = np.random.default_rng(0), numpy_type(dtype)
    a, b = (random.standard_normal((size, size)).astype(kind) for _ in range(2))
    y = wf.einsum("i,k;k,j=>i,j", wf.data(a), wf.data(b)).named("y")
    ctx = wf.Context("cuda")
    step = ctx.compile(y.forward, keep=[y])
    assert "in blocks of" in step.show("kernels")
    step()
    wanted = a.astype(np.float64) @ b.astype(np.float64)
    assert np.abs(ctx[y] - wanted).max() <= (1e-13 if dtype == "float64" else 1e-5) * np.abs(wanted).max()


@pytest.mark.parametrize("types", [("float8_e4m3fn",) * 2, ("float8_e5m2",) * 2, ("float8_e5m2", "float8_e4m3fn")])
@pytest.mark.parametrize("positive", [False, True])
@pytest.mark.parametrize("size", [96, 512, 4096])
def test_floats_of_eight_bits_are_multiplied_as_such_where_fewer_digits_are_asked_for(
    types: tuple[str, str], positive: bool, size: int
) -> None:
    random = np.random.default_rng(0)
    drawn = (random.standard_normal((256, size)) for _ in range(2))
    a, b = ((abs(one) if positive else one).astype(numpy_type(dtype)) for one, dtype in zip(drawn, types, strict=True))
    y = wf.einsum("i,k;j,k=>i,j", wf.data(a), wf.data(b)).named("y")
    ctx = wf.Context("cuda")
    step = ctx.compile(y.forward, keep=[y], options=wf.CompileOptions(products="tf32"))
    assert "as float8" in step.show("kernels")
    step()
    one, other = (each.astype(np.float64) for each in (a, b))
    assert (np.abs(ctx[y] - one @ other.T) <= 2.0**-9 * (np.abs(one) @ np.abs(other).T)).all()


def test_launches_are_tuned() -> None:
    random = np.random.default_rng(0)
    a, b = (wf.data(random.standard_normal((256, 256)).astype(np.float32)) for _ in range(2))
    y = wf.softmax(wf.einsum("i,k;k,j=>i|j", a, b)).named("y")
    ctx = wf.Context("cuda")
    step = ctx.compile(y.forward, keep=[y], options=wf.CompileOptions(tuned=""))
    step()
    before = np.array(ctx[y])
    report = step.tune(seconds=2, show=False)
    assert sum(one.tried for one in report.kernels) > 0
    step()
    np.testing.assert_allclose(ctx[y], before, rtol=1e-4, atol=1e-6)
