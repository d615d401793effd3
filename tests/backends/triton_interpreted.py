"""A backend that runs Triton's text in Triton's interpreter: for a process in which TRITON_INTERPRET is 1.

The interpreter has no libdevice, so NumPy stands in; it computes nothing in bfloat16, which the oracle does then.
"""

from __future__ import annotations

import linecache
import sys
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from importlib import import_module
from textwrap import dedent
from threading import Lock
from types import SimpleNamespace
from typing import Any
from unittest.mock import patch

import ml_dtypes
import numpy as np

import weft as wf
from backends.grid_races import race
from backends.on_grid import OnGrid
from backends.triton_watched import watched
from weft.backends.cuda.kernel_source import BlockMap, Source
from weft.backends.cuda.triton_text import triton_source
from weft.backends.cuda.triton_values import LaneValues
from weft.backends.host_memory import HostMemory
from weft.backends.protocol import BoundProgram, Memory
from weft.loops import For, Grid, Lanes, Owners, Product, Program, Simt, Staged, Stmt, buffers_of, check, parse, show
from weft.loops.interp import run
from weft.loops.product_legality import shared_in_blocks, unfit
from weft.loops.walk import everything, free, parts, scoped, top_down
from weft.ops import OPS
from weft.schedule.nodes import Kernel, as_program


