"""Kernels as texts for the compilers of a GPU: which language each is written in, and how programs call it.

Emitters and compilers are looked for by name when they are needed, so that a program whose kernels are on disk imports
none of them.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from hashlib import sha256
from importlib import import_module
from typing import Any, Literal, TypeAlias

from weft.backends.cuda.kernel_source import Launch, Source
from weft.backends.kernel_texts import WrittenKernel, readable, written
from weft.lazy import lazy_property
from weft.loops import Buffer, For, Grid, Owners, Product, Simt, Staged
from weft.loops.effects import effects
from weft.loops.walk import Body, everything
from weft.schedule.nodes import Kernel

#: The languages that kernels are written in.
Language: TypeAlias = Literal["triton", "cuda"]
Emit: TypeAlias = Callable[[str, Body, Sequence[Buffer], Sequence[str]], Source]
Compile: TypeAlias = Callable[[Source, str], Launch]

#: Stands for the name of a kernel in the text that decides it.
_NAME = "WEFT_KERNEL"
_COMMENT = {"triton": "#", "cuda": "//"}


@dataclass(frozen=True, slots=True)
class Toolchain:
    """What writes kernels in a language, and what compiles them; `in_processes` if many are quicker there."""

    emit: Emit
    compile: Compile
    in_processes: bool = False


def _later(module: str, name: str) -> Callable[..., Any]:
    """A function of this room, imported when it is called."""
    return lambda *given: getattr(import_module(f"weft.backends.cuda.{module}"), name)(*given)


TOOLCHAINS: Mapping[Language, Toolchain] = {
    "triton": Toolchain(_later("triton_text", "triton_source"), _later("triton_build", "compile_triton"), True),
    "cuda": Toolchain(_later("simt_text", "simt_source"), _later("nvrtc", "compile_cuda")),
}


def language_of(body: Body) -> Language:
    """What a kernel is written in: Triton where it runs on a grid or in blocks, else CUDA."""
    for stmt in everything(body):
        match stmt:
            case Staged(what=Product(blocks=blocks)) if blocks is not None:
                return "triton"
            case For(how=how):
                for one in how:
                    if isinstance(one, Grid | Owners | Simt):
                        return "cuda" if isinstance(one, Simt) else "triton"
    return "cuda"


@dataclass(frozen=True)
class GpuKernels:
    """Kernels as launches."""

    kernels: tuple[Kernel, ...]
    toolchains: Mapping[Language, Toolchain]

    @lazy_property
    def all(self) -> tuple[WrittenKernel[Source], ...]:
        return written(self.kernels, self._source)

    def _source(self, body: Body, buffers: Sequence[Buffer], given: Sequence[str]) -> tuple[str, Source]:
        made = self._emit(_NAME, body, buffers, given)
        name = f"weft_{sha256(repr(made).encode()).hexdigest()[:32]}"
        return name, replace(made, entry=name, text=made.text.replace(_NAME, name))

    def _emit(self, name: str, body: Body, buffers: Sequence[Buffer], given: Sequence[str]) -> Source:
        made = self.toolchains[language_of(body)].emit(name, body, buffers, given)
        written = effects(body).buffers
        return replace(made, writes=tuple(at for at, one in enumerate(buffers) if one in written))

    @lazy_property
    def readable(self) -> str:
        """The kernels under the names of the program, each below the assignments it came from."""

        def text(name: str, body: Body, buffers: Sequence[Buffer], given: Sequence[str]) -> str:
            made = self._emit(name, body, buffers, given)
            counts = (made.programs, "program"), (made.warps, "warp")
            said = " of ".join(f"{count} {what}{'s' * (count != 1)}" for count, what in counts)
            return f"{_COMMENT[made.language]} {said}\n{made.text}"

        return readable(self.kernels, text, lambda body, line: f"{_COMMENT[language_of(body)]} {line}")
