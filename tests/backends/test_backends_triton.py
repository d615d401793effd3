"""Kernels as Triton: what their text looks like, that it compiles for every architecture, and what it computes."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from textwrap import dedent

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import weft as wf
from backends.machine_code import WAIT, instructions, waits_first
from backends.on_grid import OnGrid
from backends.triton_interpreted import is_triton, source_of
from weft.affine import Affine
from weft.backends.cuda.kernel_source import Source
from weft.backends.cuda.triton_lane_sums import adds_few
from weft.backends.cuda.triton_library import is_spelled
from weft.backends.cuda.triton_text import triton_source
from weft.loops import Buffer, Cast, For, Grid, Program, Read, Role, Store, buffers_of, check, parse
from weft.ops import OPS, Call
from weft.ops.dtypes import is_float
from weft.schedule.gpu.map_to_grid import on_grid
from weft.schedule.gpu.triton_support import unspelled
from weft.schedule.gpu_model import USUAL_GPU

pytest.importorskip("triton")


def zeros(*shape: int, label: str, dtype: object = np.float32, batch: int | None = None) -> wf.Tensor:
    given = {} if batch is None else {"batch": batch}
    return wf.data(np.zeros(shape, dtype), label=label, **given)  # type: ignore[arg-type]


def matrix(rows: int = 64, columns: int = 48) -> wf.Tensor:
    return zeros(rows, columns, label="x", batch=1)


def convolution() -> wf.Tensor:
    x, w = zeros(2, 8, 8, 32, label="x", batch=1), zeros(16, 3, 3, 32, label="w")
    return wf.einsum("n|y=+p, x=+q, c; f, p, q, c => n|y, x, f", x, w, p=3, q=3)


def attention(dtype: object = ml_dtypes.bfloat16, length: int = 256) -> wf.Tensor:
    q, k, v = (zeros(2, length, 32, label=name, dtype=dtype, batch=2) for name in "qkv")
    scores = wf.einsum("h, t | e; h, s | e => h, t | s", q, k) * 0.25
    weights = wf.softmax(wf.where(wf.nn.causal_mask(length), scores, -1e9))
    return wf.einsum("h, t | s; h, s | e => h, t | e", weights, v)


def product(dtype: object = np.float32, size: int = 64) -> wf.Tensor:
    a, b = zeros(size, size, label="a", dtype=dtype), zeros(size, size, label="b", dtype=dtype)
    return wf.gelu(wf.einsum("i,k;k,j=>i,j", a, b) + zeros(size, label="bias", dtype=dtype))


def further_sums(rows: int = 64) -> wf.Tensor:
    """The gradient by what two products share: a sum for each."""
    x = wf.param("x", o=[rows, 48])
    u, v = zeros(48, 32, label="u"), zeros(48, 20, label="v")
    one, other = wf.einsum("i,k;k,j=>i,j", x, u), wf.einsum("k,j;i,k=>i,j", v, x)
    return wf.grad(wf.sum(wf.tanh(one), "...|...=>0") + wf.sum(wf.sin(other), "...|...=>0"), x)


def repeated_product() -> wf.Tensor:
    """What is made of a product in every batch adds up over some of them: each program runs these."""
    a, b = zeros(3, 4, 64, 64, label="a"), zeros(3, 4, 40, 64, label="b")
    made = wf.tanh(wf.einsum("p,h,i,k;p,h,j,k=>p,h,i,j", a, b))
    return wf.einsum("p,h,i,j;h,i,j=>p,i,j", made, zeros(4, 64, 40, label="w"))


def folded_sums() -> wf.Tensor:
    """What a product makes, divided by what its columns come to."""
    h = wf.tanh(wf.einsum("i,k;k,j=>i,j", zeros(192, 64, label="x"), zeros(64, 128, label="w")))
    return h / wf.einsum("i,j=>j", h)


def float8_product(rows: int = 256, sums: int = 256) -> wf.Tensor:
    """Factors of eight bits with sums side by side."""
    a = zeros(rows, sums, label="a", dtype=ml_dtypes.float8_e4m3fn)
    return wf.einsum("i,k;j,k=>i,j", a, zeros(512, sums, label="b", dtype=ml_dtypes.float8_e5m2))


PROGRAMS: dict[str, Callable[[], wf.Tensor]] = {
    "chain": lambda: wf.tanh(matrix() * 2.0 + 1.0),
    "broadcast": lambda: matrix() + zeros(48, label="b"),
    "transpose": lambda: wf.einsum("i|j => j|i", matrix()),
    "rows": lambda: wf.einsum("i|j => i|0", matrix()),
    "columns": lambda: wf.einsum("i|j => j", matrix()),
    "all": lambda: wf.einsum("i|j => 0", matrix(512, 1024)),
    "long_columns": lambda: wf.einsum("i|j => j", matrix(4096, 64), accum="max"),
    "softmax": lambda: wf.nn.softmax()(matrix()),
    "layer_norm": lambda: wf.nn.layer_norm()(matrix(1024, 48)),
    "product": product,
    "narrow_product": lambda: product(ml_dtypes.bfloat16, 256),
    "double_product": lambda: wf.einsum(
        "i,k;k,j=>i,j", zeros(100, 50, label="a", dtype=np.float64), zeros(50, 70, label="b", dtype=np.float64)
    ),
    "float8_product": lambda: wf.einsum(
        "i,k;k,j=>i,j",
        zeros(100, 64, label="a", dtype=ml_dtypes.float8_e4m3fn),
        zeros(64, 70, label="b", dtype=ml_dtypes.float8_e5m2),
    ),
    "native_float8": float8_product,
    "mapped_product": lambda: wf.einsum(
        "b,i,k;b,k,j=>b,i,j", zeros(3, 1000, 256, label="a"), zeros(3, 256, 1032, label="b")
    ),
    "parted_product": lambda: product(ml_dtypes.bfloat16, 256),
    "thirds_product": lambda: product(np.float32, 160),
    "thirds_at_once": lambda: product(np.float32, 32),
    "further_sums": further_sums,
    "repeated_product": repeated_product,
    "folded_sums": folded_sums,
    "long_product": lambda: wf.einsum("i,k;k,j=>i,j", zeros(16, 8192, label="a"), zeros(8192, 16, label="b")),
    "convolution": convolution,
    "attention": attention,
    "gather": lambda: wf.take(zeros(9, 5, label="table"), wf.data(np.zeros(7, np.int64), label="ids")),
    "scatter": lambda: wf.einsum(
        "...|d; ...|@v => v, d",
        matrix(100, 300),
        wf.data(np.zeros((100, 1), np.int32), batch=1, label="ids"),
        v=9,
        outside="skip",
    ),
    "whole": lambda: wf.einsum("i|j => i|0", wf.data(np.zeros((20, 3), np.int32), batch=1) // 3, accum="min"),
}


#: What some programs are shaped for: few cells at once, or factors that are sums of three.
GPUS = {
    "parted_product": wf.Gpu(parted_blocks=((64, 128, 32, 4, 3),), parted_from=1, narrow_blocks=((64, 64, 32, 1, 3),)),
    "thirds_product": wf.Gpu(third_blocks=((64, 64, 32, 4, 3),), multiply_ns=1e3, splits=1),
    "repeated_product": wf.Gpu(thirds=False, alone_points=1),
    "folded_sums": wf.Gpu(splits=1),
    "thirds_at_once": wf.Gpu(third_blocks=((16, 16, 64, 2, 3),), multiply_ns=1e3),
    "mapped_product": wf.Gpu(thirds=False),
}
#: What some products may be rounded to.
PRODUCTS = {"native_float8": "tf32"}


def sources(tensor: wf.Tensor, gpu: wf.Gpu | None = None, products: str = "float32") -> list[Source]:
    """The texts of a program's kernels."""
    result = tensor.named("y")
    options = wf.CompileOptions(gpu=gpu, products=products)
    routine = wf.Context(OnGrid()).compile(result.forward, keep=[result], options=options)
    assert all(map(is_triton, routine.kernels))
    return [source_of(one, f"kernel{at}") for at, one in enumerate(routine.kernels)]


