"""Kernels in C: each different one is compiled once, in a few units, and found again by its text.

A routine is a list of kernels, each with the buffers it works on; one native call plays the whole list.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from hashlib import sha256

from weft.backends.c_family.writer import safe, static_in
from weft.backends.cc.emit import emit
from weft.backends.protocol import KernelCall
from weft.lazy import lazy_property
from weft.loops import Program, buffers_of
from weft.schedule.alike import once
from weft.schedule.canonical import canonical_kernel
from weft.schedule.nodes import Kernel
from weft.schedule.relocatable import anchored

#: Plays a list of kernels.
PLAYER = """\
typedef struct {
    void (*kernel)(void *const *buffers, const int64_t *given, const weft_run *run);
    void *const *buffers;
    const int64_t *given;
    const weft_run *run;
} weft_call;

void weft_play(const weft_call *call)
{
    for (; call->kernel; call++) call->kernel(call->buffers, call->given, call->run);
}
"""


@dataclass(frozen=True, slots=True)
class CFunction:
    """One kernel of a program: its C function under neutral names, and how this program calls it."""

    text: str
    call: KernelCall


@dataclass(frozen=True)
class CFunctions:
    """Kernels as calls of C functions."""

    kernels: tuple[Kernel, ...]

    @lazy_property
    def all(self) -> tuple[CFunction, ...]:
        found = once(self.kernels, lambda kernel, _: _piece(kernel))
        return tuple(map(_called, found, self.kernels))

    @lazy_property
    def readable(self) -> str:
        """The kernels under the names of the program, each below the assignments it came from."""
        parts = []
        for index, kernel in enumerate(self.kernels):
            buffers = buffers_of(Program(kernel.body))
            remarks = [f"/* {safe(line)} */" for line in kernel.remarks]
            names = [f"/*     x{at} is {safe(one.name)} */" for at, one in enumerate(buffers)]
            text = emit(f"kernel_{index}", kernel.body, buffers, static_in(kernel.body))
            parts.append("\n".join([*remarks, *names, text]))
        return "\n".join(parts)


def _piece(kernel: Kernel) -> CFunction:
    body, fixed = anchored(kernel.template)
    neutral, buffers, given = canonical_kernel(Kernel((), body))
    ordered = sorted(buffers_of(Program(neutral.body)), key=lambda one: one.id)
    text = emit("NAME", neutral.body, ordered, [f"s{at}" for at in range(len(given))])
    name = f"weft_{sha256(text.encode()).hexdigest()[:32]}"
    call = KernelCall(name, buffers, tuple(fixed.get(one, one) for one in given), kernel.threads)
    return CFunction(text.replace("NAME", name), call)


def _called(function: CFunction, kernel: Kernel) -> CFunction:
    """The function of a template as a kernel calls it."""
    buffers = tuple(map(kernel.renaming.buffer, function.call.buffers))
    return replace(function, call=replace(function.call, buffers=buffers, threads=kernel.threads))
