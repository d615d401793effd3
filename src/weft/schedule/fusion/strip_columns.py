"""Columns of strips: a strip of rows runs along those alone that a mask of indices leaves visible in some of them.

    for t_strip: { for t: for s in range(1024): a[t, s] = q[t] . k[s] + where(s <= 64 t_strip + t, 0, -1e9);  … }

becomes, of 16 strips of 64 rows, in 4 ranges, of which this is the first,

    for t_strip in range(4): { for t: for s in range(256): a[t, s] = …;  … }

What a mask hides must be nothing to all who sum over it (`hidden_blocks.py`), and nobody else may look at it: of a
matrix that others read as well, as gradients do what the forward pass kept, it must be 0, and is stored. Columns of a
range are the same for all its strips, or move on with them, as those that a window leaves do.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial

from weft.affine import Affine
from weft.loops.nests import Nest
from weft.loops.nodes import Buffer, Store, Update
from weft.loops.walk import substituted
from weft.ops import Scalar
from weft.optimise.forward_fills import with_forwarded_fills
from weft.schedule.fusion.hidden_blocks import Masks, Visible, columns_seen
from weft.schedule.fusion.index_values import with_indices_inlined
from weft.schedule.fusion.strips import AxisRoles, Roles
from weft.thresholds import USUAL, Thresholds


@dataclass(frozen=True, slots=True)
class StripRange:
    """So many strips from one on, and the columns of the first, which are `step` further on in each that follows."""

    first: int
    strips: int
    start: int
    size: int
    step: int = 0


@dataclass(frozen=True, slots=True)
class Vanishing:
    """A matrix that is 0 but where some forms are not negative, by the roles of its axes."""

    axes: AxisRoles
    forms: Visible

    def named(self, axes: AxisRoles) -> Visible:
        """The forms by other roles of the axes."""
        roles = {old: Affine.of(new) for old, new in zip(self.axes, axes, strict=True) if old}
        return frozenset(one.substitute(roles) for one in self.forms)


def visible_forms(
    members: Sequence[tuple[Nest, Mapping[str, str]]],
    roles: Roles,
    core: Collection[Buffer],
    known: Mapping[Buffer, Nest],
    vanish: Mapping[Buffer, Visible],
    lines: Thresholds = USUAL,
) -> Visible:
    """Where some nests have to look at matrices, by the roles of loops; no forms if that is everywhere.

    `core` are the matrices that nobody else reads, `known` what buffers hold that are numbers of indices, and others
    `vanish` but where they are visible.
    """
    if len(roles.columns) != 1:
        return frozenset()
    column = roles.columns[0]
    nests = with_forwarded_fills([_named(with_indices_inlined(nest, known), loops) for nest, loops in members])
    masks = replace(_masks(nests, roles, core, lines), vanish=vanish)
    found: Visible | None = None
    for nest in nests:
        if nest.target in core or column[0] not in dict(nest.loops):
            continue
        seen = _seen(nest, masks)
        if not seen or (found is not None and found != seen):
            return frozenset()
        found = seen
    return found or frozenset()


def _named(nest: Nest, loops: Mapping[str, str]) -> Nest:
    """A nest with the names of roles for its loops, and others for those that have none."""
    called = {name: f"{name}." for name, _ in nest.loops} | {name: role for role, name in loops.items()}
    values = {name: Affine.of(new) for name, new in called.items()}
    named = nest.mapped(partial(substituted, values=values))
    return replace(named, loops=tuple((called[name], size) for name, size in nest.loops))


def _masks(nests: Sequence[Nest], roles: Roles, core: Collection[Buffer], lines: Thresholds) -> Masks:
    writers = dict[Buffer, list[Nest]]()
    for nest in nests:
        writers.setdefault(nest.target, []).append(nest)
    masks, maxima = Masks(writers, {}, lines.hidden_depth), dict[Buffer, Scalar]()
    for buffer, those in writers.items():
        match [one.core for one in those if isinstance(one.core, Update)]:
            case [Update(op="max", value=value)] if buffer not in core:
                forms = masks.low(value)
                if forms and columns_seen(forms, roles.row, roles.columns[0]):
                    maxima[buffer] = value
    return replace(masks, maxima=maxima)


def _seen(nest: Nest, masks: Masks) -> Visible | None:
    """Where what a nest takes from columns, or leaves there, is something; None if that may be anywhere."""
    core = nest.core
    if isinstance(core, Store):
        alone = len(masks.writers[nest.target]) == 1 and all(read.buffer != nest.target for read in nest.reads)
        return masks.vanishing(core.value) if alone else None
    if core.op == "add":
        return masks.vanishing(core.value)
    return masks.low(core.value) if nest.target in masks.maxima else None


def strip_ranges(
    seen: Sequence[tuple[int, int]], rows: int, columns: int, lines: Thresholds = USUAL
) -> list[StripRange]:
    """Strips of so many rows in as few points as ranges make them, where rows see columns from one to before another.

    Each range beyond the first saves a share of all points. Rows that are left over are in none.
    """
    spans = [_hull(seen[at : at + rows]) for at in range(0, len(seen) - rows + 1, rows)]
    ends = [*range(0, len(spans), -(-len(spans) // lines.most_chunks)), len(spans)]
    aligned = max(min(columns // lines.strip_columns, lines.strip_columns), 1)
    whole = {
        (at, to): one for at in ends[:-1] for to, one in _ranges_from(at, spans, rows, columns, aligned) if to in ends
    }
    best = {to: [whole[0, to]] for to in ends[1:]}
    while True:
        more = {
            to: min(([*best[at], whole[at, to]] for at in ends if at in best and at < to), key=_points, default=[])
            for to in ends[2:]
        }
        better = {to: some for to, some in more.items() if some}
        saved = _points(best[ends[-1]]) - _points(better.get(ends[-1], best[ends[-1]]))
        if saved < max(lines.strip_range_share * len(spans) * columns, 1):
            return best[ends[-1]]
        best = better


def _points(ranges: Sequence[StripRange]) -> int:
    return sum(one.strips * one.size for one in ranges)


def _hull(spans: Sequence[tuple[int, int]]) -> tuple[int, int]:
    """The columns from the first to the last of some."""
    return min(low for low, _ in spans), max(high for _, high in spans)


def _ranges_from(
    at: int, spans: Sequence[tuple[int, int]], rows: int, columns: int, aligned: int
) -> Iterator[tuple[int, StripRange]]:
    """The ranges that begin with a strip, by the strip before which they end."""
    still = moving = columns, 0
    for to in range(at, len(spans)):
        (low, high), on = spans[to], rows * (to - at)
        still = min(still[0], low), max(still[1], high)
        moving = (low - on, high - on) if to == at else (min(moving[0], low - on), max(moving[1], high - on))
        start, end = still[0] // aligned * aligned, min(-(-still[1] // aligned) * aligned, columns)
        found = StripRange(at, to + 1 - at, start, end - start)
        first, size = moving[0], moving[1] - moving[0]
        if first >= 0 and first + size + on <= columns and size < found.size:
            found = StripRange(at, to + 1 - at, first, size, rows)
        yield to + 1, found
