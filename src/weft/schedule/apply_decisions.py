"""Decisions about a kernel put in place, if they are legal: by hand, by a tuner, or as tuning found best.

for i: y[i] = x[i] * 2      with i0 on vectors of 8      becomes      for i on vectors of 8: y[i] = x[i] * 2
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace

from weft.errors import WeftError, warn
from weft.loops import Buffer, For, MalformedLoops, Parallel, Program, Staged, Stmt, Vector, check
from weft.loops.names import BlockNames
from weft.loops.walk import Body, everything, top_down
from weft.schedule.annotate import replaced
from weft.schedule.canonical import digest, systematic
from weft.schedule.compile_options import CompileOptions
from weft.schedule.decisions import Decisions, outside_products
from weft.schedule.gpu_decisions import is_launch, with_gpu_decisions
from weft.schedule.kernel_templates import per_template
from weft.schedule.nests.bands import rearranged, tile_loop
from weft.schedule.nests.parallelise import with_private
from weft.schedule.nests.vectorise import in_variable
from weft.schedule.nodes import Kernel
from weft.schedule.products.tile import placed_as
from weft.schedule.relocatable import anchored


def with_decisions(
    kernel: Kernel,
    chosen: Decisions,
    options: CompileOptions,
    own: Collection[Buffer] = (),
    static: Mapping[str, int] | None = None,
) -> Kernel:
    """A kernel that runs as was decided; raises what is wrong with that, if anything is.

    `own` are buffers that nothing else uses, before or after it; `static` are the sizes of static indices. A launch of
    a GPU gets other numbers (`gpu_decisions.py`).
    """
    if is_launch(kernel.template):
        return with_gpu_decisions(kernel, chosen, static)
    named = systematic(kernel.body)
    _check_products(named.body, chosen)
    body = _with_products(named.body, chosen)
    _check_loops(body, chosen)
    body = rearranged(body, dict(chosen.tiles), chosen.order)
    body = _with_annotations(body, chosen, options, own)
    done = check(Program(named.back(body)), static or {})
    return replace(kernel.with_body(done.body), decided=True)


def kernel_key(kernel: Kernel) -> str:
    """What decisions about a kernel are kept under: all it does, and nothing of where it starts from."""
    return digest(Kernel((), anchored(kernel.body)[0]))


def recalled(
    kernels: Sequence[Kernel],
    own: Collection[Buffer],
    tuned: Mapping[str, Decisions],
    options: CompileOptions,
    static: Mapping[str, int],
    places: Collection[type],
) -> list[Kernel]:
    """The kernels, those of which tuning has found how they run best as it says; `own`: buffers that one alone uses."""
    given = tuned, options, static, places
    found = per_template(kernels, lambda one, inside: _recalled(one.template, inside, *given), own)
    return [
        one if body is None else replace(one.with_template(body), decided=True)
        for one, body in zip(kernels, found, strict=True)
    ]


def _recalled(
    body: Body,
    own: Collection[Buffer],
    tuned: Mapping[str, Decisions],
    options: CompileOptions,
    static: Mapping[str, int],
    places: Collection[type],
) -> Body | None:
    """The statements of a kernel as was decided; None if nothing was, if it is not legal, or the backend cannot."""
    kernel = Kernel((), body)
    key = kernel_key(kernel)
    chosen = tuned.get(key)
    if chosen is None or not chosen.kinds.issubset(places):
        return None
    try:
        return with_decisions(kernel, chosen, options, own, static).body
    except MalformedLoops as problem:
        what = f"what tuning found for kernel {key[:12]} does not fit it, and is not used: {problem}"
        warn(WeftError(what, fix="tune it once more, or remove its line from the file that wf.config.tuned names"))
        return None


def _check_products(body: Sequence[Stmt], chosen: Decisions) -> None:
    products = {one.what.total for one in everything(body) if isinstance(one, Staged)}
    for name in set(dict(chosen.products)) - products:
        raise MalformedLoops(f"it has no product `{name}`")


def _check_loops(body: Sequence[Stmt], chosen: Decisions) -> None:
    """Nothing is said of loops that are not there, or that are inside of products in tiles."""
    tiles = {tile_loop(name) for name, _ in chosen.tiles}
    named = [*dict(chosen.tiles), *chosen.order, *(name for name in dict(chosen.loops) if name not in tiles)]
    for name in set(named) - {one.loop for one in outside_products(body) if isinstance(one, For)}:
        raise MalformedLoops(f"it has no loop `{name}`, or it is a product's")


def _with_products(body: Sequence[Stmt], chosen: Decisions) -> tuple[Stmt, ...]:
    def rule(stmt: Stmt) -> Sequence[Stmt] | None:
        if not isinstance(stmt, Staged):
            return None
        what = chosen.product(stmt.what.total)
        return stmt.body if what is None else (placed_as(stmt, what),)

    return top_down(body, rule)


def _with_annotations(
    body: Sequence[Stmt], chosen: Decisions, options: CompileOptions, own: Collection[Buffer]
) -> tuple[Stmt, ...]:
    names = BlockNames(body)

    def change(loop: For) -> Sequence[Stmt] | None:
        how = chosen.how(loop.loop)
        if not how:
            return None
        one = replace(loop, how=how, body=replaced(loop.body, change))
        before, after = tuple[Stmt, ...](), tuple[Stmt, ...]()
        if any(isinstance(each, Vector) for each in how):
            before, one, after = in_variable(one, names)
        if any(isinstance(each, Parallel) for each in how):
            one = with_private(one, loop, options, body, own) or one  # `check` says why it cannot be
        return (*before, one, *after)

    return replaced(body, change)
