"""What compilers get wrong: generated code keeps clear of it, and a compiler that gets known texts wrong is refused."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

import weft as wf
from backends.compilers import real
from weft.backends.cc import build, compiler_bugs, loader


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    return tmp_path / "cc"


def has_the_faults() -> bool:
    """Is this compiler a gcc 12 before 12.4?"""
    found = subprocess.run([*real().command, "-dM", "-E", "-"], input="", capture_output=True, text=True, check=True)
    numbers = {name: re.search(rf"#define __{name}__ (\d+)", found.stdout) for name in ("GNUC", "GNUC_MINOR")}
    whole, minor = (int(one[1]) if one else 0 for one in numbers.values())
    return "__clang__" not in found.stdout and whole == 12 and minor < 4


def fault(folder: Path, flags: list[str], text: str) -> int:
    """The number of the first text that goes wrong under some flags."""
    (folder / "faults.c").write_text(f"{loader._prelude()}{text}int main(void) {{ return (int)weft_fault(); }}\n")
    command = [*real().command, "-w", *flags, str(folder / "faults.c"), "-o", str(folder / "faults"), *build.LIBRARIES]
    subprocess.run(command, check=True)
    return subprocess.run([str(folder / "faults")], check=False).returncode


def test_flags_and_functions_kept_apart_are_what_makes_them_right(tmp_path: Path) -> None:
    flags, text = [one for one in build.FLAGS if one not in ("-shared", "-fPIC")], compiler_bugs.texts()
    assert fault(tmp_path, flags, text) == 0
    if has_the_faults():
        # where floats do not trap, the second fault is not seen in this text
        inventing = [one for one in flags if one not in ("-fno-tree-vectorize", "-fno-trapping-math")]
        assert fault(tmp_path, inventing, text) == 1
        known, others = text.replace("!weft_right_sums() ? 1 : ", ""), "__attribute__((noinline))"
        assert fault(tmp_path, [*inventing, "-O3"], known) == 0
        assert fault(tmp_path, [*inventing, "-O3"], known.replace("WEFT_APART", others)) == 2


def test_a_compiler_that_gets_them_wrong_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compiler_bugs, "texts", lambda: "int64_t weft_fault(void) { return 2; }\n")
    with pytest.raises(wf.WeftError) as caught:
        wf.Context("cc").compile((wf.data(np.ones(3)) + 1).forward)
    assert "gets what functions read through their arguments wrong" in caught.value.what
    assert caught.value.fix == 'set WEFT_CC to another compiler, or use Context("interp")'
    assert caught.value.origin is not None
    assert caught.value.origin.file == __file__


def test_sums_of_neighbours_in_any_order() -> None:
    """The text that was wrong: neighbours in reversed order, and windows whose kernel is an axis besides."""
    x = np.arange(1.0, 33)
    text = """def f(double(N) x) -> (y, z) {{
        y +=! x(2*i + 1 - k) where i in 0:{n}, k in 0:2
        z +=! x(3*i + 2 - k) where i in 0:{n}, k in 0:3
    }}"""
    for n in (2, 4, 5, 8):
        y, z = wf.tc.define(text.format(n=n), backend="cc").f(x)
        assert (y, z) == (x[: 2 * n].sum(), x[: 3 * n].sum())


@pytest.mark.parametrize("spec", ["p=+u u => 0", "p=+2*u u => 0", "q p=+u u => q"])
def test_sums_over_windows_whose_kernel_is_an_axis(spec: str) -> None:
    """All sizes at once, as many small kernels of one routine."""
    sizes = [(p, u) for p in range(1, 13) for u in range(1, 4)]
    shapes = [(3, p, u) if spec.startswith("q") else (p, u) for p, u in sizes]
    arrays = [np.arange(1.0, 1 + np.prod(shape)).reshape(shape) for shape in shapes]
    found = [wf.einsum(spec, wf.data(a), p=p) for a, (p, _) in zip(arrays, sizes, strict=True)]
    ctx, meaning = wf.Context("cc"), wf.Context("interp")
    ctx.compile(wf.seq(*(one.forward for one in found)))()
    for tensor, (p, u) in zip(found, sizes, strict=True):
        np.testing.assert_array_equal(ctx[tensor], meaning[tensor], err_msg=f"p={p} u={u}")


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_product_and_sum_rounded_once_and_turned_keeps_the_sign_of_a_zero(dtype: str) -> None:
    x = wf.data(np.array([-0.0, 0.0, 3.0, 5.0], dtype))
    for factor in (-0.0, -1.0):
        found = [wf.Context(backend)[-wf.fma(x, factor, x)] for backend in ("interp", "cc")]
        np.testing.assert_array_equal(*map(np.signbit, found))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_zero_less_zero_keeps_its_sign(dtype: str) -> None:
    """gcc takes `0.0 - x` for `-x` where x is a truth value, which is never -0.0."""
    x = wf.require_grad(wf.data(np.array([0.5, 3.0, -np.inf], dtype)))
    loss = wf.einsum("i=>0", -wf.clip(x, -1, 2))
    found = []
    for backend in ("interp", "cc"):
        ctx = wf.Context(backend)
        ctx.compile(wf.grad_update(loss), keep=[x.grad])()
        found.append(ctx[x.grad])
    np.testing.assert_array_equal(*map(np.signbit, found))
    np.testing.assert_array_equal(*found)
