"""The backend with its real compilers on a driver that is not there: machine code for every architecture, on disk."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

import weft as wf
from standins.gpu import StandIn
from weft.backends import Played
from weft.backends.cuda import Cuda, kernel_cache
from weft.backends.cuda.gpu_kernels import language_of
from weft.loops import check, parse
from weft.schedule.nodes import Kernel

TESTS = Path(__file__).resolve().parent.parent
TEXTS = {
    "triton": "for i in range(100) on a grid by 64 with 2 warps:\n    y[i] = exp(x[i]) + x[i]",
    "cuda": "for i in range(100) on simt threads by 64:\n    y[i] = y[i] * x[i + k]",
}


def kernels() -> list[Kernel]:
    """One in each language, the second with a static index."""
    texts = [f"x: float32[200]\ny: float32[100]\nk: range(100)\n{text}" for text in TEXTS.values()]
    bodies = [check(parse(text), {"k": 100}).body for text in texts]
    return [Kernel((f"kernel {at}",), body) for at, body in enumerate(bodies)]


@pytest.mark.parametrize("architecture", [(8, 0), (9, 0), (10, 0)], ids=["sm_80", "sm_90", "sm_100"])
def test_machine_code_for_every_architecture(architecture: tuple[int, int], tmp_path: Path) -> None:
    cuda = Cuda(StandIn(architecture=architecture).driver, folder=tmp_path)
    assert [language_of(one.body) for one in kernels()] == ["triton", "cuda"]
    made = cuda.compile(kernels())
    assert isinstance(made, Played)
    launches = cuda._store.find([one.kernel for one in made.calls])
    assert [launches[one.kernel].programs for one in made.calls] == [2, 2]
    assert [launches[one.kernel].threads for one in made.calls] == [64, 64]
    assert [one.given for one in made.calls] == [(), ("k",)]
    for name, one in launches.items():
        assert one.cubin.startswith(b"\x7fELF")
        assert name == one.entry
        assert name.encode() in one.cubin
    for said in ("# kernel 0", "#     x0 is ", "@triton.jit", "// kernel 1", "//     x0 is ", "__global__"):
        assert said in made.source


def test_what_is_kept_does_not_depend_on_who_asks(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = Cuda(StandIn().driver, folder=tmp_path).compile(kernels())
    assert isinstance(made, Played)
    monkeypatch.setattr(kernel_cache, "_known", {})
    assert Cuda(StandIn().driver, folder=tmp_path).recall(made.calls) is not None
    assert Cuda(StandIn(architecture=(10, 0)).driver, folder=tmp_path).recall(made.calls) is None


def test_a_second_process_imports_no_compiler(tmp_path: Path) -> None:
    program = """
import sys
from pathlib import Path
from backends.test_backends_cuda_compilers import kernels
from standins.gpu import StandIn
from weft.backends.cuda import Cuda
Cuda(StandIn().driver, folder=Path(sys.argv[1])).compile(kernels())
print(sorted(one for one in ("triton", "cuda.bindings.nvrtc") if one in sys.modules))
"""
    path = os.pathsep.join([str(Path(wf.__file__).parent.parent), str(TESTS)])
    command = [sys.executable, "-c", program, str(tmp_path)]
    done = [
        subprocess.run(command, env={**os.environ, "PYTHONPATH": path}, capture_output=True, text=True)
        for _ in range(2)
    ]
    assert [one.returncode for one in done] == [0, 0], done[-1].stderr
    assert [one.stdout for one in done] == ["['cuda.bindings.nvrtc', 'triton']\n", "[]\n"]