@pytest.mark.parametrize("name", PROGRAMS)
def test_text(name: str, golden: Callable[..., None]) -> None:
    found = sources(PROGRAMS[name](), GPUS.get(name), PRODUCTS.get(name, "float32"))
    launched = [f"# {one.programs} programs on {one.warps} warps, {one.stages} stages" for one in found]
    golden("\n\n".join(f"{line}\n{one.text}" for line, one in zip(launched, found, strict=True)))


def test_only_some_architectures_copy_blocks() -> None:
    """The text for an older GPU loads cell by cell; tensor cores that round take factors with sums side by side."""
    for architecture, products, loaded in ((80, "float32", 0), (90, "float32", 2), (100, "tf32", 2), (80, "tf32", 0)):
        result = PROGRAMS["mapped_product"]().named("y")
        options = wf.CompileOptions(gpu=wf.Gpu(architecture=architecture, thirds=False), products=products)
        routine = wf.Context(OnGrid()).compile(result.forward, keep=[result], options=options)
        source = source_of(routine.kernels[-1])
        assert (len(source.maps), source.text.count(".load([")) == (loaded, loaded)
        assert source.text.count("tl.trans(map1") == (products == "tf32" and loaded > 0)


COMPILING = """
    import pickle, sys
    from weft.backends.cuda.triton_build import compile_triton
    for source, architecture in pickle.load(sys.stdin.buffer):
        made = compile_triton(source, architecture)
        assert made.cubin[:4] == b"\\x7fELF", source.text
        assert (made.entry, made.programs, made.threads, made.trailing) == (
            source.entry, source.programs, 32 * source.warps, 2)
        assert all(0 < box <= block for one in made.maps for box, block in zip(one.box, one.block, strict=True))
        assert [one.block for one in made.maps] == [one.block for one in source.maps]
        print(source.entry, architecture, made.shared)
"""


