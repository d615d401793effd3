"""weft on a GPU, against PyTorch, torch.compile and jax.jit on the same one.

    python bench/gpu.py                      the whole table, some minutes
    python bench/gpu.py --only softmax       works whose names contain that
    python bench/gpu.py --without jax.jit    fewer contestants
    python bench/gpu.py --json out/gpu.json  the figures, to keep

Each contestant runs a work many times without waiting in between, then waits for all: microseconds for one, the median
of rounds that take turns. Answers are compared before times count. The last column is what weft should need at most on
an H200; the status is 1 if it needs more. Steps of models also tell their memory: what the contestant's own allocator
held at most, without what a process takes of a GPU once. Where there is no GPU, that is said, and nothing else. Works
are in float32, without tf32, unless they say otherwise.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from time import perf_counter
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table

os.environ.setdefault("XLA_PYTHON_CLIENT_PREALLOCATE", "false")

Array = np.ndarray
CONTESTANTS = ("weft", "torch", "torch.compile", "jax.jit")
#: How long a round of one contestant is, in seconds, and how many there are.
ROUND_S, ROUNDS = 0.03, 9


@dataclass(frozen=True, slots=True)
class Work:
    """What is computed, by each contestant's own words, from arrays; and how far answers may differ."""

    wanted_us: float
    inputs: Callable[[], dict[str, Array]]
    weft: Callable[..., Any]
    torch: Callable[..., Any]
    jax: Callable[..., Any]
    batch: Mapping[str, int] = field(default_factory=dict)
    tf32: bool = False
    tolerance: float = 1e-4


@dataclass(frozen=True, slots=True)
class Step:
    """A step of training a model of `_models`."""

    wanted_us: float
    model: str
    problem: Callable[[], Any]
    products: str = "float32"
    tolerance: float = 1e-3


@dataclass(frozen=True, slots=True)
class Ready:
    """Something to run again and again, how to wait for it, what it finds, and how many bytes it has held at most."""

    run: Callable[[], Any]
    wait: Callable[[], None]
    answer: Callable[[], Array]
    peak: Callable[[], int] | None = None


# The works


def numbers(*shape: int, seed: int = 0) -> Array:
    return np.random.default_rng(seed).standard_normal(shape, np.float32)


def narrow(*shape: int, seed: int = 0) -> Array:
    from ml_dtypes import bfloat16

    return numbers(*shape, seed=seed).astype(bfloat16)


def product(size: int, wanted: float, draw: Callable[..., Array] = numbers, tf32: bool = False) -> Work:
    return Work(
        wanted,
        lambda: {"a": draw(size, size), "b": draw(size, size, seed=1)},
        lambda wf, a, b: wf.einsum("i, k; k, j => i, j", a, b),
        lambda torch, a, b: a @ b,
        lambda jax, a, b: a @ b,
        tf32=tf32,
        tolerance=3e-2 if draw is narrow else 2e-3 if tf32 else 1e-4,
    )


def layer(size: int, wanted: float) -> Work:
    def weft(wf: Any, a: Any, b: Any, c: Any) -> Any:
        return wf.gelu(wf.einsum("i, k; k, j => i, j", a, b) + c)

    return Work(
        wanted,
        lambda: {"a": narrow(size, size), "b": narrow(size, size, seed=1), "c": narrow(size, seed=2)},
        weft,
        lambda torch, a, b, c: torch.nn.functional.gelu(a @ b + c),
        lambda jax, a, b, c: jax.nn.gelu(a @ b + c, approximate=False),
        tolerance=3e-2,
    )


def rows(wanted: float, weft: Callable[..., Any], torch: Callable[..., Any], jax: Callable[..., Any]) -> Work:
    return Work(wanted, lambda: {"x": numbers(8192, 4096)}, weft, torch, jax)


