"""Kernels in C: each different one is compiled once, in a few units, and found again by its text.

A routine is a list of kernels, each with the buffers it works on; one native call plays the whole list.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import sha256

from weft.backends.c_family.writer import safe
from weft.backends.cc.emit import emit
from weft.backends.kernel_texts import WrittenKernel, readable, written
from weft.lazy import lazy_property
from weft.loops import Buffer
from weft.loops.walk import Body
from weft.schedule.nodes import Kernel

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


@dataclass(frozen=True)
class CFunctions:
    """Kernels as calls of C functions."""

    kernels: tuple[Kernel, ...]

    @lazy_property
    def all(self) -> tuple[WrittenKernel[str], ...]:
        return written(self.kernels, _function)

    @lazy_property
    def readable(self) -> str:
        """The kernels under the names of the program, each below the assignments it came from."""
        return readable(self.kernels, emit, lambda _, line: f"/* {safe(line)} */")


def _function(body: Body, buffers: Sequence[Buffer], given: Sequence[str]) -> tuple[str, str]:
    text = emit("NAME", body, buffers, given)
    name = f"weft_{sha256(text.encode()).hexdigest()[:32]}"
    return name, text.replace("NAME", name)
