"""Whether layers are applied to be trained."""

from __future__ import annotations

import numpy as np
import pytest

import weft as wf
from weft.nn.mode import current_training


def test_nothing_is_trained_outside() -> None:
    assert current_training() is None
    with wf.nn.training(step=0) as mode:
        assert current_training() is mode
        with wf.nn.training(step=1) as inner:
            assert current_training() is inner
        assert current_training() is mode
    assert current_training() is None


def test_a_mistake_inside_leaves_training() -> None:
    with pytest.raises(ZeroDivisionError), wf.nn.training(step=0):
        raise ZeroDivisionError
    assert current_training() is None


def test_updates_are_what_layers_left_in_order() -> None:
    x = wf.data(np.ones(3, np.float32), label="x")

    @wf.cd
    def count(name: str) -> None:
        seen = wf.node(name, init=0.0)
        seen += x

    with wf.nn.training(step=0) as mode:
        assert str(mode.updates) == ""
        for name in ("first", "second"):
            mode.leave(count(name))
    assert str(mode.updates) == "{ first.x; init = 0.0 } =+ x;\n{ second.x; init = 0.0 } =+ x"
