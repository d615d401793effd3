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


# Gradients


def learned(values: np.ndarray, label: str) -> wf.Tensor:
    return wf.require_grad(wf.data(values, label=label))


@backends
@pytest.mark.parametrize("outside", ["check", "clip", "skip"])
def test_the_gradient_of_a_lookup_is_a_scatter_and_of_that_a_lookup(backend: str, outside: str) -> None:
    rng = np.random.default_rng(0)
    ids = IDS if outside == "check" else np.array([3, -1, 3, 7, 0])
    held, inside = np.clip(ids, 0, 4), (ids >= 0) & (ids < 5)
    mask = (inside | (outside == "clip"))[:, None]
    table, rows = rng.normal(size=(5, 2)), rng.normal(size=(5, 2))
    x, u = learned(table, "x"), wf.require_grad(wf.data(rows, batch=1, label="u"))
    where = data(ids, batch=1, label="ids")
    found = wf.einsum("v, d; b|@v => b|d", x, where, outside=outside)  # type: ignore[arg-type]
    added = wf.einsum("b|d; b|@v => v, d", u, where, v=5, outside=outside)  # type: ignore[arg-type]
    first = wf.einsum("...|... => 0", found**3, label="first")
    second = wf.einsum("... => 0", added**3, label="second")
    by_x, by_u = wf.grad(first, x), wf.grad(second, u)
    curved = wf.grad(wf.einsum("... => 0", by_x**2, label="sq"), x)
    pushed = wf.jvp(found, x, wf.data(table * 2, label="way"))
    results = values(backend, by_x=by_x, by_u=by_u, curved=curved, pushed=pushed)
    looked_up, meant = np.where(mask, table[held], 0), np.zeros((5, 2))
    np.add.at(meant, held, np.where(mask, 3 * looked_up**2, 0))
    np.testing.assert_allclose(results["by_x"], meant)
    times = np.zeros((5, 1))
    np.add.at(times, held, mask.astype(float))
    np.testing.assert_allclose(results["curved"], 2 * (3 * times * table**2) * (6 * times * table))
    np.testing.assert_allclose(results["pushed"], 2 * looked_up)
    totals = np.zeros((5, 2))
    np.add.at(totals, held, np.where(mask, rows, 0))
    np.testing.assert_allclose(results["by_u"], np.where(mask, 3 * totals[held] ** 2, 0))


@pytest.mark.parametrize("accum", ["max", "*"])
def test_gradients_of_other_scatters_against_differences(accum: str) -> None:
    u = wf.require_grad(data(np.linspace(0.5, 2, 8).reshape(4, 2), "float64", batch=1, label="u"))
    added = wf.einsum("b|d; b|@v => v, d", u, data([2, 0, 2, 2], batch=1), v=3, accum=accum, label="added")
    picked = wf.einsum("v, d; b|@v => b|d", added, data([2, 0], batch=1))
    loss = wf.einsum("...|... => 0", picked**2, label="loss")
    wf.gradcheck(loss, u)


def test_a_layer_with_an_embedding_learns() -> None:
    ctx, table = wf.Context("cc"), wf.param("table", o=(6, 3))
    ids = data([4, 1, 4], batch=1, label="ids")
    loss = wf.einsum("...|... => 0", (table[ids] - 1.0) ** 2, label="loss")
    step = ctx.compile(wf.seq(wf.grad_update(loss), wf.optim.sgd(loss, lr=0.1)))
    before = ctx[table].copy()
    for _ in range(60):
        step()
    np.testing.assert_allclose(ctx[table][[1, 4]], 1, atol=1e-4)
    np.testing.assert_array_equal(ctx[table][[0, 2, 3, 5]], before[[0, 2, 3, 5]])


def test_an_embedding_is_a_lookup_and_its_gradient_touches_the_rows_it_must() -> None:
    ctx, table = wf.Context("cc"), wf.param("table", o=(1000, 16))
    ids = data(np.arange(8), batch=1, label="ids")
    rows = wf.einsum("v, d; ...|@v => ...|d", table, ids, label="rows")
    loss = wf.einsum("...|... => 0", wf.tanh(rows), label="loss")
    assert (
        ctx.compile(rows.forward, keep=[rows])
        .show("kernels")
        .endswith(
            """
for i in range(8):
    ids.extremes[0] min= ids[i, 0]
    ids.extremes[1] max= ids[i, 0]
    max: int64 = max(min(ids[i, 0], 999), 0)
    for d in range(16) on vectors:
        rows_: float32 = table[max, d]
        rows[i, d] = rows_"""
        )
    )
    step = ctx.compile(wf.grad_update(loss))
    loops = step.show("loops").split("# table.grad =+ rows.grad")
    assert loops[1].endswith(
        """
for i in range(8):
    for d in range(16):
        if 0 <= ids[i, 0] < 1000:
            table.grad[ids[i, 0], d] += rows.grad[i, d]"""
    )
    assert "range(1000)" not in step.show("loops")
    cleared = [one for one in step.show("kernels").split("\n\n") if "range(1000)" in one]
    assert [one.splitlines()[-1].strip() for one in cleared] == ["table.grad[i0, i1] = 0.0"]


