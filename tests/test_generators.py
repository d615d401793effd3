"""A few draws of every generator of random programs; `python -m generators` tries more."""

from __future__ import annotations

import os
from collections.abc import Mapping
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
    {
        "scans": 3,
        "long": 3,
        "heads": 2,
        "lengths": 5,
        "plain": 5,
        "models": 2,
        "attention": 3,
        "training": 3,
        "curvature": 3,
    },
)
ASKED = int(os.environ.get("WEFT_DRAWS", "0"))


@pytest.mark.parametrize("name", sorted(generators()))
def test_what_must_hold_of_random_programs(name: str) -> None:
    for number in range(ASKED or FEW.get(name, DRAWS)):
        attempt(generators()[name], 0, number)


#: Whose programs passes have something to do with; those that are not listed are looked for among all of these.
CHANGED = {
    "nests": "distribute decide_inlining inline fuse forward_stores simplify plan_memory parallelise vectorise",
    "large": "tile collapse partition place_contractions accumulate_in_lanes number_partials widen_sums fetch_ahead "
    "bypass_caches",
    "scatters": "order_loops interchange",
    "windows": "scatter_to_gather simplify_nests pad_windows",
    "positions": "check_first find_alike",
    "monoids": "replace_aggregates split_accumulations",
    "narrow": "unroll_jam",
    "special": "gather",
    "plain": "fold_storage",
    "contractions": "block_loops",
    "simt": "launch",
    "reductions": "reuse_copies",
    "heads": "strip_mine pack_invariants",
    "models": "rematerialise",
}
CHANGED_ON_GPU = {
    "launches": "distribute decide_inlining inline fuse forward_stores simplify order_loops cut_launches run_on_grid",
    "windows": "scatter_to_gather simplify_nests place_contractions widen_sums forward_fills join_straight plan_memory",
    "positions": "find_alike",
    "monoids": "replace_aggregates",
    "special": "gather split_long_sums",
    "products": "copy_factors",
    "attention": "group_sweeps sweep_columns",
    "models": "reuse_copies check_first",
}
#: What tuning found is applied to kernels alone, by `generators/options.py`; the others have yet to be drawn on a GPU.
APART = {"recall_decisions"}
APART_ON_GPU = APART | {"interchange", "number_partials"}


def _exercise(kind: str, passes: set[str], changed: Mapping[str, str]) -> set[str]:
    """The passes that changed nothing."""
    listed = {one for names in changed.values() for one in names.split()}
    seen, others = set[str](), passes - listed
    for name, own in changed.items():
        wanted = passes.intersection(own.split())
        for number in range(40):
            if wanted <= seen and (others <= seen or number > 8):
                break
            with exercised() as found:
                attempt(generators()[name], 0, number)
            seen.update(one for (where, one), times in found.items() if where == kind and times)
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
