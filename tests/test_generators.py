"""A few draws of every generator of random programs; `python -m generators` tries more."""

from __future__ import annotations

import os

import pytest

from generators import draw, generators

#: How many draws of each; a campaign sets more.
DRAWS = int(os.environ.get("WEFT_DRAWS", "8"))


@pytest.mark.parametrize("name", sorted(generators()))
def test_what_must_hold_of_random_programs(name: str) -> None:
    for number in range(DRAWS):
        generators()[name](draw(0, number))
