"""From loops to kernels: what is computed where, what runs together, what is kept in memory."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, replace

from weft.loops import Buffer, Product, Program, Remark, Spread
from weft.loops import show as show_loops
from weft.loops.gather import gather
from weft.loops.inline import inline
from weft.loops.nests import nests
from weft.loops.rewrite import rewrite
from weft.loops.virtual import Settings, Verdict, decide
from weft.loops.wide import widened
from weft.loops.zeros import unsigned_buffers
from weft.schedule.again import again
from weft.schedule.clock import Clock
from weft.schedule.fold import fold
from weft.schedule.forward import forward
from weft.schedule.fuse import Kernel, fuse, kernels
from weft.schedule.gain import Scales
from weft.schedule.inplace import as_one
from weft.schedule.memory import Plan, plan
from weft.schedule.options import Options, arranged, spread
from weft.schedule.products import stage as stage_products

__all__ = [
    "Clock",
    "Kernel",
    "Options",
    "Schedule",
    "Settings",
    "Verdict",
    "schedule",
    "show_kernels",
    "show_verdicts",
]


@dataclass(frozen=True, slots=True)
class Schedule:
    """A program cut into kernels, and what was decided about every buffer."""

    kernels: tuple[Kernel, ...]
    verdicts: Mapping[Buffer, Verdict]
    plan: Plan

    @property
    def program(self) -> Program:
        """The kernels one after another; a buffer that takes over another's memory goes by that one's name."""
        merged = as_one(self.kernels, self.plan.shares)
        return Program(tuple(Remark("\n".join(one.remarks), one.body) for one in merged))


def schedule(
    program: Program,
    kept: Mapping[Buffer, str],
    *,
    static: Mapping[str, int] | None = None,
    settings: Settings = Settings(),  # noqa: B008 it is frozen
    recompute: Collection[Buffer] = (),
    fast: bool = False,
    places: Collection[type] = (),
    options: Options = Options(),  # noqa: B008 it is frozen
    clock: Clock | None = None,
) -> Schedule:
    """Cut a lowered program into kernels.

    `kept` says of buffers why they must be in memory afterwards; `static` gives the sizes of static indices;
    `recompute` are buffers to be computed again rather than stored; `fast` uses rules for finite numbers only;
    `places` are the kinds of descriptions that the backend places, which are staged for it; `options` are choices about
    loops that somebody made.
    """
    sizes, stage = dict(static or {}), clock or Clock()
    with stage("virtual"):
        found = again([arranged(nest, options) for nest in nests(program)], kept)
        parts, forced = found.nests, {*recompute, *(one for one, of in found.copies.items() if of in recompute)}
        verdicts = decide(parts, kept, settings, forced, found.often)
        verdicts |= {one: replace(verdicts[one], why=f"{verdicts[one].why}; {why}") for one, why in found.why.items()}
        inlined = inline(parts, {buffer for buffer, verdict in verdicts.items() if not verdict.stored}, sizes)
        positive = unsigned_buffers(parts)
        gathered = [replace(one, body=gather(one.body, fast, positive)) for one in kernels(inlined)]
    with stage("fuse"):
        fused = forward(fuse(gathered, found.late, Scales(options.threads)), kept)
    written = {nest.target for nest in parts}
    outside = {*kept, *(buffer for buffer in verdicts if buffer not in written)}
    with stage("rewrite"):
        simple = [replace(one, body=rewrite(one.body, sizes, fast, positive)) for one in fused]
    with stage("products"):
        staged = stage_products(simple, outside) if Product in places and not options.order else simple
        wide = [replace(one, body=widened(one.body)) for one in staged]
    with stage("memory"):
        folded = fold(wide, outside)
        folded = [spread(one, options) for one in folded] if Spread in places else folded
        return Schedule(tuple(folded), verdicts, plan(folded, outside, in_place=True))


def show_verdicts(found: Schedule | None) -> str:
    """Of every buffer, whether it is stored and why."""
    if found is None:
        return "every buffer is stored: the program is not optimised"
    rows = [(buffer.name, "stored" if one.stored else "virtual", one.why) for buffer, one in found.verdicts.items()]
    wide = max((len(name) for name, _, _ in rows), default=0)
    return "\n".join(f"{name:<{wide}}  {kind:<7}  {why}" for name, kind, why in rows)


def show_kernels(found: Schedule | None) -> str:
    """The loops of every kernel, with the assignments it came from and why it was not joined to one before."""
    if found is None:
        return "every assignment is a kernel of its own: the program is not optimised"
    parts = []
    for number, kernel in enumerate(found.kernels):
        lines = dict.fromkeys(line for remark in kernel.remarks for line in remark.splitlines())
        title = f"kernel {number}" + (f": {kernel.why}" if kernel.why else "")
        parts.append("\n".join([title, *(f"# {line}" for line in lines), show_loops(Program(kernel.body))]))
    return "\n\n".join(parts)
