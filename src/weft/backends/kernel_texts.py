"""Kernels as texts for a compiler: each different one once, in canonical names, and how programs call it.

What is compiled is found again by its text, so kernels that differ in names, constant indices or random keys alone must
have the same text. A program is then a list of calls, each with the buffers that its kernel works on.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Generic, TypeAlias, TypeVar

from weft.backends.protocol import KernelCall
from weft.loops import Buffer, Program, buffers_of
from weft.loops.walk import Body, free, parts, scoped
from weft.schedule.canonical import canonical_kernel
from weft.schedule.kernel_templates import per_template
from weft.schedule.nodes import Kernel
from weft.schedule.relocatable import anchored

T = TypeVar("T")

#: Writes statements on some buffers, in order, and some static indices: a name that says all about it, and the text.
Write: TypeAlias = Callable[[Body, Sequence[Buffer], Sequence[str]], tuple[str, T]]


@dataclass(frozen=True, slots=True)
class WrittenKernel(Generic[T]):
    """A kernel of a program under neutral names, and how this program calls it."""

    text: T
    call: KernelCall


def written(kernels: Sequence[Kernel], write: Write[T]) -> tuple[WrittenKernel[T], ...]:
    """Kernels as calls of what is written once for all that are alike."""
    found = per_template(kernels, lambda kernel, _: _canonical(kernel, write))
    return tuple(map(_called, found, kernels))


def _canonical(kernel: Kernel, write: Write[T]) -> WrittenKernel[T]:
    body, fixed = anchored(kernel.template)
    neutral, buffers, given = canonical_kernel(Kernel((), body))
    ordered = sorted(buffers_of(Program(neutral.body)), key=lambda one: one.id)
    name, text = write(neutral.body, ordered, [f"s{at}" for at in range(len(given))])
    return WrittenKernel(text, KernelCall(name, buffers, tuple(fixed.get(one, one) for one in given), kernel.threads))


def _called(one: WrittenKernel[T], kernel: Kernel) -> WrittenKernel[T]:
    """What is written of a template as a kernel calls it."""
    buffers = tuple(map(kernel.renaming.buffer, one.call.buffers))
    return replace(one, call=replace(one.call, buffers=buffers, threads=kernel.threads))


def readable(
    kernels: Sequence[Kernel],
    text: Callable[[str, Body, Sequence[Buffer], Sequence[str]], str],
    comment: Callable[[Body, str], str],
) -> str:
    """The kernels under the names of the program, each below the assignments it came from."""
    parts = []
    for index, kernel in enumerate(kernels):
        buffers = buffers_of(Program(kernel.body))
        remarks = [comment(kernel.body, line) for line in kernel.remarks]
        names = [comment(kernel.body, f"    x{at} is {one.name}") for at, one in enumerate(buffers)]
        parts.append(
            "\n".join([*remarks, *names, text(f"kernel_{index}", kernel.body, buffers, static_in(kernel.body))])
        )
    return "\n".join(parts)


def static_in(body: Body) -> tuple[str, ...]:
    """The static indices a block uses: the names that no loop binds."""
    names: dict[str, None] = {}
    for stmt, scope in scoped(body):
        bound = dict(scope.loops)
        names |= {name: None for part in parts(stmt) for name in free(part) if name not in bound}
    return tuple(names)
