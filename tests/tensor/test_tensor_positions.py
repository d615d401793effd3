"""Operands that hold positions: lookups, scatters and their gradients, against NumPy."""

from __future__ import annotations

from pathlib import Path

import ml_dtypes  # noqa: F401 it gives NumPy the narrow types
import numpy as np
import pytest

import weft as wf
from weft.ops.dtypes import numpy_type

WHOLE = ("int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64")
FLOATS = ("float8_e4m3fn", "float8_e5m2", "float16", "bfloat16", "float32", "float64")
IDS = np.array([3, 1, 3, 0, 3])
backends = pytest.mark.parametrize("backend", ["interp", "cc"])


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))


def data(values: object, dtype: str = "int64", batch: int = 0, label: str = "x") -> wf.Tensor:
    return wf.data(np.asarray(values).astype(numpy_type(dtype)), batch=batch, label=label)


def values(backend: str, **tensors: wf.Tensor) -> dict[str, np.ndarray]:
    """What several tensors come to, computed by one routine."""
    ctx = wf.Context(backend)
    ctx.compile(wf.seq(*(one.forward for one in tensors.values())), keep=list(tensors.values()))()
    return {name: ctx[one] for name, one in tensors.items()}


@backends
def test_rows_are_looked_up_and_added_to_in_every_type(backend: str) -> None:
    """Values of every type with positions of int64, positions of every type with values of float32."""
    numbers = np.arange(20).reshape(5, 4)
    pairs = [(value, "int64") for value in (*WHOLE, *FLOATS, "bool")] + [("float32", held) for held in WHOLE]
    tensors: dict[str, wf.Tensor] = {}
    for value, held in pairs:
        table, ids = data(numbers % 2 if value == "bool" else numbers, value), data(IDS, held, batch=1, label="ids")
        tensors[f"found {value} {held}"] = wf.einsum("v, d; ...|@v => ...|d", table, ids)
        if value != "bool":
            rows = data(numbers, value, batch=1)
            tensors[f"added {value} {held}"] = wf.einsum("b|d; b|@v => v, d", rows, ids, v=6)
    found = values(backend, **tensors)
    for name, array in found.items():
        kind, value, _ = name.split()
        added = np.zeros((6, 4))
        np.add.at(added, IDS, numbers.astype(numpy_type(value)).astype(float))
        if kind == "found":
            assert array.dtype == numpy_type(value)
            meant = numbers.astype(numpy_type(value))[IDS] if value != "bool" else (numbers % 2)[IDS]
            np.testing.assert_array_equal(array.astype(float), meant.astype(float), err_msg=name)
        else:
            np.testing.assert_array_equal(array.astype(float), added.astype(array.dtype).astype(float), err_msg=name)


@backends
def test_shapes_of_positions(backend: str) -> None:
    """Several axes are looked up at once; windows begin at positions; positions have batch, output or no axes."""
    rng = np.random.default_rng(0)
    image, table = rng.normal(size=(5, 6, 3)).astype("float32"), rng.normal(size=(9, 2)).astype("float32")
    h, w, starts = np.array([4, 0, 4]), np.array([5, 5, 0]), np.array([0, 6, 3])
    many = rng.integers(0, 9, (2, 3))
    x, t = data(image, "float32"), data(table, "float32")
    by, bx, s = (data(one, batch=1, label=name) for one, name in ((h, "h"), (w, "w"), (starts, "s")))
    found = values(
        backend,
        pixels=wf.einsum("h, w, c; b|@h; b|@w => b|c", x, by, bx),
        windows=wf.einsum("v<+k, d; b|@v => b|k, d", t, s, k=3),
        strided=wf.einsum("2*v+1; b|@v => b|0", data(np.arange(10)), data([0, 3, 1], batch=1)),
        padded=wf.einsum("v=+k, d; b|@v => b|k, d", t, data([0, 8], batch=1), k=3),
        matrix=wf.einsum("v, d; i, j @v => i, j, d", t, data(many)),
        batches=wf.einsum("v, d; ...|@v => ...|d", t, data(many, batch=2)),
        one=wf.einsum("v, d; @v => d", t, data([7])),
        weighed=wf.einsum("v, d; b|@v; b|d => b|d", t, s, data(np.arange(6).reshape(3, 2), "float32", batch=1)),
        bag=wf.einsum("v, d; i, j @v => i, d", t, data(many)),
        diagonal=wf.einsum("v, d; b|@v => b, v, d", t, s),
        histogram=wf.einsum("b|@h; b|@w => h, w", by, bx, h=5, w=6),
    )
    np.testing.assert_array_equal(found["pixels"], image[h, w])
    np.testing.assert_array_equal(found["windows"], table[starts[:, None] + np.arange(3)])
    np.testing.assert_array_equal(found["strided"], [[1], [7], [3]])
    around = np.pad(table, ((1, 1), (0, 0)))
    np.testing.assert_array_equal(found["padded"], around[np.array([0, 8])[:, None] + np.arange(3)])
    np.testing.assert_array_equal(found["matrix"], table[many])
    np.testing.assert_array_equal(found["batches"], table[many])
    np.testing.assert_array_equal(found["one"], table[7])
    np.testing.assert_allclose(found["weighed"], table[starts] * np.arange(6).reshape(3, 2))
    np.testing.assert_allclose(found["bag"], table[many].sum(1), rtol=1e-6)
    only = np.zeros((3, 9, 2), "float32")
    only[np.arange(3), starts] = table[starts]
    np.testing.assert_array_equal(found["diagonal"], only)
    counted = np.zeros((5, 6), int)
    np.add.at(counted, (h, w), 1)
    np.testing.assert_array_equal(found["histogram"], counted)
    assert found["histogram"].dtype == np.int64


