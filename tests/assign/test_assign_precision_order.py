"""Who decides a precision: the rule in a few lines, against the inference, on random graphs."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest
from hypothesis import given, strategies as st

import weft as wf
from weft.assign import Arg
from weft.assign.dtype_inference import DEFAULTS, Precision, show_precisions
from weft.ops import call
from weft.ops.dtypes import WEAK_FLOAT, promote

FLOATS = ["float16", "bfloat16", "float32", "float64"]
#: Data, a terminal that nobody gave a type, computed, computed into a given type, computed and set by hand.
KINDS = ["given", "open", "computed", "cast", "set"]


@dataclass
class One:
    kind: str
    said: str | None
    operands: list[int] = field(default_factory=list)


@st.composite
def graphs(draw: st.DrawFn) -> list[One]:
    nodes = [One("open", None)]
    for at in range(1, draw(st.integers(2, 12))):
        kind = draw(st.sampled_from(KINDS))
        operands = (
            draw(st.lists(st.integers(0, at - 1), min_size=1, max_size=2)) if kind not in ("given", "open") else []
        )
        said = draw(st.sampled_from(FLOATS)) if kind in ("given", "cast", "set") else None
        nodes.append(One(kind, said, operands))
    return nodes


def expected(nodes: list[One], default: str) -> list[str]:
    """What is said; else from below; else from above; else the default."""
    types = [node.said for node in nodes]
    users = [node for node in nodes if node.operands]

    def meeting(node: One) -> str | None:
        known = [found for one in node.operands if (found := types[one])]
        return promote(*known) if known else None

    def raised(at: int, wish: str | None) -> bool:
        before = types[at]
        if wish is not None and nodes[at].said is None:
            types[at] = promote(*(one for one in (before, wish) if one))
        return types[at] != before

    def from_below() -> bool:
        terminals = [(one, meeting(user)) for user in users for one in user.operands if nodes[one].kind == "open"]
        computed = [(at, meeting(node)) for at, node in enumerate(nodes) if node.kind == "computed"]
        return sum([raised(at, wish) for at, wish in terminals + computed]) > 0

    def from_above() -> bool:
        wishes = []
        for at, user in enumerate(nodes):
            wish = meeting(user) or (types[at] if user.kind != "cast" else None)
            wishes += [(one, wish) for one in user.operands if types[one] is None]
        return sum([raised(at, wish) for at, wish in wishes]) > 0

    def from_default() -> bool:
        return (
            sum([raised(at, default) for at, node in enumerate(nodes) if node.kind == "open" and types[at] is None]) > 0
        )

    while from_below() or from_above() or from_default():
        pass
    return [found or default for found in types]


def inferred(nodes: list[One]) -> list[Precision]:
    cells: list[Precision] = []
    for node in nodes:
        if node.kind in ("given", "cast"):
            cells.append(Precision.given(str(node.said)))
        else:
            cells.append(Precision.from_use(WEAK_FLOAT) if node.kind == "open" else Precision.from_operands())
        if node.operands:
            operands = [cells[one] for one in dict.fromkeys(node.operands)]
            value = call("add", *(Arg(at) for at in range(len(operands)))) if len(operands) == 2 else Arg(0)
            cells[-1].computed_by(value, [(Arg(at), cell) for at, cell in enumerate(operands)], sums=False)
    for node, cell in zip(nodes, cells, strict=True):
        if node.kind == "set":
            cell.set_by_hand(str(node.said), "t")
    return cells


@given(graphs(), st.sampled_from(FLOATS), st.randoms())
def test_the_inference_follows_the_rule(nodes: list[One], default: str, random: object) -> None:
    DEFAULTS.value = default
    try:
        cells = inferred(nodes)
    finally:
        DEFAULTS.value = "float32"
    order = list(range(len(cells)))
    random.shuffle(order)  # type: ignore[attr-defined]
    for at in order:
        _ = cells[at].dtype
    assert [cell.dtype for cell in cells] == expected(nodes, default)


def test_who_decided_is_shown() -> None:
    low, high = Precision.from_use(WEAK_FLOAT), Precision.from_operands()
    high.computed_by(Arg(0), [(Arg(0), low)], sums=False)
    high.set_by_hand("bfloat16", "high")
    alone = Precision.from_use(WEAK_FLOAT)
    slope = low.of_gradient()
    named = {"low": low, "high": high, "alone": alone, "low.grad": slope}
    assert show_precisions(named.items()).splitlines() == [
        "low       bfloat16       from its use: `high`; summed in float32",
        "high      bfloat16       set by hand; summed in float32",
        "alone     float32        by default; summed in float32",
        "low.grad  bfloat16       as its tensor: `low`; summed in float32",
    ]


def test_a_type_is_set_once_and_before_it_is_settled() -> None:
    cell = Precision.from_operands()
    cell.set_by_hand("float16", "t")
    cell.set_by_hand("float16", "t")
    for wrong, text in (
        (cell, "`t` is stored in float16 already: set by hand"),
        (Precision.given("int8"), r'fix: wf.cast\(t, "float64"\) has its values in another type'),
    ):
        with pytest.raises(wf.WeftError, match=text):
            wrong.set_by_hand("float64", "t")
