"""Which buffers are stored, and why."""

from __future__ import annotations

from textwrap import dedent

import pytest

from loops.written import H, V, X, program
from weft.loops.nests import nests
from weft.optimise.inline_decision import Settings, Verdict, decide

#: What reads V, or changes what it was computed from, and the verdict on V.
CASES = {
    "read once": ("for i in range(4):\n    H[i] = V[i]", Verdict(False, "read once")),
    "read in a loop that it does not depend on": (
        "for i in range(4):\n    for j in range(3):\n        X[i, j] = V[i]",
        Verdict(False, "read once"),
    ),
    "read in two nests": (
        "for i in range(4):\n    H[i] = V[i]\nfor i in range(4):\n    for j in range(3):\n        X[i, j] = V[i]",
        Verdict(True, "read 2 times"),
    ),
    "read at two cells": ("for i in range(3):\n    H[i] = V[i] + V[i + 1]", Verdict(True, "read 2 times")),
    "nobody reads it": ("for i in range(4):\n    H[i] = 0.0", Verdict(False, "nobody reads it")),
    "what it is computed from changes": (
        "for i in range(4):\n    W[i] = 0.0\nfor i in range(4):\n    H[i] = V[i]",
        Verdict(True, "`W` changes before it is read"),
    ),
    "its own cell changes where it is read": (
        "for i in range(4):\n    W[i] = V[i] * 2.0",
        Verdict(False, "read once"),
    ),
    "written again": (
        "for i in range(4):\n    H[i] = V[i]\nfor i in range(4):\n    V[i] = 0.0",
        Verdict(True, "overwritten after it is read"),
    ),
    "gathered": (
        "for i in range(4):\n    H[i] = V[K[i]]",
        Verdict(True, "`H` reads it at indices that its loops cannot be solved for"),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_verdict(name: str) -> None:
    rest, verdict = CASES[name]
    found = nests(program(f"for i in range(4):\n    V[i] = exp(W[i])\n{dedent(rest)}"))
    assert decide(found, {H: "wanted", X: "wanted"})[V] == verdict


def test_what_is_added_to_from_before_is_stored() -> None:
    found = nests(program("for i in range(4):\n    V[i] += W[i]\nfor i in range(4):\n    H[i] = V[i]"))
    assert decide(found, {H: "wanted"})[V] == Verdict(True, "its old value is read")


def test_what_goes_on_from_iteration_to_iteration_is_stored() -> None:
    text = "V[0] = 0.0\nfor i in range(4):\n    for j in range(3):\n        V[0] += X[i, j]\n    H[i] = V[0]"
    verdict = Verdict(True, "accumulates across iterations of a loop that others share")
    assert decide(nests(program(text)), {H: "wanted"})[V] == verdict


def test_copies_cost_nothing() -> None:
    found = nests(program("for i in range(4):\n    V[i] = W[i]\nfor i in range(3):\n    H[i] = V[i] + V[i + 1]"))
    assert decide(found, {H: "wanted"})[V] == Verdict(False, "nothing to compute")


def test_settings() -> None:
    found = nests(program("for i in range(4):\n    V[i] = exp(W[i])\nfor i in range(3):\n    H[i] = V[i] + V[i + 1]"))
    assert decide(found, {H: "wanted"}, Settings(max_visits=2))[V] == Verdict(False, "read 2 times")
    assert decide(found, {H: "wanted"}, Settings(device_only=False))[V] == Verdict(True, "everything is stored")
    assert decide(found, {H: "wanted", V: "wanted, too"})[V] == Verdict(True, "wanted, too")


TWICE = "for i in range(4):\n    V[i] = {}\nfor i in range(3):\n    H[i] = V[i] + V[i + 1]"


@pytest.mark.parametrize(
    ("value", "stored"),
    {
        "W[i] * 2.0": False,
        "W[i] * X[0, 0]": True,  # X is larger
        "W[i] + W[i] * W[i]": False,
        "W[3 - i] * 2.0": True,
        "exp(exp(exp(W[i])))": True,
        "W[i] * float32(K[i])": True,
    }.items(),
)
def test_where_memory_is_dear_values_are_computed_from_one_as_large(value: str, stored: bool) -> None:
    found = nests(program(TWICE.format(value)))
    few = decide(found, {H: "wanted"}, Settings(again=16))[V]
    assert few.stored == stored
    assert few.why in ("read 2 times", "read 2 times, from what is as large")
    assert decide(found, {H: "wanted"})[V].stored