# Words for it


def test_take_and_brackets() -> None:
    numbers = np.arange(24, dtype="float32").reshape(4, 3, 2)
    ids = np.array([[1, 0], [3, 3]])
    output, batch, line = wf.data(numbers), wf.data(numbers, batch=1), wf.data(numbers[:, 0, 0])
    matrix = wf.data(numbers, batch=0, input=1)
    found = {
        "batches": output[wf.data(ids, batch=2)],
        "outputs": output[wf.data(ids)],
        "mixed": wf.take(output, wf.data(ids, batch=1)),
        "of batches": batch[wf.data(ids, batch=1)],
        "of inputs": matrix[wf.data(ids[0], batch=1)],
        "written": output[wf.tensor([3, 1])],
        "of one axis": line[wf.data(ids[0], batch=1)],
        "clipped": wf.take(output, wf.tensor([-5, 9]), outside="clip"),
    }
    arrays = values("interp", **found)
    for name in ("batches", "outputs", "mixed", "of batches"):
        np.testing.assert_array_equal(arrays[name], numbers[ids], err_msg=name)
    np.testing.assert_array_equal(arrays["of inputs"], numbers[ids[0]])
    np.testing.assert_array_equal(arrays["written"], numbers[[3, 1]])
    np.testing.assert_array_equal(arrays["of one axis"], numbers[ids[0], :1, 0])
    np.testing.assert_array_equal(arrays["clipped"], numbers[[0, 3]])
    dims = {"batches": "2,2|3,2", "outputs": "2,2,3,2", "mixed": "2|2,3,2", "of batches": "2,2|3,2"}
    assert {name: str(found[name].dims) for name in dims} == dims
    assert str(found["of inputs"].dims) == "2|2->3"


def test_counting() -> None:
    ids, weights = np.array([[1, 3], [1, 1]]), np.array([[0.5, 1], [2, 4]])
    found = values(
        "interp",
        counted=wf.bincount(wf.data(ids, batch=1), 5),
        weighed=wf.bincount(wf.data(ids, batch=1), 5, weights=wf.data(weights, batch=1)),
        skipped=wf.bincount(wf.data(ids), 3, outside="skip"),
    )
    np.testing.assert_array_equal(found["counted"], np.bincount(ids.ravel(), minlength=5))
    np.testing.assert_array_equal(found["weighed"], np.bincount(ids.ravel(), weights.ravel(), minlength=5))
    np.testing.assert_array_equal(found["skipped"], [0, 3, 0])


# What is printed


def test_what_is_printed_is_read_back() -> None:
    w, ids = wf.param("w", o=(5, 4)), data(IDS, batch=1, label="ids")
    y = wf.einsum("v, d; ...|@v => ...|d", w, ids % 5, label="y", outside="clip")
    z = wf.einsum("...|@v; v, d => ...|d", ids, w * 2.0, label="z")
    counts = wf.einsum("...|@v => v", ids, v=6, label="counts")
    nested = y * wf.einsum("v, d; ...|@v => ...|d", w, ids) + z
    loss = wf.einsum("...|... => 0", nested**2, label="loss")
    ctx = wf.Context("interp")
    step = ctx.compile(wf.seq(wf.grad_update(loss), counts.forward), keep=[w.grad, loss, counts])
    text = step.show("assign")
    assert '  y =:+ w ~logic:"v, d; ...|@v => ...|d" ~at:mod ~outside:"clip";\n' in text
    assert '    mul.grad =+ z.grad ~logic:"...|@v; v, d => ...|d" ~slots:"0=>2" ~at:ids;\n' in text
    assert text.endswith('counts =:+ 1 ~logic:"...|@v => v" ~at:ids ~sizes:"v=6" ~type:"int64"')
    code = wf.parse_cd(text, {"w": w, "ids": ids}, declare=True)
    assert str(code) == text
    step()
    meant = ctx[w.grad].copy()
    ctx[w.grad] = np.zeros_like(meant)
    ctx.compile(code)()
    np.testing.assert_allclose(ctx[w.grad], meant)


