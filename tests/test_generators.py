"""A few draws of every generator of random programs; `python -m generators` tries more."""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

import pytest

from backends.on_grid import OnGrid
from generators import attempt, generators
from generators._exercised import exercised
from weft import backends
from weft.schedule.gpu.gpu_pipeline import GPU_PASSES
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
        "mixtures": 4,
        "attention": 3,
        "training": 3,
        "curvature": 3,
        "sorting": 4,
    },
)
ASKED = int(os.environ.get("WEFT_DRAWS", "0"))


@pytest.mark.parametrize("name", sorted(generators()))
def test_what_must_hold_of_random_programs(name: str) -> None:
    for number in range(ASKED or FEW.get(name, DRAWS)):
        attempt(generators()[name], 0, number)


#: Draws in which, taken together, every pass changes something, and none of which runs for long.
CHANGED = {
    "nests": (0, 1, 2),
    "large": (2, 3, 10, 32),
    "windows": (5,),
    "reductions": (5, 14),
    "special": (6,),
    "plain": (3,),
    "simt": (1,),
    "heads": (2,),
    "models": (1,),
    "narrow": (5,),
}
CHANGED_ON_GPU = {
    "launches": (1, 2, 4, 5, 9),
    "windows": (1, 2, 3, 5),
    "positions": (0,),
    "monoids": (1, 2, 5),
    "special": (6, 8, 9),
    "products": (1, 3, 4),
    "attention": (6, 9, 225),
    "heads": (5,),
    "models": (1, 2, 13),
}
#: What tuning found is applied to kernels alone, by `generators/options.py`; the others have yet to be drawn on a GPU.
APART = {"apply_tuned"}
APART_ON_GPU = APART | {"interchange", "rename_partials"}


def _exercise(kind: str, passes: set[str], changed: Mapping[str, Sequence[int]]) -> set[str]:
    """The passes that changed nothing: in no draw that is listed, nor in others of these generators."""
    listed = [(name, number) for name, numbers in changed.items() for number in numbers]
    others = [(name, number) for number in range(20) for name in changed]
    seen = set[str]()
    for name, number in dict.fromkeys(listed + others):
        if (name, number) not in listed and passes <= seen:
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