@pytest.fixture(scope="module")
def compiled(tmp_path_factory: pytest.TempPathFactory) -> str:
    """What compiling everything once says: in a process of its own, with a cache of its own."""
    import pickle

    every = [(one, "sm_90") for name, make in PROGRAMS.items() for one in sources(make(), GPUS.get(name))]
    oldest = ("softmax", "product", "thirds_product", "attention")
    newest = (
        "rows",
        "narrow_product",
        "mapped_product",
        "parted_product",
        "thirds_product",
        "thirds_at_once",
        "attention",
    )
    for names, architecture in ((oldest, "sm_80"), (newest, "sm_100")):
        every += [(one, architecture) for name in names for one in sources(PROGRAMS[name](), GPUS.get(name))]
    every += [(one, "sm_90") for one in (*rows_of_the_table(), LARGE, MANY)]
    env = {**os.environ, "TRITON_CACHE_DIR": str(tmp_path_factory.mktemp("triton"))}
    done = subprocess.run(
        [sys.executable, "-c", dedent(COMPILING)], input=pickle.dumps(every), capture_output=True, env=env, timeout=600
    )
    assert done.returncode == 0, done.stderr.decode()[-3000:]
    assert len(done.stdout.splitlines()) == len(every)
    return done.stdout.decode()


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_100"])
def test_it_compiles(architecture: str, compiled: str) -> None:
    assert architecture in compiled


@pytest.mark.parametrize("name", ["chain", "narrow_product", "mapped_product", "attention", "scatter", "softmax"])
def test_programs_wait_for_other_launches_before_they_touch_memory(name: str, tmp_path: Path) -> None:
    from weft.backends.cuda.triton_build import compile_triton

    for source in sources(PROGRAMS[name](), GPUS.get(name)):
        assert waits_first(instructions(compile_triton(source, "sm_90").cubin, tmp_path))
    (source, *_) = sources(PROGRAMS["chain"]())
    assert WAIT not in instructions(compile_triton(source, "sm_80").cubin, tmp_path), "there launches wait"


@pytest.mark.parametrize("products", ["float32", "tf32"])
@pytest.mark.parametrize("sums", [256, 96])
def test_floats_of_eight_bits_are_multiplied_as_such_where_fewer_digits_are_asked_for(
    products: str, sums: int, tmp_path: Path
) -> None:
    from weft.backends.cuda.triton_build import compile_triton

    (source,) = sources(float8_product(128, sums), products=products)
    units = {one.split(".")[0] for one in instructions(compile_triton(source, "sm_90").cubin, tmp_path) if "MMA" in one}
    assert units == {"QGMMA"} if products == "tf32" else "QGMMA" not in units
    assert ("max_num_imprecise_acc" in source.text) == (products == "tf32")


def rows_of_the_table() -> list[Source]:
    """A kernel that computes with every operation that runs in lanes, for each type it is computed in."""
    found = []
    for dtype in ("float32", "float64", "int64", "uint64", "bool"):
        stores, to = [], 100
        for op in OPS.values():
            given = (dtype,) * op.arity
            if op.name in ("where", "select"):
                given = ("bool", *given[1:])
            if op.typing(*given)[0] != given or _unspelled(op.name, given):
                continue
            args = tuple(Read(Buffer(at, f"x{at}", (64,), one), (Affine.of("i"),)) for at, one in enumerate(given))
            target = Buffer(to, op.name, (64,), op.typing(*given)[1])
            stores.append(Store(target, (Affine.of("i"),), Call(op.name, args)))
            to += 1
        body = (For("i", 64, tuple(stores), (Grid(64, 1),)),)
        found.append(triton_source(f"table_{dtype}", body, buffers_of(Program(body)), ()))
    return found