def test_a_plan_shows_what_is_looked_up() -> None:
    plan = wf.plan("v=+k, d; b|@v => b|k, d", (9, 2), "3|1", k=3)
    assert str(plan).endswith(
        """
            if 0 <= B[b, 0] + k - 1 < 9:
                R[b, k, d] = A[B[b, 0] + k - 1, d]"""
    )
    assert "        if 0 <= B[i, 0] < 10:\n            R[B[i, 0], d] += A[i, d]" in str(
        wf.plan("...|d; ...|@v => v, d", "3|4", "3|1", v=10)
    )
    table, ids = np.arange(18.0).reshape(9, 2), np.array([[0], [4], [8]])
    np.testing.assert_array_equal(plan.evaluate(table, ids), np.pad(table, ((1, 1), (0, 0)))[ids + np.arange(3)])
    np.testing.assert_array_equal(wf.plan("...|@v => v", "3|1", v=3).evaluate([[1], [0], [1]]), [1, 2, 0])
    with pytest.raises(wf.IndexOutOfBounds, match="`v` is 9 somewhere, and its axis has positions from 0 to 8"):
        plan.evaluate(table, ids + 1)


def test_other_notations_say_it() -> None:
    """An einsum as written, its gradient as the einsum in other roles; and both as comprehensions."""
    w, ids = wf.param("w", o=(4, 3), init=1.5), data([0, 2, 2], batch=1, label="ids")
    y = wf.einsum("v, d; ...|@v => ...|d", w, ids, label="y", outside="skip")
    loss = wf.einsum("...|... => 0", y**2, label="loss")
    text = wf.show_as(wf.grad_update(loss), "einsum")
    assert 'y = wf.einsum("v, d; ...|@v => ...|d", w, ids, outside="skip", label="y")' in text
    assert 'w_grad_by = wf.einsum("...|d;...|@v=>vd", y_grad_2, ids, outside="skip", label="w_grad_by", v=4)' in text
    names = {"wf": wf, "w": w, "ids": ids}
    exec(text, names)
    meant = np.zeros((4, 3))
    np.add.at(meant, [0, 2, 2], 3.0)
    np.testing.assert_array_equal(wf.Context("interp")[names["w_grad"]], meant)
    looked_up = wf.show_as(y, "tc")
    found = wf.tc.define(looked_up, backend="interp").forward(
        np.full((4, 3), 1.5, "float32"), np.array([[0], [2], [9]])
    )
    np.testing.assert_array_equal(found, [[1.5] * 3, [1.5] * 3, [0] * 3])
    assert wf.show_as(wf.plan("v, d; b|@v => b|d", (4, 3), "2|1"), "cd") == 'R =:+ A ~logic:"v, d; b|@v => b|d" ~at:B'


def test_code_adds_to_a_tensor_where_positions_say() -> None:
    ctx, table = wf.Context("cc"), wf.node("table", o=(4, 2), init=1.0)
    ids, rows = (
        data([3, 3, 0], batch=1, label="ids"),
        data(np.arange(6).reshape(3, 2), "float32", batch=1, label="rows"),
    )

    @wf.cd
    def update() -> None:
        nonlocal table
        table += wf.einsum("b|d; b|@v => v, d", rows, ids)
        wf.assign(table, "+", "identity", ids, rows, logic="b|@v; b|d => v, d")

    code = update()
    first, second = str(code).splitlines()
    assert first.endswith('=+ rows ~logic:"b|d; b|@v => v, d" ~at:ids;')
    assert second.endswith('=+ identity(rows) ~logic:"b|@v; b|d => v, d" ~at:ids')
    step = ctx.compile(code, keep=[table])
    step()
    meant = np.ones((4, 2))
    np.add.at(meant, [3, 3, 0, 3, 3, 0], np.tile(np.arange(6).reshape(3, 2), (2, 1)))
    np.testing.assert_array_equal(ctx[table], meant)
    ctx[ids] = np.array([[3], [4], [0]])
    with pytest.raises(wf.IndexOutOfBounds, match=r"`ids\[1\]` is 4"):
        step()


def test_threads_add_up_in_the_same_order() -> None:
    rng = np.random.default_rng(0)
    rows, ids = rng.normal(size=(4096, 8)).astype("float32"), rng.integers(0, 50, 4096)
    added = []
    for threads in (1, 2):
        options = wf.CompileOptions(threads=threads, chunk_ns=1)
        ctx, u = wf.Context("cc"), wf.data(rows, batch=1)
        y = wf.einsum("b|d; b|@v => v, d", u, data(ids, batch=1), v=50)
        ctx.compile(y.forward, keep=[y], options=options)()
        added.append(ctx[y])
    meant = np.zeros((50, 8), "float32")
    np.add.at(meant, ids, rows)
    np.testing.assert_array_equal(added[0], added[1])
    np.testing.assert_array_equal(added[0], meant)


# Mistakes


