"""From loops to launches on a GPU: the passes in their order, for a backend that has a grid.

What is computed where is decided as for a processor (`pipeline.py`), with what a GPU costs. How loops run is not: a
kernel is cut into launches (`launches.py`), long sums among programs (`split_sums.py`), and each launch is put on
a grid of programs with lanes (`map_to_grid.py`), in blocks of a product (`gpu_products.py`), or on threads.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from itertools import groupby

from weft.loops import Buffer, Collapse, Owners
from weft.loops.walk import Body
from weft.optimise.factor_copies import with_columns_in_memory, with_narrow_factors, with_turned_factors
from weft.optimise.forward_copies import with_forwarded_copies
from weft.optimise.forward_fills import with_forwarded_fills, with_plain_copies
from weft.optimise.loop_order import sums_innermost
from weft.schedule import pipeline
from weft.schedule.apply_decisions import recalled
from weft.schedule.fusion.fuse import fused
from weft.schedule.fusion.rematerialise import rematerialised
from weft.schedule.gpu.fold_sums import with_folded_sums
from weft.schedule.gpu.gpu_fusion_cost import GpuFusionCost
from weft.schedule.gpu.gpu_products import in_blocks
from weft.schedule.gpu.launches import launches
from weft.schedule.gpu.map_to_grid import is_long_alone, on_grid
from weft.schedule.gpu.owned_rows import by_owners
from weft.schedule.gpu.simt import on_simt
from weft.schedule.gpu.split_sums import split_sums
from weft.schedule.gpu.straight_line import straight_first
from weft.schedule.gpu.sweep_groups import with_sweeps
from weft.schedule.gpu.triton_support import unspelled
from weft.schedule.kernel_templates import per_template, touched_by_one
from weft.schedule.memory.memory_plan import planned
from weft.schedule.nodes import Kernel, with_shared_loops
from weft.schedule.products import contractions
from weft.schedule.stage import Pass, Stage, Task, each_kernel


def copy_factors(stage: Stage, task: Task) -> Stage:
    """Store factors of products as they are multiplied: rounded, with sums side by side, or with columns.

    h = relu(u);  c += float32(bfloat16(h)) * …    becomes    h = relu(u);  h_narrow = bfloat16(h);  c += … h_narrow …
    """
    if task.options.factors:
        return pipeline.with_nests(stage, with_narrow_factors(stage.nests))
    if task.options.products == "tf32":
        return pipeline.with_nests(stage, with_turned_factors(stage.nests, task.options.shaped_for.copied_points))
    if task.options.shaped_for.thirds:
        return stage
    return pipeline.with_nests(stage, with_columns_in_memory(stage.nests, task.options.shaped_for.copied_points))


def forward_fills(stage: Stage, task: Task) -> Stage:
    """Store what is accumulated into cells that were cleared, each once.

    g = 0;  for i: g[i] += x[i]    becomes    for i: g[i] = 0 + x[i]
    """
    return pipeline.with_nests(stage, with_plain_copies(with_forwarded_fills(stage.nests)))


def forward_cheap_copies(stage: Stage, task: Task) -> Stage:
    """Add to the original what is added to a copy of it, or to what few operations make of it.

    g[i] = x[i] * 2;  g[i] += s    becomes    g[i] = x[i] * 2 + s
    """
    return pipeline.with_nests(stage, with_forwarded_copies(stage.nests, task.options.shaped_for.cheap_again))


def order_sums_inside(stage: Stage, task: Task) -> Stage:
    """Order the loops of every nest so that each cell is finished before the next: programs share cells.

    for i: for j: y[j] += x[i, j]    becomes    for j: for i: y[j] += x[i, j]
    """
    return pipeline.with_nests(stage, [sums_innermost(nest) for nest in stage.nests])


def rematerialise_large(stage: Stage, task: Task) -> Stage:
    """Compute cheap values a second time late, where all that is kept is more than the second cache holds.

    g = tanh(u);  …;  dw = dy @ g    becomes    g = tanh(u);  …;  g.again = tanh(u);  dw = dy @ g.again
    """
    gpu, options = task.options.shaped_for, task.options
    cheap = options.but(
        recompute_operations=options.recompute_operations * gpu.cheap_operations,
        recompute_inline=options.recompute_inline * gpu.cheap_inline,
    )
    return replace(stage, rematerialised=rematerialised(stage.nests, task.kept, cheap, gpu.cache_bytes))


def group_sweeps(stage: Stage, task: Task) -> Stage:
    """Compute matrices anew for everyone who sums over their columns or rows, rather than keep them in memory.

    a = q . k;  o = f(a) . v;  …;  dv = f(a) . do    becomes    a.1 = q . k;  o = f(a.1) . v;  …;  a.2 = q . k;  …
    """
    if not task.placing:
        return stage
    found = with_sweeps(stage.nests, task.kept, task.options.shaped_for, task.options.products == "tf32")
    return replace(stage, rematerialised=stage.rematerialised.with_nests(found.nests), sweeps=found.codes)


def decide_by_bytes(stage: Stage, task: Task) -> Stage:
    """Decide of every buffer whether it is stored; cheap ones are not where that moves fewer bytes.

    h[i] = x[i] * 2;  y[i] = h[i] + b[i];  z += h[i]    becomes    the same, with the verdict that h is virtual
    """
    gpu = task.options.shaped_for
    settings = replace(task.options.inlining, again=gpu.cheap_again, alone=gpu.alone)
    return pipeline.with_verdicts(stage, task, settings)


def sweep_columns(stage: Stage, task: Task) -> Stage:
    """Run the nests of a sweep as one launch, a block of columns at a time: online softmax.

    for t: for s: a[t, s] = …;  for t: for s: o[t] += f(a[t, s])    becomes    for t: for block: { a[s] = …;  … }
    """
    done = list[Kernel]()
    for number, run in groupby(stage.parts, lambda one: one.sweep):
        members = list(run)
        if number:
            remarks = tuple(dict.fromkeys(line for one in members for line in one.remarks))
            done.append(Kernel(remarks, stage.sweeps[number - 1], decided=True))
        else:
            done += members
    return replace(stage, formed=tuple(done))


def join_straight_line(stage: Stage, task: Task) -> Stage:
    """Run straight-line code early and together: it is a launch of one program.

    for i: w[i] = …;  n = n + 1;  for i: v[i] = …;  m = m * 2    becomes    n = n + 1;  m = m * 2;  for i: w[i] = …;  …
    """
    return replace(stage, formed=tuple(straight_first(stage.parts)))


def fuse_on_grid(stage: Stage, task: Task) -> Stage:
    """Join kernels that touch the same cells at the same points, where programs enough are left.

    for i: y[i] = …;  for i: z[i] = y[i] …    becomes    for i: { y[i] = …;  z[i] = y[i] … }
    """

    def joined(parts: Sequence[Kernel]) -> Sequence[Kernel]:
        late = stage.rematerialised.late
        return fused(parts, late, task.options, task.placing, task.checked, task.lasting, GpuFusionCost)

    return pipeline.with_remarks_in_order(stage, joined(with_shared_loops(stage.parts, joined)))


def fold_sums(stage: Stage, task: Task) -> Stage:
    """Begin sums of what products make where they make it: a partial sum for each block's rows, or columns.

    g[i, j] = a[i, k] * b[k, j];  s[j] += g[i, j]    becomes    { …;  s.parts[b, j] += g };  s[j] += s.parts[b, j]
    """
    if not task.placing:
        return stage
    kernels = with_folded_sums(stage.kernels, task.options.shaped_for, task.options.products == "tf32")
    return replace(stage, formed=tuple(kernels))


def place_products(stage: Stage, task: Task) -> Stage:
    """Stage contractions as products, with what works on their results; those without some terms too.

    for i: for j: { t = 0;  for k: t = t + a[i, k] * b[k, j];  … }    becomes    product of left i; right j; sums k: …
    """
    kernels = contractions.stage(
        stage.kernels, task.options.contraction_points, lambda _: False, under_tests=True, several=True
    )
    return replace(stage, formed=tuple(kernels)) if task.placing else stage


def split_long_sums(stage: Stage, task: Task) -> Stage:
    """Leave a partial sum for each strip of a long sum, and add those up, where programs are too few.

    t = 0;  for i: t = t + x[i]    becomes    for strip: part[strip] = …;  t = 0;  for strip: t = t + part[strip]
    """
    return each_kernel(stage, lambda body: split_sums(body, task.options.shaped_for, task.options.products == "tf32"))


def cut_launches(stage: Stage, task: Task) -> Stage:
    """Cut kernels into launches, each a nest of its own.

    for i: x[i] = a;  for j: y[j] = b    becomes    kernel 0: for i: x[i] = a    and    kernel 1: for j: y[j] = b
    """
    found = per_template(stage.kernels, lambda one, _: [one.template] if one.decided else launches(one.template))
    return replace(stage, formed=tuple(_several(stage.kernels, found)))


def map_to_grid(stage: Stage, task: Task) -> Stage:
    """Put each launch on a grid: outer loops on programs, inner ones in lanes, products in blocks; others on threads.

    for i: for j: y[i, j] = x[i, j]    becomes    for i collapsed by 2, on a grid by 1024 with 4 warps: for j: …
    """
    own = touched_by_one(stage.kernels).difference(stage.outside) if stage.verdicts else set()

    def run(kernel: Kernel, mine: frozenset[Buffer]) -> Sequence[Body]:
        body = kernel.template
        if kernel.decided:
            return [body]
        if unspelled(body, task.options.shaped_for.reads_float8) or kernel.recurrence:
            return [one.template for one in on_simt(kernel.with_body(body), task.options)]
        if product := in_blocks(body, task.options.shaped_for, task.options.products == "tf32"):
            return [product]
        if scatter := by_owners(body, task.options.shaped_for):
            return [scatter]
        if is_long_alone(body, task.options.shaped_for):
            return [one.template for one in on_simt(kernel.with_body(body), task.options)]
        return [on_grid(body, mine, task.options.shaped_for)]

    found = per_template(stage.kernels, run, own)
    return replace(stage, formed=tuple(_several(stage.kernels, found)))


def plan_launches(stage: Stage, task: Task) -> Stage:
    """Give the buffers nobody wants afterwards offsets in one arena; none takes another's while both are touched.

    A launch waits for one whose memory it takes: where the second cache holds all of it, the smallest share none.

    u[i] = …;  v[i] = f(u[i])    becomes    the same, with places for u and v
    """
    gpu, plan = task.options.shaped_for, planned(stage.kernels, stage.outside)
    if plan.size <= gpu.cache_bytes:
        plan = planned(stage.kernels, stage.outside, own_bytes=gpu.own_bytes)
    return replace(stage, plan=plan)


def recall_on_grid(stage: Stage, task: Task) -> Stage:
    """Run launches with the numbers that tuning found best, where it did.

    for i on a grid by 1024 with 4 warps: …    becomes    for i on a grid by 512 with 8 warps: …
    """
    if not task.tuned:
        return stage
    places = {*task.places, Collapse, Owners}
    kernels = recalled(stage.kernels, (), task.tuned, task.options, task.static, places)
    return replace(stage, formed=tuple(kernels))


def _several(kernels: Sequence[Kernel], found: Sequence[Sequence[Body]]) -> list[Kernel]:
    """Kernels, with what became of the template of each: one or more."""
    return [kernel.with_template(body) for kernel, bodies in zip(kernels, found, strict=True) for body in bodies]


def _for_gpu(one: Pass) -> Pass:
    """A pass of a processor that takes a GPU for one."""

    def run(stage: Stage, task: Task) -> Stage:
        options = task.options.but(machine=task.options.shaped_for.as_machine(task.options.machine))
        return one.run(stage, replace(task, options=options))

    run.__doc__ = one.run.__doc__
    return Pass(one.name, run)


_OWN = (
    Pass("forward_fills", forward_fills),
    Pass("forward_copies", forward_cheap_copies),
    Pass("copy_factors", copy_factors),
    Pass("order_loops", order_sums_inside),
    Pass("rematerialise", rematerialise_large),
    Pass("group_sweeps", group_sweeps),
    Pass("decide_inlining", decide_by_bytes),
    Pass("sweep_columns", sweep_columns),
    Pass("join_straight_line", join_straight_line),
    Pass("fuse", fuse_on_grid),
    Pass("fold_sums", fold_sums),
    Pass("place_contractions", place_products),
    Pass("split_long_sums", split_long_sums),
    Pass("cut_launches", cut_launches),
    Pass("map_to_grid", map_to_grid),
    Pass("plan_memory", plan_launches),
    Pass("apply_tuned", recall_on_grid),
)
_ORDER = (
    "distribute forward_fills forward_copies copy_factors reuse_copies scatter_to_gather order_loops rematerialise "
    "group_sweeps decide_inlining inline interchange gather simplify_nests sweep_columns join_straight_line fuse "
    "fold_sums forward_stores deduplicate replace_aggregates simplify "
    "place_contractions split_long_sums widen_sums rename_partials hoist_checks cut_launches map_to_grid plan_memory "
    "apply_tuned"
)

#: What happens between loops and launches on a GPU, in order.
GPU_PASSES: tuple[Pass, ...] = tuple(
    _for_gpu({**{one.name: one for one in pipeline.PASSES}, **{one.name: one for one in _OWN}}[name])
    for name in _ORDER.split()
)
#: What happens where nothing is optimised: every assignment is a launch, or a few.
GPU_UNOPTIMISED = tuple(
    one
    for one in GPU_PASSES
    if one.name in ("replace_aggregates", "widen_sums", "hoist_checks", "cut_launches", "map_to_grid")
)
