"""A few draws of every generator of random programs; `python -m generators` tries more."""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import pytest

from backends.triton_interpreted import OnGrid
from generators import attempt, generators
from generators._exercised import exercised
from weft import backends
from weft.schedule.gpu import GPU_PASSES
from weft.schedule.pipeline import PASSES

#: How many draws of each, fewer of those that take long; a campaign sets more.
DRAWS, FEW = (
    8,
    {"scans": 3, "long": 3, "heads": 2, "lengths": 5, "plain": 5, "models": 2, "attention": 3, "training": 3},
)
ASKED = int(os.environ.get("WEFT_DRAWS", "0"))


@pytest.mark.parametrize("name", sorted(generators()))
def test_what_must_hold_of_random_programs(name: str) -> None:
    for number in range(ASKED or FEW.get(name, DRAWS)):
        attempt(generators()[name], 0, number)


@dataclass(frozen=True)
class Changed:
    """Passes that change programs of a generator: in these draws, or where they do not any more, in some others."""

    passes: str
    draws: tuple[int, ...]


#: Whose programs passes have something to do with: few draws, each with several, none that runs for long.
CHANGED = {
    "nests": Changed(
        "distribute decide_inlining inline fuse forward_stores simplify plan_memory parallelise vectorise order_loops",
        (0, 1, 2),
    ),
    "large": Changed(
        "tile collapse partition place_contractions accumulate_in_lanes number_partials widen_sums simplify_nests"
        " unroll_jam interchange block_loops reuse_copies find_alike",
        (2, 3),
    ),
    "windows": Changed("scatter_to_gather pad_windows", (5,)),
    "reductions": Changed("replace_aggregates split_accumulations radix_sort", (5, 14)),
    "special": Changed("gather", (6,)),
    "plain": Changed("check_first", (3,)),
    "simt": Changed("launch", (1,)),
    "heads": Changed("strip_mine pack_invariants fetch_ahead fold_storage", (2,)),
    "models": Changed("rematerialise", (1,)),
}
CHANGED_ON_GPU = {
    "launches": Changed(
        "distribute decide_inlining inline fuse forward_stores simplify order_loops cut_launches run_on_grid",
        (1, 2, 4, 5, 9),
    ),
    "windows": Changed(
        "scatter_to_gather simplify_nests place_contractions widen_sums forward_fills join_straight plan_memory",
        (1, 2, 3, 5),
    ),
    "positions": Changed("find_alike", (0,)),
    "monoids": Changed("replace_aggregates", (1, 2, 5)),
    "special": Changed("gather split_long_sums", (6, 8, 9)),
    "products": Changed("copy_factors rematerialise", (1, 3, 4)),
    "attention": Changed("group_sweeps sweep_columns", (9, 225)),
    "models": Changed("reuse_copies check_first", (1, 2, 13)),
}
#: What tuning found is applied to kernels alone, by `generators/options.py`; the others have yet to be drawn on a GPU.
APART = {"recall_decisions"}
APART_ON_GPU = APART | {"interchange", "number_partials"}


def _exercise(kind: str, passes: set[str], changed: Mapping[str, Changed]) -> set[str]:
    """The passes that changed nothing."""
    seen = set[str]()
    for name, one in changed.items():
        for number in dict.fromkeys((*one.draws, *range(40))):
            if number not in one.draws and passes.intersection(one.passes.split()) <= seen:
                break
            with exercised() as found:
                attempt(generators()[name], 0, number)
            seen.update(done for (where, done), times in found.items() if where == kind and times)
    return passes - seen


def test_every_pass_changes_programs_that_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))  # what was compiled before is not compiled again
    left = _exercise("cpu", {one.name for one in PASSES} - APART, CHANGED)
    assert not left, "write a generator whose programs they change"


def test_every_pass_of_a_gpu_changes_programs_that_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))
    monkeypatch.setitem(backends._BACKENDS, "cc", OnGrid)
    left = _exercise("gpu", {one.name for one in GPU_PASSES} - APART_ON_GPU, CHANGED_ON_GPU)
    assert not left, "write a generator whose programs they change"