class _Array:
    """As much of a tensor as the interpreter looks at, without copying."""

    def __init__(self, array: np.ndarray[Any, Any]) -> None:
        self.array, self.dtype, self.shape = array, array.dtype, array.shape

    def data_ptr(self) -> int:
        return int(self.array.ctypes.data)

    def stride(self) -> list[int]:
        return [one // self.array.itemsize for one in self.array.strides]

    def size(self) -> tuple[int, ...]:
        return self.shape

    def storage_offset(self) -> int:
        return 0

    def untyped_storage(self) -> _Array:
        return self

    cpu = untyped_storage

    def new_empty(self, *_: Any, **__: Any) -> _Array:
        return self

    def set_(self, *_: Any) -> _Array:
        return self

    def copy_(self, other: object) -> None:
        pass


def _described(one: BlockMap, array: np.ndarray[Any, Any]) -> Any:
    """A tensor map, as the interpreter takes it."""
    from triton.tools.tensor_descriptor import TensorDescriptor

    return TensorDescriptor(_Array(array), list(one.shape), [one.shape[1], 1], list(one.block))


def _library() -> SimpleNamespace:
    """Functions of libdevice, as the table of operations means them."""
    import triton.language as tl
    from triton.runtime.interpreter import TensorHandle

    def lifted(meaning: Callable[..., Any]) -> Callable[..., Any]:
        def function(*args: Any) -> Any:
            first = next(one for one in args if isinstance(one, tl.core.tensor))
            numbers = [one.handle.data if isinstance(one, tl.core.tensor) else one for one in args]
            with np.errstate(all="ignore"):
                found = np.asarray(meaning(*numbers)).astype(first.handle.data.dtype)
            kind = first.type if found.shape == first.handle.data.shape else tl.block_type(first.dtype, found.shape)
            return tl.core.tensor(TensorHandle(found, first.handle.dtype), kind)

        return function

    called = {name: lifted(op.meaning) for name, op in OPS.items()}
    return SimpleNamespace(**called, rcp_rn=called["recip"])


#: The interpreter keeps what a launch is at in variables of its module.
_ONE_AT_A_TIME = Lock()
#: Numbers of bfloat16 that products in thirds multiply: they are the same in single precision, which is interpreted.
_THIRD, _SPLIT = ", tl.bfloat16)", "bitcast=True) & -65536"


def _interpreted_text(source: Source) -> str:
    return source.text.replace(_THIRD, ", tl.float32)") if _SPLIT in source.text else source.text


def _function(source: Source) -> Any:
    text = _interpreted_text(source)
    name = f"<interpreted {hash(text)}>"
    linecache.cache[name] = len(text), None, text.splitlines(True), name
    module: dict[str, Any] = {"__name__": name}
    exec(compile(text, name, "exec"), module)
    module["libdevice"] = _library()
    module["range"] = _range  # NumPy makes no whole number of an array with one
    return module[source.entry]


def _range(*limits: Any) -> range:
    return range(*(one if isinstance(one, int) else int(one.handle.data.item()) for one in limits))


def is_triton(kernel: Kernel) -> bool:
    """Does a kernel run on a grid, or in blocks?"""
    first = kernel.body[0]
    return shared_in_blocks(kernel.body) is not None or (
        isinstance(first, For) and any(isinstance(one, Grid | Owners) for one in first.how)
    )


def given_in(kernel: Kernel) -> tuple[str, ...]:
    names: dict[str, None] = {}
    for stmt, scope in scoped(kernel.body):
        bound = dict(scope.loops)
        names |= {name: None for part in parts(stmt) for name in free(part) if name not in bound}
    return tuple(names)


def source_of(kernel: Kernel, name: str = "kernel") -> Source:
    return triton_source(name, kernel.body, buffers_of(Program(kernel.body)), given_in(kernel))


@dataclass(frozen=True, slots=True)
class _Bound:
    kernels: Sequence[Kernel]

    @property
    def source(self) -> str:
        return "\n".join(source_of(one).text if is_triton(one) else show(as_program([one])) for one in self.kernels)

    def bind(self, memory: Memory) -> BoundProgram:
        steps = [self._step(one, memory) for one in self.kernels]

        def call(given: Mapping[str, int]) -> None:
            for step in steps:
                step(given)

        return call

    def _step(self, kernel: Kernel, memory: Memory) -> Callable[[Mapping[str, int]], None]:
        if not is_triton(kernel):
            return lambda given: run(as_program([kernel]), memory, given)
        source, names = source_of(kernel), given_in(kernel)
        if "bfloat16" in source.dtypes or "tl.bfloat16" in _interpreted_text(source):
            return lambda given: run(as_program([kernel]), memory, given)
        function = _function(source)
        arrays = [memory[one] for one in buffers_of(Program(kernel.body))]
        arrays = [one.view(np.int8) if one.dtype == bool else one for one in arrays]
        names_of = [*(one.name for one in buffers_of(Program(kernel.body))), "given"]

        def step(given: Mapping[str, int]) -> None:
            indices = [np.array([given[one] for one in names], np.int64)] if names else []
            maps = [_described(one, arrays[one.buffer]) for one in source.maps]
            named = dict(zip(names_of, [*arrays, *indices], strict=False))
            with _ONE_AT_A_TIME, watched(named, source.text):
                function[(source.programs,)](*map(_Array, [*arrays, *indices]), *maps)

        return step


@dataclass(frozen=True, slots=True)
class InterpretedTriton(HostMemory):
    """Runs kernels in Triton's interpreter."""

    name: str = "triton"
    fuses: bool = True

    @property
    def places(self) -> frozenset[type]:
        return frozenset({Product, Grid, Lanes, Simt})

    def compile(self, kernels: Sequence[Kernel]) -> _Bound:
        return _Bound(tuple(kernels))


def check_generators() -> None:
    """Draws of generators of random programs, each checked against the oracle."""
    import generators
    from weft import backends

    backends._BACKENDS["cc"] = InterpretedTriton
    for number, name in enumerate(("nests", "windows", "special", "values", "subscripts", "scatters", "shapes")):
        for at in range(6):
            generators.attempt(import_module(f"generators.{name}").check, 17 + number, at)


def _has_owners(tensor: wf.Tensor) -> bool:
    routine = wf.Context(OnGrid()).compile(tensor.forward, keep=[tensor])
    return "by owners" in routine.show("kernels")


def check_programs() -> None:
    """Products, sums, softmax and the like, of sizes that blocks divide and that they do not."""
    random = np.random.default_rng(5)

    def values(*shape: int, batch: int | None = 1) -> wf.Tensor:
        return wf.data(random.normal(size=shape).astype(np.float32), **({} if batch is None else {"batch": batch}))

    h = values(20, 37)
    infinite = random.normal(size=(5, 3, 3, 32)).astype(np.float32)
    infinite[2, 0, 1, 3], infinite[3, 2, 2, 5] = np.inf, np.nan  # at the border they have no terms
    kernel = values(5, 3, 3, 32, batch=None)
    programs = {
        "softmax": wf.nn.softmax()(h),
        "layer norm": wf.nn.layer_norm()(h),
        "transpose": wf.einsum("i|j => j|i", h) + 1.0,
        "all": wf.einsum("i|j => 0", values(700, 65)),
        "columns": wf.einsum("i|j => j", values(700, 65)),
        "largest": wf.einsum("i|j => j", h, accum="max"),
        "rows": wf.einsum("i|j => i", values(3, 9000)),
        "running": wf.cumsum(h),
        "product": wf.gelu(wf.einsum("i,k;k,j=>i,j", values(33, 40, batch=None), values(40, 17, batch=None))),
        "long product": wf.einsum("i,k;k,j=>i,j", values(20, 2000, batch=None), values(2000, 17, batch=None)),
        "double product": wf.einsum("i,k;k,j=>i,j", *(wf.data(random.normal(size=(40, 40))) for _ in range(2))),
        "batches": wf.einsum("b,i,k;b,k,j=>b,i,j", values(3, 18, 20, batch=None), values(3, 20, 17, batch=None)),
        "windows": wf.einsum("n|y=+p, x=+q, c; f, p, q, c => n|y, x, f", values(2, 6, 5, 32), kernel, p=3, q=3),
    }
    x = wf.param("x", o=[33, 20])
    u, v = values(20, 17, batch=None), values(20, 40, batch=None)
    one, other = wf.einsum("i,k;k,j=>i,j", x, u), wf.einsum("k,j;i,k=>i,j", v, x)
    loss = wf.sum(wf.tanh(one), "...|... => 0") + wf.sum(other * other, "...|... => 0")
    programs["sums that go on"] = wf.grad(loss, x)
    image = values(2, 6, 5, 32)
    spec = "n|y=+p, x=+q, c; f, p, q, c => n|y, x, f"
    programs["windows of what is not finite"] = wf.einsum(spec, image, wf.data(infinite), p=3, q=3)
    for order, accum, length in (("v, d", "+", 300), ("d, v", "max", 70), ("v, d", "*", 40), ("d, v", "+", 1100)):
        ids = wf.data(random.integers(-2, 9, (length, 1)), batch=1)
        spread = wf.einsum(f"...|d; ...|@v => {order}", values(length, 5), ids, v=7, accum=accum, outside="skip")
        programs[f"scatter {order} {accum}"] = spread
        assert _has_owners(spread)
    wf.config.gpu = wf.Gpu(swept_columns=8, swept_single=((16, 16, 2),), bytes_per_s=1e6)
    q, k, v = (wf.data(random.normal(size=(2, 37, 5)).astype(np.float32), batch=2) for _ in range(3))
    for masked in (False, True):
        scores = wf.einsum("h, t | e; h, s | e => h, t | s", q, k)
        weights = wf.softmax(wf.where(wf.nn.causal_mask(37), scores, -1e9) if masked else scores)
        programs[f"attention, masked: {masked}"] = wf.einsum("h, t | s; h, s | e => h, t | e", weights, v)
    for name, tensor in programs.items():
        ours, meant = (wf.Context(one) for one in (InterpretedTriton(), "interp"))
        np.testing.assert_allclose(ours[tensor], meant[tensor], rtol=2e-5, atol=2e-4, err_msg=name)


def check_error_function() -> None:
    """As near as the compiled one, though products and sums are rounded each here; what is no number stays none."""
    sizes = 10.0 ** np.linspace(-44, 38, 2000)
    x = np.concatenate([np.linspace(-5, 5, 20001), sizes, -sizes, [0.0, -0.0, np.inf, -np.inf, np.nan]])
    x = x.astype(np.float32)
    found, wanted = (wf.Context(one)[wf.erf(wf.data(x))] for one in (InterpretedTriton(), "interp"))
    np.testing.assert_array_equal(np.isnan(found), np.isnan(x))
    np.testing.assert_array_equal(np.signbit(found[:-1]), np.signbit(x[:-1]))
    assert np.all(np.abs(found - wanted)[:-1] <= 2 * np.spacing(np.abs(wanted[:-1])))


def check_floats_of_eight_bits() -> None:
    """Products of them, multiplied as float16 and as they are: exact, and so are their sums here."""
    random = np.random.default_rng(8)
    kinds = (ml_dtypes.float8_e4m3fn, ml_dtypes.float8_e5m2)
    for products, said in (("float32", "tl.float16)"), ("tf32", "max_num_imprecise_acc=32")):
        wf.config.gpu = wf.Gpu(float8_blocks=((16, 16, 32, 1, 2),))
        for one, other in ((one, other) for one in kinds for other in kinds):
            a, b = ((random.integers(-16, 17, (33, 64)) / 4).astype(kind) for kind in (one, other))
            y = wf.einsum("i,k;j,k=>i,j", wf.data(a), wf.data(b))
            ctx = wf.Context(InterpretedTriton())
            routine = ctx.compile(y.forward, keep=[y], options=wf.config.options.but(products=products))
            assert said in routine.show("source"), (products, one, other)
            routine()
            np.testing.assert_array_equal(ctx[y], a.astype(np.float32) @ b.astype(np.float32).T)


def check_maps() -> None:
    """Products through tensor maps, of sizes that their blocks do not divide; rounding to tf32 does not show here."""
    random = np.random.default_rng(6)

    def values(*shape: int) -> wf.Tensor:
        return wf.data(random.normal(size=shape).astype(np.float32))

    wf.config.gpu = wf.Gpu(tf32_blocks=((64, 16, 16, 4, 2),), copied_points=1 << 12)
    wf.config.products = "tf32"
    programs = {
        "rows and columns": wf.einsum("i,k;k,j=>i,j", values(66, 32), values(32, 17)),
        "sums of two loops": wf.einsum("i,k,l;k,l,j=>i,j", values(66, 2, 8), values(2, 8, 20)),
        "rows of two loops": wf.einsum("b,i,k;j,k=>b,i,j", values(3, 30, 16), values(17, 16)),
        "batches": wf.einsum("b,i,k;b,j,k=>b,i,j", values(2, 66, 32), values(2, 20, 32)),
        "batches inside": wf.einsum("i,b,k;j,b,k=>b,i,j", values(66, 2, 16), values(20, 2, 16)),
    }
    for name, tensor in programs.items():
        ours, meant = (wf.Context(one) for one in (InterpretedTriton(), "interp"))
        assert "map1.load" in ours.compile(tensor.forward, keep=[tensor]).show("source"), name
        np.testing.assert_allclose(ours[tensor], meant[tensor], rtol=2e-5, atol=2e-4, err_msg=name)


class _InParts(InterpretedTriton):
    """Finishes every product in four parts of its columns."""

    def compile(self, kernels: Sequence[Kernel]) -> _Bound:
        def rule(stmt: Stmt) -> Sequence[Stmt] | None:
            if isinstance(stmt, Staged) and stmt.what.blocks is not None:
                return (replace(stmt, what=replace(stmt.what, blocks=replace(stmt.what.blocks, parts=4))),)
            return None

        parted = [one.with_body(top_down(one.body, rule)) for one in kernels]
        assert not [
            one for kernel in parted for one in everything(kernel.body) if isinstance(one, Staged) and unfit(one)
        ]
        return _Bound(tuple(parted))


def check_parts_and_thirds() -> None:
    """Products whose columns are finished in parts, or whose factors are sums of three, infinite ones among them."""
    random = np.random.default_rng(7)
    wf.config.products = "float32"

    def values(*shape: int) -> wf.Tensor:
        return wf.data((random.normal(size=shape) * 10.0 ** random.integers(-9, 9, shape)).astype(np.float32))

    shape, parted, thirds = (16, 64, 16, 1, 2), _InParts(), InterpretedTriton()
    infinite = random.normal(size=(33, 40)).astype(np.float32)
    infinite[3, 5], infinite[20, 7], infinite[30, 2] = np.inf, np.nan, 3e38
    largest, ones = np.zeros((33, 40), np.float32), np.full((40, 70), 1 + 0.52 / 128, np.float32)
    largest[3, 5], largest[20, 7] = 2.0**127 * 254.6 / 128, 3.4e38
    product = wf.einsum("i,k;k,j=>i,j", values(33, 40), values(40, 70))
    batches = wf.einsum("b,i,k;b,k,j=>b,j,i", values(2, 70, 18), values(2, 18, 20))
    programs = {
        "a part after another": (parted, wf.relu(product + values(70)) * values(33, 70) + values(33, 1)),
        "parts of batches": (parted, batches + values(20, 70)),
        "thirds": (thirds, product + values(70)),
        "thirds of what is not finite": (thirds, wf.einsum("i,k;k,j=>i,j", wf.data(infinite), values(40, 70))),
        "thirds of the largest": (thirds, wf.einsum("i,k;k,j=>i,j", wf.data(largest), wf.data(ones))),
    }
    for name, (backend, tensor) in programs.items():
        blocks = {"thread_cells": ((1 << 20, 128),), "single_blocks": (shape,), "third_blocks": (shape,)}
        quicker = {"thirds": backend is thirds, "third_times": 1.0, "third_step_ns": 1.0, "third_multiply_ns": 1e-3}
        wf.config.gpu = wf.Gpu(**blocks, **quicker)  # type: ignore[arg-type]
        ours, meant = (wf.Context(one) for one in (backend, "interp"))
        text = ours.compile(tensor.forward, keep=[tensor]).show("source")
        assert ("tl.split(" in text, _SPLIT in text) == (backend is parted, backend is thirds), name
        wanted = meant[tensor]
        size = np.max(np.abs(wanted[np.isfinite(wanted)]))
        np.testing.assert_allclose(ours[tensor], wanted, rtol=2e-5, atol=1e-6 * size, err_msg=name)


FOLDED = """
a: float32[{height}, 20]
b: float32[20, {width}]
z: float32[{height}, {width}]
s: float32[{cells}]
product of left {left}; right {right}; sums k in blocks of 32 rows by 32 columns by 32 sums, {how}:
{loops}
                t: float32 = 0
                for k in range(20):
                    t = t + (a[{row}, k] * b[k, {column}])
                z[{row}, {column}] = t
                if 0 <= -r < 1:
                    s[{cell}] = {start}
                s[{cell}] {op} t
"""
_ROWS = {"left": "p, r", "right": "j", "row": "16*p + r", "column": "j", "height": 80, "width": 40}
_COLUMNS = {"left": "j", "right": "p, r", "row": "j", "column": "16*p + r", "height": 40, "width": 80}


def check_folded_sums() -> None:
    """Sums of a product's rows or columns, several in a block, and fewer than a block's in the last."""
    random, sizes = np.random.default_rng(8), {"p": 5, "r": 16, "j": 40}
    ways = [
        {**sides, "op": op, "start": start, "how": f"4 warps, 2 stages, groups of 8{parts}"}
        for sides in ({**_ROWS, "cells": "5, 40", "cell": "p, j"}, {**_COLUMNS, "cells": "40, 5", "cell": "j, p"})
        for op, start in (("+=", "0.0"), ("max=", "-inf"))
        for parts in ("", ", 2 parts")
    ]
    for way in ways:
        names = f"{way['left']}, {way['right']}".split(", ")
        loops = "\n".join(f"{'    ' * at}for {name} in range({sizes[name]}):" for at, name in enumerate(names, 1))
        text = FOLDED.lstrip().format(**way, loops=loops)
        program = check(parse(text))
        arrays = {one: random.normal(size=one.shape).astype(np.float32) for one in buffers_of(program)}
        meant = {one: array.copy() for one, array in arrays.items()}
        run(program, meant)
        source = source_of(Kernel((), program.body))
        _function(source)[(source.programs,)](*map(_Array, arrays.values()))
        for one, array in meant.items():
            np.testing.assert_allclose(arrays[one], array, rtol=2e-5, atol=2e-4, err_msg=text)


REPEATED = """
a: float32[2, 3, 40, 10]
b: float32[2, 3, 10, 50]
w: float32[3, 40, 50]
y: float32[2, 3, 40, 50]
g: float32[2, 40, 50]
m: float32[40, 50]
{around}
        product of left i; right j; sums k {blocks}{parts}:
            for i in range(40):
                for j in range(50):
                    t: float32 = 0.0
                    for k in range(10):
                        t = t + (a[p, h, i, k] * b[p, h, k, j])
                    {does}
"""


def check_repeated() -> None:
    """Products of which each program runs loops around them, and holds what adds up over these."""
    random, parts = np.random.default_rng(9), ("", ", 2 parts", ", as thirds")
    sums = (
        "g[p, i, j] += t",
        "g[p, i, j] += tanh(t) * w[h, i, j]",
        "g[p, i, j] max= t",
        "g[p, i, j] += g[p, i, j] * t",
    )
    more = ("y[p, h, i, j] = t", "u: float32 = exp(t)", "if 0 <= j - h < 9:", "    y[p, 0, i, j] += u")
    both = "\n                    ".join([*more, "g[p, i, j] += u"])
    shared = "for p in range(2) on a grid by 1 with 4 warps:\n    for h in range(3):"
    alone = "for p in range(2):\n    for h in range(3):"
    ways = [(shared, does, part) for does in (*sums, both) for part in parts]
    for outside, does, part in [
        *ways,
        (alone, "m[i, j] += t * t", ""),
        (alone, f"{sums[1]}\n{' ' * 20}m[i, j] += t", ""),
    ]:
        program = check(parse(REPEATED.lstrip().format(around=outside, does=does, blocks=BLOCKS, parts=part)))
        arrays = {one: random.normal(size=one.shape).astype(np.float32) for one in buffers_of(program)}
        meant = {one: array.copy() for one, array in arrays.items()}
        run(program, meant)
        assert not race(program.body)
        bound = InterpretedTriton().compile([Kernel((), program.body)])
        assert ("held" in bound.source) == (part != ", 2 parts" and does != sums[3])
        bound.bind(arrays)({})
        for one, array in meant.items():
            np.testing.assert_allclose(arrays[one], array, rtol=2e-5, atol=2e-3, err_msg=f"{one.name} {show(program)}")


BLOCKS = "in blocks of 32 rows by 32 columns by 32 sums, 4 warps, 2 stages, groups of 8"
#: Launches that are wrong on a GPU if no lane waits, which the interpreter would not notice; and what is said of them.
WRONG = {
    "is stored by one program and touched by another": (
        """
        x: float32[80]
        y: float32[80]
        for i in range(64) on a grid by 16 with 1 warp:
            y[i] = x[i] + y[i + 16]
        """,
        """
        a: float32[4, 64, 32]
        b: float32[4, 32, 48]
        g: float32[64, 48]
        for h in range(4) on a grid by 1 with 4 warps:
            product of left i; right j; sums k {BLOCKS}:
                for i in range(64):
                    for j in range(48):
                        t: float32 = 0.0
                        for k in range(32):
                            t = t + (a[h, i, k] * b[h, k, j])
                        g[i, j] += t
        """,
    ),
    "is stored by several lanes": (
        """
        x: float32[64]
        y: float32[8]
        for i in range(64) on a grid by 16 with 1 warp:
            y[0] = x[i]
        """,
    ),
    "is stored by one lane and touched by another, and neither waits": (
        """
        x: float32[24]
        y: float32[24]
        for i in range(16) on a grid by 16 with 1 warp:
            y[i] = y[i + 8] * 2.0
        """,
    ),
    "lies outside of all buffers": (
        """
        x: float32[64]
        y: float32[64]
        for i in range(64) on a grid by 16 with 1 warp:
            y[i] = x[i + 1]
        """,
    ),
}


def check_watched() -> None:
    """What a GPU would do wrong is found, though programs and lanes run one after another here."""
    for what, text in ((what, text) for what, texts in WRONG.items() for text in texts):
        with patch.object(LaneValues, "barrier", lambda _: None):
            program = parse(dedent(text).lstrip().replace("{BLOCKS}", BLOCKS))
            arrays = {one: np.ones(one.shape, np.float32) for one in buffers_of(program)}
            arrays |= {one: np.arange(one.shape[0], dtype=np.float32) for one in arrays if one.name == "x"}
            call = InterpretedTriton().compile([Kernel((), program.body)]).bind(arrays)
        found = "nothing is wrong"
        try:
            call({})
        except Exception as error:  # the interpreter's, with ours in it
            found = str(error)
        assert what in found, f"{found} in {text}"


if __name__ == "__main__":
    checks: dict[str, Sequence[Callable[[], None]]]
    checks = {
        "generators": [check_generators],
        "programs": [
            check_watched,
            check_repeated,
            check_error_function,
            check_floats_of_eight_bits,
            check_programs,
            check_maps,
            check_parts_and_thirds,
            check_folded_sums,
        ],
    }
    for one in checks[sys.argv[1]]:
        one()
