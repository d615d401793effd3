"""Canonical kernels: names do not matter, all else does."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Mapping
from dataclasses import fields, is_dataclass, replace
from pathlib import Path
from random import Random
from typing import Any

import numpy as np
from hypothesis import given, settings, strategies as st

import weft as wf
from effort import tries
from loops.programs import Sample as LoopSample, samples
from schedule.kernels import Sample, at, buffers_in, floats, inside, loop, model_samples, plus, read, scheduled, store
from weft.affine import Affine
from weft.loops import (  # fmt: skip
    Buffer,
    Cast,
    Fill,
    For,
    If,
    Let,
    Local,
    Program,
    Remark,
    Set,
    Stmt,
    Update,
    buffers_of,
    check,
    show,
)
from weft.loops.interp import run, run_scalar
from weft.ops import Num
from weft.schedule import Kernel
from weft.schedule.canonical import canonical_kernel, digest

X, Y, W = floats(11, "x", 3, 4), floats(12, "y", 3, 4), floats(13, "w", 4)
T = Local("t", "float32")


def kernel(*body: Stmt) -> Kernel:
    return Kernel(("remark",), body, "why")


USE = loop("col", 4, store(Y, at("row", "col"), plus(read(X, "row", "col"), T)))
SUM = kernel(Remark("y =: x + w", (loop("row", 3, Let(T, read(W, "s")), USE),)))


def test_names_are_systematic() -> None:
    found, buffers, static = canonical_kernel(SUM)
    assert show(Program(found.body)) == (
        "for i0 in range(3):\n    n0: float32 = x0[s0]\n    for i1 in range(4):\n        x1[i0, i1] = x2[i0, i1] + n0"
    )
    assert (buffers, static) == ((W, Y, X), ("s",))
    assert (found.remarks, found.why) == ((), "")
    assert [one.id for one in buffers_in([found])] == [0, 1, 2]
    assert [(one.shape, one.dtype) for one in buffers_in([found])] == [(one.shape, one.dtype) for one in buffers]


def test_names_used_twice_are_told_apart() -> None:
    twice = kernel(
        loop("i", 3, Let(T, read(X, "i", 0)), store(Y, at("i", 0), T)),
        loop("i", 3, Let(T, read(X, "i", 1)), store(Y, at("i", 1), T)),
    )
    once = kernel(
        loop("i", 3, Let(T, read(X, "i", 0)), store(Y, at("i", 0), T)),
        loop("j", 3, Let(Local("u", "float32"), read(X, "j", 1)), store(Y, at("j", 1), Local("u", "float32"))),
    )
    assert canonical_kernel(twice)[0] == canonical_kernel(once)[0]
    assert "i1" in show(Program(canonical_kernel(twice)[0].body))


def test_a_number_is_known_in_its_block() -> None:
    """Inside, t is another number, computed from the one outside; after the test it is the one outside again."""
    inner = If((inside("s", 3),), (Let(T, plus(T, T)), store(Y, at(0, 0), T)))
    shadowed = kernel(Let(T, read(W, 0)), inner, store(Y, at(1, 1), T))
    assert show(Program(canonical_kernel(shadowed)[0].body)) == (
        "n0: float32 = x0[0]\nif 0 <= s0 < 3:\n    n1: float32 = n0 + n0\n    x1[0, 0] = n1\nx1[1, 1] = n0"
    )
    memory = {one: np.full(one.shape, 3, "float32") for one in (X, Y, W)}
    check_running(shadowed, memory, {"s": 1}, run_scalar)
    assert (memory[Y][0, 0], memory[Y][1, 1]) == (6, 3)


def test_the_order_of_terms_does_not_matter() -> None:
    def window(place: Affine) -> Kernel:
        return kernel(loop("i", 2, loop("k", 2, store(W, (place,), 1.0))))

    assert digest(window(Affine(((1, "i"), (2, "k"))))) == digest(window(Affine(((2, "k"), (1, "i")))))
    assert digest(window(Affine(((1, "i"), (1, "i"))))) == digest(window(Affine(((2, "i"),))))
    assert digest(window(Affine(((1, "i"), (2, "k"))))) != digest(window(Affine(((2, "i"), (1, "k")))))


DIFFERENT: dict[str, Kernel] = {
    "shape": kernel(loop("i", 3, store(floats(1, "y", 4, 4), at("i", 0), 1.0))),
    "type": kernel(loop("i", 3, store(Buffer(1, "y", (3, 4), "float64"), at("i", 0), 1.0))),
    "constant": kernel(loop("i", 3, store(Y, at("i", 0), 2.0))),
    "sign of zero": kernel(loop("i", 3, store(Y, at("i", 0), 0.0))),
    "other sign of zero": kernel(loop("i", 3, store(Y, at("i", 0), -0.0))),
    "size": kernel(loop("i", 2, store(Y, at("i", 0), 1.0))),
    "place": kernel(loop("i", 3, store(Y, at("i", 1), 1.0))),
    "factor": kernel(loop("i", 3, store(Y, at("2-i", 0), 1.0))),
    "test": kernel(loop("i", 3, If((inside("i", 2),), (store(Y, at("i", 0), 1.0),)))),
    "another test": kernel(loop("i", 3, If((inside("i", 1),), (store(Y, at("i", 0), 1.0),)))),
    "two buffers": kernel(loop("i", 3, store(Y, at("i", 0), read(X, "i", 0)))),
    "one buffer": kernel(loop("i", 3, store(Y, at("i", 0), read(Y, "i", 0)))),
    "operation": kernel(loop("i", 3, Update(Y, at("i", 0), "add", read(X, "i", 0)))),
    "another operation": kernel(loop("i", 3, Update(Y, at("i", 0), "max", read(X, "i", 0)))),
    "static": kernel(loop("i", 3, store(Y, at("i", "s"), 1.0))),
    "fill": kernel(Fill(Y, 1)),
    "number": kernel(Let(T, Cast("float32", Num(1))), store(Y, at(0, 0), T)),
    "number that changes": kernel(Let(T, Cast("float32", Num(1))), Set(T, T), store(Y, at(0, 0), T)),
    "type of a number": kernel(
        Let(Local("t", "float64"), Cast("float64", Num(1))), store(Y, at(0, 0), Cast("float32", Local("t", "float64")))
    ),
    "loops inside out": kernel(loop("j", 4, loop("i", 3, store(Y, at("i", "j"), 1.0)))),
    "loops": kernel(loop("i", 3, loop("j", 4, store(Y, at("i", "j"), 1.0)))),
}


def test_what_differs_has_another_digest() -> None:
    digests = {name: digest(one) for name, one in DIFFERENT.items()}
    assert len(set(digests.values())) == len(digests)


def test_layers_of_equal_shape_are_one_kernel() -> None:
    def digests(sizes: list[int], batch: int = 16) -> list[str]:
        h = wf.data(np.ones((batch, sizes[0]), np.float32), batch=1)
        for number, size in enumerate(sizes[1:]):
            h = wf.tanh(wf.param(f"w{number}") @ h + wf.param(f"b{number}", o=size))
        return [digest(one) for one in scheduled(wf.grad_update(wf.einsum("...|... => 0", h))).kernels]

    deep, deeper = digests([32] * 5), digests([32] * 9)
    assert len(deeper) > len(deep)
    assert len(set(deeper)) == len(set(deep))
    assert not set(digests([31] * 5)) & set(deep)
    narrow, longer = digests([8] * 40, 5), digests([8] * 60, 5)  # several layers run as one kernel, but no more
    assert len(longer) > len(narrow)
    assert len(set(longer)) == len(set(narrow)) < 12


def test_a_digest_is_the_same_in_every_process() -> None:
    code = "from schedule.test_schedule_canonical import SUM, digest; print(digest(SUM))"
    tests = Path(__file__).parent.parent
    found = []
    for seed in ("1", "2"):
        path = os.pathsep.join([str(tests), str(tests.parent / "src")])
        env = {**os.environ, "PYTHONHASHSEED": seed, "PYTHONPATH": path}
        done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
        found.append(done.stdout)
    assert found == [digest(SUM) + "\n"] * 2
    assert len(digest(SUM)) == 64


# Renaming


def renamed(node: Any, name: Callable[[str], str], buffer: Callable[[Buffer], Buffer]) -> Any:
    """Anything of a kernel with other names for loops, numbers, static indices and buffers."""
    match node:
        case Buffer():
            return buffer(node)
        case Affine(terms=terms, offset=offset):
            return Affine(tuple((factor, name(one)) for factor, one in terms), offset)
        case Local(name=one, dtype=dtype):
            return Local(name(one), dtype)
        case For(loop=one, size=size, body=body):
            return For(name(one), size, renamed(body, name, buffer))
        case Remark(body=body):
            return Remark("something else", renamed(body, name, buffer))
        case tuple():
            return tuple(renamed(one, name, buffer) for one in node)
    if is_dataclass(node):
        return replace(node, **{one.name: renamed(getattr(node, one.name), name, buffer) for one in fields(node)})
    return node


def names_in(node: Any) -> set[str]:
    found: set[str] = set()
    renamed(node, lambda name: found.add(name) or name, lambda buffer: buffer)
    return found


def check_renaming(kernel: Kernel, seed: int) -> None:
    """The digest stays when names change places, and buffers get other names and numbers."""
    names = sorted(names_in(kernel.body))
    new = sorted({*names, "z", "i0", "n0", "s0"})
    Random(seed).shuffle(new)
    others = dict(zip(names, new, strict=False))

    def buffer(one: Buffer) -> Buffer:
        return replace(one, id=seed - one.id, name=f"b{abs(one.id - seed % 4)}")

    other = Kernel(("another remark",), renamed(kernel.body, others.__getitem__, buffer))
    assert digest(other) == digest(kernel)
    assert canonical_kernel(other)[0] == canonical_kernel(kernel)[0]


def check_running(kernel: Kernel, memory: Mapping[Buffer, np.ndarray], given: Mapping[str, int], walk: Any) -> None:
    """The canonical kernel does to the mapped memory what the kernel does to its own."""
    found, buffers, static = canonical_kernel(kernel)
    copies = {one: array.copy() for one, array in memory.items()}
    mine = buffers_of(Program(found.body))
    assert buffers == buffers_of(Program(kernel.body))
    check(Program(found.body), {f"s{number}": given[name] + 1 for number, name in enumerate(static)})
    walk(Program(kernel.body), memory, given)
    mapped = {one: copies[actual] for one, actual in zip(mine, buffers, strict=True)}
    walk(Program(found.body), mapped, {f"s{number}": given[name] for number, name in enumerate(static)})
    for one in buffers:
        np.testing.assert_array_equal(copies[one], memory[one])


@given(samples(), st.integers(0, 99))
def test_loop_programs_in_other_words(sample: LoopSample, seed: int) -> None:
    kernel = Kernel((), sample.program.body)
    check_renaming(kernel, seed)
    check_running(kernel, sample.memory(), {"s": 2}, run_scalar)


@settings(max_examples=tries(8))
@given(model_samples(), st.integers(0, 99))
def test_models_in_other_words(sample: Sample, seed: int) -> None:
    memory = sample.memory()
    for one in sample.kernels:
        check_renaming(one, seed)
        check_running(one, memory, sample.bound, run)
