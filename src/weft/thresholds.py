"""Where passes draw the lines that hardly anybody moves: how large tiles, groups, lanes and strips are, what is few."""

from __future__ import annotations

from dataclasses import dataclass, fields

from weft.errors import WeftError
from weft.public import public_constructor


@public_constructor
@dataclass(frozen=True, slots=True)
class Thresholds:
    """The lines that passes draw, as they were found best: `wf.CompileOptions(thresholds=wf.Thresholds(tile_rows=6))`.

    **Tiles of products.** A tile has `tile_rows` at most, as far as registers hold them, times `tile_vectors`; where
    `few_tiles` or less do that are taller, it has `tall_tile_rows`, unless the last one would then be lower, and of the
    usual ones none is. One whose sums are interleaved has `interleaved_vectors`. One that has all rows, or loads its
    columns where they lie, has as many vectors as registers hold, `row_vectors` at most. Along sums it has half as many
    rows times `dot_columns`, `dot_row_columns` if it has but one row. From `packed_tiles` tiles of rows on columns are
    packed, `panels_at_once` where those of one come from far. Where their sums do not fit into one panel, `group_tiles`
    tiles share it before the next block of sums; of several loops over rows, all rows do if they are no more than
    `group_rows`. Rows that are packed are so for `group_panels` panels, `packed_strips` strips of them at once; those
    that are copied before, all for `copied_sums` sums at once. What a tile reads of its rows is prefetched `rows_ahead`
    cache lines ahead, if it is one piece of memory that comes from far. Of contractions whose results meet at the same
    cells `joint_sums` run as one at most (1: none), each for `joint_tiles` tiles of rows before the next. From
    `look_rows` rows on a tile looks first whether all terms of an extremum are numbers, for `look_tiles` tiles at once.
    A contraction of `filled_tiles` rows, columns and sums has work for tiles in every iteration of a loop around it.

    **Threads.** A loop is cut into `most_chunks` chunks at most. One of fewer than `few_iterations`, which do not come
    out even for all cores, around another is shared where that one cannot be. Of a product there are as many chunks for
    each core, `busy_chunks` at most, or as many as there can be; they are as small as they can be where that costs no
    more than `claiming_share`.
    Accumulators of several threads are worth it if joining them takes no more than `joining_share` of the work.
    Where rows may meet in one place, threads have columns of `column_lines` cache lines at least.

    **Accumulations.** A sum or an extremum has `lanes` at most, each of `lane_terms` terms at least; `lanes_left` are
    joined one after another in the end. Of nested loops the innermost has `nested_lanes` at least; where these are no
    multiple of that, several rows run side by side, in `side_by_side` times `lanes` at most. Memory is read in
    `streams` at once, where there are `stream_rows` rows of lanes. States of several numbers are `states` at most, of
    `state_values` values each at least; `states_left` are joined one after another, and no more are made where joining
    two takes more than `state_operations`, which hides its own latency; those of a short cut take `state_bytes` at
    most, half of the registers. Accumulators that registers hold stay there if what is done with all of them, written
    out, has no more than `written_operations`.

    **Order.** Rows of `sorted_elements` or more are sorted; of fewer, each element is compared with all others.

    **Strips.** Contractions one after another run in strips of `strip_rows_least` to `strip_rows_most` rows, with nests
    that are no further than `strip_distance` from the first. Where a mask hides columns they are in ranges, each of
    which saves `strip_range_share` of the points at least, of a multiple of `strip_columns` columns, or of fewer where
    there are not so many of these; a mask hides what it lowers by `hidden_depth`. A window that is read under tests is
    copied with a border if each cell of the copy is used `border_uses` times on average. Rows of `fetched_lines` cache
    lines at least are fetched while the one before is worked on, where there are more of them than the second cache
    holds; those that are gathered `gathered_lines` lines before they are read. What is stored in pieces of
    `bypassed_lines` at least goes past the caches, where all that is touched is more than they hold, or where rows that
    are passed over several times fill `rows_share` of the first one with the next. What is read across what is stored
    is so in blocks of `block_lines` cache lines at most.

    **GPUs.** What runs a cell on a thread has thread blocks of `simt_block`. A sum that fewer threads would add up is
    cut into `simt_strips` at most, which they share, if joining these takes no more than `simt_joining_share` of the
    work. A recurrence whose steps have work for `simt_wide` threads is one launch or several for each step,
    `simt_steps` at most.
    """

    tile_rows: int = 8
    tile_vectors: int = 2
    interleaved_vectors: int = 4
    tall_tile_rows: int = 10
    few_tiles: int = 4
    row_vectors: int = 16
    dot_columns: int = 4
    dot_row_columns: int = 8
    packed_tiles: int = 4
    group_tiles: int = 32
    group_rows: int = 1024
    group_panels: int = 8
    packed_strips: int = 8
    panels_at_once: int = 4
    copied_sums: int = 64
    rows_ahead: int = 64
    joint_sums: int = 4
    joint_tiles: int = 16
    look_rows: int = 5
    look_tiles: int = 16
    filled_tiles: int = 16
    most_chunks: int = 64
    few_iterations: int = 8
    busy_chunks: int = 8
    claiming_share: float = 1 / 32
    joining_share: float = 1 / 32
    column_lines: int = 2
    lanes: int = 64
    lane_terms: int = 4
    lanes_left: int = 4
    nested_lanes: int = 16
    side_by_side: int = 8
    streams: int = 4
    stream_rows: int = 16
    states: int = 64
    state_values: int = 4
    states_left: int = 8
    state_operations: int = 100
    state_bytes: int = 1024
    written_operations: int = 256
    sorted_elements: int = 64
    strip_rows_least: int = 32
    strip_rows_most: int = 64
    strip_distance: int = 100
    strip_range_share: float = 1 / 32
    strip_columns: int = 32
    hidden_depth: float = 1e8
    border_uses: int = 4
    simt_block: int = 256
    fetched_lines: int = 8
    gathered_lines: int = 128
    bypassed_lines: int = 4
    block_lines: int = 4
    rows_share: float = 3 / 4
    simt_strips: int = 1024
    simt_joining_share: float = 1 / 8
    simt_wide: int = 4096
    simt_steps: int = 512

    def __post_init__(self) -> None:
        for one in fields(self):
            value = getattr(self, one.name)
            if (wanted := _refused(one.name, value, one.default)) is not None:
                what = f"Thresholds.{one.name} is {wanted}, not {value!r}"
                raise WeftError(what, fix=f"for example wf.Thresholds({one.name}={one.default!r})")
        for few, many in _ORDERED:
            if getattr(self, few) > getattr(self, many):
                what = f"Thresholds.{few} is {getattr(self, few)}, more than {many}, which is {getattr(self, many)}"
                raise WeftError(what, fix=f"for example wf.Thresholds({few}={getattr(self, many)})")


