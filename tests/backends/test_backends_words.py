"""Products of narrow numbers, several of which a processor adds up in one step, against the oracle and exact sums."""

from __future__ import annotations

import platform
from collections.abc import Callable, Sequence
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
from weft.loops import Buffer, MalformedLoops, Program, Staged, Stmt, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.walk import Body, everything, top_down
from weft.machine import COMMON
from weft.ops.dtypes import numpy_type
from weft.schedule import as_kernels, as_program
from weft.schedule.compile_options import DEFAULTS, CompileOptions
from weft.schedule.products.contractions import contracting
from weft.schedule.products.tile import tiled, tilings

pytestmark = pytest.mark.usefixtures("guarded_memory")

#: A compiler that is told of none of the instructions writes their steps out; on other processors there are none.
NONE = ("-mno-avx512bf16", "-mno-avx512vnni", "-mno-avxvnni") if platform.machine() == "x86_64" else ()
NARROW = replace(COMMON, narrow="bfloat16 int8")
WITH_WORDS = DEFAULTS.but(machine=NARROW)
KINDS = ("ik;kj=>ij", "ik;jk=>ij", "ki;kj=>ij", "ki;jk=>ji")
PAIRS = [("int8", "int8"), ("uint8", "int8"), ("int8", "uint8"), ("uint8", "uint8")]


