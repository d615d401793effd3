"""A few draws of every generator of random programs; `python -m generators` tries more."""

from __future__ import annotations

import os
from collections.abc import Collection
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


#: What is drawn until every pass has changed a program: those first that many passes have something to do with.
TRIED = ("nests", "launches", "scatters", "positions", "windows", "monoids", "narrow", "special", "products", "simt")
TRIED_LAST = ("models", "reductions", "contractions", "heads", "attention", "scans")
#: What tuning found is applied to kernels alone: `generators/options.py` does that.
APART = {"recall_decisions"}


def _not_exercised(kind: str, passes: Collection[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> set[str]:
    monkeypatch.setenv("WEFT_CACHE", str(tmp_path))  # what was compiled before is not compiled again
    left = set(passes)
    for name in (*TRIED, *TRIED_LAST):
        for number in range(24):
            with exercised() as found:
                attempt(generators()[name], 0, number)
            left.difference_update(one for (where, one), times in found.items() if where == kind and times)
            if not left:
                return left
    return left


def test_every_pass_changes_programs_that_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names = {one.name for one in PASSES} - APART
    assert not _not_exercised("cpu", names, tmp_path, monkeypatch), "write a generator whose programs it changes"


def test_every_pass_of_a_gpu_changes_programs_that_are_drawn(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(backends._BACKENDS, "cc", OnGrid)
    names = {one.name for one in GPU_PASSES} - APART
    assert not _not_exercised("gpu", names, tmp_path, monkeypatch), "write a generator whose programs it changes"