def _unspelled(op: str, given: tuple[str, ...]) -> bool:
    args = tuple(Read(Buffer(at, "x", (1,), one), (Affine(()),)) for at, one in enumerate(given))
    out = OPS[op].typing(*given)[1]
    return bool(unspelled([Store(Buffer(9, "y", (1,), out), (Affine(()),), Call(op, args))]))


def test_what_runs_in_lanes_is_spelled() -> None:
    """The passes say what Triton has words for; the library has them."""
    for op in OPS.values():
        for dtype in ("float32", "float64", "int64", "uint64"):
            given = (dtype,) * op.arity
            if op.typing(*given)[0] == given and not _unspelled(op.name, given):
                assert is_spelled(op.name, dtype), (op.name, dtype)
    assert not is_float("int64")


def test_every_row_is_compiled(compiled: str) -> None:
    assert all(f"table_{one} sm_90" in compiled for one in ("float32", "float64", "int64", "uint64", "bool"))


def test_a_kernel_that_does_not_compile_is_shown() -> None:
    from weft.backends.cuda.triton_build import compile_triton

    text = "import triton\nimport triton.language as tl\n\n\n@triton.jit\ndef kernel(x0):\n    tl.store(x0, nothing)\n"
    with pytest.raises(wf.WeftError, match="Triton compiles no kernel `kernel` for sm_90") as caught:
        compile_triton(Source("triton", "kernel", text, ("float32",), False, 1, 1), "sm_90")
    assert "7      tl.store(x0, nothing)" in str(caught.value)


def test_private_buffers_stay_in_registers() -> None:
    """A softmax passes over memory once: what it divides is in registers."""
    (source,) = sources(wf.nn.softmax()(matrix()))
    assert source.text.count("tl.load(") == 1
    assert source.text.count("tl.store(") == 1


def thirds(x: np.ndarray) -> list[np.ndarray]:
    """The three numbers of bfloat16 that products in thirds multiply for a number, as a kernel finds them."""
    first = (x.view(np.int32) & -65536).view(np.float32)
    left = x - first
    second = (left.view(np.int32) & -65536).view(np.float32)
    return [one.astype(ml_dtypes.bfloat16).astype(np.float64) for one in (first, second, left - second)]


@given(st.floats(width=32, allow_nan=False, allow_infinity=False))
def test_three_numbers_of_bfloat16_are_one_of_single_precision(number: float) -> None:
    """None of its digits is lost but those below the smallest number of bfloat16, and a zero keeps its sign."""
    found = thirds(np.array([number], np.float32))
    lost, size = abs(sum(one[0] for one in found) - number), abs(number)
    assert lost == 0 if size >= 2.0**-109 or size == 0 else lost <= 2.0**-134
    assert np.signbit(found[0][0]) == np.signbit(number)
    assert all(abs(one[0]) <= max(most * size, 2.0**-133) for one, most in zip(found, (1, 2**-7, 2**-15), strict=True))


def test_six_products_of_thirds_are_the_product_but_for_less_than_sums_of_sixteen_round() -> None:
    random = np.random.default_rng(3)
    x, y = ((1 + random.random(100_000)).astype(np.float32) for _ in range(2))
    x[0] = y[0] = 1 + 2.0**-7 - 2.0**-23
    (a, b, c), (d, e, f) = thirds(x), thirds(y)
    exact = x.astype(np.float64) * y
    off = (a * f + b * e + c * d + a * e + b * d + a * d - exact) / exact
    assert 2.0**-22 <= np.max(np.abs(off)) <= 2.0**-21
    assert abs(np.mean(off)) <= 2.0**-24


def test_thirds_whose_sum_is_not_finite_are_added_up_as_they_are() -> None:
    (source,) = sources(PROGRAMS["thirds_product"](), GPUS["thirds_product"])
    assert "_ != 0.0, tl.int32)) != 0:" in source.text
    assert source.text.count("tl.dot(") == 7


@pytest.mark.parametrize("part", ["generators", "programs"])
def test_interpreted(part: str) -> None:
    """Triton's interpreter gives what the oracle gives; it cannot run where Triton was imported to compile."""
    tests = Path(__file__).parents[1]
    env = {**os.environ, "TRITON_INTERPRET": "1", "PYTHONPATH": os.pathsep.join([str(tests), *sys.path])}
    done = subprocess.run(
        [sys.executable, "-m", "backends.triton_interpreted", part],
        capture_output=True,
        text=True,
        env=env,
        timeout=600,
    )
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-4000:]


def test_text_of_a_given_index() -> None:
    """Static indices are loaded from memory, so that another one is no other kernel."""
    loop = "for i in range(8) on a grid by 8 with 1 warp:\n    y[i] = x[step, i] * 2.0\n"
    body = parse(f"x: float32[4, 8]\ny: float32[8]\nstep: range(4)\n{loop}").body
    found = triton_source("kernel", body, buffers_of(Program(body)), ("step",))
    assert found.given
    assert "given0_ = tl.load(given + 0)" in found.text


