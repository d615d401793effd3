"""Thresholds as one value: what it refuses, and that passes ask it."""

from __future__ import annotations

from dataclasses import fields

import numpy as np
import pytest

import weft as wf


@pytest.mark.parametrize(
    ("given", "what"),
    [
        ({"tile_rows": 0}, "Thresholds.tile_rows is a whole number from 1 to 64, not 0"),
        ({"tile_rows": 65}, "Thresholds.tile_rows is a whole number from 1 to 64, not 65"),
        ({"look_rows": True}, "Thresholds.look_rows is a whole number from 1 to 1048576, not True"),
        ({"joining_share": "much"}, "Thresholds.joining_share is a number above 0, not 'much'"),
        ({"nested_lanes": 65}, "Thresholds.nested_lanes is 65, more than lanes, which is 64"),
        ({"strip_rows_most": 16}, "Thresholds.strip_rows_least is 32, more than strip_rows_most, which is 16"),
    ],
)
def test_what_is_none_is_refused(given: dict[str, object], what: str) -> None:
    with pytest.raises(wf.WeftError) as caught:
        wf.Thresholds(**given)  # type: ignore[arg-type]
    assert caught.value.what == what
    assert caught.value.fix


def test_each_is_described() -> None:
    described = wf.Thresholds.__doc__ or ""
    assert [one.name for one in fields(wf.Thresholds) if f"`{one.name}`" not in described] == []


def test_passes_ask_the_options_for_them() -> None:
    x = wf.data(np.zeros((600, 500), "float32"), label="x")
    machine = wf.Machine(cores=2)

    def shown(tensor: wf.Tensor, **lines: object) -> str:
        options = wf.CompileOptions(machine=machine, thresholds=wf.Thresholds(**lines))  # type: ignore[arg-type]
        return wf.Context("cc").compile(tensor.forward, options=options).show("kernels")

    assert "collapsed by 2, on threads by 20032," in shown(x * 2)
    assert "collapsed by 2, on threads by 150016," in shown(x * 2, most_chunks=2)
    total = wf.einsum("ij => i", x)
    assert "for lane in range(64)" in shown(total)
    assert "for lane in range(32)" in shown(total, lanes=32)
    spread = wf.einsum("ij => i", x, accum="logsumexp")
    assert "for lane in range(64)" in shown(spread)
    assert "for lane in range(16)" in shown(spread, states=16)
    assert "in tiles of 3 rows by 1 vector of 16" in shown(wf.einsum("ik; jk => ij", x, x), tile_rows=3, tile_vectors=1)