@backends
def test_positions_are_checked_at_every_run(backend: str) -> None:
    ctx, ids = wf.Context(backend), data([1, 4], "int32", batch=1, label="ids")
    y = wf.einsum("v, d; ...|@v => ...|d", data(np.ones((5, 2)), "float32"), ids, label="y")
    routine = ctx.compile(y.forward, keep=[y])
    routine()
    ctx[ids] = np.array([[-3], [4]], "int32")
    with pytest.raises(wf.IndexOutOfBounds) as caught:
        routine()
    assert str(caught.value).splitlines()[0].endswith("`ids[0]` is -3, and the positions along `v` are from 0 to 4")
    assert "    v, d; ...|@v => ...|d\n               ^" in str(caught.value)
    assert caught.value.fix.startswith('pass others, or say what is meant: outside="clip"')
    ctx[ids] = np.array([[0], [4]], "int32")
    routine()


def test_a_gradient_alone_is_checked_too() -> None:
    x = learned(np.ones((3, 2)), "x")
    y = wf.einsum("v, d; b|@v => b|d", x, data([0, 3], batch=1, label="ids"), label="y")
    with pytest.raises(wf.IndexOutOfBounds, match=r"`ids\[1\]` is 3, and the positions along `v` are from 0 to 2"):
        wf.Context("interp")[wf.grad(wf.einsum("...|... => 0", y), x)]


PROVED = {
    "as they are": (lambda ids: ids, True),
    "rest of a division": (lambda ids: ids % 5, False),
    "rest of a division by more": (lambda ids: ids % 6, True),
    "clipped": (lambda ids: wf.clip(ids, 0, 4), False),
    "clipped too far out": (lambda ids: wf.clip(ids, -1, 4), True),
    "computed from what is": (lambda ids: wf.minimum(ids % 4 + 1, 4), False),
    "of a type that holds no more": (lambda ids: data([200], "uint8", batch=1), False),
}


@pytest.mark.parametrize("case", PROVED)
def test_positions_that_are_seen_to_be_inside_are_not_watched(case: str) -> None:
    computed, watched = PROVED[case]
    ids = data([3, 104], batch=1, label="ids")
    table = data(np.arange(512 if "type" in case else 10).reshape(-1, 2), "float32")
    y = wf.einsum("v, d; b|@v => b|d", table, computed(ids), label="y")
    step = wf.Context("interp").compile(y.forward, keep=[y])
    assert ("extremes" in step.show("loops")) == watched
    if not watched:
        step()


MISTAKES = {
    "positions of a float type": (
        lambda: wf.einsum("v; b|@v => b|0", data([1, 2]), data([0.5], "float32", batch=1, label="ids")),
        "`ids` holds positions along `v`, and they are float32",
        'positions are whole numbers: make them with dtype="int32"',
    ),
    "positions that turn out to be of a float type": (
        lambda: wf.Context("interp")[wf.einsum("v; @v => 0", data([1, 2]), wf.tensor([0.5]).named("ids"))],
        "`ids` holds positions along `v`, and they are float32",
        "positions are whole numbers",
    ),
    "no such axis": (
        lambda: wf.einsum("v; b|@w => b|0", data([1, 2]), data([0], batch=1)),
        "`@w` names no axis",
        "name an axis of another operand or of the result",
    ),
    "a plain write whose positions may repeat": (
        lambda: wf.Context("interp")[_plainly(data([[1], [2]], batch=1), data([0, 0], batch=1), v=3)],
        "`overwriting =: …` would write some cells more than once: positions along `v` may repeat",
        "say how the values combine",
    ),
    "no such way": (
        lambda: wf.einsum("v; b|@v => b|0", data([1]), data([0], batch=1), outside="wrap"),
        "outside= says what becomes of positions outside their axis, and 'wrap' is no such thing",
        "say one of 'check', 'clip', 'skip'",
    ),
    "nothing to be outside": (
        lambda: wf.einsum("v => 0", data([1]), outside="clip"),
        "outside='clip' speaks of positions, and no operand of the spec has any",
        "write `@v`",
    ),
    "a size that nobody gives": (
        lambda: wf.einsum("b|@v => v", data([0], batch=1)).dims,
        "",
        "",
    ),
    "taking by what is open": (
        lambda: wf.take(data([1, 2]), wf.param("p")),
        "take needs to know the batch and output axes of `p`",
        "say which axes are which by a spec",
    ),
    "a truth value": (
        lambda: wf.take(data([1, 2]), data([True], "bool", label="ids")),
        "`ids` holds positions along `v`, and they are bool",
        "positions are whole numbers",
    ),
}


@wf.operator("b|d; b|@v => v, d", name="overwriting")
def _plainly(v: wf.Tensor, v1: wf.Tensor) -> None:
    v[:] = v1


@pytest.mark.parametrize("case", MISTAKES)
def test_mistakes(case: str) -> None:
    wrong, what, fix = MISTAKES[case]
    with pytest.raises(wf.WeftError) as caught:
        wrong()
    assert caught.value.what.startswith(what), caught.value.what
    assert (caught.value.fix or "").startswith(fix), caught.value.fix
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__
