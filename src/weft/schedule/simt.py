"""Launches on SIMT threads: what lanes of a program cannot do."""

from __future__ import annotations

from weft.schedule.nodes import Kernel


def on_simt(kernel: Kernel) -> tuple[Kernel, ...]:
    """A launch on threads."""
    return (kernel,)