def attention(batch: int, heads: int, length: int, width: int, wanted: float) -> Work:
    shape = (batch, heads, length, width)

    def weft(wf: Any, q: Any, k: Any, v: Any) -> Any:
        scores = wf.einsum("b, h, t | e; b, h, s | e => b, h, t | s", q, k) * width**-0.5
        weights = wf.softmax(wf.where(wf.nn.causal_mask(length), scores, -1e9))
        return wf.einsum("b, h, t | s; b, h, s | e => b, h, t | e", weights, v)

    def jax(jax: Any, q: Any, k: Any, v: Any) -> Any:
        moved = [one.transpose(0, 2, 1, 3) for one in (q, k, v)]
        return jax.nn.dot_product_attention(*moved, is_causal=True).transpose(0, 2, 1, 3)

    return Work(
        wanted,
        lambda: {name: narrow(*shape, seed=at) for at, name in enumerate("qkv")},
        weft,
        lambda torch, q, k, v: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True),
        jax,
        batch=dict.fromkeys("qkv", 3),
        tolerance=3e-2,
    )


def convolution(wanted: float) -> Work:
    spec = "...|y=+p, x=+q, c; f, p, q, c => ...|y, x, f"

    def torch(torch: Any, x: Any, k: Any) -> Any:
        found = torch.nn.functional.conv2d(x.permute(0, 3, 1, 2), k.permute(0, 3, 1, 2), padding=1)
        return found.permute(0, 2, 3, 1)

    def jax(jax: Any, x: Any, k: Any) -> Any:
        return jax.lax.conv_general_dilated(x, k, (1, 1), "SAME", dimension_numbers=("NHWC", "OHWI", "NHWC"))

    return Work(
        wanted,
        lambda: {"x": numbers(64, 56, 56, 64), "k": numbers(64, 3, 3, 64, seed=1)},
        lambda wf, x, k: wf.einsum(spec, x, k),
        torch,
        jax,
        batch={"x": 1},
        tf32=True,
        tolerance=2e-3,
    )


def steps() -> Iterator[tuple[str, Step]]:
    import _models

    def perceptron(batch: int, *widths: int) -> Callable[[], Any]:
        return lambda: _models.mlp(_models.Perceptron(widths, batch))

    def transformer(layers: int, width: int, heads: int, batch: int, length: int, words: int) -> Callable[[], Any]:
        return lambda: _models.gpt(_models.Transformer(layers, width, heads, batch, length, words), adam=True)

    yield "MLP step tiny", Step(15, "mlp", perceptron(8, 16, 32, 4))
    yield "MLP step 784-256-128-10", Step(35, "mlp", perceptron(64, 784, 256, 128, 10))
    yield "MLP step wide", Step(170, "mlp", perceptron(256, 1024, 2048, 2048, 1024))
    yield "GPT step d=128", Step(600, "gpt", transformer(4, 128, 4, 8, 64, 256))
    yield "GPT-2 124M step bf16", Step(22000, "gpt", transformer(12, 768, 12, 8, 1024, 50304), "bfloat16", 2e-2)


def works() -> dict[str, Work | Step]:
    return {
        "product 4096 bf16": product(4096, 195, narrow),
        "product 1024 bf16": product(1024, 14, narrow),
        "product 4096 tf32": product(4096, 400, tf32=True),
        "product 4096 f32": product(4096, 3000),
        "product 4096 bf16, bias, GELU": layer(4096, 215),
        "softmax 8192x4096": rows(
            70, lambda wf, x: wf.softmax(x, "ij => i"), lambda torch, x: x.softmax(1), lambda jax, x: jax.nn.softmax(x)
        ),
        "layer norm 8192x4096": rows(
            66,
            lambda wf, x: wf.nn.layer_norm(spec="ij => i")(x),
            lambda torch, x: torch.nn.functional.layer_norm(x, (4096,)),
            lambda jax, x: jax.nn.standardize(x, epsilon=1e-5),
        ),
        "chain with tanh 8192x4096": rows(
            67,
            lambda wf, x: wf.tanh(x * 1.5 + 0.5) * x - 0.25,
            lambda torch, x: torch.tanh(x * 1.5 + 0.5) * x - 0.25,
            lambda jax, x: jax.numpy.tanh(x * 1.5 + 0.5) * x - 0.25,
        ),
        "sum of rows 8192x4096": rows(
            38, lambda wf, x: wf.einsum("i, j => i", x), lambda torch, x: x.sum(1), lambda jax, x: x.sum(1)
        ),
        "sum of columns 8192x4096": rows(
            42, lambda wf, x: wf.einsum("i, j => j", x), lambda torch, x: x.sum(0), lambda jax, x: x.sum(0)
        ),
        "transpose 8192x4096": rows(
            70, lambda wf, x: wf.einsum("i, j => j, i", x), lambda torch, x: x.t().contiguous(), lambda jax, x: x.T
        ),
        "convolution 64x64x56x56 tf32": convolution(200),
        "causal attention 8x12x1024x64 bf16": attention(8, 12, 1024, 64, 70),
        **dict(steps()),
    }


