"""Every equation of the table of rules, tried on the NumPy meaning of the operations in every type it claims."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import product

import numpy as np
import pytest

from weft.errors import WeftError
from weft.loops import Cast, Local, dtype_of, show_scalar, walk
from weft.loops.interp.values import evaluated
from weft.loops.walk import rewritten
from weft.ops import OPS, Call, Num, Scalar
from weft.ops.dtypes import is_float
from weft.optimise.apply_rules import apply_rule
from weft.optimise.rules import RULES, PatternVariable, Rule, parse_pattern
from weft.optimise.simplify import simplified

TYPES = ("bool", "int64", "uint64", "float32", "float64")
#: What capitals stand for; conditions choose among them.
CONSTANTS = {
    "bool": (False, True),
    "int64": (0, 1, -1, 2, 7, -(1 << 63), (1 << 63) - 1),
    "uint64": (0, 1, 3, (1 << 64) - 1),
    "float32": (0.0, -0.0, 1.0, -1.0, 2.0, -0.25, 0.1, 3.0, 1e30, float("inf"), float("-inf")),
    "float64": (0.0, -0.0, 1.0, -1.0, 2.0, -0.25, 0.1, 3.0, 1e300, float("inf"), float("-inf")),
}


def special(dtype: str) -> list[float | int | bool]:
    """Values at which equations fail that hold elsewhere."""
    if dtype == "bool":
        return [False, True]
    if not is_float(dtype):
        info = np.iinfo(dtype)
        return [0, 1, 2, 3, 3037000500, info.max, info.max - 1, info.max // 2 + 1] + (
            [-1, -2, -3, info.min] if info.min else []
        )
    tiny = np.finfo(dtype)
    return [
        *(0.0, -0.0, 1.0, -1.0, 2.0, -2.0, 0.5, 3.7, -2.3, np.inf, -np.inf, np.nan),
        *map(float, (tiny.smallest_subnormal, tiny.smallest_normal, tiny.max, -tiny.max, tiny.max**0.4)),
    ]


def values(dtype: str, letters: int, *, moderate: bool) -> list[np.ndarray]:
    """Values for each letter: all combinations of special ones, and random ones."""
    numbers = np.random.default_rng(3)
    if dtype == "bool":
        grid = np.array(list(product([False, True], repeat=letters)), bool)
        return [np.resize(grid[:, at], 500) for at in range(letters)]
    if moderate:
        signs = numbers.choice([-1, 1], (letters, 500))
        return list((signs * numbers.uniform(0.3, 3, (letters, 500))).astype(dtype))
    every = np.array(list(product(special(dtype), repeat=letters)), dtype=dtype).T
    random = (
        numbers.normal(0, 3, (letters, 300)).astype(dtype)
        if is_float(dtype)
        else numbers.integers(0, 9, (letters, 300))
    )
    return [np.concatenate([one, other.astype(dtype)]) for one, other in zip(every, random, strict=True)]


@dataclass(frozen=True)
class Case:
    """The left side of an equation in certain types, and what the rule makes of it."""

    left: Call
    right: Scalar
    fast: bool


def letters(rule: Rule, *, constant: bool) -> list[str]:
    found = (
        one for one in walk(parse_pattern(rule.left)) if isinstance(one, PatternVariable) and one.constant == constant
    )
    return list(dict.fromkeys(one.name for one in found))


def made(pattern: Scalar, bound: dict[str, Scalar], dtype: str, minus: bool = False) -> Scalar:
    """One side of an equation with `dtype` for the numbers in it that meet nothing else; `minus`: its zeros negated."""
    match pattern:
        case PatternVariable(name=name):
            return bound[name]
        case Num(value=bool()):
            return Cast("bool", pattern)
        case Num(value=value):
            return Cast(dtype, Num(-float(value)) if minus and value == 0 and is_float(dtype) else pattern)
        case Call(op="number", args=(inner,)):
            return Cast(dtype, made(inner, bound, "bool"))
    assert isinstance(pattern, Call)
    return Call(pattern.op, tuple(made(one, bound, dtype, minus) for one in pattern.args))


def well_typed(scalar: Scalar) -> bool:
    calls = [one for one in walk(scalar) if isinstance(one, Call)]
    try:
        return all(OPS[one.op].typing(*map(dtype_of, one.args))[0] == tuple(map(dtype_of, one.args)) for one in calls)
    except WeftError:  # types that do not meet
        return False


def cases(rule: Rule) -> Iterator[Case]:
    """The rule in every type in which it applies."""
    parts, capitals = letters(rule, constant=False), letters(rule, constant=True)
    for types in product(TYPES, repeat=len(parts)):
        for dtype in TYPES:
            for numbers in product(CONSTANTS[dtype], repeat=len(capitals)):
                bound: dict[str, Scalar] = {name: Local(name, one) for name, one in zip(parts, types, strict=True)}
                bound |= {name: Cast(dtype, Num(one)) for name, one in zip(capitals, numbers, strict=True)}
                lefts = [made(parse_pattern(rule.left), bound, dtype, minus) for minus in (False, True)]
                for left in lefts if repr(lefts[0]) != repr(lefts[1]) else lefts[:1]:
                    assert isinstance(left, Call)
                    if not well_typed(left):
                        continue
                    for fast in (False, True):
                        right = apply_rule(rule, left, fast, lambda local: None, doubling=True)
                        if right is not None:
                            yield Case(left, right, fast)
                            break


def disagreement(case: Case, *, rounds: bool) -> str:
    """What the two sides of an equation come to where they differ; empty if they do not."""
    locals = dict.fromkeys(one for one in walk(case.left) if isinstance(one, Local))
    env = {}
    for dtype in TYPES:
        same = [one for one in locals if one.dtype == dtype]
        given = values(dtype, len(same), moderate=case.fast) if same else []
        env |= {one: [array] for one, array in zip(same, given, strict=True)}
    longest = max((len(one[0]) for one in env.values()), default=1)
    env = {one: [np.resize(array, longest)] for one, (array,) in env.items()}
    with np.errstate(all="ignore"):
        left, right = (worth(one, env, longest) for one in (case.left, case.right))
    wrong = ~agree(left, right, fast=case.fast, rounds=rounds)
    if not wrong.any():
        return ""
    at = int(np.flatnonzero(wrong)[0])
    where = ", ".join(f"{one.name} = {one.dtype}({array[at]})" for one, (array,) in env.items())
    sides = f"{show_scalar(case.left)} is {left[at]}, {show_scalar(case.right)} is {right[at]}"
    return f"{sides}, where {where}"


def worth(scalar: Scalar, env: dict[Local, list[np.ndarray]], size: int) -> np.ndarray:
    """What a scalar comes to, with arrays for constants too: NumPy takes short cuts for powers by a number."""
    spread = {}

    def leaf(one: Scalar) -> Scalar | None:
        if not isinstance(one, Cast) or not isinstance(one.value, Num):
            return None
        local = Local(f"constant {len(spread)}", one.dtype)
        spread[local] = [np.full(size, evaluated(one, {}, {}))]
        return local

    plain = rewritten(scalar, leaf)
    return np.broadcast_to(evaluated(plain, {}, {**env, **spread}), size)


def agree(left: np.ndarray, right: np.ndarray, *, fast: bool, rounds: bool) -> np.ndarray:
    if not is_float(left.dtype.name):
        return np.asarray(left == right)
    with np.errstate(all="ignore"):
        info = np.finfo(left.dtype)
        if fast:
            return ~np.isfinite(left) | np.isclose(left, right, rtol=2e-5, atol=2e-5)
        digits = (4 * info.eps, 4 * float(info.smallest_subnormal)) if rounds else (0, 0)
        close = np.isclose(left, right, *digits, equal_nan=True)
        zero = (left == 0) & (right == 0)
        return close & (~zero | (np.signbit(left) == np.signbit(right)))


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_is_true(rule: Rule) -> None:
    found = list(cases(rule))
    assert found, "no types in which the rule applies"
    for case in found:
        assert dtype_of(case.right) == dtype_of(case.left)
        assert well_typed(case.right)
        assert disagreement(case, rounds=rule.rounds) == ""


@pytest.mark.parametrize("rule", [one for one in RULES if one.holds != "always"], ids=str)
def test_only_what_always_holds_is_applied_to_floats_without_fast_math(rule: Rule) -> None:
    for case in cases(rule):
        floats = [one for one in walk(case.left) if isinstance(one, Local) and is_float(dtype_of(one))]
        assert case.fast or not floats


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_simplifying_applies_every_rule(rule: Rule) -> None:
    """What all rules together make of a left side means the same, and is not what it was."""
    for case in cases(rule):
        simple = simplified(case.left, case.fast)
        assert simple != case.left
        assert dtype_of(simple) == dtype_of(case.left)
        assert simplified(simple, case.fast) is simple
        assert disagreement(Case(case.left, simple, case.fast), rounds=rule.rounds) == ""


WRONG = [
    Rule("mul(x, 0)", "0"),
    Rule("sub(x, x)", "0"),
    Rule("add(x, 0)", "x"),
    Rule("sub(0, x)", "neg(x)"),
    Rule("sub(x, -0.0)", "x"),
    Rule("neg(sub(x, y))", "sub(y, x)"),
    Rule("fma(x, y, 0)", "mul(x, y)"),
    Rule("mul(x, number(c))", "where(c, x, 0)"),
    Rule("add(add(x, C), D)", "add(x, add(C, D))"),
    Rule("div(x, C)", "mul(x, recip(C))"),
    Rule("pow(x, 0.5)", "sqrt(x)"),
    Rule("pow(x, -2)", "recip(mul(x, x))"),
    Rule("pow(x, 4)", "mul(mul(x, x), x)"),
    Rule("eq(x, x)", "True"),
    Rule("not_(lt(x, y))", "le(y, x)"),
    Rule("where(c, x, y)", "x"),
    Rule("abs(neg(x))", "abs(x)"),
    Rule("abs(mul(x, x))", "mul(x, x)"),
    Rule("floor(x)", "x"),
    Rule("max(x, 0)", "x", "whole"),
    Rule("exp(log(x))", "exp(x)", "fast"),
    Rule("recip(sqrt(x))", "sqrt(x)", "fast"),
    Rule("mod(x, 2)", "0", "whole"),
]


@pytest.mark.parametrize("rule", WRONG, ids=str)
def test_wrong_rules_are_found_out(rule: Rule) -> None:
    assert any(disagreement(case, rounds=rule.rounds) for case in cases(rule))


WORK = {
    "neg": 0.5,
    "not": 0.5,
    "number": 0.5,
    "fma": 3,
    "select": 3,
    "floordiv": 12,
    "div": 12,
    "recip": 10,
    "sqrt": 10,
    "recip_sqrt": 12,
    "pow": 40,
}


def work(pattern: Scalar) -> float:
    """What a side of an equation costs; constants are computed beforehand."""
    match pattern:
        case Call(op=op, args=args):
            parts = [one for one in walk(pattern) if isinstance(one, PatternVariable)]
            constant = all(one.constant for one in parts) and op != "number"
            return 0 if constant else WORK.get(op, 2) + sum(map(work, args))
        case PatternVariable(constant=False):
            return 0.1
    return 0


@pytest.mark.parametrize("rule", RULES, ids=str)
def test_every_rule_makes_less_work(rule: Rule) -> None:
    """So rewriting ends."""
    assert work(parse_pattern(rule.right)) < work(parse_pattern(rule.left))


def test_equations_are_read_as_patterns() -> None:
    x, c = PatternVariable("x", constant=False), PatternVariable("C", constant=True)
    assert parse_pattern("add(x, not_(-1))") == Call("add", (x, Call("not", (Num(-1),))))
    assert parse_pattern("where(True, C, 0.5)") == Call("where", (Num(True), c, Num(0.5)))
    with pytest.raises(AssertionError, match=r"not an equation of scalars: x \+ 1"):
        parse_pattern("x + 1")


def test_every_pattern_is_of_operations_there_are() -> None:
    for rule in RULES:
        for one in (*walk(parse_pattern(rule.left)), *walk(parse_pattern(rule.right))):
            if isinstance(one, Call) and one.op != "number":
                assert len(one.args) == OPS[one.op].arity, rule
        assert set(letters(Rule(rule.right, ""), constant=False)) <= set(letters(rule, constant=False))