@backends
def test_any_accumulation_scatters(backend: str) -> None:
    rows = np.random.default_rng(0).uniform(0.5, 2, (5, 2)).astype("float32")
    updates, ids = data(rows, "float32", batch=1), data(IDS, batch=1)
    found = values(
        backend,
        **{one: wf.einsum("b|d; b|@v => v, d", updates, ids, v=5, accum=one) for one in ("max", "min", "*", "+")},
    )
    for name, (ufunc, start) in {
        "max": (np.maximum, -np.inf),
        "min": (np.minimum, np.inf),
        "*": (np.multiply, 1),
        "+": (np.add, 0),
    }.items():
        meant = np.full((5, 2), start, "float32")
        ufunc.at(meant, IDS, rows)
        np.testing.assert_allclose(found[name], meant, rtol=1e-6, err_msg=name)


@backends
def test_no_positions_and_none_to_look_up(backend: str) -> None:
    table, rows = data(np.ones((5, 2)), "float32"), data(np.ones((0, 2)), "float32", batch=1)
    none, empty = data(np.zeros(0), batch=1, label="none"), data(np.ones((0, 2)), "float32")
    found = values(
        backend,
        looked_up=wf.einsum("v, d; b|@v => b|d", table, none),
        added=wf.einsum("b|d; b|@v => v, d", rows, none, v=3),
        nothing=wf.einsum("v, d; b|@v => b|d", empty, none),
        skipped=wf.einsum("v, d; b|@v => b|d", empty, data([0, 1], batch=1), outside="skip"),
    )
    assert found["looked_up"].shape == (0, 2)
    assert found["nothing"].shape == (0, 2)
    np.testing.assert_array_equal(found["added"], np.zeros((3, 2)))
    np.testing.assert_array_equal(found["skipped"], np.zeros((2, 2)))


@backends
def test_positions_outside(backend: str) -> None:
    numbers, strays = np.arange(1, 11).reshape(5, 2), np.array([-2, 4, 5, 2**40, 0])
    table, ids = data(numbers, "float32"), data(strays, batch=1, label="ids")
    rows = data(np.arange(1, 11).reshape(5, 2), "float32", batch=1)
    huge = data(np.array([2**64 - 1, 1], "uint64"), "uint64", batch=1)
    lookup, scatter = "v, d; b|@v => b|d", "b|d; b|@v => v, d"
    found = values(
        backend,
        clipped=wf.einsum(lookup, table, ids, outside="clip"),
        skipped=wf.einsum(lookup, table, ids, outside="skip"),
        highest=wf.einsum(lookup, table, ids, outside="skip", accum="max"),
        added_clipped=wf.einsum(scatter, rows, ids, outside="clip", v=5),
        added_skipped=wf.einsum(scatter, rows, ids, outside="skip", v=5),
        huge=wf.einsum(lookup, table, huge, outside="clip"),
        huge_skipped=wf.einsum(lookup, table, huge, outside="skip"),
        windows=wf.einsum("v<+k, d; b|@v => b|k, d", table, ids, k=2, outside="clip"),
    )
    held, inside = np.clip(strays, 0, 4), (strays >= 0) & (strays < 5)
    np.testing.assert_array_equal(found["clipped"], numbers[held])
    np.testing.assert_array_equal(found["skipped"], np.where(inside[:, None], numbers[held], 0))
    np.testing.assert_array_equal(found["highest"], np.where(inside[:, None], numbers[held], -np.inf))
    clipped, skipped = np.zeros((5, 2)), np.zeros((5, 2))
    np.add.at(clipped, held, numbers)
    np.add.at(skipped, strays[inside], numbers[inside])
    np.testing.assert_array_equal(found["added_clipped"], clipped)
    np.testing.assert_array_equal(found["added_skipped"], skipped)
    np.testing.assert_array_equal(found["huge"], numbers[[4, 1]])
    np.testing.assert_array_equal(found["huge_skipped"], [[0, 0], numbers[1]])
    np.testing.assert_array_equal(found["windows"], numbers[np.clip(strays, 0, 3)[:, None] + np.arange(2)])