# The contestants


def by_weft(work: Work | Step) -> Ready:
    import weft as wf

    if isinstance(work, Step):
        from _models import of_weft

        gc.collect()  # what the work before held goes now, not while this one is measured
        ctx = wf.Context("cuda")
        before = _held(ctx)
        made = of_weft.ready(work.model, work.problem(), ctx=ctx, products=work.products)
        return Ready(made.step, ctx.synchronize, lambda: np.array(made.loss()), lambda: _held(ctx) - before)
    arrays = work.inputs()
    tensors = {name: wf.data(one, batch=work.batch.get(name, 0), label=name) for name, one in arrays.items()}
    found, ctx = work.weft(wf, **tensors), wf.Context("cuda")
    options = wf.CompileOptions(products="tf32" if work.tf32 else "float32")
    routine = ctx.compile(wf.seq(), keep=[found], options=options)
    return Ready(routine, ctx.synchronize, lambda: np.asarray(ctx[found], np.float32))


def _held(ctx: Any) -> int:
    """The bytes of a GPU that weft holds: tensors, arenas and constants, the same from the first run to the last."""
    return ctx.memory().devices[0].device.held


def by_torch(work: Work | Step, compiled: bool = False) -> Ready:
    import torch

    wait = torch.cuda.synchronize
    if isinstance(work, Step):
        from _models import of_torch

        before = torch.cuda.memory_allocated()
        made = of_torch.ready(work.model, work.problem(), compiled=compiled, device="cuda", products=work.products)
        lasting = torch.cuda.memory_allocated() - before

        def peak() -> int:
            start = torch.cuda.memory_allocated()
            torch.cuda.reset_peak_memory_stats()
            made.step()
            return lasting + torch.cuda.max_memory_allocated() - start

        return Ready(made.step, wait, lambda: np.array(made.loss()), peak)
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = work.tf32
    tensors = {name: _torch_array(torch, one) for name, one in work.inputs().items()}
    torch._dynamo.reset()
    words = torch.compile(lambda **given: work.torch(torch, **given)) if compiled else work.torch

    @torch.no_grad()
    def run() -> Any:
        return words(**tensors) if compiled else words(torch, **tensors)

    return Ready(run, wait, lambda: run().float().cpu().numpy())


def _torch_array(torch: Any, array: Array) -> Any:
    if array.dtype.name == "bfloat16":
        return torch.from_numpy(array.view(np.int16)).cuda().view(torch.bfloat16)
    return torch.from_numpy(array).cuda()


def by_jax(work: Work | Step) -> Ready | None:
    import jax

    if isinstance(work, Step):
        if work.products != "float32":
            return None
        from _models import of_jax

        made = of_jax.ready(work.model, work.problem())
        return Ready(made.step, lambda: made.loss() and None, lambda: np.array(made.loss()))
    arrays = {name: jax.numpy.asarray(one) for name, one in work.inputs().items()}
    last: list[Any] = []
    with jax.default_matmul_precision("tensorfloat32" if work.tf32 else "highest"):
        words = jax.jit(lambda **given: work.jax(jax, **given))
        words(**arrays)

    def run() -> None:
        last[:] = [words(**arrays)]

    return Ready(run, lambda: jax.block_until_ready(last) and None, lambda: np.asarray(words(**arrays), np.float32))


