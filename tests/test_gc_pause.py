"""Garbage is not looked for while many objects are made, nor among those that last."""

from __future__ import annotations

import gc
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

import weft
from weft.gc_pause import gc_paused


class _Made:
    """Something that the collector tracks."""


@pytest.fixture(autouse=True)
def _collecting() -> Iterator[None]:
    gc.unfreeze()  # what the tests before have made
    yield
    gc.freeze()
    gc.enable()


def _is_old(one: object) -> bool:
    return any(other is one for other in gc.get_objects(generation=2))


def test_nothing_is_collected_meanwhile_and_again_afterwards() -> None:
    assert not gc_paused(gc.isenabled)
    assert gc.isenabled()
    with pytest.raises(ZeroDivisionError):
        gc_paused(lambda: 1 // 0, lasting=True)
    assert gc.isenabled()


def test_what_lasts_is_old_at_once() -> None:
    made, young = gc_paused(_Made, lasting=True), gc_paused(_Made)
    assert _is_old(made)
    assert not _is_old(young)
    assert not gc.get_freeze_count()


def test_what_a_program_has_frozen_stays_so() -> None:
    gc.freeze()
    frozen = gc.get_freeze_count()
    gc_paused(_Made, lasting=True)
    assert gc.get_freeze_count() >= frozen > 0


def test_who_does_not_collect_is_left_alone() -> None:
    gc.disable()
    made = gc_paused(_Made, lasting=True)
    assert not gc.isenabled()
    assert not _is_old(made)


def test_rooms_are_old_once_they_are_loaded() -> None:
    code = "import gc, sys, weft as wf; wf.Context; room = vars(sys.modules['weft.tensor.tensor']); "
    code += "print(any(one is room for one in gc.get_objects(generation=2)))"
    env = {**os.environ, "PYTHONPATH": str(Path(weft.__file__).parent.parent)}
    done = subprocess.run([sys.executable, "-c", code], env=env, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