@pytest.fixture(scope="module", params=[(), NONE], ids=["as it is", "without the instructions"])
def backend(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Cc:
    made = Cc()
    made.folder = Path(tmp_path_factory.mktemp("kernels"))
    made.compiler = replace(made.compiler, command=(*made.compiler.command, *request.param))
    return made


def tiles(body: Sequence[Stmt]) -> list[int]:
    """How many products each tile adds up in a step."""
    return [one.what.tile.interleaved for one in everything(body) if isinstance(one, Staged) and one.what.tile]


def in_words(body: Body, options: CompileOptions) -> Body:
    """A block whose products run in words, though others may be quicker where there are few."""

    def first(stmt: Stmt) -> Body | None:
        ways = tilings(stmt, options) if isinstance(stmt, Staged) else []
        return (next(one for one in ways if tiles((one,)) != [1]),) if ways else None

    return top_down(body, first)


@settings(max_examples=tries(15))
@given(contractions(narrow=True), st.sampled_from([COMMON.vector_bytes, 32]), st.sampled_from([COMMON.caches[1], 4096]))
def test_products(backend: Cc, sample: Contraction, vector_bytes: int, cache: int) -> None:
    """With a second cache that holds next to nothing, sums are in blocks."""
    machine = replace(NARROW, vector_bytes=vector_bytes, caches=(COMMON.caches[0], cache, COMMON.caches[2]))
    options = DEFAULTS.but(machine=machine)
    kernels = [one.with_body(in_words(one.body, options)) for one in placed(sample.kernels, sample.kept, 1)]
    ours, meant = sample.memory(), sample.memory()
    run(check(sample.program), meant)
    backend.compile(as_kernels(check(as_program(kernels)))).bind(ours)({})
    sample.agree(ours, meant)


def text(dtype: str, left: str, right: str, rows: int, depth: int, columns: int, kind: str = KINDS[0]) -> str:
    """A product of factors that are stored so."""
    one, _, other = kind.partition("=>")[0].partition(";")
    sizes = {"i": rows, "k": depth, "j": columns}
    shapes = [", ".join(str(sizes[name]) for name in axes) for axes in (one, other)]
    return f"""
a: {left}[{shapes[0]}]
b: {right}[{shapes[1]}]
c: {dtype}[{rows}, {columns}]
for i in range({rows}):
    for j in range({columns}):
        t: {dtype} = c[i, j]
        for k in range({depth}):
            t = t + ({dtype}(a[{", ".join(one)}]) * {dtype}(b[{", ".join(other)}]))
        c[i, j] = t
""".lstrip()


def placed_text(written: str, options: CompileOptions = WITH_WORDS) -> Program:
    found = contracting(parse(written).body[0])
    assert found is not None
    return Program(tiled(found.placed, options))


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize(("left", "right"), PAIRS)
@pytest.mark.parametrize("shape", [(7, 64, 70), (13, 4099, 33), (9, 9001, 17)], ids=str)
def test_whole_numbers_are_exact(backend: Cc, shape: tuple[int, int, int], left: str, right: str, kind: str) -> None:
    """At the ends of their types, and where sums are longer than a panel; no step cuts off what 16 bits do not hold."""
    program = check(placed_text(text("int64", left, right, *shape, kind)))
    assert tiles(program.body) == [4]
    rng = np.random.default_rng(shape[1])
    memory = {one: rng.choice([*ends(one.dtype), 1], one.shape).astype(one.dtype) for one in buffers_of(program)}
    meant = {one: values.copy() for one, values in memory.items()}
    with np.errstate(over="ignore"):
        run(program, meant)
    backend.compile(as_kernels(program)).bind(memory)({})
    for one, values in meant.items():
        np.testing.assert_array_equal(memory[one], values)


@pytest.mark.parametrize(("left", "right"), PAIRS)
def test_the_largest_sums_are_exact(backend: Cc, left: str, right: str) -> None:
    """Nor is any on the way to them larger than 32 bits hold, where rows are moved."""
    most = int(((1 << 31) - 1) // (max(abs(ends(left))) * max(abs(ends(right)))))
    program = check(placed_text(text("int64", left, right, 3, most, 5)))
    assert tiles(program.body) == [4]
    memory = {one: np.zeros(one.shape, one.dtype) for one in buffers_of(program)}
    a, b, c = sorted_by_name(memory)
    a[:], b[:] = np.resize(ends(left), (3, 1)), np.resize(ends(right), 5)
    meant = a.astype("int64") @ b.astype("int64")
    backend.compile(as_kernels(program)).bind(memory)({})
    np.testing.assert_array_equal(c, meant)


def ends(dtype: str) -> np.ndarray:
    return np.array([np.iinfo(dtype).min, np.iinfo(dtype).max], "int64")


def random_floats(program: Program, most: float = 1.0) -> dict[Buffer, np.ndarray]:
    rng = np.random.default_rng(0)
    return {one: (most * rng.uniform(-1, 1, one.shape)).astype(numpy_type(one.dtype)) for one in buffers_of(program)}


def found_and_meant(backend: Cc, program: Program, memory: dict[Buffer, np.ndarray]) -> list[np.ndarray]:
    """What a product comes to, what it would without rounding, and the sum of the sizes of its terms."""
    a, b, c = (values.astype("float64") for values in sorted_by_name(memory))
    with np.errstate(invalid="ignore"):
        meant, sizes = c + a @ b, abs(c) + abs(a) @ abs(b)
    backend.compile(as_kernels(program)).bind(memory)({})
    return [sorted_by_name(memory)[2], meant, sizes]


def sorted_by_name(memory: dict[Buffer, np.ndarray]) -> list[np.ndarray]:
    return [memory[one] for one in sorted(memory, key=lambda one: one.name)]


@pytest.mark.parametrize("shape", [(7, 64, 70), (13, 4099, 33), (9, 9001, 17), (3, 37, 5)], ids=str)
def test_sums_of_bfloat16_keep_to_what_is_promised(backend: Cc, shape: tuple[int, int, int]) -> None:
    program = check(placed_text(text("float32", "bfloat16", "bfloat16", *shape)))
    assert tiles(program.body) == [2]
    found, meant, sizes = found_and_meant(backend, program, random_floats(program))
    assert (abs(found - meant) <= 40 * np.finfo("float32").eps * sizes).all()


@pytest.mark.parametrize("depth", [140, 4099])
def test_no_register_adds_up_more_than_a_part(backend: Cc, depth: int) -> None:
    """Beside a large number each of the others is lost: after so many of them that counts."""
    program = check(placed_text(text("float32", "bfloat16", "bfloat16", 8, depth, 64)))
    memory = {one: np.ones(one.shape, numpy_type(one.dtype)) for one in buffers_of(program)}
    a, _, c = sorted_by_name(memory)
    a[:, 1:], c[:] = 1.75 * 2.0**-25, 0
    found, meant, sizes = found_and_meant(backend, program, memory)
    assert (abs(found - meant) <= 40 * np.finfo("float32").eps * sizes).all()


@pytest.mark.parametrize("least", [1e-39, 1e-41])
def test_numbers_below_the_normal_ones_may_count_as_zeros(backend: Cc, least: float) -> None:
    program = check(placed_text(text("float32", "bfloat16", "bfloat16", 8, 64, 64)))
    memory = random_floats(program)
    for one, values in memory.items():
        if one.name in "ac":
            values[...] = (values * least).astype(values.dtype)
    found, meant, _ = found_and_meant(backend, program, memory)
    assert (abs(found - meant) <= 64 * 2.0**-126).all()


@pytest.mark.parametrize("kind", KINDS[:2])
@pytest.mark.parametrize("depth", [36, 37])
def test_what_is_not_finite_stays_in_its_row_and_column(backend: Cc, kind: str, depth: int) -> None:
    """In the last word, too, which may not be full."""
    program = check(placed_text(text("float32", "bfloat16", "bfloat16", 13, depth, 21, kind)))
    memory = {one: np.ones(one.shape, numpy_type(one.dtype)) for one in buffers_of(program)}
    a, b, c = sorted_by_name(memory)
    a[3, -1], b[(-1, 5) if kind == KINDS[0] else (5, -1)] = np.inf, np.nan
    meant = np.full(c.shape, depth + 1.0)
    meant[3], meant[:, 5] = np.inf, np.nan
    backend.compile(as_kernels(program)).bind(memory)({})
    np.testing.assert_array_equal(c, meant)


def test_a_machine_without_the_instructions_has_other_tiles() -> None:
    for dtype, narrow in (("float32", "bfloat16"), ("int64", "int8")):
        written = text(dtype, narrow, narrow, 64, 64, 64)
        assert tiles(placed_text(written, DEFAULTS).body) == [1]
        others = " ".join({"bfloat16", "int8"} - {narrow})
        assert tiles(placed_text(written, DEFAULTS.but(machine=replace(COMMON, narrow=others))).body) == [1]


@pytest.mark.parametrize(
    ("dtype", "left", "right", "depth", "many"),
    [
        ("int64", "int8", "int8", (1 << 17) - 1, 4),
        ("int64", "int8", "int8", 1 << 17, 1),
        ("int64", "uint8", "uint8", 33025, 4),
        ("int64", "uint8", "uint8", 33026, 1),
        ("int64", "int16", "int16", 8, 1),
        ("float32", "bfloat16", "float16", 64, 1),
        ("float32", "int8", "int8", 64, 1),
        ("float64", "bfloat16", "bfloat16", 64, 1),
    ],
)
def test_what_is_added_up_several_at_once(dtype: str, left: str, right: str, depth: int, many: int) -> None:
    """Pairs of bfloat16 in float32, and fours of numbers of 8 bits where 32 bits hold every sum."""
    assert set(tiles(placed_text(text(dtype, left, right, 16, depth, 16)).body)) <= {many}


LAYER = text("float32", "bfloat16", "bfloat16", 16, 64, 32)
TILED = "".join(LAYER.splitlines(True)[:3]) + show(placed_text(LAYER)) + "\n"


def test_tiles_of_words_are_printed_and_read_back() -> None:
    assert "copied panels, sums interleaved by 2," in TILED
    assert TILED.endswith(show(check(parse(TILED))) + "\n")


@pytest.mark.parametrize(
    ("old", "new", "why"),
    [
        ("interleaved by 2", "interleaved by 4", "cannot be interleaved by 4"),
        ("a: bfloat16", "a: float16", "cannot be interleaved by 2"),
        (", copied panels", "", "interleaved as they are packed"),
        ("copied panels", "transposed panels", "columns do not lie in words along `k`"),
        ("a[i, k]", "a[k, i]", "rows do not lie in words along `k`"),
        ("by 2, then", "by 2, parts of 63, then", "ends inside a word"),
        (", sums interleaved by 2", " of 31, sums interleaved by 2, parts of 64 by 14", "ends inside a word"),
    ],
)
def test_what_words_cannot_be(old: str, new: str, why: str) -> None:
    written = TILED.replace(old, new)
    if "[k, i]" in new:
        written = written.replace("a: bfloat16[16, 64]", "a: bfloat16[64, 16]")
    with pytest.raises(MalformedLoops, match=why):
        check(parse(written))


def product(dtype: str, rows: int = 61, depth: int = 90, columns: int = 150) -> tuple[wf.Tensor, wf.Tensor]:
    """A layer of narrow numbers, and the same without a type."""
    rng = np.random.default_rng(1)
    a, b, bias = (rng.integers(-1, 2, shape) for shape in ((rows, depth), (columns, depth), (columns,)))

    def layer(kind: str) -> wf.Tensor:
        x, w, start = (wf.data(one.astype(kind)) for one in (a, b, bias))
        return wf.relu(wf.einsum("ik; jk => ij", x, w) + start)

    return layer(dtype), layer("float64")


@pytest.mark.usefixtures("shared_cache")
@pytest.mark.parametrize("dtype", ["int8", "bfloat16"])
def test_a_layer_is_one_kernel_and_the_same_on_any_number_of_threads(dtype: str) -> None:
    ctx, results = wf.Context("cc"), []
    made, meant = product(numpy_type(dtype))
    for threads in (1, 2, 5):
        options = wf.CompileOptions(threads=threads, machine=replace(NARROW, cores=threads))
        routine = ctx.compile(wf.seq(made.forward), options=options)
        assert "sums interleaved by" in routine.show("kernels")
        assert "kernel 1" not in routine.show("kernels")
        routine()
        results.append(ctx[made].astype("float64"))
    np.testing.assert_array_equal(results[0], ctx[meant].astype(numpy_type(dtype) if dtype != "int8" else "int64"))
    for one in results[1:]:
        np.testing.assert_array_equal(one, results[0])


def test_rounded_factors_are_multiplied_in_pairs() -> None:
    """What `products=` rounds is packed as it is rounded."""
    a, b = (wf.data(np.random.default_rng(at).standard_normal((64, 64)).astype("float32")) for at in range(2))
    options = wf.CompileOptions(products="bfloat16", machine=NARROW)
    made, ctx = wf.einsum("ik; kj => ij", a, b), wf.Context("cc")
    routine = ctx.compile(wf.seq(made.forward), options=options)
    assert "sums interleaved by 2" in routine.show("kernels")
    routine()
    other = wf.Context("interp")
    other.compile(wf.seq(made.forward), options=options)()
    np.testing.assert_allclose(ctx[made], other[made], rtol=1e-5, atol=1e-5)


def test_a_product_of_words_as_text_is_readable(golden: Callable[..., None]) -> None:
    made, _ = product("int8", 10, 46, 48)
    golden(wf.Context("cc").compile(made.forward, options=wf.CompileOptions(machine=NARROW)).show("source"))
