"""The passes that decide how loops run, and not what they compute: tuned decisions, tiles, threads, vectors, launches.

Each puts values of `loops/annotations.py` at loops, where `loops/legality.py` allows it. `pipeline.py` has their order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from weft.loops import Collapse, Jam, NonTemporal, PrefetchRows, Product, Registers, Simt, Vector
from weft.schedule.apply_decisions import recalled
from weft.schedule.gpu.simt import is_on_gpu, simt_launches
from weft.schedule.kernel_templates import per_template
from weft.schedule.nests.collapse import collapsed
from weft.schedule.nests.nontemporal_stores import with_nontemporal_stores
from weft.schedule.nests.parallelise import parallelised
from weft.schedule.nests.prefetch_rows import prefetching_rows
from weft.schedule.nests.unroll_jam import jammed
from weft.schedule.nests.vectorise import vectorised
from weft.schedule.nodes import Kernel
from weft.schedule.products.tile import tiled
from weft.schedule.stage import Stage, Task, each_kernel_knowing, where_placed


def apply_tuned(stage: Stage, task: Task) -> Stage:
    """Run the loops of kernels as tuning found best, where it did: the passes that follow leave them alone.

    for i: y[i] = x[i] * 2    becomes    for i on threads by 512, on vectors of 8: y[i] = x[i] * 2
    """
    if not task.tuned:
        return stage
    given = task.tuned, task.options, task.static, task.places
    return _running(stage, recalled(stage.kernels, stage.own, *given))


def _running(stage: Stage, kernels: Sequence[Kernel]) -> Stage:
    """The stage with kernels of which it is decided what threads share."""
    return replace(stage, formed=tuple(kernels), plan=stage.plan and stage.plan.with_private(kernels))


def tile(stage: Stage, task: Task) -> Stage:
    """Cut contractions into tiles that registers hold, or leave them as loops.

    product of left i; right j; sums k: …    becomes    product of … in tiles of 8 rows by 2 vectors: …
    """
    return where_placed(stage, task, Product, lambda body: tiled(body, task.options))


def collapse(stage: Stage, task: Task) -> Stage:
    """Run loops as one where the cells they touch follow each other.

    for h in range(28): for w in range(28): …    becomes    for h in range(28) collapsed by 2: for w in range(28): …
    """
    return where_placed(stage, task, Collapse, collapsed)


def parallelise(stage: Stage, task: Task) -> Stage:
    """Let threads share the iterations of outermost loops that are long enough.

    for i in range(1024): …    becomes    for i in range(1024) on threads by 64: …
    """
    if not task.sharing:
        return stage
    threads = task.options.schedule.threads or task.options.threads
    found = each_kernel_knowing(stage, lambda body, own: parallelised(body, task.options, own), stage.own)
    return _running(stage, [replace(one, threads=threads) for one in found.kernels])


def unroll_jam(stage: Stage, task: Task) -> Stage:
    """Do several iterations of an outer sum at once, inside its inner loops.

    for i in range(64): for j: y[j] += x[i, j]    becomes    for i in range(64) jammed by 4: for j: y[j] += x[i, j]
    """
    registers = Registers in task.places
    return where_placed(stage, task, Jam, lambda body: jammed(body, task.options, registers))


def vectorise(stage: Stage, task: Task) -> Stage:
    """Run innermost loops on vectors, or unroll them where that is asked.

    for i in range(64): y[i] = x[i] * 2    becomes    for i in range(64) on vectors: y[i] = x[i] * 2
    """
    registers = Registers in task.places
    return where_placed(stage, task, Vector, lambda body: vectorised(body, task.options, registers))


def prefetch_rows(stage: Stage, task: Task) -> Stage:
    """Fetch the next row from memory while loops pass over one several times.

    for i: { for j: s = s + x[i, j];  … }    becomes    for i prefetching 1 ahead: { for j: s = s + x[i, j];  … }
    """
    return where_placed(stage, task, PrefetchRows, lambda body: prefetching_rows(body, task.options))


def nontemporal_stores(stage: Stage, task: Task) -> Stage:
    """Store past the caches what nothing near reads, where they would not hold it.

    for j on vectors: y[j] = x[j] * 2    becomes    for j on vectors, non-temporal: y[j] = x[j] * 2
    """
    return where_placed(stage, task, NonTemporal, lambda body: with_nontemporal_stores(body, task.options))


def launch(stage: Stage, task: Task) -> Stage:
    """Run on SIMT threads what is not placed on a GPU yet, each kernel as one launch.

    for k: for i: y[i] += x[i, k];  z = y[0]    becomes    for i on simt threads by 256: for k: …;  for alone on simt …
    """
    if Simt not in task.places:
        return stage
    kernels = stage.kernels
    found = per_template(kernels, lambda one, _: [one.template] if is_on_gpu(one) else simt_launches(one, task.options))
    made = [replace(one, template=each, decided=True) for one, own in zip(kernels, found, strict=True) for each in own]
    return replace(stage, formed=tuple(made), plan=stage.plan and stage.plan.cut(list(map(len, found))))