#: The least that numbers may be, where that is not 1: several lanes are a loop.
_LEAST = {"nested_lanes": 2}
#: The most that numbers may be: tiles are written out, and lanes add up a bounded number of terms.
_MOST = {
    "tile_rows": 64,
    "tall_tile_rows": 64,
    "tile_vectors": 8,
    "interleaved_vectors": 8,
    "row_vectors": 64,
    "dot_columns": 64,
    "dot_row_columns": 64,
}
_MOST |= {"group_tiles": 1024, "group_panels": 1024, "packed_strips": 1024, "panels_at_once": 1024, "look_tiles": 1024}
_MOST |= {"rows_ahead": 1024, "block_lines": 1024}
_MOST |= {"joint_sums": 16, "joint_tiles": 1024}
_MOST |= {"lanes": 1024, "states": 1024, "streams": 16, "simt_block": 1024}
#: What may not be more than something else.
_ORDERED = (
    ("strip_rows_least", "strip_rows_most"),
    ("lanes_left", "lanes"),
    ("nested_lanes", "lanes"),
    ("streams", "stream_rows"),
    ("states_left", "states"),
)


def _refused(name: str, value: object, default: object) -> str | None:
    """What a threshold takes, if a value is not that."""
    least, most = _LEAST.get(name, 1), _MOST.get(name, 1 << 20)
    if isinstance(default, float):
        number = isinstance(value, int | float) and not isinstance(value, bool)
        return None if number and value > 0 else "a number above 0"  # type: ignore[operator]
    return None if _is_count(value, least, most) else f"a whole number from {least} to {most}"


def _is_count(value: object, least: int, most: int) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and least <= value <= most


#: The lines as they were found best.
USUAL = Thresholds()
