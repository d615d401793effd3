"""A few draws of every generator of random programs; `python -m generators` tries more."""

from __future__ import annotations

import os

import pytest

from generators import attempt, generators

#: How many draws of each, fewer of those that take long; a campaign sets more.
DRAWS, FEW = 8, {"models": 2, "scans": 3, "long": 3, "heads": 2, "lengths": 5, "plain": 5}
ASKED = int(os.environ.get("WEFT_DRAWS", "0"))


@pytest.mark.parametrize("name", sorted(generators()))
def test_what_must_hold_of_random_programs(name: str) -> None:
    for number in range(ASKED or FEW.get(name, DRAWS)):
        attempt(generators()[name], 0, number)