def on_a_grid(text: str) -> Source:
    body = on_grid(parse(dedent(text).strip() + "\n").body, (), USUAL_GPU)
    check(Program(body))
    return triton_source("kernel", body, buffers_of(Program(body)), ())


LARGE = on_a_grid("""
    x: float32[65536, 65536]
    y: float32[65536]
    for i in range(65536):
        a: float32 = 0
        for j in range(65536):
            a = a + x[i, j]
        y[i] = a
""")
MANY = on_a_grid("""
    x: float32[4096, 65536]
    y: float32[65536]
    for j in range(65536):
        a: float32 = 0
        for i in range(4096):
            a = a + x[i, j]
        y[j] = a
""")


def test_indices_of_large_buffers_take_64_bits() -> None:
    assert "program = tl.program_id(0).to(tl.int64)" in LARGE.text
    assert "tl.arange(0, 2048).to(tl.int64)" in LARGE.text
    assert "int64" not in MANY.text


def test_sums_of_many_terms_of_a_lane_are_wider() -> None:
    """Each of 32 lanes adds up 128 terms of a column: more roundings than are promised in single precision."""
    assert "a_sum1 = tl.full([64, 32], 0.0, tl.float64)" in MANY.text
    assert "a_ = (a_ + tl.cast(tl.sum(a_sum1, 1, keep_dims=True), tl.float32))" in MANY.text


def test_lanes_wait_before_they_write_what_others_read() -> None:
    text = on_a_grid("""
        x: float32[8, 64]
        for i in range(8):
            a: float32 = 0
            for j in range(64):
                a = a + x[i, 63 - j]
            for k in range(64):
                x[i, k] = a
    """).text
    assert text.index("tl.load(") < text.index("tl.debug_barrier()") < text.index("tl.store(")


def test_negative_zero_keeps_its_sign() -> None:
    """Triton makes 0.0 of -0.0 where it is a constant."""
    text = on_a_grid("x: float32[8]\nfor i in range(8):\n    x[i] = -0.0\n").text
    assert "tl.full((), 0.0, tl.float32) * -1.0" in text


def test_what_is_read_is_loaded_before_anything_is_stored() -> None:
    """Compilers keep loads behind stores, for they cannot know that these are other cells; what is stored is not."""
    text = """
        a: float32[4096]
        b: float32[4096]
        c: float32[4096]
        for i in range(4096) on a grid by 1024 with 4 warps:
            a[i] = 2.0
            b[i] += a[i]
            c[i] = c[i] + b[i]
    """
    program = check(parse(dedent(text).strip() + "\n"))
    found = triton_source("kernel", program.body, buffers_of(program), ()).text
    lines = [line.strip() for line in found.splitlines() if "tl.load" in line or "tl.store" in line]
    assert [line[:12] for line in lines] == [
        "v1 = tl.load",
        "v2 = tl.load",
        *["tl.store(x0 "],
        "tl.store(x1 ",
        "tl.store(x2 ",
    ]
    assert "x0" not in "".join(lines[:2])


def test_a_cell_that_is_stored_again_is_stored_once() -> None:
    """Its own lane has the value; where others look at it in between, it is stored for them."""
    text = """
        x: float32[8, 64]
        y: float32[8, 64]
        for i in range(8):
            for j in range(64):
                x[i, j] += y[i, j]
                x[i, j] += y[i, j]
            for k in range(64):
                y[i, k] = x[i, AT]
            for l in range(64):
                x[i, l] = x[i, l] * 2.0
    """
    assert on_a_grid(text.replace("AT", "k")).text.count("tl.store(x0") == 1
    assert on_a_grid(text.replace("AT", "63 - k")).text.count("tl.store(x0") == 2


@pytest.mark.parametrize(
    ("role", "lanes", "few"),
    [
        (Role.TENSOR, 64 * 128, True),
        (Role.TENSOR, 65 * 128, False),
        (Role.PARTIAL, 6 * 128, True),
        (Role.PARTS, 7 * 128, False),
    ],
)
def test_lanes_add_up_few_numbers_in_single_precision(role: Role, lanes: int, few: bool) -> None:
    """Of 128 threads, each its own first; partial sums were rounded before."""
    read = Read(Buffer(0, "x", (8,), "float32", role), (Affine.of("i"),))
    assert adds_few(Cast("float64", read), lanes, 128, ()) is few
    assert not adds_few(read, lanes, 128, ())