MAKERS: dict[str, Callable[[Any], Ready | None]] = {
    "weft": by_weft,
    "torch": by_torch,
    "torch.compile": lambda work: by_torch(work, compiled=True),
    "jax.jit": by_jax,
}


# Measuring


def measure(name: str, work: Work | Step, contestants: list[str]) -> dict[str, float | int | str]:
    """Microseconds of each contestant, or what went wrong with it; and the bytes of those that tell."""
    ready, found = dict[str, Ready](), dict[str, float | int | str]()
    for one in contestants:
        try:
            if (made := MAKERS[one](work)) is not None:
                ready[one] = made
        except Exception as error:
            found[one] = f"{type(error).__name__}: {str(error).splitlines()[0][:200]}"
    answers = {one: made.answer() for one, made in ready.items()}
    if "weft" in ready and (peers := [one for one in ("torch", "jax.jit") if one in answers]):
        off = _difference(answers["weft"], answers[peers[0]])
        if not off <= work.tolerance:
            found["weft"] = f"differs from {peers[0]} by {off:.2g}"
            del ready["weft"]
    counts = {one: max(1, int(ROUND_S / _seconds(made, 3))) for one, made in ready.items()}
    rounds: dict[str, list[float]] = {one: [] for one in ready}
    for _ in range(ROUNDS):
        for one, made in ready.items():
            rounds[one].append(_seconds(made, counts[one]))
    held = {f"{one}, bytes": made.peak() for one, made in ready.items() if made.peak is not None}
    return {**found, **{one: 1e6 * median(times) for one, times in rounds.items()}, **held}


def _difference(one: Array, other: Array) -> float:
    """How far two answers are apart, against their size; anything not a number is far."""
    size = float(np.linalg.norm(other.astype(np.float64)))
    return float(np.linalg.norm(one.astype(np.float64) - other)) / max(size, 1e-30)


def _seconds(made: Ready, count: int) -> float:
    """What one run takes, of so many that are waited for together."""
    made.run()
    made.wait()
    start = perf_counter()
    for _ in range(count):
        made.run()
    made.wait()
    return (perf_counter() - start) / count


def no_gpu() -> str:
    """Why there is no GPU to measure; nothing if there is one."""
    import weft as wf

    try:
        wf.Context("cuda").close()
    except wf.WeftError as error:
        return error.what
    return ""


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--only", default="", help="works whose names contain this")
    parser.add_argument("--without", action="append", default=[], choices=CONTESTANTS)
    parser.add_argument("--json", type=Path)
    given = parser.parse_args()
    if problem := no_gpu():
        print(f"nothing is measured: {problem}")
        return 0
    names = [one for one in CONTESTANTS if one not in given.without]
    console, table = Console(width=200), Table("work", *names, "at most", "")
    late, kept = [], dict[str, Any]()
    for name, work in works().items():
        if given.only not in name:
            continue
        found = measure(name, work, names)
        kept[name] = found
        weft = found.get("weft")
        good = isinstance(weft, float) and weft <= work.wanted_us
        late += [] if good else [name]
        cells = [f"{one:.1f}" if isinstance(one := found.get(who, ""), float) else str(one) for who in names]
        table.add_row(name, *cells, f"{work.wanted_us:.0f}", "" if good else "slower")
        told = [f"{who} {cell}" for who, cell in zip(names, cells, strict=True)]
        for who in names:
            if isinstance(held := found.get(f"{who}, bytes"), int):
                told.append(f"{who} {held / 2**30:.2f} GiB")
        console.print(f"{name}: " + ", ".join(told))
    console.print(table)
    if given.json:
        given.json.parent.mkdir(parents=True, exist_ok=True)
        given.json.write_text(json.dumps(kept, indent=1))
    return bool(late)


if __name__ == "__main__":
    sys.exit(main())
