"""How big: what the specification says of labels and rows that no other test shows."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf


def test_one_label_may_have_two_sizes_on_axes_that_never_meet() -> None:
    small, large = (wf.tensor(wf.labelled("rgb", [1.0] * size)) for size in (3, 4))
    table = wf.einsum("i; j => ij", small, large)
    assert str(table.dims) == "rgb=3,rgb=4"
    with pytest.raises(wf.ShapeError, match="cannot be both 3 and 4"):
        small + large


def test_what_an_einsum_names_does_not_broadcast_and_what_it_leaves_to_dots_matches_exactly() -> None:
    row, wide = wf.data(np.ones((1, 3))), wf.data(np.ones((2, 3)))
    assert str((row + wide).dims) == "2,3"
    for spec in ("ij; ij => ij", "...; ... => ..."):
        with pytest.raises(wf.ShapeError, match="cannot be both 1 and 2"):
            wf.einsum(spec, row, wide)
