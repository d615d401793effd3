"""From loops to kernels: the passes in their order (`driver.py` runs them).

A pass is a pure function of a stage, the program so far with what was found out about it, and of the task, what is
asked of all of them. Whatever is between two passes is a program that can be checked, printed and interpreted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import count

from weft.loops import Buffer, Cold, Product, Simt, Vector
from weft.loops.nests import Nest
from weft.loops.walk import Body
from weft.optimise.distribute import distributed
from weft.optimise.forward_copies import with_forwarded_copies
from weft.optimise.gather import gathered
from weft.optimise.inline import inlined
from weft.optimise.inline_decision import Settings, decide
from weft.optimise.interchange import interchanged
from weft.optimise.lanes import in_lanes
from weft.optimise.partial_states import partial_states
from weft.optimise.ranks import ranked_by_sorting
from weft.optimise.reuse_copies import reusing_copies
from weft.optimise.rewrite import rewrite
from weft.optimise.scalar_replacement import replaced_aggregates
from weft.optimise.scatter_to_gather import gathering
from weft.optimise.signed_zeros import unsigned_buffers
from weft.optimise.wide_sums import widened
from weft.schedule.decision_passes import (
    apply_tuned,
    collapse,
    launch,
    nontemporal_stores,
    parallelise,
    prefetch_rows,
    tile,
    unroll_jam,
    vectorise,
)
from weft.schedule.fusion.forward_stores import forwarded
from weft.schedule.fusion.fuse import fused
from weft.schedule.fusion.fusion_cost import FusionCost
from weft.schedule.fusion.rematerialise import Rematerialised, rematerialised
from weft.schedule.fusion.strip_cost import StripCost
from weft.schedule.fusion.strip_mine import strip_mined
from weft.schedule.fusion.strips import touched_buffers
from weft.schedule.hoist_checks import hoisted_checks
from weft.schedule.kernel_templates import per_template, with_own_partials, with_templates
from weft.schedule.memory.fold_storage import folded
from weft.schedule.memory.in_place import coalesced
from weft.schedule.memory.memory_plan import planned
from weft.schedule.nests.block_loops import blocked
from weft.schedule.nests.partition import partitioned
from weft.schedule.nests.split_products import with_split_products
from weft.schedule.nodes import Kernel, as_kernels, with_shared_loops
from weft.schedule.options import arranged
from weft.schedule.products import contractions
from weft.schedule.products.exact_floats import in_exact_floats
from weft.schedule.products.pack_invariants import with_packed_invariants
from weft.schedule.products.pad_windows import with_padded_windows
from weft.schedule.products.tile import has_tile
from weft.schedule.stage import Pass, Stage, Task, each_kernel, each_kernel_knowing, shared_loops, where_placed


def with_nests(stage: Stage, nests: Sequence[Nest]) -> Stage:
    """The stage with other nests, of which nothing is known yet."""
    return replace(stage, rematerialised=Rematerialised(tuple(nests)))


def distribute(stage: Stage, task: Task) -> Stage:
    """Take out of loops what they need not run one iteration after another.

    for t: { u[t] = …;  h[t + 1] = h[t] + u[t] }    becomes    for t: u[t] = …;  for t: h[t + 1] = h[t] + u[t]
    """
    return with_nests(stage, distributed(stage.nests, task.options.thresholds.filled_tiles))


def reuse_copies(stage: Stage, task: Task) -> Stage:
    """Read copies that recurrences store anyway.

    for t: { z[t] = …;  h[t + 1] = z[t] };  y[t] = z[t]    becomes    for t: { …;  h[t + 1] = z[t] };  y[t] = h[t + 1]
    """
    return with_nests(stage, reusing_copies(stage.nests, task.kept))


def forward_copies(stage: Stage, task: Task) -> Stage:
    """Add to the original what is added to a copy of it, once in each cell.

    g[i] = x[i];  g[i] += s    becomes    g[i] = x[i] + s
    """
    return with_nests(stage, with_forwarded_copies(stage.nests))


def scatter_to_gather(stage: Stage, task: Task) -> Stage:
    """Sum up for each cell what falls into it, where a contraction accumulates into windows.

    for o: for k: dx[o + k] += dy[o] * w[k]    becomes    for i: for k: if 0 <= i - k < 28: dx[i] += dy[i - k] * w[k]
    """
    if not task.placing:
        return stage
    return with_nests(stage, gathering(stage.nests, task.options.contraction_points, task.gathering))


def order_loops(stage: Stage, task: Task) -> Stage:
    """Order the loops of every nest for memory, or as asked.

    for i: for j: y[j, i] = x[j, i]    becomes    for j: for i: y[j, i] = x[j, i]
    """
    ordered = [arranged(nest, task.options.schedule) for nest in stage.nests]
    return with_nests(stage, ordered)


def strip_mine(stage: Stage, task: Task) -> Stage:
    """Run contractions one after another, and what is between them, a strip of rows at a time.

    for t: p[t] = …;  for t: y[t] = … p[t]    becomes    for u: { for t: p[u, t] = …;  for t: y[32 u + t] = … p[u, t] }
    """
    if not task.placing:
        return stage
    cost = StripCost(task.options.machine, thresholds=task.options.thresholds)
    found = strip_mined(stage.nests, task.kept, task.options.large_contraction_points, cost)
    return with_nests(stage, found)


def rematerialise(stage: Stage, task: Task) -> Stage:
    """Compute cheap values a second time late, rather than keep them alive until then.

    g = tanh(u);  …;  dw = dy @ g    becomes    g = tanh(u);  …;  g.again = tanh(u);  dw = dy @ g.again
    """
    return replace(stage, rematerialised=rematerialised(stage.nests, task.kept, task.options))


def decide_inlining(stage: Stage, task: Task) -> Stage:
    """Decide of every buffer whether it is stored; the program stays as it is.

    h[i] = x[i] + b[i];  y[i] = relu(h[i])    becomes    the same, with the verdict that h is virtual
    """
    return with_verdicts(stage, task, task.options.inlining)


def with_verdicts(stage: Stage, task: Task, settings: Settings) -> Stage:
    """The stage with a verdict on every buffer."""
    found = stage.rematerialised
    forced = {*task.recompute, *(one for one, of in found.copies.items() if of in task.recompute)}
    swept = {one: "a sweep's" for nest in stage.nests if nest.sweep for one in touched_buffers(nest)}
    settings = replace(settings, gathers=task.gathering)
    verdicts = decide(stage.nests, {**swept, **task.kept}, settings, forced, found.often)
    verdicts |= {one: replace(verdicts[one], why=f"{verdicts[one].why}; {why}") for one, why in found.why.items()}
    written = {nest.target for nest in stage.nests}
    outside = frozenset([*task.kept, *(buffer for buffer in verdicts if buffer not in written)])
    return replace(stage, verdicts=verdicts, unsigned=frozenset(unsigned_buffers(stage.nests)), outside=outside)


def inline(stage: Stage, task: Task) -> Stage:
    """Compute what is not stored where it is read; every nest becomes a kernel.

    h[i] = x[i] + b[i];  y[i] = relu(h[i])    becomes    h = x[i] + b[i];  y[i] = relu(h)
    """
    virtual = {buffer for buffer, verdict in stage.verdicts.items() if not verdict.stored}
    stored = [nest for nest in stage.nests if nest.target not in virtual]
    kernels = zip(as_kernels(inlined(stage.nests, virtual, task.static)), stored, strict=True)
    return replace(
        stage, formed=tuple(replace(one, shared=shared_loops(nest), sweep=nest.sweep) for one, nest in kernels)
    )


def interchange(stage: Stage, task: Task) -> Stage:
    """Move the loop of a recurrence of one nest inside, where that walks memory best.

    for t: for i: h[t + 1, i] = h[t, i] + x[i, t]    becomes    for i: for t: h[t + 1, i] = h[t, i] + x[i, t]
    """
    alone = Counter(part.shared[0] for part in stage.parts if part.shared)

    def moved(part: Kernel) -> Kernel:
        if len(part.shared) != 1 or alone[part.shared[0]] != 1:
            return part
        body = interchanged(part.shared[0][1:], part.body)
        return part if body is None else replace(part.with_body(body), shared=())

    return replace(stage, formed=tuple(map(moved, stage.parts)))


def gather(stage: Stage, task: Task) -> Stage:
    """Read the one term of a sum that a comparison leaves.

    for k: s = s + where(ids[i] == k, t[k], 0)    becomes    s = t[ids[i]]
    """
    return each_kernel(stage, lambda body: gathered(body, task.options.fast_math, stage.unsigned))


def sort_rows(stage: Stage, task: Task) -> Stage:
    """Find the ranks of elements by sorting them, where they are counted one by one.

    for v: for o: ranks[v] += comes_before(x[o], o, x[v], v)    becomes    …;  for v: ranks[v] += rank[v]
    """
    ids, least = count(), task.options.thresholds.sorted_elements
    machine = task.options.machine if Vector in task.places else None

    def blocks(part: Kernel) -> Sequence[Body]:
        return [part.body] if part.shared else ranked_by_sorting(part.body, least, ids, machine)

    found = ((one, blocks(one)) for one in stage.parts)
    return replace(stage, formed=tuple(part.with_body(body) for part, bodies in found for body in bodies))


def simplify_nests(stage: Stage, task: Task) -> Stage:
    """Simplify what may be a contraction, so that its factors are seen.

    g = 0;  g = g + dy[i];  w[j] += g * x[i, j]    becomes    w[j] += dy[i] * x[i, j]
    """
    if not task.placing:
        return stage
    points = task.options.contraction_points

    def simpler(part: Kernel, unsigned: Collection[Buffer]) -> Body:
        static = {**task.static, **{name: size for _, name, size in part.shared}}
        return _simplified(part.template, replace(task, static=static), unsigned)

    parts = list(stage.parts)
    hidden = [at for at, one in enumerate(parts) if contractions.is_hidden(one.body, points)]
    alike = with_templates(parts[at] for at in hidden)
    for at, one, body in zip(hidden, alike, per_template(alike, simpler, stage.unsigned), strict=True):
        parts[at] = one.with_template(body)
    return replace(stage, formed=tuple(parts))


def fuse(stage: Stage, task: Task) -> Stage:
    """Join kernels that touch the same cells at the same points of their loops.

    for i: y[i] = …;  for i: z[i] = y[i] …    becomes    for i: { y[i] = …;  z[i] = y[i] … }
    """

    def joined(parts: Sequence[Kernel]) -> Sequence[Kernel]:
        late, options = stage.rematerialised.late, task.options
        given = task.placing, task.checked, task.lasting, FusionCost, task.gathering
        return fused(parts, late, options, *given)

    return with_remarks_in_order(stage, joined(with_shared_loops(stage.parts, joined)))


def with_remarks_in_order(stage: Stage, kernels: Sequence[Kernel]) -> Stage:
    """The stage with kernels, the remarks of each in the order of the program."""
    order = {line: at for at, line in enumerate(dict.fromkeys(line for nest in stage.nests for line in nest.remarks))}
    return replace(stage, formed=tuple(replace(one, remarks=_in_order(one.remarks, order)) for one in kernels))


def _in_order(remarks: Collection[str], order: Mapping[str, int]) -> tuple[str, ...]:
    """Remarks as the program has them: what is inlined, or cleared first, comes to stand where it was assigned."""
    return tuple(sorted(set(remarks), key=order.__getitem__))


def forward_stores(stage: Stage, task: Task) -> Stage:
    """Forward stored values to the loads that follow, keep accumulators in registers, drop dead stores.

    y[i] = a;  z[i] = y[i] * 2    becomes    y = a;  z[i] = y * 2
    """
    return replace(stage, formed=tuple(forwarded(stage.kernels, task.kept)))


def deduplicate(stage: Stage, task: Task) -> Stage:
    """Find kernels that are equal but for names: what follows rewrites one of them for all.

    kernel 0: h1[i] = x[i] + b1[i];  kernel 1: h2[i] = h1[i] + b2[i]    becomes    kernel 1: kernel 0 with x as h1, …
    """
    return replace(stage, formed=tuple(with_templates(stage.kernels)))


def pad_windows(stage: Stage, task: Task) -> Stage:
    """Take all terms of contractions that tests or gates skip some of: zeros, where the other factor is finite.

    for k: if 0 <= o + k - 1 < 28: t = t + x[o + k - 1] * w[k]    becomes    for k: t = t + x_padded[o + k] * w[k]
    """
    cold = (Cold(),) if Cold in task.places else ()
    return each_kernel(stage, lambda body: with_padded_windows(body, task.options, cold)) if task.placing else stage


def partition(stage: Stage, task: Task) -> Stage:
    """Cut long accumulations into strips that threads can share.

    for i: s = s + x[i]    becomes    for strip: { for i: own = own + x[8 strip + i];  part[strip] = own };  …
    """
    return each_kernel(stage, lambda body: partitioned(body, task.options, task.placing)) if task.sharing else stage


def split_accumulations(stage: Stage, task: Task) -> Stage:
    """Take the values of a long accumulation in states of several numbers into many of them, on vectors.

    for i: s = mean(s, x[i])    becomes    for i: for l: part[l] mean= x[64 i + l];  for l: s = mean(s, part[l])
    """
    return where_placed(stage, task, Vector, lambda body: partial_states(body, task.options.thresholds))


def replace_aggregates(stage: Stage, task: Task) -> Stage:
    """Keep each number of a state by itself, and write out what monoids compute.

    s = mean(s, pack2(x[i], 1))    becomes    t = s_0 + x[i];  u = s_1 + 1;  s_0 = t;  s_1 = u
    """
    return each_kernel(stage, replaced_aggregates)


def simplify(stage: Stage, task: Task) -> Stage:
    """Simplify: algebraic rules, common subexpressions, loop-invariant code.

    for i: y[i] = x[i] * (2 * 3)    becomes    for i: y[i] = x[i] * 6
    """
    return each_kernel_knowing(stage, lambda body, unsigned: _simplified(body, task, unsigned), stage.unsigned)


def place_contractions(stage: Stage, task: Task) -> Stage:
    """Stage contractions for a backend that places them, with what works on their results.

    for i: for j: { t = 0;  for k: t = t + a[i, k] * b[k, j];  … }    becomes    product of left i; right j; sums k: …
    """
    if not task.placing:
        return stage
    options = task.options
    fits, points = lambda one: has_tile(one, options), options.contraction_points
    kernels = contractions.stage(stage.kernels, points, fits, gathers=task.gathering)
    return replace(stage, formed=tuple(kernels))


def multiply_as_floats(stage: Stage, task: Task) -> Stage:
    """Multiply narrow whole numbers as floats, where these hold every sum exactly.

    t = t + int64(a[i, k]) * int64(b[k, j])    becomes    u = u + float32(a[i, k]) * float32(b[k, j]);  t = int64(u)
    """
    return each_kernel(stage, lambda body: in_exact_floats(body, task.options)) if task.placing else stage


def split_products(stage: Stage, task: Task) -> Stage:
    """Cut the long sums of products into strips that threads can share, where rows and columns are too few.

    product of left i; right j; sums k: …    becomes    for strip: product of … part[strip, i, j] = own;  …
    """
    if not (task.placing and task.sharing):
        return stage
    return each_kernel(stage, lambda body: with_split_products(body, task.options))


def pack_invariants(stage: Stage, task: Task) -> Stage:
    """Copy factors that a loop around their contraction does not change, laid out for tiles.

    for t: product of … u[j, k] …    becomes    for k: for j: u_packed[k, j] = u[j, k];  for t: … u_packed[k, j] …
    """
    return where_placed(stage, task, Product, lambda body: with_packed_invariants(body, task.options))


def accumulate_in_lanes(stage: Stage, task: Task) -> Stage:
    """Give the sums and extrema of innermost loops an accumulator for each of many lanes, on vectors.

    for i: s = s + x[i]    becomes    for i: for l: part[l] += x[64 i + l];  for l: s = s + part[l]
    """
    return where_placed(stage, task, Vector, lambda body: in_lanes(body, task.options.thresholds))


def widen_sums(stage: Stage, task: Task) -> Stage:
    """Accumulate long sums in a wider type.

    s = s + x[i]    becomes    s.wide = s.wide + float64(x[i])
    """
    return each_kernel(stage, lambda body: widened(body, task.options.single_terms))


def block_loops(stage: Stage, task: Task) -> Stage:
    """Run nests block by block that read along one loop what they store along another, unless their order is given.

    for i: for j: y[i, j] = x[j, i]    becomes    for blocks of i and j: { for j: for i: x_block[j, i] = …;  … }
    """
    schedule = task.options.schedule
    if schedule.order or schedule.tiles:
        return stage
    return where_placed(stage, task, Vector, lambda body: blocked(body, task.options))


def rename_partials(stage: Stage, task: Task) -> Stage:
    """Give the partial accumulators of every kernel ids of their own: what two kernels share they would wait for.

    kernel 0: s_part#0[l] += …;  kernel 1: s_part#0[l] += …    becomes    kernel 1: s_part#1[l] += …
    """
    return replace(stage, formed=tuple(with_own_partials(stage.kernels)))


def fold_storage(stage: Stage, task: Task) -> Stage:
    """Fold the storage of buffers that outlast no iteration of a loop: they lose its axis.

    for i: { t[i, j] = …;  y[i] = … t[i, j] }    becomes    for i: { t[j] = …;  y[i] = … t[j] }
    """
    if Simt in task.places:  # threads that share a loop would share its cells
        return stage
    return replace(stage, formed=tuple(folded(stage.kernels, stage.outside)))


def hoist_checks(stage: Stage, task: Task) -> Stage:
    """Find what is checked of a run before it writes what outlasts it.

    w.grad = 0;  ids.extremes = …;  w.grad += …    becomes    ids.extremes = …;  w.grad = 0;  w.grad += …
    """
    return replace(stage, formed=hoisted_checks(stage.kernels, task.checked, task.lasting))


def plan_memory(stage: Stage, task: Task) -> Stage:
    """Give the buffers nobody wants afterwards offsets in one arena; one that takes another's memory takes its name.

    u[i] = …;  v[i] = f(u[i])    becomes    u[i] = …;  u[i] = f(u[i])
    """
    plan = planned(stage.kernels, stage.outside, in_place=True)
    return replace(stage, plan=plan, formed=tuple(with_templates(coalesced(stage.kernels, plan.shares))))


#: What happens between loops and kernels, in order.
PASSES = (
    Pass("distribute", distribute),
    Pass("reuse_copies", reuse_copies),
    Pass("forward_copies", forward_copies),
    Pass("scatter_to_gather", scatter_to_gather),
    Pass("order_loops", order_loops),
    Pass("strip_mine", strip_mine),
    Pass("rematerialise", rematerialise),
    Pass("decide_inlining", decide_inlining),
    Pass("inline", inline),
    Pass("interchange", interchange),
    Pass("gather", gather),
    Pass("sort_rows", sort_rows),
    Pass("simplify_nests", simplify_nests),
    Pass("fuse", fuse),
    Pass("forward_stores", forward_stores),
    Pass("deduplicate", deduplicate),
    Pass("pad_windows", pad_windows),
    Pass("partition", partition),
    Pass("split_accumulations", split_accumulations),
    Pass("replace_aggregates", replace_aggregates),
    Pass("simplify", simplify),
    Pass("place_contractions", place_contractions),
    Pass("multiply_as_floats", multiply_as_floats),
    Pass("split_products", split_products),
    Pass("pack_invariants", pack_invariants),
    Pass("accumulate_in_lanes", accumulate_in_lanes),
    Pass("widen_sums", widen_sums),
    Pass("block_loops", block_loops),
    Pass("rename_partials", rename_partials),
    Pass("fold_storage", fold_storage),
    Pass("hoist_checks", hoist_checks),
    Pass("plan_memory", plan_memory),
    Pass("apply_tuned", apply_tuned),
    Pass("tile", tile),
    Pass("collapse", collapse),
    Pass("parallelise", parallelise),
    Pass("unroll_jam", unroll_jam),
    Pass("vectorise", vectorise),
    Pass("launch", launch),
    Pass("nontemporal_stores", nontemporal_stores),
    Pass("prefetch_rows", prefetch_rows),
)


#: What happens where nothing is optimised: long sums are exact all the same, and loops run on vectors.
UNOPTIMISED = tuple(
    one
    for one in PASSES
    if one.run in (replace_aggregates, widen_sums, hoist_checks, collapse, unroll_jam, vectorise, launch)
)


def _simplified(body: Body, task: Task, unsigned: Collection[Buffer]) -> Body:
    return rewrite(body, task.static, task.options.fast_math, unsigned)
