"""Rules applied: where the left side of an equation matches a scalar, its right side, typed."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from functools import cache
from math import copysign

import numpy as np

from weft.affine import Affine
from weft.loops.constants import constant_folded, constant_of, constant_value
from weft.loops.insert_casts import dtype_of
from weft.loops.nodes import Cast, Local
from weft.loops.walk import walk
from weft.ops import OPS, Call, Num, Scalar
from weft.ops.dtypes import WEAK_FLOAT, WEAK_INT, carrier, is_float
from weft.optimise.rules import BY_OP, PatternVariable, Rule, parse_pattern
from weft.optimise.signed_zeros import unsigned

#: What each letter of an equation stands for.
Bindings = Mapping[str, Scalar]
#: The call a variable is known to hold, if a rule may match it in place of the variable.
KnownCall = Callable[[Local], Scalar | None]
#: Is a scalar never -0.0?
Unsigned = Callable[[Scalar], bool]


def plainly(scalar: Scalar) -> bool:
    """Is a scalar never -0.0, whatever its variables hold?"""
    return unsigned(scalar, lambda local: None)


def simpler(call: Call, fast: bool, definition: KnownCall, unsigned: Unsigned = plainly) -> Scalar | None:
    """What the first rule that applies makes of a call; None where none does."""
    has = _has(call, definition)
    for rule, needs in _with_needs(call.op):
        found = apply_rule(rule, call, fast, definition, unsigned) if needs <= has else None
        if found is not None:
            return found
    return None


class _Mismatch(Exception):
    """A right side that has no meaning in the types at hand."""


def apply_rule(
    rule: Rule,
    call: Call,
    fast: bool,
    definition: KnownCall,
    unsigned: Unsigned = plainly,
    *,
    doubling: bool = False,
) -> Scalar | None:
    """What a rule makes of a call; None where it does not apply.

    A rule that writes an operand twice applies where that costs nothing; with `doubling`, wherever it matches.
    """
    for bound in _matches(parse_pattern(rule.left), call, {}, definition):
        if not _holds(rule, bound, fast, unsigned) or not (
            doubling or all(is_cheap(bound[name]) for name in doubled(rule))
        ):
            continue
        try:
            return built(parse_pattern(rule.right), bound, dtype_of(call))
        except _Mismatch:
            continue
    return None


def costly(rule: Rule, call: Call, fast: bool, definition: KnownCall) -> list[Scalar]:
    """The operands that a rule would write twice, where only their cost keeps it from being applied."""
    if apply_rule(rule, call, fast, definition, doubling=True) is None:
        return []
    bound = next(_matches(parse_pattern(rule.left), call, {}, definition))
    return [bound[name] for name in doubled(rule) if not is_cheap(bound[name])]


def is_cheap(scalar: Scalar) -> bool:
    """Does it cost nothing to write a scalar once more?"""
    return not any(isinstance(one, Call) for one in walk(scalar))


def same(one: Scalar, other: Scalar) -> bool:
    """Are two scalars the same? Zeros of different sign are not."""
    return one is other or (one == other and repr(one) == repr(other))


@cache
def doubled(rule: Rule) -> tuple[str, ...]:
    """The letters that stand more often on the right of an equation than on its left."""
    sides = (walk(parse_pattern(text)) for text in (rule.left, rule.right))
    left, right = (Counter(one.name for one in side if isinstance(one, PatternVariable)) for side in sides)
    return tuple(name for name, times in right.items() if times > left[name])


@cache
def doubling(op: str) -> tuple[Rule, ...]:
    """The rules of an operation that write an operand more often than they found it."""
    return tuple(rule for rule in BY_OP.get(op, ()) if doubled(rule))


@cache
def _with_needs(op: str) -> tuple[tuple[Rule, frozenset[str]], ...]:
    return tuple((rule, _needs(rule)) for rule in BY_OP.get(op, ()))


def _needs(rule: Rule) -> frozenset[str]:
    """What the operands on the left of an equation must be, by which most rules are seen not to apply."""
    return frozenset(filter(None, map(_sort, parse_pattern(rule.left).args)))  # type: ignore[attr-defined]


def _has(call: Call, definition: KnownCall) -> frozenset[str]:
    held = (definition(arg) if isinstance(arg, Local) else arg for arg in call.args)
    return frozenset(_sort(arg) for arg in held if arg is not None)


def _sort(scalar: Scalar) -> str:
    match scalar:
        case Call(op=op):
            return op
        case PatternVariable(constant=False):
            return ""
        case Num() | PatternVariable():
            return "constant"
        case Cast(value=value):
            return "constant" if isinstance(value, Num) else "number"
        case Affine(terms=()):
            return "constant"
    return ""


def _holds(rule: Rule, bound: Bindings, fast: bool, unsigned: Unsigned) -> bool:
    floats = any(is_float(dtype_of(one)) for one in bound.values())
    where = {"always": True, "whole": not floats, "real": fast or not floats, "fast": fast and floats}
    if not (where[rule.holds] if rule.holds != "unsigned" else where["real"] or unsigned(bound["x"])):
        return False
    if rule.given is None:
        return True
    return rule.given(**{name: constant_value(one) for name, one in bound.items() if name.isupper()})


def _matches(pattern: Scalar, scalar: Scalar, bound: Bindings, definition: KnownCall) -> Iterator[Bindings]:
    """Every way to read a scalar as one side of an equation."""
    match pattern:
        case PatternVariable(name=name):
            if name in bound:
                fits = same(bound[name], scalar)
            else:
                fits = not pattern.constant or constant_value(scalar) is not None
            if fits:
                yield {**bound, name: scalar}
        case Num(value=value):
            if _is_number(scalar, value):
                yield bound
        case Call(op="number", args=(inner,)):
            if isinstance(scalar, Cast) and not isinstance(scalar.value, Num) and dtype_of(scalar.value) == "bool":
                yield from _matches(inner, scalar.value, bound, definition)
        case Call(op=op, args=args):
            found = definition(scalar) if isinstance(scalar, Local) else scalar
            if isinstance(found, Call) and found.op == op:
                yield from _all(args, found.args, bound, definition)
                if OPS[op].commutative:
                    yield from _all(args, found.args[::-1], bound, definition)


def _all(
    patterns: tuple[Scalar, ...], scalars: tuple[Scalar, ...], bound: Bindings, definition: KnownCall
) -> Iterator[Bindings]:
    if not patterns:
        yield bound
        return
    for first in _matches(patterns[0], scalars[0], bound, definition):
        yield from _all(patterns[1:], scalars[1:], first, definition)


def _is_number(scalar: Scalar, number: float | int | bool) -> bool:
    """Is it this number? Truth values are no numbers here, and zeros have their sign."""
    value = constant_value(scalar)
    if value is None or isinstance(number, bool) != (value.dtype.kind == "b") or value != number:
        return False
    return bool(value) or value.dtype.kind != "f" or bool(np.signbit(value)) == (copysign(1, number) < 0)


def built(pattern: Scalar, bound: Bindings, dtype: str) -> Scalar:
    """One side of an equation as a scalar of a type, with constants of the types they meet."""
    match pattern:
        case Num():
            made: Scalar = constant_of(constant_value(Cast(dtype, pattern)), dtype)
        case Call(op="number", args=(inner,)):
            made = Cast(dtype, built(inner, bound, "bool"))
        case Call(op=op, args=args):
            wanted, _ = OPS[op].typing(*(_type(arg, bound) for arg in args))
            call = Call(op, tuple(built(arg, bound, carrier(one)) for arg, one in zip(args, wanted, strict=True)))
            constants = all(constant_value(arg) is not None for arg in call.args)
            found = constant_folded(call) if constants else call
            if found is None:
                raise _Mismatch
            made = found
        case PatternVariable(name=name):
            made = bound[name]
        case _:
            raise AssertionError(f"not a side of an equation: {pattern!r}")
    if dtype_of(made) != dtype:
        raise _Mismatch
    return made


def _type(pattern: Scalar, bound: Bindings) -> str:
    match pattern:
        case Num(value=bool()):
            return "bool"
        case Num(value=float()):
            return WEAK_FLOAT
        case PatternVariable(name=name):
            return dtype_of(bound[name])
        case Call(op=op, args=args) if op != "number":
            return OPS[op].typing(*(_type(arg, bound) for arg in args))[1]
    return WEAK_INT
