"""One rule at a time, where it matches and where it does not."""

from __future__ import annotations

import pytest

from loops.written import program
from weft.loops import Cast, Local, Store, show_scalar
from weft.ops import Call, Scalar
from weft.optimise.apply_rules import apply_rule, costly, doubled, is_cheap, simpler
from weft.optimise.rules import Rule


def value(text: str) -> Call:
    """A call, typed by what it computes with."""
    store = program(f"W[0] = {text}").body[-1]
    assert isinstance(store, Store)
    found = store.value.value if isinstance(store.value, Cast) else store.value
    assert isinstance(found, Call)
    return found


def nothing(local: Local) -> Scalar | None:
    return None


#: A rule, a scalar, and what becomes of it; nothing where the rule does not match.
CASES = [
    (Rule("mul(x, 1)", "x"), "V[0] * 1.0", "V[0]"),
    (Rule("mul(x, 1)", "x"), "1.0 * V[0]", "V[0]"),
    (Rule("mul(x, 1)", "x"), "V[0] * 2.0", ""),
    (Rule("sub(x, x)", "0", "real"), "V[0] - V[0]", ""),
    (Rule("sub(x, x)", "0", "whole"), "K[0] - K[0]", "0"),
    (Rule("sub(x, x)", "0", "whole"), "K[0] - K[1]", ""),
    (Rule("neg(neg(x))", "x"), "neg(neg(exp(V[0])))", "exp(V[0])"),
    (Rule("mul(x, C)", "add(x, x)", given=lambda C: C == 2), "V[0] * 2.0", "(V[0] + V[0])"),
    (Rule("mul(x, C)", "add(x, x)", given=lambda C: C == 2), "V[0] * 3.0", ""),
    (Rule("mul(x, C)", "add(x, x)", given=lambda C: C == 2), "exp(V[0]) * 2.0", ""),
    (Rule("add(x, 0)", "x", "unsigned"), "exp(V[0]) + 0.0", "exp(V[0])"),
    (Rule("add(x, 0)", "x", "unsigned"), "V[0] + 0.0", ""),
]


@pytest.mark.parametrize(("rule", "before", "after"), CASES, ids=str)
def test_before_and_after(rule: Rule, before: str, after: str) -> None:
    found = apply_rule(rule, value(before), False, nothing)
    assert (show_scalar(found) if found is not None else "") == after


def test_fast_math_lets_more_rules_apply() -> None:
    rule = Rule("sub(x, x)", "0", "real")
    found = apply_rule(rule, value("V[0] - V[0]"), True, nothing)
    assert found is not None
    assert show_scalar(found) == "0.0"


def test_a_costly_operand_is_written_twice_only_if_asked() -> None:
    rule = Rule("mul(x, C)", "add(x, x)", given=lambda C: C == 2)
    call = value("exp(V[0]) * 2.0")
    assert doubled(rule) == ("x",)
    assert costly(rule, call, False, nothing) == [call.args[0]]
    assert not is_cheap(call.args[0])
    found = apply_rule(rule, call, False, nothing, doubling=True)
    assert found is not None
    assert show_scalar(found) == "(exp(V[0]) + exp(V[0]))"


def test_a_variable_is_looked_into_where_that_is_allowed() -> None:
    rule = Rule("neg(neg(x))", "x")
    inner = value("neg(V[0])")
    outer = Call("neg", (Local("t", "float32"),))
    assert apply_rule(rule, outer, False, nothing) is None
    assert apply_rule(rule, outer, False, lambda local: inner) == inner.args[0]


def test_the_first_rule_that_applies_wins() -> None:
    found = simpler(value("V[0] * 1.0"), False, nothing)
    assert found is not None
    assert show_scalar(found) == "V[0]"
    assert simpler(value("V[0] * V[1]"), False, nothing) is None
