"""CUDA C++ compiled by NVRTC: it needs no GPU, no driver and no C compiler.

Arithmetic is IEEE's as the oracle's is: products and sums are not fused, quotients and roots are rounded as they should
be, and what is tiny is not flushed to zero. Functions are for the device unless they say otherwise, so the headers of
`c_family/` serve as they are.
"""

from __future__ import annotations

import tempfile
from collections.abc import Sequence
from functools import cache
from importlib.resources import files
from pathlib import Path
from types import ModuleType
from typing import Any

from weft.backends.c_family.headers import functions
from weft.backends.cuda.kernel_source import Launch, Source
from weft.errors import WeftError

OPTIONS = (
    *("--std=c++17", "--device-as-default-execution-space", "--fmad=false"),
    *("--prec-div=true", "--prec-sqrt=true", "--ftz=false"),
)
#: So many characters of kernels are compiled at once: each program begins with all that kernels may call.
_WORTH_A_PROGRAM = 1 << 16
#: The headers that texts ask for. One of them says all, NVRTC has what is left.
_HEADERS = ("stdint.h", "math.h", "stdbool.h", "string.h", "tgmath.h")


def compile_cuda(source: Source, architecture: str) -> Launch:
    """A kernel for one architecture, such as "sm_90"."""
    return compile_all_cuda([source], architecture)[0]


def compile_all_cuda(sources: Sequence[Source], architecture: str) -> list[Launch]:
    """Kernels for one architecture, many of them compiled at once: those have their machine code in common."""
    found: dict[str, bytes] = {}
    texts = {one.entry: one.text for one in sources}
    assert all(texts[one.entry] == one.text for one in sources), "a name stands for its text: no two texts have one"
    for unit in _units(texts):
        cubin = _compiled("\n".join(unit.values()), architecture)
        found |= dict.fromkeys(unit, cubin)
    return [Launch(one.entry, found[one.entry], one.programs, 32 * one.warps) for one in sources]


def whole_text(text: str) -> str:
    """A text with all that it may call."""
    return f"{functions()}\n{text}"


def _units(texts: dict[str, str]) -> list[dict[str, str]]:
    """Kernels by name, each name once, in groups that are worth a program."""
    units, long = [dict[str, str]()], 0
    for name, text in texts.items():
        if long and long + len(text) > _WORTH_A_PROGRAM:
            units.append({})
            long = 0
        units[-1][name] = text
        long += len(text)
    return [one for one in units if one]


def _compiled(text: str, architecture: str) -> bytes:
    nvrtc, whole = _nvrtc(), whole_text(text)
    headers = [_standard() if name == _HEADERS[0] else b"" for name in _HEADERS]
    names = [one.encode() for one in _HEADERS]
    program = _asked(nvrtc, nvrtc.nvrtcCreateProgram(whole.encode(), b"weft.cu", len(headers), headers, names))
    try:
        options = [one.encode() for one in (f"--gpu-architecture={architecture}", *OPTIONS)]
        (status,) = nvrtc.nvrtcCompileProgram(program, len(options), options)
        if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
            raise _failure(_log(nvrtc, program) or _said(nvrtc, status), whole, architecture)
        cubin: bytes = b" " * _asked(nvrtc, nvrtc.nvrtcGetCUBINSize(program))
        _asked(nvrtc, nvrtc.nvrtcGetCUBIN(program, cubin))
        return cubin
    finally:
        nvrtc.nvrtcDestroyProgram(program)


def _nvrtc() -> ModuleType:
    """The library; importing it loads nothing that needs a GPU."""
    try:
        from cuda.bindings import nvrtc

        _asked(nvrtc, nvrtc.nvrtcVersion())
    except (ImportError, RuntimeError) as error:
        what = f"NVRTC, which compiles CUDA C++, cannot be loaded: {error}"
        fix = 'install it: pip install "cuda-bindings" "nvidia-cuda-nvrtc"; or use another backend: wf.Context("cc")'
        raise WeftError(what, origin=None, fix=fix) from None
    found: ModuleType = nvrtc
    return found


def _asked(nvrtc: ModuleType, answer: tuple[Any, ...]) -> Any:
    """What a function of NVRTC found; these all succeed, but where there is no memory."""
    status, *found = answer
    if status != nvrtc.nvrtcResult.NVRTC_SUCCESS:
        raise WeftError(f"NVRTC failed: {_said(nvrtc, status)}", origin=None, fix="check that there is memory left")
    return found[0] if found else None


def _said(nvrtc: ModuleType, status: Any) -> str:
    _, text = nvrtc.nvrtcGetErrorString(status)
    return str(text.decode())


def _log(nvrtc: ModuleType, program: Any) -> str:
    text: bytes = b" " * _asked(nvrtc, nvrtc.nvrtcGetProgramLogSize(program))
    _asked(nvrtc, nvrtc.nvrtcGetProgramLog(program, text))
    return text.rstrip(b"\0 \n").decode(errors="replace")


def _failure(log: str, text: str, architecture: str) -> WeftError:
    """An error that says what NVRTC said first, and where the text is kept."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    first = next((line for line in lines if "error" in line), lines[0])[:300]
    kept = _kept(text)
    notes = [f"options: --gpu-architecture={architecture} {' '.join(OPTIONS)}"]
    notes += [f"the source is kept at {kept}"] if kept else []
    return WeftError(f"NVRTC failed: {first}", origin=None, notes=notes, fix='use another backend: wf.Context("cc")')


def _kept(text: str) -> Path | None:
    """Where a text is kept, unless there is no place for it."""
    try:
        folder = Path(tempfile.mkdtemp(prefix="weft-failed-"))
        (folder / "weft.cu").write_text(text, encoding="utf-8")
    except OSError:
        return None
    return folder / "weft.cu"


@cache
def _standard() -> bytes:
    return files("weft.backends.cuda").joinpath("standard.h").read_bytes()
